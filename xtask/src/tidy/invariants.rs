//! ARCHITECTURE.md lists the invariants, and for each the tests that would fail without it.

use super::rows::test_names;
use super::{File, Finding};
use std::collections::BTreeSet;

const PAGE: &str = "ARCHITECTURE.md";
const LAST: u32 = 22;

/// Checks that every invariant has its row, and every row names tests that run.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|f| f.path == PAGE) else {
        return vec![Finding::of_the_house(format!("{PAGE} is missing"))];
    };
    let tests: BTreeSet<String> = files
        .iter()
        .filter(|f| f.is_rust())
        .flat_map(|f| test_names(&f.text))
        .collect();
    let mut found = Vec::new();
    let mut untested = Vec::new();
    for number in 1..=LAST {
        let start = format!("| I{number} |");
        let Some((line, at)) = page
            .text
            .lines()
            .zip(1..)
            .find(|(l, _)| l.starts_with(&start))
        else {
            found.push(page.finding(1, format!("the row of I{number} is missing")));
            continue;
        };
        let cell = line.split('|').nth(3).unwrap_or_default();
        let named: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            untested.push(format!("I{number}"));
        }
        for name in named.iter().filter(|name| !tests.contains(**name)) {
            found.push(page.finding(at, format!("I{number} names `{name}`, which is no test")));
        }
    }
    if !untested.is_empty() {
        let list = untested.join(" ");
        found.push(page.finding(1, format!("invariants that name no test: {list}")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(row: impl Fn(u32) -> Option<String>) -> Vec<String> {
        let text: Vec<String> = (1..=LAST).filter_map(row).collect();
        let files = [
            File::new(PAGE, &text.join("\n")),
            File::new("src/a.rs", "#[test] fn it_holds() { go() }"),
        ];
        check(&files).into_iter().map(|f| f.to_string()).collect()
    }

    #[test]
    fn a_whole_page_is_quiet() {
        let row = |n| Some(format!("| I{n} | Uses `code`. | `it_holds`, `it_holds` |"));
        assert_eq!(page(row), [""; 0]);
    }

    #[test]
    fn a_missing_row_an_empty_cell_and_an_unknown_test_are_found() {
        let said = page(|n| match n {
            3 => None,
            4 => Some("| I4 | Uses `code`. |  |".into()),
            5 => Some("| I5 | Holds. | `it_does_not` |".into()),
            n => Some(format!("| I{n} | Holds. | `it_holds` |")),
        });
        assert_eq!(
            said,
            [
                "ARCHITECTURE.md:1: the row of I3 is missing",
                "ARCHITECTURE.md:4: I5 names `it_does_not`, which is no test",
                "ARCHITECTURE.md:1: invariants that name no test: I4",
            ]
        );
        assert_eq!(check(&[]).len(), 1);
    }
}

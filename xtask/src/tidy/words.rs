//! Words that no file of the project may hold: a promise too wide, and paths of one machine.

use super::{File, Finding};

/// The promise that no client can keep alone, split so that this file does not hold it either.
const TOO_WIDE: [&str; 2] = [concat!("exact", "ly"), "once"];
/// Beginnings of paths that exist on one machine only.
const MACHINE: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("C:", "\\Users\\"),
];

/// Checks every text file.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    files
        .iter()
        .flat_map(|f| wide(f).into_iter().chain(paths(f)))
        .collect()
}

/// Finds the words in any case, across hyphens, comment marks and line breaks.
fn wide(file: &File) -> Vec<Finding> {
    let mut words = file.text.lines().zip(1..).flat_map(|(line, number)| {
        line.split(|c: char| !c.is_alphanumeric())
            .filter(|w| !w.is_empty())
            .map(move |w| (w.to_lowercase(), number))
    });
    let mut found = Vec::new();
    let mut before = String::new();
    for (word, line) in &mut words {
        if before == TOO_WIDE[0] && word == TOO_WIDE[1] {
            found.push(file.finding(
                line,
                format!(
                    "\"{}\" promises more than a client can keep",
                    TOO_WIDE.join(" ")
                ),
            ));
        }
        before = word;
    }
    found
}

fn paths(file: &File) -> Vec<Finding> {
    let mut found = Vec::new();
    for (line, number) in file.text.lines().zip(1..) {
        for start in MACHINE {
            // A path begins a word; `example.com/home/` and `src/work/` are none.
            let begins = |at: usize| {
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-~/}>".contains(c))
            };
            if line.match_indices(start).any(|(at, _)| begins(at)) {
                found.push(file.finding(number, format!("a path of one machine: {start}")));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        check(&[File::new("README.md", text)]).len()
    }

    #[test]
    fn the_wide_promise_is_found_in_every_spelling() {
        for joint in [" ", "-", "  ", "\n", "\n/// ", "\n    // "] {
            assert_eq!(
                count(&format!("It runs {}.", TOO_WIDE.join(joint))),
                1,
                "{joint:?}"
            );
        }
        assert_eq!(count(&TOO_WIDE.join(" ").to_uppercase()), 1);
        assert_eq!(count("it is done once, and under exactly one key"), 0);
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        for start in MACHINE {
            assert_eq!(count(&format!("see `{start}me/x`")), 1, "{start}");
            assert_eq!(count(&format!("{start}me")), 1, "{start}");
        }
        assert_eq!(
            count(concat!(
                "https://shop.example/ho",
                "me/ and src/wo",
                "rk/x.rs"
            )),
            0
        );
    }
}

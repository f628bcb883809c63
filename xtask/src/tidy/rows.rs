//! Every numbered case of the contract stands in the name of a test that runs.

use super::tokens::{Kind, Token, after_closing, starts, tokens};
use super::{File, Finding};
use std::collections::BTreeSet;

/// A family of numbered cases.
struct Family {
    letter: char,
    what: &'static str,
    last: u32,
    /// Numbers that do not apply: A29 and E33 are about `Expect`, which is never sent.
    except: &'static [u32],
    /// The folder whose tests count.
    under: &'static str,
}

const FAMILIES: &[Family] = &[
    Family {
        letter: 'a',
        what: "answer",
        last: 42,
        except: &[29],
        under: "",
    },
    Family {
        letter: 't',
        what: "transport event",
        last: 17,
        except: &[],
        under: "",
    },
    Family {
        letter: 'e',
        what: "edge case",
        last: 58,
        except: &[33],
        under: "",
    },
    Family {
        letter: 'm',
        what: "duty of the server",
        last: 32,
        except: &[],
        under: "crates/samekey-mock/",
    },
];

impl Family {
    fn required(&self) -> impl Iterator<Item = u32> + '_ {
        (1..=self.last).filter(|n| !self.except.contains(n))
    }
}

/// Names the cases without a test.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let tests: Vec<(&str, String)> = files
        .iter()
        .filter(|f| f.is_rust() && !f.path.starts_with("xtask/"))
        .flat_map(|f| {
            test_names(&f.text)
                .into_iter()
                .map(|name| (f.path.as_str(), name))
        })
        .collect();
    let mut found = Vec::new();
    for family in FAMILIES {
        let tested: BTreeSet<u32> = tests
            .iter()
            .filter(|(path, _)| path.starts_with(family.under))
            .flat_map(|(_, name)| numbers(name, family.letter))
            .collect();
        let missing: Vec<String> = family
            .required()
            .filter(|n| !tested.contains(n))
            .map(|n| format!("{}{n}", family.letter.to_ascii_uppercase()))
            .collect();
        if !missing.is_empty() {
            found.push(Finding::of_the_house(format!(
                "{} of {} rows without a test whose name begins with the number ({}): {}",
                missing.len(),
                family.required().count(),
                family.what,
                missing.join(" ")
            )));
        }
    }
    found
}

/// The numbers that a name begins with: `a21_a22_in_flight` is about A21 and A22.
fn numbers(name: &str, letter: char) -> Vec<u32> {
    name.split('_')
        .map_while(|part| {
            let mut chars = part.chars();
            let family = chars
                .next()
                .filter(|c| FAMILIES.iter().any(|f| f.letter == *c))?;
            let digits = chars.as_str();
            let number = digits.parse().ok().filter(|_| digits.len() <= 2)?;
            Some((family, number))
        })
        .filter(|(family, _)| *family == letter)
        .map(|(_, number)| number)
        .collect()
}

/// The names of the tests that run: ignored ones and empty ones do not.
pub(super) fn test_names(source: &str) -> Vec<String> {
    let all = tokens(source);
    let mut found = Vec::new();
    let mut at = 0;
    while at < all.len() {
        if !starts(&all, at, &["#", "["]) {
            at += 1;
            continue;
        }
        let (mut test, mut ignored) = (false, false);
        while starts(&all, at, &["#", "["]) {
            let end = after_closing(&all, at + 1);
            let attribute = &all[at..end];
            test |= is_test(attribute);
            ignored |= attribute.iter().any(|t| t.text == "ignore");
            at = end;
        }
        while all
            .get(at)
            .is_some_and(|t| matches!(t.text, "pub" | "async" | "unsafe"))
        {
            at += 1;
        }
        let name = all.get(at + 1).filter(|t| t.kind == Kind::Name);
        if let (true, false, true, Some(name)) = (test, ignored, starts(&all, at, &["fn"]), name) {
            let body = (at..all.len()).find(|i| all[*i].text == "{");
            if body.is_some_and(|open| !starts(&all, open + 1, &["}"])) {
                found.push(name.text.to_owned());
            }
        }
    }
    found
}

/// `#[test]`, `#[tokio::test(…)]`, `#[wasm_bindgen_test]`.
fn is_test(attribute: &[Token<'_>]) -> bool {
    attribute[2..]
        .iter()
        .take_while(|t| t.text != "(" && t.text != "]")
        .any(|t| t.text == "test" || t.text == "wasm_bindgen_test")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_names() -> Vec<String> {
        let of = |f: &'static Family| {
            f.required()
                .map(move |n| format!("{}{n:02}_works", f.letter))
        };
        FAMILIES.iter().flat_map(of).collect()
    }

    fn house(names: &[String]) -> Vec<File> {
        let text: String = names
            .iter()
            .map(|n| format!("#[test]\nfn {n}() {{ assert!(true); }}\n"))
            .collect();
        vec![File::new("crates/samekey-mock/tests/rows.rs", &text)]
    }

    #[test]
    fn the_ranges_are_those_of_the_contract() {
        let counts: Vec<usize> = FAMILIES.iter().map(|f| f.required().count()).collect();
        assert_eq!(counts, [41, 17, 57, 32]);
    }

    #[test]
    fn a_full_house_is_quiet_and_each_missing_number_is_named() {
        let names = all_names();
        assert_eq!(check(&house(&names)), []);
        for gone in 0..names.len() {
            let mut rest = names.clone();
            let missing = rest.remove(gone);
            let found = check(&house(&rest));
            let number: u32 = missing[1..3].parse().expect("a number");
            let shown = format!("{}{number}", missing[..1].to_ascii_uppercase());
            assert_eq!(found.len(), 1, "{missing}");
            assert!(
                found[0].to_string().ends_with(&format!(": {shown}")),
                "{missing}"
            );
        }
    }

    #[test]
    fn the_server_s_duties_are_tested_where_the_server_is() {
        let mut files = house(&all_names());
        files[0].path = "tests/native.rs".into();
        assert_eq!(check(&files).len(), 1);
        files[0].path = "xtask/src/tidy.rs".into();
        assert_eq!(check(&files).len(), 4);
    }

    #[test]
    fn a_name_may_begin_with_several_numbers() {
        assert_eq!(numbers("a21_a22_t5_a3_in_flight_a4", 'a'), [21, 22, 3]);
        assert_eq!(numbers("a21_a22_t5_in_flight", 't'), [5]);
        assert_eq!(numbers("answers_a21", 'a'), [0; 0]);
        assert_eq!(numbers("a_21", 'a'), [0; 0]);
        assert_eq!(numbers("a210_x", 'a'), [0; 0]);
    }

    #[test]
    fn only_tests_that_run_count() {
        let source = "
            #[test] fn e01_plain() { go() }
            #[tokio::test(flavor = \"current_thread\")] async fn e02_async() { go() }
            proptest! { #[test] fn e03_property(x: u8) { go() } }
            #[wasm_bindgen_test] async fn e04_browser() { go() }
            #[test] #[should_panic(expected = \"x\")] fn e05_panics() { go() }
            #[test] #[ignore = \"slow\"] fn e06_ignored() { go() }
            #[test] fn e07_empty() {}
            #[cfg(test)] fn e08_not_a_test() { go() }
            fn e09_helper() { go() }
            // #[test] fn e10_comment() { go() }
            const X: &str = \"#[test] fn e11_string() { go() }\";
        ";
        assert_eq!(
            test_names(source),
            [
                "e01_plain",
                "e02_async",
                "e03_property",
                "e04_browser",
                "e05_panics"
            ]
        );
    }
}

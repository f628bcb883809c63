//! Words: the promise is made whole or not at all, never a wider one; no paths of one machine.

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

/// What samekey promises, word for word.
const PROMISE: &str = "samekey never sends an operation before its key is durable, never with two \
    keys or two bodies, and never reports an unknown outcome as a failure. That the effect happens \
    once needs a server that keeps its half for the stated window.";
/// Where it must stand, and by which beginning it is recognised elsewhere.
const PROMISED: &str = "README.md";
const BEGINNING: &str = "samekey never sends";

/// Checks every text file.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    files
        .iter()
        .flat_map(|f| wide(f).into_iter().chain(paths(f)).chain(promise(f)))
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

/// The promise may be quoted, never shortened or reworded.
fn promise(file: &File) -> Option<Finding> {
    let marks = |word: &&str| !matches!(*word, "//!" | "///" | "//" | ">");
    let words: Vec<&str> = file.text.split_whitespace().filter(marks).collect();
    let text = words.join(" ");
    let made = text.matches(BEGINNING).count();
    let whole = text.matches(PROMISE).count();
    let missing = file.path == PROMISED && whole == 0;
    let ours = file.path.starts_with("xtask/");
    (!ours && (missing || made != whole)).then(|| {
        file.finding(
            1,
            format!("the promise is not made word for word: {PROMISE}"),
        )
    })
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
        check(&[File::new("docs/page.md", text)]).len()
    }

    #[test]
    fn the_promise_is_made_whole_or_not_at_all() {
        let broken_up = format!("//! {}", PROMISE.replace(" never", "\n//! never"));
        for fine in ["", PROMISE, &broken_up, &format!("*{PROMISE}*")] {
            assert_eq!(count(fine), 0, "{fine}");
        }
        let shortened = PROMISE.split(". That").next().expect("a sentence");
        assert_eq!(count(shortened), 1);
        assert_eq!(
            count(&PROMISE.replace("never reports", "hardly reports")),
            1
        );
        assert_eq!(count(&format!("{PROMISE} {shortened}")), 1);
        assert_eq!(check(&[File::new("README.md", "")]).len(), 1);
        assert_eq!(check(&[File::new("README.md", PROMISE)]).len(), 0);
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

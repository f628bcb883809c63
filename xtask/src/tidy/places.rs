//! Where things may stand: the browser fork, and the files of modules.

use super::tokens::{Token, after_closing, starts, tokens};
use super::{File, Finding};

/// Files that may ask which platform they are built for.
const FORKED: &[&str] = &["src/platform.rs", "src/seam.rs"];
/// The file that may ask on lines that bring a module in.
const FORKED_MODULES: &str = "src/journal.rs";
const ASKED: &[&str] = &["target_arch", "target_family"];

/// Checks that the browser fork is where it belongs and that no `mod.rs` came back.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    files.iter().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let mut found = Vec::new();
    if !file.is_rust() {
        return found;
    }
    if file.path == "mod.rs" || file.path.ends_with("/mod.rs") {
        found.push(file.finding(1, "a module's file bears its name: no mod.rs".into()));
    }
    if FORKED.contains(&file.path.as_str()) || file.path.starts_with("xtask/") {
        return found;
    }
    let all = tokens(&file.text);
    for (at, token) in all.iter().enumerate() {
        let module_line = file.path == FORKED_MODULES && brings_a_module(&all, at);
        if ASKED.contains(&token.text) && !module_line {
            found.push(file.finding(
                token.line,
                "what differs in the browser belongs into platform.rs or seam.rs".into(),
            ));
        }
    }
    found
}

/// Whether the attribute around `at` stands on a `mod` or `use` item.
fn brings_a_module(all: &[Token<'_>], at: usize) -> bool {
    let open = (0..at).rev().find(|i| starts(all, *i, &["#", "["]));
    let Some(mut next) = open.map(|open| after_closing(all, open + 1)) else {
        return false;
    };
    if next <= at {
        return false;
    }
    while starts(all, next, &["#", "["]) {
        next = after_closing(all, next + 1);
    }
    if starts(all, next, &["pub"]) {
        next += 1;
        if starts(all, next, &["("]) {
            next = after_closing(all, next);
        }
    }
    starts(all, next, &["mod"]) || starts(all, next, &["use"])
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORK: &str = "#[cfg(not(target_arch = \"wasm32\"))]";

    fn count(path: &str, text: &str) -> usize {
        check(&[File::new(path, text)]).len()
    }

    #[test]
    fn the_fork_is_found_wherever_it_does_not_belong() {
        let planted = format!("{FORK} fn f() {{}}");
        for path in [
            "src/client.rs",
            "src/platform/native.rs",
            "tests/native.rs",
            "src/journal.rs",
        ] {
            assert_eq!(count(path, &planted), 1, "{path}");
        }
        assert_eq!(
            count(
                "src/client.rs",
                "fn f() { cfg!(target_family = \"wasm\"); }"
            ),
            1
        );
        assert_eq!(
            count(
                "src/journal.rs",
                "fn f() { cfg!(target_arch = \"wasm32\"); } mod x;"
            ),
            1
        );
        for path in ["src/platform.rs", "src/seam.rs"] {
            assert_eq!(count(path, &planted), 0, "{path}");
        }
    }

    #[test]
    fn the_journal_may_choose_its_modules() {
        for item in [
            "mod sqlite;",
            "pub mod sqlite;",
            "pub(crate) use sqlite::S;",
            "#[x] pub use s::S;",
        ] {
            assert_eq!(
                count("src/journal.rs", &format!("{FORK}\n{item}")),
                0,
                "{item}"
            );
        }
    }

    #[test]
    fn a_mod_rs_is_found() {
        assert_eq!(count("src/retry/mod.rs", ""), 1);
        assert_eq!(count("src/retry.rs", "// target_arch, mod.rs"), 0);
    }
}

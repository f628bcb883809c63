//! Where things may stand: the browser fork, the files of modules, and no file outside the build.

use super::tokens::{Token, after_closing, starts, tokens};
use super::{File, Finding};
use std::collections::BTreeSet;

/// Files that may ask which platform they are built for.
const FORKED: &[&str] = &[
    "src/platform.rs",
    "src/seam.rs",
    // Bindings for the browser are nothing anywhere else.
    "crates/samekey-wasm/src/lib.rs",
];
/// The file that may ask on lines that bring a module in.
const FORKED_MODULES: &str = "src/journal.rs";
const ASKED: &[&str] = &["target_arch", "target_family"];

/// Checks that the browser fork is where it belongs, that no `mod.rs` came back, and that every
/// file is built: a test in a file that nobody brings in would count and never run.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let brought: BTreeSet<(&str, &str)> = files.iter().flat_map(brings_in).collect();
    let orphans = files
        .iter()
        .filter(|f| f.is_rust() && !is_built(f, &brought))
        .map(|f| {
            f.finding(
                1,
                "no `mod` line brings this file in, so it is not built".into(),
            )
        });
    files.iter().flat_map(check_file).chain(orphans).collect()
}

/// Stands for any file: a `#[path]` may lead anywhere.
const ANYWHERE: &str = "";

/// The modules that a file names, each beside the file's own path.
fn brings_in(file: &File) -> Vec<(&str, &str)> {
    if !file.is_rust() {
        return Vec::new();
    }
    let all = tokens(&file.text);
    let mut found = Vec::new();
    for (at, token) in all.iter().enumerate() {
        let after = |n: usize| all.get(at + n).map_or("", |t| t.text);
        if token.text == "mod" && after(2) == ";" {
            found.push((file.path.as_str(), after(1)));
        } else if token.text == "path" && after(1) == "=" {
            let name = after(2).trim_matches('"').trim_end_matches(".rs");
            found.push((ANYWHERE, name.rsplit('/').next().unwrap_or(name)));
        }
    }
    found
}

/// Whether cargo finds the file by its place, or the file above it names it.
fn is_built(file: &File, brought: &BTreeSet<(&str, &str)>) -> bool {
    let path = file.path.trim_end_matches(".rs");
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let place = folder.rsplit('/').next().unwrap_or_default();
    let target = matches!(name, "lib" | "main" | "build") || matches!(place, "bin" | "");
    let beside_src = matches!(place, "tests" | "examples" | "benches") && !folder.contains("src/");
    let above = [".rs", "/lib.rs", "/main.rs"].map(|end| format!("{folder}{end}"));
    target
        || beside_src
        || brought.contains(&(ANYWHERE, name))
        || above
            .iter()
            .any(|above| brought.contains(&(above.as_str(), name)))
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
        check_file(&File::new(path, text)).len()
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

    #[test]
    fn a_file_that_nobody_brings_in_is_found() {
        let orphans = |files: &[(&str, &str)]| -> Vec<String> {
            let files: Vec<File> = files.iter().map(|(p, t)| File::new(p, t)).collect();
            check(&files).into_iter().map(|f| f.to_string()).collect()
        };
        let lib = ("src/lib.rs", "mod a;\n// mod b;");
        let fine = [
            lib,
            ("src/a.rs", "#[cfg(test)] mod tests;"),
            ("src/a/tests.rs", ""),
            ("tests/wire.rs", "#[path = \"wire/x.rs\"] mod x;"),
            ("tests/wire/x.rs", ""),
            ("tests/big/main.rs", "mod y;"),
            ("tests/big/y.rs", "#[path = \"../shared/s.rs\"] mod help;"),
            ("tests/shared/s.rs", ""),
            ("examples/checkout.rs", ""),
            ("crates/m/src/main.rs", "mod z;"),
            ("crates/m/src/z.rs", ""),
            ("build.rs", ""),
        ];
        assert_eq!(orphans(&fine), [""; 0]);
        for planted in [
            "src/b.rs",
            "src/a/tests.rs",
            "tests/wire/x.rs",
            "crates/m/src/a.rs",
        ] {
            assert_eq!(orphans(&[lib, (planted, "")]).len(), 1, "{planted}");
        }
    }
}

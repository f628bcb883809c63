//! Who may name whom inside the crate, and what the pure part may not do.

use super::tokens::{Kind, Token, starts, tokens, without_tests};
use super::{File, Finding};
use std::collections::BTreeMap;

/// The floors of the house, from the ground up. A module names modules of its own floor and of the
/// floors below it, never one above. The order is the one that ARCHITECTURE.md draws.
const FLOORS: &[&[&str]] = &[
    &["planted", "seam"],
    &["text"],
    &["time"],
    &["json", "key"],
    &["message"],
    &["fingerprint", "profile", "retry"],
    &["entry"],
    &["machine"],
    &["clock", "journal", "transport"],
    &[
        "blocking",
        "client",
        "error",
        "operation",
        "outcome",
        "seal",
        "trace",
        "update",
    ],
    &["platform"],
    &["testing"],
];

/// The one arrow that points up: the builder takes the platform's defaults.
const UPWARD: &[(&str, &str)] = &[("client", "platform")];

/// Modules that only compute: no waiting, no clock, no I/O, no log.
const PURE: &[&str] = &[
    "entry",
    "fingerprint",
    "json",
    "key",
    "machine",
    "message",
    "profile",
    "retry",
    "text",
    "time",
];
const IMPURE_NAMES: &[&str] = &[
    "async",
    "await",
    "Instant",
    "SystemTime",
    "dbg",
    "eprint",
    "eprintln",
    "print",
    "println",
];
const IMPURE_PATHS: &[(&str, &[&str])] = &[
    ("std", &["env", "fs", "io", "net", "process", "thread"]),
    ("hyper", &[]),
    ("log", &[]),
    ("rand", &[]),
    ("tokio", &[]),
    ("tracing", &[]),
];
/// The heart and the schedule are also the same on every platform and under every feature.
const UNCONDITIONAL: &[&str] = &["machine", "retry"];

/// Checks the files under `src/` of the root package.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let root = files.iter().find(|f| f.path == "src/lib.rs");
    let exports = root.map(|f| exports(&f.text)).unwrap_or_default();
    files
        .iter()
        .filter(|f| f.path.starts_with("src/") && f.is_rust() && !f.is_test())
        .filter(|f| f.path != "src/lib.rs")
        .flat_map(|f| check_file(f, &exports))
        .chain(check_mock(files))
        .collect()
}

/// `crate::Name` leads to the module that lib.rs re-exports it from.
fn exports(lib: &str) -> BTreeMap<String, String> {
    let all = tokens(lib);
    let mut found = BTreeMap::new();
    for at in 0..all.len() {
        if all[at].text == "use" {
            for path in paths(&all, at + 1) {
                if let (Some(first), Some(last)) = (path.first(), path.last()) {
                    found.insert((*last).to_owned(), (*first).to_owned());
                }
            }
        }
    }
    found
}

fn module_path(path: &str) -> Vec<&str> {
    path.trim_start_matches("src/")
        .trim_end_matches(".rs")
        .split('/')
        .collect()
}

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&module))
}

fn check_file(file: &File, exports: &BTreeMap<String, String>) -> Vec<Finding> {
    let here = module_path(&file.path);
    let module = here[0];
    let Some(own) = floor(module) else {
        return vec![file.finding(
            1,
            format!("`{module}` stands on no floor yet: give it a row in xtask's arrows.rs"),
        )];
    };
    let code = without_tests(&tokens(&file.text));
    let mut found = Vec::new();
    for (line, name) in named(&code, here.len()) {
        let target = exports.get(name).map_or(name, String::as_str);
        let upward = floor(target).is_some_and(|target| target > own);
        if name == "*" {
            found.push(file.finding(line, "takes everything from the crate's root".into()));
        } else if upward && !UPWARD.contains(&(module, target)) {
            found.push(file.finding(line, format!("`{module}` may not name `{target}`")));
        }
    }
    found.dedup();
    if PURE.contains(&module) {
        found.extend(impure(&code).map(|(line, what)| {
            file.finding(
                line,
                format!("`{module}` only computes, it may not use `{what}`"),
            )
        }));
    }
    if UNCONDITIONAL.contains(&module) {
        found.extend(
            code.iter()
                .filter(|t| t.text == "cfg" || t.text == "cfg_attr")
                .map(|t| {
                    file.finding(t.line, format!("`{module}` is the same everywhere: no cfg"))
                }),
        );
    }
    found
}

/// Every name of the crate's root that the code uses, with its line.
fn named<'a>(code: &[Token<'a>], depth: usize) -> Vec<(usize, &'a str)> {
    let mut found = Vec::new();
    let mut inline: Vec<usize> = Vec::new();
    let mut braces = 0usize;
    for (at, token) in code.iter().enumerate() {
        match token.text {
            "{" => {
                if at >= 2 && code[at - 2].text == "mod" {
                    inline.push(braces);
                }
                braces += 1;
            }
            "}" => {
                braces = braces.saturating_sub(1);
                if inline.last() == Some(&braces) {
                    inline.pop();
                }
            }
            "crate" | "super" if starts(code, at + 1, &[":", ":"]) && !continues(code, at) => {
                let mut next = at;
                let mut left = depth + inline.len();
                while code.get(next).is_some_and(|t| t.text == "super")
                    && starts(code, next + 1, &[":", ":"])
                {
                    left = left.saturating_sub(1);
                    next += 3;
                }
                if token.text == "crate" {
                    (next, left) = (at + 3, 0);
                }
                if left == 0 {
                    let firsts = paths(code, next)
                        .into_iter()
                        .filter_map(|p| p.first().copied());
                    found.extend(firsts.map(|first| (token.line, first)));
                }
            }
            _ => {}
        }
    }
    found
}

/// Whether the name at `at` goes on from a path before it.
fn continues(code: &[Token<'_>], at: usize) -> bool {
    at >= 2 && starts(code, at - 2, &[":", ":"])
}

/// The paths of the tree at `at`: `a::{b, c::d}` is a::b and a::c::d.
fn paths<'a>(code: &[Token<'a>], at: usize) -> Vec<Vec<&'a str>> {
    let mut found = Vec::new();
    tree(code, at, &mut Vec::new(), &mut found);
    found
}

fn tree<'a>(
    code: &[Token<'a>],
    mut at: usize,
    prefix: &mut Vec<&'a str>,
    found: &mut Vec<Vec<&'a str>>,
) -> usize {
    let before = prefix.len();
    loop {
        match code.get(at) {
            Some(t) if t.text == "{" => {
                at += 1;
                while code.get(at).is_some_and(|t| t.text != "}") {
                    let next = tree(code, at, prefix, found);
                    at = if next == at { at + 1 } else { next };
                    if code.get(at).is_some_and(|t| t.text == ",") {
                        at += 1;
                    }
                }
                at += 1;
                break;
            }
            Some(t) if t.kind == Kind::Name || t.text == "*" => {
                prefix.push(t.text);
                at += 1;
                if starts(code, at, &[":", ":"])
                    && code
                        .get(at + 2)
                        .is_some_and(|t| t.kind == Kind::Name || t.text == "{" || t.text == "*")
                {
                    at += 2;
                    continue;
                }
                found.push(prefix.clone());
                if code.get(at).is_some_and(|t| t.text == "as") {
                    at += 2;
                }
                break;
            }
            _ => break,
        }
    }
    prefix.truncate(before);
    at
}

fn impure<'a>(code: &'a [Token<'a>]) -> impl Iterator<Item = (usize, String)> + 'a {
    code.iter().enumerate().filter_map(|(at, token)| {
        if token.kind != Kind::Name {
            return None;
        }
        if IMPURE_NAMES.contains(&token.text) {
            return Some((token.line, token.text.to_owned()));
        }
        let (root, inner) = IMPURE_PATHS.iter().find(|(root, _)| *root == token.text)?;
        if continues(code, at) || !starts(code, at + 1, &[":", ":"]) {
            return None;
        }
        if inner.is_empty() {
            return Some((token.line, (*root).to_owned()));
        }
        let bad = paths(code, at + 3)
            .into_iter()
            .filter_map(|p| p.first().copied())
            .find(|first| inner.contains(first))?;
        Some((token.line, format!("{root}::{bad}")))
    })
}

/// The mock is a witness: it may not share code with what it judges.
fn check_mock(files: &[File]) -> Vec<Finding> {
    let mock = |f: &&File| f.path.starts_with("crates/samekey-mock/");
    let code = files
        .iter()
        .filter(mock)
        .filter(|f| f.is_rust())
        .flat_map(|f| {
            let all = tokens(&f.text);
            (0..all.len())
                .filter(|at| all[*at].text == "samekey" && starts(&all, at + 1, &[":", ":"]))
                .map(|at| f.finding(all[at].line, "the mock may not use samekey".into()))
                .collect::<Vec<_>>()
        });
    let manifest = files
        .iter()
        .filter(mock)
        .filter(|f| f.path.ends_with("Cargo.toml"));
    let depends = manifest.flat_map(|f| {
        f.text.lines().zip(1..).filter_map(|(line, number)| {
            let name = line.split(['=', '.']).next().unwrap_or_default().trim();
            (name == "samekey")
                .then(|| f.finding(number, "the mock may not depend on samekey".into()))
        })
    });
    code.chain(depends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "pub mod client; mod key; pub use client::{Client, Builder as Build}; \
                       pub use key::Key;";

    fn complaints(path: &str, text: &str) -> Vec<String> {
        let files = [File::new("src/lib.rs", LIB), File::new(path, text)];
        check(&files).into_iter().map(|f| f.to_string()).collect()
    }

    #[test]
    fn an_arrow_that_points_up_is_found_however_it_is_written() {
        for planted in [
            "use crate::journal::Journal;",
            "use crate::{key::Key, journal};",
            "use crate::{entry::{Entry, Phase}, platform::{self, native}};",
            "fn f() -> crate::transport::Sent { todo() }",
            "use super::clock::Clock;",
            "mod inner { use super::super::operation::Operation; }",
            "use crate::Client;",
            "use crate::*;",
        ] {
            assert_eq!(complaints("src/machine.rs", planted).len(), 1, "{planted}");
        }
        assert_eq!(
            complaints(
                "src/machine/permit.rs",
                "use super::super::journal::Receipt;"
            ),
            ["src/machine/permit.rs:1: `machine` may not name `journal`"]
        );
    }

    #[test]
    fn the_lower_floors_name_nothing_later() {
        for (path, planted) in [
            ("src/key.rs", "use crate::message::Headers;"),
            ("src/time.rs", "use crate::clock::Clock;"),
            ("src/message.rs", "use crate::retry::Policy;"),
            ("src/fingerprint.rs", "use crate::entry::Entry;"),
            ("src/retry/backoff.rs", "use crate::machine::Event;"),
            ("src/profile.rs", "use crate::entry::Entry;"),
            ("src/entry.rs", "use crate::journal::Receipt;"),
            ("src/journal/sqlite.rs", "use crate::platform::native;"),
            ("src/transport.rs", "use crate::client::Client;"),
            ("src/operation.rs", "use crate::platform::native;"),
        ] {
            assert_eq!(complaints(path, planted).len(), 1, "{path}: {planted}");
        }
    }

    #[test]
    fn arrows_that_point_down_tests_and_comments_are_left_alone() {
        for (path, fine) in [
            (
                "src/machine.rs",
                "use crate::{entry::Entry, retry::Policy}; pub(crate) fn f() {}",
            ),
            (
                "src/machine.rs",
                "/// See [`crate::journal`].\nfn f() { let s = \"crate::client\"; }",
            ),
            (
                "src/machine.rs",
                "#[cfg(test)] mod tests { use crate::journal::MemoryJournal; }",
            ),
            ("src/machine/tests.rs", "use crate::journal::MemoryJournal;"),
            ("src/machine/permit.rs", "use super::Order; use crate::Key;"),
            ("src/client.rs", "use crate::platform::native;"),
            ("src/retry/classify.rs", "use crate::profile::Profile;"),
        ] {
            assert_eq!(complaints(path, fine), [""; 0], "{path}: {fine}");
        }
    }

    #[test]
    fn the_pure_part_may_not_wait_look_at_a_clock_touch_files_or_log() {
        for planted in [
            "async fn f() {}",
            "fn f() { let t = std::time::Instant::now(); }",
            "use std::time::SystemTime;",
            "use std::fs::File;",
            "use std::{fmt, net::TcpStream};",
            "fn f() { std::thread::yield_now() }",
            "fn f() { tracing::info!(\"x\") }",
            "fn f() { println!(\"x\") }",
            "use tokio::sync::Mutex;",
        ] {
            assert_eq!(complaints("src/machine.rs", planted).len(), 1, "{planted}");
            assert_eq!(
                complaints("src/retry/budget.rs", planted).len(),
                1,
                "{planted}"
            );
        }
        let conditional = "#[cfg(feature = \"x\")] fn f() {}";
        assert_eq!(complaints("src/machine.rs", conditional).len(), 1);
        assert_eq!(complaints("src/message.rs", conditional).len(), 0);
        assert_eq!(
            complaints("src/machine.rs", "fn log(net: u8, process: u8) {}").len(),
            0
        );
    }

    #[test]
    fn a_module_without_a_floor_is_reported() {
        assert_eq!(complaints("src/helpers.rs", "").len(), 1);
    }

    #[test]
    fn the_mock_stands_alone() {
        let text = "use samekey::Key;";
        assert_eq!(complaints("crates/samekey-mock/src/lib.rs", text).len(), 1);
        let manifest = "[dependencies]\nsamekey = { path = \"../..\" }";
        assert_eq!(
            complaints("crates/samekey-mock/Cargo.toml", manifest).len(),
            1
        );
        let fine = "[package]\nname = \"samekey-mock\"\n[[bin]]\nsamekey-mock = 1";
        assert_eq!(complaints("crates/samekey-mock/Cargo.toml", fine).len(), 0);
    }
}

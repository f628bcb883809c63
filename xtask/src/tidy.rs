//! `cargo xtask tidy`: the rules of the house that no compiler knows.
//!
//! A finding fails the command. A signal is printed and fails nothing: length is a reason to look,
//! not a law.

mod arrows;
mod invariants;
mod lengths;
mod places;
mod rows;
mod tokens;
mod words;

use crate::shell::{Outcome, root};
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

/// A text file of the repository.
pub(crate) struct File {
    /// Its path from the repository's root, with forward slashes.
    path: String,
    text: String,
}

impl File {
    #[cfg(test)]
    fn new(path: &str, text: &str) -> File {
        File {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the file is built for tests only.
    fn is_test(&self) -> bool {
        let path = self.path.trim_end_matches(".rs");
        path.split('/').any(|part| part == "tests")
    }

    fn finding(&self, line: usize, message: String) -> Finding {
        Finding {
            at: Some((self.path.clone(), line)),
            message,
        }
    }
}

/// Something that is not in order, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    at: Option<(String, usize)>,
    message: String,
}

impl Finding {
    /// A finding about the repository as a whole.
    fn of_the_house(message: String) -> Finding {
        Finding { at: None, message }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Some((path, line)) => write!(f, "{path}:{line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Checks the whole repository.
pub(crate) fn run() -> Outcome {
    let files = read(&root()).map_err(|e| format!("cannot read the repository: {e}"))?;
    for signal in lengths::signals(&files) {
        println!("signal: {signal}");
    }
    let checks = [
        arrows::check,
        places::check,
        rows::check,
        invariants::check,
        words::check,
    ];
    let found: Vec<Finding> = checks.into_iter().flat_map(|check| check(&files)).collect();
    for finding in &found {
        println!("tidy: {finding}");
    }
    match found.len() {
        0 => {
            println!("tidy: {} files in order", files.len());
            Ok(())
        }
        n => Err(format!(
            "tidy found {n} thing(s) out of order, listed above"
        )),
    }
}

/// Folders that hold nothing written by hand.
const SKIPPED: &[&str] = &["target", "node_modules", ".git", "pkg/wasm"];
/// Files that a tool writes.
const GENERATED: &[&str] = &["Cargo.lock", "package-lock.json"];

fn read(root: &Path) -> io::Result<Vec<File>> {
    let mut files = Vec::new();
    walk(root, "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn walk(folder: &Path, prefix: &str, files: &mut Vec<File>) -> io::Result<()> {
    for item in fs::read_dir(folder)? {
        let item = item?;
        let name = item.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = item.file_type()?;
        if kind.is_dir() {
            if !SKIPPED.contains(&name.as_str()) && !SKIPPED.contains(&path.as_str()) {
                walk(&item.path(), &format!("{path}/"), files)?;
            }
        } else if kind.is_file() && !GENERATED.contains(&name.as_str()) {
            // What is not UTF-8 is no text: fixtures, pictures.
            if let Ok(text) = String::from_utf8(fs::read(item.path())?) {
                files.push(File { path, text });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_read_without_what_tools_write() {
        let files = read(&root()).expect("the repository");
        let has = |path: &str| files.iter().any(|f| f.path == path);
        assert!(has("src/lib.rs") && has("xtask/src/tidy.rs") && has(".ci/run"));
        assert!(!has("Cargo.lock"));
        assert!(!files.iter().any(|f| f.path.starts_with("target/")));
        assert!(!files.iter().any(|f| f.path.starts_with(".git/")));
    }

    #[test]
    fn files_for_tests_are_known_by_their_place() {
        for path in [
            "tests/native.rs",
            "src/entry/codec/tests.rs",
            "crates/x/tests/a/b.rs",
        ] {
            assert!(File::new(path, "").is_test(), "{path}");
        }
        assert!(!File::new("src/testing.rs", "").is_test());
    }
}

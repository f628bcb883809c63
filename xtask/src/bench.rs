//! `cargo xtask bench`: builds the bench and its peers, then lets it run.

use crate::Stop;
use crate::shell::{Outcome, cargo, command, root, run as sh};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Crates that must be the same on both sides, or the share measures their versions.
const SHARED: &[&str] = &["bytes", "h2", "http", "hyper", "hyper-util", "tokio"];

pub(crate) fn run(arguments: &[String]) -> Result<(), Stop> {
    Ok(bench(arguments)?)
}

fn bench(arguments: &[String]) -> Outcome {
    let target = target()?;
    let has = |words: &[&str]| arguments.iter().any(|a| words.contains(&a.as_str()));
    let mut build = cargo(&["build", "--release", "-p", "samekey-bench"]);
    if !has(&["--help", "-h", "--instructions"]) {
        same_versions()?;
        build.args(["-p", "samekey-mock"]);
        peers(&target)?;
    }
    sh(&mut build)?;
    let program = target.join("release").join(program("samekey-bench"));
    let mut bench = command(&program.to_string_lossy(), &[]);
    bench.args(arguments).arg("--target").arg(&target);
    bench.arg("--root").arg(root());
    sh(&mut bench)
}

/// The part of the tests: what the small parts take must not grow unnoticed.
pub(crate) fn instructions() -> Outcome {
    bench(&["--instructions".into()])
}

fn program(name: &str) -> String {
    format!("{name}{}", env::consts::EXE_SUFFIX)
}

/// The peers have a lock, and so a build, of their own.
fn peers(target: &Path) -> Outcome {
    let manifest = ["--manifest-path", "bench/peers/Cargo.toml"];
    let mut build = cargo(&["build", "--release", "--locked"]);
    build
        .args(manifest)
        .arg("--target-dir")
        .arg(target.join("peers"));
    sh(&mut build)
}

/// The folder that we were built into.
fn target() -> Result<PathBuf, String> {
    let here = env::current_exe().map_err(|e| format!("cannot find my own place: {e}"))?;
    let target = here.parent().and_then(Path::parent);
    Ok(target.ok_or("I was built into no folder")?.to_owned())
}

fn same_versions() -> Outcome {
    let read = |path: &str| {
        fs::read_to_string(root().join(path)).map_err(|e| format!("cannot read {path}: {e}"))
    };
    let differing = differing(&read("Cargo.lock")?, &read("bench/peers/Cargo.lock")?);
    if differing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "Cargo.lock and bench/peers/Cargo.lock differ in {}; update one of them, or the figures \
         compare versions",
        differing.join(", ")
    ))
}

fn differing(ours: &str, theirs: &str) -> Vec<&'static str> {
    let same = |name: &&&str| {
        let (ours, theirs) = (version(ours, name), version(theirs, name));
        ours.is_none() || ours != theirs
    };
    SHARED.iter().filter(same).copied().collect()
}

fn version<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let (_, after) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
    after.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_of_two_versions_is_named() {
        let lock = |tokio: &str| {
            let entry = |name: &str, version: &str| {
                format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n\n")
            };
            SHARED
                .iter()
                .map(|name| entry(name, if *name == "tokio" { tokio } else { "1.0.0" }))
                .collect::<String>()
        };
        assert_eq!(differing(&lock("1.5.0"), &lock("1.5.0")), [""; 0]);
        assert_eq!(differing(&lock("1.5.0"), &lock("1.5.1")), ["tokio"]);
        assert_eq!(differing("", "").len(), SHARED.len());
    }
}

//! `cargo xtask pages`: the npm package in a real browser, against the mock server.

use crate::parts::Tally;
use crate::setup::{WASM, npm_packages, wasm_target};
use crate::shell::{Outcome, cargo, command, installed, root, run as sh};
use crate::web;
use std::env;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// Names under which a browser may be installed.
pub(crate) const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Builds what the pages need and runs their tests.
pub(crate) fn run(tally: &mut Tally) -> Outcome {
    let browser = browser()?;
    wasm_target()?;
    npm_packages()?;
    web::run()?;
    conformance()?;
    sh(&mut cargo(&["build", "--package", "samekey-mock"]))?;
    let name = format!("debug/samekey-mock{}", env::consts::EXE_SUFFIX);
    let mock = web::target()?.join(name);
    let mut arguments = vec!["--test", "--test-concurrency=2", "--test-reporter=spec"];
    let files = tests()?;
    arguments.extend(files.iter().map(String::as_str));
    println!("$ node {}", arguments.join(" "));
    let mut child = command("node", &arguments)
        .current_dir(web::package())
        .env("SAMEKEY_MOCK", mock)
        .env("SAMEKEY_BROWSER", browser)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("node cannot be started: {e}"))?;
    let mut ran = 0;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line.map_err(|e| format!("cannot read what the tests print: {e}"))?;
            println!("{line}");
            ran += count(&line, tally);
        }
    }
    let status = child
        .wait()
        .map_err(|e| format!("cannot wait for node: {e}"))?;
    if !status.success() {
        return Err(format!("tests of the pages failed ({status})"));
    }
    if ran == 0 {
        return Err("not one test of the pages ran".into());
    }
    Ok(())
}

/// The files of tests. Node would take everything in a folder of this name for one.
fn tests() -> Result<Vec<String>, String> {
    let fail = |e: std::io::Error| format!("cannot read pkg/test: {e}");
    let mut files = Vec::new();
    for file in std::fs::read_dir(web::package().join("test")).map_err(fail)? {
        let name = file
            .map_err(fail)?
            .file_name()
            .to_string_lossy()
            .into_owned();
        if name.ends_with(".test.mjs") {
            files.push(format!("test/{name}"));
        }
    }
    files.sort();
    Ok(files)
}

/// The suite that every journal must pass, as a module for a page.
fn conformance() -> Outcome {
    sh(&mut cargo(&[
        "build",
        "--package",
        "samekey-wasm",
        "--features",
        "conformance",
        "--target",
        WASM,
    ]))?;
    let module = web::target()?.join(WASM).join("debug/samekey_wasm.wasm");
    web::bind(&module, &root().join("pkg/test/dist"), &[])
}

/// Where the browser is.
fn browser() -> Result<String, String> {
    if let Ok(named) = env::var("SAMEKEY_BROWSER") {
        return Ok(named);
    }
    let found = BROWSERS.iter().find(|name| installed(name));
    let name = found.ok_or(
        "the tests of the pages need Chromium: install it (apt-get install chromium, as root), or \
         name the program in SAMEKEY_BROWSER",
    )?;
    let path = env::var_os("PATH").unwrap_or_default();
    let place = env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file());
    Ok(place.map_or_else(|| (*name).to_owned(), |path| web::text(&path)))
}

/// Adds up lines like `ℹ pass 42`; returns how many tests the line tells of.
fn count(line: &str, tally: &mut Tally) -> u64 {
    let mut words = line.trim_start_matches('ℹ').split_whitespace();
    let (what, number) = (words.next(), words.next().and_then(|n| n.parse().ok()));
    let (true, Some(number)) = (line.starts_with('ℹ'), number) else {
        return 0;
    };
    match what {
        Some("pass") => tally.passed += number,
        Some("fail") => tally.failed += number,
        _ => return 0,
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_node_adds_up() {
        let mut tally = Tally::default();
        for line in ["ℹ tests 45", "ℹ pass 42", "ℹ fail 3", "pass 9", "✔ pass 7"] {
            count(line, &mut tally);
        }
        assert_eq!((tally.passed, tally.failed), (42, 3));
    }
}

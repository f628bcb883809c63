//! `cargo xtask test`: all that CI runs, from a fresh clone to the last line.

use crate::check;
use crate::parts::{self, Part, Tally};
use crate::setup;
use crate::shell::{Outcome, cargo, command, root, run as sh};
use std::env;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// What comes before `check`.
const BEFORE: &[Part] = &[Part {
    name: "set-up",
    run: |_| setup::wasm_target().and_then(|()| setup::programs()),
}];

/// What comes after it. A new kind of test is a new row here.
const AFTER: &[Part] = &[
    Part {
        name: "tests",
        run: tests,
    },
    Part {
        name: "proof",
        run: |_| crate::proof::short(),
    },
    Part {
        name: "torture",
        run: |_| crate::torture::short(),
    },
    Part {
        name: "instructions",
        run: |_| crate::bench::instructions(),
    },
    Part {
        name: "pages",
        run: crate::pages::run,
    },
    Part {
        name: "checkout",
        run: |_| example("checkout"),
    },
];

/// Runs every part, then says how long each took and how many tests passed.
pub(crate) fn run() -> Outcome {
    let summary = parts::run(BEFORE.iter().chain(check::PARTS).chain(AFTER));
    print!("{}", summary.report("test_minutes"));
    let Tally { passed, failed } = summary.tally;
    // A part that failed without a failing test counts as one: the last line never looks well then.
    let failed = failed.max(u64::from(summary.failure.is_some()));
    println!("figure tests_passed {passed} tests");
    if let Some(failure) = &summary.failure {
        println!("{failure}");
    }
    println!("{passed} passed, {failed} failed");
    summary.outcome()
}

/// Unit tests, integration tests and doctests of every member; the examples are built on the way.
fn tests(tally: &mut Tally) -> Outcome {
    let all = ["test", "--workspace", "--all-features", "--no-fail-fast"];
    println!("$ cargo {}", all.join(" "));
    let mut child = cargo(&all)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cargo cannot be started: {e}"))?;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.map_err(|e| format!("cannot read what the tests print: {e}"))?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            count(&line, tally);
        }
    }
    let status = child
        .wait()
        .map_err(|e| format!("cannot wait for cargo: {e}"))?;
    if !status.success() {
        return Err(format!("the tests failed ({status})"));
    }
    if tally.passed == 0 {
        return Err("not one test ran".into());
    }
    Ok(())
}

/// Adds up lines like `test result: ok. 12 passed; 0 failed; 1 ignored; …`.
fn count(line: &str, tally: &mut Tally) {
    let Some(result) = line.strip_prefix("test result: ") else {
        return;
    };
    for part in result.split(['.', ';']) {
        let mut words = part.split_whitespace();
        if let (Some(number), Some(what)) = (
            words.next().and_then(|n| n.parse::<u64>().ok()),
            words.next(),
        ) {
            match what {
                "passed" => tally.passed += number,
                "failed" => tally.failed += number,
                _ => {}
            }
        }
    }
}

/// Runs an example that the tests have built just before, beside this program.
///
/// `cargo run` would choose other features and compile the tree a second time.
fn example(name: &str) -> Outcome {
    let sources = [
        format!("examples/{name}.rs"),
        format!("examples/{name}/main.rs"),
    ];
    if !sources.iter().any(|source| root().join(source).is_file()) {
        println!("there is no example `{name}` yet");
        return Ok(());
    }
    let here = env::current_exe().map_err(|e| format!("cannot find my own place: {e}"))?;
    let built = here
        .with_file_name("examples")
        .join(format!("{name}{}", env::consts::EXE_SUFFIX));
    sh(&mut command(&built.to_string_lossy(), &[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summaries_of_cargo_test_add_up() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s",
            "said: test result: ok. 99 passed; 0 failed",
        ] {
            count(line, &mut tally);
        }
        assert_eq!(
            tally,
            Tally {
                passed: 15,
                failed: 2
            }
        );
    }

    #[test]
    fn an_example_that_is_not_there_yet_fails_nothing() {
        assert_eq!(example("no_such_example"), Ok(()));
    }
}

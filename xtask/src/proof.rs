//! `cargo xtask sim`, `cargo xtask planted`: the harness, built with the tests and run beside them.

use crate::shell::{Outcome, cargo, command, run as sh};
use std::env;

/// Builds what the tests build, so that nothing is compiled twice, and runs the harness.
pub(crate) fn harness(arguments: &[&str]) -> Outcome {
    let build = [
        "test",
        "--workspace",
        "--all-features",
        "--test",
        "harness",
        "--no-run",
        "--quiet",
    ];
    sh(&mut cargo(&build))?;
    let here = env::current_exe().map_err(|e| format!("cannot find my own place: {e}"))?;
    let built = here.with_file_name(format!("samekey-harness{}", env::consts::EXE_SUFFIX));
    sh(&mut command(&built.to_string_lossy(), arguments))
}

/// The short run of every test: every small world, worlds by the thousand, every planted bug.
pub(crate) fn short() -> Outcome {
    harness(&["small", "--seeds", "4"])?;
    harness(&["sim", "--ops", "100000"])?;
    harness(&["planted"])
}

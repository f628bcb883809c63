//! `cargo xtask sim`, `small`, `planted`: the harness, in a profile of its own.

use crate::shell::{Outcome, cargo, command, run as sh};
use std::env;

/// Builds the harness with little else, as quick as a release, and runs it.
pub(crate) fn harness(arguments: &[&str]) -> Outcome {
    let build = [
        "build",
        "--package",
        "samekey-harness",
        "--bin",
        "samekey-harness",
        "--features",
        "planted",
        "--profile",
        "proof",
        "--quiet",
    ];
    sh(&mut cargo(&build))?;
    let here = env::current_exe().map_err(|e| format!("cannot find my own place: {e}"))?;
    let name = format!("proof/samekey-harness{}", env::consts::EXE_SUFFIX);
    let target = here.parent().and_then(std::path::Path::parent);
    let built = target.ok_or("cannot find the target folder")?.join(name);
    sh(&mut command(&built.to_string_lossy(), arguments))
}

/// The short run of every test: every small world, a million operations, every planted bug.
pub(crate) fn short() -> Outcome {
    harness(&["small"])?;
    harness(&["sim", "--ops", "1000000"])?;
    planted(&["planted"])
}

/// Every known bug in the simulation, then in the real code those that stand there in simulated parts.
pub(crate) fn planted(arguments: &[&str]) -> Outcome {
    harness(arguments)?;
    crate::torture::torture(&["planted"])
}

//! `cargo xtask torture`: real processes killed, real disks cut off, filled, broken and altered.

use crate::Stop;
use crate::shell::{Outcome, cargo, command, run as sh};
use std::env;

/// As asked for on the command line.
pub(crate) fn run(arguments: &[String]) -> Result<(), Stop> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Ok(torture(&arguments)?)
}

/// The short run of every test: some minutes, every arm, every twin.
pub(crate) fn short() -> Outcome {
    torture(&[])
}

/// Builds what the tests build, so that nothing is compiled twice, and runs it.
pub(crate) fn torture(arguments: &[&str]) -> Outcome {
    // The mock's own tests bring its program along, as the harness's bring the torture.
    let build = [
        "test",
        "--workspace",
        "--all-features",
        "--test",
        "harness",
        "--test",
        "checks",
        "--no-run",
        "--quiet",
    ];
    sh(&mut cargo(&build))?;
    let here = env::current_exe().map_err(|e| format!("cannot find my own place: {e}"))?;
    let built = here.with_file_name(format!("samekey-torture{}", env::consts::EXE_SUFFIX));
    sh(&mut command(&built.to_string_lossy(), arguments))
}

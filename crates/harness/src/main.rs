//! `samekey-harness sim [--seed N] [--ops N]`, as `cargo xtask` runs it.

use samekey_harness::sim;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seed = arguments.first().and_then(|s| s.parse().ok());
    if let Some(seed) = seed {
        let report = sim::run(seed, true);
        report.trace.iter().for_each(|line| println!("{line}"));
        println!("{:#?} {:?} {}", report.counters, report.violations, report.hash);
        return ExitCode::SUCCESS;
    }
    ExitCode::SUCCESS
}

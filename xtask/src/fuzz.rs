//! `cargo xtask fuzz [--seconds N] [TARGET]`: a long campaign against every parser.

use crate::Stop;
use crate::shell::{Outcome, cargo, command, output, run as sh};

/// Seconds for each target, unless the caller says.
const SECONDS: &str = "60";

/// LLVM's own pass, as cargo-fuzz uses it, without a sanitizer: that would need a nightly compiler.
const COUNTED: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=3",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
];

pub(crate) fn run(arguments: &[String]) -> Result<(), Stop> {
    let (mut seconds, mut target) = (SECONDS, None);
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--seconds" => {
                let number = words.next().filter(|n| n.parse::<u32>().is_ok());
                seconds = number.ok_or_else(|| Stop::Usage("--seconds takes a number".into()))?;
            }
            flag if flag.starts_with('-') => {
                return Err(Stop::Usage(format!("does not know `{flag}`")));
            }
            name => target = Some(name),
        }
    }
    Ok(campaign(seconds, target)?)
}

/// In a release build, with the same arithmetic checks and a counter at every branch.
///
/// The flags are the compiler's stable ones; they are for the target alone, as build scripts and macros
/// have nobody who would take the counters.
fn campaign(seconds: &str, target: Option<&str>) -> Outcome {
    let host = output(&mut command("rustc", &["--print", "host-tuple"]))?;
    let mut arguments = vec!["run", "--quiet", "--profile", "fuzz"];
    arguments.extend(["--target", host.trim()]);
    arguments.extend(["-p", "samekey-fuzz", "--", "--seconds", seconds]);
    arguments.extend(target);
    sh(cargo(&arguments).env("CARGO_ENCODED_RUSTFLAGS", COUNTED.join("\u{1f}")))
}

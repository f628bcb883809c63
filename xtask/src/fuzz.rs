//! `cargo xtask fuzz [--seconds N] [TARGET]`: a long campaign against every parser.

use crate::Stop;
use crate::shell::{Outcome, cargo, run as sh};

/// Seconds for each target, unless the caller says.
const SECONDS: &str = "60";

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

/// In a release build: it runs many times as many inputs, with the same arithmetic checks.
fn campaign(seconds: &str, target: Option<&str>) -> Outcome {
    let mut arguments = vec![
        "run",
        "--quiet",
        "--profile",
        "fuzz",
        "-p",
        "samekey-fuzz",
        "--",
    ];
    arguments.extend(["--seconds", seconds]);
    arguments.extend(target);
    sh(&mut cargo(&arguments))
}

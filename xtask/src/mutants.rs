//! `cargo xtask mutants [--shard K/N]`: small changes in the heart, each of which a test must notice.

use crate::Stop;
use crate::shell::{Outcome, cargo, command, root, run as sh};
use std::path::Path;

/// The release of cargo-mutants that the figures were made with.
const VERSION: &str = "27.1.0";

pub(crate) fn run(arguments: &[String]) -> Result<(), Stop> {
    let shard = match arguments {
        [] => None,
        [flag, shard] if flag == "--shard" && is_shard(shard) => Some(shard.as_str()),
        _ => {
            return Err(Stop::Usage(
                "takes `--shard K/N`, K from 0, and nothing else".into(),
            ));
        }
    };
    Ok(mutate(shard)?)
}

fn is_shard(text: &str) -> bool {
    let numbers = text.split_once('/');
    let parsed = numbers.and_then(|(k, n)| Some((k.parse::<u32>().ok()?, n.parse::<u32>().ok()?)));
    parsed.is_some_and(|(k, n)| k < n)
}

/// What to change and how to judge it stands in `.cargo/mutants.toml`.
fn mutate(shard: Option<&str>) -> Outcome {
    let tools = root().join("target/tools");
    let program = tools.join("bin/cargo-mutants");
    if !program.is_file() {
        let place = tools.to_string_lossy();
        let install = [
            "install",
            "cargo-mutants",
            "--locked",
            "--version",
            VERSION,
            "--root",
        ];
        sh(cargo(&install).arg(&*place))?;
    }
    let output = root().join("target/mutants");
    std::fs::create_dir_all(&output).map_err(|e| format!("{}: {e}", output.display()))?;
    let mut arguments = vec!["mutants", "--jobs", "2", "--output", "target/mutants"];
    arguments.extend(shard.map(|_| "--shard"));
    arguments.extend(shard);
    // Seconds each, and hundreds of them: nobody debugs these builds, and a rule that is caught by some
    // cases of a property is caught.
    let ended = sh(command(&program.to_string_lossy(), &arguments)
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_PROFILE_TEST_DEBUG", "0")
        .env("PROPTEST_CASES", "48"));
    figures(&output.join("mutants.out"))?;
    ended
}

/// The lists that cargo-mutants leaves, counted.
fn figures(folder: &Path) -> Outcome {
    for list in ["caught", "missed", "unviable", "timeout"] {
        let path = folder.join(format!("{list}.txt"));
        let text =
            std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        println!("figure mutants_{list} {} mutants", text.lines().count());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_one_of_several_counted_from_nought() {
        assert!(is_shard("0/1") && is_shard("3/4"));
        assert!(!is_shard("4/4") && !is_shard("a/b") && !is_shard("1"));
    }
}

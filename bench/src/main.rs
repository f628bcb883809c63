//! Runs the bench: starts the processes, lets them take turns, judges the figures.
//!
//! `cargo xtask bench` builds everything and calls this.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "a bench looks at the real clock")]

mod cast;
mod figures;
mod instructions;
mod noise;
mod picture;
mod plan;
mod report;
mod series;

use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
Usage: cargo xtask bench [--quick] [--only NAME]...
       cargo xtask bench --instructions [--bless] [--only CASE]...

  --quick      fewer and shorter rounds: under 5 minutes after the build
  --only NAME  only what the figure NAME needs; a part of a name picks all that contain it
  --instructions  count the instructions of the small parts below callgrind, and compare with
                  bench/instructions.json: more than 5 % above it fails
  --bless         write that file instead
  --help       this text

Prints a table and a line `figure NAME VALUE UNIT` for each figure, writes bench/results.json and
draws bench/results.svg. Ends with status 1 if a figure that could be judged misses its must.";

/// What was asked for.
pub(crate) struct Asked {
    quick: bool,
    only: Vec<String>,
    instructions: bool,
    bless: bool,
    /// Where the programs are built and journals may grow.
    target: PathBuf,
    /// The repository.
    root: PathBuf,
}

impl Asked {
    /// Whether a figure is wanted.
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Asked>, String> {
    let mut asked = Asked {
        quick: false,
        only: Vec::new(),
        instructions: false,
        bless: false,
        target: PathBuf::new(),
        root: PathBuf::new(),
    };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--help" | "-h" => return Ok(None),
            "--quick" => asked.quick = true,
            "--instructions" => asked.instructions = true,
            "--bless" => asked.bless = true,
            "--only" => asked.only.push(value()?),
            "--target" => asked.target = value()?.into(),
            "--root" => asked.root = value()?.into(),
            other => return Err(format!("`{other}` is not known; see --help")),
        }
    }
    if asked.bless && (!asked.instructions || !asked.only.is_empty()) {
        return Err("--bless goes with --instructions, and with all of them".into());
    }
    let known = |part: &&String| asked.instructions || figures::is_known(part);
    if let Some(unknown) = asked.only.iter().find(|part| !known(part)) {
        let names: Vec<&str> = figures::GOALS.iter().map(|goal| goal.name).collect();
        return Err(format!(
            "no figure is called `{unknown}`; there are {}",
            names.join(", ")
        ));
    }
    Ok(Some(asked))
}

fn main() -> ExitCode {
    let asked = match parse(std::env::args().skip(1)) {
        Ok(Some(asked)) => asked,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("bench: {why}");
            return ExitCode::from(2);
        }
    };
    let done = match asked.instructions {
        true => instructions::run(&asked),
        false => plan::run(&asked).and_then(|brought| report::tell(&asked, &brought)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("bench: {why}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Option<Asked>, String> {
        parse(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_part_of_a_name_picks_all_that_contain_it() {
        let asked = words("--quick --only share_5ms")
            .expect("fine")
            .expect("asked");
        assert!(asked.quick);
        assert!(asked.wants("share_5ms_16") && asked.wants("share_5ms_64"));
        assert!(!asked.wants("share_16"));
        assert!(words("").expect("fine").expect("asked").wants("share_16"));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        assert!(words("--only no_such_figure").is_err());
        assert!(words("--fast").is_err());
        assert!(words("--only").is_err());
        assert!(words("--bless").is_err());
        assert!(words("--instructions --bless").is_ok());
    }
}

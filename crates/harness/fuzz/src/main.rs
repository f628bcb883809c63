//! `samekey-fuzz [--seconds N] [--seed N] [TARGET]`, as `cargo xtask fuzz` runs it.

use samekey_fuzz::{TARGETS, Target, campaign, coverage, maze};
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let (mut seconds, mut seed, mut chosen) = (10, 1, None);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut number = || {
            let number = words.next().and_then(|n| n.parse::<u64>().ok());
            number.ok_or(format!("{word} takes a number"))
        };
        match word.as_str() {
            "--seconds" => seconds = number()?,
            "--seed" => seed = number()?,
            name => chosen = Some(Target::named(name).ok_or(format!("no target `{name}`"))?),
        }
    }
    guided()?;
    let mut total = 0;
    for target in TARGETS {
        if chosen.is_none_or(|chosen| chosen.name == target.name) {
            total += one(target, seed, Duration::from_secs(seconds))?;
        }
    }
    println!("figure fuzz_runs {total} runs");
    Ok(())
}

/// Says whether branches are counted; if so, a campaign must find what no other can.
fn guided() -> Result<(), String> {
    if !coverage::is_measured() {
        println!("WARNING: branches are not counted; `cargo xtask fuzz` builds so that they are");
        return Ok(());
    }
    match maze::walk(5_000_000) {
        Err(_) => {
            println!("guided by branches: the way through the maze is found");
            Ok(())
        }
        Ok(ended) => Err(format!(
            "not guided: no way through the maze in {} inputs",
            ended.runs
        )),
    }
}

/// One campaign; a failing input is kept among the seeds.
fn one(target: Target, seed: u64, time: Duration) -> Result<u64, String> {
    let started = now();
    let go_on = |runs: u64| !runs.is_multiple_of(256) || started.elapsed() < time;
    match campaign(target, target.check, target.seeds()?, seed, go_on) {
        Ok(ended) => {
            let (name, runs) = (target.name, ended.runs);
            println!("figure fuzz_{name} {runs} runs");
            println!("figure fuzz_{name}_branches {} branches", ended.edges);
            println!("figure fuzz_{name}_kept {} inputs", ended.kept);
            Ok(runs)
        }
        Err(broken) => {
            let path = target.keep(&broken)?;
            Err(format!(
                "{} breaks \"{}\" with {:?}, kept as {}",
                target.name,
                broken.why,
                String::from_utf8_lossy(&broken.input),
                path.file_name().unwrap_or_default().to_string_lossy()
            ))
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long to go on; nothing else depends on it"
)]
fn now() -> Instant {
    Instant::now()
}

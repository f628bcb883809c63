//! `samekey-harness sim [--seed N] [--ops N]`, as `cargo xtask sim` runs it.

use samekey_harness::planted::{self as bugs, BUGS, Bug};
use samekey_harness::sim::{self, Report};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

#[global_allocator]
static HEAP: samekey_harness::heap::Heap = samekey_harness::heap::Heap;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    if let Some(bug) = number("--planted")
        && let Err(message) = bugs::plant(u8::try_from(bug).unwrap_or(0))
    {
        eprintln!("{message}");
        return ExitCode::FAILURE;
    }
    let result = match arguments.first().map(String::as_str) {
        Some("sim") => match number("--seed") {
            Some(seed) => replay(seed),
            None => simulate(
                number("--from").unwrap_or(1),
                number("--ops").unwrap_or(1_000_000),
            ),
        },
        Some("planted") => planted(number("--ops").unwrap_or(1_000_000)),
        Some("small") => {
            let full = arguments.iter().any(|argument| argument == "--full");
            small(number("--seeds").unwrap_or(if full { 10 } else { 2 }), full)
        }
        _ => Err("usage: samekey-harness sim [--seed N] [--from N] [--ops N] | small".to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The story of one seed.
fn replay(seed: u64) -> Result<(), String> {
    let report = sim::run(seed, true);
    report.trace.iter().for_each(|line| println!("{line}"));
    println!("trace hash {:016x}", report.hash);
    if report.violations.is_empty() {
        return Ok(());
    }
    Err(report.violations.join("\n"))
}

fn show(report: &Report) {
    println!(
        "seed {} breaks {}",
        report.seed,
        report.violations.join("; ")
    );
}

fn simulate(first: u64, operations: u64) -> Result<(), String> {
    let wrong = sim::gates();
    if !wrong.is_empty() {
        return Err(wrong.join("; "));
    }
    let started = now();
    let shown = AtomicU64::new(0);
    let every = if operations > 10_000_000 { 60 } else { 10 };
    let (counters, broken) = sim::run_many(first, operations, 10, |so_far, next, report| {
        if !report.violations.is_empty() {
            show(report);
        }
        let seconds = started.elapsed().as_secs();
        if seconds < every + shown.load(Ordering::Relaxed) {
            return;
        }
        shown.store(seconds, Ordering::Relaxed);
        let done = so_far.operations;
        let left = seconds * operations.saturating_sub(done) / done.max(1);
        eprintln!(
            "{done} of {operations} operations, {} a second, {left} s left; seeds {first} to {next} are \
             begun",
            done / seconds
        );
    });
    let seconds = started.elapsed().as_secs_f64();
    for (name, value, least) in counters.all() {
        println!(
            "figure sim_{name} {value} times (at least {})",
            scaled(least, operations)
        );
    }
    println!("figure sim_first_seed {first} seed");
    println!("figure sim_seconds {seconds:.1} seconds");
    println!(
        "figure sim_rate {:.0} operations/second",
        counters.operations as f64 / seconds
    );
    println!("figure sim_violations {} violations", broken.len());
    if let Some(report) = broken.iter().min_by_key(|report| report.seed) {
        let smallest = sim::shrink(report.seed);
        println!("\nthe smallest form of seed {}:", report.seed);
        let skip = smallest.trace.len().saturating_sub(120);
        smallest
            .trace
            .iter()
            .skip(skip)
            .for_each(|line| println!("{line}"));
        return Err(format!(
            "seed {}: {}",
            report.seed,
            smallest.violations.join("; ")
        ));
    }
    let missed: Vec<String> = counters
        .all()
        .into_iter()
        .filter(|(_, value, least)| *value < scaled(*least, operations))
        .map(|(name, value, least)| format!("{name}: {value} of {}", scaled(least, operations)))
        .collect();
    if missed.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the run did not come across enough: {}",
        missed.join(", ")
    ))
}

/// A minimum for a million operations, for a run of this size.
fn scaled(least: u64, operations: u64) -> u64 {
    least * operations.min(1_000_000) / 1_000_000
}

fn small(seeds: u64, full: bool) -> Result<(), String> {
    let started = now();
    let result = if full {
        sim::small::run_full(seeds)
    } else {
        sim::small::run(seeds)
    };
    println!("figure small_worlds {} worlds", result.worlds);
    println!("figure small_killed_twice {} worlds", result.twice_killed);
    println!(
        "figure small_seconds {:.1} seconds",
        started.elapsed().as_secs_f64()
    );
    println!("figure small_violations {} violations", result.broken.len());
    let Some((plan, report)) = result.broken.first() else {
        return Ok(());
    };
    report.trace.iter().for_each(|line| println!("{line}"));
    Err(format!(
        "seed {}, {plan}: {}",
        report.seed,
        report.violations.join("; ")
    ))
}

/// Lets out one bug after another; each must be noticed by the rule that is named for it.
fn planted(operations: u64) -> Result<(), String> {
    let mut missed = Vec::new();
    let started = now();
    for bug in BUGS {
        let (number, what) = (bug.number, bug.what);
        let one = now();
        bugs::plant(number)?;
        let caught = catch(bug, operations);
        bugs::plant(0)?;
        let seconds = one.elapsed().as_secs_f64();
        match caught {
            Some(rule) => println!("{number:>2}  {what:<45} {rule:<9} {seconds:.1} s"),
            None => {
                println!("{number:>2}  {what:<45} MISSED    {seconds:.1} s");
                missed.push(number.to_string());
            }
        }
    }
    println!("figure planted_caught {} bugs", BUGS.len() - missed.len());
    println!(
        "figure planted_seconds {:.0} seconds",
        started.elapsed().as_secs_f64()
    );
    if missed.is_empty() {
        return Ok(());
    }
    Err(format!(
        "nobody noticed the planted bugs {}",
        missed.join(", ")
    ))
}

/// The rule that noticed the bug, if it is one that was named for it.
fn catch(bug: &Bug, operations: u64) -> Option<&'static str> {
    let named = |found: &[String]| {
        let rules = bug.rules.iter();
        rules
            .copied()
            .find(|rule| found.iter().any(|v| v.starts_with(&format!("{rule}:"))))
    };
    // Only a world that ends calm can show that something never ends; the smallest is enough.
    if bug.rules.contains(&"liveness") {
        return named(&sim::small::one().violations);
    }
    named(&sim::gates()).or_else(|| {
        let (_, broken) = sim::run_many(1, operations, 3, |_, _, _| {});
        let found: Vec<String> = broken
            .into_iter()
            .flat_map(|report| report.violations)
            .collect();
        named(&found)
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "a stopwatch; nothing depends on it"
)]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

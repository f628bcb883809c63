//! Small worlds, every one of them: programs are killed at every write and every send, and their
//! successors too. A read changes nothing, so a death there is one after the step before.

use super::config::{Config, FAULTS, Fault};
use super::{Report, run_config};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the exhaustive run came to.
#[derive(Debug, Default)]
pub struct Small {
    /// How many worlds there were.
    pub worlds: u64,
    /// How many of them had both deaths.
    pub twice_killed: u64,
    /// The worlds in which a rule was broken, with their kill plans.
    pub broken: Vec<(String, Report)>,
}

impl Config {
    pub(crate) fn quiet(quick_disk: bool) -> Config {
        Config {
            hosts: 1,
            servers: 1,
            processes: 1,
            deeds: 1,
            span: 1_000,
            window: 1_800_000,
            timeout: 1_000,
            give_up: 20_000,
            attempts: 4,
            rates: [0; FAULTS],
            kills: 0,
            cuts: 0,
            freezes: 0,
            jumps: 0,
            outages: 0,
            server_kills: 0,
            back_jumps: false,
            proof_of_life: true,
            marker: true,
            stores_errors: false,
            quick_disk,
            calm: true,
            gentle: false,
            suspends: 0,
            accounts: 1,
            clicks_everywhere: false,
            profile: "default",
            keeps_bodies: true,
            retention: None,
            kill_plan: Vec::new(),
            plan_is_cut: false,
        }
    }
}

/// The settings of the small worlds: what else is wrong while programs die.
fn settings(full: bool) -> Vec<(&'static str, Config)> {
    let mut all = Vec::new();
    let troubles: [(&str, Option<Fault>); 9] = [
        ("nothing else is wrong", None),
        ("answers are lost", Some(Fault::LoseReply)),
        ("requests are lost", Some(Fault::LoseRequest)),
        ("requests come twice", Some(Fault::Duplicate)),
        ("answers are cut off", Some(Fault::CutReply)),
        ("the handler fails", Some(Fault::HandlerFails)),
        ("people cancel", Some(Fault::Cancel)),
        ("the server takes its time", Some(Fault::Accept)),
        ("writes fail", Some(Fault::WriteError)),
    ];
    for (name, trouble) in troubles {
        for cut in [false, true] {
            for (quick, proof) in [(false, true), (true, false)] {
                let mut config = Config::quiet(quick);
                config.plan_is_cut = cut;
                config.proof_of_life = proof;
                if let Some(fault) = trouble {
                    config.rates[fault as usize] = 5_000;
                }
                if full {
                    (config.deeds, config.processes) = (2, 2);
                    config.clicks_everywhere = true;
                }
                all.push((name, config));
            }
        }
    }
    all
}

/// One operation and one driver, killed at every step, and its successor at every step.
#[must_use]
pub fn run(seeds: u64) -> Small {
    sweep_all(seeds, false, &[(0, 1)])
}

/// Two operations that two drivers both want; two deaths among the drivers and their successors.
#[must_use]
pub fn run_full(seeds: u64) -> Small {
    sweep_all(seeds, true, &[(0, 1), (0, 2), (1, 2), (2, 3)])
}

/// One small world whose program dies after its first step: its successor must take over.
#[must_use]
pub fn one() -> Report {
    let mut config = Config::quiet(true);
    config.kill_plan = vec![(0, 2)];
    run_config(&config, 1, false)
}

fn sweep_all(seeds: u64, full: bool, victims: &[(usize, usize)]) -> Small {
    let settings = settings(full);
    let mut jobs = Vec::new();
    for (name, config) in &settings {
        for seed in 1..=seeds {
            for pair in victims {
                jobs.push((*name, config, seed, *pair));
            }
        }
    }
    let (next, total) = (AtomicUsize::new(0), Mutex::new(Small::default()));
    let work = || {
        while let Some((name, config, seed, pair)) = jobs.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let mut small = Small::default();
            for first in 1.. {
                if !sweep(&mut small, name, config, *seed, (pair.0, first), pair.1) {
                    break;
                }
            }
            let mut total = super::lock(&total);
            total.worlds += small.worlds;
            total.twice_killed += small.twice_killed;
            total.broken.append(&mut small.broken);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..super::cores() {
            scope.spawn(work);
        }
    });
    total
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Every second death after one first; false if the first was never reached.
fn sweep(
    small: &mut Small,
    name: &str,
    config: &Config,
    seed: u64,
    first: (usize, u64),
    other: usize,
) -> bool {
    let mut config = config.clone();
    for second in 0.. {
        config.kill_plan = vec![first];
        if second > 0 {
            config.kill_plan.push((other, second));
        }
        let report = run_config(&config, seed, false);
        small.worlds += 1;
        small.twice_killed += u64::from(report.planned_deaths == 0b11);
        if !report.violations.is_empty() && small.broken.len() < 10 {
            let plan = format!("{name}, {config:?}");
            small.broken.push((plan, run_config(&config, seed, true)));
        }
        if second == 0 && report.planned_deaths == 0 {
            return false;
        }
        if second > 0 && report.planned_deaths & 0b10 == 0 {
            return true;
        }
    }
    true
}

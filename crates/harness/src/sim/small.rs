//! Small worlds, every one of them: one operation, killed at every step, and its successor too.

use super::config::{Config, FAULTS, Fault};
use super::{Report, run_config};

/// What the exhaustive run came to.
#[derive(Debug, Default)]
pub struct Small {
    /// How many worlds there were.
    pub worlds: u64,
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
            kill_plan: Vec::new(),
            plan_is_cut: false,
        }
    }
}

/// The settings of the small worlds: what else is wrong while programs die.
fn settings() -> Vec<(&'static str, Config)> {
    let mut all = Vec::new();
    let troubles: [(&str, Option<Fault>); 7] = [
        ("nothing else is wrong", None),
        ("answers are lost", Some(Fault::LoseReply)),
        ("requests are lost", Some(Fault::LoseRequest)),
        ("requests come twice", Some(Fault::Duplicate)),
        ("answers are cut off", Some(Fault::CutReply)),
        ("the handler fails", Some(Fault::HandlerFails)),
        ("people cancel", Some(Fault::Cancel)),
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
                all.push((name, config));
            }
        }
    }
    all
}

/// Kills the first program at every step, and the second at every step after that.
#[must_use]
pub fn run(seeds: u64) -> Small {
    let mut small = Small::default();
    for (name, config) in settings() {
        for seed in 1..=seeds {
            for first in 1..=40 {
                if !sweep(&mut small, name, &config, seed, first) {
                    break;
                }
            }
        }
    }
    small
}

/// Every second kill after one first; false if the first was never reached.
fn sweep(small: &mut Small, name: &str, config: &Config, seed: u64, first: u64) -> bool {
    for second in 0..=40 {
        let mut config = config.clone();
        config.kill_plan = vec![(0, first)];
        if second > 0 {
            config.kill_plan.push((1, second));
        }
        let report = run_config(&config, seed, false);
        small.worlds += 1;
        let reached = report.counters.kills_at_step;
        if !report.violations.is_empty() {
            let plan = format!("{name}, {config:?}");
            small.broken.push((plan, run_config(&config, seed, true)));
        }
        if reached == 0 {
            return false;
        }
        if second > 0 && reached < 2 {
            break;
        }
    }
    true
}

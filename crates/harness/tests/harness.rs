//! The harness itself: it replays, it remembers what it once found, and its gates are sound.

use samekey_harness::sim;
use std::process::Command;

#[test]
fn a_seed_tells_the_same_story_twice() {
    for seed in 1..=20 {
        let (first, second) = (sim::run(seed, false), sim::run(seed, true));
        assert_eq!(first.hash, second.hash, "seed {seed}");
        assert_ne!(first.hash, sim::run(seed + 1, false).hash, "seed {seed}");
    }
}

/// Every seed that ever broke a rule, with what it found: see `seeds/`.
#[test]
fn no_seed_that_once_broke_a_rule_breaks_one_again() {
    let seeds = include_str!("../seeds/once-broken.txt");
    for line in seeds.lines().filter(|line| !line.starts_with('#')) {
        let (seed, what) = line.split_once(' ').expect("a seed, then what it found");
        let report = sim::run(seed.parse().expect("a number"), false);
        assert!(
            report.violations.is_empty(),
            "{what}: {:?}",
            report.violations
        );
    }
}

#[test]
fn the_gates_beside_the_worlds_are_open() {
    assert!(sim::gates().is_empty(), "{:?}", sim::gates());
}

#[test]
fn the_program_replays_a_seed_and_names_its_trace() {
    let output = Command::new(env!("CARGO_BIN_EXE_samekey-harness"))
        .args(["sim", "--seed", "5"])
        .output()
        .expect("the harness runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("trace hash"),
        "{text}"
    );
}

/// The world once cut the power and let another program of the host go on.
#[test]
fn a_planned_power_cut_spares_no_program_of_its_host() {
    assert!(sim::small::a_cut_spares_nobody());
}

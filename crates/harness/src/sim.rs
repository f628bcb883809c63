//! A seeded world around the real client: one thread, one seed, every fault, judges outside.

mod chaos;
mod config;
mod disk;
mod executor;
mod gates;
mod judges;
mod monitor;
mod net;
pub(crate) mod rng;
mod server;
mod shrink;
pub mod small;
mod user;
mod world;

pub use monitor::Counters;
pub use shrink::shrink;

use config::Config;
use executor::Executor;
use std::sync::{Arc, Mutex};
use world::{World, lock};

/// What became of one world.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The seed that made it.
    pub seed: u64,
    /// What was come across.
    pub counters: Counters,
    /// Every rule that was broken.
    pub violations: Vec<String>,
    /// A digest of everything that happened, in order.
    pub hash: u64,
    /// The same in words, if asked for.
    pub trace: Vec<String>,
    /// How many of the planned deaths took place.
    planned_deaths: usize,
}

/// Runs the world of one seed.
#[must_use]
pub fn run(seed: u64, trace: bool) -> Report {
    run_config(&Config::draw(seed), seed, trace)
}

fn run_config(config: &Config, seed: u64, trace: bool) -> Report {
    let world = Arc::new(Mutex::new(World::new(config.clone(), seed, trace)));
    lock(&world).plan();
    let mut executor = Executor::new(world);
    let ended = executor.run();
    let mut monitor = executor.finish();
    monitor.counters.worlds = 1;
    if !ended {
        monitor
            .violations
            .push("liveness: the world does not come to rest".into());
    }
    Report {
        seed,
        hash: monitor.hash ^ monitor.counters.sends,
        counters: monitor.counters,
        violations: monitor.violations,
        trace: monitor.trace.unwrap_or_default(),
        planned_deaths: monitor.planned_deaths,
    }
}

/// Runs worlds from this seed on, on every core, until so many operations were simulated or so
/// many worlds were broken. `progress` hears of every world, and of the seed that comes next. What is kept
/// does not grow with the number of worlds.
pub fn run_many(
    first: u64,
    operations: u64,
    broken: usize,
    progress: impl Fn(&Counters, u64, &Report) + Sync,
) -> (Counters, Vec<Report>) {
    let total = Mutex::new((Counters::default(), Vec::new()));
    let next = std::sync::atomic::AtomicU64::new(first);
    let work = || {
        loop {
            let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let report = run(seed, false);
            let mut total = lock(&total);
            total.0.add(&report.counters);
            let coming = next.load(std::sync::atomic::Ordering::Relaxed);
            progress(&total.0, coming, &report);
            if !report.violations.is_empty() {
                total.1.push(report);
            }
            if total.0.operations >= operations || total.1.len() >= broken {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..cores() {
            scope.spawn(work);
        }
    });
    total
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// What the gates beside the worlds find wrong.
#[must_use]
pub fn gates() -> Vec<String> {
    [gates::spread(), gates::tenants(), gates::errors()].concat()
}

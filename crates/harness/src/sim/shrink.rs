//! Makes a failing world smaller: fewer deeds, fewer kinds of fault, as long as it still fails.

use super::config::{Config, FAULTS};
use super::{Report, run_config};

/// The smallest failing world that dropping things one by one leads to.
#[must_use]
pub fn shrink(seed: u64) -> Report {
    let mut config = Config::draw(seed);
    let rule = |report: &Report| {
        report
            .violations
            .first()
            .map(|v| v.split(':').next().unwrap_or_default().to_owned())
    };
    let wanted = rule(&run_config(&config, seed, false));
    let mut keep_if_fails = |change: &dyn Fn(&mut Config)| {
        let mut smaller = config.clone();
        change(&mut smaller);
        let report = run_config(&smaller, seed, false);
        if rule(&report) == wanted && wanted.is_some() {
            config = smaller;
        }
    };
    for fault in 0..FAULTS {
        keep_if_fails(&move |config| config.rates[fault] = 0);
    }
    keep_if_fails(&|config| config.kills = 0);
    keep_if_fails(&|config| config.cuts = 0);
    keep_if_fails(&|config| config.freezes = 0);
    keep_if_fails(&|config| config.jumps = 0);
    keep_if_fails(&|config| config.outages = 0);
    keep_if_fails(&|config| config.server_kills = 0);
    keep_if_fails(&|config| config.hosts = 1);
    keep_if_fails(&|config| config.servers = 1);
    keep_if_fails(&|config| config.processes = 1);
    for _ in 0..8 {
        keep_if_fails(&|config| config.deeds = (config.deeds * 2 / 3).max(1));
    }
    for _ in 0..20 {
        keep_if_fails(&|config| config.deeds = config.deeds.saturating_sub(1).max(1));
    }
    run_config(&config, seed, true)
}

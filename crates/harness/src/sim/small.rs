//! Small worlds, every one of them: programs die before and after every write and every send, and
//! then others do. A read changes nothing, so a death there is one after the step before.

use super::config::{Config, Death, FAULTS, Fault, Keeping};
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
            keeping: Keeping::Plain,
            retention: None,
            kill_plan: Vec::new(),
            plan_is_cut: false,
        }
    }
}

/// The settings of the small worlds: what else is wrong while programs die.
fn settings(full: bool) -> Vec<(&'static str, Config)> {
    let mut all = Vec::new();
    let troubles: [(&str, Option<Fault>); 14] = [
        ("nothing else is wrong", None),
        ("answers are lost", Some(Fault::LoseReply)),
        ("requests are lost", Some(Fault::LoseRequest)),
        ("requests come twice", Some(Fault::Duplicate)),
        ("answers are cut off", Some(Fault::CutReply)),
        ("the handler fails", Some(Fault::HandlerFails)),
        ("people cancel", Some(Fault::Cancel)),
        ("the server takes its time", Some(Fault::Accept)),
        ("writes fail", Some(Fault::WriteError)),
        ("nobody listens", Some(Fault::Refuse)),
        ("a gateway speaks", Some(Fault::Gateway)),
        ("it is sent on", Some(Fault::Moved)),
        ("callers leave", Some(Fault::Drop)),
        ("all takes long", Some(Fault::Slow)),
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

/// One operation and one driver: it dies before or after every step, and then whoever is left.
#[must_use]
pub fn run(seeds: u64) -> Small {
    sweep_all(seeds, false)
}

/// Two operations that two drivers both want; any of them dies before or after every step, and then
/// any other, old or new.
#[must_use]
pub fn run_full(seeds: u64) -> Small {
    sweep_all(seeds, true)
}

/// One small world whose program dies after its first step: its successor must take over.
#[must_use]
pub fn one() -> Report {
    let mut config = Config::quiet(true);
    config.kill_plan = vec![Death {
        process: 0,
        step: 2,
        after: false,
    }];
    run_config(&config, 1, false)
}

/// Whether a planned power cut takes down every program of its host, and not only the one at whose
/// step it comes.
#[must_use]
pub fn a_cut_spares_nobody() -> bool {
    let (_, mut config) = settings(true).swap_remove(2);
    config.kill_plan = vec![Death {
        process: 0,
        step: 2,
        after: false,
    }];
    let dies = |who: &str| {
        let report = run_config(&config, 1, true);
        let line = format!("{who} dies");
        let at = |line: &String| line.split_whitespace().next().map(str::to_owned);
        report
            .trace
            .iter()
            .find(|it| it.ends_with(&line))
            .and_then(at)
    };
    let (first, second) = (dies("p0"), dies("p1"));
    config.plan_is_cut && first.is_some() && first == second
}

/// More programs than any small world starts.
const PROGRAMS: usize = 12;

fn sweep_all(seeds: u64, full: bool) -> Small {
    let settings = settings(full);
    let mut jobs = Vec::new();
    for (name, config) in &settings {
        for seed in 1..=seeds {
            for process in 0..PROGRAMS {
                jobs.push((*name, config, seed, process));
            }
        }
    }
    let (next, total) = (AtomicUsize::new(0), Mutex::new(Small::default()));
    let work = || {
        while let Some((name, config, seed, process)) =
            jobs.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let mut sweep = Sweep {
                name,
                config: Config::clone(config),
                seed: *seed,
                small: Small::default(),
            };
            sweep.first_deaths(*process);
            let mut small = sweep.small;
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

/// All the worlds of one setting and seed in which one program dies first.
struct Sweep<'a> {
    name: &'a str,
    config: Config,
    seed: u64,
    small: Small,
}

impl Sweep<'_> {
    /// This program dies before and after each of its steps.
    fn first_deaths(&mut self, process: usize) {
        for step in 1.. {
            for after in [false, true] {
                let first = Death {
                    process,
                    step,
                    after,
                };
                self.config.kill_plan = vec![first];
                if self.world() < 1 {
                    return;
                }
                for other in (0..PROGRAMS).filter(|other| *other != process) {
                    self.second_deaths(first, other);
                }
            }
        }
    }

    /// After that another one does.
    fn second_deaths(&mut self, first: Death, process: usize) {
        for step in 1.. {
            for after in [false, true] {
                let second = Death {
                    process,
                    step,
                    after,
                };
                self.config.kill_plan = vec![first, second];
                if self.world() < 2 {
                    return;
                }
            }
        }
    }

    /// Runs the world of this plan; says how many of its deaths took place.
    fn world(&mut self) -> usize {
        let report = run_config(&self.config, self.seed, false);
        let deaths = report.planned_deaths;
        // A plan that was not carried out is the world of a shorter one.
        if deaths == self.config.kill_plan.len() {
            self.small.worlds += 1;
            self.small.twice_killed += u64::from(deaths == 2);
        }
        if !report.violations.is_empty() && self.small.broken.len() < 10 {
            let plan = format!("{}, {:?}", self.name, self.config);
            let told = run_config(&self.config, self.seed, true);
            self.small.broken.push((plan, told));
        }
        deaths
    }
}

//! Power cuts under a real file system. What was told before the cut, and only that, must be there
//! after it, each kind as hard as it was promised.

use super::disk::Disk;
use super::judge::{Evidence, Verdict, missing_begins, rows, rows_of_what_is_left};
use super::kills::finish_all;
use super::leaks;
use super::server::Server;
use super::told::{self, Said, Told};
use super::tools::{Process, Res, Scratch, beside, now, pause};
use super::wire::Wire;
use super::worker::{Job, Kind};
use crate::sim::rng::Rng;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How many actions a worker has before it.
const SHARE: u64 = 80;

/// Disk, server and witness of all cuts.
pub(super) struct Bench {
    disk: Disk,
    folder: Scratch,
    server: Server,
    wire: Wire,
    cuts: u64,
}

/// What the workers do when the power goes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// Every outcome is flushed fully.
    pub(super) flush: bool,
    /// Everything is begun before anything is sent, so that no begin flushes an outcome with it.
    pub(super) first: bool,
    pub(super) bug: u8,
}

/// What became of one cut.
pub(super) struct Cut {
    pub(super) verdict: Verdict,
    /// How many outcomes had been told before it.
    pub(super) outcomes: u64,
    /// Whether something was left on the tape.
    pub(super) taped: bool,
}

fn is_outcome(told: &&Told) -> bool {
    matches!(told.said, Said::Outcome(_))
}

/// Whether there is more on the tape of a journal than that all was filed.
fn is_taped(journal: &Path) -> bool {
    const HEAD: u64 = 512;
    let tape = std::fs::metadata(beside(journal, "-tape"));
    tape.is_ok_and(|found| found.len() > HEAD)
}

/// What is told while a cut is prepared.
struct Shift {
    folder: PathBuf,
    jobs: Vec<Job>,
    people: bool,
}

impl Bench {
    pub(super) fn new(seed: u64) -> Res<Bench> {
        let disk = Disk::new()?;
        let folder = Scratch::new("cuts")?;
        let server = Server::start(&folder.join("shop.db"), &["delay:1..10%20"], seed)?;
        let wire = Wire::start(server.address(), 0, seed)?;
        Ok(Bench {
            disk,
            folder,
            server,
            wire,
            cuts: 0,
        })
    }

    fn shift(&mut self, plan: Plan, rng: &mut Rng) -> Shift {
        self.cuts += 1;
        let folder = self.disk.place().join(format!("cut-{}", self.cuts));
        let workers = if plan.first { 1 } else { rng.between(1, 4) };
        let jobs = (0..workers).map(|worker| {
            let from = self.cuts * 1_000 + worker * SHARE;
            let wanted = |number: &u64| !plan.first || Kind::of(*number, true) == Kind::Order;
            Job {
                journal: folder.join("j"),
                url: self.wire.url(),
                told: self.folder.join(&format!("told-{}-{worker}", self.cuts)),
                bug: plan.bug,
                flush: plan.flush,
                first: plan.first,
                people: true,
                numbers: (from..from + SHARE).filter(wanted).collect(),
                ..Job::default()
            }
        });
        Shift {
            jobs: jobs.collect(),
            folder,
            people: true,
        }
    }

    /// One cut: work, the cut, what is left of it, peace, and the verdict.
    pub(super) fn cut(&mut self, plan: Plan) -> Res<Cut> {
        let mut rng = Rng::new(plan.seed);
        let shift = self.shift(plan, &mut rng);
        let (told, sent_before) = self.work_until_the_cut(&shift, plan, &mut rng)?;
        let outcomes = told.iter().filter(is_outcome).count() as u64;
        let journal = shift.folder.join("j");
        let taped = is_taped(&journal);
        let before = rows(&journal)?;
        let numbers = |number: &u64| number / 1_000 == self.cuts;
        let drain = Job {
            journal: journal.clone(),
            url: self.wire.url(),
            told: self.folder.join(&format!("told-{}-at-last", self.cuts)),
            drain: true,
            ..Job::default()
        };
        finish_all(&drain, &self.folder.join("printed"))?;
        let mut effects = self.server.effects()?;
        effects.retain(|number, _| numbers(number));
        let mut sent = self.wire.sent();
        sent.retain(|sent| sent.number.is_some_and(|number| numbers(&number)));
        let evidence = Evidence {
            told,
            told_later: told::read(&drain.told)?,
            before,
            after: rows(&journal)?,
            effects,
            sent,
            sent_before: sent_before.into_iter().filter(|n| numbers(n)).collect(),
            people: shift.people,
            may_lose_successes: !plan.flush,
            keeps_attempts: false,
        };
        let cut = Cut {
            verdict: evidence.judge(),
            outcomes,
            taped,
        };
        // The disk is small; what was deleted still lies on it, and is searched for secrets.
        let _ = std::fs::remove_dir_all(&shift.folder);
        Ok(cut)
    }

    /// How often the power was cut so far.
    pub(super) fn cuts(&self) -> u64 {
        self.cuts
    }

    /// A cut with a bug let out: how many acknowledged begins it took.
    pub(super) fn control(&mut self, plan: Plan) -> Res<u64> {
        let mut rng = Rng::new(plan.seed);
        let shift = self.shift(plan, &mut rng);
        let (told, _) = self.work_until_the_cut(&shift, plan, &mut rng)?;
        let left = rows_of_what_is_left(&shift.folder.join("j"));
        let _ = std::fs::remove_dir_all(&shift.folder);
        Ok(missing_begins(&told, &left))
    }

    /// What was told, and the numbers that were on the wire, before the cut and only then: a sync that
    /// is under way while a file system is taken down may still report success.
    fn work_until_the_cut(
        &self,
        shift: &Shift,
        plan: Plan,
        rng: &mut Rng,
    ) -> Res<(Vec<Told>, Vec<u64>)> {
        let log = self.folder.join("printed");
        let mut workers = Vec::new();
        for job in &shift.jobs {
            workers.push(Process::start(&mut job.command(&log)?)?);
        }
        let (outcomes, lines) = if plan.first {
            (rng.between(5, 40), 0)
        } else {
            (rng.between(0, 20), rng.between(10, 150))
        };
        let started = now();
        let told = loop {
            let mut told = Vec::new();
            for job in &shift.jobs {
                told.extend(told::read(&job.told)?);
            }
            let enough = told.iter().filter(is_outcome).count() as u64 >= outcomes
                && told.len() as u64 >= lines;
            if enough || started.elapsed() > Duration::from_secs(10) {
                break told;
            }
            pause(Duration::from_millis(2));
        };
        let sent = self.wire.numbers();
        self.disk.cut()?;
        workers.iter_mut().for_each(|worker| {
            worker.kill();
        });
        self.disk.restore()?;
        Ok((told, sent))
    }

    /// Secrets on the disk itself, and in all that was printed and told.
    pub(super) fn leaks(&self) -> u64 {
        let found = leaks::search_but_the_shop(self.folder.path());
        found.len() as u64 + u64::from(leaks::holds(&self.disk.image()))
    }
}

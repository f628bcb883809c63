//! Disks that fail: the n-th call, every call from the n-th on, a full disk, a read-only one.
//!
//! Whatever fails, nothing is sent whose entry is not in the journal, nothing is told that is not true,
//! and when the disk is well again everything comes to its end.

use super::disk::Small;
use super::judge::{Evidence, Rows, Verdict, rows};
use super::kills::{finish, finish_all, run_out};
use super::leaks;
use super::server::Server;
use super::told::{self, Told};
use super::tools::{Process, Res, Scratch, because, now};
use super::wire::Wire;
use super::worker::{Job, dress};
use crate::sim::rng::Rng;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What fails, and how.
const KINDS: &[(&str, &str)] = &[
    ("pwrite64", "EIO"),
    ("pwrite64", "ENOSPC"),
    ("fsync,fdatasync", "EIO"),
    ("pread64", "EIO"),
    ("openat", "EIO"),
    ("ftruncate", "EIO"),
    ("fallocate", "ENOSPC"),
    ("rename", "EIO"),
    ("flock", "EIO"),
    ("unlink", "EIO"),
];

/// Actions of one point; its numbers begin at its own thousand.
const ACTIONS: u64 = 6;

/// So many runs in a row that a fault no longer reaches are the end of its kind.
const CLEAN: u64 = 3;

/// One place where the disk fails.
#[derive(Clone, Copy, Debug)]
struct Point {
    call: &'static str,
    error: &'static str,
    nth: u64,
    /// Whether all further calls fail too.
    lasting: bool,
}

/// What was left of one point.
struct Ran {
    name: String,
    first: u64,
    told: Vec<Told>,
    told_later: Vec<Told>,
    before: Rows,
    after: Rows,
    sent_before: Vec<u64>,
    /// Why there is nothing to compare.
    broken: Option<String>,
    /// Where a secret was found.
    leaks: Vec<PathBuf>,
}

impl Ran {
    fn search(&mut self, folder: &Path) {
        self.leaks = leaks::search(folder);
    }
}

/// Server and witness of all points.
pub(super) struct Bench {
    folder: Scratch,
    server: Server,
    wire: Wire,
    next: AtomicU64,
}

/// How far the points went.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reach {
    pub(super) points: u64,
    pub(super) not_reached: u64,
    /// Kinds of which no run was clean, however far they went.
    pub(super) unclean: u64,
    /// How many of the calls that may fail are about the tape, in a run without faults.
    pub(super) on_tape: u64,
}

impl Bench {
    pub(super) fn new(seed: u64) -> Res<Bench> {
        let folder = Scratch::new("faults")?;
        let server = Server::start(&folder.join("shop.db"), &[], seed)?;
        let wire = Wire::start(server.address(), 0, seed)?;
        Ok(Bench {
            folder,
            server,
            wire,
            next: AtomicU64::new(0),
        })
    }

    fn job(&self, journal: &Path, actions: u64) -> Job {
        let first = 1 + 1_000 * (1 + self.next.fetch_add(1, Relaxed));
        Job {
            journal: journal.to_owned(),
            url: self.wire.url(),
            told: self.folder.join(&format!("told-{first}")),
            single: true,
            numbers: (first..first + actions).collect(),
            ..Job::default()
        }
    }

    /// Runs the points, two at a time: so many that were reached, or every one there is.
    pub(super) fn points(&self, wanted: u64, seed: u64) -> Res<(Vec<Verdict>, Reach)> {
        let (lengths, on_tape) = self.lengths()?;
        let rows = plan(&lengths, wanted, seed);
        let (at, reached) = (AtomicUsize::new(0), AtomicU64::new(0));
        let ran: Mutex<Vec<Ran>> = Mutex::default();
        let (missed, unclean) = (AtomicU64::new(0), AtomicU64::new(0));
        let started = now();
        let work = || -> Res<()> {
            while let Some(row) = rows.get(at.fetch_add(1, Relaxed)) {
                let mut clean = 0;
                for point in row {
                    if clean == CLEAN || reached.load(Relaxed) >= wanted {
                        break;
                    }
                    let Some(one) = self.point(*point)? else {
                        missed.fetch_add(1, Relaxed);
                        clean += 1;
                        continue;
                    };
                    clean = 0;
                    ran.lock().unwrap_or_else(PoisonError::into_inner).push(one);
                    let count = reached.fetch_add(1, Relaxed) + 1;
                    if count.is_multiple_of(100) {
                        println!("{count} fault points, {} s", started.elapsed().as_secs());
                    }
                }
                if row.len() > 1 && clean < CLEAN {
                    unclean.fetch_add(1, Relaxed);
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let both = [scope.spawn(work), scope.spawn(work)];
            both.into_iter()
                .try_for_each(|one| one.join().unwrap_or_else(|_| Err("a judge broke".into())))
        })?;
        let ran = ran.into_inner().unwrap_or_else(PoisonError::into_inner);
        let reach = Reach {
            points: ran.len() as u64,
            not_reached: missed.into_inner(),
            unclean: unclean.into_inner(),
            on_tape,
        };
        Ok((self.judge(ran)?, reach))
    }

    /// How many calls of each kind one thread makes at most, in a run without faults, and how many write or
    /// sync the tape.
    fn lengths(&self) -> Res<(BTreeMap<&'static str, u64>, u64)> {
        let scratch = Scratch::new("point")?;
        let log = scratch.join("calls");
        let job = self.job(&scratch.join("j"), ACTIONS);
        let calls: Vec<&str> = KINDS.iter().map(|(call, _)| *call).collect();
        let trace = [
            "-y".to_owned(),
            "-e".to_owned(),
            format!("trace={}", calls.join(",")),
        ];
        let mut process = Process::start(&mut traced(&job, &trace, &log, &self.printed())?)?;
        if process.wait(Duration::from_secs(60)).is_none() {
            return Err("a traced worker without faults does not end".into());
        }
        let text = fs::read_to_string(&log).map_err(because("no trace"))?;
        let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(thread), Some(rest)) = (words.next(), words.next()) else {
                continue;
            };
            let call = rest.split('(').next().unwrap_or_default();
            *counts.entry((thread, call)).or_default() += 1;
        }
        let most = |call: &str| {
            let of = counts.iter().filter(|((_, name), _)| *name == call);
            of.map(|(_, count)| *count).max().unwrap_or(0)
        };
        let is_on_tape = |line: &&str| line.contains("j-tape>") && !line.contains("pread64");
        let on_tape = text.lines().filter(is_on_tape).count() as u64;
        let lengths = KINDS.iter().map(|(call, _)| (*call, most(call)));
        Ok((lengths.collect(), on_tape))
    }

    fn printed(&self) -> PathBuf {
        self.folder.join("printed")
    }

    /// One point; nothing if the call never came.
    fn point(&self, point: Point) -> Res<Option<Ran>> {
        let scratch = Scratch::new("point")?;
        let log = scratch.join("calls");
        let journal = scratch.join("d/j");
        let job = self.job(&journal, ACTIONS);
        let Point {
            call,
            error,
            nth,
            lasting,
        } = point;
        let more = if lasting { "+" } else { "" };
        let options = [
            "--seccomp-bpf".to_owned(),
            "-e".to_owned(),
            format!("trace={call}"),
            "-e".to_owned(),
            format!("inject={call}:error={error}:when={nth}{more}"),
        ];
        let mut process = Process::start(&mut traced(&job, &options, &log, &self.printed())?)?;
        // One that hangs is killed, and judged like the others.
        let ended = process.wait(Duration::from_secs(20)).is_some();
        process.kill();
        let injected = fs::read_to_string(&log)
            .unwrap_or_default()
            .contains("(INJECTED)");
        if !injected && ended {
            return Ok(None);
        }
        let mut ran = self.after(&job, format!("{point:?}"))?;
        ran.search(scratch.path());
        Ok(Some(ran))
    }

    /// The disk is well again: looks, goes on, looks again.
    fn after(&self, job: &Job, name: String) -> Res<Ran> {
        let mut ran = Ran {
            name,
            first: job.numbers[0],
            told: told::read(&job.told)?,
            told_later: Vec::new(),
            before: Rows::new(),
            after: Rows::new(),
            sent_before: self.wire.numbers(),
            broken: None,
            leaks: Vec::new(),
        };
        match rows(&job.journal) {
            Ok(before) => ran.before = before,
            Err(why) => {
                ran.broken = Some(why);
                return Ok(ran);
            }
        }
        let again = Job {
            told: self.folder.join(&format!("told-{}-at-last", ran.first)),
            resume: true,
            ..job.clone()
        };
        let hangs = run_out(&again, &self.printed())?.is_none();
        // What was begun and could not be synced counts as maybe sent: its refusal is for a person, until
        // somebody asks again and the server shows the mark of a replay.
        let drain = Job {
            drain: true,
            numbers: Vec::new(),
            ..again.clone()
        };
        ran.broken = finish_all(&drain, &self.printed()).err();
        if hangs {
            ran.broken = Some("the operations do not come to an end".into());
        }
        ran.told_later = told::read(&again.told)?;
        match rows(&job.journal) {
            Ok(after) => ran.after = after,
            Err(why) => ran.broken = Some(why),
        }
        Ok(ran)
    }

    fn judge(&self, ran: Vec<Ran>) -> Res<Vec<Verdict>> {
        let (effects, sent) = (self.server.effects()?, self.wire.sent());
        let judged = ran.into_iter().map(|ran| {
            let ours = |number: u64| number / 1_000 == ran.first / 1_000;
            let mut effects = effects.clone();
            effects.retain(|number, _| ours(*number));
            let sent = sent.iter().filter(|sent| sent.number.is_some_and(ours));
            let evidence = Evidence {
                told: ran.told,
                told_later: ran.told_later,
                before: ran.before,
                after: ran.after,
                effects,
                sent: sent.cloned().collect(),
                sent_before: ran.sent_before.into_iter().filter(|n| ours(*n)).collect(),
                ..Evidence::default()
            };
            let mut verdict = evidence.judge();
            verdict.counts.leaks += ran.leaks.len() as u64;
            let leaks = ran.leaks.iter();
            let said = leaks.map(|path| format!("a secret is in {}", path.display()));
            verdict.words.extend(said);
            if let Some(why) = ran.broken {
                verdict.counts.stuck += 1;
                verdict.words.push(why);
            }
            for words in &mut verdict.words {
                *words = format!("{}: {words}", ran.name);
            }
            verdict
        });
        Ok(judged.collect())
    }

    /// Secrets in all that was printed and told, and in what is left of the journals.
    pub(super) fn leaks(&self) -> u64 {
        leaks::search_but_the_shop(self.folder.path()).len() as u64
    }

    /// A client that sends although its begin was not written: what the gate must notice.
    pub(super) fn twin(&self) -> Res<u64> {
        let scratch = Scratch::new("point")?;
        let job = Job {
            bug: 2,
            ..self.job(&scratch.join("d/j"), ACTIONS)
        };
        finish(&job, &self.printed(), Duration::from_secs(20))?;
        let ran = self.after(&job, "the twin".into())?;
        Ok(self
            .judge(vec![ran])?
            .iter()
            .map(|verdict| verdict.counts.unjournalled)
            .sum())
    }

    /// A disk that fills up: new actions are refused unsent, and what was under way is recorded.
    /// How many were refused, and the verdict when there is room again.
    pub(super) fn full(&self) -> Res<(u64, Verdict)> {
        let disk = Small::new("3m")?;
        let job = self.job(&disk.path().join("d/j"), 300);
        run_out(&job, &self.printed())?;
        let told = fs::read_to_string(&job.told).map_err(because("nothing was told"))?;
        let refused = told
            .lines()
            .filter(|line| line.contains(" refused Journal(Full)"));
        let refused = refused.count() as u64;
        disk.change("size=64m")?;
        let mut ran = self.after(&job, "a full disk".into())?;
        ran.search(disk.path());
        let verdict = self.judge(vec![ran])?.pop().unwrap_or_default();
        Ok((refused, verdict))
    }

    /// A disk that cannot be written: nothing is begun and nothing sent.
    pub(super) fn read_only(&self) -> Res<(u64, Verdict)> {
        let disk = Small::new("16m")?;
        let journal = disk.path().join("d/j");
        finish(
            &self.job(&journal, 2),
            &self.printed(),
            Duration::from_secs(30),
        )?;
        disk.change("ro")?;
        let job = self.job(&journal, ACTIONS);
        finish(&job, &self.printed(), Duration::from_secs(30))?;
        let sent = self.wire.numbers();
        let sent = sent.iter().filter(|number| job.numbers.contains(number));
        let sent = sent.count() as u64 + told::read(&job.told)?.len() as u64;
        disk.change("rw")?;
        let mut ran = self.after(&job, "a read-only disk".into())?;
        ran.search(disk.path());
        let verdict = self.judge(vec![ran])?.pop().unwrap_or_default();
        Ok((sent, verdict))
    }
}

fn traced(job: &Job, options: &[String], log: &Path, printed: &Path) -> Res<Command> {
    let here = std::env::current_exe().map_err(because("cannot find my own place"))?;
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(log).args(options);
    command.arg(here).args(job.words());
    dress(&mut command, printed)?;
    Ok(command)
}

/// The points in the order in which they are tried: for every kind the first call, the second and so on
/// until some runs are clean; or single ones, as chance has it.
fn plan(lengths: &BTreeMap<&'static str, u64>, wanted: u64, seed: u64) -> Vec<Vec<Point>> {
    let mut rows = Vec::new();
    for (call, error) in KINDS {
        // After a fault a run may go on longer than one without.
        let length = lengths.get(call).copied().unwrap_or(0);
        let most = if wanted == u64::MAX {
            4 * length + 40
        } else {
            length + 8
        };
        for lasting in [false, true] {
            let point = |nth| Point {
                call,
                error,
                nth,
                lasting,
            };
            rows.push((1..=most).map(point).collect());
        }
    }
    if wanted == u64::MAX {
        return rows;
    }
    let mut points: Vec<Point> = rows.into_iter().flatten().collect();
    let mut rng = Rng::new(seed);
    for at in (1..points.len()).rev() {
        let other = usize::try_from(rng.below(at as u64 + 1)).unwrap_or(0);
        points.swap(at, other);
    }
    points.into_iter().map(|point| vec![point]).collect()
}

//! Real clients on one journal, killed at every moment, against a real server that has troubles of its
//! own and is killed too.

use super::judge::{Evidence, Verdict, rows};
use super::server::{FAULTS, Server};
use super::tools::{Process, Res, Scratch, because, beside, installed, is_taped, now, pause, wall};
use super::wire::Wire;
use super::worker::{Job, dress};
use super::{leaks, told};
use crate::sim::rng::Rng;
use rustix::process::{Pid, Signal, kill_process};
use samekey::journal::LEASE;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Kills on one journal before it is finished and judged.
pub(super) const PER_SCENE: u64 = 50;

/// What one worker begins, and how much of it nobody has begun before.
const BEGINS: u64 = 10;
const FRESH: u64 = 6;

/// The calls at which a worker is killed, and how far into its life.
const CALLS: &[(&str, u64)] = &[
    ("pwrite64", 60),
    ("fsync,fdatasync", 14),
    ("sendto", 8),
    ("writev", 6),
    ("recvfrom", 14),
    ("flock", 20),
    ("openat", 40),
    ("ftruncate", 4),
    ("rename", 1),
    ("unlink", 3),
    ("write", 30),
];

/// How many of each kind there were.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deaths {
    pub(super) by_timer: u64,
    pub(super) at_a_call: u64,
    pub(super) at_a_word: u64,
    pub(super) stopped: u64,
    pub(super) servers: u64,
    /// Kills that left a tape behind.
    pub(super) on_tape: u64,
    pub(super) operations: u64,
    pub(super) requests: u64,
}

impl Deaths {
    pub(super) fn kills(&self) -> u64 {
        self.by_timer + self.at_a_call + self.at_a_word
    }

    pub(super) fn add(&mut self, other: Deaths) {
        self.by_timer += other.by_timer;
        self.at_a_call += other.at_a_call;
        self.at_a_word += other.at_a_word;
        self.stopped += other.stopped;
        self.servers += other.servers;
        self.on_tape += other.on_tape;
        self.operations += other.operations;
        self.requests += other.requests;
    }
}

/// How one worker dies.
#[derive(Clone, Copy, Debug)]
enum Death {
    Timer,
    Call(&'static str, u64),
    /// As soon as it has told its callers so many things, however long that takes it.
    Word(usize),
    Stop,
}

/// How a scene is to go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) kills: u64,
    pub(super) workers: u64,
    /// The bug let out in every worker; 0 for none.
    pub(super) bug: u8,
    /// One more fault of the server's, to bring the bug out.
    pub(super) fault: &'static str,
}

impl Plan {
    fn faults(&self) -> Vec<&'static str> {
        let more = (!self.fault.is_empty()).then_some(self.fault);
        more.into_iter().chain(FAULTS.iter().copied()).collect()
    }
}

struct Scene {
    plan: Plan,
    folder: Scratch,
    wire: Wire,
    server: Mutex<Server>,
    left: AtomicI64,
    over: AtomicBool,
    next: AtomicU64,
    deaths: Mutex<Deaths>,
    strace: bool,
}

/// Whether kills at the n-th system call can be had.
pub(super) fn can_trace() -> bool {
    installed("strace", "--version")
}

/// What one scene came to, under its name.
type Judged = (String, Verdict, Deaths);

/// So many kills, in scenes of up to eight workers each, two scenes at a time.
pub(super) fn many(kills: u64, seed: u64) -> Res<Vec<Judged>> {
    const WORKERS: [u64; 8] = [4, 8, 1, 6, 2, 3, 5, 7];
    let (given, done, scenes) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let (judged, started) = (Mutex::<Vec<Judged>>::default(), now());
    let lane = || -> Res<()> {
        loop {
            let before = given.fetch_add(PER_SCENE, Relaxed);
            if before >= kills {
                return Ok(());
            }
            let scene = scenes.fetch_add(1, Relaxed);
            let plan = Plan {
                seed: seed.wrapping_add(scene),
                kills: PER_SCENE.min(kills - before),
                workers: WORKERS[usize::try_from(scene % 8).unwrap_or(0)],
                bug: 0,
                fault: "",
            };
            let name = format!("kills, seed {}", plan.seed);
            let (verdict, deaths) = self::scene(plan).map_err(|why| format!("{name}: {why}"))?;
            let so_far = done.fetch_add(deaths.kills(), Relaxed) + deaths.kills();
            let seconds = started.elapsed().as_secs();
            println!("{so_far} of {kills} kills, {seconds} s");
            let mut judged = judged.lock().unwrap_or_else(PoisonError::into_inner);
            judged.push((name, verdict, deaths));
        }
    };
    std::thread::scope(|scope| {
        let lanes = [scope.spawn(lane), scope.spawn(lane)];
        lanes.map(|lane| lane.join().unwrap_or_else(|_| Err("a judge broke".into())))
    })
    .into_iter()
    .collect::<Res<()>>()?;
    Ok(judged.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// One journal: killed so many times, finished in peace, judged.
pub(super) fn scene(plan: Plan) -> Res<(Verdict, Deaths)> {
    let folder = Scratch::new("kills")?;
    let server = Server::start(&folder.join("shop.db"), &plan.faults(), plan.seed)?;
    let scene = Scene {
        wire: Wire::start(server.address(), 400, plan.seed)?,
        plan,
        folder,
        server: Mutex::new(server),
        left: AtomicI64::new(plan.kills.cast_signed()),
        over: AtomicBool::new(false),
        next: AtomicU64::new(0),
        deaths: Mutex::default(),
        strace: can_trace(),
    };
    scene.kill_all()?;
    scene.end()
}

impl Scene {
    fn kill_all(&self) -> Res<()> {
        std::thread::scope(|scope| {
            let slots: Vec<_> = (0..self.plan.workers)
                .map(|slot| scope.spawn(move || self.slot(slot)))
                .collect();
            let chaos = scope.spawn(|| self.kill_servers());
            let mut result = Ok(());
            for slot in slots {
                result = result.and(slot.join().unwrap_or_else(|_| Err("a judge broke".into())));
            }
            self.over.store(true, Relaxed);
            result.and(chaos.join().unwrap_or_else(|_| Err("a judge broke".into())))
        })
    }

    fn job(&self, slot: u64, rng: &mut Rng) -> Job {
        let fresh = self.next.fetch_add(FRESH, Relaxed);
        // Others' numbers too, of now and of before: double clicks and programs that run again.
        let again = (FRESH..BEGINS).map(|_| rng.below(fresh + FRESH) + 1);
        let again: Vec<u64> = again.collect();
        Job {
            journal: self.folder.join("journal/j"),
            url: self.wire.url(),
            told: self.folder.join(&format!("told-{slot}")),
            bug: self.plan.bug,
            resume: rng.chance(6_000),
            first: rng.chance(2_000),
            numbers: (fresh + 1..=fresh + FRESH).chain(again).collect(),
            ..Job::default()
        }
    }

    /// One worker after another, each with its own death.
    fn slot(&self, slot: u64) -> Res<()> {
        let mut rng = Rng::new(self.plan.seed.wrapping_mul(31).wrapping_add(slot));
        let mut lives = 0;
        while self.left.load(Relaxed) > 0 {
            lives += 1;
            if lives > 20 * PER_SCENE {
                return Err("the workers do not live long enough to be killed".into());
            }
            let job = self.job(slot, &mut rng);
            let death = self.death(&mut rng);
            self.life(&job, death, &mut rng)?;
        }
        Ok(())
    }

    fn death(&self, rng: &mut Rng) -> Death {
        if self.plan.bug != 0 {
            // A timer may end every worker of a busy machine before it has done anything at all, and
            // then no bug shows. These have begun all, and were told how some of it ended.
            let words = rng.between(BEGINS + 1, 2 * BEGINS - 2);
            return Death::Word(usize::try_from(words).unwrap_or(0));
        }
        match rng.below(10) {
            0..=2 if self.strace => {
                let (call, most) = rng.pick(CALLS);
                Death::Call(call, rng.between(1, most))
            }
            3 => Death::Stop,
            4 | 5 => Death::Word(usize::try_from(rng.between(1, 2 * BEGINS - 2)).unwrap_or(0)),
            _ => Death::Timer,
        }
    }

    fn life(&self, job: &Job, death: Death, rng: &mut Rng) -> Res<()> {
        let log = self.folder.join("printed");
        let mut command = match death {
            Death::Call(call, nth) => traced(job, call, nth, &log)?,
            _ => job.command(&log)?,
        };
        let before = told::count(&job.told);
        let mut process = Process::start(&mut command)?;
        let count = |of: fn(&mut Deaths) -> &mut u64| {
            self.left.fetch_sub(1, Relaxed);
            let mut deaths = self.deaths();
            *of(&mut deaths) += 1;
            deaths.on_tape += u64::from(is_taped(&job.journal));
        };
        match death {
            Death::Call(..) => {
                let ended = process.wait(Duration::from_secs(4)).is_some();
                if ended && process.was_killed() {
                    count(|deaths| &mut deaths.at_a_call);
                }
            }
            Death::Word(words) => {
                let enough = || told::count(&job.told) >= before + words;
                let ended = process.wait_or(Duration::from_secs(30), enough);
                if ended.is_none() && process.kill() {
                    count(|deaths| &mut deaths.at_a_word);
                }
            }
            Death::Timer => {
                let alive = process.wait(Duration::from_millis(rng.between(1, 450)));
                if alive.is_none() && process.kill() {
                    count(|deaths| &mut deaths.by_timer);
                }
            }
            Death::Stop => {
                let alive = process.wait(Duration::from_millis(rng.between(60, 300)));
                if alive.is_none() && self.stop(&mut process, job, rng)? {
                    count(|deaths| &mut deaths.by_timer);
                }
            }
        }
        Ok(())
    }

    /// Stops a worker, makes the world believe that twice its lease has passed, lets it go on as if
    /// nothing had been, and kills it if it does not end. Whether it was killed.
    fn stop(&self, process: &mut Process, job: &Job, rng: &mut Rng) -> Res<bool> {
        let Some(pid) = Pid::from_raw(process.id().cast_signed()) else {
            return Ok(false);
        };
        if kill_process(pid, Signal::STOP).is_err() {
            return Ok(false);
        }
        if age(&job.journal, process.id())? {
            self.deaths().stopped += 1;
        }
        pause(Duration::from_millis(rng.between(100, 500)));
        let _ = kill_process(pid, Signal::CONT);
        let ended = process.wait(Duration::from_millis(rng.between(50, 600)));
        Ok(ended.is_none() && process.kill())
    }

    fn kill_servers(&self) -> Res<()> {
        let mut rng = Rng::new(self.plan.seed.wrapping_add(77));
        loop {
            let lives = rng.between(300, 1_200);
            for _ in 0..lives / 20 {
                pause(Duration::from_millis(20));
                if self.over.load(Relaxed) {
                    return Ok(());
                }
            }
            self.server()
                .restart(&self.plan.faults(), rng.next() >> 1)?;
            self.deaths().servers += 1;
        }
    }

    fn server(&self) -> std::sync::MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deaths(&self) -> std::sync::MutexGuard<'_, Deaths> {
        self.deaths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn told(&self) -> Res<Vec<told::Told>> {
        let mut all = Vec::new();
        for slot in 0..self.plan.workers {
            all.extend(told::read(&self.folder.join(&format!("told-{slot}")))?);
        }
        Ok(all)
    }

    /// Peace: everything is finished without faults, and then compared.
    fn end(self) -> Res<(Verdict, Deaths)> {
        let journal = self.folder.join("journal/j");
        let told = self.told()?;
        let before = rows(&journal)?;
        let sent_before = self.wire.numbers();
        self.wire.calm();
        self.server().restart(&[], self.plan.seed)?;
        let drain = Job {
            journal: journal.clone(),
            url: self.wire.url(),
            told: self.folder.join("told-at-last"),
            bug: self.plan.bug,
            drain: true,
            ..Job::default()
        };
        let log = self.folder.join("printed");
        if self.plan.bug == 0 {
            finish_all(&drain, &log)?;
        } else {
            // Some bugs let nothing come to an end; they need not be waited for.
            finish(&drain, &log, Duration::from_secs(6))?;
        }
        let evidence = Evidence {
            told,
            told_later: told::read(&drain.told)?,
            before,
            after: rows(&journal)?,
            effects: self.server().effects()?,
            sent: self.wire.sent(),
            sent_before,
            keeps_attempts: true,
            ..Evidence::default()
        };
        let mut verdict = evidence.judge();
        for path in leaks::search_but_the_shop(self.folder.path()) {
            verdict.counts.leaks += 1;
            verdict
                .words
                .push(format!("a secret is in {}", path.display()));
        }
        let mut deaths = *self.deaths();
        deaths.operations = evidence.after.len() as u64;
        deaths.requests = evidence.sent.len() as u64;
        Ok((verdict, deaths))
    }
}

/// Finishes, without faults, all that is open. What stays open is the judge's to see; an error is a worker
/// that hangs, or broke for a reason of its own, which says nothing about the operations.
pub(super) fn finish_all(job: &Job, log: &Path) -> Res<()> {
    match run_out(job, log)? {
        Some(status) if status.success() => Ok(()),
        Some(status) => {
            let mut printed = Vec::new();
            if let Ok(file) = File::open(log) {
                let _ = file.take(16 << 20).read_to_end(&mut printed);
            }
            let printed = String::from_utf8_lossy(&printed);
            let last = printed.lines().last().unwrap_or_default();
            Err(format!(
                "who was to finish all broke ({status}): {last:.200}"
            ))
        }
        None => Err("who was to finish all hangs".into()),
    }
}

/// Runs a worker to its end, unless it no longer tells anybody anything.
pub(super) fn run_out(job: &Job, log: &Path) -> Res<Option<ExitStatus>> {
    let mut process = Process::start(&mut job.command(log)?)?;
    let told = || told::count(&job.told);
    Ok(process.wait_while(Duration::from_secs(60), told))
}

/// Runs a worker to its end, if that comes in time.
pub(super) fn finish(job: &Job, log: &Path, patience: Duration) -> Res<bool> {
    let mut process = Process::start(&mut job.command(log)?)?;
    Ok(process.wait(patience).is_some())
}

/// The same worker, killed from within its n-th call of this name.
fn traced(job: &Job, call: &str, nth: u64, log: &Path) -> Res<Command> {
    let here = std::env::current_exe().map_err(because("cannot find my own place"))?;
    let mut command = Command::new("strace");
    command
        .args(["-f", "-qq", "-o", "/dev/null"])
        .args(["-e", &format!("trace={call}")])
        .args(["-e", &format!("inject={call}:signal=KILL:when={nth}")])
        .arg(here)
        .args(job.words());
    dress(&mut command, log)?;
    Ok(command)
}

/// Makes the note of this process say that it was last heard of two leases ago. It is stopped, and
/// cannot say otherwise. Whether there was such a note.
fn age(journal: &Path, pid: u32) -> Res<bool> {
    let folder = journal.parent().ok_or("a journal without a folder")?;
    let prefix = beside(Path::new("j"), "-owner-");
    let prefix = prefix.to_string_lossy();
    let Ok(files) = fs::read_dir(folder) else {
        return Ok(false);
    };
    let ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let note = fs::read_to_string(path).unwrap_or_default();
        let of = note.trim().rsplit(' ').next();
        name.starts_with(&*prefix) && of == Some(pid.to_string().as_str())
    };
    let mut paths = files.filter_map(|file| Some(file.ok()?.path()));
    let Some(path) = paths.find(ours) else {
        return Ok(false);
    };
    let lease = u64::try_from(LEASE.as_millis()).unwrap_or(0);
    let note = format!("{:020}", wall().saturating_sub(2 * lease));
    let written = File::options()
        .write(true)
        .open(&path)
        .and_then(|mut file| {
            file.seek(SeekFrom::Start(0))?;
            file.write_all(note.as_bytes())
        });
    Ok(written.is_ok())
}

//! Everything that the simulated programs can touch: time, hosts, disks, the network, the servers.

use super::config::{Config, Death, Fault, Keeping};
use super::disk::{Disk, Job};
use super::monitor::Monitor;
use super::net::Packet;
use super::rng::Rng;
use super::server::{Server, Work};
use samekey::journal::Liveness;
use samekey::seam::BoxFuture;
use samekey::{Now, Timestamp};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The world as its inhabitants hold it.
pub(crate) type Shared = Arc<Mutex<World>>;

pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where every wall clock starts.
const EPOCH: u64 = 1_800_000_000_000;
/// How long a frozen owner goes unnoticed.
const LEASE: u64 = 30_000;

/// One machine: its clocks and its disk.
pub(crate) struct Host {
    pub(crate) disk: Disk,
    /// How far its wall clock is off.
    pub(crate) off: i64,
    /// How much its monotonic clock has stood still.
    pub(crate) stood_still: u64,
    /// When its wall clock was last set back, in true time.
    pub(crate) set_back_at: Option<u64>,
    /// How often it lost power.
    pub(crate) cuts: u64,
    /// Until when it sleeps.
    pub(crate) sleeps_until: u64,
    /// Whether its wall clock ever ran ahead, so that things look older than they are.
    pub(crate) ahead: bool,
}

/// One start of a program.
pub(crate) struct Process {
    pub(crate) host: usize,
    pub(crate) principal: usize,
    pub(crate) alive: bool,
    pub(crate) started_at: u64,
    pub(crate) died_at: u64,
    pub(crate) frozen_since: Option<u64>,
    /// When it last came back from being frozen for longer than a lease.
    pub(crate) was_frozen: bool,
    /// When it last came back.
    pub(crate) thawed_at: Option<u64>,
    /// Tasks that were woken while it was frozen.
    pub(crate) held: Vec<usize>,
    pub(crate) poisoned: bool,
    /// When the last of its queued writes will be made.
    pub(crate) disk_busy_until: u64,
}

impl Process {
    pub(crate) fn new(host: usize, principal: usize, started_at: u64) -> Process {
        Process {
            host,
            principal,
            alive: true,
            started_at,
            died_at: 0,
            frozen_since: None,
            was_frozen: false,
            thawed_at: None,
            held: Vec::new(),
            poisoned: false,
            disk_busy_until: 0,
        }
    }
}

/// What is due at a time.
pub(crate) enum Occasion {
    Wake(Waker),
    Disk(Box<Job>),
    Arrive(Box<Packet>),
    Work(Box<Work>),
    Reply(Box<Reply>),
    Chaos(Chaos),
}

/// An answer on its way, or the end of somebody's patience.
pub(crate) struct Reply {
    pub(crate) call: super::net::Call,
    pub(crate) result: Result<samekey::Response, samekey::Failure>,
    /// Whether this is the answer itself, as opposed to a timeout.
    pub(crate) from_server: bool,
    pub(crate) key: Box<str>,
    pub(crate) process: usize,
}

/// What befalls programs and machines.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Chaos {
    Kill,
    Cut(usize),
    Start { host: usize, principal: usize },
    Freeze,
    Thaw(usize),
    Suspend(usize),
    WakeUp { host: usize, since: u64 },
    Jump { host: usize, by: i64 },
    ServerDown(usize, bool),
    ServerUp(usize),
    ServerKill(usize),
    Click { deed: usize, spare: bool },
    Drop(usize),
    Damage(usize),
    Sweep(usize),
    Calm,
}

struct Due {
    at: u64,
    number: u64,
    what: Occasion,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

/// All of it.
pub(crate) struct World {
    pub(crate) config: Config,
    pub(crate) now: u64,
    pub(crate) rng: Rng,
    pub(crate) hosts: Vec<Host>,
    pub(crate) processes: Vec<Process>,
    pub(crate) servers: Vec<Server>,
    pub(crate) monitor: Monitor,
    /// Tasks to start, by process.
    pub(crate) to_spawn: Vec<(usize, BoxFuture<'static, ()>)>,
    /// Processes that died at a step and are to be buried.
    pub(crate) to_bury: Vec<usize>,
    /// A process whose planned time has come, and which takes its host's power with it or not.
    pub(crate) planned: Option<usize>,
    /// How many steps the next one of the plan has made since the death before.
    plan_steps: u64,
    pub(crate) calm: bool,
    /// Which process has its turn.
    pub(crate) turn: usize,
    /// Who still ran when the world ended.
    pub(crate) living: Vec<usize>,
    due: BinaryHeap<Due>,
    count: u64,
}

impl World {
    pub(crate) fn new(config: Config, seed: u64, trace: bool) -> World {
        let mut rng = Rng::new(seed);
        let hosts = (0..config.hosts)
            .map(|_| Host {
                disk: Disk::default(),
                off: i64::try_from(rng.below(4_000)).unwrap_or(0) - 2_000,
                stood_still: 0,
                set_back_at: None,
                cuts: 0,
                sleeps_until: 0,
                ahead: false,
            })
            .collect();
        let servers = (0..config.servers).map(|_| Server::new(&config)).collect();
        World {
            monitor: Monitor::new(config.deeds, trace),
            now: 0,
            rng,
            hosts,
            processes: Vec::new(),
            servers,
            to_spawn: Vec::new(),
            to_bury: Vec::new(),
            planned: None,
            plan_steps: 0,
            calm: false,
            turn: 0,
            living: Vec::new(),
            due: BinaryHeap::new(),
            count: 0,
            config,
        }
    }

    pub(crate) fn at(&mut self, when: u64, what: Occasion) {
        self.count += 1;
        self.due.push(Due {
            at: when.max(self.now),
            number: self.count,
            what,
        });
    }

    pub(crate) fn after(&mut self, wait: u64, what: Occasion) {
        self.at(self.now.saturating_add(wait), what);
    }

    /// The next thing that is due, with time moved to it.
    pub(crate) fn advance(&mut self) -> Option<Occasion> {
        let due = self.due.pop()?;
        self.now = due.at;
        Some(due.what)
    }

    /// Lets handlers finish, for gates that have no programs; false when none is at work.
    pub(crate) fn server_step(&mut self) -> bool {
        match self.advance() {
            Some(Occasion::Work(work)) => self.work(*work),
            Some(_) => {}
            None => return false,
        }
        true
    }

    pub(crate) fn has(&mut self, fault: Fault) -> bool {
        !self.calm && self.rng.chance(self.config.rate(fault))
    }

    pub(crate) fn clock(&self, host: usize) -> Now {
        let host = &self.hosts[host];
        Now {
            wall: Timestamp::from_millis((EPOCH + self.now).saturating_add_signed(host.off)),
            monotonic: Duration::from_millis(self.now - host.stood_still),
        }
    }

    /// Whether a process was stopped since it last looked: nobody can look then.
    pub(crate) fn was_stopped(&self, process: usize) -> bool {
        let thawed = self.processes[process].thawed_at;
        thawed.is_some_and(|at| self.now <= at + 20)
    }

    /// How long servers remember a key.
    pub(crate) fn window(&self) -> Duration {
        Duration::from_millis(self.config.window)
    }

    /// The true time in milliseconds since 1970, as servers know it.
    pub(crate) fn server_time(&self) -> i64 {
        i64::try_from(EPOCH + self.now).unwrap_or(i64::MAX)
    }

    pub(crate) fn liveness(&self, process: usize) -> Liveness {
        let it = &self.processes[process];
        if !it.alive {
            let silent = self.now.saturating_sub(it.died_at) > LEASE;
            return match (self.config.proof_of_life, silent) {
                (true, _) => Liveness::Dead,
                (false, true) => Liveness::Silent,
                (false, false) => Liveness::Alive,
            };
        }
        match it.frozen_since {
            Some(since) if self.now - since > LEASE => Liveness::Silent,
            _ => Liveness::Alive,
        }
    }

    /// Every write and every send passes here; false means that the process is dead.
    pub(crate) fn step(&mut self, process: usize) -> bool {
        if !self.processes[process].alive {
            return false;
        }
        match self.planned_death(process) {
            Some(death) if death.after => {
                self.planned = Some(process);
                true
            }
            Some(_) => {
                self.planned = Some(process);
                self.die(process);
                false
            }
            None => self.look(process),
        }
    }

    /// Whether the plan says that this process dies at this step.
    fn planned_death(&mut self, process: usize) -> Option<Death> {
        let next = self.config.kill_plan.get(self.monitor.planned_deaths)?;
        if next.process != process {
            return None;
        }
        self.plan_steps += 1;
        if self.plan_steps != next.step {
            return None;
        }
        self.plan_steps = 0;
        self.monitor.planned_deaths += 1;
        Some(*next)
    }

    /// So does every reading of the journal; false means that the process is dead.
    pub(crate) fn look(&mut self, process: usize) -> bool {
        if !self.processes[process].alive {
            return false;
        }
        let in_time = self.now < self.config.span + 60_000;
        if in_time && self.has(Fault::KillAtStep) {
            self.monitor.counters.kills_at_step += 1;
            self.to_bury.push(process);
            // It is dead from here on; the executor buries it.
            self.die(process);
            return false;
        }
        true
    }

    /// The key under which a program seals bodies: now and then not that of the others.
    pub(crate) fn seal(&mut self) -> u8 {
        let sealed = self.config.keeping == Keeping::Sealed;
        self.monitor.counters.sealed_starts += u64::from(sealed);
        let other = sealed && !self.config.calm && self.rng.chance(1_000);
        self.monitor.counters.wrong_seals += u64::from(other);
        1 + u8::from(other)
    }

    pub(crate) fn die(&mut self, process: usize) {
        let it = &mut self.processes[process];
        it.alive = false;
        it.died_at = self.now;
        it.frozen_since = None;
        self.monitor.process_died(process);
    }
}

/// Something that will be known later.
pub(crate) struct Later<T>(pub(crate) Arc<Mutex<Slot<T>>>);

pub(crate) struct Slot<T> {
    pub(crate) value: Option<T>,
    pub(crate) known: bool,
    pub(crate) waker: Option<Waker>,
}

impl<T> Later<T> {
    pub(crate) fn new() -> Later<T> {
        Later(Arc::new(Mutex::new(Slot {
            value: None,
            known: false,
            waker: None,
        })))
    }

    pub(crate) fn share(&self) -> Later<T> {
        Later(Arc::clone(&self.0))
    }

    /// Whether nobody waits for it any more.
    pub(crate) fn is_alone(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Makes it known, if it is not yet.
    pub(crate) fn resolve(&self, value: T) -> bool {
        let mut slot = lock(&self.0);
        if slot.known {
            return false;
        }
        slot.known = true;
        slot.value = Some(value);
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
        true
    }
}

impl<T> Future for Later<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut slot = lock(&self.0);
        match slot.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                slot.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

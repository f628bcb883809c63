//! Polls the tasks of a world, one at a time, in an order that the seed decides.

use super::config::Keeping;
use super::disk::SimJournal;
use super::monitor::Monitor;
use super::net::SimTransport;
use super::rng::Rng;
use super::user;
use super::world::{Chaos, Later, Occasion, Process, Shared, lock};
use crate::planted;
use samekey::clock::{Clock, Dice};
use samekey::seam::BoxFuture;
use samekey::{Asked, Body, Client, Headers, Now, Parts, Policy, Profile, SealingKey};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

struct Task {
    process: usize,
    future: BoxFuture<'static, ()>,
    waker: Waker,
}

#[derive(Default)]
struct Ready(Mutex<VecDeque<usize>>);

struct Bell {
    task: usize,
    ready: Arc<Ready>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        lock(&self.ready.0).push_back(self.task);
    }
}

/// A program's clock: its host's.
pub(crate) struct SimClock {
    pub(crate) world: Shared,
    pub(crate) host: usize,
}

impl Clock for SimClock {
    fn now(&self) -> Now {
        lock(&self.world).clock(self.host)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let world = self.world.clone();
        Box::pin(async move {
            let wait = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
            sleep(&world, wait.max(1)).await;
        })
    }
}

/// Waits in true time.
pub(crate) async fn sleep(world: &Shared, wait: u64) {
    let later = Later::new();
    let bell = later.share();
    // The timer wakes whatever task polls; the value is set by the waker's own closure.
    let alarm = Waker::from(Arc::new(Alarm(bell)));
    lock(world).after(wait, Occasion::Wake(alarm));
    later.await;
}

struct Alarm(Later<()>);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.resolve(());
    }
}

struct SimDice(Mutex<Rng>);

impl Dice for SimDice {
    fn roll(&self) -> u64 {
        lock(&self.0).next()
    }

    fn key_bytes(&self) -> [u8; 16] {
        let mut rng = lock(&self.0);
        let halves = [rng.next().to_le_bytes(), rng.next().to_le_bytes()];
        std::array::from_fn(|i| halves[i / 8][i % 8])
    }
}

/// Runs one world.
pub(crate) struct Executor {
    pub(crate) world: Shared,
    tasks: Vec<Option<Task>>,
    free: Vec<usize>,
    clients: Vec<Option<Client>>,
    ready: Arc<Ready>,
}

impl Executor {
    pub(crate) fn new(world: Shared) -> Executor {
        Executor {
            world,
            tasks: Vec::new(),
            free: Vec::new(),
            clients: Vec::new(),
            ready: Arc::default(),
        }
    }

    /// Runs until nothing is left to happen; false if it goes on for suspiciously long.
    pub(crate) fn run(&mut self) -> bool {
        for _ in 0..3_000_000 {
            self.settle_down();
            let Some(what) = lock(&self.world).advance() else {
                return true;
            };
            self.happen(what);
        }
        false
    }

    /// Polls until every task waits for something.
    fn settle_down(&mut self) {
        loop {
            let (spawned, dead, planned) = {
                let mut world = lock(&self.world);
                (
                    std::mem::take(&mut world.to_spawn),
                    std::mem::take(&mut world.to_bury),
                    world.planned.take(),
                )
            };
            for (process, future) in spawned {
                self.spawn(process, future);
            }
            for process in &dead {
                self.bury(*process);
            }
            if let Some(process) = planned.filter(|process| !dead.contains(process)) {
                self.die_as_planned(process);
            }
            let Some(id) = lock(&self.ready.0).pop_front() else {
                return;
            };
            self.poll(id);
        }
    }

    fn poll(&mut self, id: usize) {
        let Some(mut task) = self.tasks.get_mut(id).and_then(Option::take) else {
            return;
        };
        {
            let mut world = lock(&self.world);
            world.turn = task.process;
            let process = &mut world.processes[task.process];
            if process.frozen_since.is_some() {
                process.held.push(id);
                drop(world);
                self.tasks[id] = Some(task);
                return;
            }
        }
        let waker = task.waker.clone();
        let mut cx = Context::from_waker(&waker);
        if task.future.as_mut().poll(&mut cx).is_ready() {
            self.free.push(id);
        } else {
            self.tasks[id] = Some(task);
        }
    }

    pub(crate) fn spawn(&mut self, process: usize, future: BoxFuture<'static, ()>) -> usize {
        let id = self.free.pop().unwrap_or_else(|| {
            self.tasks.push(None);
            self.tasks.len() - 1
        });
        let waker = Waker::from(Arc::new(Bell {
            task: id,
            ready: Arc::clone(&self.ready),
        }));
        self.tasks[id] = Some(Task {
            process,
            future,
            waker,
        });
        lock(&self.ready.0).push_back(id);
        id
    }

    /// Drops a task as its caller would, with everything that dropping does.
    fn drop_task(&mut self, id: usize) {
        let task = self.tasks.get_mut(id).and_then(Option::take);
        let frozen = task.as_ref().is_some_and(|task| {
            lock(&self.world).processes[task.process]
                .frozen_since
                .is_some()
        });
        match task {
            Some(task) if frozen => self.tasks[id] = Some(task),
            Some(task) => {
                self.free.push(id);
                lock(&self.world).monitor.counters.drops += 1;
                drop(task);
            }
            None => {}
        }
    }

    /// Takes away everything of a process that is dead already: dropping has no effect any more.
    fn bury(&mut self, process: usize) {
        self.clients[process] = None;
        for id in 0..self.tasks.len() {
            if self.tasks[id]
                .as_ref()
                .is_some_and(|task| task.process == process)
            {
                self.tasks[id] = None;
                self.free.push(id);
            }
        }
        let mut world = lock(&self.world);
        let (host, principal) = (
            world.processes[process].host,
            world.processes[process].principal,
        );
        let switch = !world.calm && world.config.accounts > 1 && world.rng.chance(2_000);
        let principal = if switch { 1 - principal } else { principal };
        let wait = world.rng.between(1, 20_000);
        world.note(&[3, process as u64], || format!("p{process} dies"));
        world.after(wait, Occasion::Chaos(Chaos::Start { host, principal }));
    }

    /// A planned death: of one program, or of all on its host together with the power.
    fn die_as_planned(&mut self, process: usize) {
        let (alive, host, cut) = {
            let world = lock(&self.world);
            let it = &world.processes[process];
            (it.alive, it.host, world.config.plan_is_cut)
        };
        if alive {
            lock(&self.world).die(process);
        }
        self.bury(process);
        if cut {
            self.cut(host);
        }
    }

    pub(crate) fn kill(&mut self, process: usize) {
        if lock(&self.world).processes[process].alive {
            lock(&self.world).die(process);
            self.bury(process);
        }
    }

    pub(crate) fn start(&mut self, host: usize, principal: usize) -> usize {
        let number = self.clients.len();
        let mut world = lock(&self.world);
        let born = Process::new(host, principal, world.now);
        world.processes.push(born);
        let seal = world.seal();
        let seed = if planted::is(26) { 7 } else { world.rng.next() };
        let config = world.config.clone();
        world.watch_reading(host);
        world.note(&[4, number as u64], || {
            format!("p{number} starts on host {host} for account {principal}")
        });
        drop(world);
        let parts = Parts {
            journal: Arc::new(SimJournal {
                world: self.world.clone(),
                process: number,
            }),
            transport: Arc::new(SimTransport {
                world: self.world.clone(),
                process: number,
            }),
            clock: Arc::new(SimClock {
                world: self.world.clone(),
                host,
            }),
            dice: Arc::new(SimDice(Mutex::new(Rng::new(seed)))),
        };
        let millis = Duration::from_millis;
        let policy = Policy::new()
            .max_attempts(config.attempts)
            .attempt_timeout(millis(config.timeout))
            .give_up_after(millis(config.give_up));
        let keep = match config.keeping {
            Keeping::Plain => Body::Stored,
            Keeping::Sealed => Body::Sealed,
            Keeping::Nothing => Body::FingerprintOnly,
        };
        let builder = Client::with_parts("sim", parts);
        let builder = match config.retention {
            Some(time) => builder.retention(millis(time), millis(time)),
            None => builder,
        };
        let client = builder
            .body(keep)
            .seal_with(SealingKey::new([seal; 32]))
            .principal(if principal == 0 { "alice" } else { "bob" })
            .policy(policy)
            .profile(Profile::named(config.profile).unwrap_or_default())
            .credentials(move |_: Asked| async move {
                Ok(Headers::bearer(if principal == 0 {
                    "alice"
                } else {
                    "bob"
                })?)
            })
            .build()
            .expect("a client that the simulation drew is valid");
        self.clients.push(Some(client.clone()));
        self.spawn(number, user::recover(self.world.clone(), client, number));
        number
    }

    /// A process of this host and account that can act, started if there is none.
    pub(crate) fn process_for(&mut self, host: usize, principal: usize) -> usize {
        let running: Vec<usize> = {
            let world = lock(&self.world);
            let all = world.processes.iter().enumerate();
            all.filter(|(_, p)| {
                p.alive && p.frozen_since.is_none() && p.host == host && p.principal == principal
            })
            .map(|(number, _)| number)
            .collect()
        };
        if running.is_empty() {
            return self.start(host, principal);
        }
        lock(&self.world).rng.pick(&running)
    }

    pub(crate) fn count(&self) -> usize {
        self.clients.len()
    }

    pub(crate) fn client(&self, process: usize) -> Option<Client> {
        self.clients[process].clone()
    }

    pub(crate) fn drop_at_random(&mut self, id: usize) {
        let mut world = lock(&self.world);
        if world.has(super::config::Fault::Drop) {
            let wait = world.rng.pick(&[0, 5, 50, 500, 5_000, 30_000]);
            let wait = world.rng.below(wait + 1);
            world.after(wait, Occasion::Chaos(Chaos::Drop(id)));
        }
    }

    fn happen(&mut self, what: Occasion) {
        match what {
            Occasion::Wake(waker) => waker.wake(),
            Occasion::Disk(job) => lock(&self.world).write(*job),
            Occasion::Arrive(packet) => lock(&self.world).arrive(*packet),
            Occasion::Work(work) => lock(&self.world).work(*work),
            Occasion::Reply(reply) => lock(&self.world).heard(*reply),
            Occasion::Chaos(Chaos::Drop(id)) => self.drop_task(id),
            Occasion::Chaos(chaos) => self.befall(chaos),
        }
    }

    /// Ends every task without a trace, so that the world can be dropped.
    pub(crate) fn finish(mut self) -> Monitor {
        {
            let mut world = lock(&self.world);
            for process in 0..world.processes.len() {
                if std::mem::replace(&mut world.processes[process].alive, false) {
                    world.living.push(process);
                }
            }
            world.last_judgement();
        }
        self.tasks.clear();
        self.clients.clear();
        lock(&self.ready.0).clear();
        let mut world = lock(&self.world);
        std::mem::replace(&mut world.monitor, Monitor::new(0, false))
    }
}

impl Executor {
    pub(crate) fn wake(&self, task: usize) {
        lock(&self.ready.0).push_back(task);
    }
}

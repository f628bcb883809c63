//! What befalls programs, machines and servers, and when.

use super::executor::Executor;
use super::user;
use super::world::{Chaos, Occasion, World, lock};

impl World {
    /// Draws when everything will happen.
    pub(crate) fn plan(&mut self) {
        let (span, hosts) = (self.config.span, self.config.hosts);
        for host in 0..hosts {
            for number in 0..self.config.processes {
                let other = number > 0 && self.config.accounts > 1;
                let principal = usize::from(other && self.rng.chance(3_000));
                self.at(0, Occasion::Chaos(Chaos::Start { host, principal }));
            }
        }
        for deed in 0..self.config.deeds {
            let at = self.rng.below(span);
            self.at(at, Occasion::Chaos(Chaos::Click { deed, spare: false }));
            if self.has(super::config::Fault::DoubleClick) {
                let gap = self.rng.pick(&[4, 200, 2_000]);
                let again = at + self.rng.below(gap);
                self.monitor.counters.double_clicks += 1;
                self.at(again, Occasion::Chaos(Chaos::Click { deed, spare: true }));
            }
            if self.rng.chance(2_500) {
                let later = at + self.rng.below(self.config.window * 13 / 10);
                self.at(later, Occasion::Chaos(Chaos::Click { deed, spare: true }));
            }
        }
        self.plan_trouble();
        self.plan_late_visits();
        let sweeps = 60;
        for server in 0..self.config.servers {
            for number in 0..sweeps {
                let at = 40_000 + (span + self.config.window) * number / sweeps;
                self.at(at, Occasion::Chaos(Chaos::Sweep(server)));
            }
        }
        if self.config.calm {
            let end = span + self.config.window * 14 / 10;
            self.at(end, Occasion::Chaos(Chaos::Calm));
        }
    }

    /// People who come back when what has ended is about to be forgotten, and after that.
    fn plan_late_visits(&mut self) {
        let (span, hosts) = (self.config.span, self.config.hosts);
        let Some(kept) = self.config.retention else {
            return;
        };
        for round in 1..=2 {
            let at = span + kept * round + 600_000 * round;
            for host in 0..hosts {
                let principal = 0;
                self.at(at, Occasion::Chaos(Chaos::Start { host, principal }));
            }
            for _ in 0..5 {
                let deed = self.rng.below(self.config.deeds as u64) as usize;
                let at = at + self.rng.between(1, 60_000);
                self.at(at, Occasion::Chaos(Chaos::Click { deed, spare: true }));
            }
        }
    }

    fn plan_trouble(&mut self) {
        let span = self.config.span;
        for _ in 0..self.config.kills {
            let at = self.rng.below(span);
            self.at(at, Occasion::Chaos(Chaos::Kill));
        }
        for _ in 0..self.config.cuts {
            let (at, host) = (self.rng.below(span), self.host());
            self.at(at, Occasion::Chaos(Chaos::Cut(host)));
        }
        for _ in 0..self.config.freezes {
            let at = self.rng.below(span);
            self.at(at, Occasion::Chaos(Chaos::Freeze));
        }
        for _ in 0..self.config.suspends {
            let (at, host) = (self.rng.below(span), self.host());
            self.at(at, Occasion::Chaos(Chaos::Suspend(host)));
        }
        for _ in 0..self.config.jumps {
            let (at, host) = (self.rng.below(span), self.host());
            let size = self.rng.pick(&[5_000, 60_000, 3_600_000, 315_360_000_000]);
            let back = self.config.back_jumps && self.rng.chance(6_000);
            let by = if back {
                -size.min(3_600_000 * 48)
            } else {
                size
            };
            self.at(at, Occasion::Chaos(Chaos::Jump { host, by }));
        }
        for _ in 0..self.config.outages {
            let (at, server) = (
                self.rng.below(span),
                self.rng.below(self.config.servers as u64) as usize,
            );
            let lasts = self.rng.pick(&[5_000, 60_000, self.config.window]);
            let hangs = self.rng.chance(5_000);
            self.at(at, Occasion::Chaos(Chaos::ServerDown(server, hangs)));
            self.at(at + lasts, Occasion::Chaos(Chaos::ServerUp(server)));
        }
        for _ in 0..self.config.server_kills {
            let (at, server) = (
                self.rng.below(span),
                self.rng.below(self.config.servers as u64) as usize,
            );
            self.at(at, Occasion::Chaos(Chaos::ServerKill(server)));
        }
        for host in 0..self.config.hosts {
            if self.has(super::config::Fault::Damage)
                || self.config.rate(super::config::Fault::Damage) > 50
            {
                let at = self.rng.below(span);
                self.at(at, Occasion::Chaos(Chaos::Damage(host)));
            }
        }
    }

    fn host(&mut self) -> usize {
        self.rng.below(self.config.hosts as u64) as usize
    }

    /// A process that is alive and awake, if there is one.
    fn victim(&mut self) -> Option<usize> {
        let all = self.processes.iter().enumerate();
        let alive: Vec<usize> = all
            .filter(|(_, p)| p.alive && p.frozen_since.is_none())
            .map(|(number, _)| number)
            .collect();
        (!alive.is_empty()).then(|| self.rng.pick(&alive))
    }

    fn damage(&mut self, host: usize) {
        let now = self.now;
        let open: Vec<u64> = self.hosts[host]
            .disk
            .rows
            .iter()
            .filter(|(_, row)| row.entry.progress.phase.is_open())
            .map(|(slot, _)| *slot)
            .collect();
        if open.is_empty() {
            return;
        }
        let slot = self.rng.pick(&open);
        let bit = self.rng.next();
        if let Some(row) = self.hosts[host].disk.rows.get_mut(&slot) {
            row.damaged_at = Some(now);
            let entry = row.entry.clone();
            self.monitor.counters.damaged += 1;
            self.watch_altered(&entry, bit);
        }
    }

    /// A whole machine sleeps.
    fn suspend(&mut self, host: usize) {
        let now = self.now;
        let awake =
            |p: &&mut super::world::Process| p.alive && p.host == host && p.frozen_since.is_none();
        let asleep = self.processes.iter_mut().filter(awake);
        let sleeping = self.hosts[host].sleeps_until > now;
        if self.calm || sleeping || asleep.map(|p| p.frozen_since = Some(now)).count() == 0 {
            return;
        }
        self.monitor.counters.suspends += 1;
        let lasts = self.rng.pick(&[10_000, 120_000, 1_200_000, 43_200_000]);
        self.hosts[host].sleeps_until = now + lasts;
        let wake_up = Chaos::WakeUp { host, since: now };
        self.after(lasts, Occasion::Chaos(wake_up));
    }

    fn server_kill(&mut self, server: usize) {
        self.monitor.counters.server_kills += 1;
        self.servers[server].life += 1;
        self.after(31_000, Occasion::Chaos(Chaos::Sweep(server)));
    }

    fn jump(&mut self, host: usize, by: i64) {
        self.note(&[8, host as u64], || {
            format!("the clock of host {host} jumps by {} s", by / 1000)
        });
        self.monitor.counters.clock_jumps += 1;
        let now = self.now;
        let host = &mut self.hosts[host];
        host.off = host.off.saturating_add(by);
        if by < 0 {
            host.set_back_at = Some(now);
        }
        host.ahead |= by > 0;
    }
}

impl Executor {
    pub(crate) fn befall(&mut self, chaos: Chaos) {
        match chaos {
            Chaos::Kill => {
                let victim = lock(&self.world).victim();
                if let Some(process) = victim.filter(|_| !lock(&self.world).calm) {
                    self.kill(process);
                }
            }
            Chaos::Cut(host) => {
                if !lock(&self.world).calm {
                    self.cut(host);
                }
            }
            Chaos::Start { host, principal } => {
                let mut world = lock(&self.world);
                let until = world.hosts[host].sleeps_until;
                if until > world.now {
                    // Nothing starts on a machine that sleeps.
                    return world.at(until + 1, Occasion::Chaos(chaos));
                }
                drop(world);
                self.start(host, principal);
            }
            Chaos::Freeze => self.freeze(),
            Chaos::Thaw(process) => self.thaw(process),
            Chaos::Suspend(host) => lock(&self.world).suspend(host),
            Chaos::WakeUp { host, since } => self.wake_up(host, since),
            Chaos::Jump { host, by } => lock(&self.world).jump(host, by),
            Chaos::ServerDown(server, hangs) => {
                let mut world = lock(&self.world);
                let calm = world.calm;
                world.monitor.counters.outages += 1;
                (world.servers[server].up, world.servers[server].hangs) = (calm, hangs);
            }
            Chaos::ServerUp(server) => lock(&self.world).servers[server].up = true,
            Chaos::ServerKill(server) => lock(&self.world).server_kill(server),
            Chaos::Click { deed, spare } => self.click(deed, spare),
            Chaos::Damage(host) => lock(&self.world).damage(host),
            Chaos::Sweep(server) => lock(&self.world).sweep(server),
            Chaos::Calm => self.calm(),
            Chaos::Drop(_) => {}
        }
    }

    /// Somebody wants a deed done.
    fn click(&mut self, deed: usize, spare: bool) {
        let (host, principal) = {
            let world = lock(&self.world);
            let other = world.config.accounts > 1 && deed.is_multiple_of(5);
            (deed % world.config.hosts, usize::from(other))
        };
        {
            let mut world = lock(&self.world);
            let until = world.hosts[host].sleeps_until;
            if until > world.now {
                let later = Chaos::Click { deed, spare };
                return world.at(until + 1, Occasion::Chaos(later));
            }
        }
        let process = self.process_for(host, principal);
        let everywhere = lock(&self.world).config.clicks_everywhere;
        let processes = if everywhere {
            0..self.count()
        } else {
            process..process + 1
        };
        for process in processes {
            let Some(client) = self.client(process) else {
                continue;
            };
            let act = user::act(self.world.clone(), client, process, deed, spare);
            let task = self.spawn(process, act);
            self.drop_at_random(task);
        }
    }

    /// A machine wakes up: its monotonic clock has not noticed, its wall clock has.
    fn wake_up(&mut self, host: usize, since: u64) {
        let asleep: Vec<usize> = {
            let mut world = lock(&self.world);
            if world.hosts[host].sleeps_until > world.now || world.calm {
                return;
            }
            let slept = world.now - since;
            world.hosts[host].stood_still += slept;
            let all = world.processes.iter().enumerate();
            all.filter(|(_, p)| p.host == host && p.frozen_since == Some(since))
                .map(|(n, _)| n)
                .collect()
        };
        for process in asleep {
            self.thaw(process);
        }
    }

    /// The power of a host fails: every program on it dies, and nothing on it goes on.
    pub(crate) fn cut(&mut self, host: usize) {
        let running: Vec<usize> = {
            let mut world = lock(&self.world);
            world.monitor.counters.power_cuts += 1;
            world.hosts[host].cuts += 1;
            let all = world.processes.iter().enumerate();
            all.filter(|(_, p)| p.alive && p.host == host)
                .map(|(n, _)| n)
                .collect()
        };
        for process in running {
            self.kill(process);
        }
        lock(&self.world).cut_disk(host);
    }

    /// A process is stopped for a while, or its whole machine sleeps.
    fn freeze(&mut self) {
        let mut world = lock(&self.world);
        if world.calm {
            return;
        }
        let Some(process) = world.victim() else {
            return;
        };
        let now = world.now;
        world.monitor.counters.freezes += 1;
        world.processes[process].frozen_since = Some(now);
        let lasts = world.rng.pick(&[1_000, 29_000, 31_000, 61_000, 600_000]);
        world.after(lasts, Occasion::Chaos(Chaos::Thaw(process)));
    }

    fn thaw(&mut self, process: usize) {
        let held = {
            let mut world = lock(&self.world);
            let now = world.now;
            let it = &mut world.processes[process];
            let Some(since) = it.frozen_since.take() else {
                return;
            };
            it.was_frozen |= now - since > 20_000;
            it.thawed_at = Some(now);
            std::mem::take(&mut it.held)
        };
        for task in held {
            self.wake(task);
        }
    }

    /// Nothing goes wrong any more; everything must come to an end.
    fn calm(&mut self) {
        let (hosts, frozen) = {
            let mut world = lock(&self.world);
            world.calm = true;
            world.monitor.counters.calm_worlds += 1;
            world.servers.iter_mut().for_each(|server| server.up = true);
            let now = world.now;
            for host in &mut world.hosts {
                // The wake-up that is still due finds nobody asleep.
                host.sleeps_until = now;
            }
            let all = world.processes.iter().enumerate();
            let frozen: Vec<usize> = all
                .filter(|(_, p)| p.frozen_since.is_some())
                .map(|(n, _)| n)
                .collect();
            for server in 0..world.config.servers {
                for minute in 1..=90 {
                    world.after(minute * 60_000, Occasion::Chaos(Chaos::Sweep(server)));
                }
            }
            (world.config.hosts, frozen)
        };
        for process in frozen {
            self.thaw(process);
        }
        let old = lock(&self.world).processes.len();
        for process in 0..old {
            // A journal that failed to sync has to be opened again; all else is left as it is.
            let stays = {
                let world = lock(&self.world);
                world.config.gentle && !world.processes[process].poisoned
            };
            if !stays {
                self.kill(process);
            }
        }
        for host in 0..hosts {
            for principal in 0..2 {
                self.start(host, principal);
            }
        }
    }
}

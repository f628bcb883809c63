//! The servers: the mock's own reservation engine, with a shop of one kind of deed behind it.

use super::config::{Config, Fault};
use super::net::Packet;
use super::world::{Occasion, World};
use crate::planted;
use samekey_mock::answer::Answer;
use samekey_mock::engine::{self, Claim, Rules, Verdict};
use samekey_mock::naughty::{Habits, Naughty};
use samekey_mock::settings::{Settings, Stored};
use samekey_mock::store::{Effect, Keys, MemoryStore, Record, Shop, Slot, Transact};
use std::time::Duration;

/// One server.
pub(crate) struct Server {
    pub(crate) store: MemoryStore,
    pub(crate) rules: Rules,
    pub(crate) up: bool,
    /// Whether it hangs instead of refusing while it is down.
    pub(crate) hangs: bool,
    /// Counts restarts: work that was begun before one is lost.
    pub(crate) life: u64,
    owners: u64,
}

/// A handler at work.
pub(crate) struct Work {
    pub(crate) packet: Packet,
    pub(crate) record: Record,
    life: u64,
}

impl Server {
    pub(crate) fn new(config: &Config) -> Server {
        let settings = Settings {
            ttl: Duration::from_millis(config.window),
            margin: Duration::ZERO,
            lock_limit: Duration::from_secs(30),
            stored: if config.stores_errors {
                Stored::All
            } else {
                Settings::default().stored
            },
            ..Settings::default()
        };
        let mut rules = Rules::from(&settings);
        let habits = [
            (28, Naughty::ReserveAfterEffect),
            (29, Naughty::SharedTenants),
            (30, Naughty::CacheServerErrors),
        ];
        let bad = habits
            .into_iter()
            .filter(|(number, _)| planted::is(*number));
        rules.naughty = Habits::from_iter(bad.map(|(_, habit)| habit));
        Server {
            store: MemoryStore::default(),
            rules,
            up: true,
            hangs: false,
            life: 0,
            owners: 0,
        }
    }
}

/// What the handler says to a deed, if it does not fail.
fn business(packet: &Packet, effect: u64) -> Answer {
    match packet.amount % 11 {
        0 => Answer::problem(402, "declined", "Declined", "no money"),
        1 => Answer::problem(422, "invalid", "Invalid", "no such thing"),
        _ => Answer::new(201)
            .header("content-type", "application/json")
            .header("set-cookie", super::monitor::CANARY)
            .body(format!("{{\"paid\":{effect}}}")),
    }
}

impl World {
    /// A request reaches its server.
    pub(crate) fn arrive(&mut self, packet: Packet) {
        let now = self.server_time();
        let server = &mut self.servers[packet.server];
        if !server.up {
            return;
        }
        if self.is_beyond_the_margin(&packet) {
            return;
        }
        if self.config.profile == "none" {
            return self.act_without_key(packet);
        }
        let server = &mut self.servers[packet.server];
        if server.rules.naughty.has(Naughty::ReserveAfterEffect) {
            self.hasty_effect(&packet);
        }
        let server = &mut self.servers[packet.server];
        server.owners += 1;
        let shared = server.rules.naughty.has(Naughty::SharedTenants);
        let claim = Claim {
            slot: Slot {
                tenant: if shared {
                    String::new()
                } else {
                    packet.tenant.to_string()
                },
                operation: "POST /deeds".into(),
                key: packet.key.to_string(),
            },
            fingerprint: packet.digest.to_string(),
            owner: server.owners,
            now,
            may_create: true,
            blind: false,
        };
        let life = server.life;
        match engine::reserve(&mut server.store, &server.rules, &claim) {
            Ok(Verdict::Run(record)) => {
                self.monitor.reserved(&packet.key, self.now);
                self.set_to_work(packet, record, life);
            }
            Ok(Verdict::Replay(record)) => {
                self.monitor.counters.replays += 1;
                let mut answer = record.answer.unwrap_or_else(|| Answer::new(500));
                if self.config.marker {
                    answer = answer.header("Idempotent-Replayed", "true");
                }
                self.reply(packet, answer);
            }
            Ok(Verdict::InFlight(_)) => self.still_at_it(packet),
            Ok(Verdict::Mismatch(_)) => {
                self.monitor.broken(
                    "I3",
                    packet.deed,
                    "the server saw one key with two requests",
                );
                let answer = Answer::problem(422, "key-reused", "Key reused", "");
                self.reply(packet, answer);
            }
            Ok(_) | Err(_) => self.reply(packet, Answer::new(503)),
        }
    }

    fn set_to_work(&mut self, packet: Packet, record: Record, life: u64) {
        if self.has(Fault::Accept) {
            return self.take_on(packet, record, life);
        }
        let work = Work {
            packet,
            record,
            life,
        };
        let slow = self.has(Fault::Slow);
        if !slow && self.rng.chance(7_000) {
            self.work(work);
        } else {
            let takes = self.rng.between(1, if slow { 45_000 } else { 400 });
            self.after(takes, Occasion::Work(Box::new(work)));
        }
    }

    /// A server that does not know keys acts whenever it is asked.
    fn act_without_key(&mut self, packet: Packet) {
        self.monitor.counters.keyless += 1;
        if self.has(Fault::HandlerFails) {
            return self.reply(packet, Answer::new(500));
        }
        let answer = business(&packet, self.now);
        if packet.amount % 11 > 1 {
            self.effect(&packet.key, packet.deed, &answer.body);
        }
        self.reply(packet, answer);
    }

    /// The server will do it, and says where to ask for the result.
    fn take_on(&mut self, packet: Packet, record: Record, life: u64) {
        self.monitor.counters.accepted += 1;
        let nobody = super::net::Call::new();
        super::world::lock(&nobody.0).known = true;
        let work = Work {
            packet: Packet {
                call: nobody,
                ..packet.copy()
            },
            record,
            life,
        };
        let takes = self.rng.between(1, 25_000);
        self.after(takes, Occasion::Work(Box::new(work)));
        let place = format!("/results/{}", packet.key);
        let mut answer = Answer::new(202).header("location", &place);
        if self.rng.chance(5_000) {
            answer = answer.header("retry-after", "2");
        }
        self.reply(packet, answer);
    }

    /// What became of what was taken on under this key.
    pub(crate) fn found(&mut self, asked: &Packet) -> Answer {
        let server = &mut self.servers[asked.server];
        let slot = Slot {
            tenant: asked.tenant.to_string(),
            operation: "POST /deeds".into(),
            key: asked.key.to_string(),
        };
        match server.store.find(&slot) {
            Ok(Some(Record {
                answer: Some(answer),
                ..
            })) => answer,
            Ok(Some(_)) => Answer::new(202).header("retry-after", "1"),
            _ => Answer::new(404),
        }
    }

    /// No client can keep a request from arriving long after it was given up on. Where that is also
    /// after the server forgot the key, it is the one thing that the margin cannot cover.
    fn is_beyond_the_margin(&mut self, packet: &Packet) -> bool {
        let late = self.now > packet.sent + self.config.timeout + 2_000;
        let held = self.monitor.held_since(&packet.key);
        let beyond = late && held.is_some_and(|at| self.now >= at + self.config.window);
        self.monitor.counters.beyond_the_margin += u64::from(beyond);
        beyond
    }

    /// Another request works under this key.
    fn still_at_it(&mut self, packet: Packet) {
        self.monitor.counters.in_flight += 1;
        let answer = Answer::problem(409, "in-flight", "Still running", "");
        let wait = self.rng.between(0, 3);
        let answer = if wait == 0 {
            answer
        } else {
            answer.header("retry-after", &wait.to_string())
        };
        self.reply(packet, answer);
    }

    /// The handler has done its work: effect and answer in one transaction.
    pub(crate) fn work(&mut self, work: Work) {
        let Work {
            packet,
            record,
            life,
        } = work;
        if self.servers[packet.server].life != life {
            return; // the server died over it
        }
        let fails = self.has(Fault::HandlerFails);
        let acts = !fails && packet.amount % 11 > 1;
        let already = self.servers[packet.server]
            .rules
            .naughty
            .has(Naughty::ReserveAfterEffect);
        let now = self.server_time();
        let server = &mut self.servers[packet.server];
        let _ = server.store.begin();
        let mut effect = 0;
        if acts && !already {
            effect = server
                .store
                .add_effect(&Effect {
                    id: 0,
                    slot: record.slot.clone(),
                    kind: "deed".into(),
                    amount: 1,
                    at: now,
                })
                .unwrap_or(0);
        }
        let answer = if fails {
            Answer::new(500)
        } else {
            business(&packet, effect)
        };
        let done = engine::complete(&mut server.store, &server.rules, &record, &answer, now);
        if matches!(done, Ok(engine::Completion::Fenced) | Err(_)) {
            let _ = server.store.undo();
            self.reply(packet, Answer::new(503));
            return;
        }
        let _ = server.store.keep();
        if acts && !already {
            self.effect(&packet.key, packet.deed, &answer.body);
        }
        self.reply(packet, answer);
    }

    fn hasty_effect(&mut self, packet: &Packet) {
        if packet.amount % 11 > 1 {
            self.effect(&packet.key, packet.deed, "{\"paid\":0}");
        }
    }

    /// Dead workers' locks are freed and old keys forgotten.
    pub(crate) fn sweep(&mut self, server: usize) {
        let now = self.server_time();
        let server = &mut self.servers[server];
        let _ = engine::sweep(&mut server.store, &server.rules, now);
        let reaped = engine::reap(&mut server.store, &server.rules, now, 1_000);
        self.monitor.counters.forgotten += reaped.unwrap_or(0) as u64;
    }
}

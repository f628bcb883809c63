//! The judges. They look at the wire, at the disk and at what people were told, never inside.

use super::disk::{Before, process_of};
use super::net::Packet;
use super::rng::Quick;
use super::world::World;
use samekey::entry::{Entry, FORMAT, Frozen, Kept, Phase, Progress, REMEMBERED_ATTEMPTS};
use samekey::machine::Permit;
use samekey::{Error, ErrorKind, Key, Now, Outcome, Provenance};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// A secret that must never reach a disk.
pub(crate) const CANARY: &str = "canary-7f3a-must-not-be-kept";

macro_rules! counters {
    ($($name:ident $least:literal,)*) => {
        /// What a run has come across.
        #[derive(Clone, Debug, Default)]
        pub struct Counters { $(#[allow(missing_docs)] pub $name: u64,)* }

        impl Counters {
            pub(crate) fn add(&mut self, other: &Counters) { $(self.$name += other.$name;)* }

            /// Every counter with its name and the least that a million operations must reach.
            pub fn all(&self) -> Vec<(&'static str, u64, u64)> {
                vec![$((stringify!($name), self.$name, $least),)*]
            }
        }
    };
}

counters! {
    worlds 2_000,
    operations 0,
    sends 500_000,
    kills 10_000,
    kills_at_step 10_000,
    kills_in_flight 10_000,
    power_cuts 1_000,
    writes_lost 1_000,
    write_errors 1_000,
    bounced 1_000,
    takeovers 1_000,
    freezes 1_000,
    clock_jumps 1_000,
    forgotten 1_000,
    windows_closed 100,
    unknown 1_000,
    late_replies 1_000,
    lost_replies 1_000,
    duplicates 1_000,
    replays 1_000,
    in_flight 1_000,
    gateway 1_000,
    portals 500,
    server_kills 1_000,
    outages 500,
    drops 1_000,
    cancels 500,
    abandoned 50,
    double_clicks 1_000,
    repeats 500,
    other_account 1_000,
    settled_by_hand 500,
    deferred 500,
    damaged 100,
    damage_refused 100,
    told_success 100_000,
    told_rejected 10_000,
    told_not_sent 1_000,
    calm_worlds 200,
    beyond_the_margin 0,
    suspends 200,
    moved 1_000,
    accepted 1_000,
    polls 1_000,
    cut_heads 500,
    cut_bodies 500,
    cut_requests 1_000,
    reaped 500,
    tombstones_over 0,
    wrong_bodies 20,
    entries_read_back 5_000,
    keyless 1_000,
    held_unknowingly 0,
}

/// What is known of one key.
#[derive(Default)]
struct KeyWatch {
    deed: usize,
    host: usize,
    begun: bool,
    digest: Option<u64>,
    tenant: Box<str>,
    /// How often its bytes may have left.
    left: u32,
    effects: u32,
    answer: Box<str>,
    /// When the server reserved it first.
    reserved: Option<u64>,
    /// Who sent it first, and when by its own clock.
    first_left_by: Option<(usize, Now)>,
    in_flight: Vec<usize>,
    hint: Option<(usize, Now, u64)>,
    /// How many attempts were answered, by whomever.
    answered: u32,
    /// Whether a write failed, or nobody waited for it, so that its program does not know what the
    /// journal says.
    nobody_knows: bool,
    /// Which attempt of which process left last.
    last_left: Option<(usize, u32)>,
    told_success: bool,
    told_failure: bool,
    by_hand: bool,
    /// The firmest thing that was told, which no power cut may take back.
    told_phase: Option<Phase>,
    /// How often the host had lost power when a recorded success was told.
    told_after_cuts: Option<u64>,
}

impl KeyWatch {
    /// Its bytes go out once more; says whether that is later than anyone may be.
    fn leaves(&mut self, by: usize, clock: Now, now: u64, limit: u64, dishonest: bool) -> bool {
        let (first_by, first) = *self.first_left_by.get_or_insert((by, clock));
        self.left += 1;
        let ticks = clock.monotonic.saturating_sub(first.monotonic);
        let old_by_ticks = first_by == by && ticks.as_millis() > u128::from(limit);
        let old = self.reserved.is_some_and(|at| now - at > limit);
        old && (!dishonest || old_by_ticks)
    }
}

#[derive(Clone, Default)]
struct DeedWatch {
    keys: Vec<Key>,
    repeats: u32,
    effects: u32,
}

/// All that is watched.
pub(crate) struct Monitor {
    pub(crate) counters: Counters,
    pub(crate) violations: Vec<String>,
    pub(crate) hash: u64,
    pub(crate) trace: Option<Vec<String>>,
    /// Which of the planned deaths took place, a bit for each.
    pub(crate) planned_deaths: u64,
    keys: HashMap<Box<str>, KeyWatch, BuildHasherDefault<Quick>>,
    deeds: Vec<DeedWatch>,
}

impl Monitor {
    pub(crate) fn new(deeds: usize, trace: bool) -> Monitor {
        Monitor {
            counters: Counters::default(),
            violations: Vec::new(),
            hash: 0,
            trace: trace.then(Vec::new),
            planned_deaths: 0,
            keys: HashMap::default(),
            deeds: vec![DeedWatch::default(); deeds],
        }
    }

    fn note(&mut self, now: u64, numbers: &[u64], text: impl FnOnce() -> String) {
        for number in numbers.iter().chain([&now]) {
            let hash = self.hash ^ number;
            self.hash = hash.rotate_left(5).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>10}.{:03} {}", now / 1000, now % 1000, text()));
        }
    }

    pub(crate) fn broken(&mut self, rule: &str, deed: usize, what: &str) {
        self.violations.push(format!("{rule}: deed {deed}: {what}"));
    }

    /// An entry was created on a disk.
    pub(crate) fn begun(&mut self, key: &Key, deed: usize, host: usize, _now: u64) {
        self.counters.operations += 1;
        let watch = self.keys.entry(key.as_str().into()).or_default();
        if watch.begun {
            self.violations
                .push(format!("I17: deed {deed}: a key was minted twice"));
            return;
        }
        (watch.begun, watch.deed, watch.host) = (true, deed, host);
        let it = &mut self.deeds[deed];
        it.keys.push(key.clone());
        if it.keys.len() as u32 > 1 + it.repeats {
            self.broken("I2", deed, "more keys than deliberate repeats allow");
        }
    }

    pub(crate) fn repeat_asked(&mut self, deed: usize) {
        self.counters.repeats += 1;
        self.deeds[deed].repeats += 1;
    }

    pub(crate) fn landed(&mut self, key: &str, process: usize) {
        if let Some(watch) = self.keys.get_mut(key) {
            watch.in_flight.retain(|p| *p != process);
        }
    }

    pub(crate) fn process_died(&mut self, process: usize) {
        let mut died = 0;
        for watch in self.keys.values_mut() {
            let before = watch.in_flight.len();
            watch.in_flight.retain(|p| *p != process);
            died += (before - watch.in_flight.len()) as u64;
            if watch.hint.is_some_and(|(p, _, _)| p == process) {
                watch.hint = None;
            }
        }
        self.counters.kills_in_flight += died;
        self.counters.kills += 1;
    }

    pub(crate) fn hint(&mut self, key: &str, process: usize, clock: Now, seconds: u64) {
        if let Some(watch) = self.keys.get_mut(key) {
            watch.hint = Some((process, clock, seconds));
        }
    }

    pub(crate) fn forget_hint(&mut self, key: &Key) {
        if let Some(watch) = self.keys.get_mut(key.as_str()) {
            watch.hint = None;
            watch.last_left = None;
        }
    }

    pub(crate) fn answered(&mut self, key: &str) {
        if let Some(watch) = self.keys.get_mut(key) {
            watch.answered += 1;
        }
    }

    pub(crate) fn nobody_knows(&mut self, key: &Key) {
        if let Some(watch) = self.keys.get_mut(key.as_str()) {
            watch.nobody_knows = true;
        }
    }

    /// The server sent it on to another place: going there is part of the same attempt.
    pub(crate) fn sent_on(&mut self, key: &str) {
        if let Some(watch) = self.keys.get_mut(key) {
            watch.last_left = None;
        }
    }

    /// The tombstone of this key is over: its intent may be used anew.
    pub(crate) fn guard_ends(&mut self, key: &str) {
        if let Some(watch) = self.keys.get(key) {
            self.deeds[watch.deed].repeats += 1;
        }
    }

    /// The only key of a deed, for servers that see none.
    pub(crate) fn latest_key(&self, deed: usize) -> Option<Box<str>> {
        Some(self.deeds.get(deed)?.keys.last()?.as_str().into())
    }

    /// One bit of an entry's bytes is turned: whoever reads them must notice.
    pub(crate) fn watch_altered(&mut self, entry: &Entry, bit: u64) {
        let flip = |mut bytes: Vec<u8>| {
            let bit = bit as usize % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        };
        let deed = self.keys.get(entry.key().as_str()).map_or(0, |w| w.deed);
        let unnoticed = if bit >> 63 == 0 {
            Frozen::decode(&flip(entry.frozen.encode())).is_ok()
        } else {
            Progress::decode(&flip(entry.progress.encode(entry.key())), entry.key()).is_ok()
        };
        if unnoticed {
            self.broken("I10", deed, "a turned bit was not noticed");
        }
    }

    /// The server acted.
    ///
    /// `excused` where a clock was set back, so that nobody can know the age of a key.
    fn effect(&mut self, key: &str, deed: usize, answer: &str, excused: bool) {
        let watch = self.keys.entry(key.into()).or_default();
        watch.effects += 1;
        watch.answer = answer.into();
        let (effects, failed) = (watch.effects, watch.told_failure);
        self.deeds[deed].effects += 1;
        if effects > 1 && !excused && !key.is_empty() {
            self.broken("I7", deed, "it happened twice under one key");
        }
        if failed {
            self.broken(
                "I8",
                deed,
                "it happened after it was told that it had not and would not",
            );
        }
        let it = &self.deeds[deed];
        if it.effects > 1 + it.repeats && !excused {
            self.broken("I2", deed, "it happened more often than it was asked for");
        }
    }

    pub(crate) fn effects_in_all(&self) -> u32 {
        self.deeds.iter().map(|deed| deed.effects).sum()
    }

    /// The server holds the key from now on.
    pub(crate) fn reserved(&mut self, key: &str, now: u64) {
        if let Some(watch) = self.keys.get_mut(key) {
            watch.reserved.get_or_insert(now);
        }
    }

    /// Whether the server held the key at this time; `None` if it never did.
    pub(crate) fn held_since(&self, key: &str) -> Option<u64> {
        self.keys.get(key)?.reserved
    }

    /// A person found out by looking at the server.
    pub(crate) fn has_happened(&self, key: &Key) -> bool {
        self.keys
            .get(key.as_str())
            .is_some_and(|watch| watch.effects > 0)
    }

    pub(crate) fn settled_by_hand(&mut self, key: &Key) {
        self.counters.settled_by_hand += 1;
        if let Some(watch) = self.keys.get_mut(key.as_str()) {
            watch.by_hand = true;
        }
    }

    /// The phase that somebody was told in so many words.
    pub(crate) fn told_phase(&mut self, key: &Key, phase: Phase) {
        let Some(watch) = self.keys.get_mut(key.as_str()) else {
            return;
        };
        if phase == Phase::Abandoned && !watch.by_hand {
            self.counters.abandoned += 1;
            watch.told_failure = true;
            if watch.effects > 0 {
                let deed = watch.deed;
                self.broken("I13", deed, "it was called abandoned, and it had happened");
                return;
            }
        }
        if phase.is_settled() {
            watch.told_phase = Some(phase);
        }
    }

    fn told_outcome(&mut self, key: &Key, outcome: &Outcome, cuts: u64) {
        let Some(watch) = self.keys.get_mut(key.as_str()) else {
            return;
        };
        let deed = watch.deed;
        if outcome.provenance() == Provenance::ByHand || watch.by_hand {
            return;
        }
        if !outcome.is_success() {
            self.counters.told_rejected += 1;
            watch.told_failure = true;
            if outcome.is_recorded() {
                watch.told_phase = Some(Phase::Rejected);
            }
            if watch.effects > 0 {
                self.broken(
                    "I8",
                    deed,
                    "it was told to have failed, and it had happened",
                );
            } else if watch.told_success {
                self.broken(
                    "I12",
                    deed,
                    "it was told to have succeeded, and then to have failed",
                );
            }
            return;
        }
        self.counters.told_success += 1;
        watch.told_success = true;
        if outcome.is_recorded() && outcome.provenance() != Provenance::Recovered {
            watch.told_after_cuts = Some(cuts);
        }
        let differs = outcome
            .body()
            .is_some_and(|body| body != watch.answer.as_bytes());
        if watch.effects == 0 {
            self.broken(
                "I6",
                deed,
                "it was told to have succeeded, and it had not happened",
            );
        } else if watch.told_failure {
            self.broken(
                "I12",
                deed,
                "it was told to have failed, and then to have succeeded",
            );
        } else if differs {
            self.broken(
                "I6",
                deed,
                "the answer that was told is not the one that was given",
            );
        }
    }

    pub(crate) fn told_error(&mut self, key: Option<&Key>, error: &Error) {
        if error.is_unresolved() {
            self.counters.unknown += 1;
        }
        match error.kind() {
            ErrorKind::Attention(samekey::Reason::WindowClosed) => {
                self.counters.windows_closed += 1;
            }
            ErrorKind::Deferred(_) => self.counters.deferred += 1,
            ErrorKind::Damaged => self.counters.damage_refused += 1,
            _ => {}
        }
        if !error.nothing_was_sent() {
            return;
        }
        self.counters.told_not_sent += 1;
        let Some(watch) = key.and_then(|key| self.keys.get(key.as_str())) else {
            return;
        };
        if watch.left > 0 {
            let deed = watch.deed;
            let what = format!("it was told that nothing was sent, and something was: {error}");
            self.broken("I8", deed, &what);
        }
    }

    /// The last look at every key that was begun.
    fn keys_begun(&self) -> impl Iterator<Item = (&Key, &KeyWatch)> {
        let keys = self.deeds.iter().flat_map(|deed| &deed.keys);
        keys.filter_map(|key| Some((key, self.keys.get(key.as_str())?)))
    }
}

fn keeps_a_body(entry: &Entry) -> bool {
    let answer = entry.progress.answer.as_ref();
    let bodies = [Some(&entry.frozen.body), answer.map(|it| &it.body)];
    let mut kept = bodies.into_iter().flatten();
    kept.any(|body| matches!(body, Kept::Plain(_)))
}

impl World {
    pub(crate) fn effect(&mut self, key: &str, deed: usize, answer: &str) {
        let host = self.monitor.keys.get(key).map_or(0, |watch| watch.host);
        let excused = self.hosts[host].dishonest;
        self.monitor.effect(key, deed, answer, excused);
    }

    pub(crate) fn told_outcome(&mut self, key: &Key, outcome: &Outcome) {
        let host = self
            .monitor
            .keys
            .get(key.as_str())
            .map_or(0, |watch| watch.host);
        let cuts = self.hosts[host].cuts;
        self.monitor.told_outcome(key, outcome, cuts);
    }

    /// Adds to the trace, and to its digest.
    pub(crate) fn note(&mut self, numbers: &[u64], text: impl FnOnce() -> String) {
        self.monitor.note(self.now, numbers, text);
    }

    /// What the disk says against sending under this key.
    fn disk_problems(&self, host: usize, key: &str) -> Vec<(&'static str, &'static str)> {
        let now = self.now;
        let mut problems = Vec::new();
        let disk = &self.hosts[host].disk;
        let row = Key::adopt(key)
            .ok()
            .and_then(|key| disk.by_key.get(&key).copied());
        match row.and_then(|slot| disk.rows.get(&slot)) {
            None => problems.push(("I1", "it was sent before its key was durable")),
            Some(row) => {
                if row
                    .damaged_at
                    .is_some_and(|at| at < now.saturating_sub(200_000))
                {
                    problems.push((
                        "I10",
                        "it was sent from an entry that was altered long before",
                    ));
                }
                if row.gone.is_some() {
                    problems.push(("I12", "it was sent after it was forgotten"));
                }
            }
        }
        problems
    }

    /// A program hands a request to its network; `left` if its bytes may have gone out.
    pub(crate) fn watch_send(&mut self, packet: &Packet, permit: &Permit, left: bool) {
        self.monitor.counters.sends += 1;
        let (process, now) = (packet.process, self.now);
        let host = self.processes[process].host;
        let clock = self.clock(host);
        let (window, timeout) = (self.config.window, self.config.timeout);
        let (dishonest, cuts) = (self.hosts[host].dishonest, self.hosts[host].cuts);
        let mut problems = self.disk_problems(host, &packet.key);
        let Some(watch) = self.monitor.keys.get_mut(&packet.key) else {
            return self.monitor.broken(
                "I1",
                packet.deed,
                "it was sent under a key that no disk has",
            );
        };
        if *watch.digest.get_or_insert(packet.digest) != packet.digest {
            problems.push(("I3", "one key was sent with two requests"));
        }
        if watch.tenant.is_empty() {
            watch.tenant = packet.tenant.clone();
        } else if watch.tenant != packet.tenant {
            problems.push(("I16", "it was sent for somebody else"));
        }
        if !permit.url().starts_with("https://s") {
            problems.push(("I15", "it was sent elsewhere"));
        }
        // Nobody can look once more while it is stopped between the look and the send.
        let stopped = self.processes[process]
            .thawed_at
            .is_some_and(|at| now <= at + 20);
        if !stopped && (watch.told_phase.is_some() || watch.told_after_cuts == Some(cuts)) {
            problems.push(("I12", "it was sent after its end was told"));
        }
        if let Some((by, since, seconds)) = watch.hint.take()
            && by == process
            && !dishonest
            && clock.since(since).as_millis() + 1 < u128::from(seconds) * 1000
        {
            problems.push(("I14", "it was sent sooner than the server asked"));
        }
        let attempt = (process, permit.attempt());
        if left && watch.last_left.replace(attempt) == Some(attempt) {
            problems.push(("I14", "two requests left under one attempt"));
        }
        if left
            && watch.leaves(
                process,
                clock,
                now,
                window.saturating_sub(timeout),
                dishonest,
            )
        {
            problems.push(("I7", "it was sent after the window"));
        }
        let others: Vec<usize> = watch
            .in_flight
            .iter()
            .copied()
            .filter(|p| *p != process)
            .collect();
        watch.in_flight.push(process);
        let overlap = others.iter().any(|p| {
            let other = &self.processes[*p];
            other.alive && !other.was_frozen && other.frozen_since.is_none()
        });
        if overlap && !self.processes[process].was_frozen {
            problems.push(("I5", "two live drivers sent it at once"));
        }
        for (rule, what) in problems {
            self.monitor.broken(rule, packet.deed, what);
        }
    }

    /// A write took hold.
    pub(crate) fn watch_write(&mut self, host: usize, slot: u64, before: Option<Before>) {
        let World {
            hosts,
            monitor,
            now,
            ..
        } = self;
        let Some(row) = hosts[host].disk.rows.get(&slot) else {
            return;
        };
        let (key, after) = (row.entry.key(), &row.entry.progress);
        let deed = monitor.keys.get(key.as_str()).map_or(0, |watch| watch.deed);
        let numbers = [2, deed as u64, after.revision, after.owner.0 as u64];
        monitor.note(*now, &numbers, || {
            format!(
                "deed {deed} is {:?}, revision {}, owner {}, {} attempts, maybe {}",
                after.phase,
                after.revision,
                after.owner.0 as u64,
                after.attempts,
                after.maybe_applied
            )
        });
        if after.recent.len() > REMEMBERED_ATTEMPTS {
            monitor.broken("I21", deed, "an entry grows with every attempt");
        }
        let watch = monitor.keys.get(key.as_str());
        let in_doubt = watch.is_some_and(|watch| watch.left > watch.answered && !watch.by_hand);
        let Some(before) = before else { return };
        if after.phase == Phase::Abandoned && before.phase != after.phase && in_doubt {
            monitor.broken(
                "I13",
                deed,
                "it was abandoned, and an attempt has no answer",
            );
        }
        if before.phase.is_settled() && before.phase != after.phase {
            let what = format!("{} became {}", before.phase, after.phase);
            monitor.broken("I12", deed, &what);
        }
        if before.phase.is_settled() && before.answer != after.answer {
            monitor.broken("I12", deed, "a final answer was replaced");
        }
        if after.epoch < before.epoch {
            monitor.broken("I5", deed, "an epoch went back");
        }
        let takeover = before.owner != after.owner && before.owner.0 != 0 && after.owner.0 != 0;
        monitor.counters.takeovers += u64::from(takeover);
        // An attempt that was noted and then surely did not leave may be taken back, no other.
        let let_go = after.owner.0 == 0 && !after.maybe_applied;
        if after.attempts < before.attempts && !let_go {
            monitor.broken("I14", deed, "attempts were uncounted");
        }
        let headers = after.answer.as_ref().map(|answer| &answer.headers);
        if headers.is_some_and(|lines| lines.iter().any(|(_, value)| value.contains(CANARY))) {
            monitor.broken("I9", deed, "a secret was kept");
        }
    }

    /// A program that starts reads what an older one wrote, byte for byte; what a newer one wrote
    /// it refuses.
    pub(crate) fn watch_reading(&mut self, host: usize) {
        let World {
            hosts,
            rng,
            monitor,
            ..
        } = self;
        let rows = &hosts[host].disk.rows;
        let at = rng.below(rows.len() as u64 + 1);
        let Some((_, row)) = rows.range(at..).next() else {
            return;
        };
        monitor.counters.entries_read_back += 1;
        let (entry, key) = (&row.entry, row.entry.key());
        let (mut frozen, progress) = (entry.frozen.encode(), entry.progress.encode(key));
        let same = Frozen::decode(&frozen).is_ok_and(|it| it == *entry.frozen)
            && Progress::decode(&progress, key).is_ok_and(|it| it == entry.progress);
        if !same {
            monitor.broken("I22", 0, "an entry was read as another than was written");
        }
        frozen[0] = FORMAT + 1;
        if Frozen::decode(&frozen).is_ok() {
            monitor.broken("I22", 0, "an entry of a newer format was read");
        }
    }

    /// Whatever cannot be read must be shown all the same.
    pub(crate) fn watch_listing(&mut self, process: usize, shown: &[samekey::Operation]) {
        let it = &self.processes[process];
        let scope = if it.principal == 0 {
            "sim/alice"
        } else {
            "sim/bob"
        };
        let rows = self.hosts[it.host].disk.rows.values();
        let altered = rows
            .filter(|row| row.damaged_at.is_some() && row.entry.frozen.scope.as_str() == scope)
            .filter(|row| row.entry.progress.phase.is_unfinished())
            .count();
        if shown
            .iter()
            .filter(|operation| operation.damage().is_some())
            .count()
            < altered
        {
            self.monitor
                .broken("I10", 0, "an altered entry was not shown");
        }
    }

    /// Everything that can be judged only at the end.
    pub(crate) fn last_judgement(&mut self) {
        let (mut problems, mut stuck) = (Vec::new(), 0);
        for (key, watch) in self.monitor.keys_begun() {
            let disk = &self.hosts[watch.host].disk;
            let Some(row) = disk.by_key.get(key).and_then(|slot| disk.rows.get(slot)) else {
                problems.push((
                    "I4",
                    watch.deed,
                    "an operation vanished from the disk".to_owned(),
                ));
                continue;
            };
            let phase = row.entry.progress.phase;
            if row.gone.is_some() && !phase.is_settled() {
                let what = "what has not ended was reaped".to_owned();
                problems.push(("I21", watch.deed, what));
            }
            if row.gone.is_some() || row.damaged_at.is_some() {
                continue;
            }
            if !self.config.keeps_bodies && keeps_a_body(&row.entry) {
                let what = "a body was kept that was to be forgotten".to_owned();
                problems.push(("I9", watch.deed, what));
            }
            if let Some(told) = watch.told_phase
                && told != phase
            {
                let what = format!("it was told to be {told}, and the disk says {phase:?}");
                problems.push(("I12", watch.deed, what));
            }
            if watch.told_after_cuts == Some(self.hosts[watch.host].cuts)
                && phase != Phase::Succeeded
            {
                let what = format!("it was told to have succeeded, and the disk says {phase:?}");
                problems.push(("I12", watch.deed, what));
            }
            let unfounded = phase == Phase::Succeeded && watch.effects == 0;
            let false_end =
                matches!(phase, Phase::Rejected | Phase::Abandoned) && watch.effects > 0;
            if (unfounded || false_end) && !watch.by_hand {
                let what = format!(
                    "the disk says {phase}, the server {} effects",
                    watch.effects
                );
                problems.push(("I8", watch.deed, what));
            }
            let owner = process_of(row.entry.progress.owner);
            let held = owner.is_some_and(|owner| self.living.contains(&owner));
            if held && watch.nobody_knows {
                stuck += u64::from(self.calm && phase.is_open());
                continue;
            }
            if self.calm && phase.is_open() {
                let what = format!("in the calm it is still {phase}");
                problems.push(("liveness", watch.deed, what));
            }
            let text = row
                .entry
                .frozen
                .headers
                .iter()
                .any(|(_, value)| value.contains("Bearer"));
            if text {
                problems.push(("I9", watch.deed, "a credential was kept".to_owned()));
            }
        }
        self.monitor.counters.held_unknowingly += stuck;
        for (rule, deed, what) in problems {
            self.monitor.broken(rule, deed, &what);
        }
    }
}

//! What the judges know: the wire, the disk and what people were told, never what is inside.

use super::rng::Quick;
use super::world::World;
use samekey::entry::Phase;
use samekey::{Key, Now};
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
    sealed_starts 500,
    wrong_seals 20,
    torn 50,
    begins_let_go 50,
    entries_read_back 5_000,
    keyless 1_000,
    held_unknowingly 0,
}

/// A wait that the server asked for.
#[derive(Clone, Copy)]
pub(crate) struct Hint {
    /// Who heard of it, and when by its own clock.
    pub(crate) by: usize,
    pub(crate) at: Now,
    pub(crate) seconds: u64,
    /// Whether the disk has it, for others to keep to.
    pub(crate) noted: bool,
    /// When the first of those started who heard of it or wrote the entry since, in true time.
    pub(crate) since: u64,
}

/// What is known of one key.
#[derive(Default)]
pub(crate) struct KeyWatch {
    pub(crate) deed: usize,
    pub(crate) host: usize,
    /// Where its entry is on that host's disk.
    pub(crate) slot: u64,
    pub(crate) begun: bool,
    /// When the program started whose clock it began with, in true time.
    pub(crate) clock_since: u64,
    pub(crate) digest: Option<u64>,
    pub(crate) tenant: Box<str>,
    /// How often its bytes may have left.
    pub(crate) left: u32,
    pub(crate) effects: u32,
    /// What the server said when it acted; more than once only where that is excused or broken.
    pub(crate) answers: Vec<Box<str>>,
    /// When the server reserved it first.
    pub(crate) reserved: Option<u64>,
    /// Who sent it first, and when by its own clock.
    pub(crate) first_left_by: Option<(usize, Now)>,
    pub(crate) in_flight: Vec<usize>,
    pub(crate) hint: Option<Hint>,
    /// How many attempts were answered, by whomever.
    pub(crate) answered: u32,
    /// Whether the last write of its driver failed, so that nobody knows what the journal says.
    pub(crate) nobody_knows: bool,
    /// The numbers of the attempts that left, by whomever, as far as the disk cannot have lost them.
    pub(crate) numbers: Vec<u32>,
    pub(crate) told_success: bool,
    pub(crate) told_failure: bool,
    pub(crate) by_hand: bool,
    /// Whether the disk said, without a person's word, that it was given up and never happened.
    pub(crate) abandoned: bool,
    /// The firmest thing that was told, which no power cut may take back.
    pub(crate) told_phase: Option<Phase>,
    /// How often the host had lost power when a recorded success was told.
    pub(crate) told_after_cuts: Option<u64>,
}

/// What is known of one thing that somebody wants done.
#[derive(Clone, Default)]
pub(crate) struct DeedWatch {
    pub(crate) keys: Vec<Key>,
    pub(crate) repeats: u32,
    /// What the server did, apart from what is excused.
    pub(crate) effects: u32,
}

/// All that is watched.
pub(crate) struct Monitor {
    pub(crate) counters: Counters,
    pub(crate) violations: Vec<String>,
    pub(crate) hash: u64,
    pub(crate) trace: Option<Vec<String>>,
    /// How many of the planned deaths took place.
    pub(crate) planned_deaths: usize,
    pub(crate) keys: HashMap<Box<str>, KeyWatch, BuildHasherDefault<Quick>>,
    pub(crate) deeds: Vec<DeedWatch>,
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

    pub(crate) fn note(&mut self, now: u64, numbers: &[u64], text: impl FnOnce() -> String) {
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
            // What it heard and did not note, nobody knows any more.
            watch.hint.take_if(|hint| hint.by == process && !hint.noted);
        }
        self.counters.kills_in_flight += died;
        self.counters.kills += 1;
    }

    pub(crate) fn hint(&mut self, key: &str, hint: Hint) {
        if let Some(watch) = self.keys.get_mut(key) {
            watch.hint = Some(hint);
        }
    }

    pub(crate) fn forget_hint(&mut self, key: &Key) {
        if let Some(watch) = self.keys.get_mut(key.as_str()) {
            watch.hint = None;
        }
    }

    /// A driver could not even note that it lets go, so the journal is behind what it did.
    pub(crate) fn forget_numbers(&mut self, key: &Key) {
        if let Some(watch) = self.keys.get_mut(key.as_str()) {
            watch.numbers.clear();
        }
    }

    /// A power cut takes back notes of attempts and waits, which are not pressed onto the device.
    pub(crate) fn power_fails(&mut self, host: usize) {
        for watch in self.keys.values_mut().filter(|watch| watch.host == host) {
            watch.numbers.clear();
            watch.hint = None;
        }
    }

    pub(crate) fn answered(&mut self, key: &str) {
        if let Some(watch) = self.keys.get_mut(key) {
            watch.answered += 1;
        }
    }

    /// Whether its driver cannot tell what the journal says of it.
    pub(crate) fn nobody_knows(&mut self, key: &Key, so: bool) {
        if let Some(watch) = self.keys.get_mut(key.as_str()) {
            watch.nobody_knows = so;
        }
    }

    /// The server sent it on to another place: going there is part of the same attempt.
    pub(crate) fn sent_on(&mut self, key: &str) {
        if let Some(watch) = self.keys.get_mut(key) {
            watch.numbers.pop();
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

    /// The last look at every key that was begun.
    pub(crate) fn keys_begun(&self) -> impl Iterator<Item = (&Key, &KeyWatch)> {
        let keys = self.deeds.iter().flat_map(|deed| &deed.keys);
        keys.filter_map(|key| Some((key, self.keys.get(key.as_str())?)))
    }
}

impl World {
    /// Adds to the trace, and to its digest.
    pub(crate) fn note(&mut self, numbers: &[u64], text: impl FnOnce() -> String) {
        self.monitor.note(self.now, numbers, text);
    }
}

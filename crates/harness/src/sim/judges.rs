//! The judges, each invariant at its place. They look at the wire, at the disk and at what people
//! were told, never inside.
//!
//! | | judged by | when |
//! |---|---|---|
//! | I1, I2, I3, I17, I18 | [`keys`] | at a begin, at a send, when the server acts |
//! | I5 | [`drivers`] | at a send, at a write |
//! | I6, I8, I12, I13 | [`told`] | when people are told, at a send, at a write, when the server acts, at the end |
//! | I7, I14, I20 | [`time`] | at a send, at a write, when the server acts |
//! | I9, I15, I16, I21 | [`bounds`] | at a send, at a write, at the end |
//! | I4, I10, I22, liveness | [`store`] | at a send, at a start, at the end |
//!
//! I11 is I1 on a disk that fails, I19 is all of them while callers leave. A rule that is broken says
//! what happened; a planted bug must break the rule that is named for it.

mod bounds;
mod drivers;
mod keys;
mod store;
mod time;
mod told;

use super::disk::{Before, Row};
use super::monitor::{Hint, KeyWatch};
use super::net::Packet;
use super::world::World;
use samekey::entry::{Phase, Progress};
use samekey::machine::Permit;
use samekey::{Key, Now};

/// A request that a program hands to its network.
struct Sending<'a> {
    world: &'a World,
    packet: &'a Packet,
    permit: &'a Permit,
    /// Whether its bytes may have gone out.
    left: bool,
    watch: &'a KeyWatch,
    row: Option<&'a Row>,
    clock: Now,
}

impl Sending<'_> {
    /// Whether its program was stopped between its last look and this send.
    fn was_stopped(&self) -> bool {
        self.world.was_stopped(self.packet.process)
    }
}

/// A write that took hold.
struct Writing<'a> {
    before: &'a Before,
    after: &'a Progress,
    watch: &'a KeyWatch,
}

/// The last look at an entry.
struct Ending<'a> {
    world: &'a World,
    watch: &'a KeyWatch,
    row: &'a Row,
    phase: Phase,
}

fn says(broken: bool, what: &str) -> Option<String> {
    broken.then(|| what.to_owned())
}

/// A rule that was broken, by which deed, and how.
type Found = (&'static str, usize, String);

/// The rules and who looks after them.
type Judges<T> = &'static [(&'static str, T)];

const AT_A_SEND: Judges<fn(&Sending<'_>) -> Option<String>> = &[
    ("I1", keys::i01_durable_before_sent),
    ("I3", keys::i03_one_request_per_key),
    ("I5", drivers::i05_one_sends_at_a_time),
    ("I7", time::i07_inside_the_window),
    ("I10", store::i10_nothing_is_sent_from_what_was_altered),
    ("I12", told::i12_nothing_is_sent_after_the_end),
    ("I14", time::i14_not_sooner_than_asked),
    ("I14", time::i14_one_request_per_attempt),
    ("I15", bounds::i15_nowhere_else),
    ("I16", bounds::i16_for_nobody_else),
];

const AT_A_WRITE: Judges<fn(&Writing<'_>) -> Option<String>> = &[
    ("I5", drivers::i05_epochs_only_grow),
    ("I9", bounds::i09_no_secret_of_an_answer_is_kept),
    ("I12", told::i12_nothing_leaves_an_end),
    ("I13", told::i13_only_what_was_not_sent_is_abandoned),
    ("I14", time::i14_attempts_are_not_uncounted),
    ("I21", bounds::i21_entries_do_not_grow),
];

const AT_THE_END: Judges<fn(&Ending<'_>) -> Option<String>> = &[
    ("I8", told::i08_the_disk_does_not_contradict_the_server),
    (
        "I9",
        bounds::i09_no_body_is_kept_in_plain_that_should_not_be,
    ),
    ("I9", bounds::i09_no_credential_is_kept),
    ("I12", told::i12_what_was_told_stands),
    ("liveness", store::everything_comes_to_an_end),
];

impl World {
    /// A program hands a request to its network; `left` if its bytes may have gone out.
    pub(crate) fn watch_send(&mut self, packet: &Packet, permit: &Permit, left: bool) {
        self.monitor.counters.sends += 1;
        let process = packet.process;
        let clock = self.clock(self.processes[process].host);
        let mut found: Vec<Found> = Vec::new();
        let Some(watch) = self.monitor.keys.get(&packet.key) else {
            return keys::i01_unknown_key(&mut self.monitor, packet.deed);
        };
        let sending = Sending {
            world: self,
            packet,
            permit,
            left,
            watch,
            row: self.hosts[watch.host].disk.rows.get(&watch.slot),
            clock,
        };
        found.extend(
            AT_A_SEND
                .iter()
                .filter_map(|(rule, look)| Some((*rule, packet.deed, look(&sending)?))),
        );
        if let Some(watch) = self.monitor.keys.get_mut(&packet.key) {
            watch.digest.get_or_insert(packet.digest);
            if watch.tenant.is_empty() {
                watch.tenant = packet.tenant.clone();
            }
            watch.hint = None;
            watch.in_flight.push(process);
            if left {
                watch.first_left_by.get_or_insert((process, clock));
                watch.left += 1;
                watch.numbers.push(permit.attempt());
            }
        }
        self.report(found);
    }

    /// A write of the process `by` took hold.
    pub(crate) fn watch_write(&mut self, by: usize, slot: u64, before: Option<Before>) {
        let host = self.processes[by].host;
        let World {
            hosts,
            monitor,
            now,
            processes,
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
        let (Some(before), Some(watch)) = (before, monitor.keys.get_mut(key.as_str())) else {
            return;
        };
        let mut found: Vec<Found> = Vec::new();
        let writing = Writing {
            before: &before,
            after,
            watch,
        };
        found.extend(
            AT_A_WRITE
                .iter()
                .filter_map(|(rule, look)| Some((*rule, deed, look(&writing)?))),
        );
        let started_at = processes[by].started_at;
        if before.window_start != after.window_start {
            // Its window begins anew, by this program's time.
            watch.clock_since = started_at;
        }
        watch.abandoned |= after.phase == Phase::Abandoned && !watch.by_hand;
        if let Some(hint) = &mut watch.hint {
            hint.noted |= hint.by == by && after.not_before.is_some();
            hint.since = hint.since.min(started_at);
        }
        let takeover = before.owner != after.owner && before.owner.0 != 0 && after.owner.0 != 0;
        monitor.counters.takeovers += u64::from(takeover);
        self.report(found);
    }

    /// Everything that can be judged only at the end.
    pub(crate) fn last_judgement(&mut self) {
        let (mut found, mut stuck) = (Vec::<Found>::new(), 0);
        for (key, watch) in self.monitor.keys_begun() {
            let disk = &self.hosts[watch.host].disk;
            let Some(row) = disk.by_key.get(key).and_then(|slot| disk.rows.get(slot)) else {
                found.push(("I4", watch.deed, store::VANISHED.to_owned()));
                continue;
            };
            let ending = Ending {
                world: self,
                watch,
                row,
                phase: row.entry.progress.phase,
            };
            found.extend(
                bounds::i21_only_what_ended_is_reaped(&ending).map(|it| ("I21", watch.deed, it)),
            );
            if row.gone.is_some() || row.damaged_at.is_some() {
                continue;
            }
            found.extend(
                AT_THE_END
                    .iter()
                    .filter_map(|(rule, look)| Some((*rule, watch.deed, look(&ending)?))),
            );
            stuck += u64::from(store::is_held_unknowingly(&ending));
        }
        self.monitor.counters.held_unknowingly += stuck;
        self.report(found);
    }

    fn report(&mut self, found: Vec<Found>) {
        for (rule, deed, what) in found {
            self.monitor.broken(rule, deed, &what);
        }
    }

    /// Whether the wall clock was set back since the program started whose time this key began with:
    /// nobody who was started later can know its age.
    fn was_set_back(&self, watch: &KeyWatch) -> bool {
        let last = self.hosts[watch.host].set_back_at;
        last.is_some_and(|at| at >= watch.clock_since)
    }

    fn watch_of(&self, key: &Key) -> Option<&KeyWatch> {
        self.monitor.keys.get(key.as_str())
    }
}

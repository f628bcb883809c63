//! A journal on a simulated disk: what is written, and what would be left after a power cut.

mod handle;

pub(crate) use handle::SimJournal;

use super::config::Fault;
use super::rng::Quick;
use super::world::{Later, World};
use crate::planted;
use samekey::entry::{
    Answer, DecodeError, Entry, Expected, Flush, Grade, Owner, Phase, Progress, Receipt, Scope,
};
use samekey::journal::{
    Begun, Damaged, JournalError, JournalErrorKind, Listing, Reaped, Retention, Tombstone, Write,
};
use samekey::machine::release;
use samekey::{Key, Timestamp};
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;

type Name = (Scope, Box<str>, u32);

/// One host's journal.
#[derive(Default)]
pub(crate) struct Disk {
    pub(crate) rows: BTreeMap<u64, Row>,
    names: HashMap<Name, u64, BuildHasherDefault<Quick>>,
    pub(crate) by_key: HashMap<Key, u64, BuildHasherDefault<Quick>>,
    last: u64,
    /// The entry that was written last.
    written_last: u64,
}

pub(crate) struct Row {
    pub(crate) entry: Entry,
    /// What a power cut cannot take, where that is not what the entry says now.
    durable: Option<Progress>,
    /// Whether the entry itself would survive a power cut.
    pub(crate) synced: bool,
    /// What was written between that and now; as what is now, it may be kept or lost.
    lax: Vec<Progress>,
    pub(crate) damaged_at: Option<u64>,
    pub(crate) gone: Option<Tombstone>,
    /// Whether even its tombstone is gone, and with it the guard on its intent.
    nameless: bool,
}

/// What the judges compare a write with.
pub(crate) struct Before {
    pub(crate) phase: Phase,
    pub(crate) owner: Owner,
    pub(crate) epoch: u64,
    pub(crate) attempts: u32,
    pub(crate) window_start: Timestamp,
    /// The answer of what has ended.
    pub(crate) answer: Option<Answer>,
}

impl Before {
    fn of(row: &Row) -> Before {
        let it = &row.entry.progress;
        Before {
            phase: it.phase,
            owner: it.owner,
            epoch: it.epoch,
            attempts: it.attempts,
            window_start: it.window_start,
            answer: it.answer.clone(),
        }
    }
}

/// A write on its way to the disk.
pub(crate) struct Job {
    pub(crate) process: usize,
    /// How often its host had lost power when it was asked for.
    cuts: u64,
    what: What,
}

enum What {
    Begin(Entry, Later<Result<Begun, JournalError>>),
    Record(Write, Later<Result<Receipt, JournalError>>),
}

fn receipt(entry: &Entry) -> Receipt {
    Receipt::new(
        entry.key().clone(),
        entry.slot,
        entry.progress.revision,
        Grade::Device,
    )
}

fn unreadable(slot: u64) -> JournalError {
    JournalError::unreadable(slot, DecodeError::Digest)
}

impl Disk {
    fn begin(&mut self, mut entry: Entry) -> Result<Begun, JournalError> {
        let frozen = &entry.frozen;
        let name = (
            frozen.scope.clone(),
            frozen.intent.clone(),
            frozen.generation,
        );
        let taken = self.names.get(&name).filter(|slot| {
            let damaged = self.rows[slot].damaged_at.is_some();
            !(planted::is(18) && damaged)
        });
        if let Some(slot) = taken {
            let row = &self.rows[slot];
            return match (&row.gone, row.damaged_at) {
                (Some(tombstone), _) => Ok(Begun::Tombstone(tombstone.clone())),
                (None, Some(_)) => Err(unreadable(*slot)),
                (None, None) => Ok(Begun::Exists(Box::new(row.entry.clone()))),
            };
        }
        self.last += 1;
        entry.slot = self.last;
        self.names.insert(name, entry.slot);
        self.by_key.insert(entry.key().clone(), entry.slot);
        let receipt = receipt(&entry);
        let row = Row {
            durable: None,
            synced: !planted::is(3),
            entry,
            lax: Vec::new(),
            damaged_at: None,
            gone: None,
            nameless: false,
        };
        self.rows.insert(self.last, row);
        Ok(Begun::Created(receipt))
    }

    /// Entries that were never synced are gone.
    fn lose_unsynced(&mut self) {
        let lost: Vec<u64> = self
            .rows
            .iter()
            .filter(|(_, row)| !row.synced)
            .map(|(s, _)| *s)
            .collect();
        for slot in lost {
            if let Some(row) = self.rows.remove(&slot) {
                self.by_key.remove(row.entry.key());
                self.names.retain(|_, named| *named != slot);
            }
        }
    }

    fn record(&mut self, write: Write) -> Result<Receipt, JournalError> {
        let Some(row) = self
            .rows
            .get_mut(&write.slot)
            .filter(|row| row.gone.is_none())
        else {
            return Err(JournalError::stale(&write.key));
        };
        if row.damaged_at.is_some() {
            return Err(unreadable(write.slot));
        }
        if Expected::of(&row.entry.progress) != write.expected || *row.entry.key() != write.key {
            return Err(JournalError::stale(&write.key));
        }
        self.written_last = write.slot;
        let before = std::mem::replace(&mut row.entry.progress, write.progress);
        match (write.flush, &row.durable) {
            (Flush::Full, _) if !planted::is(3) => {
                row.lax.clear();
                row.durable = None;
            }
            (_, None) => row.durable = Some(before),
            (_, Some(_)) => row.lax.push(before),
        }
        Ok(receipt(&row.entry))
    }

    fn list(&self, wanted: impl Fn(&Entry) -> bool) -> Listing {
        let mut listing = Listing::default();
        for (slot, row) in &self.rows {
            if row.gone.is_some() || !wanted(&row.entry) {
                continue;
            }
            if row.damaged_at.is_some() && planted::is(17) {
                continue;
            }
            if row.damaged_at.is_some() {
                listing.damaged.push(Damaged {
                    slot: *slot,
                    key: Some(row.entry.key().clone()),
                    error: DecodeError::Digest,
                });
            } else {
                listing.entries.push(row.entry.clone());
            }
        }
        listing
    }
}

impl World {
    /// What has ended long ago becomes a tombstone, and then nothing.
    fn reap(&mut self, host: usize, retention: &Retention) -> Reaped {
        let World { hosts, monitor, .. } = self;
        let (mut reaped, mut over) = (Reaped::default(), Vec::new());
        let disk = &mut hosts[host].disk;
        for (slot, row) in &mut disk.rows {
            match &row.gone {
                None if row.damaged_at.is_none() => {
                    let tombstone = Tombstone::of(&row.entry);
                    let old = |it: &Tombstone| retention.entry_is_over(it.ended_at);
                    row.gone = tombstone.filter(old);
                    if row.gone.is_some() {
                        (row.durable, row.lax) = (None, Vec::new());
                    }
                    reaped.entries += u32::from(row.gone.is_some());
                }
                Some(it) if !row.nameless && retention.tombstone_is_over(it.ended_at) => {
                    row.nameless = true;
                    over.push(*slot);
                }
                _ => {}
            }
        }
        for slot in over {
            let frozen = &disk.rows[&slot].entry.frozen;
            let name = (
                frozen.scope.clone(),
                frozen.intent.clone(),
                frozen.generation,
            );
            disk.names.remove(&name);
            reaped.tombstones += 1;
            monitor.guard_ends(frozen.key.as_str());
        }
        monitor.counters.reaped += u64::from(reaped.entries);
        monitor.counters.tombstones_over += u64::from(reaped.tombstones);
        reaped
    }

    /// The power fails: of what was not flushed, any part may be kept.
    pub(crate) fn cut_disk(&mut self, host: usize) {
        if self.rng.chance(3_000) {
            self.tear_last_write(host);
        }
        let World {
            hosts,
            rng,
            monitor,
            ..
        } = self;
        hosts[host].disk.lose_unsynced();
        monitor.power_fails(host);
        for row in hosts[host].disk.rows.values_mut() {
            let Some(durable) = row.durable.take() else {
                continue;
            };
            let written = row.lax.len() + 1;
            let kept = rng.below(written as u64 + 1) as usize;
            monitor.counters.writes_lost += (written - kept) as u64;
            if kept == 0 {
                row.entry.progress = durable;
            } else if kept < written {
                row.entry.progress = row.lax.swap_remove(kept - 1);
            }
            row.lax.clear();
        }
    }

    /// A write reaches the disk.
    pub(crate) fn write(&mut self, job: Job) {
        let Job {
            process,
            cuts,
            what,
        } = job;
        let host = self.processes[process].host;
        if cuts != self.hosts[host].cuts {
            return; // the power failed before it was made
        }
        // A dead program's write may have got there or not, and nobody hears of it.
        if !self.processes[process].alive && self.rng.chance(5_000) {
            return;
        }
        let fails = self.has(Fault::WriteError);
        let poisoned = self.processes[process].poisoned;
        let takes_hold = !poisoned && (!fails || self.rng.chance(2_000));
        let trouble = self.trouble(process, fails).filter(|_| !planted::is(4));
        match what {
            What::Begin(entry, answer) => {
                let key = entry.key().clone();
                let deed = Monitored::of(&entry);
                let done = takes_hold.then(|| self.hosts[host].disk.begin(entry));
                if let Some(Ok(Begun::Created(receipt))) = &done {
                    let slot = receipt.slot();
                    let since = self.processes[process].started_at;
                    self.monitor.begun(&key, deed.0, (host, slot), since);
                    self.monitor.nobody_knows(&key, trouble.is_some());
                    if answer.is_alone() {
                        self.let_go(process, slot);
                    }
                }
                let lie = Receipt::new(key, 1, 1, Grade::Device);
                answer.resolve(merge(done, trouble, Ok(Begun::Created(lie))));
            }
            What::Record(write, answer) => {
                let before = self.hosts[host].disk.rows.get(&write.slot).map(Before::of);
                let (slot, key) = (write.slot, write.key.clone());
                let (revision, lets_go) =
                    (write.progress.revision, write.progress.owner == Owner::NONE);
                let done = takes_hold.then(|| self.hosts[host].disk.record(write));
                if trouble.is_some() {
                    // What could not be noted cannot be kept to.
                    self.monitor.forget_hint(&key);
                    if lets_go {
                        self.monitor.forget_numbers(&key);
                    }
                }
                if trouble.is_some() || matches!(done, Some(Ok(_))) {
                    self.monitor.nobody_knows(&key, trouble.is_some());
                }
                match &done {
                    Some(Ok(_)) => self.watch_write(process, slot, before),
                    Some(Err(e)) if e.kind() == JournalErrorKind::Stale => {
                        self.monitor.counters.bounced += 1;
                    }
                    _ => {}
                }
                let lie = Receipt::new(key, 1, revision, Grade::Device);
                answer.resolve(merge(done, trouble, Ok(lie)));
            }
        }
    }

    /// What a begin made that nobody waited for is let go, as every store has to see to.
    fn let_go(&mut self, process: usize, slot: u64) {
        let host = self.processes[process].host;
        self.monitor.counters.begins_let_go += 1;
        let Some(row) = self.hosts[host].disk.rows.get(&slot) else {
            return;
        };
        let before = Before::of(row);
        let write = Write {
            slot,
            key: row.entry.key().clone(),
            expected: Expected::of(&row.entry.progress),
            progress: release(&row.entry.progress, true),
            flush: Flush::Normal,
        };
        if self.hosts[host].disk.record(write).is_ok() {
            self.watch_write(process, slot, Some(before));
        }
    }

    /// The last write that was not flushed may be torn: part of it is there, the rest is as it was.
    fn tear_last_write(&mut self, host: usize) {
        let disk = &self.hosts[host].disk;
        let Some(row) = disk.rows.get(&disk.written_last) else {
            return;
        };
        let Some(old) = row.lax.last().or(row.durable.as_ref()).cloned() else {
            return;
        };
        let (entry, at) = (row.entry.clone(), self.rng.next());
        if self.watch_torn(&entry, &old, at) {
            self.monitor.counters.torn += 1;
            let (now, disk) = (self.now, &mut self.hosts[host].disk);
            let slot = disk.written_last;
            if let Some(row) = disk.rows.get_mut(&slot) {
                row.damaged_at.get_or_insert(now);
            }
        }
    }

    fn trouble(&mut self, process: usize, fails: bool) -> Option<JournalError> {
        if self.processes[process].poisoned {
            return Some(JournalError::new(
                JournalErrorKind::Poisoned,
                "open it again",
            ));
        }
        if !fails {
            return None;
        }
        self.monitor.counters.write_errors += 1;
        let kind = self.rng.pick(&[
            JournalErrorKind::Full,
            JournalErrorKind::Busy,
            JournalErrorKind::Unavailable,
            JournalErrorKind::Poisoned,
        ]);
        self.processes[process].poisoned = kind == JournalErrorKind::Poisoned;
        Some(JournalError::new(kind, "the disk is in trouble"))
    }
}

/// What was done, unless an error is to be told instead.
///
/// `lie` is what a store says that does not look at whether it wrote.
fn merge<T>(
    done: Option<Result<T, JournalError>>,
    trouble: Option<JournalError>,
    lie: Result<T, JournalError>,
) -> Result<T, JournalError> {
    match (done, trouble) {
        (_, Some(error)) => Err(error),
        (Some(done), None) => done,
        (None, None) => lie,
    }
}

/// Which deed an entry is for, by its intent.
struct Monitored(usize);

impl Monitored {
    fn of(entry: &Entry) -> Monitored {
        Monitored(
            entry
                .frozen
                .intent
                .trim_start_matches('d')
                .parse()
                .unwrap_or(0),
        )
    }
}

/// The process behind an owner.
pub(crate) fn process_of(owner: Owner) -> Option<usize> {
    usize::try_from(owner.0 as u64).ok()?.checked_sub(1)
}

//! A journal on a simulated disk: what is written, and what would be left after a power cut.

use super::config::Fault;
use super::rng::Quick;
use super::world::{Later, Occasion, Shared, World, lock};
use crate::planted;
use samekey::entry::{
    Answer, DecodeError, Entry, Flush, Grade, Liveness, Owner, Phase, Progress, Receipt, Scope,
};
use samekey::journal::{
    Begun, Damaged, Journal, JournalError, JournalErrorKind, Listing, Query, Reaped, Retention,
    Tombstone, Write,
};
use samekey::seam::BoxFuture;
use samekey::{Key, Reference};
use std::collections::{BTreeMap, HashMap};
use std::future::pending;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

type Name = (Scope, Box<str>, u32);

/// One host's journal.
#[derive(Default)]
pub(crate) struct Disk {
    pub(crate) rows: BTreeMap<u64, Row>,
    names: HashMap<Name, u64, BuildHasherDefault<Quick>>,
    pub(crate) by_key: HashMap<Key, u64, BuildHasherDefault<Quick>>,
    last: u64,
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
            answer: it.answer.clone(),
        }
    }
}

/// A write on its way to the disk.
pub(crate) struct Job {
    pub(crate) process: usize,
    what: What,
}

enum What {
    Begin(Entry, bool, Later<Result<Begun, JournalError>>),
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
    /// `looked`: whether the intent was looked up in the same step.
    fn begin(&mut self, mut entry: Entry, looked: bool) -> Result<Begun, JournalError> {
        let frozen = &entry.frozen;
        let name = (
            frozen.scope.clone(),
            frozen.intent.clone(),
            frozen.generation,
        );
        let taken = self.names.get(&name).filter(|slot| {
            let damaged = self.rows[slot].damaged_at.is_some();
            !(planted::is(18) && damaged || planted::is(24) && !looked)
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
        if row.entry.progress.revision != write.expected || *row.entry.key() != write.key {
            return Err(JournalError::stale(&write.key));
        }
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
        let World {
            hosts,
            rng,
            monitor,
            ..
        } = self;
        hosts[host].disk.lose_unsynced();
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
        let Job { process, what } = job;
        // A dead program's write may have got there or not, and nobody hears of it.
        if !self.processes[process].alive && self.rng.chance(5_000) {
            return;
        }
        let host = self.processes[process].host;
        let fails = self.has(Fault::WriteError);
        let poisoned = self.processes[process].poisoned;
        let takes_hold = !poisoned && (!fails || self.rng.chance(2_000));
        let trouble = self.trouble(process, fails).filter(|_| !planted::is(4));
        match what {
            What::Begin(entry, looked, answer) => {
                let key = entry.key().clone();
                let deed = Monitored::of(&entry);
                let done = takes_hold.then(|| self.hosts[host].disk.begin(entry, looked));
                if let Some(Ok(Begun::Created(_))) = &done {
                    self.monitor.begun(&key, deed.0, host, self.now);
                    if trouble.is_some() || answer.is_alone() {
                        self.monitor.nobody_knows(&key);
                    }
                }
                let lie = Receipt::new(key, 1, 1, Grade::Device);
                answer.resolve(merge(done, trouble, Ok(Begun::Created(lie))));
            }
            What::Record(write, answer) => {
                let before = self.hosts[host].disk.rows.get(&write.slot).map(Before::of);
                let (slot, key) = (write.slot, write.key.clone());
                let revision = write.progress.revision;
                let done = takes_hold.then(|| self.hosts[host].disk.record(write));
                if trouble.is_some() {
                    // What could not be noted cannot be kept to.
                    self.monitor.forget_hint(&key);
                }
                match &done {
                    Some(Ok(_)) => {
                        if trouble.is_some() {
                            self.monitor.nobody_knows(&key);
                        }
                        self.watch_write(host, slot, before);
                    }
                    None if trouble.is_some() => self.monitor.nobody_knows(&key),
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

/// One program's handle on its host's journal.
pub(crate) struct SimJournal {
    pub(crate) world: Shared,
    pub(crate) process: usize,
}

impl SimJournal {
    /// Queues a write, or makes it at once where the disk is quick.
    fn submit(&self, what: What) -> bool {
        let mut world = lock(&self.world);
        if !world.step(self.process) {
            return false;
        }
        let job = Job {
            process: self.process,
            what,
        };
        if world.config.quick_disk {
            world.write(job);
        } else {
            // One program's writes reach the disk in the order in which it made them.
            let wait = world.rng.below(12);
            let at = world.processes[self.process]
                .disk_busy_until
                .max(world.now + wait);
            world.processes[self.process].disk_busy_until = at;
            world.at(at, Occasion::Disk(Box::new(job)));
        }
        true
    }

    fn is_free(&self, entry: &Entry) -> bool {
        let world = lock(&self.world);
        let names = &world.hosts[world.processes[self.process].host].disk.names;
        let frozen = &entry.frozen;
        !names.contains_key(&(
            frozen.scope.clone(),
            frozen.intent.clone(),
            frozen.generation,
        ))
    }

    /// Reads, if the process lives.
    fn read<T>(
        &self,
        read: impl FnOnce(&World, &Disk) -> Result<T, JournalError>,
    ) -> Option<Result<T, JournalError>> {
        let mut world = lock(&self.world);
        if !world.look(self.process, false) {
            return None;
        }
        let host = world.processes[self.process].host;
        let world = &*world;
        Some(read(world, &world.hosts[host].disk))
    }
}

/// The process behind an owner.
pub(crate) fn process_of(owner: Owner) -> Option<usize> {
    usize::try_from(owner.0 as u64).ok()?.checked_sub(1)
}

/// An answer at once, or none ever: the process is dead.
async fn now_or_never<T>(answer: Option<Result<T, JournalError>>) -> Result<T, JournalError> {
    match answer {
        Some(answer) => answer,
        None => pending().await,
    }
}

impl Journal for SimJournal {
    fn grade(&self) -> Grade {
        Grade::Device
    }

    fn owner(&self) -> Owner {
        // Owners are known to the whole program, in which other worlds run beside this one.
        let world = Arc::as_ptr(&self.world) as usize as u128;
        Owner(world << 64 | (self.process as u128 + 1))
    }

    fn begin(&self, entry: Entry) -> BoxFuture<'_, Result<Begun, JournalError>> {
        Box::pin(async move {
            let later = Later::new();
            let free = planted::is(24) && self.is_free(&entry);
            self.submit(What::Begin(entry, !free, later.share()));
            later.await
        })
    }

    fn record(&self, write: Write) -> BoxFuture<'_, Result<Receipt, JournalError>> {
        Box::pin(async move {
            let later = Later::new();
            self.submit(What::Record(write, later.share()));
            later.await
        })
    }

    fn load(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<Option<Entry>, JournalError>> {
        Box::pin(async move {
            now_or_never(self.read(|_, disk| match disk.rows.get(&slot) {
                Some(row) if row.gone.is_some() || *row.entry.key() != key => Ok(None),
                Some(row) if row.damaged_at.is_some() => Err(unreadable(slot)),
                Some(row) => Ok(Some(row.entry.clone())),
                None => Ok(None),
            }))
            .await
        })
    }

    fn list(&self, query: Query) -> BoxFuture<'_, Result<Listing, JournalError>> {
        Box::pin(async move {
            now_or_never(self.read(|_, disk| {
                Ok(disk.list(|entry| {
                    query.select.matches(entry.progress.phase)
                        && query
                            .scope
                            .as_ref()
                            .is_none_or(|s| entry.frozen.scope == *s)
                }))
            }))
            .await
        })
    }

    fn find(
        &self,
        reference: Reference,
        scope: Option<Scope>,
    ) -> BoxFuture<'_, Result<Listing, JournalError>> {
        Box::pin(async move {
            now_or_never(self.read(|_, disk| {
                Ok(disk.list(|entry| {
                    entry.reference() == reference
                        && scope.as_ref().is_none_or(|s| entry.frozen.scope == *s)
                }))
            }))
            .await
        })
    }

    fn liveness(&self, owner: Owner) -> BoxFuture<'_, Result<Liveness, JournalError>> {
        Box::pin(async move {
            now_or_never(
                self.read(|world, _| Ok(world.liveness(process_of(owner).unwrap_or_default()))),
            )
            .await
        })
    }

    fn forget(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            if self.read(|_, _| Ok(())).is_none() {
                return pending().await;
            }
            let mut world = lock(&self.world);
            let host = world.processes[self.process].host;
            let Some(row) = world.hosts[host].disk.rows.get_mut(&slot) else {
                return Ok(());
            };
            if *row.entry.key() == key {
                let tombstone = Tombstone::of(&row.entry);
                row.gone = Some(tombstone.ok_or_else(|| JournalError::not_settled(&key))?);
            }
            Ok(())
        })
    }

    fn reap(&self, retention: Retention) -> BoxFuture<'_, Result<Reaped, JournalError>> {
        Box::pin(async move {
            if !lock(&self.world).step(self.process) {
                return pending().await;
            }
            let mut world = lock(&self.world);
            let host = world.processes[self.process].host;
            Ok(world.reap(host, &retention))
        })
    }
}

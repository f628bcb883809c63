//! A journal that forgets everything when it is dropped.

use super::{
    Begun, Damaged, Expected, Journal, JournalError, Listing, Liveness, Query, Reaped, Receipt,
    Retention, Tombstone, Write,
};
use crate::entry::{DecodeError, Entry, Grade, Owner, Scope};
use crate::key::{Key, Reference};
use crate::seam::BoxFuture;
use std::collections::{BTreeMap, HashMap};
use std::future::ready;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Owners differ between journals too: a process takes those with one name for one.
static LAST_OWNER: AtomicU64 = AtomicU64::new(0);

/// A journal in memory: grade [`Grade::None`], for tests, simulations and those who accept it.
///
/// Clones are the same handle. [`reopen`](MemoryJournal::reopen) gives another handle on the same
/// memory with an [`Owner`] of its own, as a restarted program or a second process would have; when
/// the last clone of a handle is dropped, its owner counts as dead.
///
/// ```
/// use samekey::journal::{Journal, Liveness, MemoryJournal};
///
/// let first = MemoryJournal::new();
/// let second = first.reopen();
/// assert_ne!(first.owner(), second.owner());
/// assert_eq!(second.liveness_of(first.owner()), Liveness::Alive);
///
/// let crashed = first.owner();
/// drop(first);
/// assert_eq!(second.liveness_of(crashed), Liveness::Dead);
/// ```
#[derive(Clone, Debug)]
pub struct MemoryJournal {
    handle: Arc<Handle>,
}

/// One "process" on the memory.
#[derive(Debug)]
struct Handle {
    owner: Owner,
    memory: Arc<Mutex<Memory>>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        lock(&self.memory)
            .owners
            .insert(self.owner.0, Liveness::Dead);
    }
}

pub(super) type Name = (Scope, Box<str>, u32);

/// All that a journal holds, and what may be done with it. A store that keeps a copy of everything
/// in memory uses it too.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) grade: Grade,
    pub(super) last_slot: u64,
    pub(super) rows: BTreeMap<u64, Row>,
    pub(super) names: HashMap<Name, u64>,
    pub(super) owners: HashMap<u128, Liveness>,
}

#[derive(Clone, Debug)]
pub(super) enum Row {
    Whole(Entry),
    /// It is there and cannot be read; the entry says what is known of it all the same.
    Damaged(Entry, DecodeError),
    Gone(Tombstone),
}

/// A panic while the lock was held leaves the memory whole: every change is made in one go.
fn lock(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for MemoryJournal {
    fn default() -> Self {
        MemoryJournal::new()
    }
}

impl MemoryJournal {
    /// An empty journal.
    #[must_use]
    pub fn new() -> MemoryJournal {
        MemoryJournal::on(Arc::default())
    }

    /// Another handle on the same memory, with an owner of its own.
    #[must_use]
    pub fn reopen(&self) -> MemoryJournal {
        MemoryJournal::on(Arc::clone(&self.handle.memory))
    }

    fn on(memory: Arc<Mutex<Memory>>) -> MemoryJournal {
        let owner = {
            let mut memory = lock(&memory);
            let owner = Owner(u128::from(LAST_OWNER.fetch_add(1, Ordering::Relaxed)) + 1);
            memory.owners.insert(owner.0, Liveness::Alive);
            owner
        };
        MemoryJournal {
            handle: Arc::new(Handle { owner, memory }),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.handle.memory)
    }

    /// For tests: from now on `owner` counts as dead, as if its process had been killed.
    ///
    /// Its handle goes on working, as the store cannot know better than the proof of life; that its
    /// late writes bounce is the revision's doing.
    pub fn kill(&self, owner: Owner) {
        self.set_liveness(owner, Liveness::Dead);
    }

    /// For tests: from now on `owner` counts as not heard of, as if its process had been stopped.
    pub fn silence(&self, owner: Owner) {
        self.set_liveness(owner, Liveness::Silent);
    }

    /// For tests: a silenced owner is heard of again.
    pub fn revive(&self, owner: Owner) {
        self.set_liveness(owner, Liveness::Alive);
    }

    fn set_liveness(&self, owner: Owner, liveness: Liveness) {
        self.memory().owners.insert(owner.0, liveness);
    }

    /// Whether `owner` lives, without waiting for anything.
    #[must_use]
    pub fn liveness_of(&self, owner: Owner) -> Liveness {
        self.memory().liveness(owner)
    }

    /// For tests: from now on the entry in `slot` cannot be read, as if its bytes had been altered.
    ///
    /// Returns whether there was such an entry.
    pub fn damage(&self, slot: u64) -> bool {
        let mut memory = self.memory();
        let Some(Row::Whole(entry)) = memory.rows.get(&slot) else {
            return false;
        };
        let damaged = Row::Damaged(entry.clone(), DecodeError::Digest);
        memory.rows.insert(slot, damaged);
        true
    }
}

impl Memory {
    pub(super) fn begin(&mut self, mut entry: Entry) -> Result<Begun, JournalError> {
        let frozen = &entry.frozen;
        let name = (
            frozen.scope.clone(),
            frozen.intent.clone(),
            frozen.generation,
        );
        if let Some(slot) = self.names.get(&name) {
            return match self.rows.get(slot) {
                Some(Row::Whole(entry)) => Ok(Begun::Exists(Box::new(entry.clone()))),
                Some(Row::Gone(tombstone)) => Ok(Begun::Tombstone(tombstone.clone())),
                Some(Row::Damaged(entry, error)) => Ok(Begun::Damaged(hurt(entry, *error))),
                None => Err(JournalError::unreadable(*slot, DecodeError::Digest)),
            };
        }
        self.last_slot += 1;
        entry.slot = self.last_slot;
        let receipt = receipt(&entry, self.grade);
        self.names.insert(name, entry.slot);
        self.rows.insert(entry.slot, Row::Whole(entry));
        Ok(Begun::Created(receipt))
    }

    pub(super) fn record(&mut self, write: Write) -> Result<Receipt, JournalError> {
        match self.rows.get_mut(&write.slot) {
            Some(Row::Damaged(entry, error)) if *entry.key() == write.key => {
                Err(JournalError::unreadable(write.slot, *error))
            }
            Some(Row::Whole(entry))
                if *entry.key() == write.key
                    && Expected::of(&entry.progress) == write.expected
                    && write.progress.revision == write.expected.revision + 1 =>
            {
                entry.progress = write.progress;
                Ok(receipt(entry, self.grade))
            }
            _ => Err(JournalError::stale(&write.key)),
        }
    }

    pub(super) fn load(&self, slot: u64, key: &Key) -> Result<Option<Entry>, JournalError> {
        match self.rows.get(&slot) {
            Some(Row::Damaged(entry, error)) if entry.key() == key => {
                Err(JournalError::unreadable(slot, *error))
            }
            Some(Row::Whole(entry)) if entry.key() == key => Ok(Some(entry.clone())),
            _ => Ok(None),
        }
    }

    pub(super) fn list(&self, query: &Query) -> Listing {
        let mut listing = Listing::default();
        let limit = match query.limit {
            0 => usize::MAX,
            limit => limit as usize,
        };
        for (_, row) in self.rows.range(query.after.saturating_add(1)..) {
            if listing.entries.len() + listing.damaged.len() == limit {
                break;
            }
            listing.take(row, |entry| {
                query.select.matches(entry.progress.phase)
                    && query
                        .scope
                        .as_ref()
                        .is_none_or(|scope| entry.frozen.scope == *scope)
                    && query
                        .since
                        .is_none_or(|since| entry.frozen.begun_at >= since)
            });
        }
        listing
    }

    pub(super) fn find(&self, reference: Reference, scope: Option<&Scope>) -> Listing {
        let mut listing = Listing::default();
        for row in self.rows.values() {
            listing.take(row, |entry| {
                entry.reference() == reference
                    && scope.is_none_or(|scope| entry.frozen.scope == *scope)
            });
        }
        listing
    }

    fn liveness(&self, owner: Owner) -> Liveness {
        self.owners.get(&owner.0).copied().unwrap_or(Liveness::Dead)
    }

    pub(super) fn forget(&mut self, slot: u64, key: &Key) -> Result<(), JournalError> {
        match self.rows.get_mut(&slot) {
            Some(Row::Damaged(entry, error)) if entry.key() == key => {
                Err(JournalError::unreadable(slot, *error))
            }
            Some(row @ Row::Whole(_)) => {
                if let Row::Whole(entry) = row
                    && entry.key() == key
                {
                    let tombstone =
                        Tombstone::of(entry).ok_or_else(|| JournalError::not_settled(key))?;
                    *row = Row::Gone(tombstone);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn reap(&mut self, retention: &Retention) -> Reaped {
        let mut reaped = Reaped::default();
        let mut dropped = Vec::new();
        for (slot, row) in &mut self.rows {
            if reaped.entries + reaped.tombstones == retention.batch {
                break;
            }
            match row {
                Row::Whole(entry) => {
                    if let Some(tombstone) = Tombstone::of(entry)
                        && retention.entry_is_over(tombstone.ended_at)
                    {
                        *row = Row::Gone(tombstone);
                        reaped.entries += 1;
                    }
                }
                Row::Gone(tombstone) if retention.tombstone_is_over(tombstone.ended_at) => {
                    dropped.push(*slot);
                    reaped.tombstones += 1;
                }
                Row::Gone(_) | Row::Damaged(..) => {}
            }
        }
        for slot in dropped {
            self.rows.remove(&slot);
            self.names.retain(|_, named| *named != slot);
        }
        reaped
    }
}

impl Listing {
    fn take(&mut self, row: &Row, wanted: impl Fn(&Entry) -> bool) {
        match row {
            Row::Whole(entry) if wanted(entry) => self.entries.push(entry.clone()),
            Row::Damaged(entry, error) if wanted(entry) => {
                self.damaged.push(hurt(entry, *error));
            }
            _ => {}
        }
    }
}

fn receipt(entry: &Entry, grade: Grade) -> Receipt {
    let revision = entry.progress.revision;
    Receipt::new(entry.key().clone(), entry.slot, revision, grade)
}

fn hurt(entry: &Entry, error: DecodeError) -> Damaged {
    Damaged {
        slot: entry.slot,
        key: Some(entry.key().clone()),
        error,
    }
}

impl Journal for MemoryJournal {
    fn grade(&self) -> Grade {
        Grade::None
    }

    fn owner(&self) -> Owner {
        self.handle.owner
    }

    fn begin(&self, entry: Entry) -> BoxFuture<'_, Result<Begun, JournalError>> {
        Box::pin(async move { self.memory().begin(entry) })
    }

    fn record(&self, write: Write) -> BoxFuture<'_, Result<Receipt, JournalError>> {
        Box::pin(async move { self.memory().record(write) })
    }

    fn load(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<Option<Entry>, JournalError>> {
        Box::pin(async move { self.memory().load(slot, &key) })
    }

    fn list(&self, query: Query) -> BoxFuture<'_, Result<Listing, JournalError>> {
        Box::pin(async move { Ok(self.memory().list(&query)) })
    }

    fn find(
        &self,
        reference: Reference,
        scope: Option<Scope>,
    ) -> BoxFuture<'_, Result<Listing, JournalError>> {
        Box::pin(async move { Ok(self.memory().find(reference, scope.as_ref())) })
    }

    fn liveness(&self, owner: Owner) -> BoxFuture<'_, Result<Liveness, JournalError>> {
        Box::pin(ready(Ok(self.liveness_of(owner))))
    }

    fn forget(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move { self.memory().forget(slot, &key) })
    }

    fn reap(&self, retention: Retention) -> BoxFuture<'_, Result<Reaped, JournalError>> {
        Box::pin(async move { Ok(self.memory().reap(&retention)) })
    }
}

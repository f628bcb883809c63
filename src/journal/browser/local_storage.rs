//! localStorage, by gloo-storage: for those who choose it, or have nothing better.

use super::row::{Row, name_of};
use super::{Life, locks, refused};
use crate::entry::{
    DecodeError, Entry, Frozen, Grade, Kept, Owner, Phase, Progress, Scope, WindowSource,
};
use crate::fingerprint::Fingerprint;
use crate::journal::memory::{Memory, Row as Held};
use crate::journal::{
    Begun, Journal, JournalError, JournalErrorKind, Listing, Liveness, Query, Reaped, Receipt,
    Retention, Tombstone, Write,
};
use crate::key::{Key, Reference};
use crate::message::{Headers, Method};
use crate::seam::BoxFuture;
use crate::time::Timestamp;
use gloo_storage::{LocalStorage, Storage as _};
use gloo_timers::future::sleep;
use std::cell::RefCell;
use std::collections::HashMap;
use std::future::ready;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::Storage;

/// The first part of every item's name; the digit counts the layouts.
const LAYOUT: &str = "samekey:1";
/// Room that is given up when the quota is reached, so that outcomes can still be written.
const BALLAST: &str = "reserve";
const BALLAST_CHARS: usize = 16 * 1024;
/// How long a page that is being left may take to let go of the journal.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A journal in localStorage, for one tab at a time. Grade [`Grade::Reload`]: entries survive a
/// reload and a closed tab, but the browser writes them to the device when it pleases.
///
/// The tab holds a Web Lock as long as the journal is open. Without it two tabs would disagree: each
/// process of the browser has a copy of its own, and it lags behind.
#[derive(Clone)]
pub struct LocalStorageJournal(Rc<Handle>);

struct Handle {
    life: Life,
    shelf: Rc<Shelf>,
}

/// What all handles of this page share.
struct Shelf {
    prefix: String,
    storage: Storage,
    memory: RefCell<Memory>,
    _lock: locks::Held,
}

thread_local! {
    static SHELVES: RefCell<HashMap<String, Weak<Shelf>>> = RefCell::default();
}

impl LocalStorageJournal {
    /// Opens the journal of this name.
    ///
    /// # Errors
    /// If storage is blocked, if the browser has no Web Locks, or if the journal is open in another
    /// tab.
    pub async fn open(name: &str) -> Result<LocalStorageJournal, JournalError> {
        let known = SHELVES.with_borrow(|shelves| shelves.get(name).and_then(Weak::upgrade));
        let shelf = match known {
            Some(shelf) => shelf,
            None => {
                let shelf = Rc::new(Shelf::open(name).await?);
                let weak = Rc::downgrade(&shelf);
                SHELVES.with_borrow_mut(|shelves| shelves.insert(name.to_owned(), weak));
                shelf
            }
        };
        let life = Life::begin()?;
        Ok(LocalStorageJournal(Rc::new(Handle { life, shelf })))
    }

    /// Deletes every entry of `scope`, whatever became of it, tombstones included: what was open
    /// can then not be resumed. For signing out on a device that others use.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub async fn wipe(&self, scope: &Scope) -> Result<u32, JournalError> {
        let shelf = &self.0.shelf;
        let mut memory = shelf.memory.borrow_mut();
        let theirs: Vec<u64> = memory
            .names
            .iter()
            .filter_map(|((named, _, _), slot)| (named == scope).then_some(*slot))
            .collect();
        for slot in &theirs {
            if let Some(row) = memory.rows.remove(slot) {
                shelf.remove(*slot, &row)?;
            }
            memory.names.retain(|_, named| named != slot);
        }
        Ok(u32::try_from(theirs.len()).unwrap_or(u32::MAX))
    }
}

/// localStorage, if the page may use it: asking gloo-storage for it would throw otherwise.
fn storage() -> Result<Storage, JournalError> {
    let blocked = |error: &JsValue| refused("localStorage cannot be used", error);
    let found = js_sys::Reflect::get(&js_sys::global(), &"localStorage".into());
    let found: Storage = found
        .and_then(JsCast::dyn_into)
        .map_err(|error| blocked(&error))?;
    let probe = format!("{LAYOUT}:probe");
    found
        .set_item(&probe, "x")
        .map_err(|error| blocked(&error))?;
    found.remove_item(&probe).map_err(|error| blocked(&error))?;
    Ok(LocalStorage::raw())
}

impl Shelf {
    async fn open(name: &str) -> Result<Shelf, JournalError> {
        let storage = storage()?;
        let lock = lock(name).await?;
        let shelf = Shelf {
            prefix: format!("{LAYOUT}:{name}:"),
            storage,
            memory: RefCell::new(Memory {
                grade: Grade::Reload,
                ..Memory::default()
            }),
            _lock: lock,
        };
        shelf.read_all()?;
        let reserve = format!("{}{BALLAST}", shelf.prefix);
        // Without room for the reserve the journal still works.
        let _ = shelf.storage.set_item(&reserve, &"x".repeat(BALLAST_CHARS));
        Ok(shelf)
    }

    fn read_all(&self) -> Result<(), JournalError> {
        let trouble = |error: JsValue| refused("the journal cannot be read", &error);
        let mut memory = self.memory.borrow_mut();
        for at in 0..self.storage.length().map_err(trouble)? {
            let Some(item) = self.storage.key(at).map_err(trouble)? else {
                continue;
            };
            let Some(rest) = item.strip_prefix(&self.prefix) else {
                continue;
            };
            let Some(label) = Label::parse(rest) else {
                continue;
            };
            let value = self.storage.get_item(&item).map_err(trouble)?;
            let row = label.read(&value.unwrap_or_default());
            let name = (label.scope, label.intent, label.generation);
            memory.last_slot = memory.last_slot.max(label.slot);
            memory.names.insert(name, label.slot);
            memory.rows.insert(label.slot, row);
        }
        Ok(())
    }

    fn item_of(&self, slot: u64, row: &Held) -> String {
        let (key, frozen_name) = match row {
            Held::Whole(entry) | Held::Damaged(entry, _) => {
                (entry.key().clone(), name_of(&entry.frozen))
            }
            Held::Gone(left) => (left.key.clone(), name_of(&stand_in(left))),
        };
        format!("{}{slot}\0{}\0{frozen_name}", self.prefix, key.as_str())
    }

    fn remove(&self, slot: u64, row: &Held) -> Result<(), JournalError> {
        self.storage
            .remove_item(&self.item_of(slot, row))
            .map_err(|error| refused("the journal cannot be written", &error))
    }

    /// Writes a row and reads it back.
    fn write(&self, slot: u64, row: &Held) -> Result<(), JournalError> {
        let stored = match row {
            Held::Whole(entry) => Row::of(entry),
            Held::Gone(left) => {
                let frozen = stand_in(left);
                let mut progress = Progress::ready(
                    Owner::NONE,
                    left.ended_at,
                    Duration::ZERO,
                    WindowSource::Assumed,
                );
                progress.phase = left.phase;
                Row {
                    frozen: frozen.encode(),
                    progress: progress.encode(&left.key),
                    gone: true,
                }
            }
            // What cannot be read is left as it is.
            Held::Damaged(..) => return Ok(()),
        };
        let (item, value) = (self.item_of(slot, row), pack(&stored));
        self.storage
            .set_item(&item, &value)
            .map_err(|error| refused("the journal did not take the write", &error))?;
        match self.storage.get_item(&item) {
            Ok(Some(back)) if back == value => Ok(()),
            _ => Err(JournalError::new(
                JournalErrorKind::Unavailable,
                "localStorage did not keep what was written; nothing is sent",
            )),
        }
    }

    /// [`write`](Shelf::write), giving up the reserve if there is no more room.
    fn write_at_last(&self, slot: u64, row: &Held) -> Result<(), JournalError> {
        match self.write(slot, row) {
            Err(error) if error.kind() == JournalErrorKind::Full => {
                let _ = self
                    .storage
                    .remove_item(&format!("{}{BALLAST}", self.prefix));
                self.write(slot, row)
            }
            answer => answer,
        }
    }

    /// Reads what is stored again: what was altered behind our back must not steer a send.
    fn look_again(&self, wanted: impl Fn(u64) -> bool) {
        let mut memory = self.memory.borrow_mut();
        for (slot, row) in &mut memory.rows {
            if wanted(*slot) {
                let item = self.item_of(*slot, row);
                let label = item.strip_prefix(&self.prefix).and_then(Label::parse);
                let value = self.storage.get_item(&item).ok().flatten();
                if let Some(label) = label {
                    *row = label.read(&value.unwrap_or_default());
                }
            }
        }
    }

    fn begin(&self, entry: Entry) -> Result<Begun, JournalError> {
        let frozen = &entry.frozen;
        let name = (
            frozen.scope.clone(),
            frozen.intent.clone(),
            frozen.generation,
        );
        let taken = self.memory.borrow().names.get(&name).copied();
        self.look_again(|slot| Some(slot) == taken);
        let mut memory = self.memory.borrow_mut();
        let begun = memory.begin(entry)?;
        if let Begun::Created(receipt) = &begun {
            let slot = receipt.slot();
            let written = memory
                .rows
                .get(&slot)
                .map_or(Ok(()), |row| self.write(slot, row));
            if let Err(error) = written {
                memory.rows.remove(&slot);
                memory.names.retain(|_, named| *named != slot);
                return Err(error);
            }
        }
        Ok(begun)
    }

    fn record(&self, write: Write) -> Result<Receipt, JournalError> {
        self.look_again(|slot| slot == write.slot);
        let mut memory = self.memory.borrow_mut();
        let slot = write.slot;
        let before = memory.rows.get(&slot).cloned();
        let receipt = memory.record(write)?;
        let written = memory
            .rows
            .get(&slot)
            .map_or(Ok(()), |row| self.write_at_last(slot, row));
        if let (Err(error), Some(before)) = (written, before) {
            memory.rows.insert(slot, before);
            return Err(error);
        }
        Ok(receipt)
    }

    fn forget(&self, slot: u64, key: &Key) -> Result<(), JournalError> {
        let mut memory = self.memory.borrow_mut();
        memory.forget(slot, key)?;
        memory
            .rows
            .get(&slot)
            .map_or(Ok(()), |row| self.write(slot, row))
    }

    fn reap(&self, retention: &Retention) -> Result<Reaped, JournalError> {
        let mut memory = self.memory.borrow_mut();
        let before = memory.rows.clone();
        let reaped = memory.reap(retention);
        for (slot, old) in &before {
            match (old, memory.rows.get(slot)) {
                (Held::Whole(_), Some(left @ Held::Gone(_))) => self.write(*slot, left)?,
                (_, None) => self.remove(*slot, old)?,
                _ => {}
            }
        }
        Ok(reaped)
    }
}

/// The tab's lock on the journal. A page that was just left may hold it a moment longer.
async fn lock(name: &str) -> Result<locks::Held, JournalError> {
    let Some(manager) = locks::manager() else {
        return Err(JournalError::new(
            JournalErrorKind::Unavailable,
            "localStorage is safe for one tab only, and this browser has no Web Locks to make sure of \
             that here; serve the page over https",
        ));
    };
    let lock_name = format!("{LAYOUT}:{name}");
    let mut waited = Duration::ZERO;
    loop {
        let taken = locks::take(&manager, &lock_name).await;
        if let Some(lock) = taken.map_err(|error| refused("the tab's lock was refused", &error))? {
            return Ok(lock);
        }
        if waited >= PATIENCE {
            return Err(JournalError::new(
                JournalErrorKind::OpenElsewhere,
                "the journal is open in another tab; close that one, then reload",
            ));
        }
        sleep(LOOK_EVERY).await;
        waited += LOOK_EVERY;
    }
}

/// One character per byte: localStorage counts characters.
fn pack(row: &Row) -> String {
    let length = u32::try_from(row.frozen.len()).unwrap_or(u32::MAX);
    let head = [u8::from(row.gone)].into_iter().chain(length.to_le_bytes());
    let parts = row.frozen.iter().chain(&row.progress).copied();
    head.chain(parts).map(char::from).collect()
}

fn unpack(value: &str) -> Option<Row> {
    let bytes: Option<Vec<u8>> = value.chars().map(|c| u8::try_from(c).ok()).collect();
    let bytes = bytes?;
    let ([gone, length @ ..], rest) = bytes.split_first_chunk::<5>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (frozen, progress) = rest.split_at_checked(length)?;
    Some(Row {
        frozen: frozen.to_vec(),
        progress: progress.to_vec(),
        gone: *gone != 0,
    })
}

/// What an item's name says: enough to guard an intent whose value cannot be read.
struct Label {
    slot: u64,
    key: Key,
    scope: Scope,
    intent: Box<str>,
    generation: u32,
}

impl Label {
    fn parse(text: &str) -> Option<Label> {
        let mut parts = text.split('\0');
        let mut part = || parts.next();
        Some(Label {
            slot: part()?.parse().ok()?,
            key: Key::adopt(part()?).ok()?,
            scope: Scope::from_stored(part()?),
            intent: part()?.into(),
            generation: part()?.parse().ok()?,
        })
    }

    fn read(&self, value: &str) -> Held {
        let read = unpack(value).ok_or(DecodeError::Digest).and_then(|row| {
            let entry = row.entry(self.slot, &self.key)?;
            Ok((row.gone, entry))
        });
        match read {
            Ok((true, entry)) => match Tombstone::of(&entry) {
                Some(tombstone) => Held::Gone(tombstone),
                None => self.damaged(DecodeError::Content("tombstone")),
            },
            Ok((false, entry)) => Held::Whole(entry),
            Err(error) => self.damaged(error),
        }
    }

    fn damaged(&self, error: DecodeError) -> Held {
        let frozen = stand_in(&Tombstone {
            scope: self.scope.clone(),
            intent: self.intent.clone(),
            generation: self.generation,
            key: self.key.clone(),
            phase: Phase::Ready,
            ended_at: Timestamp::default(),
        });
        let start = Timestamp::default();
        let entry = Entry {
            slot: self.slot,
            frozen: Arc::new(frozen),
            progress: Progress::ready(Owner::NONE, start, Duration::ZERO, WindowSource::Assumed),
        };
        Held::Damaged(entry, error)
    }
}

/// The frozen half of an entry of which only the name and the key are left.
fn stand_in(left: &Tombstone) -> Frozen {
    Frozen {
        key: left.key.clone(),
        scope: left.scope.clone(),
        intent: left.intent.clone(),
        generation: left.generation,
        method: Method::Post,
        url: "".into(),
        headers: Headers::new(),
        key_line: None,
        body: Kept::NotKept,
        body_digest: [0; 32],
        fingerprint: Fingerprint::from_bytes([0; 32]),
        profile: "none".into(),
        begun_at: left.ended_at,
    }
}

impl Journal for LocalStorageJournal {
    fn grade(&self) -> Grade {
        Grade::Reload
    }

    fn owner(&self) -> Owner {
        self.0.life.0
    }

    fn begin(&self, entry: Entry) -> BoxFuture<'_, Result<Begun, JournalError>> {
        Box::pin(async move { self.0.shelf.begin(entry) })
    }

    fn record(&self, write: Write) -> BoxFuture<'_, Result<Receipt, JournalError>> {
        Box::pin(async move { self.0.shelf.record(write) })
    }

    fn load(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<Option<Entry>, JournalError>> {
        Box::pin(async move {
            self.0.shelf.look_again(|other| other == slot);
            self.0.shelf.memory.borrow().load(slot, &key)
        })
    }

    fn list(&self, query: Query) -> BoxFuture<'_, Result<Listing, JournalError>> {
        Box::pin(async move {
            self.0.shelf.look_again(|_| true);
            Ok(self.0.shelf.memory.borrow().list(&query))
        })
    }

    fn find(
        &self,
        reference: Reference,
        scope: Option<Scope>,
    ) -> BoxFuture<'_, Result<Listing, JournalError>> {
        Box::pin(async move { Ok(self.0.shelf.memory.borrow().find(reference, scope.as_ref())) })
    }

    /// Only this tab can be at work: it holds the lock.
    fn liveness(&self, owner: Owner) -> BoxFuture<'_, Result<Liveness, JournalError>> {
        let alive = Life::of(owner) == Some(true);
        Box::pin(ready(Ok(if alive {
            Liveness::Alive
        } else {
            Liveness::Dead
        })))
    }

    fn forget(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move { self.0.shelf.forget(slot, &key) })
    }

    fn reap(&self, retention: Retention) -> BoxFuture<'_, Result<Reaped, JournalError>> {
        Box::pin(async move { self.0.shelf.reap(&retention) })
    }
}

impl std::fmt::Debug for LocalStorageJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalStorageJournal")
            .field("prefix", &self.0.shelf.prefix)
            .finish_non_exhaustive()
    }
}

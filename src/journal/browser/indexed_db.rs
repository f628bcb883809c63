//! IndexedDB: the journal that a page should use.

mod database;

use super::page::{member, set};
use super::row::{Row, name_of, scope_in};
use super::{Life, locks, refused};
use crate::entry::{DecodeError, Entry, Grade, Owner, Progress, Scope};
use crate::journal::{
    Begun, Damaged, Flush, Journal, JournalError, JournalErrorKind, LEASE, Listing, Liveness,
    Query, Reaped, Receipt, Retention, Select, Tombstone, Write,
};
use crate::key::{Key, Reference};
use crate::seam::BoxFuture;
use database::{BALLAST, Database, ENTRIES, OWNERS, Transaction};
use gloo_timers::callback::Interval;
use js_sys::{Array, Date, Object, Uint8Array};
use std::rc::Rc;
use std::time::Duration;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::spawn_local;

/// How often a tab says that it lives.
const BEAT_EVERY: Duration = Duration::from_secs(5);
/// A tab that was not heard of for so long is frozen. With the time to notice it, a lease.
const SILENT_AFTER: Duration = Duration::from_secs(LEASE.as_secs() - 5);

/// A journal in IndexedDB, for as many tabs as there are. Grade [`Grade::Device`]: an entry is
/// acknowledged when its transaction, of durability *strict*, has completed.
///
/// A tab proves with a Web Lock that it lives, and with a heartbeat that it is not frozen.
#[derive(Clone)]
pub struct IndexedDbJournal(Rc<Handle>);

struct Handle {
    database: Rc<Database>,
    grade: Grade,
    life: Life,
    _proof: Option<locks::Held>,
    _pulse: Interval,
}

impl IndexedDbJournal {
    /// Opens the journal of this name, or makes it.
    ///
    /// # Errors
    /// If the browser has no IndexedDB, forbids it to this page, or a newer samekey wrote it.
    pub async fn open(name: &str) -> Result<IndexedDbJournal, JournalError> {
        let database = Rc::new(Database::open(name).await?);
        let life = Life::begin()?;
        let owner = life.0;
        let proof = match locks::manager() {
            Some(manager) => locks::take(&manager, &lock_name(owner))
                .await
                .map_err(|error| refused("the tab's lock was refused", &error))?,
            None => None,
        };
        beat(&database, owner).await?;
        let grade = if database.is_strict().await? {
            Grade::Device
        } else {
            Grade::Process
        };
        let pulse = {
            let database = Rc::clone(&database);
            Interval::new(BEAT_EVERY.as_millis() as u32, move || {
                let database = Rc::clone(&database);
                // A beat that is missed is made up for by the next.
                spawn_local(async move { drop(beat(&database, owner).await) });
            })
        };
        Ok(IndexedDbJournal(Rc::new(Handle {
            database,
            grade,
            life,
            _proof: proof,
            _pulse: pulse,
        })))
    }

    /// Deletes every entry of `scope`, whatever became of it, tombstones included: what was open
    /// can then not be resumed. For signing out on a device that others use.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub async fn wipe(&self, scope: &Scope) -> Result<u32, JournalError> {
        let tx = self.0.database.write(Flush::Full).await?;
        let mut wiped = 0;
        for row in Array::from(&tx.all(ENTRIES, None).await?) {
            if scope_in(&text(&row, "name")) == scope.as_str() {
                tx.delete(ENTRIES, slot_of(&row)).await?;
                wiped += 1;
            }
        }
        tx.complete().await?;
        Ok(wiped)
    }

    /// Runs `work` to its end even if nobody waits for it: a future that is dropped must leave all
    /// of its write behind, or nothing.
    fn start<T: 'static>(
        &self,
        work: BoxFuture<'static, Result<T, JournalError>>,
    ) -> BoxFuture<'static, Result<T, JournalError>> {
        let (done, fulfil) = super::page::promise();
        let result = Rc::new(std::cell::RefCell::new(None));
        let store = Rc::clone(&result);
        let work: BoxFuture<'static, ()> = Box::pin(async move {
            *store.borrow_mut() = Some(work.await);
            let _ = fulfil.call0(&JsValue::UNDEFINED);
        });
        Box::pin(async move {
            spawn_local(work);
            let _ = super::page::wait(done.into()).await;
            result.take().unwrap_or_else(|| Err(vanished()))
        })
    }
}

fn vanished() -> JournalError {
    JournalError::new(
        JournalErrorKind::Unavailable,
        "the page ended before the journal answered; reload it",
    )
}

fn lock_name(owner: Owner) -> String {
    format!("samekey:owner:{:032x}", owner.0)
}

async fn beat(database: &Database, owner: Owner) -> Result<(), JournalError> {
    let tx = database.write(Flush::Normal).await?;
    let row = Object::new();
    set(&row, "id", &format!("{:032x}", owner.0).into());
    set(&row, "seen", &Date::now().into());
    tx.put(OWNERS, &row).await?;
    tx.complete().await
}

fn text(row: &JsValue, name: &str) -> String {
    member(row, name).as_string().unwrap_or_default()
}

fn bytes(row: &JsValue, name: &str) -> Vec<u8> {
    let found = member(row, name);
    found
        .dyn_ref::<Uint8Array>()
        .map(Uint8Array::to_vec)
        .unwrap_or_default()
}

/// Slots count up from 1, far below where numbers lose their precision.
fn slot_of(row: &JsValue) -> u64 {
    member(row, "slot").as_f64().unwrap_or(0.0) as u64
}

fn write_into(object: &JsValue, row: &Row, unfinished: bool) {
    set(object, "frozen", &Uint8Array::from(&row.frozen[..]));
    set(object, "progress", &Uint8Array::from(&row.progress[..]));
    set(object, "gone", &row.gone.into());
    // Only rows that have this member are in the index of the unfinished.
    let open = if unfinished {
        JsValue::from(1)
    } else {
        JsValue::UNDEFINED
    };
    set(object, "open", &open);
}

/// A row as it was read.
struct Found {
    slot: u64,
    name: String,
    key: Key,
    row: Row,
}

impl Found {
    fn read(value: &JsValue) -> Option<Found> {
        if !value.is_object() {
            return None;
        }
        let slot = slot_of(value);
        let key =
            Key::adopt(&text(value, "key")).or_else(|_| Key::adopt(&format!("damaged-{slot}")));
        Some(Found {
            slot,
            name: text(value, "name"),
            key: key.ok()?,
            row: Row {
                frozen: bytes(value, "frozen"),
                progress: bytes(value, "progress"),
                gone: member(value, "gone").is_truthy(),
            },
        })
    }

    fn entry(&self) -> Result<Entry, DecodeError> {
        let entry = self.row.entry(self.slot, &self.key)?;
        if name_of(&entry.frozen) != self.name {
            return Err(DecodeError::Content("name"));
        }
        Ok(entry)
    }

    fn whole(&self) -> Result<Entry, JournalError> {
        self.entry()
            .map_err(|error| JournalError::unreadable(self.slot, error))
    }
}

impl Handle {
    fn receipt(&self, key: &Key, slot: u64, revision: u64) -> Receipt {
        Receipt::new(key.clone(), slot, revision, self.grade)
    }

    /// Get or create, in one transaction.
    async fn begin(&self, entry: Entry) -> Result<Begun, JournalError> {
        let tx = self.database.write(Flush::Full).await?;
        let name = name_of(&entry.frozen);
        if let Some(found) = Found::read(&tx.by_name(&name).await?) {
            tx.complete().await?;
            let entry = found.whole()?;
            return Ok(match (found.row.gone, Tombstone::of(&entry)) {
                (true, Some(tombstone)) => Begun::Tombstone(tombstone),
                _ => Begun::Exists(Box::new(entry)),
            });
        }
        let object = Object::new();
        set(&object, "name", &name.into());
        set(&object, "key", &entry.key().as_str().into());
        let unfinished = entry.progress.phase.is_unfinished();
        write_into(&object, &Row::of(&entry), unfinished);
        let slot = tx.add(ENTRIES, &object).await?;
        tx.complete().await?;
        let slot = slot.as_f64().unwrap_or(0.0) as u64;
        let receipt = self.receipt(entry.key(), slot, entry.progress.revision);
        Ok(Begun::Created(receipt))
    }

    async fn record(&self, write: &Write) -> Result<Receipt, JournalError> {
        match self.try_record(write).await {
            Err(error) if error.kind() == JournalErrorKind::Full => {
                // The reserve is for this: outcomes of old operations are still written.
                let tx = self.database.write(Flush::Normal).await?;
                tx.clear(BALLAST).await?;
                tx.complete().await?;
                self.try_record(write).await
            }
            answer => answer,
        }
    }

    async fn try_record(&self, write: &Write) -> Result<Receipt, JournalError> {
        let tx = self.database.write(write.flush).await?;
        let value = tx.get(ENTRIES, write.slot).await?;
        let fits = |found: &Found| found.key == write.key && !found.row.gone;
        let Some(found) = Found::read(&value).filter(fits) else {
            return Err(JournalError::stale(&write.key));
        };
        let stored = Progress::decode(&found.row.progress, &write.key)
            .map_err(|error| JournalError::unreadable(write.slot, error))?;
        let next = write.progress.revision;
        if stored.revision != write.expected || next != write.expected + 1 {
            return Err(JournalError::stale(&write.key));
        }
        let progress = write.progress.encode(&write.key);
        let unfinished = write.progress.phase.is_unfinished();
        write_into(
            &value,
            &Row {
                progress,
                ..found.row
            },
            unfinished,
        );
        tx.put(ENTRIES, &value).await?;
        tx.complete().await?;
        Ok(self.receipt(&write.key, write.slot, next))
    }

    async fn load(&self, slot: u64, key: &Key) -> Result<Option<Entry>, JournalError> {
        let tx = self.database.read().await?;
        let found = Found::read(&tx.get(ENTRIES, slot).await?);
        match found.filter(|found| found.key == *key && !found.row.gone) {
            Some(found) => found.whole().map(Some),
            None => Ok(None),
        }
    }

    async fn rows(&self, index: Option<&str>) -> Result<Vec<Found>, JournalError> {
        let tx = self.database.read().await?;
        let rows = Array::from(&tx.all(ENTRIES, index).await?);
        let mut rows: Vec<Found> = rows
            .iter()
            .filter_map(|value| Found::read(&value))
            .filter(|found| !found.row.gone)
            .collect();
        rows.sort_by_key(|found| found.slot);
        Ok(rows)
    }

    async fn list(&self, query: &Query) -> Result<Listing, JournalError> {
        let index = (query.select == Select::Unfinished).then_some("open");
        let mut listing = Listing::default();
        let limit = match query.limit {
            0 => usize::MAX,
            limit => limit as usize,
        };
        for found in self.rows(index).await? {
            if listing.entries.len() + listing.damaged.len() == limit {
                break;
            }
            let scope = query.scope.as_ref().map(Scope::as_str);
            if found.slot <= query.after || scope.is_some_and(|s| s != scope_in(&found.name)) {
                continue;
            }
            listing.take_found(&found, |entry| {
                let since = query.since;
                query.select.matches(entry.progress.phase)
                    && since.is_none_or(|since| entry.frozen.begun_at >= since)
            });
        }
        Ok(listing)
    }

    async fn find(
        &self,
        reference: Reference,
        scope: Option<&Scope>,
    ) -> Result<Listing, JournalError> {
        let mut listing = Listing::default();
        for found in self.rows(None).await? {
            let theirs = scope.is_none_or(|scope| scope.as_str() == scope_in(&found.name));
            if theirs && found.key.reference() == reference {
                listing.take_found(&found, |_| true);
            }
        }
        Ok(listing)
    }

    async fn liveness(&self, owner: Owner) -> Result<Liveness, JournalError> {
        if let Some(alive) = Life::of(owner) {
            return Ok(if alive {
                Liveness::Alive
            } else {
                Liveness::Dead
            });
        }
        if owner == Owner::NONE {
            return Ok(Liveness::Dead);
        }
        if let Some(manager) = locks::manager() {
            let held = locks::is_held(&manager, &lock_name(owner)).await;
            if !held.map_err(|error| refused("the locks cannot be seen", &error))? {
                return Ok(Liveness::Dead);
            }
        }
        let tx = self.database.read().await?;
        let row = tx.get_named(OWNERS, &format!("{:032x}", owner.0)).await?;
        let Some(seen) = member(&row, "seen").as_f64() else {
            return Ok(Liveness::Dead);
        };
        let silent = Date::now() - seen > SILENT_AFTER.as_millis() as f64;
        Ok(if silent {
            Liveness::Silent
        } else {
            Liveness::Alive
        })
    }

    async fn forget(&self, slot: u64, key: &Key) -> Result<(), JournalError> {
        let tx = self.database.write(Flush::Full).await?;
        let value = tx.get(ENTRIES, slot).await?;
        let fits = |found: &Found| found.key == *key && !found.row.gone;
        let Some(found) = Found::read(&value).filter(fits) else {
            return Ok(());
        };
        let left = Row::buried(&found.whole()?).ok_or_else(|| JournalError::not_settled(key))?;
        write_into(&value, &left, false);
        tx.put(ENTRIES, &value).await?;
        tx.complete().await
    }

    async fn reap(&self, retention: Retention) -> Result<Reaped, JournalError> {
        let mut reaped = Reaped::default();
        let tx = self.database.write(Flush::Normal).await?;
        for value in Array::from(&tx.all(ENTRIES, None).await?) {
            if reaped.entries + reaped.tombstones == retention.batch {
                break;
            }
            self.reap_one(&tx, &value, &retention, &mut reaped).await?;
        }
        let old = retention.now.before(Duration::from_secs(24 * 60 * 60));
        for owner in Array::from(&tx.all(OWNERS, None).await?) {
            let seen = member(&owner, "seen").as_f64().unwrap_or(0.0);
            if seen < old.as_millis() as f64 {
                tx.delete_named(OWNERS, &text(&owner, "id")).await?;
            }
        }
        tx.complete().await?;
        Ok(reaped)
    }

    async fn reap_one(
        &self,
        tx: &Transaction,
        value: &JsValue,
        retention: &Retention,
        reaped: &mut Reaped,
    ) -> Result<(), JournalError> {
        let Some(found) = Found::read(value) else {
            return Ok(());
        };
        // What cannot be read is kept as it is.
        let Ok(entry) = found.entry() else {
            return Ok(());
        };
        let Some(tombstone) = Tombstone::of(&entry) else {
            return Ok(());
        };
        if found.row.gone {
            if retention.tombstone_is_over(tombstone.ended_at) {
                tx.delete(ENTRIES, found.slot).await?;
                reaped.tombstones += 1;
            }
        } else if retention.entry_is_over(tombstone.ended_at)
            && let Some(left) = Row::buried(&entry)
        {
            write_into(value, &left, false);
            tx.put(ENTRIES, value).await?;
            reaped.entries += 1;
        }
        Ok(())
    }
}

impl Listing {
    fn take_found(&mut self, found: &Found, wanted: impl Fn(&Entry) -> bool) {
        match found.entry() {
            Ok(entry) if wanted(&entry) => self.entries.push(entry),
            Ok(_) => {}
            Err(error) => self.damaged.push(Damaged {
                slot: found.slot,
                key: Some(found.key.clone()),
                error,
            }),
        }
    }
}

impl Journal for IndexedDbJournal {
    fn grade(&self) -> Grade {
        self.0.grade
    }

    fn owner(&self) -> Owner {
        self.0.life.0
    }

    fn begin(&self, entry: Entry) -> BoxFuture<'_, Result<Begun, JournalError>> {
        let handle = Rc::clone(&self.0);
        self.start(Box::pin(async move { handle.begin(entry).await }))
    }

    fn record(&self, write: Write) -> BoxFuture<'_, Result<Receipt, JournalError>> {
        let handle = Rc::clone(&self.0);
        self.start(Box::pin(async move { handle.record(&write).await }))
    }

    fn load(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<Option<Entry>, JournalError>> {
        Box::pin(async move { self.0.load(slot, &key).await })
    }

    fn list(&self, query: Query) -> BoxFuture<'_, Result<Listing, JournalError>> {
        Box::pin(async move { self.0.list(&query).await })
    }

    fn find(
        &self,
        reference: Reference,
        scope: Option<Scope>,
    ) -> BoxFuture<'_, Result<Listing, JournalError>> {
        Box::pin(async move { self.0.find(reference, scope.as_ref()).await })
    }

    fn liveness(&self, owner: Owner) -> BoxFuture<'_, Result<Liveness, JournalError>> {
        Box::pin(self.0.liveness(owner))
    }

    fn forget(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<(), JournalError>> {
        let handle = Rc::clone(&self.0);
        self.start(Box::pin(async move { handle.forget(slot, &key).await }))
    }

    fn reap(&self, retention: Retention) -> BoxFuture<'_, Result<Reaped, JournalError>> {
        let handle = Rc::clone(&self.0);
        self.start(Box::pin(async move { handle.reap(retention).await }))
    }
}

impl std::fmt::Debug for IndexedDbJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexedDbJournal")
            .field("grade", &self.0.grade)
            .finish_non_exhaustive()
    }
}

//! The journals of a page: IndexedDB, localStorage for those who choose it, and memory.
//!
//! What a browser does is done by `store.js`; what a row means is decided here. All three stores keep
//! the same rows, so this one journal serves them.

mod row;

use super::{
    Begun, Flush, Journal, JournalError, JournalErrorKind, Listing, Liveness, Query, Reaped,
    Receipt, Retention, Select, Tombstone, Write,
};
use crate::entry::{Entry, Grade, Owner, Scope};
use crate::key::{Key, Reference};
use crate::machine;
use crate::seam::BoxFuture;
use gloo_storage::{LocalStorage, Storage as _};
use js_sys::{Array, Promise};
use row::{Row, buried, name_of};
use std::rc::Rc;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

#[wasm_bindgen(module = "/src/journal/browser/store.js")]
extern "C" {
    #[wasm_bindgen(js_name = openIndexedDb)]
    fn open_indexed_db(name: &str) -> Promise;
    #[wasm_bindgen(js_name = probeLocalStorage)]
    fn probe_local_storage() -> Promise;
    #[wasm_bindgen(js_name = openLocalStorage)]
    fn open_local_storage(name: &str, storage: &JsValue) -> Promise;
    #[wasm_bindgen(js_name = openMemory)]
    fn open_memory(name: &str) -> Promise;

    type Store;
    #[wasm_bindgen(method, getter)]
    fn owner(this: &Store) -> Vec<u8>;
    #[wasm_bindgen(method, getter)]
    fn grade(this: &Store) -> u32;
    #[wasm_bindgen(method)]
    fn add(
        this: &Store,
        name: &str,
        key: &str,
        frozen: &[u8],
        progress: &[u8],
        open: bool,
    ) -> Promise;
    #[wasm_bindgen(method)]
    #[allow(
        clippy::too_many_arguments,
        reason = "one call across the border instead of eight"
    )]
    fn swap(
        this: &Store,
        slot: f64,
        key: &str,
        revision: f64,
        frozen: Option<&[u8]>,
        progress: &[u8],
        open: bool,
        gone: bool,
        full: bool,
    ) -> Promise;
    #[wasm_bindgen(method, js_name = letGo)]
    fn let_go(this: &Store, asked: &Promise, key: &str, progress: &[u8]);
    #[wasm_bindgen(method)]
    fn get(this: &Store, slot: f64) -> Promise;
    #[wasm_bindgen(method)]
    fn rows(this: &Store, open: bool, scope: Option<&str>) -> Promise;
    #[wasm_bindgen(method)]
    fn remove(this: &Store, slot: f64) -> Promise;
    #[wasm_bindgen(method)]
    fn wipe(this: &Store, scope: &str) -> Promise;
    #[wasm_bindgen(method)]
    fn liveness(this: &Store, owner: &[u8]) -> Promise;
    #[wasm_bindgen(method)]
    fn close(this: &Store);

    type Refusal;
    #[wasm_bindgen(method, getter)]
    fn kind(this: &Refusal) -> u32;
    #[wasm_bindgen(method, getter)]
    fn message(this: &Refusal) -> String;
}

/// A journal of this page.
///
/// - [`indexed_db`](BrowserJournal::indexed_db), for as many tabs as there are. Grade
///   [`Grade::Device`]: an entry is acknowledged when its transaction, of durability *strict*, has
///   completed. A tab proves with a Web Lock that it lives, and with a heartbeat that it is not
///   frozen.
/// - [`local_storage`](BrowserJournal::local_storage), for one tab at a time. Grade
///   [`Grade::Reload`]: entries survive a reload and a closed tab, but the browser writes them to the
///   device when it pleases. The tab holds a Web Lock as long as the journal is open: each process of
///   the browser has a copy of its own, which lags behind.
/// - [`memory`](BrowserJournal::memory), for pages and tests that accept to forget.
#[derive(Clone)]
pub struct BrowserJournal(Rc<Handle>);

struct Handle {
    store: Store,
    grade: Grade,
    owner: Owner,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.store.close();
    }
}

/// What the store says, once it says it. Boxed once, for every call.
fn wait(asked: Promise) -> BoxFuture<'static, Result<JsValue, JournalError>> {
    Box::pin(async move {
        JsFuture::from(asked).await.map_err(|refusal| {
            let refusal: Refusal = refusal.unchecked_into();
            let kind = match refusal.kind() {
                1 => JournalErrorKind::Full,
                2 => JournalErrorKind::TooNew,
                3 => JournalErrorKind::OpenElsewhere,
                _ => JournalErrorKind::Unavailable,
            };
            JournalError::new(kind, refusal.message())
        })
    })
}

impl BrowserJournal {
    /// Opens the journal of this name in IndexedDB, or makes it.
    ///
    /// # Errors
    /// If the browser has no IndexedDB, forbids it to this page, or a newer samekey wrote it.
    pub async fn indexed_db(name: &str) -> Result<BrowserJournal, JournalError> {
        Ok(BrowserJournal::of(wait(open_indexed_db(name)).await?))
    }

    /// Opens the journal of this name in localStorage, or makes it.
    ///
    /// # Errors
    /// If storage is blocked, if the browser has no Web Locks, or if the journal is open in another
    /// tab.
    pub async fn local_storage(name: &str) -> Result<BrowserJournal, JournalError> {
        // First a look: gloo-storage throws where storage is blocked.
        wait(probe_local_storage()).await?;
        let storage = LocalStorage::raw();
        let opened = wait(open_local_storage(name, &storage)).await?;
        Ok(BrowserJournal::of(opened))
    }

    /// A journal that the end of the page forgets.
    ///
    /// # Errors
    /// None; as the others, for the caller's ease.
    pub async fn memory(name: &str) -> Result<BrowserJournal, JournalError> {
        Ok(BrowserJournal::of(wait(open_memory(name)).await?))
    }

    fn of(opened: JsValue) -> BrowserJournal {
        let store: Store = opened.unchecked_into();
        let owner = store.owner().try_into().unwrap_or_default();
        let grade = match store.grade() {
            1 => Grade::Reload,
            2 => Grade::Process,
            3 => Grade::Device,
            _ => Grade::None,
        };
        BrowserJournal(Rc::new(Handle {
            store,
            grade,
            owner: Owner(u128::from_le_bytes(owner)),
        }))
    }

    /// Deletes every entry of `scope`, whatever became of it, tombstones included: what was open
    /// can then not be resumed. For signing out on a device that others use.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub async fn wipe(&self, scope: &Scope) -> Result<u32, JournalError> {
        let wiped = wait(self.0.store.wipe(scope.as_str())).await?;
        Ok(wiped.as_f64().unwrap_or(0.0) as u32)
    }
}

/// A begin that has no answer yet. Dropped, it lets go of what the store may have made.
struct Unanswered<'a> {
    store: &'a Store,
    entry: &'a Entry,
    asked: Option<Promise>,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(asked) = &self.asked {
            let (key, released) = (
                self.entry.key(),
                machine::release(&self.entry.progress, true),
            );
            self.store
                .let_go(asked, key.as_str(), &released.encode(key));
        }
    }
}

impl Handle {
    fn receipt(&self, key: &Key, slot: f64, revision: u64) -> Receipt {
        Receipt::new(key.clone(), slot as u64, revision, self.grade)
    }

    async fn begin(&self, entry: &Entry) -> Result<Begun, JournalError> {
        let (name, key, progress) = (name_of(&entry.frozen), entry.key(), &entry.progress);
        let (frozen, noted) = (entry.frozen.encode(), progress.encode(key));
        let open = progress.phase.is_unfinished();
        let asked = self.store.add(&name, key.as_str(), &frozen, &noted, open);
        let mut unanswered = Unanswered {
            store: &self.store,
            entry,
            asked: Some(asked.clone()),
        };
        let answer = wait(asked).await;
        unanswered.asked = None;
        let answer = answer?;
        if let Some(slot) = answer.as_f64() {
            return Ok(Begun::Created(self.receipt(key, slot, progress.revision)));
        }
        let row: Row = answer.unchecked_into();
        Ok(match row.entry() {
            Err(error) => Begun::Damaged(row.damaged(error)),
            Ok(found) => match Tombstone::of(&found) {
                Some(tombstone) if row.gone() => Begun::Tombstone(tombstone),
                _ => Begun::Exists(Box::new(found)),
            },
        })
    }

    async fn record(&self, write: &Write) -> Result<Receipt, JournalError> {
        let (key, progress) = (&write.key, &write.progress);
        let stale = || JournalError::stale(key);
        if progress.revision != write.expected + 1 {
            return Err(stale());
        }
        let asked = self.store.swap(
            write.slot as f64,
            key.as_str(),
            write.expected as f64,
            None,
            &progress.encode(key),
            progress.phase.is_unfinished(),
            false,
            write.flush == Flush::Full,
        );
        if !wait(asked).await?.is_truthy() {
            return Err(stale());
        }
        Ok(self.receipt(key, write.slot as f64, progress.revision))
    }

    /// The row of an entry that is not a tombstone.
    async fn row(&self, slot: u64, key: &Key) -> Result<Option<Row>, JournalError> {
        let found = wait(self.store.get(slot as f64)).await?;
        let row = found.is_object().then(|| found.unchecked_into::<Row>());
        Ok(row.filter(|row| row.key() == key.as_str() && !row.gone()))
    }

    async fn rows(&self, open: bool, scope: Option<&Scope>) -> Result<Vec<Row>, JournalError> {
        let rows = wait(self.store.rows(open, scope.map(Scope::as_str))).await?;
        let rows: Array = rows.unchecked_into();
        Ok(rows.iter().map(JsCast::unchecked_into).collect())
    }

    async fn list(
        &self,
        query: &Query,
        reference: Option<Reference>,
    ) -> Result<Listing, JournalError> {
        let open = query.select == Select::Unfinished;
        let mut listing = Listing::default();
        for row in self.rows(open, query.scope.as_ref()).await? {
            let found = (listing.entries.len() + listing.damaged.len()) as u32;
            if query.limit != 0 && found == query.limit {
                break;
            }
            let named = |reference| row.reference() == Some(reference);
            if row.gone() || row.slot() <= query.after as f64 || !reference.is_none_or(named) {
                continue;
            }
            match row.entry() {
                Ok(entry) if query.matches(&entry) => listing.entries.push(entry),
                Ok(_) => {}
                Err(error) => listing.damaged.push(row.damaged(error)),
            }
        }
        Ok(listing)
    }

    /// Puts a tombstone in the place of a settled entry; says whether it was settled.
    async fn bury(&self, row: &Row, entry: &Entry, flush: Flush) -> Result<bool, JournalError> {
        let Some((frozen, progress)) = buried(entry) else {
            return Ok(false);
        };
        let asked = self.store.swap(
            row.slot(),
            entry.key().as_str(),
            row.revision(),
            Some(&frozen),
            &progress,
            false,
            true,
            flush == Flush::Full,
        );
        wait(asked).await?;
        Ok(true)
    }

    async fn forget(&self, slot: u64, key: &Key) -> Result<(), JournalError> {
        let Some(row) = self.row(slot, key).await? else {
            return Ok(());
        };
        if self.bury(&row, &row.whole()?, Flush::Full).await? {
            return Ok(());
        }
        Err(JournalError::not_settled(key))
    }

    async fn reap(&self, retention: &Retention) -> Result<Reaped, JournalError> {
        let mut reaped = Reaped::default();
        for row in self.rows(false, None).await? {
            if reaped.entries + reaped.tombstones == retention.batch {
                break;
            }
            // What cannot be read is kept as it is.
            let Ok(entry) = row.entry() else { continue };
            let ended = entry.progress.ended_at();
            if row.gone() {
                if retention.tombstone_is_over(ended) {
                    wait(self.store.remove(row.slot())).await?;
                    reaped.tombstones += 1;
                }
            } else if retention.entry_is_over(ended)
                && self.bury(&row, &entry, Flush::Normal).await?
            {
                reaped.entries += 1;
            }
        }
        Ok(reaped)
    }
}

impl Query {
    fn matches(&self, entry: &Entry) -> bool {
        let since = self.since;
        self.select.matches(entry.progress.phase)
            && since.is_none_or(|since| entry.frozen.begun_at >= since)
    }
}

impl Journal for BrowserJournal {
    fn grade(&self) -> Grade {
        self.0.grade
    }

    fn owner(&self) -> Owner {
        self.0.owner
    }

    fn begin(&self, entry: Entry) -> BoxFuture<'_, Result<Begun, JournalError>> {
        Box::pin(async move { self.0.begin(&entry).await })
    }

    fn record(&self, write: Write) -> BoxFuture<'_, Result<Receipt, JournalError>> {
        Box::pin(async move { self.0.record(&write).await })
    }

    fn load(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<Option<Entry>, JournalError>> {
        Box::pin(async move {
            let row = self.0.row(slot, &key).await?;
            row.map(|row| row.whole()).transpose()
        })
    }

    fn list(&self, query: Query) -> BoxFuture<'_, Result<Listing, JournalError>> {
        Box::pin(async move { self.0.list(&query, None).await })
    }

    fn find(
        &self,
        reference: Reference,
        scope: Option<Scope>,
    ) -> BoxFuture<'_, Result<Listing, JournalError>> {
        Box::pin(async move {
            let query = Query {
                scope,
                ..Query::default()
            };
            self.0.list(&query, Some(reference)).await
        })
    }

    fn liveness(&self, owner: Owner) -> BoxFuture<'_, Result<Liveness, JournalError>> {
        Box::pin(async move {
            let said = wait(self.0.store.liveness(&owner.0.to_le_bytes())).await?;
            Ok(match said.as_f64() {
                Some(2.0) => Liveness::Alive,
                Some(1.0) => Liveness::Silent,
                _ => Liveness::Dead,
            })
        })
    }

    fn forget(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move { self.0.forget(slot, &key).await })
    }

    fn reap(&self, retention: Retention) -> BoxFuture<'_, Result<Reaped, JournalError>> {
        Box::pin(async move { self.0.reap(&retention).await })
    }
}

impl std::fmt::Debug for BrowserJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BrowserJournal")
            .field("grade", &self.0.grade)
            .finish_non_exhaustive()
    }
}

//! The journals of a page: IndexedDB, localStorage for those who choose it, and memory.
//!
//! What a browser does is done by `store.js`; what a row means is decided here. All three stores keep
//! the same rows, so this one journal serves them.

use super::row::{self, Due, Row};
use super::{
    Begun, Flush, Journal, JournalError, JournalErrorKind, Listing, Liveness, Query, Reaped,
    Receipt, Retention, Select, Tombstone, Write,
};
use crate::entry::{Entry, Grade, Owner, Scope};
use crate::key::{Key, Reference};
use crate::seam::BoxFuture;
use crate::seam::border::{Job, Pack, Values};
use std::rc::Rc;
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen(module = "/src/journal/browser/store.js")]
extern "C" {
    fn ask(given: &[u8]) -> u32;
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
    /// By which `store.js` knows it.
    number: f64,
    grade: Grade,
    owner: Owner,
}

impl Drop for Handle {
    fn drop(&mut self) {
        drop(Job::number(ask(self.asking("close").as_bytes())));
    }
}

/// What the store says, once it says it, behind the mark of an answer. Boxed once, for every call.
fn wait(asked: &Pack) -> BoxFuture<'static, Result<Vec<u8>, JournalError>> {
    let job = Job::number(ask(asked.as_bytes()));
    Box::pin(async move {
        let answer = job.await;
        let mut values = Values::new(&answer);
        if !values.flag() {
            return Ok(answer);
        }
        let kind = match values.number() as u32 {
            1 => JournalErrorKind::Full,
            2 => JournalErrorKind::TooNew,
            3 => JournalErrorKind::OpenElsewhere,
            _ => JournalErrorKind::Unavailable,
        };
        Err(JournalError::new(kind, values.text()))
    })
}

/// The values of an answer.
fn said(answer: &[u8]) -> Values<'_> {
    let mut values = Values::new(answer);
    values.flag();
    values
}

impl BrowserJournal {
    /// Opens the journal of this name in IndexedDB, or makes it.
    ///
    /// # Errors
    /// If the browser has no IndexedDB, forbids it to this page, or a newer samekey wrote it.
    pub async fn indexed_db(name: &str) -> Result<BrowserJournal, JournalError> {
        BrowserJournal::open("indexeddb", name).await
    }

    /// Opens the journal of this name in localStorage, or makes it.
    ///
    /// # Errors
    /// If storage is blocked, if the browser has no Web Locks, or if the journal is open in another
    /// tab.
    pub async fn local_storage(name: &str) -> Result<BrowserJournal, JournalError> {
        BrowserJournal::open("localstorage", name).await
    }

    /// A journal that the end of the page forgets.
    ///
    /// # Errors
    /// None; as the others, for the caller's ease.
    pub async fn memory(name: &str) -> Result<BrowserJournal, JournalError> {
        BrowserJournal::open("memory", name).await
    }

    /// Opens the journal of this name in the store of this name: `indexeddb`, `localstorage` or
    /// `memory`.
    ///
    /// # Errors
    /// As those of the store's own method.
    pub async fn open(store: &str, name: &str) -> Result<BrowserJournal, JournalError> {
        let mut asked = Pack::of(store);
        asked.text(name);
        let opened = wait(&asked).await?;
        let mut values = said(&opened);
        Ok(BrowserJournal(Rc::new(Handle {
            number: values.number(),
            grade: match values.number() as u32 {
                1 => Grade::Reload,
                2 => Grade::Process,
                3 => Grade::Device,
                _ => Grade::None,
            },
            owner: Owner(u128::from_le_bytes(
                values.bytes().try_into().unwrap_or_default(),
            )),
        })))
    }

    /// Deletes every entry of `scope`, whatever became of it, tombstones included: what was open
    /// can then not be resumed. For signing out on a device that others use.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub async fn wipe(&self, scope: &Scope) -> Result<u32, JournalError> {
        let mut asked = self.0.asking("wipe");
        asked.text(scope.as_str());
        let wiped = wait(&asked).await?;
        Ok(said(&wiped).number() as u32)
    }
}

impl Handle {
    fn asking(&self, what: &str) -> Pack {
        let mut asked = Pack::of(what);
        asked.number(self.number);
        asked
    }

    fn receipt(&self, key: &Key, slot: u64, revision: u64) -> Receipt {
        Receipt::new(key.clone(), slot, revision, self.grade)
    }

    fn begun(&self, entry: &Entry, answer: &[u8]) -> Begun {
        let mut values = said(answer);
        let mut created = values;
        let slot = created.number() as u64;
        if created.is_empty() {
            return Begun::Created(self.receipt(entry.key(), slot, entry.progress.revision));
        }
        let row = Row::read(&mut values);
        match row.entry() {
            Err(error) => Begun::Damaged(row.damaged(error)),
            Ok(found) => match Tombstone::of(&found) {
                Some(tombstone) if row.gone => Begun::Tombstone(tombstone),
                _ => Begun::Exists(found),
            },
        }
    }

    /// The row of an entry that is not a tombstone.
    fn row(&self, slot: u64, key: &Key) -> BoxFuture<'static, Result<Vec<u8>, JournalError>> {
        let mut asked = self.asking("get");
        asked.number(slot as f64);
        asked.text(key.as_str());
        wait(&asked)
    }

    fn rows(
        &self,
        open: bool,
        scope: Option<&Scope>,
    ) -> BoxFuture<'static, Result<Vec<u8>, JournalError>> {
        let mut asked = self.asking("rows");
        asked.flag(open);
        asked.optional(scope.map(Scope::as_str));
        wait(&asked)
    }

    fn list(
        &self,
        query: Query,
        reference: Option<Reference>,
    ) -> BoxFuture<'static, Result<Listing, JournalError>> {
        let rows = self.rows(query.select == Select::Unfinished, query.scope.as_ref());
        Box::pin(async move { Ok(listing(&rows.await?, &query, reference)) })
    }

    /// What to ask of the store to reap what is over in these rows, and how much that is.
    fn reaping(&self, rows: &[u8], retention: &Retention) -> (Vec<Pack>, Reaped) {
        let (mut orders, mut reaped) = (Vec::new(), Reaped::default());
        let mut values = said(rows);
        while !values.is_empty() && (orders.len() as u32) < retention.batch {
            let row = Row::read(&mut values);
            let mut order = self.asking("swap");
            match row::reap(&mut order, &row, retention) {
                Due::Nothing => continue,
                Due::Tombstone => reaped.entries += 1,
                Due::Removal => {
                    order = self.asking("remove");
                    order.number(row.slot as f64);
                    reaped.tombstones += 1;
                }
            }
            orders.push(order);
        }
        (orders, reaped)
    }
}

fn whole(row: &Row<'_>) -> Result<Box<Entry>, JournalError> {
    let entry = row.entry();
    entry.map_err(|error| JournalError::unreadable(row.slot, error))
}

fn listing(rows: &[u8], query: &Query, reference: Option<Reference>) -> Listing {
    let (mut values, mut listing) = (said(rows), Listing::default());
    while !values.is_empty() {
        let found = (listing.entries.len() + listing.damaged.len()) as u32;
        if query.limit != 0 && found == query.limit {
            break;
        }
        let row = Row::read(&mut values);
        let named = |reference| row.reference() == Some(reference);
        if row.gone || row.slot <= query.after || !reference.is_none_or(named) {
            continue;
        }
        match row.entry() {
            Ok(entry) if query.matches(&entry) => listing.entries.push(*entry),
            Ok(_) => {}
            Err(error) => listing.damaged.push(row.damaged(error)),
        }
    }
    listing
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
        let mut adding = self.0.asking("add");
        row::add(&mut adding, &entry);
        let asked = wait(&adding);
        Box::pin(async move { Ok(self.0.begun(&entry, &asked.await?)) })
    }

    fn record(&self, write: Write) -> BoxFuture<'_, Result<Receipt, JournalError>> {
        let fits = write.progress.revision == write.expected.revision + 1;
        let asked = fits.then(|| {
            let mut swapping = self.0.asking("swap");
            let row = (write.slot, &write.key);
            row::swap(
                &mut swapping,
                row,
                &write.expected,
                &write.progress,
                write.flush,
            );
            wait(&swapping)
        });
        Box::pin(async move {
            let swapped = match asked {
                Some(asked) => said(&asked.await?).flag(),
                None => false,
            };
            if !swapped {
                return Err(JournalError::stale(&write.key));
            }
            let revision = write.progress.revision;
            Ok(self.0.receipt(&write.key, write.slot, revision))
        })
    }

    fn load(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<Option<Entry>, JournalError>> {
        let row = self.0.row(slot, &key);
        Box::pin(async move {
            let row = row.await?;
            let mut values = said(&row);
            if values.is_empty() {
                return Ok(None);
            }
            Ok(Some(*whole(&Row::read(&mut values))?))
        })
    }

    fn list(&self, query: Query) -> BoxFuture<'_, Result<Listing, JournalError>> {
        self.0.list(query, None)
    }

    fn find(
        &self,
        reference: Reference,
        scope: Option<Scope>,
    ) -> BoxFuture<'_, Result<Listing, JournalError>> {
        let query = Query {
            scope,
            ..Query::default()
        };
        self.0.list(query, Some(reference))
    }

    fn liveness(&self, owner: Owner) -> BoxFuture<'_, Result<Liveness, JournalError>> {
        let mut asked = self.0.asking("liveness");
        asked.bytes(&owner.0.to_le_bytes());
        let asked = wait(&asked);
        Box::pin(async move {
            Ok(match said(&asked.await?).number() as u32 {
                2 => Liveness::Alive,
                1 => Liveness::Silent,
                _ => Liveness::Dead,
            })
        })
    }

    fn forget(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<(), JournalError>> {
        let row = self.0.row(slot, &key);
        Box::pin(async move {
            let row = row.await?;
            let mut values = said(&row);
            if values.is_empty() {
                return Ok(());
            }
            let row = Row::read(&mut values);
            let mut burying = self.0.asking("swap");
            if !row::bury(&mut burying, &mut *whole(&row)?, Flush::Full) {
                return Err(JournalError::not_settled(&key));
            }
            wait(&burying).await.map(drop)
        })
    }

    fn reap(&self, retention: Retention) -> BoxFuture<'_, Result<Reaped, JournalError>> {
        let rows = self.0.rows(false, None);
        Box::pin(async move {
            let (orders, reaped) = self.0.reaping(&rows.await?, &retention);
            for order in orders {
                wait(&order).await?;
            }
            Ok(reaped)
        })
    }
}

impl std::fmt::Debug for BrowserJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BrowserJournal")
            .field("grade", &self.0.grade)
            .finish_non_exhaustive()
    }
}

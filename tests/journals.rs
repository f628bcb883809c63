//! Every store passes the suite, and stores that break a rule do not.
#![cfg(all(feature = "sqlite", feature = "conformance"))]
#![allow(missing_docs)]

use samekey::journal::conformance::{self, Stage};
use samekey::journal::{Journal, JournalError, MemoryJournal, SqliteJournal};
use samekey::seam::BoxFuture;
use std::sync::Arc;
use tempfile::TempDir;

struct Memory(MemoryJournal);

impl Stage for Memory {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Journal>, JournalError>> {
        Box::pin(async { Ok(Arc::new(self.0.reopen()) as Arc<dyn Journal>) })
    }

    fn damage(&self, slot: u64) -> BoxFuture<'_, bool> {
        Box::pin(async move { self.0.damage(slot) })
    }
}

struct Sqlite(TempDir);

impl Stage for Sqlite {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Journal>, JournalError>> {
        Box::pin(async {
            let journal = SqliteJournal::open(self.0.path().join("j"))?;
            Ok(Arc::new(journal) as Arc<dyn Journal>)
        })
    }

    fn damage(&self, slot: u64) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let connection = rusqlite::Connection::open(self.0.path().join("j")).unwrap();
            let altered = connection.execute(
                "UPDATE frozen SET bytes = zeroblob(length(bytes)) WHERE slot = ?1",
                [slot.cast_signed()],
            );
            altered == Ok(1)
        })
    }
}

#[tokio::test]
async fn memory_conforms() {
    let made = || Memory(MemoryJournal::new());
    assert_eq!(conformance::all(made).await, Ok(()));
}

#[tokio::test]
async fn sqlite_conforms() {
    let made = || Sqlite(tempfile::tempdir().unwrap());
    assert_eq!(conformance::all(made).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sqlite_conforms_on_several_threads() {
    let made = || Sqlite(tempfile::tempdir().unwrap());
    assert_eq!(conformance::all(made).await, Ok(()));
}

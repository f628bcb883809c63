//! Every store passes the suite, stores that break a rule do not, and the SQLite journal refuses
//! what it must not touch and notices what was done to it.
#![cfg(all(feature = "sqlite", feature = "conformance"))]
#![expect(clippy::unwrap_used, reason = "clippy knows tests, not their helpers")]

mod journals {
    mod damage;
    mod figures;
    pub(crate) mod files;
    mod lies;
    mod model;
    mod tape;
}

use journals::files;
use samekey::entry::{Entry, Owner, Phase};
use samekey::journal::conformance::{self, Stage, sample, step};
use samekey::journal::{
    Begun, Flush, Journal, JournalError, JournalErrorKind, MemoryJournal, Query, Select,
    SqliteJournal, SqliteOptions,
};
use samekey::seam::BoxFuture;
use std::path::Path;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) struct Memory(pub(crate) MemoryJournal);

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

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Why opening `path` is refused.
pub(crate) fn refusal(path: &Path) -> JournalError {
    SqliteJournal::open(path).expect_err("it must not open")
}

pub(crate) async fn begin(journal: &SqliteJournal, intent: &str) -> Result<Entry, JournalError> {
    let mut entry = sample(journal.owner(), "ann", intent, 0);
    match journal.begin(entry.clone()).await? {
        Begun::Created(receipt) => entry.slot = receipt.slot(),
        other => panic!("{intent} is not new: {other:?}"),
    }
    Ok(entry)
}

pub(crate) async fn advance(
    journal: &SqliteJournal,
    entry: &mut Entry,
    phase: Phase,
    flush: Flush,
) {
    let mut write = step(entry, phase);
    write.flush = flush;
    entry.progress = write.progress.clone();
    journal.record(write).await.unwrap();
}

/// A write that bounces: it changes nothing, but takes a turn. Whoever wrote before has what is on its tape
/// filed by it, and writes its next step straight into the tables.
pub(crate) async fn take_a_turn(rival: &SqliteJournal) {
    let nothing = sample(rival.owner(), "ann", "nothing", 0);
    let bounced = rival.record(step(&nothing, Phase::Waiting)).await;
    assert_eq!(bounced.unwrap_err().kind(), JournalErrorKind::Stale);
}

pub(crate) async fn everything(journal: &SqliteJournal) -> Result<Vec<Entry>, JournalError> {
    let listing = journal.list(Query::default()).await?;
    match listing.damaged.first() {
        Some(damaged) => Err(JournalError::unreadable(damaged.slot, damaged.error)),
        None => Ok(listing.entries),
    }
}

#[tokio::test]
async fn memory_conforms() {
    let made = || Memory(MemoryJournal::new());
    assert_eq!(conformance::all(made).await, Ok(()));
}

#[tokio::test]
async fn sqlite_conforms() {
    assert_eq!(conformance::all(|| Sqlite(folder())).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sqlite_conforms_on_several_threads() {
    assert_eq!(conformance::all(|| Sqlite(folder())).await, Ok(()));
}

#[tokio::test]
async fn a_stale_write_in_a_batch_does_not_fail_the_others() {
    let folder = folder();
    let journal = SqliteJournal::open(folder.path().join("j")).unwrap();
    let entry = begin(&journal, "a").await.unwrap();
    let writes = (0..32).map(|i| {
        let (journal, entry) = (journal.clone(), entry.clone());
        tokio::spawn(async move {
            if i % 2 == 0 {
                let taken = journal.record(step(&entry, Phase::Waiting)).await;
                taken.map(|_| ()).map_err(|error| error.kind())
            } else {
                begin(&journal, &format!("b/{i}"))
                    .await
                    .map(|_| ())
                    .map_err(|error| error.kind())
            }
        })
    });
    let mut answers = Vec::new();
    for write in writes.collect::<Vec<_>>() {
        answers.push(write.await.unwrap());
    }
    let stale = answers
        .iter()
        .filter(|a| **a == Err(JournalErrorKind::Stale))
        .count();
    let taken = answers.iter().filter(|a| a.is_ok()).count();
    assert_eq!((stale, taken), (15, 17));
}

/// Polls once.
async fn is_pending<T>(future: &mut BoxFuture<'_, T>) -> bool {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

#[tokio::test]
async fn what_is_queued_when_the_last_handle_goes_is_still_written() {
    let folder = folder();
    let path = folder.path().join("j");
    let patience = SqliteOptions::new().patience(Duration::from_secs(600));
    let journal = SqliteJournal::open_with(&path, patience).unwrap();
    // Another's turn: nothing is written before all of them are queued, however slow the machine is.
    let turn = std::fs::File::open(folder.path().join("j-lock")).unwrap();
    turn.lock().unwrap();
    let mut waiting: Vec<_> = (0..50)
        .map(|i| {
            let entry = sample(journal.owner(), "ann", &format!("q/{i}"), 0);
            let journal = journal.clone();
            Box::pin(async move { journal.begin(entry).await }) as BoxFuture<'_, _>
        })
        .collect();
    for begin in &mut waiting {
        // Sent to the writer, and then nobody waits for it.
        assert!(is_pending(begin).await);
    }
    drop(waiting);
    drop(turn);
    drop(journal);
    let journal = SqliteJournal::open(&path).unwrap();
    let left = everything(&journal).await.unwrap();
    assert_eq!(left.len(), 50);
    assert!(left.iter().all(|entry| entry.progress.owner == Owner::NONE));
    assert!(journal.check().await.unwrap().is_healthy());
}

#[tokio::test]
async fn a_begin_dropped_with_its_answer_unread_is_let_go() {
    let folder = folder();
    let journal = SqliteJournal::open(folder.path().join("j")).unwrap();
    let entry = sample(journal.owner(), "ann", "unread", 0);
    let mut waiting = journal.begin(entry);
    assert!(is_pending(&mut waiting).await);
    // Written and answered by now, as the later one is.
    let known = begin(&journal, "known").await.unwrap();
    drop(waiting);
    begin(&journal, "after it").await.unwrap();
    let left = everything(&journal).await.unwrap();
    let owners: Vec<_> = left.iter().map(|e| e.progress.owner).collect();
    let me = known.progress.owner;
    assert_eq!(owners, [Owner::NONE, me, me]);
    assert!(left[0].progress.phase == Phase::Ready && !left[0].progress.maybe_applied);
}

#[tokio::test]
async fn a_journal_of_version_1_is_resumed() {
    is_resumed("tests/fixtures/journal/v1.journal").await;
}

#[tokio::test]
async fn a_journal_of_version_2_is_resumed() {
    is_resumed("tests/fixtures/journal/v2.journal").await;
}

async fn is_resumed(fixture: &str) {
    let folder = folder();
    let path = folder.path().join("j");
    std::fs::copy(fixture, &path).unwrap();
    files::set_mode(&path, 0o600);
    let journal = SqliteJournal::open(&path).unwrap();
    let mut entries = everything(&journal).await.unwrap();
    let seen: Vec<_> = entries
        .iter()
        .map(|e| {
            (
                &*e.frozen.intent,
                e.progress.phase.name(),
                e.progress.revision,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("paid", "succeeded", 2),
            ("open", "ready", 1),
            ("waiting", "waiting", 3)
        ]
    );
    advance(&journal, &mut entries[1], Phase::Succeeded, Flush::Full).await;
    let gone = sample(journal.owner(), "ann", "forgotten", 0);
    assert!(matches!(journal.begin(gone).await, Ok(Begun::Tombstone(_))));
    let paid = sample(journal.owner(), "ann", "paid", 0);
    assert!(matches!(journal.begin(paid).await, Ok(Begun::Exists(_))));
    assert!(journal.check().await.unwrap().is_healthy());
}

/// Makes the fixture of the current version. Run it once, when the version is new:
/// `cargo test --features conformance --test journals -- --ignored fixture`.
#[tokio::test]
#[ignore = "writes a fixture into the source tree"]
async fn make_the_fixture_of_the_current_version() {
    let folder = folder();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    let mut forgotten = begin(&journal, "forgotten").await.unwrap();
    advance(&journal, &mut forgotten, Phase::Rejected, Flush::Full).await;
    journal
        .forget(forgotten.slot, forgotten.key().clone())
        .await
        .unwrap();
    let mut paid = begin(&journal, "paid").await.unwrap();
    advance(&journal, &mut paid, Phase::Succeeded, Flush::Normal).await;
    begin(&journal, "open").await.unwrap();
    let mut waiting = begin(&journal, "waiting").await.unwrap();
    advance(&journal, &mut waiting, Phase::Sending, Flush::Normal).await;
    advance(&journal, &mut waiting, Phase::Waiting, Flush::Full).await;
    drop(journal);
    assert!(
        !folder.path().join("j-wal").exists(),
        "the log must be copied"
    );
    std::fs::copy(&path, "tests/fixtures/journal/v2.journal").unwrap();
}

#[tokio::test]
async fn unfinished_entries_are_listed_by_their_index_whatever_else_there_is() {
    let folder = folder();
    let journal = SqliteJournal::open(folder.path().join("j")).unwrap();
    for i in 0..40 {
        let mut entry = begin(&journal, &format!("{i}")).await.unwrap();
        if i % 8 != 0 {
            advance(&journal, &mut entry, Phase::Succeeded, Flush::Normal).await;
        }
    }
    let query = Query {
        select: Select::Unfinished,
        ..Query::default()
    };
    assert_eq!(journal.list(query).await.unwrap().entries.len(), 5);
}

mod taped;

use super::*;
use crate::entry::Phase;
use crate::journal::Flush;
use crate::journal::conformance::{sample, step};
use rusqlite::Connection;

fn journal() -> (tempfile::TempDir, SqliteJournal) {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::open(folder.path().join("j")).unwrap();
    (folder, journal)
}

/// How SQLite would run a statement.
fn plan(connection: &Connection, sql: &str) -> String {
    let mut statement = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .unwrap();
    let parameters = vec![rusqlite::types::Null; statement.parameter_count()];
    let steps = statement.query_map(rusqlite::params_from_iter(parameters), |row| {
        row.get::<_, String>(3)
    });
    steps
        .unwrap()
        .map(Result::unwrap)
        .collect::<Vec<_>>()
        .join("; ")
}

#[test]
fn what_is_not_settled_is_listed_by_index_without_sorting() {
    let (_folder, journal) = journal();
    let connection = Connection::open(journal.path()).unwrap();
    let unfinished = plan(&connection, &rows::listing(Select::Unfinished));
    assert!(
        unfinished.contains("USING INDEX unfinished"),
        "{unfinished}"
    );
    let attention = plan(&connection, &rows::listing(Select::Attention));
    assert!(attention.contains("INDEX attention"), "{attention}");
    for plan in [unfinished, attention] {
        assert!(!plan.contains("SCAN frozen"), "{plan}");
        assert!(!plan.contains("USE TEMP B-TREE FOR ORDER BY"), "{plan}");
    }
}

#[test]
fn no_index_covers_settled_entries() {
    let (_folder, journal) = journal();
    let connection = Connection::open(journal.path()).unwrap();
    let mut statement = connection
        .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
        .unwrap();
    let indexes = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let indexes: Vec<(String, String)> = indexes.unwrap().map(Result::unwrap).collect();
    assert_eq!(indexes.len(), 4);
    for (name, sql) in indexes {
        let is_partial = sql.contains("WHERE state < 2")
            || sql.contains("WHERE state = 2")
            || sql.contains("in_run = 0");
        assert!(is_partial, "{name} covers every row");
    }
}

#[test]
fn a_setting_that_does_not_hold_is_noticed() {
    let (_folder, journal) = journal();
    let path = journal.path();
    let connection = schema::connect(path, Duration::ZERO).unwrap();
    schema::verify(path, &connection).unwrap();
    for (name, wrong) in [
        ("synchronous", "NORMAL"),
        ("synchronous", "OFF"),
        ("fullfsync", "0"),
        ("checkpoint_fullfsync", "0"),
        ("wal_autocheckpoint", "1000"),
        ("secure_delete", "0"),
        ("trusted_schema", "1"),
        ("cell_size_check", "0"),
    ] {
        let connection = schema::connect(path, Duration::ZERO).unwrap();
        connection
            .pragma_update_and_check(None, name, wrong, |_| Ok(()))
            .or_else(|_| connection.pragma_update(None, name, wrong))
            .unwrap();
        let error = schema::verify(path, &connection).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[tokio::test]
async fn a_handle_in_a_forked_child_is_refused_and_dropped_in_peace() {
    let (folder, mut journal) = journal();
    let parent = SqliteJournal::open(folder.path().join("j")).unwrap();
    Arc::get_mut(&mut journal.shared).unwrap().process = 0;
    let entry = sample(journal.owner(), "ann", "a", 0);
    let error = journal.begin(entry).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(error.to_string().contains("fork"), "{error}");
    assert!(journal.list(Query::default()).await.is_err());
    drop(journal);
    let entry = sample(parent.owner(), "ann", "a", 0);
    assert!(matches!(parent.begin(entry).await, Ok(Begun::Created(_))));
}

#[tokio::test]
async fn a_list_that_lost_an_entry_is_noticed() {
    let (_folder, journal) = journal();
    for i in 0..4 {
        let entry = sample(journal.owner(), "ann", &format!("{i}"), 0);
        journal.begin(entry).await.unwrap();
    }
    let query = Query {
        select: Select::Unfinished,
        ..Query::default()
    };
    assert_eq!(journal.list(query.clone()).await.unwrap().entries.len(), 4);
    let connection = Connection::open(journal.path()).unwrap();
    // The index without one of its entries, as a damaged page would leave it.
    connection
        .execute("UPDATE meta SET open = open + 1, sum = sum + 9", [])
        .unwrap();
    let error = journal.list(query).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert!(!journal.check().await.unwrap().is_healthy());
}

#[tokio::test]
async fn the_counts_add_up_whatever_an_entry_goes_through() {
    use crate::retry::classify::Reason;
    let (_folder, journal) = journal();
    let entry = sample(journal.owner(), "ann", "a", 0);
    let Begun::Created(receipt) = journal.begin(entry.clone()).await.unwrap() else {
        panic!("not new");
    };
    let mut entry = Entry {
        slot: receipt.slot(),
        ..entry
    };
    for phase in [
        Phase::Sending,
        Phase::Attention(Reason::Exhausted),
        Phase::Attention(Reason::WindowClosed),
        Phase::Waiting,
        Phase::Attention(Reason::Cancelled),
        Phase::Deferred,
        Phase::Succeeded,
    ] {
        let mut write = step(&entry, phase);
        write.flush = Flush::Normal;
        entry.progress = write.progress.clone();
        journal.record(write).await.unwrap();
        let adds_up = journal.read(rows::unfinished_add_up);
        assert!(adds_up.await.unwrap(), "{phase:?}");
    }
}

#[tokio::test]
async fn a_long_log_is_copied_and_begins_anew() {
    let (folder, journal) = journal();
    let rival = SqliteJournal::open(journal.path()).unwrap();
    let length = |ending: &str| {
        let file = folder.path().join(format!("j{ending}"));
        std::fs::metadata(file).unwrap().len()
    };
    // Copied behind everybody's back, so there may be more in the log by then.
    for round in 0..400 {
        let begins = (0..32).map(|i| {
            let entry = sample(journal.owner(), "ann", &format!("{round}/{i}"), 0);
            let journal = journal.clone();
            tokio::spawn(async move { journal.begin(entry).await.unwrap() })
        });
        for begin in begins.collect::<Vec<_>>() {
            begin.await.unwrap();
        }
        // What is on the tape comes into the log.
        taped::take_a_turn(&rival).await;
        assert!(length("-wal") < 10_000 * 4_120, "{} bytes", length("-wal"));
    }
    assert!(length("") > 25 * 16_384, "only {} bytes", length(""));
}

/// Whether a begin is done when it was polled for the first time, by whoever polled it.
fn begins_at_once(journal: &SqliteJournal, intent: &str) -> bool {
    let entry = sample(journal.owner(), "ann", intent, 0);
    let mut begin = journal.begin(entry);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    begin.as_mut().poll(&mut context).is_ready()
}

#[test]
fn what_is_alone_is_written_by_its_caller_and_what_is_not_by_the_writers_thread() {
    let (_folder, journal) = journal();
    let link = journal.shared.writer.as_ref().unwrap();
    link.when_idle(|writer| writer.quick = false);
    assert!(!begins_at_once(&journal, "slow disk"));
    link.when_idle(|writer| {
        writer.quick = true;
        writer.driven.clear();
    });
    assert!(begins_at_once(&journal, "alone"));
    link.when_idle(|writer| {
        writer.quick = true;
        writer.driven.extend([7, 8]);
    });
    assert!(!begins_at_once(&journal, "others are under way"));
    link.when_idle(|_| {});
    assert_eq!(count(&journal), 3);
}

/// Entries in the tables and on the tape.
fn count(journal: &SqliteJournal) -> usize {
    let files = &journal.shared.files;
    let connection = schema::connect_to_read(&files.journal, Duration::ZERO).unwrap();
    let recent = lately::on_tape(files).unwrap();
    let recent = recent.entries(&connection).unwrap();
    let all = rows::list(&connection, &Query::default(), &recent).unwrap();
    all.entries.len()
}

#[test]
fn while_another_process_writes_the_callers_thread_does_not_wait_for_it() {
    let (folder, journal) = journal();
    let link = journal.shared.writer.as_ref().unwrap();
    let gate = gate::Gate::open(folder.path().join("j-lock")).unwrap();
    let turn = gate.try_enter().unwrap();
    link.when_idle(|writer| writer.quick = true);
    assert!(!begins_at_once(&journal, "their turn"));
    assert_eq!(count(&journal), 0);
    drop(turn);
    link.when_idle(|_| {});
    assert_eq!(count(&journal), 1);
}

#[tokio::test]
async fn a_panic_in_the_middle_of_a_write_keeps_no_other_process_out() {
    let (folder, journal) = journal();
    let link = journal.shared.writer.as_ref().unwrap();
    let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        link.when_idle(|writer| {
            writer.turn = writer.gate.try_enter();
            writer.connection.execute_batch("BEGIN IMMEDIATE").unwrap();
            panic!("on purpose, in the middle of a write");
        })
    }));
    assert!(broken.is_err());
    let entry = sample(journal.owner(), "ann", "a", 0);
    assert!(journal.begin(entry).await.is_err());
    link.wait_for_end();
    let rival = SqliteJournal::open(folder.path().join("j")).unwrap();
    let entry = sample(rival.owner(), "ann", "a", 0);
    assert!(matches!(rival.begin(entry).await, Ok(Begun::Created(_))));
    let liveness = rival.liveness(journal.owner()).await.unwrap();
    assert_eq!(liveness, Liveness::Dead);
}

#[tokio::test]
async fn reaping_goes_on_where_it_stopped() {
    let (_folder, journal) = journal();
    for i in 0..10 {
        let mut entry = sample(journal.owner(), "ann", &format!("{i}"), 0);
        entry.progress.phase = Phase::Succeeded;
        journal.begin(entry).await.unwrap();
    }
    let retention = Retention {
        now: Timestamp::MAX,
        settled: Duration::ZERO,
        tombstones: Duration::MAX,
        batch: 4,
    };
    let mut reaped = Vec::new();
    for _ in 0..4 {
        reaped.push(journal.reap(retention).await.unwrap().entries);
    }
    assert_eq!(reaped, [4, 4, 2, 0]);
}

#[test]
fn an_owner_is_heard_of_again_when_it_is_time() {
    let (_folder, journal) = journal();
    let files = &journal.shared.files;
    let mut proof = owners::Proof::new(files).unwrap();
    let path = files.owner(proof.owner());
    let long_ago = "00000000000000000001 1\n";
    std::fs::write(&path, long_ago).unwrap();
    proof.beat_if_due();
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        long_ago,
        "it was heard of just now"
    );
    assert_eq!(
        owners::liveness(files, proof.owner()).unwrap(),
        Liveness::Silent
    );
    proof.age();
    proof.beat_if_due();
    assert_eq!(
        owners::liveness(files, proof.owner()).unwrap(),
        Liveness::Alive
    );
    drop(proof);
    assert!(!path.exists());
}

#[test]
fn an_entry_too_large_for_sqlite_is_refused_alone() {
    assert!(fits(LARGEST).is_ok());
    let error = fits(LARGEST + 1).unwrap_err();
    assert!(error.to_string().contains("fingerprint"), "{error}");
}

#[tokio::test]
async fn a_log_that_is_replaced_is_noticed_by_its_folder() {
    let (folder, journal) = journal();
    let link = journal.shared.writer.as_ref().unwrap();
    link.when_idle(|writer| writer.watch.trust(&writer.files));
    let entry = sample(journal.owner(), "ann", "kept", 0);
    journal.begin(entry).await.unwrap();
    let log = folder.path().join("j-wal");
    let copy = folder.path().join("copy");
    // Times are as coarse as the clock's ticks.
    while !link.when_idle(|writer| writer.watch.is_outdated(&writer.files)) {
        std::fs::copy(&log, &copy).unwrap();
        std::fs::rename(&copy, &log).unwrap();
    }
    let entry = sample(journal.owner(), "ann", "lost", 0);
    let error = journal.begin(entry).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert!(error.to_string().contains("replaced"), "{error}");
}

#[tokio::test]
async fn a_copy_of_the_log_that_failed_stops_the_writer() {
    let (_folder, journal) = journal();
    let link = journal.shared.writer.as_ref().unwrap();
    link.when_idle(|writer| writer.clerk.fail());
    let entry = sample(journal.owner(), "ann", "a", 0);
    let error = journal.begin(entry).await.unwrap_err();
    assert!(error.to_string().contains("open"), "{error}");
    assert!(link.when_idle(|writer| writer.poison.is_some()));
}

/// The last to close would copy what is left and remove the log, as if all before it were on the disk.
#[tokio::test]
async fn after_a_copy_that_failed_the_log_stays_for_the_next_to_open_it() {
    for failed in [true, false] {
        let (folder, journal) = journal();
        let entry = sample(journal.owner(), "ann", "a", 0);
        journal.begin(entry).await.unwrap();
        let link = journal.shared.writer.as_ref().unwrap();
        link.when_idle(|writer| failed.then(|| writer.clerk.fail()));
        drop(journal);
        assert_eq!(folder.path().join("j-wal").exists(), failed);
        let journal = SqliteJournal::open(folder.path().join("j")).unwrap();
        let listing = journal.list(Query::default()).await.unwrap();
        assert_eq!(listing.entries.len(), 1);
    }
}

//! Syncs, counted and broken from outside with `strace`.

use crate::{Process, begin, finish, intents, say};
use samekey::journal::{Flush, JournalErrorKind, Select, SqliteJournal};
use std::path::Path;

const SYNCS: &str = "trace=fsync,fdatasync";

pub(crate) async fn finish_some(path: &Path, count: usize) {
    let journal = SqliteJournal::open(path).unwrap();
    let mut entries = Vec::new();
    for i in 0..200 {
        entries.push(begin(&journal, &format!("f/{i}")).await.unwrap());
    }
    for entry in entries.iter_mut().take(count) {
        finish(&journal, entry, Flush::Normal).await.unwrap();
    }
    say("finished");
}

/// What samekey must not do: a begin whose sync was left out.
pub(crate) fn begin_unsafely(path: &Path, count: usize) {
    let plain = rusqlite::Connection::open(path).unwrap();
    plain.pragma_update(None, "journal_mode", "WAL").unwrap();
    plain.pragma_update(None, "synchronous", "NORMAL").unwrap();
    plain.execute_batch("CREATE TABLE t (a)").unwrap();
    for _ in 0..count {
        plain.execute("INSERT INTO t VALUES (1)", []).unwrap();
    }
}

/// The threads of a child that plays `part`, once for each time that they sync.
fn syncing_threads(part: &str) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let options = ["-e", SYNCS, "-o", log.to_str().unwrap()];
    let mut process = Process::traced(&options, part, &folder.path().join("j"))?;
    process.hear_all();
    process.finish();
    let log = std::fs::read_to_string(log).unwrap();
    let syncs = log.lines().filter(|line| line.contains("sync("));
    Some(
        syncs
            .filter_map(|line| Some(line.split_once(' ')?.0.to_owned()))
            .collect(),
    )
}

/// How often a child that plays `part` syncs, from its start to its end.
fn syncs(part: &str) -> Option<usize> {
    syncing_threads(part).map(|threads| threads.len())
}

#[test]
fn a_begin_costs_one_sync_and_a_success_none() {
    let Some(few) = syncs("begin a 20") else {
        return;
    };
    let many = syncs("begin a 120").unwrap();
    assert_eq!(many - few, 100, "100 further begins");
    let few = syncs("finish - 20").unwrap();
    let many = syncs("finish - 120").unwrap();
    assert_eq!(many - few, 0, "100 further successes");
}

#[test]
fn a_begin_without_its_sync_would_be_counted() {
    let Some(few) = syncs("unsafe - 20") else {
        return;
    };
    assert_eq!(syncs("unsafe - 120"), Some(few));
}

/// Opens the journal on a thread of its own: `strace` counts calls by thread.
fn open_apart(path: &Path) -> SqliteJournal {
    let path = path.to_owned();
    let opened = std::thread::spawn(move || SqliteJournal::open(path).unwrap());
    opened.join().unwrap()
}

/// Says after each begin whether it was taken; when one was not, opens the journal again and goes on
/// a little.
pub(crate) async fn go_on_after_a_failed_sync(path: &Path, count: usize) {
    let mut journal = open_apart(path);
    let mut left = count;
    for i in 0.. {
        if left == 0 {
            break;
        }
        left -= 1;
        match begin(&journal, &format!("{i}")).await {
            Ok(_) => say(format!("ok {i}")),
            Err(error) => {
                assert_eq!(error.kind(), JournalErrorKind::Poisoned, "{error}");
                assert!(
                    error.to_string().contains("open the journal again"),
                    "{error}"
                );
                let again = begin(&journal, "again").await.unwrap_err();
                assert_eq!(again.kind(), JournalErrorKind::Poisoned, "{again}");
                say("poisoned");
                drop(journal);
                journal = open_apart(path);
                left = 3;
            }
        }
    }
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_promised_until_the_journal_is_opened_again() {
    let Some(threads) = syncing_threads("poison - 0") else {
        return;
    };
    let of = |thread| threads.iter().filter(|other| *other == thread).count();
    let opening = threads.iter().map(of).max().unwrap();
    for after in 1..6 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let which = opening + after;
        let inject = format!("inject=fsync,fdatasync:error=EIO:when={which}");
        let log = folder.path().join("log");
        let options = ["-e", SYNCS, "-e", &inject, "-o", log.to_str().unwrap()];
        let part = format!("poison - {}", which + 3);
        let mut process = Process::traced(&options, &part, &path).unwrap();
        let said = process.hear_all();
        process.finish();
        let poisoned = said.iter().position(|line| line == "poisoned");
        assert_eq!(poisoned.map(|at| said.len() - at), Some(4), "{said:?}");
        let journal = SqliteJournal::open(&path).unwrap();
        let there = intents(&journal, Select::All).await;
        for line in said.iter().filter_map(|line| line.strip_prefix("ok ")) {
            assert!(there.iter().any(|intent| intent == line), "{line} is lost");
        }
    }
}

//! What children do, and what their parents see.

use crate::{Process, begin, finish, intents, say, wait_for_release};
use samekey::entry::Owner;
use samekey::journal::{Flush, Journal, Liveness, Query, Select, SqliteJournal};
use std::collections::HashSet;
use std::path::Path;

pub(crate) async fn play(part: &str, path: &Path) {
    let mut words = part.split(' ');
    let role = words.next().unwrap();
    let name = words.next().unwrap_or_default();
    let count: usize = words.next().map_or(0, |count| count.parse().unwrap());
    match role {
        "begin" => begin_some(path, name, count).await,
        "compete" => compete(path, name, count).await,
        "hold" => hold(path, name).await,
        "finish" => super::syncs::finish_some(path, count).await,
        "unsafe" => super::syncs::begin_unsafely(path, count),
        "poison" => super::syncs::go_on_after_a_failed_sync(path, count).await,
        other => panic!("no such part: {other}"),
    }
}

async fn begin_some(path: &Path, name: &str, count: usize) {
    let journal = SqliteJournal::open(path).unwrap();
    for i in 0..count {
        let intent = format!("{name}/{i}");
        begin(&journal, &intent).await.unwrap();
        say(intent);
    }
}

/// Writes until it is released, and says when it has done its share.
async fn compete(path: &Path, name: &str, count: usize) {
    let journal = SqliteJournal::open(path).unwrap();
    let released = std::thread::spawn(wait_for_release);
    for i in 0.. {
        if i == count {
            say("done");
        }
        if i >= count && released.is_finished() {
            break;
        }
        let mut entry = begin(&journal, &format!("{name}/{i}")).await.unwrap();
        finish(&journal, &mut entry, Flush::Normal).await.unwrap();
    }
}

async fn hold(path: &Path, name: &str) {
    let journal = SqliteJournal::open(path).unwrap();
    let entry = begin(&journal, name).await.unwrap();
    say(format!("{} {}", journal.owner().0, entry.key().as_str()));
    wait_for_release();
}

#[tokio::test]
async fn of_eight_processes_on_one_journal_none_starves() {
    const SHARE: usize = 25;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("j");
    let mut processes: Vec<_> = (0..8)
        .map(|i| Process::start(&format!("compete p{i} {SHARE}"), &path))
        .collect();
    // Each goes on writing until all have done their share: whoever starves never does.
    for process in &mut processes {
        assert_eq!(process.hear().as_deref(), Some("done"));
    }
    for process in processes {
        process.finish();
    }
    let journal = SqliteJournal::open(&path).unwrap();
    let settled = intents(&journal, Select::Settled).await;
    for i in 0..8 {
        let prefix = format!("p{i}/");
        let own = settled.iter().filter(|intent| intent.starts_with(&prefix));
        assert!(own.count() >= SHARE);
    }
    assert!(intents(&journal, Select::Unfinished).await.is_empty());
    assert!(journal.check().await.unwrap().is_healthy());
}

#[tokio::test]
async fn after_a_kill_everything_that_was_acknowledged_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("j");
    let mut acknowledged = HashSet::new();
    for round in 0..12 {
        let mut process = Process::start(&format!("begin r{round} 100000"), &path);
        for _ in 0..=round * 3 {
            acknowledged.insert(process.hear().unwrap());
        }
        process.kill();
        acknowledged.extend(process.hear_all());
    }
    let journal = SqliteJournal::open(&path).unwrap();
    let there: HashSet<_> = intents(&journal, Select::Unfinished)
        .await
        .into_iter()
        .collect();
    let lost: Vec<_> = acknowledged.difference(&there).collect();
    assert!(lost.is_empty(), "{lost:?}");
    assert!(
        there.len() <= acknowledged.len() + 12,
        "at most one per kill was not heard of"
    );
    assert!(journal.check().await.unwrap().is_healthy());
}

#[tokio::test]
async fn several_that_open_a_new_journal_at_once_share_it() {
    for _ in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/j");
        let processes: Vec<_> = (0..6)
            .map(|i| Process::start(&format!("begin p{i} 2"), &path))
            .collect();
        for mut process in processes {
            assert_eq!(process.hear_all().len(), 2);
            process.finish();
        }
        let journal = SqliteJournal::open(&path).unwrap();
        assert_eq!(intents(&journal, Select::All).await.len(), 12);
    }
}

#[tokio::test]
async fn a_dead_owner_is_known_at_once_and_its_work_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("j");
    let mut process = Process::start("hold cut-short", &path);
    let said = process.hear().unwrap();
    let (owner, key) = said.split_once(' ').unwrap();
    let owner = Owner(owner.parse().unwrap());
    let journal = SqliteJournal::open(&path).unwrap();
    assert_eq!(journal.liveness(owner).await.unwrap(), Liveness::Alive);
    process.kill();
    assert_eq!(journal.liveness(owner).await.unwrap(), Liveness::Dead);
    let query = Query {
        select: Select::Unfinished,
        ..Query::default()
    };
    let left = journal.list(query).await.unwrap().entries;
    assert_eq!(left.len(), 1);
    assert_eq!(
        left[0].key().as_str(),
        key,
        "it is resumed under the same key"
    );
    assert_eq!(left[0].progress.owner, owner);
}

#[tokio::test]
async fn two_processes_that_begin_one_intent_get_one_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("j");
    let mut processes: Vec<_> = (0..4).map(|_| Process::start("hold same", &path)).collect();
    let keys: HashSet<_> = processes
        .iter_mut()
        .map(|process| {
            process
                .hear()
                .unwrap()
                .split_once(' ')
                .unwrap()
                .1
                .to_owned()
        })
        .collect();
    assert_eq!(keys.len(), 1);
    for process in processes {
        process.finish();
    }
}

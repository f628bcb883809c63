//! Disks that are full or cannot be written. They need root and a small memory file system.

use crate::{begin, finish, intents};
use samekey::entry::Entry;
use samekey::journal::conformance::sample;
use samekey::journal::{
    Begun, Flush, Journal, JournalErrorKind as Kind, Select, SqliteJournal, SqliteOptions,
};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A small disk of its own, taken away again when dropped.
struct Disk(TempDir);

impl Disk {
    fn new(size: &str) -> Option<Disk> {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={size},mode=700");
        if !mount(
            &["-t", "tmpfs", "-o", &options, "samekey-test"],
            folder.path(),
        ) {
            eprintln!("SKIPPED: cannot mount a small disk (root is needed)");
            return None;
        }
        Some(Disk(folder))
    }

    fn journal(&self) -> PathBuf {
        self.0.path().join("j")
    }

    fn make_read_only(&self) {
        assert!(mount(&["-o", "remount,ro"], self.0.path()));
    }

    /// Leaves no byte free.
    fn fill(&self) -> PathBuf {
        let path = self.0.path().join("filler");
        let mut file = File::create(&path).unwrap();
        for size in [65_536, 4_096, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn mount(options: &[&str], on: &Path) -> bool {
    let tried = Command::new("mount").args(options).arg(on).output();
    tried.is_ok_and(|done| done.status.success())
}

fn options() -> SqliteOptions {
    SqliteOptions::new().reserve(512 << 10)
}

/// Begins until the disk is full.
async fn begin_until_full(journal: &SqliteJournal) -> Vec<Entry> {
    let mut entries = Vec::new();
    loop {
        match begin(journal, &format!("{}", entries.len())).await {
            Ok(entry) => entries.push(entry),
            Err(error) => {
                assert_eq!(error.kind(), Kind::Full, "{error}");
                assert!(error.to_string().contains("Free some space"), "{error}");
                return entries;
            }
        }
    }
}

/// A journal on a full disk, with work under way.
async fn caught_by_a_full_disk(
    disk: &Disk,
    options: SqliteOptions,
) -> (SqliteJournal, PathBuf, Vec<Entry>) {
    let journal = SqliteJournal::open_with(disk.journal(), options).unwrap();
    let mut entries = Vec::new();
    for i in 0..60 {
        entries.push(begin(&journal, &format!("before/{i}")).await.unwrap());
    }
    let filler = disk.fill();
    entries.extend(begin_until_full(&journal).await);
    let tape = fs::metadata(disk.0.path().join("j-tape")).unwrap().len();
    assert!(tape > 512, "who is alone writes onto the tape");
    (journal, filler, entries)
}

#[tokio::test]
async fn a_full_disk_refuses_what_is_new_and_records_what_is_under_way() {
    let Some(disk) = Disk::new("4m") else {
        return;
    };
    let (journal, filler, mut entries) = caught_by_a_full_disk(&disk, options()).await;
    for entry in &mut entries {
        finish(&journal, entry, Flush::Full).await.unwrap();
        let error = begin(&journal, "too much").await.unwrap_err();
        assert_eq!(error.kind(), Kind::Full, "{error}");
    }
    assert!(intents(&journal, Select::Unfinished).await.is_empty());
    fs::remove_file(filler).unwrap();
    begin(&journal, "room again").await.unwrap();
    drop(journal);
    let journal = SqliteJournal::open_with(disk.journal(), options()).unwrap();
    assert_eq!(
        intents(&journal, Select::Settled).await.len(),
        entries.len()
    );
    assert_eq!(intents(&journal, Select::Unfinished).await, ["room again"]);
}

#[tokio::test]
async fn a_full_disk_still_tells_what_has_the_intent_already() {
    let Some(disk) = Disk::new("4m") else {
        return;
    };
    let (journal, _filler, mut entries) = caught_by_a_full_disk(&disk, options()).await;
    let again = || sample(journal.owner(), "ann", "before/1", 0);
    let joined = journal.begin(again()).await.unwrap();
    assert_eq!(joined, Begun::Exists(Box::new(entries[1].clone())));
    finish(&journal, &mut entries[1], Flush::Full)
        .await
        .unwrap();
    let (slot, key) = (entries[1].slot, entries[1].key().clone());
    journal.forget(slot, key).await.unwrap();
    // Forgetting emptied the log.
    disk.fill();
    let met = journal.begin(again()).await.unwrap();
    assert!(matches!(met, Begun::Tombstone(_)), "{met:?}");
    let error = begin(&journal, "really new").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Full, "{error}");
}

#[tokio::test]
async fn without_a_reserve_a_full_disk_takes_no_outcome() {
    let Some(disk) = Disk::new("4m") else {
        return;
    };
    let none = SqliteOptions::new().reserve(0);
    let (journal, _filler, mut entries) = caught_by_a_full_disk(&disk, none).await;
    let mut refused = 0;
    for entry in &mut entries {
        let recorded = finish(&journal, entry, Flush::Full).await;
        refused += usize::from(recorded.is_err());
    }
    assert!(
        refused > entries.len() / 2,
        "only {refused} of {}",
        entries.len()
    );
}

#[tokio::test]
async fn a_journal_on_a_full_disk_can_be_opened_and_settled() {
    let Some(disk) = Disk::new("4m") else {
        return;
    };
    let journal = SqliteJournal::open_with(disk.journal(), options()).unwrap();
    let mut entry = begin(&journal, "first").await.unwrap();
    drop(journal);
    disk.fill();
    let journal = SqliteJournal::open_with(disk.journal(), options()).unwrap();
    finish(&journal, &mut entry, Flush::Full).await.unwrap();
    let error = begin(&journal, "second").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Full, "{error}");
}

#[tokio::test]
async fn a_disk_that_cannot_be_written_is_named_and_can_still_be_looked_at() {
    let Some(disk) = Disk::new("16m") else {
        return;
    };
    let path = disk.journal();
    let journal = SqliteJournal::open(&path).unwrap();
    begin(&journal, "first").await.unwrap();
    drop(journal);
    disk.make_read_only();
    let error = SqliteJournal::open(&path).unwrap_err();
    assert_eq!(error.kind(), Kind::ReadOnly, "{error}");
    assert!(error.to_string().contains("writable"), "{error}");
    let error = SqliteJournal::open(disk.0.path().join("new")).unwrap_err();
    assert_eq!(error.kind(), Kind::ReadOnly, "{error}");
    let look = SqliteJournal::open_read_only(&path).unwrap();
    assert_eq!(intents(&look, Select::All).await, ["first"]);
}

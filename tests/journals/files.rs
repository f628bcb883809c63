//! What a journal refuses to open, and what it does when its files are moved under it.

use crate::{advance, begin, everything, folder, refusal};
use samekey::entry::{Owner, Phase};
use samekey::journal::{
    Flush, Journal, JournalErrorKind as Kind, LEASE, Liveness, SqliteJournal, SqliteOptions,
};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", path.display()))
}

#[tokio::test]
async fn every_file_is_private_and_the_folder_too() {
    let folder = folder();
    let path = folder.path().join("private/j");
    let journal = SqliteJournal::open(&path).unwrap();
    begin(&journal, "a").await.unwrap();
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let files: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert!(
        files.len() >= 6,
        "journal, log, index, lock, reserve, owner"
    );
    for file in files {
        let file = file.unwrap().path();
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn closing_leaves_one_file_and_its_three_helpers() {
    let folder = folder();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    for intent in ["a", "b", "c", "d", "e"] {
        begin(&journal, intent).await.unwrap();
    }
    assert_eq!(everything(&journal).await.unwrap().len(), 5);
    drop(journal);
    let mut left: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["j", "j-lock", "j-reserve", "j-tape"]);
    // Everything is in the one file; on the tape is only that it was filed.
    assert_eq!(fs::metadata(beside(&path, "-tape")).unwrap().len(), 512);
    fs::remove_file(beside(&path, "-tape")).unwrap();
    let journal = SqliteJournal::open(&path).unwrap();
    assert_eq!(everything(&journal).await.unwrap().len(), 5);
}

#[test]
fn a_file_that_others_may_read_is_refused() {
    let folder = folder();
    let path = folder.path().join("j");
    drop(SqliteJournal::open(&path).unwrap());
    for (file, wide) in [("", 0o644), ("", 0o660), ("-lock", 0o604)] {
        let file = beside(&path, file);
        set_mode(&file, wide);
        let error = refusal(&path);
        assert_eq!(error.kind(), Kind::Exposed);
        let remedy = format!("chmod 600 '{}'", file.display());
        assert!(error.to_string().contains(&remedy), "{error}");
        set_mode(&file, 0o600);
    }
    SqliteJournal::open(&path).unwrap();
}

#[test]
fn links_folders_and_deep_paths_are_refused() {
    let folder = folder();
    let path = folder.path().join("j");
    symlink(folder.path().join("elsewhere"), &path).unwrap();
    assert_eq!(refusal(&path).kind(), Kind::Exposed);
    assert!(!folder.path().join("elsewhere").exists());
    let error = refusal(folder.path());
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(error.to_string().contains("folder"), "{error}");
    let error = refusal(&folder.path().join("no/such/j"));
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(error.to_string().contains("no/such"), "{error}");
    assert!(!folder.path().join("no").exists());
}

#[test]
fn other_programs_files_are_refused_and_left_alone() {
    let folder = folder();
    let text = folder.path().join("notes.txt");
    fs::write(&text, "dear diary, ".repeat(1_000)).unwrap();
    let database = folder.path().join("other.db");
    let connection = rusqlite::Connection::open(&database).unwrap();
    connection
        .execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
        .unwrap();
    drop(connection);
    for path in [text, database] {
        set_mode(&path, 0o600);
        let before = fs::read(&path).unwrap();
        assert_eq!(refusal(&path).kind(), Kind::Foreign, "{}", path.display());
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[test]
fn e39_a_newer_journal_is_refused_and_left_alone() {
    let folder = folder();
    let path = folder.path().join("j");
    drop(SqliteJournal::open(&path).unwrap());
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let before = fs::read(&path).unwrap();
    let error = refusal(&path);
    assert_eq!(error.kind(), Kind::TooNew);
    assert!(error.to_string().contains("upgrade"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
    let error = SqliteJournal::open_read_only(&path).unwrap_err();
    assert_eq!(error.kind(), Kind::TooNew);
}

#[test]
fn an_empty_file_becomes_a_journal() {
    let folder = folder();
    let path = folder.path().join("j");
    File::create(&path).unwrap();
    set_mode(&path, 0o600);
    SqliteJournal::open(&path).unwrap();
}

#[tokio::test]
async fn a_journal_that_is_replaced_while_open_is_not_written_any_more() {
    for ending in ["", "-wal"] {
        let folder = folder();
        let path = folder.path().join("j");
        let journal = SqliteJournal::open(&path).unwrap();
        begin(&journal, "a").await.unwrap();
        let file = beside(&path, ending);
        let hidden = folder.path().join("hidden");
        fs::rename(&file, &hidden).unwrap();
        let error = begin(&journal, "b").await.unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        fs::copy(&hidden, &file).unwrap();
        let error = begin(&journal, "c").await.unwrap_err();
        assert_eq!(
            error.kind(),
            Kind::Corrupt,
            "a copy is another file: {error}"
        );
        fs::rename(&hidden, &file).unwrap();
        begin(&journal, "d").await.unwrap();
    }
}

#[tokio::test]
async fn a_journal_that_was_removed_is_not_made_anew_in_silence() {
    let folder = folder();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    begin(&journal, "a").await.unwrap();
    drop(journal);
    fs::remove_file(&path).unwrap();
    let error = refusal(&path);
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains("j-lock"), "{error}");
    assert!(!path.exists());
    fs::remove_file(beside(&path, "-lock")).unwrap();
    SqliteJournal::open(&path).unwrap();
}

#[tokio::test]
async fn whoever_holds_the_lock_too_long_is_reported_and_the_wait_is_kept() {
    let folder = folder();
    let path = folder.path().join("j");
    let options = SqliteOptions::new().patience(Duration::from_millis(30));
    let journal = SqliteJournal::open_with(&path, options).unwrap();
    let holder = File::open(beside(&path, "-lock")).unwrap();
    holder.lock().unwrap();
    for _ in 0..3 {
        let error = begin(&journal, "a").await.unwrap_err();
        assert_eq!(error.kind(), Kind::Busy, "{error}");
    }
    let error = SqliteJournal::open_with(&path, options).unwrap_err();
    assert_eq!(error.kind(), Kind::Busy, "{error}");
    holder.unlock().unwrap();
    begin(&journal, "a").await.unwrap();
    assert_eq!(everything(&journal).await.unwrap().len(), 1);
}

fn owner_file(path: &Path, owner: Owner) -> PathBuf {
    beside(path, &format!("-owner-{:032x}", owner.0))
}

#[tokio::test]
async fn an_owner_that_was_not_heard_of_for_a_lease_is_silent_and_a_lockless_one_dead() {
    let folder = folder();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    for (age, expected) in [
        (Duration::ZERO, Liveness::Alive),
        (LEASE / 2, Liveness::Alive),
        (LEASE + Duration::from_secs(1), Liveness::Silent),
    ] {
        let owner = Owner(77);
        let file = owner_file(&path, owner);
        fs::write(&file, format!("{:020} 1\n", (now - age).as_millis())).unwrap();
        let held = File::open(&file).unwrap();
        held.lock().unwrap();
        assert_eq!(journal.liveness(owner).await.unwrap(), expected);
        held.unlock().unwrap();
        assert_eq!(journal.liveness(owner).await.unwrap(), Liveness::Dead);
        assert!(!file.exists(), "what the dead left is removed");
    }
    let me = fs::read_to_string(owner_file(&path, journal.owner())).unwrap();
    assert!(me.contains(&std::process::id().to_string()), "{me}");
}

/// The files of a journal whose maker was killed: its tables stand in the log, as far as `frames`.
fn half_made(path: &Path, frames: usize) {
    let maker = rusqlite::Connection::open(path).unwrap();
    maker.pragma_update(None, "journal_mode", "WAL").unwrap();
    maker
        .execute_batch("CREATE TABLE half (made INTEGER PRIMARY KEY) STRICT")
        .unwrap();
    let (journal, log) = (
        fs::read(path).unwrap(),
        fs::read(beside(path, "-wal")).unwrap(),
    );
    assert_eq!(
        log.len(),
        32 + 2 * 4_120,
        "a page each for schema and table"
    );
    drop(maker);
    let _ = fs::remove_file(beside(path, "-shm"));
    fs::write(path, journal).unwrap();
    fs::write(beside(path, "-wal"), &log[..32 + frames * 4_120]).unwrap();
    for ending in ["", "-wal"] {
        set_mode(&beside(path, ending), 0o600);
    }
}

#[tokio::test]
async fn a_journal_whose_maker_was_killed_is_made_by_the_next() {
    for frames in [0, 1] {
        let folder = folder();
        let path = folder.path().join("j");
        half_made(&path, frames);
        let journal = SqliteJournal::open(&path).unwrap();
        begin(&journal, "first").await.unwrap();
    }
}

#[tokio::test]
async fn a_log_with_commits_whose_journal_is_gone_is_not_taken_for_a_half_made_one() {
    let folder = folder();
    let path = folder.path().join("j");
    half_made(&path, 2);
    fs::remove_file(&path).unwrap();
    assert_eq!(refusal(&path).kind(), Kind::Corrupt);
}

#[tokio::test]
async fn what_is_forgotten_is_gone_from_every_byte() {
    let folder = folder();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    let mut entry = begin(&journal, "canary-intent").await.unwrap();
    advance(&journal, &mut entry, Phase::Succeeded, Flush::Full).await;
    journal
        .forget(entry.slot, entry.key().clone())
        .await
        .unwrap();
    let secret = b"{\"intent\":\"canary-intent\"";
    for ending in ["", "-wal"] {
        let bytes = fs::read(beside(&path, ending)).unwrap_or_default();
        let found = bytes.windows(secret.len()).any(|window| window == secret);
        assert!(!found, "the body is still in j{ending}");
    }
}

#[tokio::test]
async fn looking_changes_nothing_and_writing_is_refused() {
    let folder = folder();
    let path = folder.path().join("j");
    assert!(SqliteJournal::open_read_only(&path).is_err());
    assert!(!path.exists());
    let journal = SqliteJournal::open(&path).unwrap();
    begin(&journal, "a").await.unwrap();
    let look = SqliteJournal::open_read_only(&path).unwrap();
    assert_eq!(everything(&look).await.unwrap().len(), 1);
    let error = begin(&look, "b").await.unwrap_err();
    assert_eq!(error.kind(), Kind::ReadOnly);
    let report = look.check().await.unwrap();
    assert!(report.is_healthy(), "{report}");
    assert!(report.to_string().contains("1 entries"), "{report}");
    drop(journal);
    assert_eq!(everything(&look).await.unwrap().len(), 1);
}

//! What is done to a journal behind its back is noticed, or does no harm.

use super::files::{beside, set_mode};
use crate::{advance, begin, everything, folder, refusal, take_a_turn};
use samekey::entry::{DecodeError, Entry, Phase};
use samekey::journal::conformance::{sample, step};
use samekey::journal::{
    Begun, Flush, Journal, JournalErrorKind as Kind, Query, Select, SqliteJournal, SqliteOptions,
};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A page of a new journal, and what it takes in the log, with its head.
const PAGE: usize = 16 * 1024;
const FRAME: usize = 24 + PAGE;

/// The files of a journal as a crash would leave them, and what they hold.
pub(super) struct Scene {
    pub(super) files: Vec<(&'static str, Vec<u8>)>,
    pub(super) entries: Vec<Entry>,
}

impl Scene {
    /// A journal that is still open, with everything of the last round in its log.
    pub(super) async fn crashed() -> Scene {
        let folder = folder();
        let path = folder.path().join("j");
        let journal = SqliteJournal::open(&path).unwrap();
        let rival = SqliteJournal::open(&path).unwrap();
        let entries = populate(&journal, Some(&rival)).await;
        let files = take(&path, &["", "-wal", "-lock"]);
        Scene { files, entries }
    }

    /// A journal that is still open, with everything but its first steps on its tape.
    pub(super) async fn taped() -> Scene {
        let folder = folder();
        let path = folder.path().join("j");
        let journal = SqliteJournal::open(&path).unwrap();
        let entries = populate(&journal, None).await;
        let files = take(&path, &["", "-wal", "-lock", "-tape"]);
        Scene { files, entries }
    }

    /// A journal that was closed in good order.
    async fn closed() -> Scene {
        let folder = folder();
        let path = folder.path().join("j");
        let journal = SqliteJournal::open(&path).unwrap();
        let entries = populate(&journal, None).await;
        drop(journal);
        let files = take(&path, &["", "-lock"]);
        Scene { files, entries }
    }

    pub(super) fn file(&self, ending: &str) -> &[u8] {
        let found = self.files.iter().find(|(name, _)| *name == ending);
        &found.unwrap().1
    }

    /// Lays the files out again, after `alter` has changed them.
    pub(super) fn lay(&self, alter: impl Fn(&str, &mut Vec<u8>)) -> (TempDir, PathBuf) {
        let folder = folder();
        let path = folder.path().join("j");
        for (ending, bytes) in &self.files {
            let mut bytes = bytes.clone();
            alter(ending, &mut bytes);
            let file = beside(&path, ending);
            fs::write(&file, bytes).unwrap();
            set_mode(&file, 0o600);
        }
        (folder, path)
    }
}

pub(super) fn take(path: &Path, endings: &[&'static str]) -> Vec<(&'static str, Vec<u8>)> {
    let read = |ending| (ending, fs::read(beside(path, ending)).unwrap());
    endings.iter().copied().map(read).collect()
}

/// Writes all kinds of entries; with a rival each step is a commit of its own in the log, else on the tape.
pub(super) async fn populate(journal: &SqliteJournal, rival: Option<&SqliteJournal>) -> Vec<Entry> {
    let mut entries = Vec::new();
    for i in 0..30 {
        turn_of(rival).await;
        let mut entry = begin(journal, &format!("intent/{i}")).await.unwrap();
        turn_of(rival).await;
        match i % 4 {
            0 => advance(journal, &mut entry, Phase::Rejected, Flush::Full).await,
            1 => advance(journal, &mut entry, Phase::Waiting, Flush::Full).await,
            _ => {}
        }
        entries.push(entry);
    }
    entries
}

async fn turn_of(rival: Option<&SqliteJournal>) {
    if let Some(rival) = rival {
        take_a_turn(rival).await;
    }
}

/// Everything that can be asked of a journal, or the first sign of damage.
pub(super) async fn read_all(path: &Path) -> Result<Vec<Entry>, String> {
    // Laying a reserve by for each of some hundred journals would only take time.
    let options = SqliteOptions::new().reserve(0);
    let journal = SqliteJournal::open_with(path, options).map_err(|error| error.to_string())?;
    let entries = everything(&journal)
        .await
        .map_err(|error| error.to_string())?;
    let query = Query {
        select: Select::Unfinished,
        ..Query::default()
    };
    let listed = journal
        .list(query)
        .await
        .map_err(|error| error.to_string())?;
    let open = entries
        .iter()
        .filter(|e| e.progress.phase.is_open())
        .count();
    assert_eq!(
        listed.entries.len() + listed.damaged.len(),
        open,
        "an orphan in silence"
    );
    Ok(entries)
}

/// Positions spread over a file, and bits spread over a byte.
pub(super) fn spread(length: usize, count: usize) -> impl Iterator<Item = (usize, u8)> {
    (0..count).map(move |i| (i * length / count + i * 37 % (length / count), 1 << (i % 8)))
}

#[tokio::test]
async fn a_sound_journal_is_read_back_whole() {
    for scene in [
        Scene::crashed().await,
        Scene::taped().await,
        Scene::closed().await,
    ] {
        let (_folder, path) = scene.lay(|_, _| {});
        assert!(read_all(&path).await.unwrap() == scene.entries);
    }
}

#[tokio::test]
async fn f3_a_flipped_bit_in_the_log_is_noticed_or_harmless() {
    let scene = Scene::crashed().await;
    let (mut noticed, mut harmless) = (0, 0);
    for (at, bit) in spread(scene.file("-wal").len(), 200) {
        let (_folder, path) = scene.lay(|ending, bytes| {
            if ending == "-wal" {
                bytes[at] ^= bit;
            }
        });
        let before = take(&path, &["", "-wal"]);
        match read_all(&path).await {
            Err(_) => noticed += 1,
            Ok(entries) => {
                assert!(entries == scene.entries, "bit {bit} at {at} was missed");
                harmless += 1;
                continue;
            }
        }
        assert_eq!(
            take(&path, &["", "-wal"]),
            before,
            "a refused journal was touched"
        );
    }
    assert!(noticed > 150, "{noticed} noticed, {harmless} harmless");
}

#[tokio::test]
async fn f3_without_the_audit_a_flipped_bit_in_the_log_loses_commits_in_silence() {
    let scene = Scene::crashed().await;
    let middle = scene.file("-wal").len() / 2;
    let (_folder, path) = scene.lay(|ending, bytes| {
        if ending == "-wal" {
            bytes[middle] ^= 1;
        }
    });
    let plain = rusqlite::Connection::open(&path).unwrap();
    let count = |sql| {
        plain
            .query_row(sql, [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    assert!(count("SELECT count(*) FROM entries") < scene.entries.len() as i64);
    let verdict: String = plain
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(verdict, "ok");
}

#[tokio::test]
async fn a_torn_tail_is_no_damage() {
    let folder = folder();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    let rival = SqliteJournal::open(&path).unwrap();
    let entries = populate(&journal, Some(&rival)).await;
    let noted = take(&path, &["-lock"]);
    let whole = fs::metadata(beside(&path, "-wal")).unwrap().len() as usize;
    take_a_turn(&rival).await;
    begin(&journal, "never acknowledged").await.unwrap();
    let mut files = take(&path, &["", "-wal"]);
    files.extend(noted);
    let scene = Scene { files, entries };
    let tail = scene.file("-wal").len();
    assert!(tail > whole + FRAME, "the last commit has several pages");
    // The power went before its sync: any of its pages may be missing or half written.
    for (from, to) in [
        (whole, tail),
        (whole, whole + FRAME),
        (whole + 2_000, whole + 2_512),
        (tail - PAGE, tail),
    ] {
        let (_folder, path) = scene.lay(|ending, bytes| {
            if ending == "-wal" {
                bytes[from..to].fill(0x5a);
            }
        });
        assert!(read_all(&path).await.unwrap() == scene.entries);
    }
}

#[tokio::test]
async fn a_log_that_was_removed_or_cut_is_noticed() {
    let scene = Scene::crashed().await;
    for keep in [0, 32, 32 + FRAME, scene.file("-wal").len() / 2] {
        let (_folder, path) = scene.lay(|ending, bytes| {
            if ending == "-wal" {
                bytes.truncate(keep);
            }
        });
        if keep == 0 {
            fs::remove_file(beside(&path, "-wal")).unwrap();
        }
        let error = refusal(&path);
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        assert!(error.to_string().contains("lost"), "{error}");
    }
}

#[tokio::test]
async fn without_the_note_a_removed_log_would_pass() {
    let scene = Scene::crashed().await;
    let (_folder, path) = scene.lay(|_, _| {});
    fs::remove_file(beside(&path, "-wal")).unwrap();
    fs::remove_file(beside(&path, "-lock")).unwrap();
    assert_ne!(read_all(&path).await.unwrap(), scene.entries);
}

#[tokio::test]
async fn an_old_copy_put_back_is_noticed_and_a_person_may_accept_it() {
    let folder = folder();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    begin(&journal, "a").await.unwrap();
    drop(journal);
    let old = fs::read(&path).unwrap();
    let journal = SqliteJournal::open(&path).unwrap();
    begin(&journal, "b").await.unwrap();
    drop(journal);
    fs::write(&path, old).unwrap();
    assert_eq!(refusal(&path).kind(), Kind::Corrupt);
    let options = SqliteOptions::new().accept_loss(true);
    let journal = SqliteJournal::open_with(&path, options).unwrap();
    assert_eq!(everything(&journal).await.unwrap().len(), 1);
    drop(journal);
    SqliteJournal::open(&path).unwrap();
}

#[tokio::test]
async fn a_lost_outcome_that_had_to_survive_is_noticed_too() {
    let folder = folder();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    let mut entry = begin(&journal, "a").await.unwrap();
    drop(journal);
    let old = fs::read(&path).unwrap();
    let journal = SqliteJournal::open(&path).unwrap();
    advance(&journal, &mut entry, Phase::Rejected, Flush::Full).await;
    drop(journal);
    fs::write(&path, old).unwrap();
    assert_eq!(refusal(&path).kind(), Kind::Corrupt);
}

#[tokio::test]
async fn an_outcome_that_a_power_cut_may_undo_is_not_missed() {
    let folder = folder();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    let mut entry = begin(&journal, "a").await.unwrap();
    let files = take(&path, &["", "-wal", "-lock"]);
    advance(&journal, &mut entry, Phase::Succeeded, Flush::Normal).await;
    drop(journal);
    let cut = Scene {
        files,
        entries: Vec::new(),
    };
    let (_folder, path) = cut.lay(|_, _| {});
    let entries = read_all(&path).await.unwrap();
    assert_eq!(entries[0].progress.phase, Phase::Ready);
}

/// A journal whose last `lax` commits a power cut may undo, and how long its log was before them.
async fn with_lax_outcomes(lax: usize) -> (Scene, usize) {
    let folder = folder();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    let rival = SqliteJournal::open(&path).unwrap();
    let mut entries = populate(&journal, Some(&rival)).await;
    let synced = fs::metadata(beside(&path, "-wal")).unwrap().len() as usize;
    for entry in entries
        .iter_mut()
        .filter(|e| e.progress.phase.is_open())
        .take(lax)
    {
        take_a_turn(&rival).await;
        advance(&journal, entry, Phase::Succeeded, Flush::Normal).await;
    }
    let files = take(&path, &["", "-wal", "-lock"]);
    (Scene { files, entries }, synced)
}

#[tokio::test]
async fn a_power_cut_that_kept_later_pages_but_not_earlier_ones_is_no_damage() {
    let (scene, synced) = with_lax_outcomes(6).await;
    for hole in 0..4 {
        let (_folder, path) = scene.lay(|ending, bytes| {
            if ending == "-wal" {
                bytes[synced + hole * FRAME..][..FRAME].fill(0);
            }
        });
        let entries = read_all(&path).await.unwrap();
        assert_eq!(entries.len(), scene.entries.len());
        let undone = entries.iter().zip(&scene.entries);
        assert!(undone.filter(|(now, told)| now != told).count() >= 4);
    }
}

#[tokio::test]
async fn the_same_hole_before_a_commit_that_was_synced_is_damage() {
    let (scene, synced) = with_lax_outcomes(6).await;
    let (_folder, path) = scene.lay(|ending, bytes| {
        if ending == "-wal" {
            bytes[synced - 3 * FRAME..][..FRAME].fill(0);
        }
    });
    // Even without the note: what was written after it shows that it was on the disk.
    fs::remove_file(beside(&path, "-lock")).unwrap();
    let error = refusal(&path);
    assert!(error.to_string().contains("damaged log"), "{error}");
}

#[tokio::test]
async fn what_killed_writers_left_behind_the_end_of_the_log_is_no_damage() {
    // Two were killed before their commits were acknowledged, and others wrote over their first
    // pages: behind the end stand the last pages of one and then of the other.
    let (before, _) = with_lax_outcomes(0).await;
    let end = before.file("-wal").len();
    let leftover = |skip: usize, log: &[u8]| log[end + skip * FRAME..].to_vec();
    let after = |extra: usize| {
        let before = &before;
        async move {
            let (_folder, path) = before.lay(|_, _| {});
            // Opened by SQLite alone, so that the log goes on where it stood.
            let plain = rusqlite::Connection::open(&path).unwrap();
            plain.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
            let sql = "INSERT INTO entries SELECT slot + ?1, randomblob(16), 0, state, revision,
                reference, begun, ended, scope, zeroblob(?2) FROM entries WHERE slot = 30";
            plain
                .execute(sql, [extra as i64, 9_000 * extra as i64])
                .unwrap();
            fs::read(beside(&path, "-wal")).unwrap()
        }
    };
    let (short, long) = (after(1).await, after(2).await);
    assert!(end < short.len() && short.len() < long.len());
    let mut log = before.file("-wal").to_vec();
    log.extend(leftover(1, &short));
    log.extend_from_slice(&long[log.len()..]);
    let (_folder, path) = before.lay(|ending, bytes| {
        if ending == "-wal" {
            bytes.clone_from(&log);
        }
    });
    assert!(read_all(&path).await.unwrap() == before.entries);
}

#[tokio::test]
async fn f4_a_flipped_bit_in_the_journal_is_noticed_or_harmless() {
    let scene = Scene::closed().await;
    let mut noticed = 0;
    // Most of a small journal's pages is empty.
    for (at, bit) in spread(scene.file("").len(), 600) {
        let (_folder, path) = scene.lay(|ending, bytes| {
            if ending.is_empty() {
                bytes[at] ^= bit;
            }
        });
        match read_all(&path).await {
            Err(_) => noticed += 1,
            Ok(entries) => assert!(entries == scene.entries, "bit {bit} at {at} was missed"),
        }
    }
    assert!(noticed > 50, "only {noticed} noticed");
}

#[tokio::test]
async fn f4_every_flipped_bit_of_an_entry_is_noticed() {
    let scene = Scene::closed().await;
    let needle = b"intent/17";
    let file = scene.file("");
    let places: Vec<_> = file
        .windows(needle.len())
        .enumerate()
        .filter(|(_, window)| window == needle)
        .map(|(at, _)| at)
        .collect();
    assert_eq!(places.len(), 2, "the name and the body");
    for at in places {
        for bit in 0..8 {
            let (_folder, path) = scene.lay(|ending, bytes| {
                if ending.is_empty() {
                    bytes[at + 7] ^= 1 << bit;
                }
            });
            let journal = SqliteJournal::open(&path).unwrap();
            let listing = journal.list(Query::default()).await.unwrap();
            assert_eq!((listing.entries.len(), listing.damaged.len()), (29, 1));
            let report = journal.check().await.unwrap();
            assert!(!report.is_healthy(), "{report}");
        }
    }
}

#[tokio::test]
async fn a_changed_column_is_damage() {
    for change in [
        "state = 3",
        "state = 7",
        "revision = revision + 1",
        "reference = 5",
        "scope = 'conformance/eve'",
        "name = zeroblob(16)",
        "begun = 0",
        "ended = 9",
    ] {
        let folder = folder();
        let path = folder.path().join("j");
        let journal = SqliteJournal::open(&path).unwrap();
        begin(&journal, "a").await.unwrap();
        begin(&journal, "b").await.unwrap();
        drop(journal);
        let plain = rusqlite::Connection::open(&path).unwrap();
        let sql = format!("UPDATE entries SET {change} WHERE slot = 1");
        assert_eq!(plain.execute(&sql, []), Ok(1));
        drop(plain);
        let journal = SqliteJournal::open(&path).unwrap();
        let listing = journal.list(Query::default()).await.unwrap();
        let found = (listing.entries.len(), listing.damaged.len());
        assert_eq!(found, (1, 1), "{change}");
    }
}

/// Three of 20,000 flipped bits hid an entry so: no index knows of what is settled, and SQLite finds
/// nothing wrong with the number.
#[tokio::test]
async fn a_settled_entry_in_a_state_that_nobody_writes_is_shown_as_damage() {
    let folder = folder();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    let mut entry = sample(journal.owner(), "ann", "a", 0);
    let Ok(Begun::Created(receipt)) = journal.begin(entry.clone()).await else {
        panic!("a begin failed");
    };
    entry.slot = receipt.slot();
    journal
        .record(step(&entry, Phase::Succeeded))
        .await
        .unwrap();
    drop(journal);
    for bit in 2..7 {
        let plain = rusqlite::Connection::open(&path).unwrap();
        let sql = format!("UPDATE entries SET state = 3 + {}", 1 << bit);
        assert_eq!(plain.execute(&sql, []), Ok(1));
        drop(plain);
        let journal = SqliteJournal::open(&path).unwrap();
        for select in [Select::All, Select::Settled] {
            let query = Query {
                select,
                ..Query::default()
            };
            let listing = journal.list(query).await.unwrap();
            assert_eq!(listing.damaged.len(), 1, "{select:?}, bit {bit}");
        }
        let found = journal.find(entry.key().reference(), None).await.unwrap();
        assert_eq!(found.damaged.len(), 1, "bit {bit}");
    }
}

/// Two of 20,000 flipped bits hid an entry so: the sign of a moment.
#[tokio::test]
async fn an_entry_that_was_begun_before_1970_is_shown_as_damage() {
    let folder = folder();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    let begun = journal.begin(sample(journal.owner(), "ann", "a", 0)).await;
    assert!(matches!(begun, Ok(Begun::Created(_))));
    drop(journal);
    let plain = rusqlite::Connection::open(&path).unwrap();
    let changed = plain.execute("UPDATE entries SET begun = begun - (1 << 47)", []);
    assert_eq!(changed, Ok(1));
    drop(plain);
    let journal = SqliteJournal::open(&path).unwrap();
    for since in [None, Some(samekey::Timestamp::from_millis(1))] {
        let query = Query {
            since,
            ..Query::default()
        };
        let listing = journal.list(query).await.unwrap();
        assert_eq!(listing.damaged.len(), 1, "since {since:?}");
    }
}

/// A progress as a later release might write it.
fn of_format_9(entry: &Entry) -> Vec<u8> {
    let mut bytes = vec![9, 1, 2, 3];
    let key = entry.key().as_str();
    let digest = Sha256::new()
        .chain_update((key.len() as u64).to_le_bytes())
        .chain_update(key)
        .chain_update(&bytes)
        .finalize();
    bytes.extend_from_slice(&digest[..16]);
    bytes
}

#[tokio::test]
async fn beginning_what_is_there_but_cannot_be_read_names_it() {
    let folder = folder();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    let rival = SqliteJournal::open(&path).unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    let altered = "UPDATE entries SET progress = zeroblob(9) WHERE slot = ?1";
    let newer = "UPDATE entries SET progress = ?2 WHERE slot = ?1";
    for intent in ["altered", "newer"] {
        let entry = begin(&journal, intent).await.unwrap();
        let slot = entry.slot.cast_signed();
        take_a_turn(&rival).await;
        let done = match intent {
            "newer" => connection.execute(newer, (slot, of_format_9(&entry))),
            _ => connection.execute(altered, [slot]),
        };
        assert_eq!(done, Ok(1));
        let again = sample(journal.owner(), "ann", intent, 0);
        let Begun::Damaged(damaged) = journal.begin(again).await.unwrap() else {
            panic!("{intent} was begun twice, or joined");
        };
        assert_eq!(damaged.slot, entry.slot);
        assert_eq!(damaged.key.as_ref(), Some(entry.key()), "{intent}");
        let too_new = damaged.error == DecodeError::TooNew(9);
        assert_eq!(too_new, intent == "newer", "{damaged:?}");
    }
}

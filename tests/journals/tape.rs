//! What is only on the tape is as safe as what is in the tables, and as visible.

use super::damage::{Scene, populate, read_all, spread, take};
use super::files::beside;
use crate::{advance, begin, everything, folder, refusal, take_a_turn};
use samekey::entry::{Entry, Phase};
use samekey::journal::conformance::{sample, step};
use samekey::journal::{
    Begun, Flush, Journal, JournalErrorKind as Kind, Query, Select, SqliteJournal, SqliteOptions,
};
use std::fs;
use std::path::Path;

const ALL: [&str; 4] = ["", "-wal", "-lock", "-tape"];

/// How many entries are in the tables.
fn filed(path: &Path) -> usize {
    let plain = rusqlite::Connection::open(path).unwrap();
    let count = plain.query_row("SELECT count(*) FROM entries", [], |row| {
        row.get::<_, i64>(0)
    });
    usize::try_from(count.unwrap()).unwrap()
}

#[tokio::test]
async fn f3_a_flipped_bit_on_the_tape_is_noticed_or_harmless() {
    let scene = Scene::taped().await;
    let tape = scene.file("-tape");
    // Perhaps half of it is a hole: flips go where something stands.
    let used: Vec<usize> = (0..tape.len())
        .step_by(512)
        .filter(|at| tape[*at..][..512].iter().any(|byte| *byte != 0))
        .flat_map(|at| at..at + 512)
        .collect();
    let places = spread(used.len(), 400).map(|(at, bit)| (used[at], bit));
    let (mut noticed, mut harmless) = (0, 0);
    for (at, bit) in places {
        let (_folder, path) = scene.lay(|ending, bytes| {
            if ending == "-tape" {
                bytes[at] ^= bit;
            }
        });
        let before = take(&path, &ALL);
        match read_all(&path).await {
            Err(_) => noticed += 1,
            Ok(entries) => {
                assert!(entries == scene.entries, "bit {bit} at {at} was missed");
                harmless += 1;
                continue;
            }
        }
        assert_eq!(take(&path, &ALL), before, "a refused journal was touched");
    }
    assert!(noticed > 300, "{noticed} noticed, {harmless} harmless");
}

/// The twin: without the note in -lock a tape that was cut would pass.
#[tokio::test]
async fn a_tape_that_was_removed_cut_or_put_back_old_is_noticed_by_the_note() {
    let scene = Scene::taped().await;
    let length = scene.file("-tape").len();
    for keep in [0, 512, 100, length / 2, length - 512 * 7, length - 1] {
        for noted in [true, false] {
            let (_folder, path) = scene.lay(|ending, bytes| {
                if ending == "-tape" {
                    bytes.truncate(keep);
                }
            });
            if keep == 0 {
                fs::remove_file(beside(&path, "-tape")).unwrap();
            }
            if !noted {
                fs::remove_file(beside(&path, "-lock")).unwrap();
                // Nothing but what it says itself: a head that is cut off is seen.
                if keep != 100 {
                    assert_ne!(read_all(&path).await.unwrap(), scene.entries, "{keep}");
                }
                continue;
            }
            let error = refusal(&path);
            assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        }
    }
}

#[tokio::test]
async fn an_old_tape_that_is_put_back_is_noticed_or_changes_nothing() {
    let folder = folder();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    let mut entries = populate(&journal, None).await;
    let old = fs::read(beside(&path, "-tape")).unwrap();
    let mut more = begin(&journal, "later").await.unwrap();
    advance(&journal, &mut more, Phase::Succeeded, Flush::Full).await;
    entries.push(more);
    // Only on the tape: an old one lacks it.
    let files = take(&path, &ALL);
    let scene = Scene { files, entries };
    let put_back = |ending: &str, bytes: &mut Vec<u8>| {
        if ending == "-tape" {
            bytes.clone_from(&old);
        }
    };
    let (_folder, laid) = scene.lay(put_back);
    assert_eq!(refusal(&laid).kind(), Kind::Corrupt);
    // In the tables: filed again, it changes nothing.
    let rival = SqliteJournal::open(&path).unwrap();
    take_a_turn(&rival).await;
    let scene = Scene {
        files: take(&path, &ALL),
        ..scene
    };
    let (_folder, laid) = scene.lay(put_back);
    assert!(read_all(&laid).await.unwrap() == scene.entries);
}

#[tokio::test]
async fn a_log_that_was_removed_while_the_tape_has_what_came_after_it_is_noticed() {
    let folder = folder();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    let rival = SqliteJournal::open(&path).unwrap();
    let entries = populate(&journal, Some(&rival)).await;
    for i in 0..6 {
        begin(&journal, &format!("on the tape/{i}")).await.unwrap();
    }
    let files = take(&path, &ALL);
    let scene = Scene { files, entries };
    let (_folder, laid) = scene.lay(|_, _| {});
    assert_eq!(read_all(&laid).await.unwrap().len(), 36);
    for noted in [true, false] {
        let (_folder, laid) = scene.lay(|_, _| {});
        fs::remove_file(beside(&laid, "-wal")).unwrap();
        if !noted {
            // The tape itself says how far the tables had got.
            fs::remove_file(beside(&laid, "-lock")).unwrap();
        }
        let error = refusal(&laid);
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    }
}

#[tokio::test]
async fn the_tape_of_another_journal_is_noticed() {
    let (ours, theirs) = (Scene::crashed().await, Scene::taped().await);
    let (_folder, path) = ours.lay(|_, _| {});
    fs::write(beside(&path, "-tape"), theirs.file("-tape")).unwrap();
    super::files::set_mode(&beside(&path, "-tape"), 0o600);
    let error = refusal(&path);
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    // Taken away again, nothing has happened.
    fs::remove_file(beside(&path, "-tape")).unwrap();
    assert!(read_all(&path).await.unwrap() == ours.entries);
}

#[tokio::test]
async fn a_torn_tail_of_the_tape_is_no_damage() {
    let folder = folder();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    let entries = populate(&journal, None).await;
    let noted = take(&path, &["-lock"]);
    let whole = fs::metadata(beside(&path, "-tape")).unwrap().len() as usize;
    let long = format!("never acknowledged {}", "x".repeat(200));
    begin(&journal, &long).await.unwrap();
    let mut files = take(&path, &["", "-wal", "-tape"]);
    files.extend(noted);
    let scene = Scene { files, entries };
    let tail = scene.file("-tape").len();
    assert!(tail >= whole + 1024, "the last piece has several blocks");
    for (from, to) in [
        (whole, tail),
        (whole, whole + 512),
        (whole + 100, whole + 101),
        (tail - 512, tail),
    ] {
        let (_folder, path) = scene.lay(|ending, bytes| {
            if ending == "-tape" {
                bytes[from..to].fill(0x5a);
            }
        });
        assert!(read_all(&path).await.unwrap() == scene.entries);
    }
    // The twin: the same hole in the piece before is damage, as something was written after its sync.
    let (_folder, path) = scene.lay(|ending, bytes| {
        if ending == "-tape" {
            bytes[whole - 512..whole].fill(0x5a);
        }
    });
    fs::remove_file(beside(&path, "-lock")).unwrap();
    let error = refusal(&path);
    assert!(error.to_string().contains("damaged tape"), "{error}");
}

#[tokio::test]
async fn with_loss_accepted_what_can_be_read_is_kept_and_the_rest_lies_beside_it() {
    let scene = Scene::taped().await;
    let tape = scene.file("-tape");
    // The first piece of the only round, in its middle, and the head.
    let first = (512..tape.len())
        .step_by(512)
        .find(|at| tape[*at] != 0)
        .unwrap();
    let middle = first + (tape.len() - first) / 1024 * 512;
    for place in [first, middle, 8] {
        let damage = |ending: &str, bytes: &mut Vec<u8>| {
            if ending == "-tape" {
                bytes[place] ^= 1;
            }
        };
        let (_folder, path) = scene.lay(damage);
        assert_eq!(refusal(&path).kind(), Kind::Corrupt);
        let options = SqliteOptions::new().accept_loss(true);
        let journal = SqliteJournal::open_with(&path, options).unwrap();
        let kept = everything(&journal).await.unwrap();
        let lost = scene.entries.iter().filter(|entry| !kept.contains(entry));
        assert!(lost.count() <= 1, "only what stood in the damaged piece");
        let mut damaged = tape.to_vec();
        damage("-tape", &mut damaged);
        assert!(fs::read(beside(&path, "-lost-tape")).unwrap() == damaged);
        begin(&journal, "goes on").await.unwrap();
        drop(journal);
        let journal = SqliteJournal::open(&path).unwrap();
        assert_eq!(everything(&journal).await.unwrap().len(), kept.len() + 1);
    }
}

#[tokio::test]
async fn who_only_reads_sees_what_is_only_on_the_tape() {
    let folder = folder();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    let entries = populate(&journal, None).await;
    assert!(filed(&path) < 5, "it is on the tape");
    let look = SqliteJournal::open_read_only(&path).unwrap();
    for journal in [&look, &journal] {
        for select in [
            Select::All,
            Select::Unfinished,
            Select::Settled,
            Select::Attention,
        ] {
            for (after, limit) in [(0, 0), (7, 0), (0, 5), (11, 3), (29, 9), (99, 1)] {
                let query = Query {
                    select,
                    after,
                    limit,
                    ..Query::default()
                };
                let listing = journal.list(query).await.unwrap();
                let most = if limit == 0 {
                    usize::MAX
                } else {
                    limit as usize
                };
                let wanted: Vec<_> = entries
                    .iter()
                    .filter(|e| select.matches(e.progress.phase) && e.slot > after)
                    .take(most)
                    .cloned()
                    .collect();
                assert_eq!(listing.entries, wanted, "{select:?} {after} {limit}");
            }
        }
        for entry in &entries {
            let found = journal.find(entry.reference(), None).await.unwrap();
            assert_eq!(found.entries, std::slice::from_ref(entry));
            let loaded = journal.load(entry.slot, entry.key().clone()).await;
            assert_eq!(loaded.unwrap().as_ref(), Some(entry));
        }
        assert!(journal.check().await.unwrap().is_healthy());
    }
    assert!(filed(&path) < 5, "looking files nothing");
}

/// An intent that is taken, wherever its entry lies, is joined as it is now.
async fn is_joined(journal: &SqliteJournal, entry: &Entry) {
    let again = sample(journal.owner(), "ann", &entry.frozen.intent, 0);
    let begun = journal.begin(again).await.unwrap();
    assert_eq!(begun, Begun::Exists(Box::new(entry.clone())));
}

#[tokio::test]
async fn an_intent_is_taken_on_the_tape_while_it_is_filed_and_in_the_tables() {
    let folder = folder();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    let mut entries = Vec::new();
    // Several rounds, which are filed behind our back; each entry goes on later, in another round.
    for i in 0..2_600_usize {
        let entry = begin(&journal, &format!("{i}")).await.unwrap();
        entries.push(entry);
        if i % 3 == 0 && i > 40 {
            let earlier = &mut entries[i - 40];
            advance(&journal, earlier, Phase::Sending, Flush::Normal).await;
        }
        if i % 13 == 0 {
            is_joined(&journal, &entries[i / 2]).await;
            is_joined(&journal, &entries[i]).await;
        }
    }
    for entry in &entries {
        is_joined(&journal, entry).await;
    }
    assert!(everything(&journal).await.unwrap() == entries);
    let files = take(&path, &ALL);
    let (_folder, laid) = Scene {
        files,
        entries: Vec::new(),
    }
    .lay(|_, _| {});
    assert!(read_all(&laid).await.unwrap() == entries);
}

#[tokio::test]
async fn two_who_take_turns_never_have_two_entries_for_one_intent_and_stale_writes_bounce() {
    let folder = folder();
    let path = folder.path().join("j");
    let handles = [0, 1].map(|_| SqliteJournal::open(&path).unwrap());
    let mut entries: Vec<Entry> = Vec::new();
    for round in 0..60_usize {
        let (mine, theirs) = (&handles[round % 2], &handles[(round + 1) % 2]);
        // Long enough alone to be on the tape, now and then.
        for i in 0..1 + round % 7 {
            entries.push(begin(mine, &format!("{round}/{i}")).await.unwrap());
        }
        let at = round * entries.len() / 61;
        let old = entries[at].clone();
        advance(mine, &mut entries[at], Phase::Sending, Flush::Normal).await;
        let stale = theirs.record(step(&old, Phase::Succeeded)).await;
        assert_eq!(stale.unwrap_err().kind(), Kind::Stale);
        is_joined(theirs, &entries[at]).await;
        is_joined(theirs, entries.last().unwrap()).await;
        let stale = mine.record(step(&old, Phase::Rejected)).await;
        assert_eq!(stale.unwrap_err().kind(), Kind::Stale);
        assert!(everything(mine).await.unwrap() == entries);
        assert!(everything(theirs).await.unwrap() == entries);
    }
}

/// Found by reading: each had a lock of its own, and both were alone.
#[tokio::test]
async fn after_its_lock_was_replaced_nobody_writes_any_more() {
    let folder = folder();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    for i in 0..5 {
        begin(&journal, &format!("{i}")).await.unwrap();
    }
    fs::remove_file(beside(&path, "-lock")).unwrap();
    let rival = SqliteJournal::open(&path).unwrap();
    for i in 0..5 {
        begin(&rival, &format!("rival/{i}")).await.unwrap();
    }
    let again = sample(journal.owner(), "ann", "rival/4", 0);
    let error = journal.begin(again).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    drop(journal);
    assert_eq!(everything(&rival).await.unwrap().len(), 10);
    drop(rival);
    assert_eq!(read_all(&path).await.unwrap().len(), 10);
}

#[tokio::test]
async fn what_is_forgotten_is_in_no_file_any_more() {
    const CANARY: &[u8] = b"intent to be forgotten, canary";
    let folder = folder();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    let holds = |file: &Path| {
        let bytes = fs::read(file).unwrap();
        bytes.windows(CANARY.len()).any(|found| found == CANARY)
    };
    let held = || {
        let files = fs::read_dir(folder.path()).unwrap();
        files
            .filter(|file| holds(&file.as_ref().unwrap().path()))
            .count()
    };
    for i in 0..5 {
        begin(&journal, &format!("{i}")).await.unwrap();
    }
    let mut entry = sample(journal.owner(), "ann", "short name", 0);
    let frozen = std::sync::Arc::make_mut(&mut entry.frozen);
    frozen.body = samekey::entry::Kept::Plain(CANARY.to_vec().into());
    let Ok(Begun::Created(receipt)) = journal.begin(entry.clone()).await else {
        panic!("not new");
    };
    entry.slot = receipt.slot();
    assert_eq!(held(), 1, "on the tape");
    advance(&journal, &mut entry, Phase::Succeeded, Flush::Normal).await;
    let (slot, key) = (entry.slot, entry.key().clone());
    journal.forget(slot, key).await.unwrap();
    assert_eq!(held(), 0);
}

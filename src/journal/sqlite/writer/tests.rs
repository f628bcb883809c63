use super::*;
use crate::entry::{Entry, Flush, Kept, Phase};
use crate::journal::conformance::{sample, step};
use crate::journal::sqlite::rows::Update;
use crate::journal::{Journal, SqliteJournal};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::sync::oneshot;

#[test]
fn a_batch_waits_for_more_only_where_many_are_under_way() {
    assert_eq!(worth_waiting_for(1), 1, "nobody else is under way");
    assert_eq!(worth_waiting_for(64), 17);
}

/// A journal that uses its tape, and what was begun in it: the first in the tables, the last on the tape.
async fn alone() -> (TempDir, SqliteJournal, Vec<Entry>) {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::open(folder.path().join("j")).unwrap();
    let mut begun = Vec::new();
    for i in 0..6 {
        let mut entry = sample(journal.owner(), "ann", &format!("begun {i}"), 0);
        match journal.begin(entry.clone()).await.unwrap() {
            Begun::Created(receipt) => entry.slot = receipt.slot(),
            other => panic!("{other:?}"),
        }
        begun.push(entry);
    }
    (folder, journal, begun)
}

fn with_writer<T>(journal: &SqliteJournal, look: impl FnOnce(&mut Writer) -> T) -> T {
    journal.shared.writer.as_ref().unwrap().when_idle(look)
}

/// As many under way as make a batch wait for company.
fn crowd(writer: &mut Writer) {
    writer.is_busy = true;
    writer.driven.extend(100_000..105_000);
}

type Answer<R> = oneshot::Receiver<Outcome<R>>;

fn begin(journal: &SqliteJournal, intent: &str) -> (Job, Answer<jobs::Handed>) {
    let row = NewRow::new(&sample(journal.owner(), "ann", intent, 0));
    let (waiter, answer) = Waiter::new();
    (Job::Begin(Box::new(row), waiter), answer)
}

fn record(entry: &mut Entry, phase: Phase, flush: Flush) -> (Job, Answer<jobs::Recorded>) {
    let write = step(entry, phase);
    entry.progress = write.progress.clone();
    let update = Update::new(write.slot, write.key, &write.expected, &write.progress);
    let (waiter, answer) = Waiter::new();
    (Job::Record(Box::new(update), flush, waiter), answer)
}

fn told<R>(mut answer: Answer<R>) -> bool {
    answer.try_recv().expect("somebody answers").is_ok()
}

/// The files as a process that is killed now leaves them.
fn killed(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for ending in ["", "-wal", "-lock", "-tape"] {
        let name = format!("j{ending}");
        fs::copy(folder.join(&name), copy.path().join(&name)).unwrap();
    }
    copy
}

#[tokio::test]
async fn company_never_overtakes_the_rest_of_a_long_batch() {
    let (_folder, journal, mut begun) = alone().await;
    let queue = Queue::default();
    let (claim, claimed) = record(&mut begun[5], Phase::Sending, Flush::Normal);
    let (release, released) = record(&mut begun[5], Phase::Waiting, Flush::Normal);
    let mut jobs = vec![begin(&journal, "new").0];
    while jobs.len() < BATCH {
        let mut unknown = sample(journal.owner(), "ann", "unknown", 0);
        jobs.push(record(&mut unknown, Phase::Waiting, Flush::Normal).0);
    }
    jobs.push(claim);
    queue.send(release);
    with_writer(&journal, |writer| {
        crowd(writer);
        serve(writer, &queue, &mut jobs);
        queue.take(0, Duration::ZERO, &mut jobs);
        serve(writer, &queue, &mut jobs);
    });
    assert!(told(claimed) && told(released));
}

#[tokio::test]
async fn what_is_put_off_is_done_later_and_lost_never() {
    let (_folder, journal, begun) = alone().await;
    let queue = Queue::default();
    let (waiter, forgotten) = Waiter::new();
    queue.send(Job::Forget(begun[5].slot, begun[5].key().clone(), waiter));
    with_writer(&journal, |writer| {
        let (waiter, _) = Waiter::<(), ()>::new();
        writer.put_off = vec![Job::Forget(1, begun[0].key().clone(), waiter)];
        crowd(writer);
        serve(writer, &queue, &mut vec![begin(&journal, "new").0]);
        assert_eq!(writer.put_off.len(), 2);
        let mut rest = std::mem::take(&mut writer.put_off);
        serve(writer, &queue, &mut rest);
    });
    assert!(!told(forgotten), "it is not settled, and told so");
}

#[tokio::test]
async fn an_outcome_that_shares_a_begins_sync_is_noted_too() {
    let (_folder, journal, mut begun) = alone().await;
    let queue = Queue::default();
    let (reject, rejected) = record(&mut begun[5], Phase::Rejected, Flush::Full);
    queue.send(reject);
    with_writer(&journal, |writer| {
        crowd(writer);
        serve(writer, &queue, &mut vec![begin(&journal, "new").0]);
        assert_eq!(Stamp::read(writer.gate.file()).unwrap(), writer.held);
        assert_eq!(writer.held.commits, 1);
    });
    assert!(told(rejected));
}

#[tokio::test]
async fn a_begin_in_company_does_not_pass_the_reserve() {
    let (folder, journal, mut begun) = alone().await;
    let queue = Queue::default();
    fs::remove_file(folder.path().join("j-reserve")).unwrap();
    let (job, _answer) = begin(&journal, "new");
    queue.send(job);
    with_writer(&journal, |writer| {
        crowd(writer);
        let reject = record(&mut begun[5], Phase::Rejected, Flush::Full).0;
        serve(writer, &queue, &mut vec![reject]);
        assert_eq!(writer.put_off.len(), 1);
    });
}

#[tokio::test]
async fn who_finds_the_tape_full_waits_for_one_round_to_be_filed_and_writes_on_there() {
    let (folder, journal, _) = alone().await;
    let queue = Queue::default();
    with_writer(&journal, |writer| {
        for i in 0..60 {
            let mut entry = sample(journal.owner(), "ann", &format!("long {i}"), 0);
            Arc::make_mut(&mut entry.frozen).body = Kept::Plain(vec![7; 200_000].into());
            let (waiter, answer) = Waiter::new();
            let job = Job::Begin(Box::new(NewRow::new(&entry)), waiter);
            serve(writer, &queue, &mut vec![job]);
            assert!(told(answer));
            assert!(writer.tape.unfiled().is_some(), "{i} went into the tables");
        }
    });
    let listing = journal.list(crate::journal::Query::default()).await;
    assert_eq!(listing.unwrap().entries.len(), 6 + 60);
    // Twelve megabytes went through it.
    let log = fs::metadata(folder.path().join("j-wal")).unwrap();
    assert!(log.len() < 6 << 20, "a log of {} bytes", log.len());
}

#[tokio::test]
async fn on_a_full_disk_a_taken_name_is_told_with_its_latest_progress() {
    let (_folder, journal, mut begun) = alone().await;
    let mut write = step(&begun[0], Phase::Succeeded);
    write.flush = Flush::Normal;
    begun[0].progress = write.progress.clone();
    journal.record(write).await.unwrap();
    let row = NewRow::new(&sample(journal.owner(), "ann", "begun 0", 0));
    let found = with_writer(&journal, |writer| {
        assert!(writer.tape.unfiled().is_some());
        writer.find_holder(&row)
    });
    let Begun::Exists(found) = found.unwrap() else {
        panic!("the name is free");
    };
    assert_eq!(found.progress.phase, Phase::Succeeded);
}

/// A power cut would take those commits, and leave a tape that builds on them.
#[tokio::test]
async fn commits_that_another_did_not_sync_are_synced_before_the_tape_builds_on_them() {
    let (folder, journal, begun) = alone().await;
    assert!(!with_writer(&journal, |writer| writer.log_is_behind));
    let rival = SqliteJournal::open(folder.path().join("j")).unwrap();
    // Killed between its commit and its sync.
    with_writer(&rival, |writer| {
        let _turn = writer.gate.try_enter().unwrap();
        let (job, _answer) = begin(&rival, "unheard of");
        writer.record_in_tables(&mut [job], false).unwrap();
    });
    let mut stale = begun[0].clone();
    stale.progress.revision += 7;
    for _ in 0..4 {
        let mut write = step(&stale, Phase::Waiting);
        write.flush = Flush::Normal;
        journal.record(write).await.unwrap_err();
    }
    assert!(with_writer(&journal, |writer| writer.log_is_behind));
    let entry = sample(journal.owner(), "ann", "told", 0);
    journal.begin(entry).await.unwrap();
    with_writer(&journal, |writer| {
        assert!(writer.tape.unfiled().is_some(), "it is on the tape");
        assert!(!writer.log_is_behind);
    });
}

#[tokio::test]
async fn the_end_of_a_round_without_its_beginning_never_comes_back() {
    let (folder, journal, _) = alone().await;
    let copy = with_writer(&journal, |writer| {
        let _turn = writer.gate.try_enter().unwrap();
        writer.is_alone().unwrap();
        writer.file().unwrap();
        for intent in ["lost", "behind it"] {
            let (job, _answer) = begin(&journal, intent);
            writer.record_on_tape(&mut [job], false).unwrap();
        }
        killed(folder.path())
    });
    // Neither was synced, and the first block of the first did not reach the disk.
    let tape = copy.path().join("j-tape");
    let mut bytes = fs::read(&tape).unwrap();
    let is_piece = |block: &&[u8]| block.starts_with(b"smkytape");
    let round = |block: &[u8]| u64::from_le_bytes(block[8..16].try_into().unwrap());
    let blocks = || {
        bytes
            .chunks(512)
            .enumerate()
            .skip(1)
            .filter(|(_, block)| is_piece(block))
    };
    let newest = blocks().map(|(_, block)| round(block)).max().unwrap();
    let (first, _) = blocks().find(|(_, block)| round(block) == newest).unwrap();
    bytes[first * 512..][..512].fill(0);
    fs::write(&tape, bytes).unwrap();
    let after = SqliteJournal::open(copy.path().join("j")).unwrap();
    for i in 0..6 {
        let entry = sample(after.owner(), "ann", &format!("later {i}"), 0);
        assert!(matches!(after.begin(entry).await, Ok(Begun::Created(_))));
        let found = killed(copy.path());
        let found = SqliteJournal::open(found.path().join("j")).unwrap();
        let listing = found.list(crate::journal::Query::default()).await.unwrap();
        assert_eq!(listing.entries.len(), 6 + i + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_while_somebody_writes_raises_no_false_alarm() {
    let (_folder, journal, _) = alone().await;
    let writing = journal.clone();
    let task = tokio::spawn(async move {
        for i in 0..1000 {
            let entry = sample(writing.owner(), "ann", &format!("more {i}"), 0);
            writing.begin(entry).await.unwrap();
        }
    });
    while !task.is_finished() {
        let report = journal.check().await.unwrap();
        assert!(report.is_healthy(), "{report}");
    }
    task.await.unwrap();
}

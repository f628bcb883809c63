//! What is on the tape, in the tables, or on its way from one to the other.

use super::super::lately::Lately;
use super::super::stamp::Stamp;
use super::super::statements::Statements;
use super::*;
use crate::entry::Progress;
use crate::retry::classify::Reason;
use std::fs;

/// Begins `count` entries of these names; one who is alone writes all but the first onto the tape.
async fn begin(journal: &SqliteJournal, names: &str, count: usize) -> Vec<Entry> {
    let mut begun = Vec::new();
    for i in 0..count {
        let mut entry = sample(journal.owner(), "ann", &format!("{names}/{i}"), 0);
        let Ok(Begun::Created(receipt)) = journal.begin(entry.clone()).await else {
            panic!("{names}/{i} is not new");
        };
        entry.slot = receipt.slot();
        begun.push(entry);
    }
    begun
}

fn is_on_tape(journal: &SqliteJournal) -> bool {
    let link = journal.shared.writer.as_ref().unwrap();
    link.when_idle(|writer| writer.tape.unfiled().is_some())
}

/// The journal as it would be found if all processes were killed now.
fn killed(folder: &tempfile::TempDir) -> (tempfile::TempDir, std::path::PathBuf) {
    let copy = tempfile::tempdir().unwrap();
    for ending in ["", "-wal", "-lock", "-tape"] {
        let name = format!("j{ending}");
        fs::copy(folder.path().join(&name), copy.path().join(&name)).unwrap();
    }
    let path = copy.path().join("j");
    (copy, path)
}

/// Found by reading: who was killed between beginning the tape anew and saying so left the one before to
/// write on in a round that counted as filed.
#[tokio::test]
async fn a_takeover_that_does_not_get_to_its_end_loses_nothing_that_is_written_after_it() {
    let (folder, journal) = journal();
    let rival = SqliteJournal::open(folder.path().join("j")).unwrap();
    begin(&journal, "before", 6).await;
    assert!(is_on_tape(&journal));
    let lock = fs::File::options()
        .read(true)
        .write(true)
        .open(folder.path().join("j-lock"))
        .unwrap();
    let noted = Stamp::read(&lock).unwrap();
    // The last thing that a takeover does but one is to compare what there is with the note.
    Stamp::write_slots(&lock, noted.slots + 100).unwrap();
    let link = rival.shared.writer.as_ref().unwrap();
    link.when_idle(|writer| {
        let _turn = writer.gate.try_enter().unwrap();
        writer.take_over(None).unwrap_err();
    });
    noted.write(&lock).unwrap();
    begin(&journal, "after", 6).await;
    let (_copy, path) = killed(&folder);
    let found = SqliteJournal::open(path).unwrap();
    assert_eq!(
        found.list(Query::default()).await.unwrap().entries.len(),
        12
    );
}

/// Everything that an entry may go through, on the tape.
const WAYS: &[&[Phase]] = &[
    &[],
    &[Phase::Succeeded],
    &[Phase::Sending],
    &[Phase::Attention(Reason::Exhausted)],
    &[Phase::Attention(Reason::WindowClosed)],
    &[
        Phase::Sending,
        Phase::Attention(Reason::Exhausted),
        Phase::Waiting,
    ],
    &[Phase::Attention(Reason::Cancelled), Phase::Rejected],
    &[Phase::Waiting, Phase::Sending, Phase::Succeeded],
];

async fn advance(journal: &SqliteJournal, entry: &mut Entry, phase: Phase) {
    let mut write = step(entry, phase);
    write.flush = Flush::Normal;
    entry.progress = write.progress.clone();
    journal.record(write).await.unwrap();
}

fn adds_up(journal: &SqliteJournal) -> bool {
    let connection = schema::connect_to_read(journal.path(), Duration::ZERO).unwrap();
    rows::unfinished_add_up(&connection).unwrap()
}

#[tokio::test]
async fn the_counts_add_up_after_any_mix_is_filed() {
    let (folder, journal) = journal();
    let rival = SqliteJournal::open(folder.path().join("j")).unwrap();
    let mut entries = begin(&journal, "alone", 4 * WAYS.len()).await;
    // Some go all their way on the tape, some are filed on the way.
    for round in 0..4 {
        for (number, entry) in entries.iter_mut().enumerate() {
            let way = WAYS[number % WAYS.len()];
            if let Some(phase) = way.get(round) {
                advance(&journal, entry, *phase).await;
            }
        }
        if round % 2 == 0 {
            take_a_turn(&rival).await;
            assert!(adds_up(&rival), "round {round}");
        }
        assert_eq!(rival.list(Query::default()).await.unwrap().entries, entries);
    }
    take_a_turn(&rival).await;
    assert!(adds_up(&rival));
    let report = rival.check().await.unwrap();
    assert!(report.is_healthy(), "{report}");
}

/// A write that bounces: it changes nothing, and whoever wrote before is not alone any more.
pub(super) async fn take_a_turn(rival: &SqliteJournal) {
    let nothing = sample(rival.owner(), "ann", "nothing", 0);
    let bounced = rival.record(step(&nothing, Phase::Waiting)).await;
    assert_eq!(bounced.unwrap_err().kind(), Kind::Stale);
}

/// A state of the tables, and everything that `lately` does to it.
fn file(connection: &Connection, lately: &Lately) -> Vec<(i64, Option<i64>, i64)> {
    let mut moved = Vec::new();
    let mut statements = Statements::new(connection);
    lately
        .file(&mut statements, &mut |slot, before, after| {
            moved.push((slot, before, after));
        })
        .unwrap();
    moved
}

fn tables() -> (tempfile::TempDir, Connection) {
    let (folder, journal) = journal();
    let path = journal.path().to_owned();
    drop(journal);
    let connection = schema::connect(&path, Duration::ZERO).unwrap();
    (folder, connection)
}

fn entry_in(slot: u64, intent: &str) -> Entry {
    let mut entry = sample(Owner(7), "ann", intent, 0);
    entry.slot = slot;
    entry
}

/// The next progress of an entry, which becomes it.
fn update(entry: &mut Entry, phase: Phase) -> Update {
    let write = step(entry, phase);
    entry.progress = write.progress.clone();
    Update::new(entry.slot, write.key, &write.expected, &write.progress)
}

fn row(entry: &Entry) -> NewRow {
    NewRow::new(entry)
}

/// What is written while this round is being filed.
fn after(round: Lately) -> Lately {
    let mut lately = Lately::default();
    lately.older = Some(Arc::new(round));
    lately
}

fn in_tables(connection: &Connection, slot: u64) -> Progress {
    match rows::load(connection, slot).unwrap() {
        Some(Stored::Entry(entry)) => entry.progress,
        other => panic!("{other:?}"),
    }
}

#[test]
fn filing_twice_changes_nothing_and_an_older_state_overwrites_none_that_is_newer() {
    let (_folder, connection) = tables();
    let mut entry = entry_in(1, "a");
    let (mut early, mut late) = (Lately::default(), Lately::default());
    early.begin(1, &row(&entry));
    late.begin(1, &row(&entry));
    let sending = update(&mut entry, Phase::Sending);
    early.record(&sending);
    late.record(&sending);
    late.record(&update(&mut entry, Phase::Succeeded));
    assert_eq!(file(&connection, &late), [(1, None, rows::SETTLED)]);
    assert_eq!(in_tables(&connection, 1), entry.progress);
    assert_eq!(file(&connection, &late), []);
    assert_eq!(file(&connection, &early), []);
    assert_eq!(in_tables(&connection, 1), entry.progress);
}

#[test]
fn what_goes_on_in_the_tables_is_filed_over_what_is_there() {
    let (_folder, connection) = tables();
    let mut entry = entry_in(1, "a");
    let mut first = Lately::default();
    first.begin(1, &row(&entry));
    assert_eq!(file(&connection, &first), [(1, None, 0)]);
    let mut second = Lately::default();
    second.record(&update(&mut entry, Phase::Sending));
    second.record(&update(&mut entry, Phase::Rejected));
    assert_eq!(file(&connection, &second), [(1, Some(0), rows::SETTLED)]);
    assert_eq!(in_tables(&connection, 1), entry.progress);
}

/// The tape of another journal, or one of these tables when they were young.
#[test]
fn steps_of_other_entries_are_not_filed_over_those_that_are_there() {
    let (_folder, connection) = tables();
    let mut ours = Lately::default();
    ours.begin(1, &row(&entry_in(1, "ours")));
    file(&connection, &ours);
    let mut theirs = entry_in(1, "theirs");
    let mut begun = Lately::default();
    begun.begin(1, &row(&theirs));
    let mut recorded = Lately::default();
    recorded.record(&update(&mut theirs, Phase::Succeeded));
    // The same name in another slot.
    let mut twice = Lately::default();
    twice.begin(2, &row(&entry_in(2, "ours")));
    for foreign in [begun, recorded, twice] {
        let mut statements = Statements::new(&connection);
        let filed = foreign.file(&mut statements, &mut |_, _, _| {});
        let error = faults::sqlite(Path::new("j"), filed.unwrap_err());
        assert_eq!(error.kind(), Kind::Corrupt);
    }
    assert_eq!(in_tables(&connection, 1).phase, Phase::Ready);
}

#[test]
fn an_entry_is_known_by_its_name_and_fits_only_what_follows_from_it_in_either_round() {
    for filing in [false, true] {
        let mut entry = entry_in(5, "a");
        let mut lately = Lately::default();
        lately.begin(5, &row(&entry));
        if filing {
            lately = after(lately);
        }
        let stale = update(&mut entry.clone(), Phase::Waiting);
        let sending = update(&mut entry, Phase::Sending);
        assert_eq!(lately.fits(&sending), Some(true));
        lately.record(&sending);
        assert_eq!(lately.fits(&stale), Some(false), "somebody was faster");
        assert_eq!(lately.fits(&sending), Some(false), "it is there already");
        let elsewhere = update(&mut entry_in(6, "b"), Phase::Sending);
        assert_eq!(lately.fits(&elsewhere), None, "the tables may know it");
        let mut other = entry_in(5, "another key");
        update(&mut other, Phase::Sending);
        assert_eq!(
            lately.fits(&update(&mut other, Phase::Waiting)),
            Some(false)
        );
        let name = rows::name_of(&entry.frozen);
        let Some(Begun::Exists(found)) = lately.holder(&name) else {
            panic!("its name is free");
        };
        assert_eq!(*found, entry);
        assert!(lately.holder(&[0; 16]).is_none());
    }
}

#[test]
fn what_could_not_be_written_is_taken_back_as_if_it_had_never_been() {
    let mut kept = entry_in(1, "kept");
    let mut lately = Lately::default();
    lately.begin(1, &row(&kept));
    let before = kept.clone();
    let new = entry_in(2, "new");
    let mut begun = new.clone();
    lately.keep();
    lately.record(&update(&mut kept, Phase::Sending));
    lately.begin(2, &row(&new));
    lately.record(&update(&mut begun, Phase::Sending));
    lately.record(&update(&mut kept, Phase::Succeeded));
    assert_eq!(lately.len(), 2);
    lately.undo();
    assert_eq!(lately.len(), 1);
    assert!(lately.holder(&rows::name_of(&new.frozen)).is_none());
    let held = lately.holder(&rows::name_of(&before.frozen));
    assert_eq!(held, Some(Begun::Exists(Box::new(before))));
}

#[test]
fn entries_are_shown_once_and_as_they_are_now_wherever_their_halves_lie() {
    let (_folder, connection) = tables();
    let mut known: Vec<Entry> = (1..=4)
        .map(|slot| entry_in(slot, &format!("{slot}")))
        .collect();
    // 1 and 2 are in the tables, 2 goes on in the older round, 3 began there; 4 and what became of 3 are new.
    let mut filed = Lately::default();
    filed.begin(1, &row(&known[0]));
    filed.begin(2, &row(&known[1]));
    file(&connection, &filed);
    let mut older = Lately::default();
    older.record(&update(&mut known[1], Phase::Sending));
    older.begin(3, &row(&known[2]));
    let mut lately = after(older.clone());
    lately.record(&update(&mut known[2], Phase::Rejected));
    lately.begin(4, &row(&known[3]));
    let shown = lately.entries(&connection).unwrap();
    assert_eq!(shown, known[1..]);
    let listing = rows::list(&connection, &Query::default(), &shown).unwrap();
    assert_eq!(listing.entries, known);
    // The same while the older round has been filed and nobody has said so.
    file(&connection, &older);
    let shown = lately.entries(&connection).unwrap();
    let listing = rows::list(&connection, &Query::default(), &shown).unwrap();
    assert_eq!(listing.entries, known);
    let settled = Query {
        select: Select::Settled,
        ..Query::default()
    };
    let listing = rows::list(&connection, &settled, &shown).unwrap();
    assert_eq!(listing.entries, known[2..3]);
}

#[test]
fn what_a_reader_took_along_stays_as_it_was_while_the_round_goes_on_and_is_used_again() {
    let (_folder, connection) = tables();
    let mut entry = entry_in(1, "a");
    let mut lately = Lately::default();
    lately.begin(1, &row(&entry));
    lately.keep();
    let (taken, before) = (lately.clone(), [entry.clone()]);
    lately.record(&update(&mut entry, Phase::Sending));
    lately.undo();
    assert_eq!(lately.entries(&connection).unwrap(), before);
    let mut lately = lately.emptied();
    assert_eq!(lately.len(), 0);
    assert!(lately.holder(&rows::name_of(&entry.frozen)).is_none());
    let next = entry_in(2, "b");
    lately.begin(2, &row(&next));
    assert_eq!(taken.entries(&connection).unwrap(), before);
    assert_eq!(lately.entries(&connection).unwrap(), [next]);
}

#[test]
fn steps_that_are_taken_back_time_and_again_leave_no_bytes_behind() {
    let mut entry = entry_in(1, "a");
    let mut lately = Lately::default();
    lately.begin(1, &row(&entry));
    lately.keep();
    let step = update(&mut entry, Phase::Sending);
    let size = lately.size();
    for _ in 0..3 {
        lately.record(&step);
        assert!(lately.size() > size);
        lately.undo();
        assert_eq!(lately.size(), size);
    }
    assert_eq!(lately.fits(&step), Some(true));
}

/// What is settled while two take turns, or in an older journal, is settled in the tables.
#[tokio::test]
async fn names_of_entries_that_were_settled_without_the_tape_leave_the_index_with_a_later_round() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    let rival = SqliteJournal::open(&path).unwrap();
    for i in 0..10 {
        // Nobody is alone.
        for journal in [&journal, &rival] {
            let name = format!("{i} of {:?}", journal.owner());
            let mut entry = sample(journal.owner(), "ann", &name, 0);
            let Ok(Begun::Created(receipt)) = journal.begin(entry.clone()).await else {
                panic!("{name} is new");
            };
            entry.slot = receipt.slot();
            journal
                .record(step(&entry, Phase::Succeeded))
                .await
                .unwrap();
        }
    }
    drop(rival);
    let indexed = || {
        let plain = Connection::open(&path).unwrap();
        let sql = "SELECT count(*) FROM entries WHERE in_run = 0";
        plain
            .query_row(sql, [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    assert!(indexed() > 5, "they were settled in the tables");
    for i in 0..5 {
        let entry = sample(journal.owner(), "ann", &format!("later {i}"), 0);
        journal.begin(entry).await.unwrap();
    }
    drop(journal);
    assert!(indexed() <= 5, "only what is open is left");
    let journal = SqliteJournal::open(&path).unwrap();
    assert!(journal.check().await.unwrap().is_healthy());
}

#[tokio::test]
async fn one_entry_is_loaded_as_it_is_listed_wherever_it_is() {
    let (_folder, journal) = journal();
    let mut begun = begin(&journal, "loaded", 6).await;
    let mut write = step(&begun[4], Phase::Succeeded);
    begun[4].progress = write.progress.clone();
    write.flush = Flush::Normal;
    journal.record(write).await.unwrap();
    for filed in [false, true] {
        if filed {
            // Whoever opens it files what is there.
            drop(SqliteJournal::open(journal.path()).unwrap());
        }
        for entry in &begun {
            let loaded = journal.load(entry.slot, entry.key().clone()).await;
            assert_eq!(loaded.unwrap().as_ref(), Some(entry));
        }
        let unknown = journal.load(99, begun[0].key().clone()).await;
        assert_eq!(unknown.unwrap(), None);
    }
}

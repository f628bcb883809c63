//! Opening: look at everything before anything is touched.

use super::files::{self, Files, Watch};
use super::gate::Gate;
use super::lately::{Lately, Recently};
use super::names::Names;
use super::owners::{self, Proof};
use super::reserve::Reserve;
use super::schema::{self, Nature};
use super::stamp::Stamp;
use super::tape::{Left, Tape};
use super::wal::{self, Audit};
use super::writer::{self, Clerk, Desk, Writer};
use super::{SqliteOptions, faults, mounts};
use crate::journal::{JournalError, JournalErrorKind as Kind};
use rusqlite::{Connection, OptionalExtension};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Up to this size the first who opens a journal has SQLite check all of its pages, which takes
/// some milliseconds; beyond it only on request.
const CHECKED_SIZE: u64 = 4 << 20;

/// Journals that this process failed to sync: the next open must copy every page of the log.
static POISONED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

pub(super) fn remember_poison(path: &Path) {
    let mut poisoned = POISONED.lock().unwrap_or_else(PoisonError::into_inner);
    if !poisoned.iter().any(|known| known == path) {
        poisoned.push(path.to_owned());
    }
}

/// Makes a writer ready, with everything checked and nothing repaired. Where space `is_tight` the reserve is left
/// for that.
pub(super) fn writer(
    files: &Files,
    reserve: &Reserve,
    options: &SqliteOptions,
    is_tight: bool,
) -> Result<Writer, JournalError> {
    schema::check_version()?;
    files.make_folder()?;
    if !options.network {
        refuse_network(files)?;
    }
    files.inspect()?;
    let gate = Gate::open(files.lock.clone())?;
    let turn = gate.enter(options.patience)?;
    let connection = trusted(files, options, &gate)?;
    if !is_tight {
        // Without it a full disk is noticed all the same, and nothing new is begun.
        let _ = reserve.fill();
    }
    let proof = Proof::new(files)?;
    let log = files::open_private(&files.wal)?;
    let clerk = Clerk::new(Desk {
        connection: schema::connect(&files.journal, options.patience)?,
        log: files::open_private(&files.wal)?,
        lock: files::open_private(&files.lock)?,
        owner: proof.owner(),
    });
    let mut tape = Tape::open(files)?;
    tape.suit(options.reserve);
    let watch = Watch::new(files.identity()?);
    let mut writer = Writer {
        files: files.clone(),
        watch,
        clerk,
        connection,
        log,
        tape,
        lately: Recently::default(),
        spare: Lately::default(),
        names: Names::default(),
        filing: None,
        held: Stamp::default(),
        turns: 0,
        gate,
        turn: None,
        reserve: reserve.clone(),
        patience: options.patience,
        driven: HashSet::new(),
        log_is_behind: true,
        full: true,
        quick: false,
        unseen_pages: 0,
        is_busy: false,
        put_off: Vec::new(),
        poison: None,
        proof,
    };
    writer.take_over(Some(options.accept_loss))?;
    drop(turn);
    Ok(writer)
}

/// A connection to a journal that has lost nothing, or whose loss was accepted. The turn is ours.
fn trusted(
    files: &Files,
    options: &SqliteOptions,
    gate: &Gate,
) -> Result<Connection, JournalError> {
    // Again, as others may have made it while this one waited for its turn.
    let length = files.inspect()?;
    let noted = Stamp::read(gate.file());
    let noted = noted.map_err(|error| faults::system("read", &files.lock, error))?;
    let first = !owners::anyone(files)?;
    let left = Left::of(files).map_err(|error| faults::system("read", &files.tape, error))?;
    let judged = match length {
        None | Some(0) => nothing_was_here(files, noted, &left),
        Some(length) => sound(files, options, (noted, &left), first, length),
    };
    let (judged, length) = match judged {
        Err(_) if crate::planted::is(18) => (Ok(()), made_anew(files)),
        judged => (judged, length),
    };
    match judged {
        Err(Judged::Loss(_)) if options.accept_loss => keep_evidence(files)?,
        Err(Judged::Loss(error) | Judged::Unusable(error)) => return Err(error),
        Ok(()) => {}
    }
    if length.is_none() {
        files.create()?;
    }
    let mut connection = schema::connect(&files.journal, options.patience)?;
    let fault = |error| faults::sqlite(&files.journal, error);
    let version = match schema::nature(&files.journal, &connection)? {
        Nature::Blank => 0,
        Nature::Journal(version) => version,
    };
    schema::migrate(&mut connection, version).map_err(fault)?;
    copy_log(files, &connection, first)?;
    let stamp = held(&connection).map_err(fault)?.with(&left);
    if !stamp.covers(noted) {
        // Accepted above: from now on this is what there is.
        let written = stamp.write(gate.file());
        written.map_err(|error| faults::system("write", &files.lock, error))?;
    }
    Ok(connection)
}

/// What a bug of the harness does with a journal that cannot be trusted: see `planted`.
fn made_anew(files: &Files) -> Option<u64> {
    for file in [&files.journal, &files.wal, &files.shm, &files.tape] {
        let _ = fs::remove_file(file);
    }
    None
}

fn refuse_network(files: &Files) -> Result<(), JournalError> {
    let Some(kind) = mounts::remote(files.folder()) else {
        return Ok(());
    };
    Err(JournalError::new(
        Kind::Unavailable,
        format!(
            "{} lies on a network file system ({kind}), where SQLite cannot keep processes apart; \
             put the journal on a local disk",
            files.folder().display()
        ),
    ))
}

/// What speaks against opening a journal.
enum Judged {
    /// Something that was acknowledged is gone; a person may accept that.
    Loss(JournalError),
    /// It cannot be used at all.
    Unusable(JournalError),
}

impl From<JournalError> for Judged {
    fn from(error: JournalError) -> Judged {
        Judged::Unusable(error)
    }
}

fn loss(files: &Files, what: &str) -> Judged {
    Judged::Loss(JournalError::new(
        Kind::Corrupt,
        format!(
            "the journal {} {what}. Nothing was changed. Put the missing files back if you can; else \
             ask the server what became of these operations, then open the journal with loss accepted",
            files.journal.display()
        ),
    ))
}

/// There is no journal, or an empty file: right, unless there was one before.
fn nothing_was_here(files: &Files, noted: Stamp, left: &Left) -> Result<(), Judged> {
    if left.is_damaged || !left.is_empty() {
        return Err(loss(
            files,
            "is gone, although its -tape file still holds entries",
        ));
    }
    if noted != Stamp::default() {
        let what = format!(
            "is gone, although {} says that it held {} entries; if you removed it on purpose, \
             remove that file too",
            files.lock.display(),
            noted.slots
        );
        return Err(loss(files, &what));
    }
    // Whoever was killed while making the journal leaves a log in which nothing was committed.
    let log = wal::audit(&files.wal, 0);
    let log = log.map_err(|error| faults::system("read", &files.wal, error))?;
    if log.read > 0 || log.unread.iter().any(|commit| commit.was_synced) {
        return Err(loss(
            files,
            "is gone, although its -wal file is still there",
        ));
    }
    Ok(())
}

/// Whether an existing file is a journal that has lost nothing. Only reads.
fn sound(
    files: &Files,
    options: &SqliteOptions,
    (noted, left): (Stamp, &Left),
    first: bool,
    length: u64,
) -> Result<(), Judged> {
    let connection = schema::connect_to_read(&files.journal, options.patience)?;
    let fault = |error| Judged::Unusable(faults::sqlite(&files.journal, error));
    if schema::nature(&files.journal, &connection)? == Nature::Blank {
        return nothing_was_here(files, noted, left);
    }
    let held = held(&connection).map_err(fault)?;
    if first {
        if length <= CHECKED_SIZE
            && let Some(found) = contradiction(&connection).map_err(fault)?
        {
            let message = format!(
                "the journal {} contradicts itself ({found}): it was altered. Nothing was \
                 changed; run a check, and restore it from a copy",
                files.journal.display()
            );
            return Err(JournalError::new(Kind::Corrupt, message).into());
        }
        let audit = audit(files, &connection)?;
        // What is on the tape yet is not lost with the commit that was to file it.
        if let Some(lost) = lost(&audit, held.with(left)) {
            let what = format!(
                "has a damaged log: {lost} commits behind the damage would be lost in silence"
            );
            return Err(loss(files, &what));
        }
    }
    if left.is_damaged {
        let what = "has a damaged tape: steps behind the damage would be lost in silence";
        return Err(loss(files, what));
    }
    let (found, held) = (held, held.with(left));
    if !held.covers(noted) || !found.covers(left.before) {
        let what = format!(
            "has lost entries or outcomes: it holds {} entries and {} further commits, but once \
             held {} and {}; its -wal or -tape file was removed or cut, or an old copy was put back",
            held.slots.min(found.slots),
            held.commits,
            noted.slots,
            noted.commits
        );
        return Err(loss(files, &what));
    }
    Ok(())
}

/// What SQLite finds wrong with the pages, if anything.
pub(super) fn contradiction(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let found: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    Ok(Some(found).filter(|found| found != "ok"))
}

pub(super) fn audit(files: &Files, connection: &Connection) -> Result<Audit, JournalError> {
    let meta = connection.query_row(
        "SELECT rootpage FROM sqlite_schema WHERE name = 'meta'",
        [],
        |row| row.get(0),
    );
    let meta = meta.map_err(|error| faults::sqlite(&files.journal, error))?;
    wal::audit(&files.wal, meta).map_err(|error| faults::system("read", &files.wal, error))
}

/// How many commits are lost for certain, given what SQLite still sees.
///
/// A commit that had to survive a power cut was on the disk before anything was written after it, so
/// if it stands in the log unread, the log was damaged later. The very last one may not have been
/// acknowledged; about that one the stamp knows. Commits that a power cut may undo are not counted.
pub(super) fn lost(audit: &Audit, held: Stamp) -> Option<usize> {
    let certain = audit.unread.iter().rposition(|commit| {
        commit.was_synced && (commit.last_row > held.slots || commit.commits > held.commits)
    });
    certain.map(|last| last + 1)
}

/// How far the journal has got.
pub(super) fn held(connection: &Connection) -> rusqlite::Result<Stamp> {
    let slots: Option<i64> =
        connection.query_row("SELECT max(slot) FROM entries", [], |row| row.get(0))?;
    let commits: Option<i64> = connection
        .query_row("SELECT commits FROM meta WHERE id = 1", [], |row| {
            row.get(0)
        })
        .optional()?;
    Ok(Stamp {
        slots: super::rows::unsigned(slots.unwrap_or(0)),
        commits: super::rows::unsigned(commits.unwrap_or(0)),
    })
}

/// Keeps a damaged log and a damaged tape beside the journal before they are written over.
fn keep_evidence(files: &Files) -> Result<(), JournalError> {
    for (file, kept) in [(&files.wal, &files.lost), (&files.tape, &files.lost_tape)] {
        match fs::copy(file, kept) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(faults::system("keep a copy of", file, error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Presses what the log holds into the journal. After a failed sync that is the only way to be
/// sure, so then, and for whoever is alone, all of it must succeed; otherwise readers may be in the
/// way of the rest.
fn copy_log(files: &Files, connection: &Connection, first: bool) -> Result<(), JournalError> {
    let mut poisoned = POISONED.lock().unwrap_or_else(PoisonError::into_inner);
    let was_poisoned = poisoned.iter().position(|known| *known == files.journal);
    let copy = |mode| {
        let copied = writer::checkpoint(connection, mode);
        copied.map_err(|error| faults::sqlite(&files.journal, error))
    };
    // What was copied before a sync failed may not be on the disk: it has to be copied again, and is once
    // nobody else remembers that it was.
    let (_, _, before) = copy("NOOP")?;
    let (busy, logged, copied) = copy("FULL")?;
    let again = was_poisoned.is_none() || before <= 0;
    let whole = busy == 0 && logged == copied && again;
    if !whole && (first || was_poisoned.is_some()) {
        return Err(JournalError::new(
            Kind::Busy,
            format!(
                "somebody has the journal {} open and keeps its log from being copied; try again",
                files.journal.display()
            ),
        ));
    }
    if let Some(known) = was_poisoned {
        poisoned.remove(known);
    }
    Ok(())
}

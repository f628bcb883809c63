//! What the file looks like inside, and under which settings it is used.

use super::faults;
use crate::journal::{JournalError, JournalErrorKind as Kind};
use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// Marks the file as a journal of samekey: "smky".
pub(super) const APPLICATION_ID: i64 = 0x736d_6b79;

/// One step per version of the file, append only: a released step is never edited.
pub(super) const MIGRATIONS: &[&str] = &["
    CREATE TABLE entries (
        slot INTEGER PRIMARY KEY,
        -- digest of scope, intent and generation: what must be unique
        name BLOB NOT NULL UNIQUE,
        -- 0 open, 1 exhausted, 2 needs attention, 3 settled, 4 tombstone
        state INTEGER NOT NULL,
        revision INTEGER NOT NULL,
        -- the 48 bits of the reference
        reference INTEGER NOT NULL,
        begun INTEGER NOT NULL,
        ended INTEGER NOT NULL,
        scope TEXT NOT NULL,
        progress BLOB NOT NULL
    ) STRICT;
    CREATE INDEX unfinished ON entries (slot) WHERE state < 2;
    CREATE INDEX attention ON entries (slot) WHERE state = 2;
    -- written once, and apart: a large body is not rewritten with every step
    CREATE TABLE frozen (
        slot INTEGER PRIMARY KEY,
        bytes BLOB NOT NULL
    ) STRICT;
    -- commits: those that must survive and give out no slot; open, sum: how many entries are
    -- unfinished, and the sum of their slots, so that a list that lost one is noticed
    CREATE TABLE meta (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        commits INTEGER NOT NULL,
        open INTEGER NOT NULL,
        sum INTEGER NOT NULL
    ) STRICT;
    INSERT INTO meta VALUES (1, 0, 0, 0);
", "
    -- the names of settled entries leave the index: see names.rs
    CREATE TABLE moved (
        slot INTEGER PRIMARY KEY,
        name BLOB NOT NULL,
        -- whether the name stands in a run, and not in the index
        in_run INTEGER NOT NULL,
        state INTEGER NOT NULL,
        revision INTEGER NOT NULL,
        reference INTEGER NOT NULL,
        begun INTEGER NOT NULL,
        ended INTEGER NOT NULL,
        scope TEXT NOT NULL,
        progress BLOB NOT NULL
    ) STRICT;
    INSERT INTO moved
        SELECT slot, name, 0, state, revision, reference, begun, ended, scope, progress FROM entries;
    DROP TABLE entries;
    ALTER TABLE moved RENAME TO entries;
    CREATE UNIQUE INDEX named ON entries (name) WHERE in_run = 0;
    CREATE INDEX leaving ON entries (slot) WHERE state > 2 AND in_run = 0;
    CREATE INDEX unfinished ON entries (slot) WHERE state < 2;
    CREATE INDEX attention ON entries (slot) WHERE state = 2;
    -- without row numbers: whoever audits the log takes those for slots
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY,
        count INTEGER NOT NULL,
        -- the lowest and the highest slot that it leads to
        first INTEGER NOT NULL,
        last INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE names (
        run INTEGER NOT NULL,
        part INTEGER NOT NULL,
        bytes BLOB NOT NULL,
        PRIMARY KEY (run, part)
    ) STRICT, WITHOUT ROWID;
    -- how many names stand in runs
    ALTER TABLE meta ADD COLUMN named INTEGER NOT NULL DEFAULT 0;
"];

/// SQLite before this one could lose a commit when the log was reset.
const OLDEST_SQLITE: i32 = 3_051_003;

/// The pages of a new journal, in bytes: with smaller ones the log takes more writes for the same rows.
/// A journal keeps those that it was made with.
const PAGE: &str = "16384";
const OLDER_PAGE: &str = "4096";

/// What each connection is set to, and must then say that it is set to.
const PRAGMAS: &[(&str, &str, &str)] = &[
    ("page_size", PAGE, PAGE),
    ("journal_mode", "WAL", "wal"),
    ("synchronous", "FULL", "2"),
    ("fullfsync", "1", "1"),
    ("checkpoint_fullfsync", "1", "1"),
    ("wal_autocheckpoint", "0", "0"),
    ("cache_size", "-16384", "-16384"),
    ("temp_store", "MEMORY", "2"),
    ("mmap_size", "0", "0"),
    ("secure_delete", "ON", "1"),
    ("trusted_schema", "OFF", "0"),
    ("cell_size_check", "ON", "1"),
    ("locking_mode", "NORMAL", "normal"),
];

/// Refuses a SQLite that is known to lose commits.
pub(super) fn check_version() -> Result<(), JournalError> {
    if rusqlite::version_number() >= OLDEST_SQLITE {
        return Ok(());
    }
    Err(JournalError::new(
        Kind::Unavailable,
        format!(
            "SQLite {} can lose commits when its log is reset; link 3.51.3 or later",
            rusqlite::version()
        ),
    ))
}

/// A connection that may write, set up and verified.
pub(super) fn connect(path: &Path, patience: Duration) -> Result<Connection, JournalError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let fault = |error| faults::sqlite(path, error);
    let connection = Connection::open_with_flags(path, flags).map_err(fault)?;
    connection.busy_timeout(patience).map_err(fault)?;
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)
        .map_err(fault)?;
    one_plan(&connection).map_err(fault)?;
    connection.set_prepared_statement_cache_capacity(64);
    for (name, set, _) in PRAGMAS {
        connection
            .pragma_update_and_check(None, name, set, |_| Ok(()))
            .or_else(|error| match error {
                rusqlite::Error::QueryReturnedNoRows => Ok(()),
                error => Err(fault(error)),
            })?;
    }
    verify(path, &connection)?;
    Ok(connection)
}

/// One plan per statement, whatever is bound to it. Else SQLite, which might prove by a value that a
/// partial index fits, compiles each statement anew for every value.
fn one_plan(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// A connection that only reads.
pub(super) fn connect_to_read(path: &Path, patience: Duration) -> Result<Connection, JournalError> {
    let fault = |error| faults::sqlite(path, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let plain = Connection::open_with_flags(path, flags).and_then(|it| careful(it, patience));
    match plain {
        // On a disk that cannot be written SQLite finds no place for the index of its log. Without a
        // log it needs none, and nobody can change the file.
        Err(error) if cannot_open(&error) && !has_log(path) => {
            let flags = flags | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(immutable(path), flags)
                .and_then(|it| careful(it, patience))
                .map_err(fault)
        }
        plain => plain.map_err(fault),
    }
}

/// Sets a reading connection up, and reads once to see whether it can.
fn careful(connection: Connection, patience: Duration) -> rusqlite::Result<Connection> {
    connection.busy_timeout(patience)?;
    // Whoever only looks must not tidy up behind the others.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    one_plan(&connection)?;
    for setting in [
        "mmap_size = 0",
        "trusted_schema = OFF",
        "cell_size_check = ON",
    ] {
        connection.execute_batch(&format!("PRAGMA {setting}"))?;
    }
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(connection)
}

fn cannot_open(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, ReadOnly, SystemIoFailure};
    let code = error.sqlite_error_code();
    matches!(code, Some(CannotOpen | ReadOnly | SystemIoFailure))
}

fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).is_ok_and(|log| log.len() > 0)
}

fn immutable(path: &Path) -> String {
    let mut uri = String::from("file:");
    for c in path.to_string_lossy().chars() {
        match c {
            '%' => uri.push_str("%25"),
            '?' => uri.push_str("%3f"),
            '#' => uri.push_str("%23"),
            plain => uri.push(plain),
        }
    }
    uri + "?immutable=1"
}

/// Reads every setting back.
pub(super) fn verify(path: &Path, connection: &Connection) -> Result<(), JournalError> {
    for (name, _, expected) in PRAGMAS {
        let found = pragma(connection, name).map_err(|error| faults::sqlite(path, error))?;
        let is_so = match *name {
            "page_size" => is_page(&found),
            _ => found == *expected,
        };
        if !is_so {
            return Err(JournalError::new(
                Kind::Unavailable,
                format!(
                    "the journal {} needs SQLite's {name} to be {expected}, but it stays {found}; \
                     put the journal on a local disk",
                    path.display()
                ),
            ));
        }
    }
    Ok(())
}

/// Whether journals have, or had, pages of this size.
pub(super) fn is_page(bytes: &str) -> bool {
    bytes == PAGE || bytes == OLDER_PAGE
}

/// What a setting is now.
pub(super) fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<String> {
    connection.pragma_query_value(None, name, |row| {
        Ok(match row.get(0)? {
            Value::Integer(number) => number.to_string(),
            Value::Text(text) => text,
            other => format!("{other:?}"),
        })
    })
}

/// What a file turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(super) enum Nature {
    /// Nothing is in it yet.
    Blank,
    /// A journal of this version.
    Journal(usize),
}

/// Looks what the file is, and refuses what is not ours to write.
pub(super) fn nature(path: &Path, connection: &Connection) -> Result<Nature, JournalError> {
    let fault = |error| faults::sqlite(path, error);
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let application = number("application_id").map_err(fault)?;
    let version = number("user_version").map_err(fault)?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(fault)?;
    if (application, version, tables) == (0, 0, 0) {
        return Ok(Nature::Blank);
    }
    if application != APPLICATION_ID {
        let message = faults::foreign(&path.display());
        return Err(JournalError::new(Kind::Foreign, message));
    }
    match usize::try_from(version) {
        Ok(known) if (1..=MIGRATIONS.len()).contains(&known) => Ok(Nature::Journal(known)),
        _ => Err(JournalError::new(
            Kind::TooNew,
            format!(
                "a newer samekey wrote the journal {} (version {version}, this one knows {}); \
                 upgrade this program",
                path.display(),
                MIGRATIONS.len()
            ),
        )),
    }
}

/// Brings the file to the current version, in one transaction.
pub(super) fn migrate(connection: &mut Connection, from: usize) -> rusqlite::Result<()> {
    if from == MIGRATIONS.len() {
        return Ok(());
    }
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    for step in &MIGRATIONS[from..] {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
    transaction.commit()
}

//! What went wrong, in words: SQLite's and the system's errors as [`JournalError`]s.

use crate::journal::{JournalError, JournalErrorKind as Kind};
use rusqlite::ErrorCode;
use std::io;
use std::path::Path;

/// An error of SQLite about the journal at `path`.
pub(super) fn sqlite(path: &Path, error: rusqlite::Error) -> JournalError {
    let path = path.display();
    let extended = error.sqlite_extended_error_code();
    let (kind, message) = match error.sqlite_error_code() {
        // No room for the index of the log, which SQLite reports as a failure of the disk.
        Some(_) if extended == Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE) => {
            (Kind::Full, full(&path))
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            Kind::Busy,
            format!(
                "another program holds the journal {path}; try again, and close tools that have \
                 it open"
            ),
        ),
        Some(ErrorCode::DiskFull) => (Kind::Full, full(&path)),
        Some(ErrorCode::ReadOnly) => (Kind::ReadOnly, read_only(&path)),
        Some(ErrorCode::DatabaseCorrupt) => (
            Kind::Corrupt,
            format!(
                "the journal {path} cannot be read as it was written: it was altered, or the disk \
                 failed to read it. Nothing was changed; check the disk, then run a check"
            ),
        ),
        Some(ErrorCode::NotADatabase) => (Kind::Foreign, foreign(&path)),
        _ => (
            Kind::Unavailable,
            format!("the journal {path} cannot be used: {error}"),
        ),
    };
    JournalError::new(kind, message).caused_by(error)
}

/// An error of the system while `doing` something with `path`.
pub(super) fn system(doing: &str, path: &Path, error: io::Error) -> JournalError {
    let shown = path.display();
    let (kind, message) = match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => (
            Kind::ReadOnly,
            format!("cannot {doing} {shown}: {}", read_only(&shown)),
        ),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => (
            Kind::Full,
            format!("cannot {doing} {shown}: the disk is full; free some space"),
        ),
        _ => (
            Kind::Unavailable,
            format!("cannot {doing} {shown}: {error}; choose another place or put this right"),
        ),
    };
    JournalError::new(kind, message).caused_by(error)
}

fn full(path: &impl std::fmt::Display) -> String {
    format!("the disk is full: the journal {path} cannot grow. Free some space")
}

fn read_only(path: &impl std::fmt::Display) -> String {
    format!(
        "{path} or its folder cannot be written by this user; make both writable, or choose \
         another place for the journal"
    )
}

pub(super) fn foreign(path: &impl std::fmt::Display) -> String {
    format!("{path} is not a journal but some other program's file; choose another path")
}

/// No receipt can be given any more.
pub(super) fn poisoned(path: &Path, cause: &JournalError) -> JournalError {
    JournalError::new(
        Kind::Poisoned,
        format!(
            "a write to the journal {} failed ({cause}), so what it holds is not certain and \
             nothing more is sent through this handle; open the journal again: that presses \
             everything onto the disk first",
            path.display()
        ),
    )
    .caused_by(cause.clone())
}

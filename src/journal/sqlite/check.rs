//! What a person asks for who doubts the journal: everything looked at, in plain words.

use super::files::Files;
use super::reserve::Reserve;
use super::rows::{self, Stored};
use super::schema::Nature;
use super::stamp::Stamp;
use super::tape::Left;
use super::{SqliteOptions, lately, names, opening, owners, schema};
use crate::journal::{JournalError, JournalErrorKind as Kind, Liveness};
use rusqlite::Connection;
use std::fmt;
use std::fs::File;

/// What a check of a [`SqliteJournal`](super::SqliteJournal) found.
///
/// ```
/// use samekey::journal::SqliteJournal;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("orders.samekey");
/// let journal = SqliteJournal::open(path)?;
/// let report = journal.check().await?;
/// assert!(report.is_healthy(), "{report}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct SqliteReport {
    findings: Vec<Finding>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// Whether it is as it should be.
    pub is_good: bool,
    /// What was found, in plain words.
    pub text: String,
}

impl SqliteReport {
    /// Whether everything is as it should be.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.findings.iter().all(|finding| finding.is_good)
    }

    /// What was looked at, in order.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    fn note(&mut self, is_good: bool, text: impl Into<String>) {
        let text = text.into();
        self.findings.push(Finding { is_good, text });
    }
}

impl fmt::Display for SqliteReport {
    /// One line for each finding.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            let mark = if finding.is_good { "ok  " } else { "BAD " };
            writeln!(f, "{mark}{}", finding.text)?;
        }
        Ok(())
    }
}

/// Looks at everything, and changes nothing.
pub(super) fn check(
    connection: &Connection,
    files: &Files,
    options: &SqliteOptions,
) -> rusqlite::Result<SqliteReport> {
    let mut report = SqliteReport::default();
    on_files(&mut report, files, options);
    on_settings(&mut report, connection, files)?;
    match opening::contradiction(connection)? {
        None => report.note(true, "every page and index agrees with the others"),
        Some(found) => report.note(false, format!("SQLite finds: {found}")),
    }
    on_loss(&mut report, connection, files)?;
    on_entries(&mut report, connection)?;
    on_names(&mut report, connection, files)?;
    let adds_up = rows::unfinished_add_up(connection)?;
    report.note(
        adds_up,
        match adds_up {
            true => "as many entries are listed as unfinished as were counted",
            false => "the list of unfinished entries lacks some that were counted, or has too many",
        },
    );
    on_owners(&mut report, files);
    Ok(report)
}

fn on_files(report: &mut SqliteReport, files: &Files, options: &SqliteOptions) {
    match files.inspect() {
        Ok(length) => report.note(
            true,
            format!(
                "{} has {} bytes, and only its owner may read it and the files beside it",
                files.journal.display(),
                length.unwrap_or(0)
            ),
        ),
        Err(error) => report.note(false, error.to_string()),
    }
    let reserve = Reserve::new(files.reserve.clone(), options.reserve);
    if reserve.is_whole() {
        let text = format!("{} bytes are laid by for a full disk", options.reserve);
        report.note(true, text);
    } else {
        report.note(false, reserve.refusal().to_string());
    }
}

fn on_settings(
    report: &mut SqliteReport,
    connection: &Connection,
    files: &Files,
) -> rusqlite::Result<()> {
    let mode = schema::pragma(connection, "journal_mode")?;
    let page = schema::pragma(connection, "page_size")?;
    let version = match schema::nature(&files.journal, connection) {
        Ok(nature) => format!("{nature:?}"),
        Err(error) => {
            report.note(false, error.to_string());
            return Ok(());
        }
    };
    let is_good = mode == "wal" && schema::is_page(&page);
    let sqlite = rusqlite::version();
    let text = format!("SQLite {sqlite}, {mode} mode, pages of {page} bytes, {version}");
    report.note(is_good, text);
    Ok(())
}

fn on_loss(
    report: &mut SqliteReport,
    connection: &Connection,
    files: &Files,
) -> rusqlite::Result<()> {
    // In this order: whoever writes meanwhile notes last what is in the tables first.
    let noted = File::open(&files.lock).and_then(|file| Stamp::read(&file));
    let left = Left::settled(files).unwrap_or_default();
    let held = opening::held(connection)?;
    match lately::on_tape(files) {
        Ok(lately) => report.note(
            held.covers(left.before),
            format!(
                "the tape is sound: {} entries wait there to be filed",
                lately.len()
            ),
        ),
        Err(error) => report.note(false, error.to_string()),
    }
    match opening::audit(files, connection) {
        Ok(audit) => match opening::lost(&audit, held.with(&left)) {
            Some(lost) => report.note(
                false,
                format!("the log is damaged, and {lost} commits behind the damage are lost"),
            ),
            None => report.note(
                true,
                format!("the log is sound: {} commits in it are read", audit.read),
            ),
        },
        Err(error) => report.note(false, error.to_string()),
    }
    match noted {
        Ok(noted) if !held.with(&left).covers(noted) => report.note(
            false,
            format!(
                "entries were lost: {} are here, and there were {}",
                held.slots, noted.slots
            ),
        ),
        Ok(_) => report.note(true, format!("none of {} slots is lost", held.slots)),
        Err(error) => report.note(false, format!("{}: {error}", files.lock.display())),
    }
    Ok(())
}

fn on_entries(report: &mut SqliteReport, connection: &Connection) -> rusqlite::Result<()> {
    let (mut whole, mut tombstones, mut damaged) = (0u64, 0u64, 0u64);
    rows::each(connection, |stored| match stored {
        Stored::Entry(_) => whole += 1,
        Stored::Tombstone(..) => tombstones += 1,
        Stored::Damaged(found) => {
            damaged += 1;
            if damaged <= 20 {
                let who = found
                    .key
                    .map_or_else(String::new, |key| format!(" ({})", key.reference()));
                let text = format!("entry {}{who} cannot be read: {}", found.slot, found.error);
                report.note(false, text);
            }
        }
    })?;
    report.note(
        damaged == 0,
        format!("{whole} entries and {tombstones} tombstones are whole, {damaged} are damaged"),
    );
    Ok(())
}

fn on_names(
    report: &mut SqliteReport,
    connection: &Connection,
    files: &Files,
) -> rusqlite::Result<()> {
    // An older journal that is only looked at has none.
    if schema::nature(&files.journal, connection).is_ok_and(|it| it < Nature::Journal(2)) {
        return Ok(());
    }
    // Somebody may be merging them.
    let snapshot = connection.unchecked_transaction()?;
    match names::check(&snapshot) {
        Ok(count) => report.note(
            true,
            format!("{count} names of settled entries lead to them"),
        ),
        Err(error) => report.note(false, format!("the names of settled entries: {error}")),
    }
    Ok(())
}

fn on_owners(report: &mut SqliteReport, files: &Files) {
    match owners::all(files) {
        Ok(found) => {
            let count = |wanted| found.iter().filter(|(_, is)| *is == wanted).count();
            let silent = count(Liveness::Silent);
            let text = format!(
                "{} processes or handles have it open; {silent} of them were not heard of lately",
                count(Liveness::Alive) + silent
            );
            report.note(true, text);
        }
        Err(error) => report.note(false, format!("{}: {error}", files.folder().display())),
    }
}

/// Refuses a path that cannot be looked at.
pub(super) fn readable(files: &Files, options: &SqliteOptions) -> Result<(), JournalError> {
    let connection = schema::connect_to_read(&files.journal, options.patience)?;
    match schema::nature(&files.journal, &connection)? {
        Nature::Journal(_) => Ok(()),
        Nature::Blank => Err(JournalError::new(
            Kind::Blank,
            format!(
                "nothing was ever written to the journal {}; there is nothing to look at yet",
                files.journal.display()
            ),
        )),
    }
}

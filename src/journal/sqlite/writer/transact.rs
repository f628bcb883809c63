//! What one transaction does for each job of a batch.

use super::taping::{receipt, recorded};
use super::{Job, Outcome};
use crate::entry::Receipt;
use crate::journal::sqlite::lately::Lately;
use crate::journal::sqlite::names::{self, Names};
use crate::journal::sqlite::rows::{self, NewRow, Stored, Update};
use crate::journal::sqlite::stamp::Stamp;
use crate::journal::sqlite::statements::Statements;
use crate::journal::{Begun, JournalError, JournalErrorKind as Kind, Reaped, Retention, Tombstone};
use crate::key::Key;
use rusqlite::Connection;

/// What a batch changed in the journal's own counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) created: u32,
    pub(super) written: u32,
    pub(super) last_slot: u64,
    pub(super) commits: Option<u64>,
    open: i64,
    sum: i64,
}

impl Tally {
    /// With what came after it.
    pub(super) fn add(&mut self, later: &Tally) {
        self.created += later.created;
        self.written += later.written;
        self.last_slot = self.last_slot.max(later.last_slot);
        self.commits = later.commits.or(self.commits);
    }

    /// Brings the journal's own counts up to date.
    fn write(&self, connection: &Connection, commits: i64) -> rusqlite::Result<()> {
        connection
            .prepare_cached(
                "UPDATE meta SET commits = commits + ?1, open = open + ?2, sum = sum + ?3 WHERE id = 1",
            )?
            .execute([commits, self.open, self.sum])?;
        Ok(())
    }

    fn moved(&mut self, slot: i64, before: bool, after: bool) {
        self.written += 1;
        match (before, after) {
            (false, true) => {
                self.open += 1;
                self.sum = self.sum.wrapping_add(slot);
            }
            (true, false) => {
                self.open -= 1;
                self.sum = self.sum.wrapping_sub(slot);
            }
            _ => {}
        }
    }
}

/// Puts what is on the tape into the tables, if that is still ours to do once nobody else can write. `held` is how
/// far the journal has got with it.
pub(super) fn file(
    connection: &Connection,
    lately: &Lately,
    held: Stamp,
    is_ours: &dyn Fn() -> bool,
) -> rusqlite::Result<Tally> {
    let mut tally = Tally::default();
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    if !is_ours() {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
        return Err(rusqlite::Error::SqliteFailure(code, None));
    }
    let mut statements = Statements::new(connection);
    let mut named = lately.file(&mut statements, &mut |slot, before, after| {
        let before = before.is_some_and(rows::is_unfinished);
        tally.moved(slot, before, rows::is_unfinished(after));
    })?;
    drop(statements);
    named.extend(rows::leave_index(connection)?);
    names::add(connection, named)?;
    let known = commits(connection)?;
    let more = rows::signed(held.commits).saturating_sub(known).max(0);
    tally.write(connection, more)?;
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(tally)
}

fn commits(connection: &Connection) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT commits FROM meta WHERE id = 1")?
        .query_row([], |row| row.get(0))
}

/// Writes all of them, or nothing. `full` says that it will be on the disk before anybody sees it.
pub(super) fn transact(
    connection: &Connection,
    batch: &mut [Job],
    names: &mut Names,
    full: bool,
) -> rusqlite::Result<Tally> {
    let mut tally = Tally::default();
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let mut statements = Statements::new(connection);
    for job in batch {
        match job {
            Job::Begin(row, waiter) => {
                waiter.answer = Some(begin(&mut statements, names, row, &mut tally)?);
            }
            Job::Record(update, _, waiter) => {
                waiter.answer = Some(record(&mut statements, update, &mut tally)?);
            }
            Job::Forget(slot, key, waiter) => {
                waiter.answer = Some(forget(connection, *slot, key, &mut tally)?);
            }
            Job::Reap(slots, retention, waiter) => {
                waiter.answer = Some(Ok(reap(connection, slots, retention, &mut tally)?));
            }
            Job::Look | Job::Close => {}
        }
    }
    let counted = full && tally.created == 0 && tally.written > 0;
    if counted || tally.open != 0 || tally.sum != 0 {
        tally.write(connection, i64::from(counted))?;
    }
    if counted {
        tally.commits = Some(rows::unsigned(commits(connection)?));
    }
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(tally)
}

fn begin(
    statements: &mut Statements<'_>,
    names: &mut Names,
    row: &NewRow,
    tally: &mut Tally,
) -> rusqlite::Result<Outcome<Begun>> {
    if names.slot_of(statements.connection, &row.name)?.is_none()
        && let Some(slot) = row.start().insert(statements, None, &row.now(), false)?
    {
        let open = rows::is_unfinished(rows::state(row.phase));
        tally.moved(slot, false, open);
        tally.created += 1;
        tally.last_slot = rows::unsigned(slot);
        let receipt = receipt(row, rows::unsigned(slot));
        return Ok(Ok(Begun::Created(receipt)));
    }
    let holder = row.holder(statements, names)?.map(taken_by);
    Ok(holder.ok_or_else(|| {
        JournalError::new(
            Kind::Corrupt,
            "the journal's index names an entry that is not there; run a check",
        )
    }))
}

pub(super) fn taken_by(stored: Stored) -> Begun {
    match stored {
        Stored::Entry(entry) => Begun::Exists(entry),
        Stored::Tombstone(_, tombstone) => Begun::Tombstone(tombstone),
        Stored::Damaged(damaged) => Begun::Damaged(damaged),
    }
}

fn record(
    statements: &mut Statements<'_>,
    update: &Update,
    tally: &mut Tally,
) -> rusqlite::Result<Outcome<Receipt>> {
    let Some(before) = update.apply(statements)? else {
        return Ok(Err(JournalError::stale(&update.key)));
    };
    let after = rows::state(update.phase);
    tally.moved(
        update.slot,
        rows::is_unfinished(before),
        rows::is_unfinished(after),
    );
    Ok(Ok(recorded(update)))
}

fn forget(
    connection: &Connection,
    slot: u64,
    key: &Key,
    tally: &mut Tally,
) -> rusqlite::Result<Outcome<()>> {
    Ok(match rows::load(connection, slot)? {
        Some(Stored::Damaged(damaged)) => Err(JournalError::unreadable(slot, damaged.error)),
        Some(Stored::Entry(entry)) if entry.key() == key => match Tombstone::of(&entry) {
            Some(tombstone) => {
                rows::bury(connection, &entry, &tombstone)?;
                tally.written += 1;
                Ok(())
            }
            None => Err(JournalError::not_settled(key)),
        },
        _ => Ok(()),
    })
}

/// Looks at each once more, as somebody may have changed it since it was found.
fn reap(
    connection: &Connection,
    slots: &[u64],
    retention: &Retention,
    tally: &mut Tally,
) -> rusqlite::Result<Reaped> {
    let mut reaped = Reaped::default();
    for slot in slots {
        match rows::load(connection, *slot)? {
            Some(Stored::Entry(entry)) => {
                if let Some(tombstone) = Tombstone::of(&entry)
                    && retention.entry_is_over(tombstone.ended_at)
                {
                    rows::bury(connection, &entry, &tombstone)?;
                    reaped.entries += 1;
                }
            }
            Some(Stored::Tombstone(slot, tombstone))
                if retention.tombstone_is_over(tombstone.ended_at)
                    && rows::drop_tombstone(connection, slot)? =>
            {
                reaped.tombstones += 1;
            }
            _ => {}
        }
    }
    if reaped.tombstones > 0 {
        names::drop_stale(connection)?;
    }
    tally.written += reaped.entries + reaped.tombstones;
    Ok(reaped)
}

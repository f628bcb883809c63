//! The one thread that writes: it takes one job, drains what waits, commits it all at once and
//! answers everyone. There is no timer: under load batches grow by themselves.

mod jobs;

use super::files::{Files, Identity};
use super::gate::Gate;
use super::owners::{BEAT, Proof};
use super::reserve::Reserve;
use super::rows::{self, NewRow, Stored, Update};
use super::stamp::Stamp;
use super::{faults, schema};
use crate::entry::{Grade, Receipt};
use crate::journal::{Begun, JournalError, JournalErrorKind as Kind, Reaped, Retention, Tombstone};
use crate::key::Key;
use crate::planted;
pub(super) use jobs::{Job, Outcome, Waiter};
use rusqlite::Connection;
use std::collections::HashSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// The most jobs in one transaction.
const BATCH: usize = 1024;
/// From how many jobs at once a batch waits for more before it is begun, how long for each of them,
/// and at most: where many are under way, each sync then serves more of them.
const CROWD: usize = 4;
const LINGER: Duration = Duration::from_micros(40);
const LONGEST_LINGER: Duration = Duration::from_micros(1500);
/// Pages in the log before they are copied into the journal.
const CHECKPOINT: i64 = 1000;
/// How many pages may have been written before the log's length is looked at again.
const LOOK_AFTER: i64 = 200;

/// What a batch changed in the journal's own counts.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    created: u32,
    written: u32,
    last_slot: u64,
    commits: Option<u64>,
    open: i64,
    sum: i64,
}

impl Tally {
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

pub(super) struct Writer {
    pub(super) files: Files,
    pub(super) identity: Identity,
    pub(super) connection: Connection,
    pub(super) gate: Gate,
    pub(super) reserve: Reserve,
    pub(super) patience: Duration,
    /// Unfinished entries that this owner drives: while there are any, it says that it lives.
    pub(super) driven: HashSet<i64>,
    pub(super) full: bool,
    pub(super) unseen_pages: i64,
    pub(super) poison: Option<JournalError>,
    // Last: others may take over only when nothing is written any more.
    pub(super) proof: Proof,
}

impl Writer {
    /// Works until it is told to close. What nobody waited for comes `back` as a job.
    pub(super) fn run(mut self, jobs: &Receiver<Job>, back: &Sender<Job>) {
        let mut batch = Vec::new();
        let mut closing = false;
        let mut crowd = 0;
        while !closing {
            match jobs.recv_timeout(BEAT) {
                Ok(Job::Close) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(job) => batch.push(job),
                Err(RecvTimeoutError::Timeout) => {
                    if !self.driven.is_empty() {
                        self.proof.beat_if_due();
                    }
                    continue;
                }
            }
            if crowd >= CROWD {
                linger(crowd);
            }
            while batch.len() < BATCH && !closing {
                match jobs.try_recv() {
                    Ok(Job::Close) => closing = true,
                    Ok(job) => batch.push(job),
                    Err(_) => break,
                }
            }
            crowd = batch.len();
            self.proof.beat_if_due();
            self.settle(&mut batch);
            for job in batch.drain(..) {
                job.tell(back);
            }
            // Nobody waits for this, and it takes the longest.
            if self.unseen_pages >= LOOK_AFTER && self.full {
                self.unseen_pages = 0;
                self.checkpoint_if_long();
            }
        }
        batch.extend(jobs.try_iter());
        if !batch.is_empty() {
            self.settle(&mut batch);
        }
        self.close();
    }

    /// Gives every job of the batch its answer.
    fn settle(&mut self, batch: &mut [Job]) {
        if !self.reserve.is_whole() {
            // Filling it up is tried only for somebody who needs it, as it takes what is free.
            let wanted = batch.iter().any(|job| matches!(job, Job::Begin(..)));
            if !wanted || self.reserve.fill().is_err() {
                return self.settle_tight(batch);
            }
        }
        match self.commit(batch) {
            Err(error) if error.kind() == Kind::Full => {
                self.reserve.release();
                self.settle_tight(batch);
            }
            committed => refuse_on_error(batch, committed),
        }
    }

    /// The disk is full: nothing new, but what is under way is recorded from the reserve.
    fn settle_tight(&mut self, batch: &mut [Job]) {
        batch.sort_by_key(|job| matches!(job, Job::Begin(..)));
        let begins = batch.partition_point(|job| !matches!(job, Job::Begin(..)));
        let (old, new) = batch.split_at_mut(begins);
        if !old.is_empty() {
            let committed = self.commit(old);
            refuse_on_error(old, committed);
            // A log that is copied is written over from its start, and need not grow.
            self.checkpoint("PASSIVE");
        }
        for job in new {
            if let Job::Begin(row, waiter) = job {
                waiter.answer = Some(self.find_holder(row));
            }
        }
    }

    /// What has the name of a new entry already: looking needs no space.
    fn find_holder(&self, row: &NewRow) -> Outcome<Begun> {
        if let Some(poison) = &self.poison {
            return Err(poison.clone());
        }
        self.files.still(&self.identity)?;
        match row.holder(&self.connection) {
            Ok(Some(stored)) => Ok(taken_by(stored)),
            Ok(None) => Err(self.reserve.refusal()),
            Err(error) => Err(faults::sqlite(&self.files.journal, error)),
        }
    }

    /// One transaction. Whatever fails here fails for all of them.
    fn commit(&mut self, batch: &mut [Job]) -> Result<(), JournalError> {
        if let Some(poison) = &self.poison {
            return Err(poison.clone());
        }
        self.files.still(&self.identity)?;
        let unsynced = planted::is(3) || planted::is(4);
        let full = batch.iter().any(Job::is_full) && !unsynced;
        let turn = self.gate.enter(self.patience)?;
        let done = press(&self.connection, &mut self.full, full)
            .and_then(|()| transact(&self.connection, batch, full));
        let tally = match done {
            Ok(tally) => tally,
            Err(error) => {
                if !self.connection.is_autocommit() {
                    let _ = self.connection.execute_batch("ROLLBACK");
                }
                drop(turn);
                return Err(self.failed(error));
            }
        };
        // Not written, it only notices less.
        let file = self.gate.file();
        if tally.created > 0 {
            let _ = Stamp::write_slots(file, tally.last_slot);
        } else if let Some(commits) = tally.commits {
            let _ = Stamp::write_commits(file, commits);
        }
        drop(turn);
        self.remember(batch);
        self.unseen_pages += 4 + 2 * i64::from(tally.written);
        if batch.iter().any(|job| matches!(job, Job::Forget(..))) {
            // What was forgotten must not live on in the log. Readers may be in the way; then it
            // goes when the log is next overwritten.
            self.checkpoint("TRUNCATE");
        }
        Ok(())
    }

    fn failed(&mut self, error: rusqlite::Error) -> JournalError {
        let ours = faults::sqlite(&self.files.journal, error);
        // Full and busy left everything as it was. After anything else nobody can say what the
        // disk holds: the system may forget a failed write and call the next one a success.
        if matches!(ours.kind(), Kind::Full | Kind::Busy) {
            return ours;
        }
        super::opening::remember_poison(&self.files.journal);
        let poisoned = faults::poisoned(&self.files.journal, &ours);
        self.poison = Some(poisoned.clone());
        match ours.kind() {
            Kind::Corrupt | Kind::ReadOnly => ours,
            _ => poisoned,
        }
    }

    fn checkpoint_if_long(&mut self) {
        let looked = checkpoint(&self.connection, "NOOP");
        let Ok((_, logged, copied)) = looked else {
            return;
        };
        if logged - copied >= CHECKPOINT {
            self.checkpoint("PASSIVE");
        }
    }

    fn checkpoint(&mut self, mode: &str) {
        if let Err(error) = checkpoint(&self.connection, mode) {
            // The batch is safe in the log. A full disk will say so again; the rest is poison.
            self.failed(error);
        }
    }

    fn remember(&mut self, batch: &[Job]) {
        let me = self.proof.owner();
        for job in batch {
            match job {
                Job::Begin(row, waiter) => {
                    if let Some(Ok(Begun::Created(receipt))) = &waiter.answer
                        && row.entry.progress.owner == me
                    {
                        self.driven.insert(rows::signed(receipt.slot()));
                    }
                }
                Job::Record(update, _, waiter) if matches!(waiter.answer, Some(Ok(_))) => {
                    if update.owner == me && update.phase.is_open() {
                        self.driven.insert(update.slot);
                    } else {
                        self.driven.remove(&update.slot);
                    }
                }
                _ => {}
            }
        }
    }

    /// Leaves the journal in one file, if nobody else has it open.
    fn close(self) {
        if self.poison.is_none() {
            let _turn = self.gate.enter(self.patience);
            let _ = checkpoint(&self.connection, "PASSIVE");
            let _ = self.connection.close();
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the writer's own thread waits for the disk, not for the clock"
)]
fn linger(crowd: usize) {
    let jobs = u32::try_from(crowd).unwrap_or(u32::MAX);
    std::thread::sleep(LINGER.saturating_mul(jobs).min(LONGEST_LINGER));
}

fn refuse_on_error(batch: &mut [Job], committed: Result<(), JournalError>) {
    if let Err(error) = committed {
        batch.iter_mut().for_each(|job| job.refuse(&error));
    }
}

/// Copies the log into the journal. Returns whether others were in the way, and how many pages the
/// log has and how many of them are copied.
pub(super) fn checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<(i64, i64, i64)> {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    connection.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
}

/// Switches how hard commits are pressed onto the disk, and asks whether it is so. These settings
/// take effect when they are compiled, so they must not come from the cache of statements.
fn press(connection: &Connection, is_full: &mut bool, full: bool) -> rusqlite::Result<()> {
    if *is_full == full {
        return Ok(());
    }
    let (word, number) = match full {
        true => ("FULL", "2"),
        false if planted::is(4) => ("OFF", "0"),
        false => ("NORMAL", "1"),
    };
    connection.pragma_update(None, "synchronous", word)?;
    if schema::pragma(connection, "synchronous")? != number {
        return Err(rusqlite::Error::InvalidQuery);
    }
    *is_full = full;
    Ok(())
}

fn transact(connection: &Connection, batch: &mut [Job], full: bool) -> rusqlite::Result<Tally> {
    let mut tally = Tally::default();
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    for job in batch {
        match job {
            Job::Begin(row, waiter) => {
                waiter.answer = Some(begin(connection, row, &mut tally)?);
            }
            Job::Record(update, _, waiter) => {
                waiter.answer = Some(record(connection, update, &mut tally)?);
            }
            Job::Forget(slot, key, waiter) => {
                waiter.answer = Some(forget(connection, *slot, key, &mut tally)?);
            }
            Job::Reap(slots, retention, waiter) => {
                waiter.answer = Some(Ok(reap(connection, slots, retention, &mut tally)?));
            }
            Job::Close => {}
        }
    }
    let counted = full && tally.created == 0 && tally.written > 0;
    if counted || tally.open != 0 || tally.sum != 0 {
        connection
            .prepare_cached(
                "UPDATE meta SET commits = commits + ?1, open = open + ?2, sum = sum + ?3 WHERE id = 1",
            )?
            .execute([i64::from(counted), tally.open, tally.sum])?;
    }
    if counted {
        let commits = connection
            .prepare_cached("SELECT commits FROM meta WHERE id = 1")?
            .query_row([], |row| row.get(0))?;
        tally.commits = Some(rows::unsigned(commits));
    }
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(tally)
}

fn begin(
    connection: &Connection,
    row: &NewRow,
    tally: &mut Tally,
) -> rusqlite::Result<Outcome<Begun>> {
    let progress = &row.entry.progress;
    if let Some(slot) = row.insert(connection)? {
        let open = rows::is_unfinished(rows::state(progress.phase));
        tally.moved(slot, false, open);
        tally.created += 1;
        tally.last_slot = rows::unsigned(slot);
        let key = row.entry.key().clone();
        let receipt = Receipt::new(key, rows::unsigned(slot), progress.revision, Grade::Device);
        return Ok(Ok(Begun::Created(receipt)));
    }
    let holder = row.holder(connection)?.map(taken_by);
    Ok(holder.ok_or_else(|| {
        JournalError::new(
            Kind::Corrupt,
            "the journal's index names an entry that is not there; run a check",
        )
    }))
}

fn taken_by(stored: Stored) -> Begun {
    match stored {
        Stored::Entry(entry) => Begun::Exists(entry),
        Stored::Tombstone(_, tombstone) => Begun::Tombstone(tombstone),
        Stored::Damaged(damaged) => Begun::Damaged(damaged),
    }
}

fn record(
    connection: &Connection,
    update: &Update,
    tally: &mut Tally,
) -> rusqlite::Result<Outcome<Receipt>> {
    let Some(before) = update.apply(connection)? else {
        return Ok(Err(JournalError::stale(&update.key)));
    };
    let after = rows::state(update.phase);
    tally.moved(
        update.slot,
        rows::is_unfinished(before),
        rows::is_unfinished(after),
    );
    let revision = rows::unsigned(update.expected) + 1;
    let (key, slot) = (update.key.clone(), rows::unsigned(update.slot));
    Ok(Ok(Receipt::new(key, slot, revision, Grade::Device)))
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
    tally.written += reaped.entries + reaped.tombstones;
    Ok(reaped)
}

//! The one thread that writes: it takes one job, drains what waits and commits it all at once.
//!
//! Whoever asked for no more than the file is told as soon as the log is written, and goes on while
//! the log is synced for the others: what they ask for next gathers meanwhile.

mod clerk;
mod jobs;
mod link;
mod taping;
mod transact;

use super::files::{Files, Watch};
use super::gate::{Gate, Turn};
use super::lately::{Lately, Recently};
use super::names::{self, Names};
use super::owners::{BEAT, Proof};
use super::reserve::Reserve;
use super::rows::{self, NewRow, Stored};
use super::stamp::Stamp;
use super::statements::Statements;
use super::tape::Tape;
use super::{faults, schema};
use crate::journal::{Begun, JournalError, JournalErrorKind as Kind};
use crate::planted;
use clerk::Order;
pub(super) use clerk::{Clerk, Desk};
pub(super) use jobs::{Job, Outcome, Sync, Waiter};
pub(super) use link::{Link, Queue};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::collections::HashSet;
use std::fs::File;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
pub(super) use taping::Filing;
use transact::{Tally, taken_by, transact};

/// The most jobs in one transaction, and for how many memory is kept.
const BATCH: usize = 1024;
const ROOM: usize = 256;
/// From how many operations under way a batch may wait for more, and how long at most.
const CROWD: usize = 8;
const LINGER: Duration = Duration::from_micros(400);
/// A writer that waited for work for so long has time: nothing is won by waiting for more.
const IDLE: Duration = Duration::from_micros(100);
/// A sync up to here may be waited for on the caller's own thread.
const QUICK: Duration = Duration::from_micros(500);
/// Up to how many operations under way a write is done on the caller's own thread, with a sync and without.
const FEW: usize = 1;
const SOME: usize = 16;
/// Pages in the log before they are copied into the journal, if no clerk has done so.
const CHECKPOINT: i64 = 512;
/// How many pages may have been written before the log's length is looked at again.
const LOOK_AFTER: i64 = 128;

#[derive(Debug)]
pub(super) struct Writer {
    pub(super) files: Files,
    pub(super) watch: Watch,
    // Before the connection, which is closed last.
    pub(super) clerk: Clerk,
    pub(super) connection: Connection,
    /// The log, to sync it ourselves.
    pub(super) log: File,
    /// What was written lately, and what of it is not in the tables yet.
    pub(super) tape: Tape,
    pub(super) lately: Recently,
    /// The memory of a round that is filed, for the next.
    pub(super) spare: Lately,
    /// Which names are taken in the tables.
    pub(super) names: Names,
    pub(super) filing: Option<Filing>,
    /// How far the journal has got, and for how many turns nobody else wrote.
    pub(super) held: Stamp,
    pub(super) turns: u32,
    pub(super) gate: Gate,
    /// A turn that was taken before the batch came.
    pub(super) turn: Option<Turn>,
    pub(super) reserve: Reserve,
    pub(super) patience: Duration,
    /// Unfinished entries that this owner drives: while there are any, it says that it lives.
    pub(super) driven: HashSet<i64>,
    /// Whether there may be commits in the log that are not on the disk, ours or another's.
    pub(super) log_is_behind: bool,
    /// How hard SQLite itself presses a commit now.
    pub(super) full: bool,
    /// Whether the last sync was quick.
    pub(super) quick: bool,
    pub(super) unseen_pages: i64,
    /// Whether the last batch did not have to be waited for long.
    pub(super) is_busy: bool,
    /// Jobs that came while others waited for a sync, and cannot share it.
    pub(super) put_off: Vec<Job>,
    pub(super) poison: Option<JournalError>,
    // Last: others may take over only when nothing is written any more.
    pub(super) proof: Proof,
}

/// What the thread does until it is told to close.
fn run(writer: &Mutex<Option<Writer>>, queue: &Queue) {
    let mut batch = Vec::new();
    let mut closing = false;
    while !closing {
        let ((), waited) = match batch.is_empty() {
            true => timed(|| queue.take(1, BEAT, &mut batch)),
            false => ((), Duration::ZERO),
        };
        // Whoever panicked in the middle of a write leaves nothing to go on with.
        let Ok(mut held) = writer.lock() else { return };
        let Some(writer) = held.as_mut() else { return };
        if batch.is_empty() {
            if !writer.driven.is_empty() {
                writer.proof.beat_if_due();
            }
            writer.tend_log();
            continue;
        }
        writer.is_busy = waited < IDLE;
        closing = batch.iter().any(|job| matches!(job, Job::Close));
        serve(writer, queue, &mut batch);
        batch.append(&mut writer.put_off);
        batch.shrink_to(ROOM);
        writer.tend_log();
    }
    let writer = writer.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(mut writer) = writer {
        queue.take(0, Duration::ZERO, &mut batch);
        serve(&mut writer, queue, &mut batch);
        writer.close();
    }
}

/// Does all of them, not too many at a time.
fn serve(writer: &mut Writer, queue: &Queue, jobs: &mut Vec<Job>) {
    let is_busy = writer.is_busy;
    while !jobs.is_empty() {
        let mut rest = jobs.split_off(jobs.len().min(BATCH));
        // Whoever comes meanwhile must not overtake the rest.
        writer.is_busy = is_busy && rest.is_empty();
        let count = writer.serve(jobs, queue);
        queue.done(count);
        jobs.append(&mut rest);
    }
}

impl Writer {
    /// Whether a job that came now would have the writer, the journal and the disk for itself, and
    /// would not hold its caller's thread up for long.
    fn would_be_alone(&mut self, job: &Job) -> bool {
        let most = match job {
            Job::Begin(..) | Job::Record(..) if job.sync() == Sync::None => SOME,
            Job::Begin(..) | Job::Record(..) if self.quick => FEW,
            _ => return false,
        };
        if self.driven.len() > most || self.poison.is_some() {
            return false;
        }
        self.turn = self.gate.try_enter();
        self.turn.is_some()
    }

    /// Does one job on the caller's own thread. What nobody waits for is left to the writer's.
    fn serve_alone(&mut self, job: Job, queue: &Queue) {
        self.serve(&mut vec![job], queue);
        self.turn = None;
        if self.wants_look() {
            queue.send(Job::Look);
        }
    }

    /// Does all of them and tells everyone. What nobody waited for comes back into the queue. Returns how many
    /// it were, with those that came meanwhile.
    fn serve(&mut self, batch: &mut Vec<Job>, queue: &Queue) -> usize {
        self.proof.beat_if_due();
        let mut count = batch.len();
        batch.retain(|job| !matches!(job, Job::Look));
        if !batch.is_empty() {
            let mut more = Vec::new();
            self.settle(
                batch,
                &mut Company {
                    queue,
                    jobs: &mut more,
                },
            );
            count += more.len();
            batch.append(&mut more);
        }
        for job in batch.drain(..) {
            job.tell(queue);
        }
        count
    }

    /// Whether there is something to do about the tape or the log: it may have grown long, or the clerk is
    /// done with it.
    fn wants_look(&mut self) -> bool {
        (self.wants_filing() && self.filing.is_none())
            || self.unseen_pages >= LOOK_AFTER
            || self.clerk.is_done()
    }

    /// Has a long tape filed and a long log copied. Nobody is told if that fails: what is on the tape is safe
    /// there, and whoever writes next meets the same trouble.
    fn tend_log(&mut self) {
        if !self.wants_look() || self.heed_poison().is_err() {
            return;
        }
        let Ok(_turn) = self.gate.enter(self.patience) else {
            return;
        };
        if self.files.still(&mut self.watch).is_err()
            || self.is_alone().is_err()
            || self.hand_over().is_err()
        {
            return;
        }
        if self.unseen_pages >= LOOK_AFTER && self.clerk.is_free() {
            self.unseen_pages = 0;
            let looked = checkpoint(&self.connection, "NOOP");
            let long = looked.is_ok_and(|(_, logged, copied)| logged - copied >= CHECKPOINT);
            if long && !self.clerk.start(Order::Copy) {
                self.checkpoint("PASSIVE");
            }
        }
    }

    /// Gives every job of the batch its answer.
    fn settle(&mut self, batch: &mut [Job], more: &mut Company<'_>) {
        // Looked at and filled up only for somebody who needs it, as it takes what is free.
        let begins = batch.iter().any(|job| matches!(job, Job::Begin(..)));
        if begins && !self.reserve.is_whole() && self.reserve.fill().is_err() {
            return self.settle_tight(batch);
        }
        match self.commit(batch, Some(more)) {
            Err(error) if error.kind() == Kind::Full => {
                self.reserve.release();
                self.settle_tight(batch);
            }
            committed => {
                refuse_on_error(more.jobs, committed.clone());
                refuse_on_error(batch, committed);
            }
        }
    }

    /// The disk is full: nothing new, but what is under way is recorded from the reserve.
    fn settle_tight(&mut self, batch: &mut [Job]) {
        batch.sort_by_key(|job| matches!(job, Job::Begin(..)));
        let begins = batch.partition_point(|job| !matches!(job, Job::Begin(..)));
        let (old, new) = batch.split_at_mut(begins);
        if !old.is_empty() {
            let committed = self.commit(old, None);
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
    fn find_holder(&mut self, row: &NewRow) -> Outcome<Begun> {
        if let Some(poison) = &self.poison {
            return Err(poison.clone());
        }
        self.files.still(&mut self.watch)?;
        if let Some(begun) = self.lately.lock().holder(&row.name) {
            return Ok(begun);
        }
        let mut statements = Statements::new(&self.connection);
        match row.holder(&mut statements, &mut self.names) {
            Ok(Some(Stored::Entry(entry))) => {
                let entry = self.lately.lock().updated(*entry);
                Ok(Begun::Exists(Box::new(entry)))
            }
            Ok(Some(stored)) => Ok(taken_by(stored)),
            Ok(None) => Err(self.reserve.refusal()),
            Err(error) => Err(faults::sqlite(&self.files.journal, error)),
        }
    }

    /// Refuses to go on after a sync that failed.
    fn heed_poison(&self) -> Result<(), JournalError> {
        match &self.poison {
            Some(poison) => Err(poison.clone()),
            None => Ok(()),
        }
    }

    /// One transaction. Whatever fails here fails for all of them.
    fn commit(
        &mut self,
        batch: &mut [Job],
        more: Option<&mut Company<'_>>,
    ) -> Result<(), JournalError> {
        self.heed_poison()?;
        let wanted = batch.iter().map(Job::sync).max().unwrap_or(Sync::None);
        let full = wanted == Sync::BeforeSeen && !unsynced();
        let turn = match self.turn.take() {
            Some(turn) => turn,
            None => self.gate.enter(self.patience)?,
        };
        self.files.still(&mut self.watch)?;
        let is_alone = self.is_alone()?;
        if is_alone && self.is_short_of_tape(batch) {
            self.make_room()?;
        }
        let on_tape = is_alone && self.fits_tape(batch);
        let mut tally = match on_tape {
            true => self.record_on_tape(batch, full)?,
            false => self.record_in_tables(batch, full)?,
        };
        self.remember(batch);
        batch.iter_mut().for_each(Job::tell_early);
        if let Some(more) = more.filter(|_| on_tape && wanted > Sync::None && self.is_busy) {
            self.gather_company(batch, more, &mut tally);
        }
        // SQLite itself synced what must not be seen before.
        if wanted > Sync::None && !unsynced() && (on_tape || !full) {
            // Before the next turn: nobody writes behind what is not on the disk.
            let (synced, took) = timed(|| match on_tape {
                // What the tape builds on may have been told by nobody yet.
                true if self.log_is_behind => self.log.sync_data().and_then(|()| self.tape.sync()),
                true => self.tape.sync(),
                false => self.log.sync_data(),
            });
            self.quick = took < QUICK;
            if let Err(error) = synced {
                drop(turn);
                let error = faults::system("sync the log of", &self.files.journal, error);
                return Err(self.poisoned_by(error));
            }
            self.log_is_behind = false;
        }
        self.heed_poison()?;
        // Not written, it only notices less.
        let file = self.gate.file();
        if tally.created > 0 {
            let _ = Stamp::write_slots(file, tally.last_slot);
        }
        if let Some(commits) = tally.commits {
            let _ = Stamp::write_commits(file, commits);
        }
        drop(turn);
        if batch.iter().any(|job| matches!(job, Job::Forget(..))) {
            // What was forgotten must not live on in the log. Readers may be in the way; then it
            // goes when the log is next overwritten.
            self.checkpoint("TRUNCATE");
        }
        Ok(())
    }

    /// Callers who come thick and fast would on a quick disk come in small groups, each with a sync of its own.
    /// So a batch that is on the tape waits a moment for others to share one. Whoever needs none is told at once,
    /// and comes back with what they do next. Where they come now and then there is nothing to wait for.
    fn gather_company(&mut self, batch: &[Job], more: &mut Company<'_>, tally: &mut Tally) {
        let syncs = |jobs: &[Job]| jobs.iter().filter(|job| job.sync() != Sync::None).count();
        let under_way = self.driven.len();
        let mut come = syncs(batch);
        let mut left = LINGER;
        let mut jobs = Vec::new();
        while come < worth_waiting_for(under_way) && !left.is_zero() {
            let ((), took) = timed(|| more.queue.take(few(under_way), left, &mut jobs));
            left = left.saturating_sub(took);
            if jobs.is_empty() {
                return;
            }
            let full = jobs.iter().any(|job| job.sync() == Sync::BeforeSeen);
            let begins = jobs.iter().any(|job| matches!(job, Job::Begin(..)));
            if !self.fits_tape(&jobs) || (begins && !self.reserve.is_whole()) {
                self.put_off.append(&mut jobs);
                return;
            }
            match self.record_on_tape(&mut jobs, full && !unsynced()) {
                Ok(written) => tally.add(&written),
                // It is met again, and dealt with, when it is their turn.
                Err(_) => {
                    self.put_off.append(&mut jobs);
                    return;
                }
            }
            self.remember(&jobs);
            jobs.iter_mut().for_each(Job::tell_early);
            come += syncs(&jobs);
            more.jobs.append(&mut jobs);
        }
    }

    /// One transaction, after what is on the tape.
    fn record_in_tables(&mut self, batch: &mut [Job], full: bool) -> Result<Tally, JournalError> {
        self.file()?;
        if batch
            .iter()
            .any(|job| matches!(job, Job::Forget(..) | Job::Reap(..)))
        {
            // What goes must not live on there, nor come back with an old head after a power cut. If it cannot
            // be cut, the next round is written over it.
            let _ = self.tape.cut();
            let synced = self.tape.sync();
            self.on_tape(synced)?;
        }
        let done = press(&self.connection, &mut self.full, full)
            .and_then(|()| transact(&self.connection, batch, &mut self.names, full));
        match done {
            Ok(tally) => {
                self.names.forget_index();
                self.unseen_pages += 4 + 2 * i64::from(tally.written);
                self.log_is_behind = !full;
                self.held.slots = self.held.slots.max(tally.last_slot);
                self.held.commits = tally.commits.unwrap_or(self.held.commits);
                Ok(tally)
            }
            Err(error) => {
                self.roll_back();
                Err(self.failed(error))
            }
        }
    }

    fn failed(&mut self, error: rusqlite::Error) -> JournalError {
        let ours = faults::sqlite(&self.files.journal, error);
        // Full and busy left everything as it was. After anything else nobody can say what the
        // disk holds: the system may forget a failed write and call the next one a success.
        if matches!(ours.kind(), Kind::Full | Kind::Busy) {
            return ours;
        }
        self.poisoned_by(ours)
    }

    fn poisoned_by(&mut self, ours: JournalError) -> JournalError {
        super::opening::remember_poison(&self.files.journal);
        // What the log holds is copied by the next who opens it, from the start and with every checksum
        // looked at; the last to close would copy only the rest, and remove it.
        let kept = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        let _ = self.connection.set_db_config(kept, true);
        let poisoned = faults::poisoned(&self.files.journal, &ours);
        self.poison = Some(poisoned.clone());
        match ours.kind() {
            Kind::Corrupt | Kind::ReadOnly => ours,
            _ => poisoned,
        }
    }

    fn checkpoint(&mut self, mode: &str) {
        if self.poison.is_some() {
            return;
        }
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
                        && row.owner == me
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
    fn close(mut self) {
        let turn = self.gate.enter(self.patience);
        // What cannot be filed now is filed by the next who opens the journal.
        if self.poison.is_none()
            && turn.is_ok()
            && self.files.still(&mut self.watch).is_ok()
            && self.is_alone().is_ok()
            && self.file().is_ok()
        {
            let _ = self.tape.cut();
            let _ = names::merge(&self.connection, &|| true);
        }
        self.clerk.finish();
        if self.poison.is_none() {
            self.checkpoint("PASSIVE");
            let _ = self.connection.close();
        }
    }
}

/// How many should share a sync.
fn worth_waiting_for(under_way: usize) -> usize {
    match under_way >= CROWD {
        true => under_way / 4 + 1,
        false => 1,
    }
}

/// How many a batch that waits for company looks at together: fewer would wake the thread for each, more would
/// keep those waiting who need no sync.
fn few(under_way: usize) -> usize {
    under_way / 8 + 1
}

/// Where more jobs come from while a batch waits for them, and where they go.
struct Company<'a> {
    queue: &'a Queue,
    jobs: &'a mut Vec<Job>,
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long the disk takes is no matter of any clock that a test could steer"
)]
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    (work(), start.elapsed())
}

/// Bugs on purpose.
fn unsynced() -> bool {
    planted::is(3) || planted::is(4)
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

#[cfg(test)]
mod tests;

//! How the writer uses the tape: for as long as it is the only one who writes.

use super::clerk::{Done, Order};
use super::transact::{Tally, file};
use super::{Job, LOOK_AFTER, Writer, faults};
use crate::entry::{Grade, Owner, Receipt};
use crate::journal::sqlite::lately::Lately;
use crate::journal::sqlite::names::Names;
use crate::journal::sqlite::rows::{self, NewRow, Stored, Update};
use crate::journal::sqlite::stamp::Stamp;
use crate::journal::sqlite::statements::Statements;
use crate::journal::sqlite::tape::{self, Place, Step};
use crate::journal::sqlite::{opening, writer::Outcome};
use crate::journal::{Begun, JournalError, JournalErrorKind as Kind};
use crate::planted;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::sync::Arc;

/// After so many turns without anybody else's in between, the tape is used.
const ALONE: u32 = 3;
/// How many entries a round holds before it is filed.
const MANY: usize = 1024;

/// A round that is being filed.
#[derive(Debug)]
pub(in super::super) struct Filing {
    end: Place,
    held: Stamp,
}

impl Writer {
    /// Whether nobody else wrote since this writer's last turns. If somebody did, what they left on the tape is
    /// filed. The turn is ours.
    pub(super) fn is_alone(&mut self) -> Result<bool, JournalError> {
        let me = self.proof.owner();
        let last = Stamp::last_writer(self.gate.file());
        if last.map_err(|error| faults::system("read", &self.files.lock, error))? == me {
            self.turns = self.turns.saturating_add(1);
            let done = self.clerk.take_done();
            self.heed_clerk(done)?;
            return Ok(self.turns >= ALONE);
        }
        self.take_over(None)?;
        Ok(false)
    }

    /// Files what others left, and forgets what they have filed. The turn is ours. Who opens the journal says
    /// whether a loss was accepted, and looks at all of the tape: a power cut may have left the end of a round
    /// without its beginning.
    pub(in super::super) fn take_over(&mut self, opens: Option<bool>) -> Result<(), JournalError> {
        let accept_loss = opens == Some(true);
        // Whoever came in between has filed it, whatever the clerk says, if it is not that the disk failed.
        if let Some(Done::Filed(Err(error)) | Done::Copied(Err(error))) = self.clerk.wait() {
            self.failed(error);
            self.heed_poison()?;
        }
        *self.lately.lock() = Lately::default();
        self.filing = None;
        self.names.forget_index();
        // Before the tape is begun anew: whoever wrote it must not go on where it stopped, even if we do not
        // get to the end of this.
        self.note_last_writer(Owner::NONE)?;
        let unread = |writer: &Writer, error| faults::system("read", &writer.files.tape, error);
        match self.tape.all_filed().map_err(|error| unread(self, error))? {
            Some(filed) if opens.is_none() => self.tape.start(filed),
            _ => {
                let left = self.tape.left().map_err(|error| unread(self, error))?;
                if left.is_damaged && !accept_loss {
                    return Err(tape::damage(&self.files));
                }
                let lately = Lately::of(&left)?;
                self.file_here(&lately, left.held)?;
                self.start_tape(left.last)?;
            }
        }
        // Whoever wrote there may not have lived to sync it.
        self.log_is_behind = true;
        let held = opening::held(&self.connection);
        self.held = held.map_err(|error| faults::sqlite(&self.files.journal, error))?;
        let noted = Stamp::read(self.gate.file());
        let noted = noted.map_err(|error| faults::system("read", &self.files.lock, error))?;
        if !self.held.covers(noted) {
            return Err(tape::damage(&self.files));
        }
        let known = learn_names(&self.connection, &mut self.names);
        known.map_err(|error| faults::sqlite(&self.files.journal, error))?;
        self.turns = 0;
        self.note_last_writer(self.proof.owner())
    }

    fn note_last_writer(&self, owner: Owner) -> Result<(), JournalError> {
        let noted = Stamp::write_last_writer(self.gate.file(), owner);
        noted.map_err(|error| faults::system("write", &self.files.lock, error))
    }

    /// Takes note of what the clerk has done. The turn is ours, and nobody else had one since it was asked to.
    fn heed_clerk(&mut self, done: Option<Done>) -> Result<(), JournalError> {
        match done {
            Some(Done::Filed(Ok(()))) => {
                if let Some(filing) = self.filing.take() {
                    let noted = self.tape.file_to(filing.end);
                    self.on_tape(noted)?;
                }
                let filed = self.lately.lock().older.clone();
                // Before the round is let go of, where they would be found else.
                self.know_names_of(filed.as_deref())?;
                self.lately.lock().older = None;
                // Somebody who reads may still have it.
                let filed = filed.and_then(Arc::into_inner);
                self.spare = filed.map(Lately::emptied).unwrap_or_default();
            }
            Some(Done::Copied(Ok(()))) | None => {}
            // A round that could not be filed for want of space is filed when there is some.
            Some(Done::Filed(Err(error)) | Done::Copied(Err(error))) => {
                self.failed(error);
                self.heed_poison()?;
            }
        }
        Ok(())
    }

    /// What failed here was a sync, or the head of the tape: whatever the reason, nobody can say what the disk
    /// holds now.
    pub(super) fn on_tape<T>(&mut self, done: std::io::Result<T>) -> Result<T, JournalError> {
        done.map_err(|error| {
            let error = faults::system("write the tape of", &self.files.journal, error);
            self.poisoned_by(error)
        })
    }

    /// Has a long round filed behind our back, if that can begin now. The turn is ours.
    pub(super) fn hand_over(&mut self) -> Result<bool, JournalError> {
        if !self.wants_filing() || self.filing.is_some() || !self.clerk.is_free() {
            return Ok(false);
        }
        let next = self.tape.next_round();
        let next = self.on_tape(next)?;
        if let Some(end) = next {
            let held = self.held;
            let mut lately = self.lately.lock();
            let next = std::mem::take(&mut self.spare);
            let round = Arc::new(std::mem::replace(&mut *lately, next));
            lately.older = Some(Arc::clone(&round));
            drop(lately);
            self.filing = Some(Filing { end, held });
            self.clerk.start(Order::File(round, held));
        }
        Ok(next.is_some())
    }

    /// Whether a batch can go onto the tape.
    pub(super) fn fits_tape(&self, batch: &[Job]) -> bool {
        length_on_tape(batch).is_some_and(|bytes| !self.tape.is_full_with(bytes))
    }

    /// Whether a batch could go onto the tape if there were more room.
    pub(super) fn is_short_of_tape(&self, batch: &[Job]) -> bool {
        length_on_tape(batch).is_some_and(|bytes| self.tape.is_full_with(bytes))
    }

    /// Waits until the clerk has filed the round before, so that the next can begin: quicker than filing both here.
    pub(super) fn make_room(&mut self) -> Result<(), JournalError> {
        while !self.hand_over()? {
            match self.clerk.wait() {
                Some(done) => self.heed_clerk(Some(done))?,
                None => break,
            }
        }
        Ok(())
    }

    /// Whether it is time to file what is on the tape.
    pub(super) fn wants_filing(&self) -> bool {
        let many = if planted::hurries() { 4 } else { MANY };
        self.lately.lock().len() >= many || self.tape.is_long()
    }

    /// Puts what is on the tape into the tables, on the disk, and starts the tape anew. The turn is ours, and nobody
    /// else had one since the tape was written.
    pub(super) fn file(&mut self) -> Result<(), JournalError> {
        let done = self.clerk.wait();
        self.heed_clerk(done)?;
        let Some(end) = self.tape.unfiled() else {
            return Ok(());
        };
        let older = self.lately.lock().older.clone();
        if let (Some(filing), Some(older)) = (&self.filing, older) {
            let (held, end) = (filing.held, filing.end);
            self.file_here(&older, held)?;
            let noted = self.tape.file_to(end);
            self.on_tape(noted)?;
        }
        self.filing = None;
        // A copy, as others may want to read it meanwhile: they find it there or in the tables.
        let lately = self.lately.copied();
        self.file_here(&lately, self.held)?;
        *self.lately.lock() = Lately::default();
        self.start_tape(end)
    }

    fn file_here(&mut self, lately: &Lately, held: Stamp) -> Result<(), JournalError> {
        let filed = super::press(&self.connection, &mut self.full, false)
            .and_then(|()| file(&self.connection, lately, held, &|| true));
        if let Err(error) = filed {
            self.roll_back();
            return Err(self.failed(error));
        }
        self.unseen_pages += LOOK_AFTER;
        let synced = self.log.sync_data();
        self.on_tape(synced)?;
        self.log_is_behind = false;
        self.know_names_of(Some(lately))
    }

    /// Learns the names of a round that is in the tables now.
    fn know_names_of(&mut self, filed: Option<&Lately>) -> Result<(), JournalError> {
        let known = self.names.refresh(&self.connection);
        known.map_err(|error| self.failed(error))?;
        self.names
            .indexed(filed.into_iter().flat_map(Lately::open_names));
        Ok(())
    }

    fn start_tape(&mut self, filed: Place) -> Result<(), JournalError> {
        let started = self.tape.file_all(filed);
        self.on_tape(started)
    }

    /// Writes a batch onto the tape: all of it, or nothing.
    pub(super) fn record_on_tape(
        &mut self,
        batch: &mut [Job],
        counts: bool,
    ) -> Result<Tally, JournalError> {
        let mut tally = Tally::default();
        let mut held = self.held;
        self.tape.clear();
        // Whoever reads sees nothing that is not in the file.
        let lately = self.lately.clone();
        let mut lately = lately.lock();
        let gathered = self.gather(batch, &mut lately, (&mut held, &mut tally));
        let written = gathered.and_then(|()| {
            if counts && tally.created == 0 && tally.written > 0 {
                held.commits += 1;
                tally.commits = Some(held.commits);
            }
            if tally.written == 0 {
                return Ok(());
            }
            let written = self.tape.write(self.held, held);
            written.map_err(|error| faults::system("write", &self.files.tape, error))
        });
        if let Err(error) = written {
            lately.undo();
            drop(lately);
            self.roll_back();
            return Err(match error.kind() {
                Kind::Full | Kind::Busy => error,
                _ => self.poisoned_by(error),
            });
        }
        lately.keep();
        tally.last_slot = held.slots;
        self.held = held;
        Ok(tally)
    }

    /// Answers every job, and puts what it changes into the piece.
    fn gather(
        &mut self,
        batch: &mut [Job],
        lately: &mut Lately,
        (held, tally): (&mut Stamp, &mut Tally),
    ) -> Result<(), JournalError> {
        let Writer {
            connection,
            tape,
            files,
            names,
            ..
        } = self;
        let fault = |error| faults::sqlite(&files.journal, error);
        let mut tables = Tables::new(connection);
        for job in batch {
            match job {
                Job::Begin(row, waiter) => {
                    let holder = holder(lately, names, &mut tables, row).map_err(fault)?;
                    let answer = holder.unwrap_or_else(|| {
                        held.slots += 1;
                        let slot = rows::signed(held.slots);
                        tape.push(&Step::Begin(slot, &row.frozen, &row.progress));
                        lately.begin(slot, row);
                        tally.created += 1;
                        tally.written += 1;
                        Ok(Begun::Created(receipt(row, held.slots)))
                    });
                    waiter.answer = Some(answer);
                }
                Job::Record(update, _, waiter) => {
                    let fits = match lately.fits(update) {
                        Some(fits) => fits,
                        None => {
                            let found = tables.look().and_then(|tables| update.fits(tables));
                            found.map_err(fault)?.is_some()
                        }
                    };
                    let answer = if fits {
                        let key = update.key.as_str();
                        tape.push(&Step::Record(update.slot, key, &update.progress));
                        lately.record(update);
                        tally.written += 1;
                        Ok(recorded(update))
                    } else {
                        Err(JournalError::stale(&update.key))
                    };
                    waiter.answer = Some(answer);
                }
                _ => {}
            }
        }
        tables.close().map_err(fault)
    }

    pub(super) fn roll_back(&mut self) {
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }
}

/// How long the steps of a batch are on the tape, if all of them can be there.
fn length_on_tape(batch: &[Job]) -> Option<usize> {
    let lengths = batch.iter().map(|job| match job {
        Job::Begin(row, _) => Some(row.frozen.len() + row.progress.len() + 64),
        Job::Record(update, ..) => Some(update.progress.len() + 320),
        Job::Forget(..) | Job::Reap(..) | Job::Look | Job::Close => None,
    });
    lengths.sum()
}

/// Learns which names are taken, with the tables for ourselves: whoever wrote before us may still have a clerk at
/// work, who then finds that it is not their turn any more.
fn learn_names(connection: &Connection, names: &mut Names) -> rusqlite::Result<()> {
    let alone = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    names.refresh(&alone)?;
    alone.commit()
}

/// One look at the tables for a whole batch, if anybody needs one.
struct Tables<'c> {
    statements: Statements<'c>,
    is_open: bool,
}

impl<'c> Tables<'c> {
    fn new(connection: &'c Connection) -> Tables<'c> {
        Tables {
            statements: Statements::new(connection),
            is_open: false,
        }
    }

    fn look(&mut self) -> rusqlite::Result<&mut Statements<'c>> {
        if !self.is_open {
            self.run("BEGIN")?;
            self.is_open = true;
        }
        Ok(&mut self.statements)
    }

    fn close(self) -> rusqlite::Result<()> {
        match self.is_open {
            true => self.run("COMMIT"),
            false => Ok(()),
        }
    }

    fn run(&self, sql: &str) -> rusqlite::Result<()> {
        self.statements
            .connection
            .prepare_cached(sql)?
            .execute([])?;
        Ok(())
    }
}

/// Who has the name of a new entry already, on the tape or in the tables.
fn holder(
    lately: &Lately,
    names: &mut Names,
    tables: &mut Tables<'_>,
    row: &NewRow,
) -> rusqlite::Result<Option<Outcome<Begun>>> {
    if let Some(begun) = lately.holder(&row.name) {
        return Ok(Some(Ok(begun)));
    }
    if names.is_surely_free(tables.statements.connection, &row.name)? {
        return Ok(None);
    }
    let stored = row.holder(tables.look()?, names)?;
    Ok(stored.map(|stored| {
        Ok(match stored {
            Stored::Entry(entry) => Begun::Exists(Box::new(lately.updated(*entry))),
            other => super::taken_by(other),
        })
    }))
}

pub(super) fn receipt(row: &NewRow, slot: u64) -> Receipt {
    Receipt::new(row.key.clone(), slot, row.revision, Grade::Device)
}

pub(super) fn recorded(update: &Update) -> Receipt {
    let (key, slot) = (update.key.clone(), rows::unsigned(update.slot));
    Receipt::new(key, slot, rows::unsigned(update.revision()), Grade::Device)
}

//! How the writer uses the tape: for as long as it is the only one who writes.

use super::transact::{Tally, file};
use super::{Job, Writer, faults};
use crate::entry::{Grade, Receipt};
use crate::journal::sqlite::lately::{Lately, Undo};
use crate::journal::sqlite::rows::{self, NewRow, Stored, Update};
use crate::journal::sqlite::stamp::Stamp;
use crate::journal::sqlite::statements::Statements;
use crate::journal::sqlite::tape::{self, Step};
use crate::journal::sqlite::{opening, writer::Outcome};
use crate::journal::{Begun, JournalError, JournalErrorKind as Kind};
use std::sync::Arc;

/// After so many turns without anybody else's in between, the tape is used.
const ALONE: u32 = 3;
/// How many entries may be on the tape before they are filed: that takes a millisecond or two.
const MANY: usize = 512;

impl Writer {
    /// Whether nobody else wrote since this writer's last turns. If somebody did, what they left on the tape is
    /// filed. The turn is ours.
    pub(in super::super) fn is_alone(&mut self) -> Result<bool, JournalError> {
        let me = self.proof.owner();
        let last = Stamp::last_writer(self.gate.file());
        if last.map_err(|error| faults::system("read", &self.files.lock, error))? == me {
            self.turns = self.turns.saturating_add(1);
            return Ok(self.turns >= ALONE);
        }
        self.take_over(false)?;
        Ok(false)
    }

    /// Files what others left, and forgets what they have filed. The turn is ours.
    pub(in super::super) fn take_over(&mut self, accept_loss: bool) -> Result<(), JournalError> {
        let unread = |writer: &Writer, error| faults::system("read", &writer.files.tape, error);
        // Whoever came in between has filed it.
        self.lately = Lately::default();
        match self.tape.all_filed().map_err(|error| unread(self, error))? {
            Some(filed) => self.tape.start(filed),
            None => {
                let left = self.tape.left().map_err(|error| unread(self, error))?;
                if left.is_damaged && !accept_loss {
                    return Err(tape::damage(&self.files));
                }
                self.tape.start(left.filed);
                self.lately = Lately::of(&left)?;
                self.held = left.held;
                self.file_all()?;
            }
        }
        let held = opening::held(&self.connection);
        self.held = held.map_err(|error| faults::sqlite(&self.files.journal, error))?;
        let noted = Stamp::read(self.gate.file());
        let noted = noted.map_err(|error| faults::system("read", &self.files.lock, error))?;
        if !self.held.covers(noted) {
            return Err(tape::damage(&self.files));
        }
        self.turns = 0;
        let noted = Stamp::write_last_writer(self.gate.file(), self.proof.owner());
        noted.map_err(|error| faults::system("write", &self.files.lock, error))
    }

    /// Whether a batch can go onto the tape.
    pub(super) fn fits_tape(&self, batch: &[Job]) -> bool {
        let mut bytes = 0;
        let simple = batch.iter().all(|job| match job {
            Job::Begin(row, _) => {
                bytes += row.frozen.len() + row.progress.len() + 64;
                true
            }
            Job::Record(update, ..) => {
                bytes += update.progress.len() + 320;
                true
            }
            Job::Forget(..) | Job::Reap(..) | Job::File(_) | Job::Look | Job::Close => false,
        });
        simple && !self.tape.is_full_with(bytes)
    }

    /// Whether it is time to file what is on the tape.
    pub(super) fn wants_filing(&self) -> bool {
        self.lately.len() >= MANY || self.tape.is_long()
    }

    /// Puts what is on the tape into the tables, on the disk, and starts the tape anew. The turn is ours, and nobody
    /// else had one since the tape was written.
    pub(super) fn file(&mut self) -> Result<(), JournalError> {
        if self.lately.is_empty() && !self.tape.is_used() {
            return Ok(());
        }
        self.file_all()
    }

    fn file_all(&mut self) -> Result<(), JournalError> {
        let filed = super::press(&self.connection, &mut self.full, false)
            .and_then(|()| file(&self.connection, &self.lately, self.held));
        let tally = match filed {
            Ok(tally) => tally,
            Err(error) => {
                self.roll_back();
                return Err(self.failed(error));
            }
        };
        self.unseen_pages += 4 + 2 * i64::from(tally.written);
        let round = self.tape.round();
        let started = self.log.sync_data().and_then(|()| self.tape.filed(round));
        if let Err(error) = started {
            let error = faults::system("sync the log of", &self.files.journal, error);
            return Err(self.poisoned_by(error));
        }
        self.lately = Lately::default();
        Ok(())
    }

    /// Writes a batch onto the tape: all of it, or nothing.
    pub(super) fn record_on_tape(
        &mut self,
        batch: &mut [Job],
        counts: bool,
    ) -> Result<Tally, JournalError> {
        let mut done = Vec::new();
        let mut tally = Tally::default();
        let mut held = self.held;
        self.tape.clear();
        let gathered = self.gather(batch, &mut held, &mut tally, &mut done);
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
            self.lately.undo(done);
            self.roll_back();
            return Err(match error.kind() {
                Kind::Full | Kind::Busy => error,
                _ => self.poisoned_by(error),
            });
        }
        tally.last_slot = held.slots;
        self.held = held;
        Ok(tally)
    }

    /// Answers every job, and puts what it changes into the piece.
    fn gather(
        &mut self,
        batch: &mut [Job],
        held: &mut Stamp,
        tally: &mut Tally,
        done: &mut Vec<Undo>,
    ) -> Result<(), JournalError> {
        let Writer {
            connection,
            lately,
            tape,
            files,
            ..
        } = self;
        let fault = |error| faults::sqlite(&files.journal, error);
        let mut statements = Statements::new(connection);
        // One look at the tables for all of them.
        let looking = connection
            .prepare_cached("BEGIN")
            .and_then(|mut s| s.execute([]));
        looking.map_err(fault)?;
        for job in batch {
            match job {
                Job::Begin(row, waiter) => {
                    let holder = holder(lately, &mut statements, row).map_err(fault)?;
                    let answer = holder.unwrap_or_else(|| {
                        held.slots += 1;
                        let slot = rows::signed(held.slots);
                        tape.push(&Step::Begin(slot, &row.frozen, &row.progress));
                        done.push(lately.begin(slot, row));
                        tally.created += 1;
                        tally.written += 1;
                        Ok(Begun::Created(receipt(row, held.slots)))
                    });
                    waiter.answer = Some(answer);
                }
                Job::Record(update, _, waiter) => {
                    let fits = match lately.fits(update) {
                        Some(fits) => fits,
                        None => update.fits(&mut statements).map_err(fault)?.is_some(),
                    };
                    let answer = if fits {
                        let key = update.key.as_str();
                        tape.push(&Step::Record(update.slot, key, &update.progress));
                        done.push(lately.record(update));
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
        drop(statements);
        let looked = connection
            .prepare_cached("COMMIT")
            .and_then(|mut s| s.execute([]));
        looked.map_err(fault)?;
        Ok(())
    }

    pub(super) fn roll_back(&mut self) {
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }
}

/// Who has the name of a new entry already, on the tape or in the tables.
fn holder(
    lately: &Lately,
    statements: &mut Statements<'_>,
    row: &NewRow,
) -> rusqlite::Result<Option<Outcome<Begun>>> {
    if let Some(begun) = lately.holder(&row.name) {
        return Ok(Some(Ok(begun)));
    }
    if !row.is_taken(statements)? {
        return Ok(None);
    }
    let stored = row.holder(statements.connection)?;
    Ok(stored.map(|stored| {
        Ok(match stored {
            Stored::Entry(entry) => Begun::Exists(Box::new(lately.updated(*entry))),
            other => super::taken_by(other),
        })
    }))
}

fn receipt(row: &NewRow, slot: u64) -> Receipt {
    let key = row.entry.key().clone();
    Receipt::new(key, slot, row.entry.progress.revision, Grade::Device)
}

pub(super) fn recorded(update: &Arc<Update>) -> Receipt {
    let (key, slot) = (update.key.clone(), rows::unsigned(update.slot));
    Receipt::new(key, slot, rows::unsigned(update.revision()), Grade::Device)
}

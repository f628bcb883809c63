//! What is on the tape and not in the tables yet, as its writer knows it.

use super::faults;
use super::files::{self, Files};
use super::names::{Name, Named};
use super::rows::{self, NewRow, Stored, Update};
use super::stamp::Stamp;
use super::statements::Statements;
use super::tape::{self, Left, Step};
use crate::entry::{DecodeError, Entry, Expected, Frozen, Owner, Progress};
use crate::journal::{Begun, Damaged, JournalError};
use crate::key::Key;
use rusqlite::Connection;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The same for the writer and for who reads in its process.
#[derive(Clone, Debug, Default)]
pub(super) struct Recently(Arc<Mutex<Lately>>);

impl Recently {
    pub(super) fn lock(&self) -> MutexGuard<'_, Lately> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn copied(&self) -> Lately {
        self.lock().clone()
    }
}

/// Entries by slot and by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Lately {
    rows: BTreeMap<i64, Recent>,
    names: HashMap<Name, i64>,
    /// The round before, while it is being filed.
    pub(super) older: Option<Arc<Lately>>,
}

/// One entry: as it began, if it did so on the tape, and what became of it since.
#[derive(Clone, Debug, Default)]
struct Recent {
    begun: Option<Arc<NewRow>>,
    latest: Option<Arc<Update>>,
}

impl Recent {
    fn progress(&self) -> Option<(i64, &[u8])> {
        match (&self.latest, &self.begun) {
            (Some(update), _) => Some((update.revision(), &update.progress)),
            (None, Some(row)) => Some((rows::signed(row.revision), &row.progress)),
            (None, None) => None,
        }
    }
}

/// What a step replaced, so that it can be taken back.
#[derive(Debug)]
pub(super) struct Undo(i64, Option<Recent>);

/// What is on the tape for anybody to see: all of it is on the disk. `mine` is what this process has there.
pub(super) fn seen(
    files: &Files,
    mine: Option<(Owner, &Recently)>,
) -> Result<Lately, JournalError> {
    let failed = |error| faults::system("read", &files.tape, error);
    if let Some((owner, recently)) = mine
        && File::open(&files.lock)
            .and_then(|file| Stamp::last_writer(&file))
            .ok()
            == Some(owner)
    {
        let lately = recently.copied();
        return files::press(&files.tape).map(|()| lately).map_err(failed);
    }
    on_tape(files)
}

/// What is on the tape, whoever wrote it, for anybody to see.
pub(super) fn on_tape(files: &Files) -> Result<Lately, JournalError> {
    let left = Left::settled(files);
    let left = left.map_err(|error| faults::system("read", &files.tape, error))?;
    if left.is_damaged {
        return Err(tape::damage(files));
    }
    Lately::of(&left)
}

impl Lately {
    /// What somebody left on the tape.
    pub(super) fn of(left: &Left) -> Result<Lately, JournalError> {
        let mut lately = Lately::default();
        for step in left.steps() {
            let slot = match &step {
                Step::Begin(slot, ..) | Step::Record(slot, ..) => *slot,
            };
            let taken = lately.take(&step);
            taken.map_err(|error| JournalError::unreadable(rows::unsigned(slot), error))?;
        }
        Ok(lately)
    }

    fn take(&mut self, step: &Step<'_>) -> Result<(), DecodeError> {
        match step {
            Step::Begin(slot, frozen, progress) => {
                let frozen = Frozen::decode(frozen)?;
                let entry = Entry {
                    slot: rows::unsigned(*slot),
                    progress: Progress::decode(progress, &frozen.key)?,
                    frozen: Arc::new(frozen),
                };
                self.begin(*slot, &Arc::new(NewRow::new(&entry)));
            }
            Step::Record(slot, key, progress) => {
                let key = Key::adopt(key).map_err(|_| DecodeError::Content("key"))?;
                let progress = Progress::decode(progress, &key)?;
                let mut replaced = Expected::of(&progress);
                replaced.revision = replaced.revision.saturating_sub(1);
                let update = Update::new(rows::unsigned(*slot), key, &replaced, &progress);
                self.record(&Arc::new(update));
            }
        }
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Who has this name, if they began on the tape.
    pub(super) fn holder(&self, name: &Name) -> Option<Begun> {
        let begun_in = |lately: &Lately| {
            let slot = lately.names.get(name)?;
            let row = lately.rows.get(slot)?.begun.as_ref()?;
            // A name is taken even if nobody could read by whom.
            Some(match row.entry(*slot) {
                Ok(entry) => Begun::Exists(Box::new(self.updated(entry))),
                Err(error) => Begun::Damaged(Damaged {
                    slot: rows::unsigned(*slot),
                    key: Some(row.key.clone()),
                    error,
                }),
            })
        };
        begun_in(self).or_else(|| self.older.as_deref().and_then(begun_in))
    }

    fn begun(&self, slot: i64, row: &NewRow) -> Option<Entry> {
        // Encoded by this process, or read and checked by it.
        row.entry(slot).ok().map(|entry| self.updated(entry))
    }

    /// An entry of the tables, or one that began on the tape, as it is now.
    pub(super) fn updated(&self, mut entry: Entry) -> Entry {
        if let Some(older) = &self.older {
            entry = older.updated(entry);
        }
        let recent = self.rows.get(&rows::signed(entry.slot));
        // Encoded by this process, or read and checked by it.
        if let Some(update) = recent.and_then(|recent| recent.latest.as_ref())
            && let Ok(progress) = Progress::decode(&update.progress, entry.key())
        {
            entry.progress = progress;
        }
        entry
    }

    /// Whether an update replaces what is here; nothing if the entry is not.
    pub(super) fn fits(&self, update: &Update) -> Option<bool> {
        let Some(recent) = self.rows.get(&update.slot) else {
            return self.older.as_ref()?.fits(update);
        };
        let (revision, progress) = recent.progress()?;
        let key = match (&recent.latest, &recent.begun) {
            (Some(latest), _) => latest.key == update.key,
            (None, Some(row)) => row.key == update.key,
            (None, None) => false,
        };
        Some(key && update.follows(revision, progress))
    }

    pub(super) fn begin(&mut self, slot: i64, row: &Arc<NewRow>) -> Undo {
        self.names.insert(row.name, slot);
        let recent = Recent {
            begun: Some(Arc::clone(row)),
            latest: None,
        };
        Undo(slot, self.rows.insert(slot, recent))
    }

    pub(super) fn record(&mut self, update: &Arc<Update>) -> Undo {
        let recent = self.rows.get(&update.slot).cloned();
        let undo = Undo(update.slot, recent.clone());
        let mut recent = recent.unwrap_or_default();
        recent.latest = Some(Arc::clone(update));
        self.rows.insert(update.slot, recent);
        undo
    }

    /// Takes back what could not be written, the last first.
    pub(super) fn undo(&mut self, done: Vec<Undo>) {
        for Undo(slot, before) in done.into_iter().rev() {
            let after = match before {
                Some(before) => self.rows.insert(slot, before),
                None => self.rows.remove(&slot),
            };
            if let Some(row) = after.and_then(|recent| recent.begun)
                && !self.rows.contains_key(&slot)
            {
                self.names.remove(&row.name);
            }
        }
    }

    /// Puts everything into the tables. What is there already stays as it is, if it is not older: it may have
    /// been filed before, by somebody who did not live to say so. `moved` hears of each that changed: its slot,
    /// the state that it had and the one that it has. Returns the names that are to be written into a run.
    pub(super) fn file(
        &self,
        statements: &mut Statements<'_>,
        moved: &mut dyn FnMut(i64, Option<i64>, i64),
    ) -> rusqlite::Result<Vec<Named>> {
        let mut named = Vec::new();
        let newest = statements
            .connection
            .prepare_cached("SELECT ifnull(max(slot), 0) FROM entries")?
            .query_row([], |row| row.get::<_, i64>(0))?;
        for (slot, recent) in &self.rows {
            let latest = recent.latest.as_deref();
            match &recent.begun {
                Some(row) if *slot > newest || !row.is_filed(statements, *slot)? => {
                    let state = rows::state(latest.map_or(row.phase, |update| update.phase));
                    let leaves = state == rows::SETTLED;
                    if row
                        .insert(statements, Some(*slot), latest, leaves)?
                        .is_none()
                    {
                        // Another entry has its name, which cannot be.
                        return Err(rows::contradicted());
                    }
                    named.extend(leaves.then_some((row.name, *slot)));
                    moved(*slot, None, state);
                }
                _ => {
                    if let Some(update) = latest
                        && let Some((before, name)) = update.supersede(statements)?
                    {
                        named.extend(name.map(|name| (name, *slot)));
                        moved(*slot, Some(before), rows::state(update.phase));
                    }
                }
            }
        }
        Ok(named)
    }

    /// The names of those that began here and are not settled: filed, they stand in the index.
    pub(super) fn open_names(&self) -> impl Iterator<Item = Name> + '_ {
        self.rows.values().filter_map(|recent| {
            let row = recent.begun.as_ref()?;
            let latest = recent.latest.as_ref();
            let phase = latest.map_or(row.phase, |update| update.phase);
            (!phase.is_settled()).then_some(row.name)
        })
    }

    /// Every entry on the tape as it is now, oldest first; half of one may be in the tables.
    pub(super) fn entries(&self, connection: &Connection) -> rusqlite::Result<Vec<Entry>> {
        let mut entries = match &self.older {
            Some(older) => older.entries(connection)?,
            None => Vec::new(),
        };
        // What goes on here has begun there, or is told anew here.
        entries.retain(|entry| !self.rows.contains_key(&rows::signed(entry.slot)));
        for (slot, recent) in &self.rows {
            let begun = recent
                .begun
                .as_ref()
                .or_else(|| self.older.as_ref()?.rows.get(slot)?.begun.as_ref());
            let entry = match (begun, rows::load(connection, rows::unsigned(*slot))?) {
                // Filed since: the tables may know more.
                (_, Some(Stored::Entry(entry))) => {
                    let known = entry.progress.revision;
                    let newer = recent
                        .progress()
                        .is_some_and(|(it, _)| it > rows::signed(known));
                    newer.then(|| self.updated(*entry))
                }
                (Some(row), None) => self.begun(*slot, row),
                _ => None,
            };
            entries.extend(entry);
        }
        entries.sort_by_key(|entry| entry.slot);
        Ok(entries)
    }
}

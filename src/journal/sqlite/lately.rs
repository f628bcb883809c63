//! What is on the tape and not in the tables yet, as its writer knows it.

use super::faults;
use super::files::{self, Files};
use super::names::{ByDigest, Name, Named};
use super::rows::{self, NewRow, Now, Start, Stored, Update};
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
    names: HashMap<Name, i64, ByDigest>,
    /// What the entries are made of: a copy, as what a caller's thread took it should give back itself, and soon.
    bytes: Arc<Vec<u8>>,
    /// What the steps since the last piece replaced, so that they can be taken back, and how many bytes there were.
    replaced: Vec<(i64, Option<Recent>)>,
    kept: usize,
    /// The round before, while it is being filed.
    pub(super) older: Option<Arc<Lately>>,
}

/// By how much the memory of a round grows at most, and how much of it is kept for another.
const STEP: usize = 1 << 17;
const SPARE: usize = 1 << 20;

/// From where to where, in the bytes of a round.
#[derive(Clone, Copy, Debug)]
struct Span(usize, usize);

/// One entry: as it began, if it did so on the tape, and as it is now.
#[derive(Clone, Copy, Debug)]
struct Recent {
    key: Span,
    start: Option<Start<Span>>,
    now: Now<Span>,
}

/// What is on the tape for anybody to see: all of it is on the disk. `mine` is what this process has there, of which
/// a reader may want only one `slot`.
pub(super) fn seen(
    files: &Files,
    mine: Option<(Owner, &Recently)>,
    slot: Option<u64>,
) -> Result<Lately, JournalError> {
    let failed = |error| faults::system("read", &files.tape, error);
    if let Some((owner, recently)) = mine
        && File::open(&files.lock)
            .and_then(|file| Stamp::last_writer(&file))
            .ok()
            == Some(owner)
    {
        let lately = match slot {
            Some(slot) => recently.lock().only(rows::signed(slot)),
            None => recently.copied(),
        };
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
        lately.keep();
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
                self.begin(*slot, &NewRow::new(&entry));
            }
            Step::Record(slot, key, progress) => {
                let key = Key::adopt(key).map_err(|_| DecodeError::Content("key"))?;
                let progress = Progress::decode(progress, &key)?;
                let mut replaced = Expected::of(&progress);
                replaced.revision = replaced.revision.saturating_sub(1);
                let update = Update::new(rows::unsigned(*slot), key, &replaced, &progress);
                self.record(&update);
            }
        }
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Who has this name, if they began on the tape.
    pub(super) fn holder(&self, name: &Name) -> Option<Begun> {
        let begun_in = |lately: &Lately| {
            let slot = lately.names.get(name)?;
            // A name is taken even if nobody could read by whom.
            Some(match lately.begun(*slot)? {
                Ok(entry) => Begun::Exists(Box::new(self.updated(entry))),
                Err(error) => Begun::Damaged(Damaged {
                    slot: rows::unsigned(*slot),
                    key: lately.key_of(*slot),
                    error,
                }),
            })
        };
        begun_in(self).or_else(|| self.older.as_deref().and_then(begun_in))
    }

    /// The entry in this slot as this round knows it, if it began there.
    fn begun(&self, slot: i64) -> Option<Result<Entry, DecodeError>> {
        let recent = self.rows.get(&slot)?;
        let frozen = Frozen::decode(self.part(recent.start?.frozen));
        Some(frozen.and_then(|frozen| {
            Ok(Entry {
                slot: rows::unsigned(slot),
                progress: Progress::decode(self.part(recent.now.progress), &frozen.key)?,
                frozen: Arc::new(frozen),
            })
        }))
    }

    fn key_of(&self, slot: i64) -> Option<Key> {
        let key = self.part(self.rows.get(&slot)?.key);
        Key::adopt(std::str::from_utf8(key).ok()?).ok()
    }

    fn part(&self, Span(from, to): Span) -> &[u8] {
        &self.bytes[from..to]
    }

    /// Adds parts to the bytes.
    fn adding(&mut self) -> impl FnMut(&[u8]) -> Span {
        // Copied only if somebody reads it at this moment.
        let bytes = Arc::make_mut(&mut self.bytes);
        |part| {
            let from = bytes.len();
            if bytes.capacity() - from < part.len() {
                // Not twice as much for long: a round is a megabyte.
                bytes.reserve_exact(part.len() + bytes.capacity().clamp(1 << 10, STEP));
            }
            bytes.extend_from_slice(part);
            Span(from, bytes.len())
        }
    }

    /// An entry of the tables, or one that began on the tape, as it is now.
    pub(super) fn updated(&self, mut entry: Entry) -> Entry {
        if let Some(older) = &self.older {
            entry = older.updated(entry);
        }
        // Encoded by this process, or read and checked by it.
        if let Some(recent) = self.rows.get(&rows::signed(entry.slot))
            && recent.now.revision > rows::signed(entry.progress.revision)
            && let Ok(progress) = Progress::decode(self.part(recent.now.progress), entry.key())
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
        let is_same = self.part(recent.key) == update.key.as_str().as_bytes();
        Some(is_same && update.follows(recent.now.revision, self.part(recent.now.progress)))
    }

    /// A copy of what is known of one entry.
    fn only(&self, slot: i64) -> Lately {
        let mut only = Lately::default();
        if let Some(recent) = self.rows.get(&slot) {
            let mut add = only.adding();
            let copy = Recent {
                key: add(self.part(recent.key)),
                start: recent
                    .start
                    .map(|start| start.with(|span| self.part(span)).with(&mut add)),
                now: recent.now.with(|span| self.part(span)).with(add),
            };
            only.rows.insert(slot, copy);
        }
        only.older = self.older.as_ref().map(|older| Arc::new(older.only(slot)));
        only
    }

    pub(super) fn begin(&mut self, slot: i64, row: &NewRow) {
        self.names.insert(row.name, slot);
        let mut add = self.adding();
        let recent = Recent {
            key: add(row.key.as_str().as_bytes()),
            start: Some(row.start().with(&mut add)),
            now: row.now().with(add),
        };
        self.replaced.push((slot, self.rows.insert(slot, recent)));
    }

    pub(super) fn record(&mut self, update: &Update) {
        let slot = update.slot;
        let start = self.rows.get(&slot).and_then(|recent| recent.start);
        let mut add = self.adding();
        let recent = Recent {
            key: add(update.key.as_str().as_bytes()),
            start,
            now: update.now().with(add),
        };
        self.replaced.push((slot, self.rows.insert(slot, recent)));
    }

    /// What was added is written, and stays.
    pub(super) fn keep(&mut self) {
        self.replaced.clear();
        self.kept = self.bytes.len();
    }

    /// Takes back what could not be written, the last first.
    pub(super) fn undo(&mut self) {
        while let Some((slot, before)) = self.replaced.pop() {
            let after = match before {
                Some(before) => self.rows.insert(slot, before),
                None => self.rows.remove(&slot),
            };
            if let Some(start) = after.and_then(|recent| recent.start)
                && !self.rows.contains_key(&slot)
            {
                self.names.remove(&start.name);
            }
        }
        Arc::make_mut(&mut self.bytes).truncate(self.kept);
    }

    /// With nothing in it, to be filled again: its memory need not be taken anew, page by page.
    pub(super) fn emptied(mut self) -> Lately {
        match Arc::get_mut(&mut self.bytes) {
            Some(bytes) => {
                bytes.clear();
                bytes.shrink_to(SPARE);
            }
            None => self.bytes = Arc::default(),
        }
        self.rows.clear();
        self.names.clear();
        self.keep();
        self.older = None;
        self
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
        for (filed, (slot, recent)) in self.rows.iter().enumerate() {
            if filed % 16 == 15 {
                // Whoever waits for the writer must not wait for a whole round.
                std::thread::yield_now();
            }
            let now = recent.now.with(|span| self.part(span));
            let state = rows::state(now.phase);
            match recent.start {
                Some(start) if *slot > newest || !now.is_filed(statements, *slot)? => {
                    let start = start.with(|span| self.part(span));
                    let leaves = state == rows::SETTLED;
                    if start
                        .insert(statements, Some(*slot), &now, leaves)?
                        .is_none()
                    {
                        // Another entry has its name, which cannot be.
                        return Err(rows::contradicted());
                    }
                    named.extend(leaves.then_some((start.name, *slot)));
                    moved(*slot, None, state);
                }
                _ => {
                    if let Some(before) = now.supersede(statements, *slot)? {
                        moved(*slot, Some(before), state);
                    }
                }
            }
        }
        Ok(named)
    }

    /// The names of those that began here and are not settled: filed, they stand in the index.
    pub(super) fn open_names(&self) -> impl Iterator<Item = Name> + '_ {
        self.rows.values().filter_map(|recent| {
            let open = !recent.now.phase.is_settled();
            recent.start.filter(|_| open).map(|start| start.name)
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
            let entry = match rows::load(connection, rows::unsigned(*slot))? {
                // Filed since: the tables may know more.
                Some(Stored::Entry(entry)) => {
                    let known = rows::signed(entry.progress.revision);
                    (recent.now.revision > known).then_some(*entry)
                }
                // Encoded by this process, or read and checked by it.
                None => self
                    .begun(*slot)
                    .or_else(|| self.older.as_ref()?.begun(*slot))
                    .and_then(Result::ok),
                Some(_) => None,
            };
            entries.extend(entry.map(|entry| self.updated(entry)));
        }
        entries.sort_by_key(|entry| entry.slot);
        Ok(entries)
    }
}

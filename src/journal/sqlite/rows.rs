//! Entries as rows. The row's columns only repeat what its two blobs say, so that they can be
//! searched; on reading they are compared, and a row that contradicts itself is damaged.

use super::names::{Name, Named, Names};
use super::statements::Statements;
use crate::entry::{DecodeError, Entry, Frozen, Kept, Owner, Phase, Progress, Scope, WindowSource};
use crate::fingerprint::Fingerprint;
use crate::journal::{Damaged, Expected, Listing, Query, Retention, Select, Tombstone};
use crate::key::{Key, Reference};
use crate::message::Headers;
use crate::retry::classify::Complete;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Error, OptionalExtension, Result, Row, ffi, params};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;

const OPEN: i64 = 0;
const EXHAUSTED: i64 = 1;
const ATTENTION: i64 = 2;
pub(super) const SETTLED: i64 = 3;
pub(super) const TOMBSTONE: i64 = 4;
/// What follows the phase in a progress that is open.
const NO_REASON: u8 = 0;

/// The group that a phase belongs to, as the partial indexes know it.
pub(super) fn state(phase: Phase) -> i64 {
    if phase.is_open() {
        OPEN
    } else if phase.is_unfinished() {
        EXHAUSTED
    } else if phase.is_settled() {
        SETTLED
    } else {
        ATTENTION
    }
}

/// Whether a state is in the index of unfinished entries.
pub(super) fn is_unfinished(state: i64) -> bool {
    state <= EXHAUSTED
}

/// A number as SQLite keeps it.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// The digest of what must be unique.
pub(super) fn name_of(frozen: &Frozen) -> Name {
    let mut hash = Sha256::new();
    for part in [frozen.scope.as_str().as_bytes(), frozen.intent.as_bytes()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.update(frozen.generation.to_le_bytes());
    let hash: [u8; 32] = hash.finalize().into();
    std::array::from_fn(|i| hash[i])
}

/// The reference as a number, cheap to compare in a scan.
pub(super) fn number_of(reference: Reference) -> i64 {
    signed(reference.number())
}

fn ended_of(progress: &Progress) -> i64 {
    match progress.phase.is_settled() {
        true => signed(progress.ended_at().as_millis()),
        false => 0,
    }
}

/// The half of a row that is written once. `B` is its bytes, or where they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start<B> {
    pub(super) name: Name,
    begun: i64,
    scope: B,
    pub(super) frozen: B,
}

impl<B> Start<B> {
    /// The same with its bytes held in another way.
    pub(super) fn with<C>(self, mut hold: impl FnMut(B) -> C) -> Start<C> {
        Start {
            name: self.name,
            begun: self.begun,
            scope: hold(self.scope),
            frozen: hold(self.frozen),
        }
    }
}

/// The half that is written again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now<B> {
    pub(super) phase: Phase,
    pub(super) revision: i64,
    reference: i64,
    ended: i64,
    pub(super) progress: B,
}

impl<B> Now<B> {
    /// The same with its bytes held in another way.
    pub(super) fn with<C>(self, hold: impl FnOnce(B) -> C) -> Now<C> {
        Now {
            phase: self.phase,
            revision: self.revision,
            reference: self.reference,
            ended: self.ended,
            progress: hold(self.progress),
        }
    }
}

/// A row to insert, encoded by the caller so that the writer need not.
#[derive(Debug)]
pub(super) struct NewRow {
    pub(super) name: Name,
    pub(super) key: Key,
    pub(super) phase: Phase,
    pub(super) revision: u64,
    pub(super) owner: Owner,
    reference: i64,
    begun: i64,
    ended: i64,
    scope: Scope,
    pub(super) frozen: Vec<u8>,
    pub(super) progress: Vec<u8>,
}

impl NewRow {
    pub(super) fn new(entry: &Entry) -> NewRow {
        let (frozen, progress) = (&entry.frozen, &entry.progress);
        NewRow {
            name: name_of(frozen),
            key: frozen.key.clone(),
            phase: progress.phase,
            revision: progress.revision,
            owner: progress.owner,
            reference: number_of(entry.reference()),
            begun: signed(frozen.begun_at.as_millis()),
            ended: ended_of(progress),
            scope: frozen.scope.clone(),
            frozen: frozen.encode(),
            progress: progress.encode(&frozen.key),
        }
    }

    pub(super) fn start(&self) -> Start<&[u8]> {
        Start {
            name: self.name,
            begun: self.begun,
            scope: self.scope.as_str().as_bytes(),
            frozen: &self.frozen,
        }
    }

    pub(super) fn now(&self) -> Now<&[u8]> {
        Now {
            phase: self.phase,
            revision: signed(self.revision),
            reference: self.reference,
            ended: self.ended,
            progress: &self.progress,
        }
    }

    /// The larger of its two parts.
    pub(super) fn bytes(&self) -> usize {
        self.frozen.len().max(self.progress.len())
    }

    /// Who has the name already.
    pub(super) fn holder(
        &self,
        statements: &mut Statements<'_>,
        names: &mut Names,
    ) -> Result<Option<Stored>> {
        let indexed = statements
            .named()?
            .query_row([self.name], |row| row.get(0))
            .optional()?;
        let slot = match indexed {
            Some(slot) => Some(slot),
            None => names.slot_of(statements.connection, &self.name)?,
        };
        match slot {
            Some(slot) => load(statements.connection, unsigned(slot)),
            None => Ok(None),
        }
    }
}

impl Start<&[u8]> {
    /// Inserts it as it is `now`, in the slot that it was given or in the next one, unless the index has the name
    /// already. Returns the slot. A name that `leaves` is written into a run, by the caller.
    pub(super) fn insert(
        &self,
        statements: &mut Statements<'_>,
        slot: Option<i64>,
        now: &Now<&[u8]>,
        leaves: bool,
    ) -> Result<Option<i64>> {
        let inserted = statements.insert()?.execute(params![
            self.name,
            state(now.phase),
            now.revision,
            now.reference,
            self.begun,
            now.ended,
            ToSqlOutput::Borrowed(ValueRef::Text(self.scope)),
            now.progress,
            slot,
            leaves,
        ])?;
        if inserted == 0 {
            return Ok(None);
        }
        let slot = statements.connection.last_insert_rowid();
        statements.freeze()?.execute(params![slot, self.frozen])?;
        Ok(Some(slot))
    }
}

/// A new progress for a row, encoded by the caller.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) slot: i64,
    pub(super) key: Key,
    /// The revision that it replaces, and whose that is.
    pub(super) replaces: i64,
    expected: Expected,
    pub(super) phase: Phase,
    pub(super) owner: Owner,
    reference: i64,
    ended: i64,
    pub(super) progress: Vec<u8>,
}

impl Update {
    pub(super) fn new(slot: u64, key: Key, expected: &Expected, progress: &Progress) -> Update {
        Update {
            slot: signed(slot),
            replaces: signed(expected.revision),
            expected: *expected,
            phase: progress.phase,
            owner: progress.owner,
            reference: number_of(key.reference()),
            ended: ended_of(progress),
            progress: progress.encode(&key),
            key,
        }
    }

    pub(super) fn now(&self) -> Now<&[u8]> {
        Now {
            phase: self.phase,
            revision: self.revision(),
            reference: self.reference,
            ended: self.ended,
            progress: &self.progress,
        }
    }

    /// What it writes.
    pub(super) fn bytes(&self) -> usize {
        self.progress.len()
    }

    /// Writes it, if the row is still what is expected. Returns the state that it had.
    pub(super) fn apply(&self, statements: &mut Statements<'_>) -> Result<Option<i64>> {
        let mut marks = vec![NO_REASON];
        marks.extend(self.expected.encode());
        let updated = statements.update()?.execute(params![
            self.slot,
            state(self.phase),
            self.revision(),
            self.ended,
            self.progress,
            self.replaces,
            self.reference,
            marks,
        ])?;
        match updated {
            0 => self.apply_to_closed(statements),
            _ => Ok(Some(OPEN)),
        }
    }

    /// The revision that it makes.
    pub(super) fn revision(&self) -> i64 {
        self.replaces.saturating_add(1)
    }

    /// Whether it replaces a progress of this revision and these bytes.
    pub(super) fn follows(&self, revision: i64, progress: &[u8]) -> bool {
        revision == self.replaces && self.expected.is_in(progress)
    }

    /// Whether it replaces what is in the tables. Returns the state that it has there.
    pub(super) fn fits(&self, statements: &mut Statements<'_>) -> Result<Option<i64>> {
        let found = statements
            .look()?
            .query_row([self.slot], |row| {
                let fits = row.get::<_, i64>(2)? == self.reference
                    && blob(row, 3)
                        .is_ok_and(|bytes| row.get(1).is_ok_and(|r| self.follows(r, bytes)));
                Ok((row.get(0)?, fits))
            })
            .optional()?;
        Ok(found
            .filter(|(state, fits)| *fits && *state < TOMBSTONE)
            .map(|(state, _)| state))
    }

    /// The same for a row that is not open: rare, so it may be looked at first.
    fn apply_to_closed(&self, statements: &mut Statements<'_>) -> Result<Option<i64>> {
        let before = self.fits(statements)?;
        if before.is_some() {
            self.now().overwrite(statements.connection, self.slot)?;
        }
        Ok(before)
    }
}

impl Now<&[u8]> {
    /// Whether its entry is in the tables, in this slot.
    pub(super) fn is_filed(&self, statements: &mut Statements<'_>, slot: i64) -> Result<bool> {
        let found: Option<i64> = statements
            .look()?
            .query_row([slot], |row| row.get(2))
            .optional()?;
        match found {
            Some(reference) if reference != self.reference => Err(contradicted()),
            found => Ok(found.is_some()),
        }
    }

    /// Writes it without another look.
    fn overwrite(&self, connection: &Connection, slot: i64) -> Result<()> {
        connection
            .prepare_cached(
                "UPDATE entries SET state = ?2, revision = ?3, ended = ?4, progress = ?5
                 WHERE slot = ?1",
            )?
            .execute(params![
                slot,
                state(self.phase),
                self.revision,
                self.ended,
                self.progress,
            ])?;
        Ok(())
    }

    /// Writes it over whatever is older. Returns the state that this had, if there was something.
    pub(super) fn supersede(
        &self,
        statements: &mut Statements<'_>,
        slot: i64,
    ) -> Result<Option<i64>> {
        let found: Option<(i64, i64, i64)> = statements
            .look()?
            .query_row([slot], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        match found {
            Some((_, _, reference)) if reference != self.reference => Err(contradicted()),
            Some((state, revision, _)) if revision < self.revision && state < TOMBSTONE => {
                self.overwrite(statements.connection, slot)?;
                Ok(Some(state))
            }
            _ => Ok(None),
        }
    }
}

/// How many settled entries leave the index with one round: as many as a round can settle, and some that
/// were settled without the tape.
const LEAVING: i64 = 1536;

/// Takes settled entries out of the index. Returns their names, which the caller writes into a run.
pub(super) fn leave_index(connection: &Connection) -> Result<Vec<Named>> {
    let leaving = connection
        .prepare_cached(
            "SELECT name, slot FROM entries INDEXED BY leaving WHERE state > 2 AND in_run = 0
             ORDER BY slot LIMIT ?1",
        )?
        .query_map([LEAVING], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<Vec<Named>>>()?;
    let mut leave = connection.prepare_cached("UPDATE entries SET in_run = 1 WHERE slot = ?1")?;
    for (_, slot) in &leaving {
        leave.execute([slot])?;
    }
    Ok(leaving)
}

/// The tables hold another entry where the tape says that one is: they are not of one journal.
pub(super) fn contradicted() -> Error {
    let code = ffi::Error::new(ffi::SQLITE_CORRUPT);
    let why = "the tape and the tables name different entries";
    Error::SqliteFailure(code, Some(why.into()))
}

const WHOLE: &str = "SELECT entries.slot, name, state, revision, reference, begun, ended, scope,
        progress, frozen.bytes
    FROM entries LEFT JOIN frozen ON frozen.slot = entries.slot";

/// What a row turned out to hold.
#[derive(Debug)]
pub(super) enum Stored {
    Entry(Box<Entry>),
    Tombstone(u64, Tombstone),
    Damaged(Damaged),
}

impl Stored {
    fn read(row: &Row<'_>) -> Result<Stored> {
        let slot = unsigned(row.get(0)?);
        let frozen = read_frozen(row);
        let key = frozen.as_ref().ok().map(|frozen| frozen.key.clone());
        let parts = frozen.and_then(|frozen| Ok((read_progress(row, &frozen)?, frozen)));
        Ok(match parts {
            Ok(((progress, state), frozen)) => {
                let entry = Entry {
                    slot,
                    frozen: Arc::new(frozen),
                    progress,
                };
                match Tombstone::of(&entry).filter(|_| state == TOMBSTONE) {
                    Some(tombstone) => Stored::Tombstone(slot, tombstone),
                    None => Stored::Entry(Box::new(entry)),
                }
            }
            Err(error) => Stored::Damaged(Damaged { slot, key, error }),
        })
    }
}

fn blob<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r [u8], DecodeError> {
    let value = row.get_ref(column).ok();
    let bytes = value.and_then(|value| value.as_blob().ok());
    bytes.ok_or(DecodeError::Content("a part of it is missing"))
}

fn read_frozen(row: &Row<'_>) -> Result<Frozen, DecodeError> {
    let frozen = Frozen::decode(blob(row, 9)?)?;
    let fits = blob(row, 1)? == name_of(&frozen)
        && row.get(4) == Ok(number_of(frozen.key.reference()))
        && row.get(5) == Ok(signed(frozen.begun_at.as_millis()))
        && row
            .get_ref(7)
            .is_ok_and(|v| v.as_str() == Ok(frozen.scope.as_str()));
    if fits {
        Ok(frozen)
    } else {
        Err(DecodeError::Content("its columns contradict it"))
    }
}

fn read_progress(row: &Row<'_>, frozen: &Frozen) -> Result<(Progress, i64), DecodeError> {
    let progress = Progress::decode(blob(row, 8)?, &frozen.key)?;
    let found: i64 = row.get(2).unwrap_or(-1);
    let settled = state(progress.phase);
    let fits = (found == settled || (found == TOMBSTONE && settled == SETTLED))
        && row.get(3) == Ok(signed(progress.revision))
        && row.get(6) == Ok(ended_of(&progress));
    if fits {
        Ok((progress, found))
    } else {
        Err(DecodeError::Content("its columns contradict it"))
    }
}

/// The row in `slot`.
pub(super) fn load(connection: &Connection, slot: u64) -> Result<Option<Stored>> {
    connection
        .prepare_cached(&format!("{WHOLE} WHERE entries.slot = ?1"))?
        .query_row([signed(slot)], Stored::read)
        .optional()
}

/// The statement that lists a group, oldest first.
pub(super) fn listing(select: Select) -> String {
    let (index, group) = match select {
        // Not `state < 4`: a state that nobody writes is damage, and damage is shown.
        Select::All => ("", "state IS NOT 4"),
        Select::Unfinished => ("INDEXED BY unfinished", "state < 2"),
        Select::Attention => {
            return format!(
                "{WHOLE} WHERE entries.slot IN (
                     SELECT slot FROM entries INDEXED BY attention WHERE state = 2 UNION ALL
                     SELECT slot FROM entries INDEXED BY unfinished WHERE state < 2 AND state = 1)
                 AND {FILTER}"
            );
        }
        Select::Settled => ("", "state > 2 AND state IS NOT 4"),
    };
    let from = WHOLE.replace("FROM entries", &format!("FROM entries {index}"));
    format!("{from} WHERE {group} AND {FILTER}")
}

/// Nothing was begun before 1970: that is damage, and damage is shown.
const FILTER: &str =
    "entries.slot > ?1 AND (?2 IS NULL OR scope = ?2) AND (begun >= ?3 OR begun < 0)
    ORDER BY entries.slot LIMIT ?4";

/// Entries by query; `recent` are those on the tape, which know better.
pub(super) fn list(connection: &Connection, query: &Query, recent: &[Entry]) -> Result<Listing> {
    let limit = match query.limit {
        // One of those that are found may be something else by now.
        _ if !recent.is_empty() => -1,
        0 => -1,
        limit => i64::from(limit),
    };
    let found = collect(
        connection,
        &listing(query.select),
        params![
            signed(query.after),
            query.scope.as_ref().map(Scope::as_str),
            query.since.map_or(0, |since| signed(since.as_millis())),
            limit,
        ],
    )?;
    let wanted = |entry: &Entry| {
        query.select.matches(entry.progress.phase)
            && entry.slot > query.after
            && query
                .scope
                .as_ref()
                .is_none_or(|it| *it == entry.frozen.scope)
            && query
                .since
                .is_none_or(|since| entry.frozen.begun_at >= since)
    };
    let mut listing = found.corrected(recent, wanted);
    if query.limit > 0 {
        listing.entries.truncate(query.limit as usize);
    }
    Ok(listing)
}

impl Listing {
    /// With what is on the tape in place of what the tables say.
    fn corrected(mut self, recent: &[Entry], wanted: impl Fn(&Entry) -> bool) -> Listing {
        if !recent.is_empty() {
            // They come in the order of their slots.
            let is_recent = |entry: &Entry| {
                recent
                    .binary_search_by_key(&entry.slot, |it| it.slot)
                    .is_ok()
            };
            self.entries.retain(|entry| !is_recent(entry));
            let more = recent.iter().filter(|entry| wanted(entry)).cloned();
            self.entries.extend(more);
            self.entries.sort_by_key(|entry| entry.slot);
        }
        self
    }
}

/// Entries by reference: a scan, as a reference is random and an index over it would make every
/// write dearer for ever.
pub(super) fn find(
    connection: &Connection,
    reference: Reference,
    scope: Option<&Scope>,
    recent: &[Entry],
) -> Result<Listing> {
    let sql = format!(
        "{WHOLE} WHERE reference = ?1 AND state IS NOT 4 AND (?2 IS NULL OR scope = ?2)
         ORDER BY entries.slot"
    );
    let name = scope.map(Scope::as_str);
    let found = collect(connection, &sql, params![number_of(reference), name])?;
    let wanted = |entry: &Entry| {
        entry.reference() == reference && scope.is_none_or(|it| *it == entry.frozen.scope)
    };
    Ok(found.corrected(recent, wanted))
}

fn collect(connection: &Connection, sql: &str, params: impl rusqlite::Params) -> Result<Listing> {
    let mut listing = Listing::default();
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    while let Some(row) = rows.next()? {
        match Stored::read(row)? {
            Stored::Entry(entry) => listing.entries.push(*entry),
            Stored::Damaged(_) if crate::planted::is(17) => {}
            Stored::Damaged(damaged) => listing.damaged.push(damaged),
            Stored::Tombstone(..) => {}
        }
    }
    Ok(listing)
}

/// Every row, tombstones included.
pub(super) fn each(connection: &Connection, mut see: impl FnMut(Stored)) -> Result<()> {
    let mut statement = connection.prepare(&format!("{WHOLE} ORDER BY entries.slot"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        see(Stored::read(row)?);
    }
    Ok(())
}

/// Whether the index of unfinished entries holds as many as the journal counted.
pub(super) fn unfinished_add_up(connection: &Connection) -> Result<bool> {
    let pair = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    let counted = connection
        .prepare_cached("SELECT open, sum FROM meta WHERE id = 1")?
        .query_row([], pair)?;
    let listed = connection
        .prepare_cached(
            "SELECT count(*), ifnull(sum(slot), 0) FROM entries INDEXED BY unfinished
             WHERE state < 2",
        )?
        .query_row([], pair)?;
    Ok(counted == listed)
}

/// How many slots one call of [`over`] looks at: what an operation costs must not grow with the
/// journal.
const LOOK: u64 = 2048;

/// Slots after `after` that look as if their time were over, and where to go on: 0 at the end.
pub(super) fn over(
    connection: &Connection,
    after: u64,
    retention: &Retention,
) -> Result<(Vec<u64>, u64)> {
    let before = |kept: Duration| signed(retention.now.before(kept).as_millis());
    let last: Option<i64> = connection
        .prepare_cached("SELECT max(slot) FROM entries")?
        .query_row([], |row| row.get(0))?;
    let until = after.saturating_add(LOOK);
    let mut statement = connection.prepare_cached(
        "SELECT slot FROM entries
         WHERE slot > ?1 AND slot <= ?2
             AND ((state = 3 AND ended <= ?3) OR (state = 4 AND ended <= ?4))
         ORDER BY slot LIMIT ?5",
    )?;
    let slots = statement.query_map(
        params![
            signed(after),
            signed(until),
            before(retention.settled),
            before(retention.settled.saturating_add(retention.tombstones)),
            i64::from(retention.batch),
        ],
        |row| row.get(0).map(unsigned),
    )?;
    let found = slots.collect::<Result<Vec<u64>>>()?;
    let full = found.len() >= retention.batch as usize;
    let reached = match found.last() {
        Some(last) if full => *last,
        _ if until >= last.map_or(0, unsigned) => 0,
        _ => until,
    };
    Ok((found, reached))
}

/// Those on the tape whose time is over, so many at most.
pub(super) fn over_lately(recent: &[Entry], retention: &Retention, most: usize) -> Vec<u64> {
    let is_over = |entry: &&Entry| {
        let tombstone = Tombstone::of(entry);
        tombstone.is_some_and(|tombstone| retention.entry_is_over(tombstone.ended_at))
    };
    let over = recent.iter().filter(is_over).map(|entry| entry.slot);
    over.take(most).collect()
}

/// Erases an entry down to its tombstone: the same encoding, with nothing left in it.
pub(super) fn bury(connection: &Connection, entry: &Entry, tombstone: &Tombstone) -> Result<()> {
    let frozen = Frozen {
        key: tombstone.key.clone(),
        scope: tombstone.scope.clone(),
        intent: tombstone.intent.clone(),
        generation: tombstone.generation,
        method: entry.frozen.method,
        url: "".into(),
        headers: Headers::new(),
        key_line: None,
        body: Kept::NotKept,
        body_digest: [0; 32],
        fingerprint: Fingerprint::from_bytes([0; 32]),
        profile: "".into(),
        begun_at: entry.frozen.begun_at,
        complete: Complete::default(),
    };
    let mut progress = Progress::ready(
        Owner::NONE,
        tombstone.ended_at,
        Duration::ZERO,
        WindowSource::Assumed,
    );
    progress.phase = tombstone.phase;
    progress.revision = entry.progress.revision;
    connection
        .prepare_cached("UPDATE entries SET state = 4, ended = ?2, progress = ?3 WHERE slot = ?1")?
        .execute(params![
            signed(entry.slot),
            signed(tombstone.ended_at.as_millis()),
            progress.encode(&tombstone.key)
        ])?;
    connection
        .prepare_cached("UPDATE frozen SET bytes = ?2 WHERE slot = ?1")?
        .execute(params![signed(entry.slot), frozen.encode()])?;
    Ok(())
}

/// Drops a tombstone. The newest row always stays: slots are never given out twice.
pub(super) fn drop_tombstone(connection: &Connection, slot: u64) -> Result<bool> {
    let dropped = connection
        .prepare_cached(
            "DELETE FROM entries
             WHERE slot = ?1 AND state = 4 AND slot < (SELECT max(slot) FROM entries)",
        )?
        .execute([signed(slot)])?;
    if dropped == 1 {
        connection
            .prepare_cached("DELETE FROM frozen WHERE slot = ?1")?
            .execute([signed(slot)])?;
    }
    Ok(dropped == 1)
}

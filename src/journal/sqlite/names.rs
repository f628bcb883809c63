//! The names of settled entries, apart from the index of the others.
//!
//! A name is a digest. In an index over all entries every new one falls on a leaf of its own, and the
//! more there are, the more pages a round of filing writes. So only entries that may still change stand
//! in the index. The names of the others are written in sorted runs, one for each round, behind each
//! other; sixteen runs of a size are merged into one. A small filter in memory tells for each run which
//! names are surely not in it: looking for a new name nearly always ends there.
//!
//! ```text
//! names   run, part 0   the filter of the run
//!         run, part n   the n-th range of it: name and slot, sorted
//! ```
//!
//! Every part carries a digest. The slot says where the entry is; whether it still has that name is
//! looked up there, as a tombstone may have been dropped.

use rusqlite::{
    Connection, Error, ErrorCode, OptionalExtension, Result, Transaction, TransactionBehavior, ffi,
};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// What must be unique: see [`name_of`](super::rows::name_of).
pub(super) type Name = [u8; 16];

/// A name and the slot of the entry that has it.
pub(super) type Named = (Name, i64);

/// For maps by name: a name is a digest, and need not be hashed again.
pub(super) type ByDigest = BuildHasherDefault<Digested>;

#[derive(Debug, Default)]
pub(super) struct Digested(u64);

impl Hasher for Digested {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for eight in bytes.chunks_exact(8) {
            self.0 ^= eight.try_into().map_or(0, u64::from_le_bytes);
        }
    }
}

const PAIR: usize = 24;
const SEAL: usize = 8;
/// How many names a part holds, give or take some.
const PART: u64 = 32;
/// So many runs of a size become one, but for large ones: merging takes a while.
const MERGED: usize = 16;
const LARGE: u32 = 3;
/// Bits of the filter for each name, and how many of them it sets: one in a thousand is taken for another.
const BITS: u64 = 16;
const SET: u64 = 6;
/// More names in the index than this are not kept in memory.
const MANY: usize = 1 << 16;

/// The names in the tables, as one writer knows them.
#[derive(Debug, Default)]
pub(super) struct Names {
    runs: Vec<Run>,
    indexed: Indexed,
}

#[derive(Debug)]
struct Run {
    id: i64,
    count: u64,
    filter: Filter,
}

/// What is known of the index.
#[derive(Debug, Default)]
enum Indexed {
    /// Nothing: it has to be read.
    #[default]
    Unknown,
    /// It has too many names for that, so it is asked.
    Many,
    /// All names in it are among these.
    Among {
        names: HashSet<Name, ByDigest>,
        at_most: usize,
    },
}

impl Names {
    /// Learns what was written since.
    pub(super) fn refresh(&mut self, connection: &Connection) -> Result<()> {
        let _snapshot = snapshot(connection)?;
        let found = runs(connection)?;
        let total: u64 = found.iter().map(|(_, count)| count).sum();
        let counted: i64 = connection
            .prepare_cached("SELECT named FROM meta WHERE id = 1")?
            .query_row([], |row| row.get(0))?;
        if i64::try_from(total) != Ok(counted) {
            return Err(damaged("a run of names is missing"));
        }
        let mut known = std::mem::take(&mut self.runs).into_iter().peekable();
        for (id, count) in found {
            while known.next_if(|run| run.id < id).is_some() {}
            let run = match known.next_if(|run| run.id == id) {
                Some(run) => run,
                None => Run {
                    id,
                    count,
                    filter: Filter(part(connection, id, 0)?.ok_or_else(missing)?),
                },
            };
            self.runs.push(run);
        }
        Ok(())
    }

    /// Others may have changed the index.
    pub(super) fn forget_index(&mut self) {
        self.indexed = Indexed::Unknown;
    }

    /// These stand in the index from now on.
    pub(super) fn indexed(&mut self, names: impl Iterator<Item = Name>) {
        if let Indexed::Among {
            names: known,
            at_most,
        } = &mut self.indexed
        {
            known.extend(names);
            // Most of them have left it since.
            if known.len() > *at_most {
                self.indexed = Indexed::Unknown;
            }
        }
    }

    /// Whether no entry in the tables has this name, as far as that is known without asking them.
    pub(super) fn is_surely_free(&mut self, connection: &Connection, name: &Name) -> Result<bool> {
        if matches!(self.indexed, Indexed::Unknown) {
            // Both at one moment: the clerk takes names out of the index and into a run.
            let _snapshot = snapshot(connection)?;
            self.refresh(connection)?;
            self.indexed = Indexed::read(connection)?;
        }
        let Indexed::Among { names, .. } = &self.indexed else {
            return Ok(false);
        };
        Ok(!names.contains(name) && self.runs.iter().all(|run| !run.filter.may_hold(name)))
    }

    /// The slot of the entry that has this name, if the name stands in a run: also in one that the clerk has
    /// written and nobody here has heard of.
    pub(super) fn slot_of(&mut self, connection: &Connection, name: &Name) -> Result<Option<i64>> {
        let newest: Option<i64> = connection
            .prepare_cached("SELECT max(id) FROM runs")?
            .query_row([], |row| row.get(0))?;
        if newest != self.runs.last().map(|run| run.id) {
            self.refresh(connection)?;
        }
        match self.look(connection, name)? {
            Ok(slot) => Ok(slot),
            Err(Merged) => {
                self.refresh(connection)?;
                self.look(connection, name)?.map_err(|Merged| missing())
            }
        }
    }

    fn look(
        &self,
        connection: &Connection,
        name: &Name,
    ) -> Result<std::result::Result<Option<i64>, Merged>> {
        for run in self.runs.iter().filter(|run| run.filter.may_hold(name)) {
            let number = part_of(name, parts(run.count));
            let Some(bytes) = part(connection, run.id, number)? else {
                return Ok(Err(Merged));
            };
            for (_, slot) in pairs(&bytes).filter(|(found, _)| found == name) {
                if has_name(connection, slot, name)? {
                    return Ok(Ok(Some(slot)));
                }
            }
        }
        Ok(Ok(None))
    }
}

/// A run is gone: the clerk has merged it into another, or it is damaged.
struct Merged;

impl Indexed {
    fn read(connection: &Connection) -> Result<Indexed> {
        let mut statement = connection.prepare_cached(
            "SELECT name FROM entries INDEXED BY named WHERE in_run = 0 LIMIT ?1",
        )?;
        let names = statement.query_map([MANY as i64 + 1], |row| row.get(0))?;
        let names = names.collect::<Result<HashSet<Name, ByDigest>>>()?;
        let at_most = 2 * names.len() + 4096;
        Ok(match names.len() {
            0..=MANY => Indexed::Among { names, at_most },
            _ => Indexed::Many,
        })
    }
}

/// Writes names down as a run of their own.
pub(super) fn add(connection: &Connection, mut names: Vec<Named>) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    names.sort_unstable();
    write_run(connection, &names)?;
    connection
        .prepare_cached("UPDATE meta SET named = named + ?1 WHERE id = 1")?
        .execute([names.len() as i64])?;
    Ok(())
}

/// Makes one run of many of a size, if there are so many and it is still ours to do once nobody else can write.
/// What cannot be merged now for want of space or of a turn is merged later.
pub(super) fn merge(connection: &Connection, is_ours: &dyn Fn() -> bool) -> Result<()> {
    if alike(connection)?.is_empty() {
        return Ok(());
    }
    let merged =
        Transaction::new_unchecked(connection, TransactionBehavior::Immediate).and_then(|turn| {
            match is_ours() {
                true => merge_alike(&turn).and_then(|()| turn.commit()),
                false => Ok(()),
            }
        });
    match merged.as_ref().map_err(Error::sqlite_error_code) {
        Err(Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy)) => Ok(()),
        _ => merged,
    }
}

fn merge_alike(connection: &Connection) -> Result<()> {
    let alike = alike(connection)?;
    let mut names = Vec::new();
    for (id, count) in &alike {
        let before = names.len();
        for number in 1..=parts(*count) {
            let bytes = part(connection, *id, number)?.ok_or_else(missing)?;
            names.extend(pairs(&bytes));
        }
        if (names.len() - before) as u64 != *count {
            return Err(damaged("a run of names has lost some"));
        }
    }
    names.sort_unstable();
    // Before the others go: a run's number is never given out twice.
    write_run(connection, &names)?;
    alike.iter().try_for_each(|(id, _)| remove(connection, *id))
}

/// Runs that are to be merged: none, if there are not enough of a size.
fn alike(connection: &Connection) -> Result<Vec<(i64, u64)>> {
    let runs = runs(connection)?;
    let alike = |size| {
        runs.iter()
            .filter(move |(_, count)| size_of_run(*count) == size)
    };
    let size = (0..LARGE).find(|size| alike(*size).count() >= MERGED);
    Ok(size.map_or_else(Vec::new, |size| alike(size).copied().collect()))
}

/// Drops runs that lead nowhere any more: every tombstone that they led to is gone.
pub(super) fn drop_stale(connection: &Connection) -> Result<()> {
    let stale = connection
        .prepare_cached(
            // The newest stays: a run's number is never given out twice.
            "SELECT id, count FROM runs WHERE id < (SELECT max(id) FROM runs) AND NOT EXISTS (
                 SELECT 1 FROM entries WHERE slot BETWEEN first AND last AND in_run = 1)",
        )?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<Vec<(i64, i64)>>>()?;
    for (id, count) in stale {
        remove(connection, id)?;
        connection
            .prepare_cached("UPDATE meta SET named = named - ?1 WHERE id = 1")?
            .execute([count])?;
    }
    Ok(())
}

fn remove(connection: &Connection, run: i64) -> Result<()> {
    for sql in [
        "DELETE FROM names WHERE run = ?1",
        "DELETE FROM runs WHERE id = ?1",
    ] {
        connection.prepare_cached(sql)?.execute([run])?;
    }
    Ok(())
}

/// Looks at every name: all must be in their places, and lead to every entry whose name is said to stand in a run.
/// Returns how many they are.
pub(super) fn check(connection: &Connection) -> Result<u64> {
    let mut names = Names::default();
    names.refresh(connection)?;
    let (mut total, mut led) = (0, 0);
    for run in &names.runs {
        let mut held = 0;
        for number in 1..=parts(run.count) {
            let bytes = part(connection, run.id, number)?.ok_or_else(missing)?;
            for (name, slot) in pairs(&bytes) {
                held += 1;
                if part_of(&name, parts(run.count)) != number || !run.filter.may_hold(&name) {
                    return Err(damaged("one stands in a wrong place"));
                }
                led += i64::from(has_name(connection, slot, &name)?);
            }
        }
        if held != run.count {
            return Err(damaged("a run of names has lost some"));
        }
        total += held;
    }
    let sql = "SELECT count(*) FROM entries WHERE in_run = 1";
    let told: i64 = connection.query_row(sql, [], |row| row.get(0))?;
    match told == led {
        true => Ok(total),
        false => Err(damaged(
            "an entry's name should stand in a run, and does not",
        )),
    }
}

/// One moment for several looks, unless whoever asks has one already.
fn snapshot(connection: &Connection) -> Result<Option<Transaction<'_>>> {
    match connection.is_autocommit() {
        true => connection.unchecked_transaction().map(Some),
        false => Ok(None),
    }
}

/// Whether the entry in this slot has this name, in a run.
fn has_name(connection: &Connection, slot: i64, name: &Name) -> Result<bool> {
    let found: Option<Name> = connection
        .prepare_cached("SELECT name FROM entries WHERE slot = ?1 AND in_run = 1")?
        .query_row([slot], |row| row.get(0))
        .optional()?;
    Ok(found.as_ref() == Some(name))
}

/// Every run and how many names it has, oldest first.
fn runs(connection: &Connection) -> Result<Vec<(i64, u64)>> {
    connection
        .prepare_cached("SELECT id, count FROM runs ORDER BY id")?
        .query_map([], |row| {
            Ok((row.get(0)?, super::rows::unsigned(row.get(1)?)))
        })?
        .collect()
}

fn write_run(connection: &Connection, names: &[Named]) -> Result<()> {
    let count = names.len() as u64;
    let slots = || names.iter().map(|(_, slot)| *slot);
    let (first, last) = (slots().min().unwrap_or(0), slots().max().unwrap_or(0));
    let id: i64 = connection
        .prepare_cached(
            "INSERT INTO runs (id, count, first, last)
             SELECT ifnull(max(id), 0) + 1, ?1, ?2, ?3 FROM runs RETURNING id",
        )?
        .query_row((count as i64, first, last), |row| row.get(0))?;
    let mut statement =
        connection.prepare_cached("INSERT INTO names (run, part, bytes) VALUES (?1, ?2, ?3)")?;
    let mut write = |number: u64, mut bytes: Vec<u8>| {
        let seal = seal(id, number, &bytes);
        bytes.extend(seal);
        statement.execute((id, number as i64, bytes)).map(drop)
    };
    write(0, Filter::of(names).0)?;
    let mut rest = names;
    for number in 1..=parts(count) {
        let length = rest.partition_point(|(name, _)| part_of(name, parts(count)) <= number);
        let (these, others) = rest.split_at(length);
        let mut bytes = Vec::with_capacity(these.len() * PAIR + SEAL);
        for (name, slot) in these {
            bytes.extend(name);
            bytes.extend(slot.to_le_bytes());
        }
        write(number, bytes)?;
        rest = others;
    }
    Ok(())
}

/// A part of a run, if it is there and as it was written.
fn part(connection: &Connection, run: i64, number: u64) -> Result<Option<Vec<u8>>> {
    let found: Option<Vec<u8>> = connection
        .prepare_cached("SELECT bytes FROM names WHERE run = ?1 AND part = ?2")?
        .query_row((run, number as i64), |row| row.get(0))
        .optional()?;
    let Some(mut bytes) = found else {
        return Ok(None);
    };
    let sealed = bytes.split_off(bytes.len().saturating_sub(SEAL));
    match sealed == seal(run, number, &bytes) {
        true => Ok(Some(bytes)),
        false => Err(damaged("a part of the names was altered")),
    }
}

fn seal(run: i64, number: u64, bytes: &[u8]) -> [u8; SEAL] {
    let mut hash = Sha256::new();
    hash.update(run.to_le_bytes());
    hash.update(number.to_le_bytes());
    hash.update(bytes);
    let hash: [u8; 32] = hash.finalize().into();
    std::array::from_fn(|i| hash[i])
}

fn pairs(bytes: &[u8]) -> impl Iterator<Item = Named> + '_ {
    bytes.chunks_exact(PAIR).map(|pair| {
        let name = std::array::from_fn(|i| pair[i]);
        let slot = std::array::from_fn(|i| pair[size_of::<Name>() + i]);
        (name, i64::from_le_bytes(slot))
    })
}

/// How many parts a run of so many names has, beside its filter.
fn parts(count: u64) -> u64 {
    count.div_ceil(PART)
}

/// The part that a name belongs into: names are digests, and so spread evenly.
fn part_of(name: &Name, parts: u64) -> u64 {
    1 + scaled(u128::from_be_bytes(*name) >> 64, parts)
}

/// A number of 64 bits brought down to less than `limit`.
fn scaled(number: u128, limit: u64) -> u64 {
    ((number * u128::from(limit)) >> 64) as u64
}

/// Runs of one size differ by less than sixteen times.
fn size_of_run(count: u64) -> u32 {
    count.max(1).ilog2() / 4
}

/// Bits that the names of a run set.
#[derive(Debug)]
struct Filter(Vec<u8>);

impl Filter {
    fn of(names: &[Named]) -> Filter {
        let mut bytes = vec![0; (names.len() as u64 * BITS).div_ceil(8) as usize];
        for (name, _) in names {
            for bit in Filter::bits(name, bytes.len()) {
                bytes[bit / 8] |= 1 << (bit % 8);
            }
        }
        Filter(bytes)
    }

    fn may_hold(&self, name: &Name) -> bool {
        Filter::bits(name, self.0.len()).all(|bit| self.0[bit / 8] & 1 << (bit % 8) != 0)
    }

    fn bits(name: &Name, bytes: usize) -> impl Iterator<Item = usize> {
        let whole = u128::from_be_bytes(*name);
        let (first, second) = ((whole >> 64) as u64, whole as u64);
        (0..SET).map(move |i| {
            let number = second.wrapping_add(i.wrapping_mul(first | 1));
            scaled(number.into(), 8 * bytes as u64) as usize
        })
    }
}

fn missing() -> Error {
    damaged("a part of the names is missing")
}

fn damaged(why: &str) -> Error {
    let code = ffi::Error::new(ffi::SQLITE_CORRUPT);
    Error::SqliteFailure(code, Some(why.into()))
}

#[cfg(test)]
mod tests;

//! The tape: what was written lately, in front of the tables.
//!
//! A durable step through SQLite writes half a dozen pages, each with a head of its own, and takes two
//! locks. On the tape it is one piece, written behind the last one and synced. Some hundred steps make a
//! round; while the next round is written, this one is filed into the tables in one transaction, an
//! operation that began and ended meanwhile as a single row. Then its half of the tape is free again.
//!
//! ```text
//! block 0   head: the last round that was filed, and its last piece
//! half 0    the pieces of an even round, each from the start of a block
//! half 1    those of an odd one
//! ```
//!
//! A piece is what one batch wrote. It counts if its checksum fits and all before it do. What stands behind
//! one that does not fit tells a torn end, which nobody was told of, from damage: each piece says which of
//! those before it were on the disk.

mod left;

use super::faults;
use super::files::{self, Files};
use super::owners;
use super::stamp::Stamp;
use crate::journal::{JournalError, JournalErrorKind as Kind};
pub(super) use left::Left;
use std::fs::File;
use std::io;

const BLOCK: usize = 512;
const HEAD: usize = 80;
/// Where the checksum stands in a head.
const SUM: usize = HEAD - 8;
/// How much memory is kept for the next piece.
const PIECE: usize = 1 << 16;
const MAGIC: u64 = u64::from_le_bytes(*b"smkytape");
/// The most that a round may hold, and the least that it may if need be.
const HALF: u64 = 1 << 21;
const LEAST: u64 = 1 << 19;

/// One thing that a piece holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// A new entry in this slot: both halves, encoded.
    Begin(i64, &'a [u8], &'a [u8]),
    /// A new progress of the entry in this slot: its key, and the progress encoded.
    Record(i64, &'a str, &'a [u8]),
}

/// A place on the tape: a round, and the number of a piece. Pieces are counted through all rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    round: u64,
    piece: u64,
}

/// The tape, open for writing.
#[derive(Debug)]
pub(super) struct Tape {
    file: File,
    /// The end of the last round whose steps are all in the tables.
    filed: Place,
    /// Whether the head says so on the disk: only then may that round be written over.
    is_head_synced: bool,
    /// The last piece that was written, and the number of the last that is surely on the disk.
    last: Place,
    synced: u64,
    /// Where the next piece goes, and how long a round may get.
    tail: u64,
    most: u64,
    /// The piece that is being put together.
    piece: Vec<u8>,
}

impl Tape {
    /// Opens the tape of a journal, making it if it is not there. What is on it is left alone.
    pub(super) fn open(files: &Files) -> Result<Tape, JournalError> {
        let failed = |error| faults::system("open the tape", &files.tape, error);
        let mut tape = Tape {
            file: files::open_private(&files.tape)?,
            filed: Place::default(),
            is_head_synced: false,
            last: Place::default(),
            synced: 0,
            tail: 0,
            most: HALF,
            piece: Vec::new(),
        };
        let mut left = tape.left().map_err(failed)?;
        if left.is_blank {
            left.filed = first_place();
            tape.write_head(left.filed).map_err(failed)?;
        }
        // Its name must outlive a power cut as what is written to it does; whoever made it may not have lived to
        // see to that.
        let synced = tape.file.sync_all();
        synced
            .and_then(|()| files::sync_folder(files.folder()))
            .map_err(failed)?;
        tape.start(left.filed);
        Ok(tape)
    }

    /// What is on it, whoever wrote it.
    pub(super) fn left(&self) -> io::Result<Left> {
        Left::read(&self.file)
    }

    /// The end of the last round that was filed, if it seems that nothing came after it, whoever wrote it.
    pub(super) fn all_filed(&self) -> io::Result<Option<Place>> {
        let (mut head, mut first) = ([0; BLOCK], [0; HEAD]);
        files::read_at(&self.file, 0, &mut head)?;
        let Some(filed) = head_of(&head) else {
            return Ok(None);
        };
        files::read_at(&self.file, start_of(filed.round + 1), &mut first)?;
        let newer = word(&first, 0) == MAGIC && word(&first, 1) > filed.round;
        Ok((!newer).then_some(filed))
    }

    /// A new round begins, after `filed`, which the head names; perhaps not yet on the disk.
    pub(super) fn start(&mut self, filed: Place) {
        (self.filed, self.last) = (filed, filed);
        self.synced = filed.piece;
        self.is_head_synced = false;
        self.turn_over();
    }

    /// Goes on in the other half.
    fn turn_over(&mut self) {
        self.last.round += 1;
        self.tail = start_of(self.last.round);
        self.clear();
    }

    /// Goes on in the other half, if that is free. Returns where this round ends.
    pub(super) fn next_round(&mut self) -> io::Result<Option<Place>> {
        if self.filed.round + 1 < self.last.round {
            return Ok(None);
        }
        if !self.is_head_synced {
            self.sync()?;
        }
        let end = self.last;
        self.turn_over();
        Ok(Some(end))
    }

    /// Forgets the piece that was being put together.
    pub(super) fn clear(&mut self) {
        self.piece.clear();
        // After a crowd: the next pieces are shorter.
        self.piece.shrink_to(PIECE);
        self.piece.resize(HEAD, 0);
    }

    /// The last piece that was written, if it is not filed.
    pub(super) fn unfiled(&self) -> Option<Place> {
        (self.last.piece > self.filed.piece).then_some(self.last)
    }

    /// A reserve must be enough to file two rounds on a full disk, also where each row leaves half of its page
    /// empty.
    pub(super) fn suit(&mut self, reserve: u64) {
        if reserve > 0 {
            self.most = (reserve / 4).clamp(LEAST, HALF);
        }
    }

    /// Whether so many more bytes would make the round too long.
    pub(super) fn is_full_with(&self, bytes: usize) -> bool {
        self.length() + bytes as u64 + 2 * BLOCK as u64 > self.most
    }

    /// Whether the round is long enough to be filed while there is room for what comes meanwhile.
    pub(super) fn is_long(&self) -> bool {
        self.length() >= self.most / 2
    }

    fn length(&self) -> u64 {
        self.tail - start_of(self.last.round)
    }

    /// Adds a step to the piece.
    pub(super) fn push(&mut self, step: &Step<'_>) {
        let (kind, slot, first, second) = match step {
            Step::Begin(slot, frozen, progress) => (0u8, slot, *frozen, *progress),
            Step::Record(slot, key, progress) => (1, slot, key.as_bytes(), *progress),
        };
        self.piece.push(kind);
        self.piece.extend_from_slice(&slot.to_le_bytes());
        for part in [first, second] {
            let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
            self.piece.extend_from_slice(&length.to_le_bytes());
            self.piece.extend_from_slice(part);
        }
    }

    /// Writes the piece: in the file, and not yet on the disk. `before` and `held` are how far the
    /// journal had got before it and has with it.
    pub(super) fn write(&mut self, before: Stamp, held: Stamp) -> io::Result<()> {
        let length = self.piece.len();
        self.piece.resize(length.next_multiple_of(BLOCK), 0);
        seal(
            &mut self.piece,
            &[
                MAGIC,
                self.last.round,
                self.last.piece + 1,
                length as u64,
                self.synced,
                before.slots,
                before.commits,
                held.slots,
                held.commits,
            ],
        );
        files::write_at(&self.file, &self.piece, self.tail)?;
        self.tail += self.piece.len() as u64;
        self.last.piece += 1;
        self.clear();
        Ok(())
    }

    /// Presses every piece onto the disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.synced = self.last.piece;
        self.is_head_synced = true;
        Ok(())
    }

    /// The tables hold everything up to there, on the disk.
    pub(super) fn file_to(&mut self, filed: Place) -> io::Result<()> {
        self.write_head(filed)?;
        self.filed = filed;
        self.is_head_synced = false;
        Ok(())
    }

    /// The tables hold all of it, on the disk, and it begins anew.
    pub(super) fn file_all(&mut self, filed: Place) -> io::Result<()> {
        self.write_head(filed)?;
        self.file.sync_data()?;
        self.start(filed);
        self.is_head_synced = true;
        Ok(())
    }

    /// Leaves nothing of what was filed behind.
    pub(super) fn cut(&self) -> io::Result<()> {
        self.file.set_len(BLOCK as u64)
    }

    fn write_head(&self, filed: Place) -> io::Result<()> {
        let mut block = [0; BLOCK];
        seal(&mut block, &[MAGIC, filed.round, filed.piece]);
        files::write_at(&self.file, &block, 0)
    }
}

/// Rounds are counted from a number that nobody can guess: what is left of an old piece's body, behind the end
/// of a round, must not pass for a piece of it.
fn first_place() -> Place {
    Place {
        round: (owners::draw().0 >> 66) as u64,
        piece: 0,
    }
}

/// What to say of steps that were on the disk and are not found.
pub(super) fn damage(files: &Files) -> JournalError {
    JournalError::new(
        Kind::Corrupt,
        format!(
            "the tape of the journal {} is damaged: steps that were on the disk cannot be read any more. \
             Nothing was changed; close every program that has the journal open, then open it again",
            files.journal.display()
        ),
    )
}

/// Where a round begins.
fn start_of(round: u64) -> u64 {
    BLOCK as u64 + round % 2 * HALF
}

/// The end of the last round that was filed, if the head can be read.
fn head_of(bytes: &[u8]) -> Option<Place> {
    let head = bytes.get(..BLOCK)?;
    let fits = word(head, 0) == MAGIC && word(head, SUM / 8) == checksum(head);
    fits.then(|| Place {
        round: word(head, 1),
        piece: word(head, 2),
    })
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let eight = bytes.get(8 * at..).and_then(|rest| rest.first_chunk());
    eight.map_or(0, |eight| u64::from_le_bytes(*eight))
}

/// Writes a head and its checksum.
fn seal(blocks: &mut [u8], head: &[u64]) {
    for (number, bytes) in head.iter().zip(blocks.chunks_exact_mut(8)) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
    let sum = checksum(blocks);
    blocks[SUM..HEAD].copy_from_slice(&sum.to_le_bytes());
}

/// Over whole blocks, but for where it stands itself. Every step can be undone, so one altered word always
/// shows.
fn checksum(blocks: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut sum = blocks.len() as u64;
    let mut add = |bytes: &[u8]| {
        for eight in bytes.chunks_exact(8) {
            let number = eight.try_into().map_or(0, u64::from_le_bytes);
            sum = (sum ^ number).wrapping_mul(ODD).rotate_left(29);
        }
    };
    add(&blocks[..SUM]);
    add(&blocks[HEAD..]);
    sum
}

#[cfg(test)]
mod tests;

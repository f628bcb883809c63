//! The tape: what was written lately, in front of the tables.
//!
//! A durable step through SQLite writes half a dozen pages, each with a head of its own, and takes two
//! locks. On the tape it is one piece, written behind the last one and synced. Some hundred steps later
//! all of them are filed into the tables in one transaction, an operation that began and ended meanwhile
//! as a single row, and the tape begins anew: the next round.
//!
//! ```text
//! block 0      head: the last round that was filed
//! block 1 ...  piece 1, piece 2, ... of the round after it, each from the start of a block
//! ```
//!
//! A piece is what one batch wrote. It counts if its checksum fits and all before it do. What stands behind
//! one that does not fit tells a torn end, which nobody was told of, from damage: each piece says how many
//! before it were on the disk.

use super::faults;
use super::files::{self, Files};
use super::stamp::Stamp;
use crate::journal::{JournalError, JournalErrorKind as Kind};
use std::fs::File;
use std::io;

const BLOCK: usize = 512;
const HEAD: usize = 80;
/// Where the checksum stands in a head.
const SUM: usize = HEAD - 8;
const MAGIC: u64 = u64::from_le_bytes(*b"smkytape");
/// The most that a round may hold: filing it must not hold anybody up for long.
const LENGTH: u64 = 1 << 20;

/// One thing that a piece holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// A new entry in this slot: both halves, encoded.
    Begin(i64, &'a [u8], &'a [u8]),
    /// A new progress of the entry in this slot: its key, and the progress encoded.
    Record(i64, &'a str, &'a [u8]),
}

/// The tape, open for writing.
#[derive(Debug)]
pub(super) struct Tape {
    file: File,
    /// The last round whose steps are all in the tables.
    filed: u64,
    /// Where the next piece goes.
    tail: u64,
    /// Pieces of this round, and how many of them are surely on the disk.
    pieces: u64,
    synced: u64,
    /// The piece that is being put together.
    piece: Vec<u8>,
}

impl Tape {
    /// Opens the tape of a journal, making it if it is not there. What is on it is left alone.
    pub(super) fn open(files: &Files) -> Result<Tape, JournalError> {
        let failed = |error| faults::system("open the tape", &files.tape, error);
        let is_new = !files.tape.exists();
        let file = files::open_private(&files.tape)?;
        let mut tape = Tape {
            file,
            filed: 0,
            tail: 0,
            pieces: 0,
            synced: 0,
            piece: Vec::new(),
        };
        let left = Left::read(&tape.file).map_err(failed)?;
        if left.is_blank {
            tape.write_head(0).map_err(failed)?;
        }
        if is_new {
            // Its name must outlive a power cut as what is written to it does.
            let synced = tape.file.sync_all();
            synced
                .and_then(|()| files::sync_folder(files.folder()))
                .map_err(failed)?;
        }
        tape.start(left.filed);
        Ok(tape)
    }

    /// What is on it, whoever wrote it.
    pub(super) fn left(&self) -> io::Result<Left> {
        Left::read(&self.file)
    }

    /// The last round that was filed, if it seems that nothing came after it, whoever wrote it.
    pub(super) fn all_filed(&self) -> io::Result<Option<u64>> {
        let mut blocks = [0; 2 * BLOCK];
        read_at(&self.file, &mut blocks)?;
        let first = &blocks[BLOCK..];
        let newer = |filed: &u64| word(first, 0) == MAGIC && word(first, 1) > *filed;
        Ok(head_of(&blocks).filter(|filed| !newer(filed)))
    }

    /// A new round begins, after `filed`.
    pub(super) fn start(&mut self, filed: u64) {
        self.filed = filed;
        self.tail = BLOCK as u64;
        (self.pieces, self.synced) = (0, 0);
        self.clear();
    }

    /// Forgets the piece that was being put together.
    pub(super) fn clear(&mut self) {
        self.piece.clear();
        self.piece.resize(HEAD, 0);
    }

    /// Whether this round has pieces.
    pub(super) fn is_used(&self) -> bool {
        self.pieces > 0
    }

    /// Whether so many more bytes would make the round too long.
    pub(super) fn is_full_with(&self, bytes: usize) -> bool {
        self.tail + bytes as u64 + 2 * BLOCK as u64 > LENGTH
    }

    /// Whether it is time to file it.
    pub(super) fn is_long(&self) -> bool {
        self.tail > LENGTH / 4 * 3
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
        let length = self.piece.len() as u64;
        self.piece
            .resize(self.piece.len().next_multiple_of(BLOCK), 0);
        let head = [
            MAGIC,
            self.filed + 1,
            self.pieces + 1,
            length,
            self.synced,
            before.slots,
            before.commits,
            held.slots,
            held.commits,
        ];
        for (number, bytes) in head.iter().zip(self.piece.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        let sum = checksum(&self.piece);
        self.piece[SUM..HEAD].copy_from_slice(&sum.to_le_bytes());
        files::write_at(&self.file, &self.piece, self.tail)?;
        self.tail += self.piece.len() as u64;
        self.pieces += 1;
        self.clear();
        Ok(())
    }

    /// Presses every piece onto the disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.synced = self.pieces;
        Ok(())
    }

    /// The tables hold all of it, on the disk: the next round may be written over it.
    pub(super) fn filed(&mut self, round: u64) -> io::Result<()> {
        self.write_head(round)?;
        // First: else a torn first piece of the next round would look like damage in this one.
        self.file.sync_data()?;
        self.start(round);
        Ok(())
    }

    /// The round that is being written.
    pub(super) fn round(&self) -> u64 {
        self.filed + 1
    }

    /// Leaves nothing of what was filed behind.
    pub(super) fn cut(&self) -> io::Result<()> {
        self.file.set_len(BLOCK as u64)
    }

    fn write_head(&self, filed: u64) -> io::Result<()> {
        let mut block = [0; BLOCK];
        block[..8].copy_from_slice(&MAGIC.to_le_bytes());
        block[8..16].copy_from_slice(&filed.to_le_bytes());
        let sum = checksum(&block);
        block[SUM..HEAD].copy_from_slice(&sum.to_le_bytes());
        files::write_at(&self.file, &block, 0)
    }
}

/// What was found on a tape and is not filed.
#[derive(Debug, Default)]
pub(super) struct Left {
    pub(super) filed: u64,
    /// Nothing was ever written to it.
    pub(super) is_blank: bool,
    /// Pieces that were on the disk and cannot be read any more.
    pub(super) is_damaged: bool,
    /// How far the journal had got before the first piece, and with the last: nothing without pieces.
    pub(super) before: Stamp,
    pub(super) held: Stamp,
    bytes: Vec<u8>,
    /// Where the pieces that count lie, without their heads.
    pieces: Vec<(usize, usize)>,
    /// And those behind damage, or behind a torn end.
    behind: Vec<(usize, usize)>,
}

impl Left {
    /// Reads a tape; one that is not there has nothing on it.
    pub(super) fn of(files: &Files) -> io::Result<Left> {
        match File::open(&files.tape) {
            Ok(file) => Left::read(&file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Left::blank()),
            Err(error) => Err(error),
        }
    }

    /// What others may see of a tape that is being written: on the disk before it is told, and of one round.
    pub(super) fn settled(files: &Files) -> io::Result<Left> {
        loop {
            let left = Left::of(files)?;
            if left.is_blank {
                return Ok(left);
            }
            let file = File::open(&files.tape)?;
            if !left.is_empty() {
                file.sync_data()?;
            }
            let mut head = [0; BLOCK];
            read_at(&file, &mut head)?;
            if head_of(&head).is_none_or(|filed| filed == left.filed) {
                return Ok(left);
            }
        }
    }

    fn blank() -> Left {
        Left {
            is_blank: true,
            ..Left::default()
        }
    }

    fn read(file: &File) -> io::Result<Left> {
        let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX)];
        let read = read_at(file, &mut bytes)?;
        bytes.truncate(read);
        let head = bytes.get(..BLOCK).unwrap_or(&bytes);
        if head.iter().all(|byte| *byte == 0) {
            return Ok(Left::blank());
        }
        let mut left = Left::default();
        match head_of(&bytes) {
            Some(filed) => left.filed = filed,
            None => {
                let first = bytes.get(BLOCK..).and_then(Piece::of);
                left.filed = first.map_or(0, |piece| piece.round.saturating_sub(1));
                left.is_damaged = true;
            }
        }
        left.find_pieces(&bytes);
        left.bytes = bytes;
        Ok(left)
    }

    fn find_pieces(&mut self, bytes: &[u8]) {
        let round = self.filed + 1;
        let (mut at, mut next, mut broken) = (BLOCK, 1, false);
        while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= HEAD) {
            let Some(piece) = Piece::of(rest).filter(|piece| piece.round == round) else {
                (broken, at) = (true, at + BLOCK);
                continue;
            };
            let place = (at + HEAD, at + piece.length);
            at += piece.length.next_multiple_of(BLOCK);
            broken |= piece.number != next;
            if broken {
                // Nothing was written behind a piece that had to be on the disk before that.
                self.is_damaged |= piece.number > next && piece.synced >= next;
                self.behind.push(place);
            } else {
                if next == 1 {
                    self.before = piece.before;
                }
                self.pieces.push(place);
                self.held = piece.held;
                next += 1;
            }
        }
    }

    /// Whether there is nothing to file.
    pub(super) fn is_empty(&self) -> bool {
        self.steps().next().is_none()
    }

    /// Every step that counts, oldest first; after damage whatever can still be read.
    pub(super) fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        let behind = self.behind.iter().filter(|_| self.is_damaged);
        let pieces = self.pieces.iter().chain(behind);
        pieces.flat_map(|(from, to)| Steps(self.bytes.get(*from..*to).unwrap_or_default()))
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

/// The head of a piece whose checksum fits.
struct Piece {
    round: u64,
    number: u64,
    length: usize,
    synced: u64,
    before: Stamp,
    held: Stamp,
}

impl Piece {
    fn of(bytes: &[u8]) -> Option<Piece> {
        let length = usize::try_from(word(bytes, 3)).ok()?;
        if word(bytes, 0) != MAGIC || length < HEAD {
            return None;
        }
        let whole = bytes.get(..length.checked_next_multiple_of(BLOCK)?)?;
        let fits = word(bytes, SUM / 8) == checksum(whole);
        let stamp = |at| Stamp {
            slots: word(bytes, at),
            commits: word(bytes, at + 1),
        };
        fits.then(|| Piece {
            round: word(bytes, 1),
            number: word(bytes, 2),
            length,
            synced: word(bytes, 4),
            before: stamp(5),
            held: stamp(7),
        })
    }
}

/// The steps of one piece.
struct Steps<'a>(&'a [u8]);

impl<'a> Steps<'a> {
    fn part(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk()?;
        let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        self.0 = rest;
        Some(part)
    }
}

impl<'a> Iterator for Steps<'a> {
    type Item = Step<'a>;

    fn next(&mut self) -> Option<Step<'a>> {
        let (kind, rest) = self.0.split_first()?;
        let (slot, rest) = rest.split_first_chunk()?;
        self.0 = rest;
        let (slot, first, second) = (i64::from_le_bytes(*slot), self.part()?, self.part()?);
        Some(match kind {
            0 => Step::Begin(slot, first, second),
            _ => Step::Record(slot, std::str::from_utf8(first).ok()?, second),
        })
    }
}

/// The last round that was filed, if the head can be read.
fn head_of(bytes: &[u8]) -> Option<u64> {
    let head = bytes.get(..BLOCK)?;
    let fits = word(head, 0) == MAGIC && word(head, SUM / 8) == checksum(head);
    fits.then(|| word(head, 1))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(8 * at..8 * at + 8);
    bytes.map_or(0, |bytes| {
        bytes.iter().rfold(0, |n, byte| n << 8 | u64::from(*byte))
    })
}

/// Over whole blocks, but for where it stands itself. Every step can be undone, so one altered word always shows.
fn checksum(block: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut sum = block.len() as u64;
    for (at, eight) in block.chunks_exact(8).enumerate() {
        if at != SUM / 8 {
            let number = eight.try_into().map_or(0, u64::from_le_bytes);
            sum = (sum ^ number).wrapping_mul(ODD).rotate_left(29);
        }
    }
    sum
}

/// Reads from the start, as much as there is.
fn read_at(mut file: &File, into: &mut [u8]) -> io::Result<usize> {
    use io::{Read, Seek};
    file.seek(io::SeekFrom::Start(0))?;
    let mut read = 0;
    while read < into.len() {
        match file.read(&mut into[read..]) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

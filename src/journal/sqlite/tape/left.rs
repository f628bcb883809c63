//! What is found on a tape: by who takes over, by who only reads, and by who checks it.

use super::{BLOCK, HALF, HEAD, MAGIC, Place, SUM, Step, checksum, head_of, start_of, word};
use crate::journal::sqlite::files::{self, Files};
use crate::journal::sqlite::stamp::Stamp;
use std::fs::File;
use std::io;

/// What was found on a tape and is not filed.
#[derive(Debug, Default)]
pub(in super::super) struct Left {
    /// The end of the last round that was filed, and of what was written since.
    pub(in super::super) filed: Place,
    pub(in super::super) last: Place,
    /// Nothing was ever written to it.
    pub(in super::super) is_blank: bool,
    /// Pieces that were on the disk cannot be read any more.
    pub(in super::super) is_damaged: bool,
    /// How far the journal had got before the first piece, and with the last: nothing without pieces.
    pub(in super::super) before: Stamp,
    pub(in super::super) held: Stamp,
    pub(super) bytes: Vec<u8>,
    /// Where the pieces that count lie, without their heads.
    pieces: Vec<(usize, usize)>,
    /// And those behind damage, or behind a torn end.
    behind: Vec<(usize, usize)>,
}

impl Left {
    /// Reads a tape; one that is not there has nothing on it.
    pub(in super::super) fn of(files: &Files) -> io::Result<Left> {
        match File::open(&files.tape) {
            Ok(file) => Left::read(&file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Left::blank()),
            Err(error) => Err(error),
        }
    }

    /// What others may see of a tape that is being written: on the disk before it is told, and not in the
    /// middle of being written over.
    pub(in super::super) fn settled(files: &Files) -> io::Result<Left> {
        loop {
            let left = Left::undoubted(|| Left::of(files))?;
            if left.is_blank {
                return Ok(left);
            }
            if !left.is_empty() {
                files::press(&files.tape)?;
            }
            let file = File::open(&files.tape)?;
            let mut head = [0; BLOCK];
            files::read_at(&file, 0, &mut head)?;
            if head_of(&head).is_none_or(|filed| filed == left.filed) {
                return Ok(left);
            }
        }
    }

    /// One piece may be read while it is written, and the next when both are there: that is damage only if it
    /// stays.
    pub(super) fn undoubted(mut read: impl FnMut() -> io::Result<Left>) -> io::Result<Left> {
        let mut doubted = None;
        loop {
            let left = read()?;
            if !left.is_damaged || doubted.replace(left.last) == Some(left.last) {
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

    pub(super) fn read(file: &File) -> io::Result<Left> {
        let length = file.metadata()?.len().min(start_of(1) + HALF);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        let read = files::read_at(file, 0, &mut bytes)?;
        bytes.truncate(read);
        Ok(Left::in_bytes(bytes))
    }

    /// What the bytes of a tape say.
    pub(super) fn in_bytes(bytes: Vec<u8>) -> Left {
        let head = bytes.get(..BLOCK).unwrap_or(&bytes);
        let has_piece = |round| {
            let half = bytes.get(start_of(round) as usize..);
            half.and_then(Piece::of).is_some()
        };
        if head.iter().all(|byte| *byte == 0) && !has_piece(0) && !has_piece(1) {
            return Left::blank();
        }
        let mut left = Left::default();
        match head_of(&bytes) {
            Some(filed) => left.filed = filed,
            None => {
                left.is_damaged = true;
                left.filed = guessed(&bytes);
            }
        }
        left.last = left.filed;
        left.find_pieces(&bytes);
        left.bytes = bytes;
        left
    }

    fn find_pieces(&mut self, bytes: &[u8]) {
        let mut broken = false;
        for round in [self.filed.round + 1, self.filed.round + 2] {
            // Wherever it stands: halves were shorter once.
            let mut at = BLOCK;
            while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= HEAD) {
                let Some(piece) = Piece::of(rest).filter(|piece| piece.place.round == round) else {
                    at += BLOCK;
                    continue;
                };
                let place = (at + HEAD, at + piece.length);
                at += piece.length.next_multiple_of(BLOCK);
                let next = self.last.piece + 1;
                broken |= piece.place.piece != next;
                if broken {
                    // Nothing was written behind a piece that had to be on the disk before that.
                    self.is_damaged |= piece.place.piece > next && piece.synced >= next;
                    self.behind.push(place);
                    // What is written next must not be taken for what stood here.
                    self.last.round = self.last.round.max(round);
                    continue;
                }
                if self.pieces.is_empty() {
                    self.before = piece.before;
                }
                self.pieces.push(place);
                (self.last, self.held) = (piece.place, piece.held);
            }
        }
    }

    /// Whether there is nothing to file.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.steps().next().is_none()
    }

    /// Every step that counts, oldest first; after damage whatever can still be read.
    pub(in super::super) fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        let behind = self.behind.iter().filter(|_| self.is_damaged);
        let pieces = self.pieces.iter().chain(behind);
        pieces.flat_map(|(from, to)| Steps(self.bytes.get(*from..*to).unwrap_or_default()))
    }
}

/// What was filed, where the head does not say: whatever stands before the older of two rounds.
fn guessed(bytes: &[u8]) -> Place {
    let first = |round| bytes.get(start_of(round) as usize..).and_then(Piece::of);
    let oldest = [first(0), first(1)]
        .into_iter()
        .flatten()
        .min_by_key(|piece| piece.place.round);
    oldest.map_or(Place::default(), |piece| Place {
        round: piece.place.round.saturating_sub(1),
        piece: piece.place.piece.saturating_sub(1),
    })
}

/// The head of a piece whose checksum fits.
struct Piece {
    place: Place,
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
            place: Place {
                round: word(bytes, 1),
                piece: word(bytes, 2),
            },
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

//! How far the journal had got, written beside it.
//!
//! Whoever deletes the log, or puts an old copy of the journal back, leaves a file that SQLite finds
//! in perfect order. So after every commit that reached the disk, the lock file notes how many
//! entries and commits there are. The note is not synced, and need not be: it is never ahead of the
//! journal, and a journal that is behind its note has lost something. It also says who wrote last.

use super::files;
use super::tape::Left;
use crate::entry::Owner;
use std::fs::File;
use std::io;

/// What the journal held when it last said so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The highest slot given out.
    pub(super) slots: u64,
    /// Commits that had to survive a power cut and gave out no slot.
    pub(super) commits: u64,
}

/// Each number stands twice, the second time under this mask, so that a torn one is seen.
const MASK: u64 = u64::from_be_bytes(*b"samekey1");
const FIELD: usize = 16;

impl Stamp {
    /// Reads the note; a new or torn number counts for nothing.
    pub(super) fn read(file: &File) -> io::Result<Stamp> {
        let mut bytes = [0; 2 * FIELD];
        files::read_at(file, 0, &mut bytes)?;
        let (slots, commits) = bytes.split_at(FIELD);
        Ok(Stamp {
            slots: parse(slots),
            commits: parse(commits),
        })
    }

    pub(super) fn write(self, file: &File) -> io::Result<()> {
        Stamp::write_slots(file, self.slots)?;
        Stamp::write_commits(file, self.commits)
    }

    pub(super) fn write_slots(file: &File, slots: u64) -> io::Result<()> {
        files::write_at(file, &field(slots), 0)
    }

    pub(super) fn write_commits(file: &File, commits: u64) -> io::Result<()> {
        files::write_at(file, &field(commits), FIELD as u64)
    }

    /// Who wrote last: while that is oneself, nothing has changed but by oneself.
    pub(super) fn last_writer(file: &File) -> io::Result<Owner> {
        let mut bytes = [0; FIELD];
        match files::read_at(file, 2 * FIELD as u64, &mut bytes)? {
            FIELD => Ok(Owner(u128::from_be_bytes(bytes))),
            _ => Ok(Owner::NONE),
        }
    }

    pub(super) fn write_last_writer(file: &File, owner: Owner) -> io::Result<()> {
        files::write_at(file, &owner.0.to_be_bytes(), 2 * FIELD as u64)
    }

    /// What the tables and what is left on the tape hold together.
    pub(super) fn with(self, left: &Left) -> Stamp {
        Stamp {
            slots: self.slots.max(left.held.slots),
            commits: self.commits.max(left.held.commits),
        }
    }

    /// Whether a journal that holds `self` has lost nothing since `noted`.
    pub(super) fn covers(self, noted: Stamp) -> bool {
        self.slots >= noted.slots && self.commits >= noted.commits
    }
}

fn field(number: u64) -> [u8; FIELD] {
    let mut bytes = [0; FIELD];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes[8..].copy_from_slice(&(number ^ MASK).to_be_bytes());
    bytes
}

fn parse(bytes: &[u8]) -> u64 {
    let number = bytes.iter().take(8).fold(0, |n, b| n << 8 | u64::from(*b));
    if field(number) == bytes { number } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};

    #[test]
    fn a_note_is_read_back_and_a_torn_one_counts_for_nothing() {
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(Stamp::read(&file).unwrap(), Stamp::default());
        let stamp = Stamp {
            slots: 7,
            commits: 1 << 40,
        };
        stamp.write(&file).unwrap();
        assert_eq!(Stamp::read(&file).unwrap(), stamp);
        file.seek(SeekFrom::Start(15)).unwrap();
        file.write_all(b"x").unwrap();
        assert_eq!(Stamp::read(&file).unwrap(), Stamp { slots: 0, ..stamp });
    }
}

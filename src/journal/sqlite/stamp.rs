//! How far the journal had got, written beside it.
//!
//! Whoever deletes the log, or puts an old copy of the journal back, leaves a file that SQLite finds
//! in perfect order. So after every commit that reached the disk, the lock file notes how many
//! entries and commits there are. The note is not synced, and need not be: it is never ahead of the
//! journal, and a journal that is behind its note has lost something.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// What the journal held when it last said so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The highest slot given out.
    pub(super) slots: u64,
    /// Commits that had to survive a power cut and gave out no slot.
    pub(super) commits: u64,
}

const MAGIC: [u8; 8] = *b"samekey1";
const LENGTH: usize = 32;

impl Stamp {
    /// Reads the note; a new or torn one counts for nothing.
    pub(super) fn read(mut file: &File) -> io::Result<Stamp> {
        let mut bytes = Vec::with_capacity(LENGTH);
        file.seek(SeekFrom::Start(0))?;
        file.take(LENGTH as u64).read_to_end(&mut bytes)?;
        Ok(Stamp::parse(&bytes).unwrap_or_default())
    }

    pub(super) fn write(self, mut file: &File) -> io::Result<()> {
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&self.bytes())
    }

    fn bytes(self) -> [u8; LENGTH] {
        let check = self.slots ^ self.commits.rotate_left(32) ^ u64::from_le_bytes(MAGIC);
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.slots.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.commits.to_le_bytes());
        bytes[24..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Stamp> {
        let number = |at: usize| {
            let bytes = bytes.get(at..at + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let stamp = Stamp {
            slots: number(8)?,
            commits: number(16)?,
        };
        (stamp.bytes() == *bytes).then_some(stamp)
    }

    /// Whether a journal that holds `self` has lost nothing since `noted`.
    pub(super) fn covers(self, noted: Stamp) -> bool {
        self.slots >= noted.slots && self.commits >= noted.commits
    }
}

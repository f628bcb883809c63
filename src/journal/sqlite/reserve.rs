//! Space kept back for a full disk.
//!
//! When the disk is full, SQLite can neither insert nor update nor delete. Then the reserve is let
//! go: outcomes of operations that are under way are still recorded, and new operations are refused
//! until the reserve could be laid by again. Its length says so to every process.

use super::files;
use crate::journal::{JournalError, JournalErrorKind as Kind};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

#[derive(Clone, Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    bytes: u64,
}

impl Reserve {
    pub(super) fn new(path: PathBuf, bytes: u64) -> Reserve {
        Reserve { path, bytes }
    }

    /// Whether all of it is there.
    pub(super) fn is_whole(&self) -> bool {
        self.bytes == 0 || fs::metadata(&self.path).is_ok_and(|found| found.len() >= self.bytes)
    }

    /// Lays it by, all of it or nothing.
    pub(super) fn fill(&self) -> io::Result<()> {
        if self.is_whole() {
            return Ok(());
        }
        let filled = self.write();
        if filled.is_err() {
            self.release();
        }
        filled
    }

    fn write(&self) -> io::Result<()> {
        let mut file = files::open_private(&self.path).map_err(io::Error::other)?;
        file.set_len(0)?;
        // Not zeros, and not a hole: a file system that compresses must find nothing to save.
        let mut block = [0u8; 4096];
        let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
        let mut left = self.bytes;
        while left > 0 {
            for eight in block.chunks_exact_mut(8) {
                noise ^= noise << 13;
                noise ^= noise >> 7;
                noise ^= noise << 17;
                eight.copy_from_slice(&noise.to_le_bytes());
            }
            let part = left.min(block.len() as u64);
            file.write_all(&block[..part as usize])?;
            left -= part;
        }
        Ok(())
    }

    /// Gives the space back to the disk.
    pub(super) fn release(&self) {
        let _ = File::options()
            .write(true)
            .open(&self.path)
            .and_then(|file| file.set_len(0));
    }

    /// Why nothing new can begin.
    pub(super) fn refusal(&self) -> JournalError {
        JournalError::new(
            Kind::Full,
            format!(
                "the disk is full, so no new operation is begun and nothing was sent; outcomes of \
                 earlier ones are still recorded. Free some space: {} must fit again",
                self.path.display()
            ),
        )
    }
}

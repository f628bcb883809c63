//! Who has the journal open, and whether they still live.
//!
//! Every open makes a file of its own beside the journal and keeps it locked. The system frees the
//! lock when the process ends, however it ends: whoever can lock it knows that its owner is gone.
//! A process that hangs keeps its lock, so the file also says when it was last heard of.

use super::faults;
use super::files::{self, Files};
use crate::entry::Owner;
use crate::journal::{JournalError, LEASE, Liveness};
use crate::time::Timestamp;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// How often an owner with work in hand says that it lives.
pub(super) const BEAT: std::time::Duration = std::time::Duration::from_secs(10);

/// This process's wall clock; owners on one machine share it.
#[expect(
    clippy::disallowed_methods,
    reason = "heartbeats are compared between processes, which no test clock could steer"
)]
pub(super) fn wall_clock() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Timestamp::from_millis(crate::time::millis(since.unwrap_or_default()))
}

/// The proof of one's own life; dropped, it is gone.
#[derive(Debug)]
pub(super) struct Proof {
    owner: Owner,
    path: PathBuf,
    file: File,
    last: Timestamp,
}

impl Proof {
    /// A new owner. The file gets its name only when it is locked, so nobody finds it unlocked.
    pub(super) fn new(files: &Files) -> Result<Proof, JournalError> {
        let owner = draw();
        let path = files.owner(owner);
        let mut unnamed = path.clone().into_os_string();
        unnamed.push(".new");
        let unnamed = PathBuf::from(unnamed);
        let failed = |error| faults::system("make", &path, error);
        let file = files::open_private(&unnamed)?;
        file.lock().map_err(failed)?;
        let mut proof = Proof {
            owner,
            file,
            last: Timestamp::default(),
            path: path.clone(),
        };
        proof.beat().map_err(failed)?;
        fs::rename(&unnamed, &path).map_err(failed)?;
        Ok(proof)
    }

    pub(super) fn owner(&self) -> Owner {
        self.owner
    }

    /// Says that the owner lives, unless it did so lately.
    pub(super) fn beat_if_due(&mut self) {
        if wall_clock().since(self.last) >= BEAT || wall_clock() < self.last {
            // If the note cannot be written, others take over after the lease: safe.
            let _ = self.beat();
        }
    }

    /// As if the last beat had been long ago.
    #[cfg(test)]
    pub(super) fn age(&mut self) {
        self.last = Timestamp::default();
    }

    fn beat(&mut self) -> io::Result<()> {
        self.last = wall_clock();
        let note = format!("{:020} {}\n", self.last.as_millis(), std::process::id());
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(note.as_bytes())
    }
}

impl Drop for Proof {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "an owner is drawn once per open, before there is a client with dice"
)]
pub(super) fn draw() -> Owner {
    Owner(uuid::Uuid::new_v4().as_u128())
}

/// Whether `owner` lives.
pub(super) fn liveness(files: &Files, owner: Owner) -> Result<Liveness, JournalError> {
    let path = files.owner(owner);
    look(&path).map_err(|error| faults::system("look at", &path, error))
}

/// Whether anyone has the journal open; what the dead left behind is removed.
pub(super) fn anyone(files: &Files) -> Result<bool, JournalError> {
    let failed = |error| faults::system("look into", files.folder(), error);
    let mut found = false;
    for path in files.owners().map_err(failed)? {
        found |= look(&path).map_err(failed)? != Liveness::Dead;
    }
    Ok(found)
}

/// Every owner's file with what it says.
pub(super) fn all(files: &Files) -> io::Result<Vec<(PathBuf, Liveness)>> {
    let paths = files.owners()?.into_iter();
    paths.map(|path| Ok((path.clone(), look(&path)?))).collect()
}

fn look(path: &Path) -> io::Result<Liveness> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Liveness::Dead),
        Err(error) => return Err(error),
    };
    // A shared lock: two that look at once do not take each other for the owner.
    match file.try_lock_shared() {
        Ok(()) => {
            let _ = fs::remove_file(path);
            return Ok(Liveness::Dead);
        }
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let mut note = String::new();
    file.read_to_string(&mut note)?;
    let heard = note
        .split_once(' ')
        .and_then(|(millis, _)| millis.parse().ok());
    let heard = Timestamp::from_millis(heard.unwrap_or(0));
    Ok(if wall_clock().since(heard) > LEASE {
        Liveness::Silent
    } else {
        Liveness::Alive
    })
}

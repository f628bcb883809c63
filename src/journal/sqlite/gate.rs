//! One writer at a time, in turn: a file lock around every write transaction.
//!
//! SQLite's own waiting is a poll with growing pauses, and with several busy processes one of them
//! starves. The system's file lock wakes whoever waits. A blocking lock cannot be given up,
//! though, so a helper thread waits for it when it is not free at once; a wait that was given up
//! is taken up again by the next one, and keeps its place.

use super::faults;
use super::files;
use crate::journal::{JournalError, JournalErrorKind as Kind};
use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The file lock of one open journal.
#[derive(Debug)]
pub(super) struct Gate {
    shared: Arc<Shared>,
    path: PathBuf,
}

#[derive(Debug)]
struct Shared {
    file: File,
    wait: Mutex<Wait>,
    changed: Condvar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// Nobody waits.
    No,
    /// The helper waits, and somebody waits for it.
    Wanted,
    /// The helper waits, but nobody wants the lock any more.
    GivenUp,
    /// The helper has locked it for whoever waits.
    Granted,
    /// The helper could not lock it.
    Failed,
}

/// The lock, held; given back when dropped.
#[derive(Debug)]
pub(super) struct Turn(Arc<Shared>);

impl Gate {
    pub(super) fn open(path: PathBuf) -> Result<Gate, JournalError> {
        Ok(Gate {
            shared: Arc::new(Shared {
                file: files::open_private(&path)?,
                wait: Mutex::new(Wait::No),
                changed: Condvar::new(),
            }),
            path,
        })
    }

    /// The file that is locked; it also carries the [stamp](super::stamp).
    pub(super) fn file(&self) -> &File {
        &self.shared.file
    }

    /// The lock, if it is free at once.
    pub(super) fn try_enter(&self) -> Option<Turn> {
        let wait = self.shared.wait();
        let free = *wait == Wait::No && self.shared.file.try_lock().is_ok();
        free.then(|| Turn(Arc::clone(&self.shared)))
    }

    /// Waits for the lock, at most for `patience`.
    pub(super) fn enter(&self, patience: Duration) -> Result<Turn, JournalError> {
        let mut wait = self.shared.wait();
        match *wait {
            Wait::GivenUp => *wait = Wait::Wanted,
            _ => match self.shared.file.try_lock() {
                Ok(()) => return Ok(Turn(Arc::clone(&self.shared))),
                Err(TryLockError::WouldBlock) => {
                    *wait = Wait::Wanted;
                    let shared = Arc::clone(&self.shared);
                    std::thread::spawn(move || shared.wait_for_lock());
                }
                Err(TryLockError::Error(error)) => {
                    return Err(faults::system("lock", &self.path, error));
                }
            },
        }
        let waited = self
            .shared
            .changed
            .wait_timeout_while(wait, patience, |wait| *wait == Wait::Wanted);
        let (mut wait, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match *wait {
            Wait::Granted => {
                *wait = Wait::No;
                Ok(Turn(Arc::clone(&self.shared)))
            }
            Wait::Failed => {
                *wait = Wait::No;
                let error = std::io::Error::other("the wait for the lock was interrupted");
                Err(faults::system("lock", &self.path, error))
            }
            _ => {
                *wait = Wait::GivenUp;
                Err(self.busy(patience))
            }
        }
    }

    fn busy(&self, patience: Duration) -> JournalError {
        JournalError::new(
            Kind::Busy,
            format!(
                "other processes held {} for {patience:?}; try again, and look for one that hangs",
                self.path.display()
            ),
        )
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Failing here cannot be helped; closing the file frees the lock at the latest.
        let _ = self.0.file.unlock();
    }
}

impl Shared {
    fn wait(&self) -> MutexGuard<'_, Wait> {
        self.wait.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_lock(&self) {
        let locked = self.file.lock();
        let mut wait = self.wait();
        *wait = match (locked, *wait) {
            (Ok(()), Wait::Wanted) => Wait::Granted,
            (Ok(()), _) => {
                let _ = self.file.unlock();
                Wait::No
            }
            (Err(_), Wait::Wanted) => Wait::Failed,
            (Err(_), _) => Wait::No,
        };
        self.changed.notify_all();
    }
}

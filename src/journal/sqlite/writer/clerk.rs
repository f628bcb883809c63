//! The thread that works behind the writer's back: it files rounds of the tape into the tables, and copies
//! a long log into the journal.
//!
//! Both sync files and take milliseconds, in which everybody would wait.

use super::transact::file;
use crate::entry::Owner;
use crate::journal::sqlite::lately::Lately;
use crate::journal::sqlite::names;
use crate::journal::sqlite::stamp::Stamp;
use rusqlite::{Connection, Error, Result};
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::JoinHandle;

/// Pages in the log before they are copied after a round: few, as what is soon written over stays in the
/// processor's cache.
const WORTH_COPYING: i64 = 128;

/// What the clerk is asked to do.
#[derive(Debug)]
pub(super) enum Order {
    /// File a round; with it the journal has got so far.
    File(Arc<Lately>, Stamp),
    /// Copy the log.
    Copy,
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Done {
    Filed(Result<()>),
    Copied(Result<()>),
}

/// A connection of its own, and the thread that uses it once there is something to do.
#[derive(Debug)]
pub(in super::super) struct Clerk {
    desk: Option<Desk>,
    thread: Option<Thread>,
    is_busy: bool,
    done: Option<Done>,
}

/// What the clerk works with.
#[derive(Debug)]
pub(in super::super) struct Desk {
    pub(in super::super) connection: Connection,
    /// The journal's log, to sync it.
    pub(in super::super) log: File,
    /// Where the last writer is noted, and whose clerk this is.
    pub(in super::super) lock: File,
    pub(in super::super) owner: Owner,
}

impl Desk {
    /// Files a round, unless somebody else wrote since it was handed over: they have filed it, and what they did
    /// with it since is not to be undone.
    fn file(&self, lately: &Lately, held: Stamp) -> Result<()> {
        let is_ours = || Stamp::last_writer(&self.lock).is_ok_and(|last| last == self.owner);
        let filed = file(&self.connection, lately, held, &is_ours);
        if filed.is_err() && !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        filed.and_then(|_| sync(&self.log))?;
        names::merge(&self.connection, &is_ours)?;
        self.copy_rounds()
    }

    /// Copies what the log has, if that is worth it. Under a steady load one round follows the other, and nobody
    /// else would find the time.
    fn copy_rounds(&self) -> Result<()> {
        let (_, logged, copied) = super::checkpoint(&self.connection, "NOOP")?;
        match logged - copied >= WORTH_COPYING {
            true => super::checkpoint(&self.connection, "PASSIVE").map(drop),
            false => Ok(()),
        }
    }
}

#[derive(Debug)]
struct Thread {
    orders: Sender<Order>,
    done: Receiver<Done>,
    handle: JoinHandle<()>,
}

impl Clerk {
    pub(in super::super) fn new(desk: Desk) -> Clerk {
        Clerk {
            desk: Some(desk),
            thread: None,
            is_busy: false,
            done: None,
        }
    }

    /// Whether it could begin with something now.
    pub(super) fn is_free(&mut self) -> bool {
        self.look(false);
        !self.is_busy && self.done.is_none()
    }

    /// Has something done, by a clerk that is free. Returns whether there is somebody to do it.
    pub(super) fn start(&mut self, order: Order) -> bool {
        if let Some(desk) = self.desk.take() {
            self.thread = run(desk).ok();
        }
        let thread = self.thread.as_ref();
        self.is_busy = thread.is_some_and(|thread| thread.orders.send(order).is_ok());
        self.is_busy
    }

    /// What is done and nobody has heard of yet.
    pub(super) fn take_done(&mut self) -> Option<Done> {
        self.look(false);
        self.done.take()
    }

    /// The same, after waiting for what is being done.
    pub(super) fn wait(&mut self) -> Option<Done> {
        self.look(true);
        self.done.take()
    }

    /// Whether something is done that nobody has heard of yet.
    pub(super) fn is_done(&mut self) -> bool {
        self.look(false);
        self.done.is_some()
    }

    fn look(&mut self, waits: bool) {
        let Some(thread) = self.thread.as_ref().filter(|_| self.is_busy) else {
            return;
        };
        let done = match waits {
            true => thread.done.recv().map_err(|_| TryRecvError::Disconnected),
            false => thread.done.try_recv(),
        };
        match done {
            Err(TryRecvError::Empty) => return,
            // It panicked: the writer goes on alone.
            Err(TryRecvError::Disconnected) => self.thread = None,
            Ok(done) => self.done = Some(done),
        }
        self.is_busy = false;
    }

    /// As if a sync of a copy had failed.
    #[cfg(test)]
    pub(in super::super) fn fail(&mut self) {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
        self.done = Some(Done::Copied(Err(Error::SqliteFailure(code, None))));
    }

    /// Waits for what is being done and closes its connection, which must be closed before the writer's: that
    /// is to be the last.
    pub(super) fn finish(&mut self) {
        self.look(true);
        self.desk = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.orders);
            let _ = thread.handle.join();
        }
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        self.finish();
    }
}

fn run(desk: Desk) -> std::io::Result<Thread> {
    let (orders, ordered) = mpsc::channel();
    let (report, done) = mpsc::channel();
    let handle = std::thread::Builder::new()
        .name("samekey-clerk".into())
        .spawn(move || {
            stand_back();
            let mut is_full = true;
            for order in ordered {
                let done = match order {
                    Order::Copy => {
                        let copied = super::checkpoint(&desk.connection, "PASSIVE");
                        Done::Copied(copied.map(drop))
                    }
                    Order::File(lately, held) => {
                        let pressed = super::press(&desk.connection, &mut is_full, false);
                        Done::Filed(pressed.and_then(|()| desk.file(&lately, held)))
                    }
                };
                if report.send(done).is_err() {
                    break;
                }
            }
        })?;
    Ok(Thread {
        orders,
        done,
        handle,
    })
}

/// Whoever waits for the writer waits longer while the clerk has its core. Elsewhere a niceness is the whole
/// process's, and not to be touched.
fn stand_back() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 10);
}

/// A failed sync is told as SQLite would tell it.
fn sync(log: &File) -> Result<()> {
    log.sync_data().map_err(|error| {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
        Error::SqliteFailure(code, Some(error.to_string()))
    })
}

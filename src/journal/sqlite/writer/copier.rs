//! The thread that copies a long log into the journal while the writer goes on.
//!
//! A copy syncs two files and takes milliseconds, in which everybody would wait. What is written
//! meanwhile is little, and the writer copies that itself: only then can the log begin anew.

use rusqlite::{Connection, Error, Result};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::JoinHandle;

/// A connection of its own, and the thread that uses it once there is something to copy.
#[derive(Debug)]
pub(in super::super) struct Copier {
    connection: Option<Connection>,
    thread: Option<Thread>,
    busy: bool,
    done: Option<Result<()>>,
}

#[derive(Debug)]
struct Thread {
    orders: Sender<()>,
    done: Receiver<Result<()>>,
    handle: JoinHandle<()>,
}

impl Copier {
    pub(in super::super) fn new(connection: Connection) -> Copier {
        Copier {
            connection: Some(connection),
            thread: None,
            busy: false,
            done: None,
        }
    }

    /// Has the log copied, unless that is being done. Returns whether there is somebody to do it.
    pub(super) fn start(&mut self) -> bool {
        if self.busy || self.done.is_some() {
            return true;
        }
        if let Some(connection) = self.connection.take() {
            self.thread = run(connection).ok();
        }
        let thread = self.thread.as_ref();
        self.busy = thread.is_some_and(|thread| thread.orders.send(()).is_ok());
        self.busy
    }

    /// Whether a copy is done that nobody has heard of yet.
    pub(super) fn is_done(&mut self) -> bool {
        if let Some(thread) = self.thread.as_ref().filter(|_| self.busy) {
            match thread.done.try_recv() {
                Err(TryRecvError::Empty) => return false,
                // It panicked: the writer goes on alone.
                Err(TryRecvError::Disconnected) => self.done = Some(Ok(())),
                Ok(done) => self.done = Some(done),
            }
            self.busy = false;
        }
        self.done.is_some()
    }

    /// Whether a copy is done and went well; it is asked once.
    pub(super) fn take_done(&mut self) -> bool {
        self.is_done() && self.done.take_if(|done| done.is_ok()).is_some()
    }

    /// As if a sync of the copy had failed.
    #[cfg(test)]
    pub(in super::super) fn fail(&mut self) {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
        self.done = Some(Err(Error::SqliteFailure(code, None)));
    }

    /// Waits for a copy that is being made and closes its connection, which must be closed before the
    /// writer's: that is to be the last.
    pub(super) fn finish(&mut self) {
        self.connection = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.orders);
            let _ = thread.handle.join();
            if std::mem::take(&mut self.busy) {
                self.done = thread.done.try_recv().ok();
            }
        }
    }

    /// Why a copy failed; it is asked once.
    pub(super) fn take_failure(&mut self) -> Option<Error> {
        self.is_done();
        self.done.take_if(|done| done.is_err())?.err()
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        self.finish();
    }
}

fn run(connection: Connection) -> std::io::Result<Thread> {
    let (orders, ordered) = mpsc::channel();
    let (report, done) = mpsc::channel();
    let handle = std::thread::Builder::new()
        .name("samekey-copier".into())
        .spawn(move || {
            for () in ordered {
                // Twice: what is written during the second, shorter one is less still.
                let copied = super::checkpoint(&connection, "PASSIVE")
                    .and_then(|_| super::checkpoint(&connection, "PASSIVE"));
                if report.send(copied.map(|_| ())).is_err() {
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

//! A gate in the worker's way: tests keep work in flight without sleeping.

use std::sync::{Mutex, PoisonError};
use tokio::sync::oneshot;

#[derive(Debug, Default)]
pub(crate) struct Gate(Mutex<Inside>);

#[derive(Debug, Default)]
struct Inside {
    closed: bool,
    waiting: Vec<oneshot::Sender<()>>,
}

impl Gate {
    fn lock(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Closes the gate.
    pub(crate) fn hold(&self) {
        self.lock().closed = true;
    }

    /// Opens the gate for those who come; those who wait go on waiting.
    pub(crate) fn pass(&self) {
        self.lock().closed = false;
    }

    /// Opens the gate for everyone.
    pub(crate) fn release(&self) {
        let mut inside = self.lock();
        inside.closed = false;
        for waiting in inside.waiting.drain(..) {
            let _ = waiting.send(());
        }
    }

    /// A place in the queue if the gate is closed.
    pub(crate) fn queue(&self) -> Option<oneshot::Receiver<()>> {
        let mut inside = self.lock();
        inside.closed.then(|| {
            let (open, opened) = oneshot::channel();
            inside.waiting.push(open);
            opened
        })
    }
}

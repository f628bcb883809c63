//! What the writing thread is asked to do, and how those who asked are told.

use crate::entry::{Flush, Phase, Receipt};
use crate::journal::sqlite::rows::{NewRow, Update};
use crate::journal::{Begun, JournalError, Reaped, Retention};
use crate::key::Key;
use crate::machine::release;
use std::sync::mpsc::Sender;
use tokio::sync::oneshot;

pub(in super::super) type Outcome<T> = Result<T, JournalError>;

/// Somebody who waits for an `R`, and what they will be told once it is committed.
#[derive(Debug)]
pub(in super::super) struct Waiter<T, R = T> {
    reply: oneshot::Sender<Outcome<R>>,
    pub(super) answer: Option<Outcome<T>>,
}

impl<T, R> Waiter<T, R> {
    pub(in super::super) fn new() -> (Waiter<T, R>, oneshot::Receiver<Outcome<R>>) {
        let (reply, answer) = oneshot::channel();
        let waiter = Waiter {
            reply,
            answer: None,
        };
        (waiter, answer)
    }

    fn tell(self, wrap: impl FnOnce(T) -> R) {
        if let Some(answer) = self.answer {
            // Whoever stopped waiting finds it in the journal.
            let _ = self.reply.send(answer.map(wrap));
        }
    }
}

/// The answer to a begin. If nobody takes it, what was created is let go: its owner lives, so no
/// other process could take it, and nobody here knows of it.
#[derive(Debug)]
pub(in super::super) struct Handed {
    begun: Option<Begun>,
    row: Box<NewRow>,
    back: Sender<Job>,
}

impl Handed {
    pub(in super::super) fn take(mut self) -> Option<Begun> {
        self.begun.take()
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        let progress = &self.row.entry.progress;
        if let Some(Begun::Created(receipt)) = &self.begun
            && progress.phase == Phase::Ready
        {
            let (slot, key) = (receipt.slot(), receipt.key().clone());
            let update = Update::new(slot, key, progress.revision, &release(progress, true));
            let (nobody, _) = Waiter::new();
            // Closed meanwhile, its owner is dead, and others may take it all the same.
            let _ = self
                .back
                .send(Job::Record(Box::new(update), Flush::Normal, nobody));
        }
    }
}

/// What the writer is asked to do.
#[derive(Debug)]
pub(in super::super) enum Job {
    Begin(Box<NewRow>, Waiter<Begun, Handed>),
    Record(Box<Update>, Flush, Waiter<Receipt>),
    Forget(u64, Key, Waiter<()>),
    Reap(Vec<u64>, Retention, Waiter<Reaped>),
    Close,
}

impl Job {
    pub(super) fn is_full(&self) -> bool {
        matches!(
            self,
            Job::Begin(..) | Job::Record(_, Flush::Full, _) | Job::Forget(..)
        )
    }

    pub(super) fn tell(self, back: &Sender<Job>) {
        match self {
            Job::Begin(row, waiter) => waiter.tell(|begun| Handed {
                begun: Some(begun),
                row,
                back: back.clone(),
            }),
            Job::Record(_, _, waiter) => waiter.tell(|answer| answer),
            Job::Forget(_, _, waiter) => waiter.tell(|answer| answer),
            Job::Reap(_, _, waiter) => waiter.tell(|answer| answer),
            Job::Close => {}
        }
    }

    pub(super) fn refuse(&mut self, error: &JournalError) {
        match self {
            Job::Begin(_, waiter) => waiter.answer = Some(Err(error.clone())),
            Job::Record(_, _, waiter) => waiter.answer = Some(Err(error.clone())),
            Job::Forget(_, _, waiter) => waiter.answer = Some(Err(error.clone())),
            Job::Reap(_, _, waiter) => waiter.answer = Some(Err(error.clone())),
            Job::Close => {}
        }
    }
}

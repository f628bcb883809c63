//! What the writing thread is asked to do, and how those who asked are told.

use super::Queue;
use crate::entry::{Expected, Flush, Phase, Progress, Receipt};
use crate::journal::sqlite::rows::{NewRow, Update};
use crate::journal::{Begun, JournalError, Reaped, Retention};
use crate::key::Key;
use crate::machine::release;
use tokio::sync::oneshot;

pub(in super::super) type Outcome<T> = Result<T, JournalError>;

/// Somebody who waits for an `R`, and what they will be told once it is committed.
#[derive(Debug)]
pub(in super::super) struct Waiter<T, R = T> {
    reply: Option<oneshot::Sender<Outcome<R>>>,
    pub(super) answer: Option<Outcome<T>>,
}

impl<T, R> Waiter<T, R> {
    pub(in super::super) fn new() -> (Waiter<T, R>, oneshot::Receiver<Outcome<R>>) {
        let (reply, answer) = oneshot::channel();
        let waiter = Waiter {
            reply: Some(reply),
            answer: None,
        };
        (waiter, answer)
    }

    fn tell(&mut self, wrap: impl FnOnce(T) -> R) {
        if let (Some(answer), Some(reply)) = (self.answer.take(), self.reply.take()) {
            // Whoever stopped waiting finds it in the journal.
            let _ = reply.send(answer.map(wrap));
        }
    }
}

/// What must have reached the disk, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Sync {
    /// Nothing yet: it is in the file, and a later sync covers it.
    None,
    /// It, before whoever asked is told. Others may see it a moment sooner, which harms nobody: what
    /// was begun is sent only by whoever was told, or by whoever claimed it with a sync of their own.
    BeforeTold,
    /// It, before anybody can see it: an end that another process reads is told there at once.
    BeforeSeen,
}

/// The answer to a begin. If nobody takes it, what was created is let go: its owner lives, so no
/// other process could take it, and nobody here knows of it.
#[derive(Debug)]
pub(in super::super) struct Handed {
    begun: Option<Begun>,
    row: Box<NewRow>,
    back: Queue,
}

impl Handed {
    pub(in super::super) fn take(mut self) -> Option<Begun> {
        self.begun.take()
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        if let Some(Begun::Created(receipt)) = &self.begun
            && self.row.phase == Phase::Ready
            && let Ok(progress) = &Progress::decode(&self.row.progress, &self.row.key)
        {
            let (slot, key) = (receipt.slot(), receipt.key().clone());
            let update = Update::new(slot, key, &Expected::of(progress), &release(progress, true));
            let (nobody, _) = Waiter::new();
            // Closed meanwhile, its owner is dead, and others may take it all the same.
            let _ = self
                .back
                .send(Job::Record(Box::new(update), Flush::Normal, nobody));
        }
    }
}

/// The answer to a record, and what was to be recorded: whoever made it gives its memory back, as the allocator
/// has to lock for anybody else.
pub(in super::super) type Recorded = (Receipt, Box<Update>);

/// What the writer is asked to do.
#[derive(Debug)]
pub(in super::super) enum Job {
    Begin(Box<NewRow>, Waiter<Begun, Handed>),
    Record(Box<Update>, Flush, Waiter<Receipt, Recorded>),
    Forget(u64, Key, Waiter<()>),
    Reap(Vec<u64>, Retention, Waiter<Reaped>),
    /// See whether the log or the tape has grown long.
    Look,
    Close,
}

impl Job {
    pub(super) fn sync(&self) -> Sync {
        match self {
            Job::Begin(..) => Sync::BeforeTold,
            Job::Record(_, Flush::Full, _) | Job::Forget(..) => Sync::BeforeSeen,
            Job::Record(..) | Job::Reap(..) | Job::Look | Job::Close => Sync::None,
        }
    }

    /// Tells whoever waits for no sync. Nothing is left to do then.
    pub(super) fn tell_early(&mut self) {
        if self.sync() > Sync::None {
            return;
        }
        match std::mem::replace(self, Job::Look) {
            Job::Record(update, _, mut waiter) => waiter.tell(|receipt| (receipt, update)),
            Job::Reap(_, _, mut waiter) => waiter.tell(|answer| answer),
            other => *self = other,
        }
    }

    pub(super) fn tell(self, back: &Queue) {
        match self {
            Job::Begin(row, mut waiter) => waiter.tell(|begun| Handed {
                begun: Some(begun),
                row,
                back: back.clone(),
            }),
            Job::Record(update, _, mut waiter) => waiter.tell(|receipt| (receipt, update)),
            Job::Forget(_, _, mut waiter) => waiter.tell(|answer| answer),
            Job::Reap(_, _, mut waiter) => waiter.tell(|answer| answer),
            Job::Look | Job::Close => {}
        }
    }

    pub(super) fn refuse(&mut self, error: &JournalError) {
        match self {
            Job::Begin(_, waiter) => waiter.answer = Some(Err(error.clone())),
            Job::Record(_, _, waiter) => waiter.answer = Some(Err(error.clone())),
            Job::Forget(_, _, waiter) => waiter.answer = Some(Err(error.clone())),
            Job::Reap(_, _, waiter) => waiter.answer = Some(Err(error.clone())),
            Job::Look | Job::Close => {}
        }
    }
}

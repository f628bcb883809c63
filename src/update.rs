//! What happens to an operation while it is driven, as a stream.

use crate::entry::Phase;
use crate::retry::classify::Reason;
use crate::time::Timestamp;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// One thing that happened to an operation, to be shown while it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Update {
    /// An attempt leaves.
    Sending {
        /// Its number, from 1.
        attempt: u32,
    },
    /// It ended, and another will follow.
    Waiting {
        /// Attempts so far.
        attempt: u32,
        /// How long.
        wait: Duration,
        /// Why, for people.
        reason: Box<str>,
    },
    /// The server accepted it and works on it; its result is being asked for.
    Polling,
    /// Another process or tab drives it; this one waits for the outcome.
    Joined,
    /// Parked until a time.
    Deferred {
        /// Until when.
        until: Timestamp,
    },
    /// It ended.
    Settled(Phase),
    /// A person has to look.
    Attention(Reason),
}

/// A stream of [`Update`]s; it ends when the operation's handle is dropped.
///
/// Slow readers miss the oldest updates, never the latest.
#[derive(Debug)]
pub struct Updates(Arc<Mutex<Queue>>);

/// More updates than anyone shows at a time.
const KEPT: usize = 64;

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Update>,
    waker: Option<Waker>,
    closed: bool,
}

impl Updates {
    /// The next update; `None` after the last.
    pub async fn next(&mut self) -> Option<Update> {
        std::future::poll_fn(|cx| self.poll_update(cx)).await
    }

    fn poll_update(&mut self, cx: &mut Context<'_>) -> Poll<Option<Update>> {
        let mut queue = lock(&self.0);
        match queue.waiting.pop_front() {
            Some(update) => Poll::Ready(Some(update)),
            None if queue.closed => Poll::Ready(None),
            None => {
                queue.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl futures_core::Stream for Updates {
    type Item = Update;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Update>> {
        self.poll_update(cx)
    }
}

/// Tells everyone who listens.
#[derive(Debug, Default)]
pub(crate) struct Announcer(Mutex<Vec<Weak<Mutex<Queue>>>>);

impl Announcer {
    pub(crate) fn listen(&self) -> Updates {
        let queue = Arc::default();
        lock(&self.0).push(Arc::downgrade(&queue));
        Updates(queue)
    }

    pub(crate) fn tell(&self, update: &Update) {
        lock(&self.0).retain(|listener| {
            let Some(queue) = listener.upgrade() else {
                return false;
            };
            let mut queue = lock(&queue);
            if queue.waiting.len() == KEPT {
                queue.waiting.pop_front();
            }
            queue.waiting.push_back(update.clone());
            if let Some(waker) = queue.waker.take() {
                waker.wake();
            }
            true
        });
    }
}

impl Drop for Announcer {
    fn drop(&mut self) {
        for queue in lock(&self.0).iter().filter_map(Weak::upgrade) {
            let mut queue = lock(&queue);
            queue.closed = true;
            if let Some(waker) = queue.waker.take() {
                waker.wake();
            }
        }
    }
}

/// A panic elsewhere leaves these plain values whole: go on with them.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

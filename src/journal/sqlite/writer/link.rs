//! The ways to the writer: through its thread, which shares a sync among all who wait, or past it
//! where there is nobody to share with.

use super::{Job, ROOM, Writer};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What waits for the writing thread.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Queue(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    bell: Condvar,
    /// Jobs that nobody has dealt with.
    left: AtomicUsize,
}

#[derive(Debug, Default)]
struct Waiting {
    jobs: Vec<Job>,
    /// The thread sleeps until there are so many; 0 while it works.
    wanted: usize,
    has_ended: bool,
}

impl Queue {
    /// Puts a job into the queue. Returns whether there is a thread that takes it.
    pub(super) fn send(&self, job: Job) -> bool {
        let mut waiting = self.waiting();
        if waiting.has_ended {
            return false;
        }
        self.0.left.fetch_add(1, Ordering::AcqRel);
        let urgent = matches!(job, Job::Close);
        waiting.jobs.push(job);
        if waiting.wanted > 0 && (urgent || waiting.jobs.len() >= waiting.wanted) {
            waiting.wanted = 0;
            drop(waiting);
            self.0.bell.notify_one();
        }
        true
    }

    /// Waits until so many are there, at most for so long, and takes what is there then.
    pub(super) fn take(&self, wanted: usize, patience: Duration, into: &mut Vec<Job>) {
        let mut waiting = self.waiting();
        if waiting.jobs.len() < wanted {
            waiting.wanted = wanted;
            let waits = |waiting: &mut Waiting| waiting.wanted > 0;
            let waited = self.0.bell.wait_timeout_while(waiting, patience, waits);
            (waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
            waiting.wanted = 0;
        }
        into.append(&mut waiting.jobs);
        // After a crowd: the next one is smaller.
        waiting.jobs.shrink_to(ROOM);
    }

    /// Takes the last jobs; there will be no more.
    fn end(&self) -> Vec<Job> {
        let mut waiting = self.waiting();
        waiting.has_ended = true;
        std::mem::take(&mut waiting.jobs)
    }

    /// Notes that so many have been dealt with.
    pub(super) fn done(&self, jobs: usize) {
        self.0.left.fetch_sub(jobs, Ordering::AcqRel);
    }

    fn is_empty(&self) -> bool {
        self.0.left.load(Ordering::Acquire) == 0
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread leaves behind, however it ends. After a panic that is a writer in the middle of its
/// work, whose turn, transaction and owner would keep every other process out while this one lives.
struct Left(Arc<Mutex<Option<Writer>>>, Queue);

impl Drop for Left {
    fn drop(&mut self) {
        // Whoever waits hears that nobody will answer.
        drop(self.1.end());
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(held.take());
    }
}

/// One open journal's way to its writer.
#[derive(Debug)]
pub(in super::super) struct Link {
    /// Taken when the journal is closed.
    writer: Arc<Mutex<Option<Writer>>>,
    queue: Queue,
    /// Disconnected when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

impl Link {
    /// Starts the thread.
    pub(in super::super) fn start(writer: Writer) -> std::io::Result<Link> {
        let (end, ended) = mpsc::channel::<()>();
        let link = Link {
            writer: Arc::new(Mutex::new(Some(writer))),
            queue: Queue::default(),
            ended: Mutex::new(ended),
        };
        let left = Left(Arc::clone(&link.writer), link.queue.clone());
        std::thread::Builder::new()
            .name("samekey-journal".into())
            .spawn(move || {
                // Gone before whoever waits for the end of the thread hears of it.
                let (_end, left) = (end, left);
                super::run(&left.0, &left.1);
            })?;
        Ok(link)
    }

    /// Has a job done. Returns whether there is somebody to do it.
    ///
    /// Where nothing is under way there is nobody to share a sync with, and two hops from thread to
    /// thread take longer than the work: then it is done here and now.
    pub(in super::super) fn submit(&self, job: Job) -> bool {
        if let Ok(mut held) = self.writer.try_lock()
            && let Some(writer) = held.as_mut()
            && self.queue.is_empty()
            && writer.would_be_alone(&job)
        {
            writer.serve_alone(job, &self.queue);
            return true;
        }
        self.queue.send(job)
    }

    /// Looks at the writer, or steers it, when it has done what was asked of it.
    #[cfg(test)]
    pub(in super::super) fn when_idle<T>(&self, look: impl FnOnce(&mut Writer) -> T) -> T {
        loop {
            let mut held = self.writer.lock().unwrap();
            if self.queue.is_empty() {
                return look(held.as_mut().unwrap());
            }
            drop(held);
            std::thread::yield_now();
        }
    }

    /// Waits until the thread has ended.
    #[cfg(test)]
    pub(in super::super) fn wait_for_end(&self) {
        let _ = self.ended.lock().unwrap().recv();
    }

    /// Has what waits done, closes the journal, and waits for that.
    pub(in super::super) fn close(&self, patience: Duration) {
        if self.queue.send(Job::Close) {
            let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = ended.recv_timeout(patience);
        }
    }
}

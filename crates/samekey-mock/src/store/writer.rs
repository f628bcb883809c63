//! One thread owns the store. It takes one piece of work, drains what waits behind it, commits all
//! of it once, and only then tells everyone: many requests share the price of a commit.

use super::{Res, Store, StoreError};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use tokio::sync::oneshot;

const BATCH: usize = 512;

trait Job: Send {
    fn run(&mut self, store: &mut dyn Store);
    fn reply(self: Box<Self>, committed: Res<()>);
}

struct Call<F, T> {
    work: Option<F>,
    done: Option<Res<T>>,
    reply: oneshot::Sender<Res<T>>,
}

impl<F, T> Job for Call<F, T>
where
    F: FnOnce(&mut dyn Store) -> Res<T> + Send,
    T: Send,
{
    fn run(&mut self, store: &mut dyn Store) {
        let Some(work) = self.work.take() else { return };
        self.done = Some(inner(store, work));
    }

    fn reply(self: Box<Self>, committed: Res<()>) {
        let done = self.done.unwrap_or(Err(StoreError::Down));
        // Whoever asked may be gone; the work is done all the same.
        let _ = self.reply.send(committed.and(done));
    }
}

/// Runs work in a savepoint of its own: an error takes its writes back and nobody else's.
pub(crate) fn inner<T>(
    store: &mut dyn Store,
    work: impl FnOnce(&mut dyn Store) -> Res<T>,
) -> Res<T> {
    store.begin()?;
    let done = work(store);
    if done.is_ok() {
        store.keep()?;
    } else {
        store.undo()?;
    }
    done
}

/// The way to the thread that owns the store.
#[derive(Clone)]
pub struct Writer {
    jobs: mpsc::Sender<Box<dyn Job>>,
    commits: Arc<AtomicU64>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("commits", &self.commits)
            .finish_non_exhaustive()
    }
}

impl Writer {
    /// Starts the thread; it ends when the last `Writer` is dropped.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(store: Box<dyn Store>) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<Box<dyn Job>>();
        let commits = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&commits);
        std::thread::Builder::new()
            .name("samekey-mock-store".into())
            .spawn(move || serve(store, &queue, &count))?;
        Ok(Self { jobs, commits })
    }

    /// Does work in a transaction and answers once it is committed.
    ///
    /// # Errors
    /// What the work returned, or why the commit failed.
    pub async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Store) -> Res<T> + Send + 'static,
    ) -> Res<T> {
        self.send(work)?.await.unwrap_or(Err(StoreError::Down))
    }

    /// The same for callers that are not async; the thread needs no runtime to answer.
    ///
    /// # Errors
    /// What the work returned, or why the commit failed.
    pub fn call_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Store) -> Res<T> + Send + 'static,
    ) -> Res<T> {
        let (tell, told) = mpsc::channel();
        let reply = self.send(move |store| {
            let done = work(store);
            let failed = done.as_ref().err().cloned();
            // Reading back needs no commit, and callers of this only read.
            let _ = tell.send(done);
            failed.map_or(Ok(()), Err)
        })?;
        drop(reply);
        told.recv().unwrap_or(Err(StoreError::Down))
    }

    /// How many transactions were committed so far.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    fn send<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Store) -> Res<T> + Send + 'static,
    ) -> Res<oneshot::Receiver<Res<T>>> {
        let (reply, answer) = oneshot::channel();
        let job = Call {
            work: Some(work),
            done: None,
            reply,
        };
        self.jobs
            .send(Box::new(job))
            .map_err(|_| StoreError::Down)?;
        Ok(answer)
    }
}

fn serve(mut store: Box<dyn Store>, queue: &mpsc::Receiver<Box<dyn Job>>, commits: &AtomicU64) {
    while let Ok(first) = queue.recv() {
        let mut batch = vec![first];
        batch.extend(queue.try_iter().take(BATCH - 1));
        let begun = store.begin();
        if begun.is_ok() {
            batch.iter_mut().for_each(|job| job.run(store.as_mut()));
        }
        let committed = begun.and_then(|()| store.keep());
        commits.fetch_add(1, Ordering::Relaxed);
        for job in batch {
            job.reply(committed.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{MemoryStore, SqliteStore};
    use std::sync::mpsc;

    fn writers() -> [Writer; 2] {
        let stores: [Box<dyn Store>; 2] = [
            Box::new(MemoryStore::default()),
            Box::new(SqliteStore::in_memory().unwrap()),
        ];
        stores.map(|store| Writer::start(store).unwrap())
    }

    /// Keeps the thread busy until told, so that what comes meanwhile must wait together.
    async fn busy(writer: &Writer) -> mpsc::Sender<()> {
        let (started, seen) = oneshot::channel();
        let (go, wait) = mpsc::channel::<()>();
        let job = writer.send(move |_| {
            let _ = started.send(());
            let _ = wait.recv();
            Ok(())
        });
        drop(job);
        seen.await.unwrap();
        go
    }

    #[tokio::test]
    async fn m13_what_waits_together_shares_one_commit() {
        for writer in writers() {
            let go = busy(&writer).await;
            let waiting: Vec<_> = (0..100)
                .map(|n| {
                    writer
                        .send(move |s| s.set_stock(&format!("item-{n}"), 1))
                        .unwrap()
                })
                .collect();
            go.send(()).unwrap();
            for answer in waiting {
                assert_eq!(answer.await.unwrap(), Ok(()));
            }
            assert_eq!(writer.commits(), 2);
        }
    }

    #[tokio::test]
    async fn m13_work_that_fails_is_taken_back_and_its_neighbours_stay() {
        for writer in writers() {
            let go = busy(&writer).await;
            let good = writer.send(|s| s.set_stock("tea", 1)).unwrap();
            let bad = writer.send(|s| {
                s.set_stock("tea", 0)?;
                Err::<(), _>(StoreError::Rollback("on purpose"))
            });
            let bad = bad.unwrap();
            go.send(()).unwrap();
            assert_eq!(good.await.unwrap(), Ok(()));
            assert_eq!(bad.await.unwrap(), Err(StoreError::Rollback("on purpose")));
            assert_eq!(writer.call(|s| s.take_stock("tea")).await, Ok(true));
        }
    }
}

//! The thread that reads: a long list holds up no write.

use super::faults;
use super::files::Files;
use super::schema;
use crate::journal::JournalError;
use rusqlite::Connection;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

type Task = Box<dyn FnOnce(&Connection) + Send>;

/// Started by the first who reads.
#[derive(Debug)]
pub(super) struct Reader {
    files: Files,
    patience: Duration,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    tasks: Sender<Task>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl Reader {
    pub(super) fn new(files: Files, patience: Duration) -> Reader {
        Reader {
            files,
            patience,
            running: Mutex::new(None),
        }
    }

    /// Runs `read` on the reading thread.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, JournalError> {
        let (reply, answer) = oneshot::channel();
        let task: Task = Box::new(move |connection| {
            let _ = reply.send(read(connection));
        });
        self.submit(task)?;
        let read = answer.await.map_err(|_| super::stopped(&self.files))?;
        read.map_err(|error| faults::sqlite(&self.files.journal, error))
    }

    fn submit(&self, task: Task) -> Result<(), JournalError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let task = match running.as_ref() {
            None => task,
            Some(thread) => match thread.tasks.send(task) {
                Ok(()) => return Ok(()),
                Err(mpsc::SendError(task)) => task,
            },
        };
        *running = Some(self.start(task)?);
        Ok(())
    }

    fn start(&self, first: Task) -> Result<Running, JournalError> {
        let connection = schema::connect_to_read(&self.files.journal, self.patience)?;
        let (tasks, queue) = mpsc::channel::<Task>();
        let (end, ended) = mpsc::channel();
        let spawned = std::thread::Builder::new()
            .name("samekey-reader".into())
            .spawn(move || {
                for task in queue {
                    task(&connection);
                }
                drop(connection);
                drop::<Sender<()>>(end);
            });
        spawned
            .map_err(|error| faults::system("start a thread for", &self.files.journal, error))?;
        let _ = tasks.send(first);
        Ok(Running { tasks, ended })
    }

    /// Ends the thread, so that the writer can be the last to close the file.
    pub(super) fn stop(&self, patience: Duration) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Running { tasks, ended }) = running.take() {
            drop(tasks);
            let _ = ended.recv_timeout(patience);
        }
    }
}

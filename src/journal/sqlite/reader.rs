//! The thread that reads: a long list holds up no write.

use super::faults;
use super::files::Files;
use super::schema;
use crate::journal::JournalError;
use rusqlite::Connection;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

type Task = Box<dyn FnOnce(&Connection) + Send>;

/// Started by the first who reads.
#[derive(Debug)]
pub(super) struct Reader {
    files: Files,
    patience: Duration,
    tasks: Mutex<Option<Sender<Task>>>,
}

impl Reader {
    pub(super) fn new(files: Files, patience: Duration) -> Reader {
        Reader {
            files,
            patience,
            tasks: Mutex::new(None),
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
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let task = match tasks.as_ref() {
            None => task,
            Some(running) => match running.send(task) {
                Ok(()) => return Ok(()),
                Err(mpsc::SendError(task)) => task,
            },
        };
        self.start(&mut tasks, task)
    }

    fn start(&self, tasks: &mut Option<Sender<Task>>, first: Task) -> Result<(), JournalError> {
        let connection = schema::connect_to_read(&self.files.journal, self.patience)?;
        let (sender, receiver) = mpsc::channel::<Task>();
        let spawned = std::thread::Builder::new()
            .name("samekey-reader".into())
            .spawn(move || {
                for task in receiver {
                    task(&connection);
                }
            });
        spawned
            .map_err(|error| faults::system("start a thread for", &self.files.journal, error))?;
        let _ = sender.send(first);
        *tasks = Some(sender);
        Ok(())
    }
}

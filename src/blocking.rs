//! A client for programs without an async runtime.
//!
//! One thread owns a small runtime of its own; every call here hands its work to that thread and
//! waits. So the client may be used and dropped anywhere, also inside somebody else's runtime, where
//! it merely blocks the thread that calls it.
//!
//! ```no_run
//! use samekey::blocking::Client;
//!
//! # fn main() -> Result<(), samekey::Error> {
//! let client = Client::build(samekey::Client::builder("acme-billing"))?;
//! for operation in client.unfinished()? {
//!     if let Err(error) = operation.resume() {
//!         eprintln!("{}: {error}", operation.reference());
//!     }
//! }
//! let request = client.operation("invoice/42/pay").post("https://api.example.com/payments");
//! let operation = client.begin(request)?;
//! println!("Your reference: {}", operation.reference());
//! println!("{}", operation.send()?.status());
//! # Ok(()) }
//! ```

use crate::error::{Error, ErrorKind};
use crate::journal::Select;
use crate::key::Reference;
use crate::{ClientBuilder, OperationBuilder, Outcome, Phase};
use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// [`samekey::Client`](crate::Client) whose calls wait. Cheap to clone; share one.
#[derive(Clone, Debug)]
pub struct Client {
    inner: crate::Client,
    worker: Arc<Worker>,
}

/// [`samekey::Operation`](crate::Operation) whose calls wait; what does not need to wait is there
/// through `Deref`.
#[derive(Debug)]
pub struct Operation {
    inner: Arc<crate::Operation>,
    worker: Arc<Worker>,
}

impl Client {
    /// Builds the client and starts its thread.
    ///
    /// # Errors
    /// As [`ClientBuilder::build`]; and if no thread can be started.
    pub fn build(builder: ClientBuilder) -> Result<Client, Error> {
        let worker = Arc::new(Worker::start()?);
        let inner = worker.run(async move { builder.build() })?;
        Ok(Client { inner, worker })
    }

    /// Begins to describe an operation, for [`begin`](Client::begin).
    pub fn operation(&self, intent: &str) -> OperationBuilder {
        self.inner.operation(intent)
    }

    /// Begins to describe a deliberate repeat, for [`begin`](Client::begin).
    pub fn repeat(&self, previous: Reference) -> OperationBuilder {
        self.inner.repeat(previous)
    }

    /// Makes an operation durable. Nothing is sent yet.
    ///
    /// # Errors
    /// As [`OperationBuilder::begin`].
    pub fn begin(&self, operation: OperationBuilder) -> Result<Operation, Error> {
        self.worker
            .run(operation.begin())
            .map(|operation| self.handle(operation))
    }

    /// Begins and sends a JSON POST in one call.
    ///
    /// # Errors
    /// As [`begin`](Client::begin) and [`Operation::send`].
    #[cfg(feature = "json")]
    pub fn post<T: serde::Serialize + ?Sized>(
        &self,
        intent: &str,
        url: &str,
        value: &T,
    ) -> Result<Outcome, Error> {
        self.begin(self.operation(intent).post(url).json(value))?
            .send()
    }

    /// What an earlier run left open.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn unfinished(&self) -> Result<Vec<Operation>, Error> {
        self.list(Select::Unfinished)
    }

    /// What a person has to look at.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn attention(&self) -> Result<Vec<Operation>, Error> {
        self.list(Select::Attention)
    }

    /// The operations of this scope in such a phase.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn list(&self, select: Select) -> Result<Vec<Operation>, Error> {
        let client = self.inner.clone();
        let found = self.worker.run(async move { client.list(select).await })?;
        Ok(found
            .into_iter()
            .map(|operation| self.handle(operation))
            .collect())
    }

    /// Every operation of this scope with this reference.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn find(&self, reference: Reference) -> Result<Vec<Operation>, Error> {
        let client = self.inner.clone();
        let found = self
            .worker
            .run(async move { client.find(reference).await })?;
        Ok(found
            .into_iter()
            .map(|operation| self.handle(operation))
            .collect())
    }

    fn handle(&self, operation: crate::Operation) -> Operation {
        Operation {
            inner: Arc::new(operation),
            worker: Arc::clone(&self.worker),
        }
    }
}

impl Operation {
    /// Sends until there is an end to report.
    ///
    /// # Errors
    /// As [`samekey::Operation::send`](crate::Operation::send).
    pub fn send(&self) -> Result<Outcome, Error> {
        let operation = Arc::clone(&self.inner);
        self.worker.run(async move { operation.send().await })
    }

    /// Goes on with what an earlier run left open.
    ///
    /// # Errors
    /// As [`samekey::Operation::resume`](crate::Operation::resume).
    pub fn resume(&self) -> Result<Outcome, Error> {
        let operation = Arc::clone(&self.inner);
        self.worker.run(async move { operation.resume().await })
    }

    /// The same for an operation whose body the journal does not keep.
    ///
    /// # Errors
    /// As [`samekey::Operation::resume_with`](crate::Operation::resume_with).
    pub fn resume_with(&self, body: impl Into<Vec<u8>>) -> Result<Outcome, Error> {
        let (operation, body) = (Arc::clone(&self.inner), body.into());
        self.worker
            .run(async move { operation.resume_with(body).await })
    }

    /// Stops the operation for good.
    ///
    /// # Errors
    /// As [`samekey::Operation::cancel`](crate::Operation::cancel).
    pub fn cancel(&self) -> Result<Phase, Error> {
        let operation = Arc::clone(&self.inner);
        self.worker.run(async move { operation.cancel().await })
    }

    /// Settles by hand what a person found out.
    ///
    /// # Errors
    /// As [`samekey::Operation::settle`](crate::Operation::settle).
    pub fn settle(&self, happened: bool, note: &str) -> Result<Phase, Error> {
        let (operation, note) = (Arc::clone(&self.inner), note.to_owned());
        self.worker
            .run(async move { operation.settle(happened, &note).await })
    }

    /// Closes the operation on purpose.
    ///
    /// # Errors
    /// As [`samekey::Operation::abandon`](crate::Operation::abandon).
    pub fn abandon(&self, note: &str) -> Result<Phase, Error> {
        let (operation, note) = (Arc::clone(&self.inner), note.to_owned());
        self.worker
            .run(async move { operation.abandon(&note).await })
    }
}

impl Deref for Operation {
    type Target = crate::Operation;

    fn deref(&self) -> &crate::Operation {
        &self.inner
    }
}

/// The thread and its runtime. It ends when the last handle is dropped.
#[derive(Debug)]
struct Worker {
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn start() -> Result<Worker, Error> {
        let failed = |error: std::io::Error| {
            let message = format!("no thread could be started for the blocking client: {error}");
            Error::new(ErrorKind::InvalidConfiguration, message).caused_by(error)
        };
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("samekey".into());
        let thread = thread.spawn(move || {
            // An error means that the sender is gone, which is the other way to say stop.
            let _ = runtime.block_on(stopped);
        });
        Ok(Worker {
            runtime: handle,
            stop: Some(stop),
            thread: Some(thread.map_err(failed)?),
        })
    }

    fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let (tell, told) = mpsc::sync_channel(1);
        self.runtime.spawn(async move {
            // Nobody listens any more only if the caller's thread is gone.
            let _ = tell.send(work.await);
        });
        told.recv()
            .expect("the work panicked; its message is above")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        let Some(thread) = self.thread.take() else {
            return;
        };
        // The last handle may be dropped by the thread itself, which cannot wait for its own end.
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn client() -> Client {
        Client::build(crate::Client::with_parts("shop", testing::parts())).unwrap()
    }

    fn pay(client: &Client) -> Outcome {
        let request = client
            .operation("cart/9")
            .post("https://api.example.com/orders");
        client.begin(request).unwrap().send().unwrap()
    }

    #[test]
    fn it_works_without_a_runtime() {
        assert!(pay(&client()).is_success());
    }

    #[test]
    fn it_is_used_and_dropped_inside_a_runtime() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let client = client();
            assert!(pay(&client).is_success());
            drop(client);
        });
    }

    #[test]
    fn clones_on_many_threads_share_one_operation() {
        let client = client();
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let client = client.clone();
                std::thread::spawn(move || pay(&client).reference())
            })
            .collect();
        let references: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        assert!(references.windows(2).all(|pair| pair[0] == pair[1]));
    }

    #[test]
    fn what_is_found_can_be_settled_by_hand() {
        let client = client();
        let operation = client
            .begin(client.operation("cart/9").post("https://a.example/"))
            .unwrap();
        let reference = operation.reference();
        assert_eq!(
            operation.settle(true, "seen in the books").unwrap(),
            Phase::Succeeded
        );
        assert_eq!(client.find(reference).unwrap()[0].phase(), Phase::Succeeded);
        assert!(client.unfinished().unwrap().is_empty());
    }
}

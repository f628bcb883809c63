//! The client, and the one loop that carries out what the machine decides.

mod builder;
mod credentials;
pub(crate) mod decisions;
mod deferred;
mod drive;
mod flight;
mod lease;
mod settings;

pub use builder::{ClientBuilder, Parts};
pub use credentials::{Asked, Credentials, CredentialsError};
pub(crate) use lease::Wish;
pub(crate) use settings::{Settings, is_credential, is_framing};

use crate::clock::{Clock, Dice};
use crate::entry::{Grade, Scope};
use crate::error::Error;
use crate::journal::{Journal, JournalError, Listing, Query, Reaped, Retention, Select};
use crate::key::{Key, Reference};
use crate::message::Origin;
use crate::operation::{Operation, OperationBuilder};
use crate::retry::budget::Budget;
use crate::seam::{BoxFuture, Map};
use crate::transport::Transport;
#[cfg(feature = "page")]
pub(crate) use flight::Ages;
use flight::Flights;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// After so many ended operations old ones are reaped again.
const REAP_EVERY: u64 = 256;

/// Sends operations, each under one key for all its attempts. Cheap to clone; share one.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), samekey::Error> {
/// # let client = samekey::testing::client();
/// for operation in client.unfinished().await? {
///     if let Err(error) = operation.resume().await {
///         eprintln!("{}: {error}", operation.reference());
///     }
/// }
/// let operation = client
///     .operation("invoice/42/pay")
///     .post("https://api.example.com/payments")
///     .json(&serde_json::json!({"amount": 100}))
///     .begin()
///     .await?;
/// println!("Your reference: {}", operation.reference()); // durable, and nothing sent yet
/// let outcome = operation.send().await?;
/// assert!(outcome.is_success());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Client(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dice: Arc<dyn Dice>,
    pub(crate) credentials: Option<Arc<dyn Credentials>>,
    pub(crate) flights: Arc<Flights>,
    parked: Mutex<Map<Key, ()>>,
    ended: AtomicU64,
    budgets: Mutex<Map<Origin, Budget>>,
}

impl Client {
    /// Begins to describe a client for `application`, which names its scope and, natively, its
    /// journal.
    pub fn builder(application: &str) -> ClientBuilder {
        ClientBuilder::new(application)
    }

    /// The same with every moving part brought along: for stores and transports of one's own, for
    /// tests and for simulations.
    pub fn with_parts(application: &str, parts: Parts) -> ClientBuilder {
        ClientBuilder::new(application).parts(parts)
    }

    /// Begins to describe an operation. `intent` is the caller's stable name of the action, such as
    /// `invoice/42/pay`: it finds the key again after a crash, a restart or a second click.
    pub fn operation(&self, intent: &str) -> OperationBuilder {
        OperationBuilder::new(self.clone(), intent)
    }

    /// Begins a deliberate repeat of an earlier operation: the same action once more, under a key
    /// of its own. Asked for again, after a crash say, it joins that repeat and mints no third key.
    ///
    /// Without a request of its own it repeats the earlier one's. It refuses while the earlier
    /// one's outcome is unknown; see [`OperationBuilder::even_if_unresolved`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), samekey::Error> {
    /// # let client = samekey::testing::client();
    /// let coffee = client.operation("coffee").post("https://api.example.com/orders").begin().await?;
    /// coffee.send().await?;
    /// let another = client.repeat(coffee.reference()).begin().await?;
    /// assert_ne!(another.reference(), coffee.reference());
    /// let joined = client.repeat(coffee.reference()).begin().await?;
    /// assert_eq!(joined.reference(), another.reference());
    /// # Ok(()) }
    /// ```
    pub fn repeat(&self, previous: Reference) -> OperationBuilder {
        OperationBuilder::repeating(self.clone(), previous)
    }

    /// Begins and sends a JSON POST: [`operation`](Client::operation) in one call.
    ///
    /// # Errors
    /// As [`OperationBuilder::begin`] and [`Operation::send`].
    #[cfg(feature = "json")]
    pub async fn post<T: serde::Serialize + ?Sized>(
        &self,
        intent: &str,
        url: &str,
        value: &T,
    ) -> Result<crate::Outcome, Error> {
        self.operation(intent)
            .post(url)
            .json(value)
            .begin()
            .await?
            .send()
            .await
    }

    /// What an earlier run left open and resuming may bring to an end, oldest first.
    ///
    /// An entry that cannot be read is among them: resuming it says what is wrong with it.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn unfinished(&self) -> BoxFuture<'_, Result<Vec<Operation>, Error>> {
        self.list(Select::Unfinished)
    }

    /// What a person has to look at, oldest first.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn attention(&self) -> BoxFuture<'_, Result<Vec<Operation>, Error>> {
        self.list(Select::Attention)
    }

    /// The operations of this scope in such a phase, oldest first.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn list(&self, select: Select) -> BoxFuture<'_, Result<Vec<Operation>, Error>> {
        let scope = Some(self.0.scope.clone());
        let query = Query {
            scope,
            select,
            ..Query::default()
        };
        self.handles(self.0.journal.list(query))
    }

    /// Every operation of this scope with this reference. Two are possible, if rarely: show both.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn find(&self, reference: Reference) -> BoxFuture<'_, Result<Vec<Operation>, Error>> {
        let scope = (!crate::planted::is(22)).then(|| self.0.scope.clone());
        self.handles(self.0.journal.find(reference, scope))
    }

    /// The one operation of this scope with this reference.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub async fn get(&self, reference: Reference) -> Result<Operation, Error> {
        let mut found = self.find(reference).await?;
        match (found.pop(), found.len()) {
            (Some(operation), 0) => Ok(operation),
            (none, others) => {
                let found = others + usize::from(none.is_some());
                Err(decisions::not_one(found, &self.0.scope).about(reference))
            }
        }
    }

    /// Turns what was settled long ago into tombstones, a small batch at a time: the SQLite journal
    /// looks at some thousand entries and goes on from there in the next call. A client does this now
    /// and then by itself.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub async fn reap(&self) -> Result<Reaped, Error> {
        let retention = Retention {
            now: self.0.clock.now().wall,
            settled: self.0.settled_for,
            tombstones: self.0.tombstones_for,
            batch: 256,
        };
        Ok(self.0.journal.reap(retention).await?)
    }

    /// For whom this client acts.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.0.scope
    }

    /// What the journal survives.
    #[must_use]
    pub fn grade(&self) -> Grade {
        self.0.journal.grade()
    }

    /// Reaps in the background after the first ended operation, and now and then after that.
    pub(crate) fn reap_sometimes(&self) {
        let ended = self.0.ended.fetch_add(1, Ordering::Relaxed);
        if !ended.is_multiple_of(REAP_EVERY) {
            return;
        }
        let client = Arc::downgrade(&self.0);
        crate::platform::spawn(Box::pin(async move {
            if let Some(inner) = client.upgrade() {
                // What could not be reaped now is reaped the next time.
                let _ = Client(inner).reap().await;
            }
        }));
    }

    fn handles<'a>(
        &'a self,
        asked: BoxFuture<'a, Result<Listing, JournalError>>,
    ) -> BoxFuture<'a, Result<Vec<Operation>, Error>> {
        Box::pin(async move {
            let listing = asked.await?;
            let mut handles = Vec::new();
            for entry in listing.entries {
                handles.push(Operation::found(self.clone(), entry));
            }
            for damage in listing.damaged {
                handles.push(Operation::damaged(self.clone(), damage));
            }
            Ok(handles)
        })
    }
}

/// Its settings are what most of its methods ask for.
impl Deref for Inner {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}

impl Inner {
    fn with_budget<T>(
        &self,
        origin: &Origin,
        now: Duration,
        use_it: impl FnOnce(&mut Budget, Duration) -> T,
    ) -> T {
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(budget) = budgets.get_mut(origin) {
            return use_it(budget, now);
        }
        let mut budget = Budget::new();
        let used = use_it(&mut budget, now);
        budgets.insert(origin.clone(), budget);
        used
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("scope", &self.0.scope)
            .field("grade", &self.grade())
            .field("policy", &self.0.policy)
            .finish_non_exhaustive()
    }
}

//! Describing an operation, with every mistake named at once, and making it durable.

use super::Operation;
use super::draft::{Draft, check_join, ended_long_ago, unreadable};
use crate::client::Client;
use crate::error::Error;
use crate::journal::Begun;
use crate::key::Reference;
use crate::message::Method;
use crate::profile::Profile;
use crate::retry::classify::Complete;
use crate::seal::Body;
use crate::seam::BoxFuture;
#[cfg(feature = "planted")]
use crate::{
    client::Inner,
    entry::{Entry, Frozen},
    journal::{JournalError, Query},
};
use std::fmt;
#[cfg(feature = "planted")]
use std::sync::Arc;
use std::time::Duration;

/// Describes an operation; [`begin`](OperationBuilder::begin) makes it durable.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), samekey::Error> {
/// # let client = samekey::testing::client();
/// let operation = client
///     .operation("invoice/42/pay")
///     .post("https://api.example.com/payments")
///     .header("Prefer", "return=minimal")
///     .json(&serde_json::json!({"amount": 100}))
///     .window(std::time::Duration::from_secs(12 * 3600))
///     .begin()
///     .await?;
/// // The same intent with another amount is a mistake, and nothing is sent.
/// let other = client.operation("invoice/42/pay").post("https://api.example.com/payments");
/// let error = other.json(&serde_json::json!({"amount": 900})).begin().await.unwrap_err();
/// assert_eq!(error.kind(), samekey::ErrorKind::FingerprintMismatch);
/// assert_eq!(error.reference(), Some(operation.reference()));
/// # Ok(()) }
/// ```
#[must_use = "an operation does nothing until it is begun and sent"]
pub struct OperationBuilder {
    client: Client,
    previous: Option<Reference>,
    draft: Draft,
}

impl OperationBuilder {
    pub(crate) fn new(client: Client, intent: &str) -> Self {
        OperationBuilder {
            draft: Draft::new(&client.0.settings, intent),
            client,
            previous: None,
        }
    }

    pub(crate) fn repeating(client: Client, previous: Reference) -> Self {
        let mut builder = OperationBuilder::new(client, "repeat");
        builder.previous = Some(previous);
        builder
    }

    /// A POST to `url`.
    pub fn post(self, url: &str) -> Self {
        self.request(Method::Post, url)
    }

    /// A PATCH to `url`.
    pub fn patch(self, url: &str) -> Self {
        self.request(Method::Patch, url)
    }

    /// A PUT to `url`. HTTP itself makes it idempotent, so no key is sent with it unless
    /// [`with_key`](Self::with_key) asks for one.
    pub fn put(self, url: &str) -> Self {
        self.request(Method::Put, url)
    }

    /// A DELETE of `url`. HTTP itself makes it idempotent, so no key is sent with it unless
    /// [`with_key`](Self::with_key) asks for one.
    pub fn delete(self, url: &str) -> Self {
        self.request(Method::Delete, url)
    }

    /// A request whose method is a text. GET and HEAD are refused: they need no key.
    pub fn method(mut self, method: &str, url: &str) -> Self {
        self.draft.method(method, url);
        self
    }

    fn request(mut self, method: Method, url: &str) -> Self {
        self.draft.request(method, url);
        self
    }

    /// Sends the key with a PUT or DELETE too.
    pub fn with_key(mut self) -> Self {
        self.draft.keyed = true;
        self
    }

    /// A header line that is frozen with the request. Credentials do not belong here: give them to
    /// [`ClientBuilder::credentials`](crate::ClientBuilder::credentials).
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.draft.header(name, value);
        self
    }

    /// A JSON body, with its members sorted by name: a program that is run again then freezes the
    /// same bytes, whatever order its maps have today.
    #[cfg(feature = "json")]
    pub fn json<T: serde::Serialize + ?Sized>(mut self, value: &T) -> Self {
        match sorted_json(value) {
            Ok(bytes) => self.body(bytes, "application/json"),
            Err(error) => {
                self.draft
                    .problems
                    .add(&format!("the body cannot be written as JSON: {error}"));
                self
            }
        }
    }

    /// A body as it is. It is compared byte for byte when the operation is begun again.
    pub fn body(mut self, bytes: impl Into<Vec<u8>>, content_type: &str) -> Self {
        self.draft.body(bytes.into(), content_type);
        self
    }

    /// What identifies the request, if its body does not: a body that carries the time of day
    /// differs at every run and is the same action all the same. The first run's bytes are sent.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), samekey::Error> {
    /// # let client = samekey::testing::client();
    /// # use serde_json::json;
    /// let begin = |time: &str| {
    ///     let request = client.operation("cart/9").post("https://api.example.com/orders");
    ///     request.json(&json!({"sku": 7, "time": time})).fingerprint_over(&json!({"sku": 7})).begin()
    /// };
    /// let first = begin("12:00").await?;
    /// assert_eq!(begin("12:01").await?.reference(), first.reference());
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "json")]
    pub fn fingerprint_over<T: serde::Serialize + ?Sized>(mut self, value: &T) -> Self {
        match sorted_json(value) {
            Ok(bytes) => self.draft.identity = Some(bytes),
            Err(error) => self.draft.problems.add(&format!(
                "what identifies the request cannot be written as JSON: {error}"
            )),
        }
        self
    }

    /// Uses a key that came in with a request from elsewhere, so that a service hands the same key
    /// on downstream. Without this call no key from outside is ever used. One key must not stand for
    /// two different requests to one server: that is the caller's to see to.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), samekey::Error> {
    /// # let client = samekey::testing::client();
    /// let request = client.operation("inbound/77/charge").post("https://api.example.com/charges");
    /// let operation = request.adopt_key("order-77").begin().await?;
    /// assert_eq!(operation.key().as_str(), "order-77");
    /// # Ok(()) }
    /// ```
    pub fn adopt_key(mut self, inbound: &str) -> Self {
        self.draft.adopt_key(inbound);
        self
    }

    /// How long the server remembers the key, if that is known better than by the profile.
    pub fn window(mut self, window: Duration) -> Self {
        self.draft.window = Some(window);
        self
    }

    /// How this server speaks the contract, if not as the client's default.
    pub fn profile(mut self, profile: Profile) -> Self {
        let name = profile.name();
        if !self.client.0.knows_profile(name) {
            self.draft.problems.add(&format!(
                "the client does not know the profile {name}, so a later run could not resume this; \
                 give it to the client's builder with `profile`"
            ));
        }
        self.draft.profile = profile;
        self
    }

    /// A success always has a body: without one it was cut short on the way, and settles nothing. It
    /// is asked for again under the same key; if a whole one never comes, the outcome stays unknown.
    /// Frozen with the request, so that a resume holds to it too. Default: the status is enough.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), samekey::Error> {
    /// # let client = samekey::testing::client();
    /// let order = client.operation("cart/9").post("https://api.example.com/orders");
    /// let operation = order.complete_with_body().begin().await?;
    /// # let _ = operation;
    /// # Ok(()) }
    /// ```
    pub fn complete_with_body(mut self) -> Self {
        self.draft.complete = Complete::Body;
        self
    }

    /// The same by a header that every success carries, such as `x-order-id`, where there may be no
    /// body. A page sees the headers of another origin only if the server exposes them.
    pub fn complete_with_header(mut self, name: &str) -> Self {
        self.draft.complete_with_header(name);
        self
    }

    /// What the journal keeps of the body and the answer, if not the client's default.
    pub fn keep(mut self, keep: Body) -> Self {
        self.draft.keep = Some(keep);
        self
    }

    /// Repeats an operation although its outcome is unknown. **It may then happen twice.**
    pub fn even_if_unresolved(mut self) -> Self {
        self.draft.even_if_unresolved = true;
        self
    }

    /// Mints the key and makes the operation durable. Nothing is sent yet.
    ///
    /// If this intent is in the journal already, with the same request, that operation is joined:
    /// same key. If it has ended, [`send`](Operation::send) hands out its outcome.
    ///
    /// # Errors
    /// Every mistake in the request; another request under the same intent; a journal that cannot
    /// promise durability. Nothing was sent by this call in any of these cases.
    // Boxed, and within it what is rare: a task that waits would otherwise keep room for it.
    pub fn begin(self) -> BoxFuture<'static, Result<Operation, Error>> {
        Box::pin(self.commit())
    }

    async fn commit(mut self) -> Result<Operation, Error> {
        if let Some(reference) = self.previous {
            let previous = Box::pin(self.client.get(reference)).await?;
            self.draft
                .repeat(&previous.entry(), &self.client.0, || previous.body())?;
        }
        let inner = &*self.client.0;
        let now = inner.clock.now().wall;
        let (mut entry, body) =
            self.draft
                .freeze(inner, inner.journal.owner(), now, &*inner.dice)?;
        #[cfg(feature = "planted")]
        let planted = planted_begin(inner, &mut entry).await;
        #[cfg(not(feature = "planted"))]
        let planted = None;
        let begun = match planted {
            Some(begun) => begun,
            None => inner.journal.begin(entry.clone()).await,
        };
        let begun = match begun {
            Ok(begun) => begun,
            Err(error) => {
                Box::pin(inner.let_go_if_begun(&entry)).await;
                return Err(error.into());
            }
        };
        match begun {
            Begun::Created(receipt) => {
                entry.slot = receipt.slot();
                crate::trace::begun(&entry);
                inner.flights.hold(entry.key());
                let origin = self.draft.origin.take();
                Ok(Operation::begun(self.client, entry, receipt, origin, body))
            }
            Begun::Exists(existing) => {
                check_join(&existing, &entry.frozen, self.draft.adopted.is_some())?;
                let operation = Operation::found(self.client, *existing);
                // The caller may just have supplied what the journal does not keep.
                let _ = operation.supply_body(&self.draft.body);
                Ok(operation)
            }
            Begun::Tombstone(tombstone) => Err(ended_long_ago(&tombstone)),
            Begun::Damaged(damaged) => {
                Err(unreadable(&entry.frozen.intent, &damaged).caused_by(damaged.error))
            }
        }
    }
}

/// What a bug of the harness does in place of a begin: see `planted`.
#[cfg(feature = "planted")]
async fn planted_begin(inner: &Inner, entry: &mut Entry) -> Option<Result<Begun, JournalError>> {
    if crate::planted::is(2) {
        let (key, grade) = (entry.key().clone(), inner.journal.grade());
        let receipt = crate::entry::Receipt::new(key, 1, 1, grade);
        return Some(Ok(Begun::Created(receipt)));
    }
    if !crate::planted::is(24) {
        return None;
    }
    let name = |frozen: &Frozen| (frozen.scope.clone(), frozen.intent.clone());
    let known = inner.journal.list(Query::default()).await.ok()?.entries;
    let free = !known
        .iter()
        .any(|it| name(&it.frozen) == name(&entry.frozen));
    let begun = inner.journal.begin(entry.clone()).await;
    if !free || !matches!(begun, Ok(Begun::Exists(_))) {
        return Some(begun);
    }
    // As if nothing had refused what was free when it was looked up.
    Arc::make_mut(&mut entry.frozen).generation += 1_000_000;
    Some(inner.journal.begin(entry.clone()).await)
}

/// JSON with the members of every object sorted by name.
#[cfg(feature = "json")]
fn sorted_json<T: serde::Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut value = serde_json::to_value(value)?;
    value.sort_all_objects();
    serde_json::to_vec(&value)
}

impl fmt::Debug for OperationBuilder {
    /// Without the body and the query: they are nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperationBuilder")
            .field("intent", &self.draft.intent)
            .field("method", &self.draft.method)
            .field("url", &crate::message::without_query(&self.draft.url))
            .field("headers", &self.draft.headers)
            .field("profile", &self.draft.profile)
            .finish_non_exhaustive()
    }
}

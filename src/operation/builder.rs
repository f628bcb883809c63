//! Describing an operation, with every mistake named at once, and making it durable.

use super::Operation;
use crate::client::{Client, is_credential, is_framing};
use crate::entry::{Entry, Frozen, Kept, Progress, WindowSource};
use crate::error::{Error, ErrorKind};
use crate::fingerprint::Fingerprint;
use crate::journal::{Begun, Damaged, Tombstone};
use crate::key::{Key, Reference};
use crate::machine::may_have_left;
use crate::message::{Headers, Method, place_of};
use crate::profile::Profile;
use crate::retry::classify::Complete;
use crate::seal::{Body, Keeper, Part};
use crate::seam::BoxFuture;
#[cfg(feature = "planted")]
use crate::{
    client::Inner,
    journal::{JournalError, Query},
};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The longest name of an action.
const MAX_INTENT: usize = 512;
/// Headers that are frozen with a request but do not make it another one: a new release of the
/// program, or a new trace, asks for the same thing.
const INCIDENTAL: [&str; 3] = ["user-agent", "x-correlation-id", "x-request-id"];
/// The largest body that a journal takes.
const MAX_BODY: usize = 16 * 1024 * 1024;

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
    intent: Box<str>,
    previous: Option<Reference>,
    even_if_unresolved: bool,
    method: Option<Method>,
    url: Box<str>,
    headers: Headers,
    body: Vec<u8>,
    identity: Option<Vec<u8>>,
    adopted: Option<Key>,
    window: Option<Duration>,
    profile: Profile,
    keep: Option<Body>,
    keyed: bool,
    complete: Complete,
    problems: Vec<String>,
}

impl OperationBuilder {
    pub(crate) fn new(client: Client, intent: &str) -> Self {
        let mut problems = Vec::new();
        if intent.is_empty() || intent.len() > MAX_INTENT || intent.chars().any(char::is_control) {
            problems.push(format!(
                "the intent must be 1 to {MAX_INTENT} bytes without control characters"
            ));
        }
        let profile = client.0.profiles.first().cloned().unwrap_or_default();
        OperationBuilder {
            client,
            intent: intent.into(),
            previous: None,
            even_if_unresolved: false,
            method: None,
            url: "".into(),
            headers: Headers::new(),
            body: Vec::new(),
            identity: None,
            adopted: None,
            window: None,
            profile,
            keep: None,
            keyed: true,
            complete: Complete::Status,
            problems,
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
        match Method::parse(method) {
            Ok(method) => self.request(method, url),
            Err(invalid) => {
                self.problems.push(invalid.to_string());
                self.url = url.into();
                self
            }
        }
    }

    fn request(mut self, method: Method, url: &str) -> Self {
        self.method = Some(method);
        self.url = url.into();
        self.keyed = matches!(method, Method::Post | Method::Patch);
        self
    }

    /// Sends the key with a PUT or DELETE too.
    pub fn with_key(mut self) -> Self {
        self.keyed = true;
        self
    }

    /// A header line that is frozen with the request. Credentials do not belong here: give them to
    /// [`ClientBuilder::credentials`](crate::ClientBuilder::credentials).
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Err(invalid) = self.headers.push(name, value) {
            self.problems.push(invalid.to_string());
        }
        self
    }

    /// A JSON body, with its members sorted by name: a program that is run again then freezes the
    /// same bytes, whatever order its maps have today.
    #[cfg(feature = "json")]
    pub fn json<T: serde::Serialize + ?Sized>(mut self, value: &T) -> Self {
        match sorted_json(value) {
            Ok(bytes) => self.body(bytes, "application/json"),
            Err(error) => {
                self.problems
                    .push(format!("the body cannot be written as JSON: {error}"));
                self
            }
        }
    }

    /// A body as it is. It is compared byte for byte when the operation is begun again.
    pub fn body(mut self, bytes: impl Into<Vec<u8>>, content_type: &str) -> Self {
        self.body = bytes.into();
        if self.headers.get("content-type").is_none() {
            self = self.header("content-type", content_type);
        }
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
            Ok(bytes) => self.identity = Some(bytes),
            Err(error) => self.problems.push(format!(
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
        match Key::adopt(inbound) {
            Ok(key) => self.adopted = Some(key),
            Err(invalid) => self.problems.push(invalid.to_string()),
        }
        self
    }

    /// How long the server remembers the key, if that is known better than by the profile.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = Some(window);
        self
    }

    /// How this server speaks the contract, if not as the client's default.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
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
        self.complete = Complete::Body;
        self
    }

    /// The same by a header that every success carries, such as `x-order-id`, where there may be no
    /// body. A page sees the headers of another origin only if the server exposes them.
    pub fn complete_with_header(mut self, name: &str) -> Self {
        match Headers::new().push(name, "x") {
            Ok(()) => self.complete = Complete::Header(name.to_ascii_lowercase().into()),
            Err(invalid) => self.problems.push(invalid.to_string()),
        }
        self
    }

    /// What the journal keeps of the body and the answer, if not the client's default.
    pub fn keep(mut self, keep: Body) -> Self {
        self.keep = Some(keep);
        self
    }

    /// Repeats an operation although its outcome is unknown. **It may then happen twice.**
    pub fn even_if_unresolved(mut self) -> Self {
        self.even_if_unresolved = true;
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
    // Boxed: a task that waits for its answer would otherwise keep room for the beginning.
    pub fn begin(self) -> BoxFuture<'static, Result<Operation, Error>> {
        Box::pin(self.commit())
    }

    async fn commit(mut self) -> Result<Operation, Error> {
        let generation = self.take_over_previous().await?;
        self.check()?;
        let inner = Arc::clone(&self.client.0);
        inner.check_origin(&self.url)?;
        let (frozen, body) = self.freeze(generation)?;
        let now = inner.clock.now().wall;
        let source = match self.window {
            Some(_) => WindowSource::Operation,
            None if self.profile.window_is_assumed() => WindowSource::Assumed,
            None => WindowSource::Profile,
        };
        let window = self.effective_window();
        let progress = Progress::ready(inner.journal.owner(), now, window, source);
        let mut entry = Entry {
            slot: 0,
            frozen: Arc::new(frozen),
            progress,
        };
        #[cfg(feature = "planted")]
        let planted = planted_begin(&inner, &mut entry).await;
        #[cfg(not(feature = "planted"))]
        let planted = None;
        let begun = match planted {
            Some(begun) => begun,
            None => inner.journal.begin(entry.clone()).await,
        };
        let begun = match begun {
            Ok(begun) => begun,
            Err(error) => {
                inner.let_go_if_begun(&entry).await;
                return Err(error.into());
            }
        };
        match begun {
            Begun::Created(receipt) => {
                entry.slot = receipt.slot();
                crate::trace::begun(&entry);
                inner.flights.hold(entry.key());
                Ok(Operation::begun(self.client, entry, receipt, body))
            }
            Begun::Exists(existing) => self.join(*existing, &entry),
            Begun::Tombstone(tombstone) => Err(ended_long_ago(&tombstone)),
            Begun::Damaged(damaged) => Err(unreadable(&self.intent, &damaged)),
        }
    }

    /// For a repeat: which generation it is, and what of the previous request it takes over.
    async fn take_over_previous(&mut self) -> Result<u32, Error> {
        let Some(reference) = self.previous else {
            return Ok(0);
        };
        let previous = self.client.get(reference).await?;
        let entry = previous.entry();
        if !entry.progress.phase.is_settled() && !self.even_if_unresolved {
            return Err(Error::new(
                ErrorKind::PreviousUnresolved,
                "the outcome of the operation to repeat is unknown, so it may happen twice; settle it \
                 first, or say `even_if_unresolved`",
            )
            .about(reference)
            .after(entry.progress.attempts, may_have_left(&entry.progress)));
        }
        self.intent = entry.frozen.intent.clone();
        if self.method.is_none() {
            let sent = previous.body().map_err(|error| match error.kind() {
                ErrorKind::BodyNeeded => Error::new(
                    ErrorKind::BodyNeeded,
                    "the journal does not keep the body of the operation to repeat; give the repeat \
                     its request again",
                )
                .about(reference),
                _ => error,
            })?;
            self.profile = self.client.0.profile_of(&entry)?;
            self.body = without_key(&sent, &entry, &self.profile);
            self.method = Some(entry.frozen.method);
            self.url = entry.frozen.url.clone();
            self.headers = entry.frozen.headers.clone();
            self.complete = entry.frozen.complete.clone();
            self.keyed = entry.frozen.key_line.is_some() || *sent != *self.body;
            self.keep = self.keep.or(Some(Keeper::mode_of(&entry.frozen.body)));
            if entry.progress.window_source == WindowSource::Operation {
                self.window = self.window.or(Some(entry.progress.window));
            }
        }
        Ok(entry.frozen.generation + 1)
    }

    fn effective_window(&self) -> Duration {
        self.window
            .unwrap_or_else(|| self.profile.window_for(&self.url))
    }

    fn check(&mut self) -> Result<(), Error> {
        let window = self.effective_window();
        let problems = &mut self.problems;
        if self.method.is_none() && problems.is_empty() {
            problems.push("no request was given; call `post(url)` or one of its like".into());
        }
        for (name, _) in self.headers.iter() {
            if is_credential(name) {
                problems.push(format!(
                    "the header {name} looks like a credential, which the journal must not hold; \
                     give it to the client's `credentials`"
                ));
            } else if is_framing(name) {
                problems.push(format!(
                    "the header {name} is the transport's to set; remove it"
                ));
            } else if !self
                .client
                .0
                .kept_headers
                .iter()
                .any(|kept| **kept == *name)
            {
                problems.push(format!(
                    "the header {name} is not on the list of those that the journal may keep, and \
                     every attempt must be the same; allow it with the client's `keep_header`"
                ));
            }
        }
        problems.extend(
            self.profile
                .check_headers(&self.headers)
                .err()
                .map(|e| e.to_string()),
        );
        if self.body.len() > MAX_BODY {
            problems.push(format!(
                "the body has {} bytes; a journal takes {MAX_BODY}: upload it elsewhere and send a \
                 link",
                self.body.len()
            ));
        }
        problems.extend(self.client.0.policy.problems(window));
        let name = self.profile.name();
        if !self.client.0.knows_profile(name) {
            problems.push(format!(
                "the client does not know the profile {name}, so a later run could not resume this; \
                 give it to the client's builder with `profile`"
            ));
        }
        // With PUT and DELETE a key is the caller's own wish.
        if let (Some(method @ (Method::Post | Method::Patch)), true) = (self.method, self.keyed)
            && self.profile.knows_keys()
            && !self.profile.methods().contains(&method)
        {
            problems.push(format!(
                "{} takes no key with {method}",
                self.profile.name()
            ));
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::InvalidRequest, problems.join("; ")))
    }

    fn freeze(&self, generation: u32) -> Result<(Frozen, Arc<[u8]>), Error> {
        let invalid = |why: String| Error::new(ErrorKind::InvalidRequest, why);
        let inner = &self.client.0;
        let key = self
            .adopted
            .clone()
            .unwrap_or_else(|| Key::from_random(inner.dice.key_bytes()));
        let method = self.method.unwrap_or(Method::Post);
        let mut key_line = None;
        let mut body: Arc<[u8]> = self.body.as_slice().into();
        if self.keyed {
            self.profile
                .check_key(&key, &self.url)
                .map_err(|e| invalid(e.to_string()))?;
            let line = self
                .profile
                .wire_key(&key)
                .map_err(|e| invalid(e.to_string()))?;
            key_line = line.map(|(name, value)| (name.into(), value.into()));
            if self.profile.key_is_in_body() {
                let placed = self.profile.place_in_body(&self.body, &key);
                body = placed.map_err(|e| invalid(e.to_string()))?.into();
            }
        }
        let identity = self.identity.as_ref().unwrap_or(&self.body);
        let mut headers = self.headers.clone();
        if crate::planted::is(23) {
            let _ = headers.push("authorization", "Bearer planted");
        }
        let identifying = self.headers.filtered(|name| !INCIDENTAL.contains(&name));
        let mut frozen = Frozen {
            key,
            scope: inner.scope.clone(),
            intent: self.intent.clone(),
            generation,
            method,
            url: self.url.clone(),
            headers,
            key_line,
            body: Kept::NotKept,
            body_digest: Sha256::digest(&body).into(),
            fingerprint: Fingerprint::of(method, &self.url, &identifying, identity),
            profile: self.profile.name().into(),
            begun_at: inner.clock.now().wall,
            complete: self.complete.clone(),
        };
        let keep = self.keep.unwrap_or(inner.body);
        frozen.body = inner
            .keeper
            .keep(keep, &body, &frozen, Part::Body, || inner.nonce())?;
        Ok((frozen, body))
    }

    /// This intent is taken: the same action if the request is the same, else a mistake.
    fn join(self, existing: Entry, wanted: &Entry) -> Result<Operation, Error> {
        let (old, new) = (&existing.frozen, &wanted.frozen);
        let sent = may_have_left(&existing.progress);
        let refuse = |what: String| {
            Error::new(ErrorKind::FingerprintMismatch, what)
                .about(old.key.reference())
                .after(existing.progress.attempts, sent)
        };
        if old.fingerprint != new.fingerprint {
            return Err(refuse(format!(
                "the intent {} is taken by another request: {} {} {} there, {} {} {} here. Nothing \
                 was sent for this one; use another intent, or `repeat` for a deliberate repeat",
                old.intent,
                old.method,
                crate::message::without_query(&old.url),
                old.fingerprint,
                new.method,
                crate::message::without_query(&new.url),
                new.fingerprint,
            )));
        }
        if self.adopted.is_some_and(|adopted| adopted != old.key) {
            return Err(refuse(format!(
                "the intent {} was begun under another key than the one to adopt; nothing was sent",
                old.intent
            )));
        }
        let operation = Operation::found(self.client, existing);
        // The caller may just have supplied what the journal does not keep.
        let _ = operation.supply_body(&self.body);
        Ok(operation)
    }
}

/// The body as the caller gave it, without a key that the profile placed inside.
fn without_key(body: &[u8], entry: &Entry, profile: &Profile) -> Vec<u8> {
    if profile.key_header().is_some() {
        return body.to_vec();
    }
    let text = String::from_utf8_lossy(body);
    let key = entry.key().as_str();
    let after = place_of(&text, key).and_then(|at| text.get(at + key.len()..));
    let Some(rest) = after else {
        return body.to_vec();
    };
    let rest = rest.trim_start_matches('"').trim_start();
    let rest = rest.strip_prefix(',').unwrap_or(rest);
    format!("{{{rest}").into_bytes()
}

fn ended_long_ago(tombstone: &Tombstone) -> Error {
    Error::new(
        ErrorKind::Tombstone,
        format!(
            "the intent {} was used before and ended ({}); its answer is no longer kept and nothing \
             was sent now. Use another intent for a new action",
            tombstone.intent, tombstone.phase
        ),
    )
    .about(tombstone.key.reference())
    .after(1, true)
}

fn unreadable(intent: &str, damaged: &Damaged) -> Error {
    let error = Error::new(
        ErrorKind::Damaged,
        format!(
            "the intent {intent} was begun before, as entry {}, which cannot be read: {}. Nothing \
             was sent now, but it may have been then; keep the journal and find out from the server \
             before doing it under another intent",
            damaged.slot, damaged.error
        ),
    )
    .caused_by(damaged.error)
    .after(0, true);
    match &damaged.key {
        Some(key) => error.about(key.reference()),
        None => error,
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
            .field("intent", &self.intent)
            .field("method", &self.method)
            .field("url", &crate::message::without_query(&self.url))
            .field("headers", &self.headers)
            .field("profile", &self.profile)
            .finish_non_exhaustive()
    }
}

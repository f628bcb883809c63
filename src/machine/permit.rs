//! The right to send, and the right to ask.

use crate::entry::{Frozen, Receipt};
use crate::key::Reference;
use crate::message::{Headers, Method, without_query};
use crate::planted;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The right to send one attempt of one operation.
///
/// Only the machine makes one, and only from the [`Receipt`] of a journal that has the operation's
/// key. It owns the frozen request: whoever holds it can send these bytes under this key, once, and
/// nothing else. It cannot be cloned.
pub struct Permit {
    frozen: Arc<Frozen>,
    body: Arc<[u8]>,
    moved_to: Option<Box<str>>,
    attempt: u32,
    timeout: Duration,
    not_after: Duration,
    credentials: Headers,
}

impl Permit {
    /// `None` if the receipt is another entry's.
    pub(super) fn new(receipt: &Receipt, order: Order<'_>) -> Option<Permit> {
        let mut frozen = Arc::clone(order.frozen);
        if planted::is(1) {
            let line = Arc::make_mut(&mut frozen).key_line.as_mut();
            line.into_iter()
                .for_each(|(_, value)| *value = format!("{value}{}", order.attempt).into());
        }
        (receipt.key() == &order.frozen.key).then(|| Permit {
            frozen,
            body: Arc::clone(order.body),
            moved_to: order.moved_to.map(Into::into),
            attempt: order.attempt,
            timeout: order.timeout,
            not_after: order.not_after,
            credentials: Headers::new(),
        })
    }

    /// Adds what proves who asks. It goes out with this attempt and is kept nowhere.
    #[must_use]
    pub fn with_credentials(mut self, credentials: Headers) -> Permit {
        self.credentials = credentials;
        self
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> Method {
        self.frozen.method
    }

    /// Where to.
    #[must_use]
    pub fn url(&self) -> &str {
        self.moved_to.as_deref().unwrap_or(&self.frozen.url)
    }

    /// Every header line: the kept ones, the key's, and the credentials.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let key = self
            .frozen
            .key_line
            .as_ref()
            .map(|(name, value)| (&**name, &**value));
        self.frozen
            .headers
            .iter()
            .chain(key)
            .chain(self.credentials.iter())
    }

    /// The exact body.
    #[must_use]
    pub fn body(&self) -> &Arc<[u8]> {
        &self.body
    }

    /// What to show to people.
    #[must_use]
    pub fn reference(&self) -> Reference {
        self.frozen.key.reference()
    }

    /// The attempt's number, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// How long the attempt may take, answer included.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The last moment, by the monotonic clock, at which the body may begin to leave: after it the
    /// server may have forgotten the key.
    #[must_use]
    pub fn not_after(&self) -> Duration {
        self.not_after
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("reference", &self.reference())
            .field("attempt", &self.attempt)
            .field("method", &self.frozen.method)
            .field("url", &without_query(self.url()))
            .finish_non_exhaustive()
    }
}

/// What a permit is for.
#[derive(Clone, Copy)]
pub(super) struct Order<'a> {
    pub(super) frozen: &'a Arc<Frozen>,
    pub(super) body: &'a Arc<[u8]>,
    pub(super) moved_to: Option<&'a str>,
    pub(super) attempt: u32,
    pub(super) timeout: Duration,
    pub(super) not_after: Duration,
}

/// The right to ask for a result: a GET without key and body.
pub struct Probe {
    url: Box<str>,
    timeout: Duration,
    credentials: Headers,
}

impl Probe {
    pub(super) fn new(url: &str, timeout: Duration) -> Probe {
        Probe {
            url: url.into(),
            timeout,
            credentials: Headers::new(),
        }
    }

    /// Adds what proves who asks.
    #[must_use]
    pub fn with_credentials(mut self, credentials: Headers) -> Probe {
        self.credentials = credentials;
        self
    }

    /// Where to.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The header lines.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.credentials.iter()
    }

    /// How long it may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe")
            .field("url", &without_query(&self.url))
            .finish_non_exhaustive()
    }
}

//! Describing a client, with every mistake named at once.

use super::flight::Flights;
use super::{Client, Credentials, Inner};
use crate::clock::{Clock, Dice, Steady};
use crate::entry::Scope;
use crate::error::{Error, ErrorKind};
use crate::journal::Journal;
use crate::message::{Origin, place_of};
use crate::platform;
use crate::profile::Profile;
use crate::retry::Policy;
use crate::seal::{Body, Keeper};
use crate::time::spoken;
use crate::transport::Transport;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Headers of a request that may be kept in the journal. None of them is a credential.
const KEPT_HEADERS: [&str; 12] = [
    "accept",
    "accept-language",
    "content-language",
    "content-type",
    "gocardless-version",
    "prefer",
    "square-version",
    "stripe-account",
    "stripe-version",
    "user-agent",
    "x-correlation-id",
    "x-request-id",
];

/// The moving parts of a client.
#[derive(Clone)]
#[allow(missing_debug_implementations)]
pub struct Parts {
    /// Where entries live.
    pub journal: Arc<dyn Journal>,
    /// How requests leave.
    pub transport: Arc<dyn Transport>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where chance comes from.
    pub dice: Arc<dyn Dice>,
}

/// Describes a [`Client`]; [`build`](ClientBuilder::build) names every mistake at once.
///
/// ```
/// use samekey::{Client, Policy};
///
/// # let parts = samekey::testing::parts();
/// let wrong = Client::with_parts("no spaces, please", parts)
///     .policy(Policy::new().max_attempts(0))
///     .allow_origin("api.example.com");
/// let error = wrong.build().unwrap_err().to_string();
/// for part in ["application", "attempt", "absolute URL"] {
///     assert!(error.contains(part), "{error}");
/// }
/// ```
#[must_use]
pub struct ClientBuilder {
    application: Box<str>,
    principal: Option<Box<str>>,
    journal: Option<Arc<dyn Journal>>,
    transport: Option<Arc<dyn Transport>>,
    clock: Option<Arc<dyn Clock>>,
    dice: Option<Arc<dyn Dice>>,
    policy: Policy,
    profiles: Vec<Profile>,
    credentials: Option<Arc<dyn Credentials>>,
    kept_headers: Vec<Box<str>>,
    body: Body,
    keeper: Keeper,
    origins: Vec<Box<str>>,
    flush_all: bool,
    settled_for: Duration,
    tombstones_for: Duration,
}

impl ClientBuilder {
    pub(super) fn new(application: &str) -> Self {
        ClientBuilder {
            application: application.into(),
            principal: None,
            journal: None,
            transport: None,
            clock: None,
            dice: None,
            policy: Policy::new(),
            profiles: Vec::new(),
            credentials: None,
            kept_headers: KEPT_HEADERS.map(Into::into).into(),
            body: Body::Stored,
            keeper: Keeper::default(),
            origins: Vec::new(),
            flush_all: false,
            settled_for: 30 * DAY,
            tombstones_for: 400 * DAY,
        }
    }

    pub(super) fn parts(mut self, parts: Parts) -> Self {
        self.journal = Some(parts.journal);
        self.transport = Some(parts.transport);
        self.clock = Some(parts.clock);
        self.dice = Some(parts.dice);
        self
    }

    /// For whom the application acts: an account or user id, never a secret. Default: nobody in
    /// particular. Operations of one principal are invisible to another.
    pub fn principal(mut self, principal: &str) -> Self {
        self.principal = Some(principal.into());
        self
    }

    /// Where entries live. Default: natively a SQLite file named after the application in the
    /// platform's data folder, so that a program finds its operations again wherever it is started.
    pub fn journal(mut self, journal: impl Journal + 'static) -> Self {
        self.journal = Some(Arc::new(journal));
        self
    }

    /// How requests leave. Default: natively reqwest, in the browser `fetch`.
    pub fn transport(mut self, transport: impl Transport + 'static) -> Self {
        self.transport = Some(Arc::new(transport));
        self
    }

    /// How often and how long to try. Default: [`Policy::new`].
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// How the server speaks the contract. The first one given is the client's default; further
    /// ones are known by name when an operation that used them is resumed. Default:
    /// [`Profile::default`], which nearly all servers understand.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profiles.push(profile);
        self
    }

    /// Where credentials come from; asked at every attempt. Default: none are sent.
    pub fn credentials(mut self, credentials: impl Credentials + 'static) -> Self {
        self.credentials = Some(Arc::new(credentials));
        self
    }

    /// Lets the journal keep a header that it does not know to be harmless, so that operations may
    /// carry it. Never a credential: those go through [`credentials`](Self::credentials).
    pub fn keep_header(mut self, name: &str) -> Self {
        self.kept_headers.push(name.to_ascii_lowercase().into());
        self
    }

    /// What the journal keeps of bodies and answers. Default: [`Body::Stored`], because only then
    /// a crash is survived without anyone's help; the journal's file is readable by its owner only.
    pub fn body(mut self, body: Body) -> Self {
        self.body = body;
        self
    }

    /// The key for [`Body::Sealed`]. Given more than once, the first seals and all of them open:
    /// put a new key first while old entries still need the old one.
    #[cfg(feature = "sealing")]
    pub fn seal_with(mut self, key: crate::seal::SealingKey) -> Self {
        self.keeper.add(key);
        self
    }

    /// Allows an origin, such as `https://api.example.com`. Default: all are allowed. With one
    /// given, only those given are, also when resuming what a tampered journal holds.
    pub fn allow_origin(mut self, origin: &str) -> Self {
        self.origins.push(origin.into());
        self
    }

    /// Presses every outcome onto the device before it is told. Default: a success under a profile
    /// that replays is in the file at once, and a power cut costs one more request under the same
    /// key. With this nothing told is ever lost, for one more sync an operation.
    pub fn flush_all_outcomes(mut self) -> Self {
        self.flush_all = true;
        self
    }

    /// How long settled entries stay whole, and how long the tombstones after them guard their
    /// intents. Default: 30 and 400 days. When a tombstone goes, so does the guard: the same intent
    /// would be a new action.
    pub fn retention(mut self, settled: Duration, tombstones: Duration) -> Self {
        self.settled_for = settled;
        self.tombstones_for = tombstones;
        self
    }

    /// The client.
    ///
    /// # Errors
    /// Every mistake in what was given, and a default journal that cannot be opened.
    pub fn build(mut self) -> Result<Client, Error> {
        let mut problems = Vec::new();
        let scope = Scope::new(&self.application, self.principal.as_deref())
            .map_err(|problem| problems.push(problem));
        let mut origins = Vec::new();
        for origin in &self.origins {
            match Origin::of(origin) {
                Ok(origin) => origins.push(origin),
                Err(invalid) => problems.push(invalid.to_string()),
            }
        }
        if self.profiles.is_empty() {
            self.profiles.push(Profile::default());
        }
        let window = self
            .profiles
            .iter()
            .map(Profile::window)
            .min()
            .unwrap_or(DAY);
        problems.extend(self.policy.problems(window));
        let longest = self
            .profiles
            .iter()
            .map(Profile::window)
            .max()
            .unwrap_or(DAY);
        if self.settled_for < longest {
            problems.push(format!(
                "settled entries are kept for {}, which is shorter than the window of {}: keep them \
                 longer",
                spoken(self.settled_for),
                spoken(longest)
            ));
        }
        #[cfg(feature = "sealing")]
        if self.body == Body::Sealed && !self.keeper.has_key() {
            problems.push("Body::Sealed needs a key: give one with `seal_with`".into());
        }
        for name in &self.kept_headers {
            if is_credential(name) {
                problems.push(format!(
                    "the header {name} is a credential and must not be kept; use `credentials`"
                ));
            }
        }
        match scope {
            Ok(scope) if problems.is_empty() => self.assemble(scope, origins),
            _ => Err(Error::new(
                ErrorKind::InvalidConfiguration,
                problems.join("; "),
            )),
        }
    }

    #[allow(
        clippy::arc_with_non_send_sync,
        reason = "in a page nothing is Send, and nothing needs to be: see seam.rs"
    )]
    fn assemble(self, scope: Scope, origins: Vec<Origin>) -> Result<Client, Error> {
        let journal = match self.journal {
            Some(journal) => journal,
            None => platform::default_journal(&self.application)?,
        };
        let transport = match self.transport {
            Some(transport) => transport,
            None => platform::default_transport()?,
        };
        let (clock, dice) = match (self.clock, self.dice) {
            (Some(clock), Some(dice)) => (clock, dice),
            _ => platform::default_clock_and_dice()?,
        };
        let owner = journal.owner();
        Ok(Client(Arc::new(Inner {
            scope,
            journal,
            transport,
            clock: Arc::new(Steady::new(clock)),
            dice,
            policy: self.policy,
            profiles: self.profiles,
            credentials: self.credentials,
            kept_headers: self.kept_headers,
            body: self.body,
            keeper: self.keeper,
            origins,
            flush_all: self.flush_all,
            settled_for: self.settled_for,
            tombstones_for: self.tombstones_for,
            flights: Flights::of(owner),
            parked: std::sync::Mutex::default(),
            ended: std::sync::atomic::AtomicU64::default(),
            budgets: std::sync::Mutex::default(),
        })))
    }
}

/// Headers that belong to the connection.
pub(crate) fn is_framing(name: &str) -> bool {
    let framing = [
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    framing.contains(&name)
}

/// Names under which secrets travel. No setting makes the journal keep them.
pub(crate) fn is_credential(name: &str) -> bool {
    // Nearly every request has it, and the search takes a while.
    if name == "content-type" {
        return false;
    }
    let telling = [
        "authorization",
        "cookie",
        "token",
        "secret",
        "password",
        "api-key",
        "apikey",
        "access-key",
        "credential",
        "session",
        "signature",
        "x-auth",
    ];
    telling.iter().any(|part| place_of(name, part).is_some())
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("application", &self.application)
            .field("principal", &self.principal)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

//! Describing a client, with every mistake named at once.

use super::flight::Flights;
use super::settings::Settings;
use super::{Client, Credentials, Inner};
use crate::clock::{Clock, Dice, Steady};
use crate::error::{Error, Problems};
use crate::journal::Journal;
use crate::platform;
use crate::profile::Profile;
use crate::retry::Policy;
use crate::seal::Body;
use crate::transport::Transport;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

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
    credentials: Option<Arc<dyn Credentials>>,
    origins: Vec<Box<str>>,
    settings: Settings,
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
            credentials: None,
            origins: Vec::new(),
            settings: Settings::new(),
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

    /// How requests leave. Default: natively hyper, in the browser `fetch`.
    pub fn transport(mut self, transport: impl Transport + 'static) -> Self {
        self.transport = Some(Arc::new(transport));
        self
    }

    /// How often and how long to try. Default: [`Policy::new`].
    pub fn policy(mut self, policy: Policy) -> Self {
        self.settings.policy = policy;
        self
    }

    /// How the server speaks the contract. The first one given is the client's default; further
    /// ones are known by name when an operation that used them is resumed. Default:
    /// [`Profile::default`], which nearly all servers understand.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.settings.profiles.push(profile);
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
        self.settings.keep_header(name);
        self
    }

    /// What the journal keeps of bodies and answers. Default: [`Body::Stored`], because only then
    /// a crash is survived without anyone's help; the journal's file is readable by its owner only.
    pub fn body(mut self, body: Body) -> Self {
        self.settings.body = body;
        self
    }

    /// The key for [`Body::Sealed`]. Given more than once, the first seals and all of them open:
    /// put a new key first while old entries still need the old one.
    #[cfg(feature = "sealing")]
    pub fn seal_with(mut self, key: crate::seal::SealingKey) -> Self {
        self.settings.keeper.add(key);
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
        self.settings.flush_all = true;
        self
    }

    /// How long settled entries stay whole, and how long the tombstones after them guard their
    /// intents. Default: 30 and 400 days. When a tombstone goes, so does the guard: the same intent
    /// would be a new action.
    pub fn retention(mut self, settled: Duration, tombstones: Duration) -> Self {
        self.settings.settled_for = settled;
        self.settings.tombstones_for = tombstones;
        self
    }

    /// The client.
    ///
    /// # Errors
    /// Every mistake in what was given, and a default journal that cannot be opened.
    pub fn build(mut self) -> Result<Client, Error> {
        let mut origins = self.origins.iter().map(|origin| &**origin);
        let principal = self.principal.as_deref();
        let mut problems = Problems::default();
        self.settings.check_retention(&mut problems);
        self.settings
            .settle(&self.application, principal, &mut origins, problems)?;
        self.assemble()
    }

    #[allow(
        clippy::arc_with_non_send_sync,
        reason = "in a page nothing is Send, and nothing needs to be: see seam.rs"
    )]
    fn assemble(self) -> Result<Client, Error> {
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
            settings: self.settings,
            journal,
            transport,
            clock: Arc::new(Steady::new(clock)),
            dice,
            credentials: self.credentials,
            flights: Flights::of(owner),
            parked: std::sync::Mutex::default(),
            ended: std::sync::atomic::AtomicU64::default(),
            budgets: std::sync::Mutex::default(),
        })))
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("application", &self.application)
            .field("principal", &self.principal)
            .field("policy", &self.settings.policy)
            .finish_non_exhaustive()
    }
}

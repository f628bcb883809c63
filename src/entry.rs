//! What a journal keeps of one operation.
//!
//! An [`Entry`] has two halves. [`Frozen`] is written once, when the operation begins, and never
//! changes: whom it is for, what is sent, under which key. [`Progress`] is small and is written
//! again as the operation goes on. Both have one versioned encoding, used by every store, with a
//! digest that is checked whenever an entry is read.

mod codec;

pub use codec::{DecodeError, FORMAT};

use crate::fingerprint::Fingerprint;
use crate::key::{Key, Reference};
use crate::message::{Headers, Method, filled, quoted};
use crate::retry::classify::{Complete, Once, Reason, Replayed};
use crate::time::Timestamp;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How many attempts an entry remembers one by one; older ones are only counted.
pub const REMEMBERED_ATTEMPTS: usize = 16;

/// Whose operations these are: an application, and the principal it acts for.
///
/// Servers scope keys by account, so an operation begun for one principal is never resumed for
/// another. A scope is stored in plain text: it must not be a secret.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope(Arc<str>);

impl Scope {
    /// The scope of `application`, acting for `principal` if there is one.
    ///
    /// # Errors
    /// Says what is wrong with either name.
    pub fn new(application: &str, principal: Option<&str>) -> Result<Scope, String> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if application.is_empty() || application.len() > 64 || !application.bytes().all(plain) {
            return Err(filled(
                "the application's name % must be 1 to 64 letters, digits, dots, dashes or \
                 underscores",
                &[&quoted(application)],
            ));
        }
        let Some(principal) = principal else {
            return Ok(Scope(application.into()));
        };
        if principal.is_empty() || principal.len() > 256 || principal.chars().any(char::is_control)
        {
            return Err(filled(
                "the principal % must be 1 to 256 characters without control characters",
                &[&quoted(principal)],
            ));
        }
        Ok(Scope([application, "/", principal].concat().into()))
    }

    /// A scope read back from a journal.
    #[must_use]
    pub fn from_stored(text: &str) -> Scope {
        Scope(text.into())
    }

    /// Application and principal, divided by a slash.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({self})")
    }
}

/// One start of a process, or one tab: whoever drives an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner(pub u128);

impl Owner {
    /// Nobody: the entry was let go in an orderly way.
    pub const NONE: Owner = Owner(0);
}

/// Whether an owner still works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It holds its proof of life and was heard of lately.
    Alive,
    /// Not heard of for longer than a lease: it may be frozen.
    Silent,
    /// Provably gone.
    Dead,
}

/// How hard a write is pressed onto the device before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Survives a power cut, as far as the grade goes.
    Full,
    /// In the file at once and survives a kill; a power cut may undo it.
    Normal,
}

/// Bytes as a journal keeps them.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kept {
    /// As they are; shared, as whoever sends them needs them too.
    Plain(Arc<[u8]>),
    /// Encrypted under a key that the caller holds.
    Sealed(Vec<u8>),
    /// Not at all: only their fingerprint is kept.
    NotKept,
    /// They never arrived whole.
    Lost,
    /// They were over the cap.
    TooLarge,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kept::Plain(bytes) => write!(f, "Plain({} bytes)", bytes.len()),
            Kept::Sealed(bytes) => write!(f, "Sealed({} bytes)", bytes.len()),
            Kept::NotKept => f.write_str("NotKept"),
            Kept::Lost => f.write_str("Lost"),
            Kept::TooLarge => f.write_str("TooLarge"),
        }
    }
}

/// The half of an entry that never changes.
#[derive(Clone, PartialEq, Eq)]
pub struct Frozen {
    /// The key of every attempt.
    pub key: Key,
    /// For whom.
    pub scope: Scope,
    /// The caller's name of the action.
    pub intent: Box<str>,
    /// 0 for the action itself, counting up with every deliberate repeat.
    pub generation: u32,
    /// The request's method.
    pub method: Method,
    /// Where it goes.
    pub url: Box<str>,
    /// The allow-listed headers; never credentials.
    pub headers: Headers,
    /// The header line that carries the key, exactly as sent; absent when the body carries it.
    pub key_line: Option<(Box<str>, Box<str>)>,
    /// The body.
    pub body: Kept,
    /// SHA-256 of the exact body bytes.
    pub body_digest: [u8; 32],
    /// What identifies the request.
    pub fingerprint: Fingerprint,
    /// The profile that speaks with this server.
    pub profile: Box<str>,
    /// When it was minted.
    pub begun_at: Timestamp,
    /// What a success must bring with it.
    pub complete: Complete,
}

impl fmt::Debug for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frozen")
            .field("reference", &self.key.reference())
            .field("scope", &self.scope)
            .field("intent", &self.intent)
            .field("generation", &self.generation)
            .field("method", &self.method)
            .field("url", &crate::message::without_query(&self.url))
            .field("headers", &self.headers)
            .field("body", &self.body)
            .field("fingerprint", &self.fingerprint)
            .field("profile", &self.profile)
            .finish_non_exhaustive()
    }
}

/// Where an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Durable, and no attempt noted yet. After a crash it counts as maybe sent.
    Ready,
    /// An attempt is under way.
    Sending,
    /// Between two attempts.
    Waiting,
    /// Accepted by the server; the result is being polled for.
    Polling,
    /// Parked until a time.
    Deferred,
    /// The server's final word: it happened.
    Succeeded,
    /// The server's final word: it did not.
    Rejected,
    /// A person has to look.
    Attention(Reason),
    /// Closed on purpose before anything can have happened.
    Abandoned,
}

impl Phase {
    /// Whether work on it goes on, now or after a restart.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(
            self,
            Phase::Ready | Phase::Sending | Phase::Waiting | Phase::Polling | Phase::Deferred
        )
    }

    /// Whether it ended for good.
    #[must_use]
    pub fn is_settled(self) -> bool {
        matches!(self, Phase::Succeeded | Phase::Rejected | Phase::Abandoned)
    }

    /// Whether resuming may still bring it to an end without a person.
    #[must_use]
    pub fn is_unfinished(self) -> bool {
        self.is_open() || self == Phase::Attention(Reason::Exhausted)
    }

    /// Its name, in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::Ready => "ready",
            Phase::Sending => "sending",
            Phase::Waiting => "waiting",
            Phase::Polling => "polling",
            Phase::Deferred => "deferred",
            Phase::Succeeded => "succeeded",
            Phase::Rejected => "rejected",
            Phase::Attention(_) => "attention",
            Phase::Abandoned => "abandoned",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One attempt, as the journal remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Its number, from 1.
    pub number: u32,
    /// When it ended.
    pub ended_at: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// The status, if there was an answer.
    pub status: Option<u16>,
    /// What its end meant, for people.
    pub reason: Box<str>,
}

/// Who said how long the server remembers a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WindowSource {
    /// Nobody: 24 hours are assumed.
    Assumed,
    /// The caller, for this operation.
    Operation,
    /// The profile.
    Profile,
    /// The server, in an answer.
    Server,
}

/// The server's final answer, as far as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The allow-listed headers.
    pub headers: Headers,
    /// The body.
    pub body: Kept,
    /// Whether the server replayed it.
    pub replayed: Replayed,
    /// When it arrived.
    pub at: Timestamp,
}

/// The half of an entry that is written again as the operation goes on.
#[derive(Clone, PartialEq, Eq)]
pub struct Progress {
    /// Where the operation stands.
    pub phase: Phase,
    /// Counts the writes; a write names the revision that it replaces, so a stale one bounces.
    pub revision: u64,
    /// Who drives it.
    pub owner: Owner,
    /// Counts the drivers.
    pub epoch: u64,
    /// How many attempts were made; after a crash it may be one too many, never one too few. A power cut
    /// may take back those since the last full flush: nothing that is promised depends on it.
    pub attempts: u32,
    /// The latest of them.
    pub recent: Vec<Attempt>,
    /// Whether any attempt may have reached the server. Pessimistic in the file: only the process
    /// that knows that nothing was sent writes `false`, and only when it lets the entry go.
    pub maybe_applied: bool,
    /// How often a process died while working on it.
    pub crashes: u32,
    /// One-time remedies that were used.
    pub used: Vec<Once>,
    /// When the server may first have seen the key.
    pub window_start: Timestamp,
    /// How long it remembers the key from then on.
    pub window: Duration,
    /// Who said so.
    pub window_source: WindowSource,
    /// The latest wall-clock time seen while working on it: time cannot be earlier than this.
    pub seen_at: Timestamp,
    /// No attempt before this time.
    pub not_before: Option<Timestamp>,
    /// Where a redirect of the same origin sent it.
    pub moved_to: Option<Box<str>>,
    /// How often it was redirected.
    pub hops: u8,
    /// Where the result will be.
    pub poll_url: Option<Box<str>>,
    /// Whether that URL is where the result *is*, and not where the state of the work is.
    pub following: bool,
    /// The final answer.
    pub answer: Option<Answer>,
    /// What a person wrote when settling or cancelling.
    pub note: Option<Box<str>>,
}

impl Progress {
    /// The progress of an operation that is only just durable.
    #[must_use]
    pub fn ready(owner: Owner, now: Timestamp, window: Duration, source: WindowSource) -> Progress {
        Progress {
            phase: Phase::Ready,
            revision: 1,
            owner,
            epoch: 1,
            attempts: 0,
            recent: Vec::new(),
            maybe_applied: true,
            crashes: 0,
            used: Vec::new(),
            window_start: now,
            window,
            window_source: source,
            seen_at: now,
            not_before: None,
            moved_to: None,
            hops: 0,
            poll_url: None,
            following: false,
            answer: None,
            note: None,
        }
    }

    /// Whether it is too early to go on.
    ///
    /// Nobody is asked to wait for longer than the server remembers the key: such a time was written
    /// by a clock that was wrong, and is not believed.
    #[must_use]
    pub fn waits_at(&self, now: Timestamp) -> bool {
        let wait = self
            .not_before
            .map_or(Duration::ZERO, |until| until.since(now));
        !wait.is_zero() && wait <= self.window
    }

    /// When work on it last went on; for a settled entry, when it ended.
    #[must_use]
    pub fn ended_at(&self) -> Timestamp {
        let answered = self.answer.as_ref().map(|answer| answer.at);
        answered.unwrap_or_default().max(self.seen_at)
    }

    /// Notes how an attempt ended, forgetting the oldest if there are too many; but not the only one
    /// that was answered, which shows that something left.
    pub fn note_attempt(&mut self, attempt: Attempt) {
        if self.recent.len() == REMEMBERED_ATTEMPTS {
            let answered = |attempt: &&Attempt| attempt.status.is_some();
            let only = self
                .recent
                .iter()
                .chain([&attempt])
                .filter(answered)
                .count()
                == 1;
            let oldest =
                usize::from(only && self.recent.first().is_some_and(|it| it.status.is_some()));
            self.recent.remove(oldest);
        }
        self.recent.push(attempt);
    }
}

/// What a write replaces: a revision, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The revision.
    pub revision: u64,
    /// Who drives the entry.
    pub owner: Owner,
    /// Which driver that is.
    pub epoch: u64,
}

impl Expected {
    /// What replaces `progress` must expect this.
    #[must_use]
    pub fn of(progress: &Progress) -> Expected {
        Expected {
            revision: progress.revision,
            owner: progress.owner,
            epoch: progress.epoch,
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |url: &Option<Box<str>>| {
            url.as_deref()
                .map(crate::message::without_query)
                .map(str::to_owned)
        };
        f.debug_struct("Progress")
            .field("phase", &self.phase)
            .field("revision", &self.revision)
            .field("owner", &self.owner)
            .field("epoch", &self.epoch)
            .field("recent", &self.recent)
            .field("maybe_applied", &self.maybe_applied)
            .field("moved_to", &shown(&self.moved_to))
            .field("poll_url", &shown(&self.poll_url))
            .field("answer", &self.answer)
            .finish_non_exhaustive()
    }
}

/// What a journal keeps of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The store's own handle: cheap to find, meaningless elsewhere.
    pub slot: u64,
    /// The half that never changes.
    pub frozen: Arc<Frozen>,
    /// The half that does.
    pub progress: Progress,
}

impl Entry {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.frozen.key
    }

    /// What to show to people.
    #[must_use]
    pub fn reference(&self) -> Reference {
        self.frozen.key.reference()
    }
}

/// How much a journal's word is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grade {
    /// Nothing survives.
    #[default]
    None,
    /// Survives a reload or a closed tab, not a killed browser.
    Reload,
    /// Survives the death of the process, not a power cut.
    Process,
    /// Survives a power cut.
    Device,
}

impl Grade {
    /// Its name, in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Grade::None => "none",
            Grade::Reload => "reload",
            Grade::Process => "process",
            Grade::Device => "device",
        }
    }
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A journal's word that a revision of an entry is written, as durably as its grade says.
///
/// A [`Permit`](crate::machine::Permit) to send is made from nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    key: Key,
    slot: u64,
    revision: u64,
    grade: Grade,
}

impl Receipt {
    /// For stores: call it after the write is as durable as `grade` promises, never before.
    #[must_use]
    pub fn new(key: Key, slot: u64, revision: u64, grade: Grade) -> Receipt {
        Receipt {
            key,
            slot,
            revision,
            grade,
        }
    }

    /// The key of the entry.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The store's handle of the entry.
    #[must_use]
    pub fn slot(&self) -> u64 {
        self.slot
    }

    /// The revision that was written.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How durable it is.
    #[must_use]
    pub fn grade(&self) -> Grade {
        self.grade
    }
}

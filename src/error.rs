//! The one error of the crate.

use crate::entry::{Phase, Progress};
use crate::journal::{JournalError, JournalErrorKind};
use crate::key::Reference;
use crate::message::filled;
use crate::retry::classify::Reason;
use crate::text::decimal;
use crate::time::Timestamp;
use std::fmt;

/// What went wrong, then what to do; with the reference, if there is one.
///
/// Two questions matter after an error, and each has a method: may it have happened
/// ([`is_unresolved`](Error::is_unresolved)), and is it certain that nothing left this machine
/// ([`nothing_was_sent`](Error::nothing_was_sent)). A refusal by the server is neither: it is an
/// [`Outcome`](crate::Outcome).
///
/// It is opaque so that it can learn new things to say: ask [`kind`](Error::kind).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// # let client = samekey::testing::client();
/// let error = client.operation("invoice/42").method("GET", "https://a.example/").begin().await;
/// let error = error.unwrap_err();
/// assert_eq!(error.kind(), samekey::ErrorKind::InvalidRequest);
/// assert!(error.nothing_was_sent());
/// assert!(!error.is_unresolved());
/// # }
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    reference: Option<Reference>,
    attempts: u32,
    sent: bool,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What kind of trouble it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request cannot be sent as it is.
    InvalidRequest,
    /// The client cannot be built as it is.
    InvalidConfiguration,
    /// The journal refused, so nothing was sent in its name.
    Journal(JournalErrorKind),
    /// This intent is taken by another request.
    FingerprintMismatch,
    /// This intent ended so long ago that only its tombstone is left.
    Tombstone,
    /// The outcome is not known, and a person has to look.
    Attention(Reason),
    /// Parked until a time.
    Deferred(Timestamp),
    /// Given up for now, and no attempt can have had an effect; resuming goes on.
    NotApplied,
    /// Another process or tab works on it.
    HeldElsewhere,
    /// The journal does not keep the body; it has to be supplied again.
    BodyNeeded,
    /// The supplied body is not the one that was sent.
    BodyMismatch,
    /// The journal's bytes are sealed under another key.
    Locked,
    /// It belongs to another application or principal.
    OtherScope,
    /// The current configuration does not allow this destination.
    OriginNotAllowed,
    /// There is no such operation here.
    NotFound,
    /// More than one operation has this reference.
    Ambiguous,
    /// It has ended already, in this phase.
    Ended(Phase),
    /// The journal holds it, but its bytes were altered.
    Damaged,
    /// The previous operation's outcome is unknown, so repeating it may act twice.
    PreviousUnresolved,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind,
            message: message.into(),
            reference: None,
            attempts: 0,
            sent: false,
            source: None,
        }))
    }

    pub(crate) fn about(mut self, reference: Reference) -> Error {
        self.0.reference = Some(reference);
        self
    }

    /// `sent`: whether an attempt may have left this machine, now or before.
    pub(crate) fn after(mut self, attempts: u32, sent: bool) -> Error {
        self.0.attempts = attempts;
        self.0.sent = sent;
        self
    }

    pub(crate) fn caused_by(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        self.0.source = Some(source.into());
        self
    }

    pub(crate) fn attention(reason: Reason) -> Error {
        Error::new(ErrorKind::Attention(reason), explain(reason))
    }

    pub(crate) fn deferred(until: Timestamp, now: Timestamp) -> Error {
        let seconds = until.since(now).as_secs();
        let message = filled(
            "the server asked to be left alone for % s; the operation is parked until then and goes \
             on under the same key",
            &[&decimal(seconds)],
        );
        Error::new(ErrorKind::Deferred(until), message)
    }

    /// Adds how the last attempt ended.
    pub(crate) fn because(mut self, progress: &Progress) -> Error {
        if let Some(last) = progress.recent.last() {
            self.0.message = [&*self.0.message, "; last: ", &last.reason].concat();
        }
        self
    }

    /// What happened and what to do, without the reference.
    #[cfg(feature = "page")]
    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    /// What kind of trouble it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The reference of the operation: keep it, and show it to the user.
    #[must_use]
    pub fn reference(&self) -> Option<Reference> {
        self.0.reference
    }

    /// How many attempts were made.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// It may have happened and it may not: keep the reference, and do not start a new action.
    #[must_use]
    pub fn is_unresolved(&self) -> bool {
        match self.0.kind {
            ErrorKind::Attention(_) | ErrorKind::Deferred(_) | ErrorKind::HeldElsewhere => true,
            ErrorKind::Ended(Phase::Abandoned) => self.0.sent,
            ErrorKind::Ended(_)
            | ErrorKind::Tombstone
            | ErrorKind::FingerprintMismatch
            | ErrorKind::InvalidRequest
            | ErrorKind::NotApplied => false,
            // Whatever stands in the way of going on: what left before may have been applied.
            _ => self.0.sent,
        }
    }

    /// Certain: not one attempt of this operation can have reached a server.
    #[must_use]
    pub fn nothing_was_sent(&self) -> bool {
        !self.0.sent
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match self.0.reference {
            Some(reference) => write!(f, " (reference {reference})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("reference", &self.0.reference)
            .field("attempts", &self.0.attempts)
            .field("nothing_was_sent", &self.nothing_was_sent())
            .field("source", &self.0.source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0
            .source
            .as_deref()
            .map(|source| source as &(dyn std::error::Error + 'static))
    }
}

impl From<JournalError> for Error {
    fn from(error: JournalError) -> Error {
        Error::new(ErrorKind::Journal(error.kind()), error.to_string()).caused_by(error)
    }
}

/// All that is wrong with what was given: it is told at once.
#[derive(Debug, Default)]
pub(crate) struct Problems(String);

impl Problems {
    pub(crate) fn add(&mut self, problem: &str) {
        if !self.0.is_empty() {
            self.0.push_str("; ");
        }
        self.0.push_str(problem);
    }

    pub(crate) fn add_all(&mut self, problems: &[String]) {
        problems.iter().for_each(|problem| self.add(problem));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn told(self, kind: ErrorKind) -> Result<(), Error> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(Error::new(kind, self.0)),
        }
    }
}

/// What happened, then what to do.
fn explain(reason: Reason) -> &'static str {
    match reason {
        Reason::Exhausted => {
            "not known yet: the attempts are spent, and one may have been applied; resume later, \
             it goes on under the same key"
        }
        Reason::WindowClosed => {
            "not known: the server may have forgotten the key by now, so sending again could act \
             twice; find out by the reference, then settle it by hand"
        }
        Reason::KeyMismatch => {
            "the server says that this key was used with another request; find out by the \
             reference, then settle it by hand"
        }
        Reason::RefusedAfterDoubt => {
            "not known: this attempt was refused, but an earlier one may have been applied; find \
             out by the reference, or mend the cause, then resume"
        }
        Reason::FinalErrorReplayed => {
            "not known: the server keeps replaying a stored error, and only it knows what \
             happened before; find out by the reference"
        }
        Reason::UnexpectedBody => {
            "not known: the answer does not look like the API's, perhaps a gateway or a portal spoke; \
             check the network, then resume"
        }
        Reason::CrossOriginRedirect => {
            "the server redirects to another origin, which may not see the key; correct the URL, \
             and find out by the reference"
        }
        Reason::Redirected => {
            "the server redirects in a way that cannot be followed with the same request; correct \
             the URL, and find out by the reference"
        }
        Reason::Protocol => "the answer has no meaning for this request; find out by the reference",
        Reason::PollLost => {
            "the server accepted the request, but the place of its result is gone; find out by the \
             reference"
        }
        Reason::WorkFailed => {
            "the server accepted the request and reports that the work failed; see its answer"
        }
        Reason::Throttled => {
            "the server takes the requests for abuse; talk to its operator, then resume"
        }
        Reason::Cancelled => {
            "it was cancelled, but may have been applied before; find out by the reference, then settle \
             it by hand"
        }
        Reason::Crashes => {
            "the program crashed too often while working on it; find the cause, then resume"
        }
        Reason::Tls => {
            "not known: the connection is no longer trusted, but an earlier attempt may have been \
             applied; mend the certificate, then resume"
        }
        Reason::NoKeySupport => {
            "not known, and this server does not know keys, so nothing is sent twice; find out on the \
             server, then settle it by hand"
        }
        Reason::AlreadyDone => {
            "the server says that this was done before, but not with what result; find out by the \
             reference, then settle it by hand"
        }
    }
}

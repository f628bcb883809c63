//! What one attempt's end means: a [`Verdict`], with a reason that people can read.

use crate::message::{Failure, Response};
use crate::profile::Profile;
use crate::time::Timestamp;
use std::borrow::Cow;
use std::time::Duration;

/// The classification of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What has to follow.
    pub action: Action,
    /// Whether this attempt can have had its effect.
    pub applied: Applied,
    /// Why, for people and logs. Never holds bodies, queries or credentials.
    pub reason: Cow<'static, str>,
}

/// Whether an attempt can have had its effect on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Surely not: the request was not processed.
    No,
    /// It may have.
    Maybe,
}

/// Whether a success is the stored answer of an earlier attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// The server ran this attempt.
    No,
    /// The server said that it replayed.
    Yes,
    /// The server does not say.
    Unknown,
}

/// What has to follow an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// The server's final word: it happened.
    Succeed(Replayed),
    /// The server's final word: it was refused, and nothing happened.
    Reject,
    /// A person has to look.
    Attend(Reason),
    /// Send again, same key, same bytes.
    TryAgain(Again),
    /// The server is still working on this key: ask again, bounded by time, not by count.
    StillRunning(Option<Duration>),
    /// Accepted; the result will be at this URL.
    Poll(String, Option<Duration>),
    /// The result is at this URL now: one GET without key or body.
    SeeOther(String, Option<Duration>),
    /// Same request, same key, to this URL of the same origin.
    Resend(String),
    /// Ask for credentials again, then send again.
    Reauthorise,
}

/// How to send again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Again {
    /// What the server asked for.
    pub hint: Option<Duration>,
    /// The least time to wait, whatever the schedule says.
    pub floor: Duration,
    /// Without waiting, on a fresh connection.
    pub at_once: bool,
    /// A remedy that may be used a single time in an operation's life.
    pub once: Option<Once>,
}

/// Remedies that are tried a single time; after that the verdict is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Once {
    /// An answer of unexpected shape: a gateway may have spoken.
    UnexpectedBody,
    /// 421: the wrong connection.
    Misdirected,
    /// A pooled connection turned out to be dead.
    StaleConnection,
    /// Fresh credentials.
    Reauthorise,
    /// A stored server error was replayed.
    ReplayedError,
    /// A poll URL was gone: one POST under the same key to learn it again.
    PollLost,
}

/// Why a person has to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The attempts, or the time for them, are spent; resuming goes on under the same key.
    Exhausted,
    /// The server may have forgotten the key by now; sending could act a second time.
    WindowClosed,
    /// The server says the key was used with another request.
    KeyMismatch,
    /// An answer that refuses this attempt says nothing about an earlier one.
    RefusedAfterDoubt,
    /// A stored server error will be replayed for ever.
    FinalErrorReplayed,
    /// The answer does not look like the API's.
    UnexpectedBody,
    /// A redirect to another origin, which may not see the key.
    CrossOriginRedirect,
    /// A redirect that cannot be followed without changing the request.
    Redirected,
    /// An answer that has no meaning here.
    Protocol,
    /// The URL to poll is gone.
    PollLost,
    /// The server reports that the work failed after it began.
    WorkFailed,
    /// The server marks this as abuse and asks to stop.
    Throttled,
    /// The user stopped it while it may have been applied.
    Cancelled,
    /// The program crashed too often while working on it.
    Crashes,
    /// TLS failed after an earlier attempt may have been applied.
    Tls,
    /// The server does not know keys, so nothing may be sent twice.
    NoKeySupport,
    /// The server says that this was done before, but not with what result.
    AlreadyDone,
}

/// What is known before the attempt's end is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// How this server speaks the contract.
    pub profile: &'a Profile,
    /// Where the request went.
    pub url: &'a str,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// Whether an *earlier* attempt may have been applied.
    pub in_doubt: bool,
    /// The one-time remedies already used.
    pub used: &'a [Once],
    /// What the wall clock says, for hints that are dates.
    pub now: Timestamp,
}

/// The verdict on an answer.
#[must_use]
pub fn answer(response: &Response, context: &Context<'_>) -> Verdict {
    let _ = (response, context);
    todo!()
}

/// The verdict on an answer to a poll, or to the GET that a 303 asked for.
#[must_use]
pub fn polled(response: &Response, context: &Context<'_>) -> Verdict {
    let _ = (response, context);
    todo!()
}

/// The verdict on an attempt without an answer.
#[must_use]
pub fn failure(failure: &Failure, context: &Context<'_>) -> Verdict {
    let _ = (failure, context);
    todo!()
}

//! What one attempt's end means: a [`Verdict`], with a reason that people can read.
//!
//! Two questions are kept apart: what has to follow, and whether this attempt can have had its
//! effect. Most clients mix them up in two places.
//!
//! *409 is not one thing.* It says that the first request is still running (ask again), that the
//! key belongs to another request (stop, loudly), that the thing exists already (fetch it), or that
//! an e-mail address is taken (the server's final word). Only what a profile names, a problem that
//! speaks of the key, or a `Retry-After` makes it the first kind.
//!
//! *A refusal speaks for its own attempt only.* If an earlier attempt may have been applied, a 403
//! from a gateway says nothing about that one. Such an answer ends in [`Action::Attend`], unless
//! the server marks it as a replay or the profile vouches that this status comes from the handler.
//!
//! The order of the questions: was the head sound, is the body whole, what does the should-retry
//! header say, what does the profile's code say, and only then what does the status say.

mod answer;
mod complete;
mod failure;
mod meaning;
mod poll;
mod redirect;
mod ruling;
#[cfg(test)]
mod tests;

pub(crate) use answer::is_page;
pub use answer::{answer, is_success_without_body};
pub use complete::{Complete, completed};
pub use failure::failure;
pub use poll::{followed, poll_failed, polled};

use crate::profile::Profile;
use crate::time::Timestamp;
use std::time::Duration;

/// The least time between two questions while the server is working on the key and does not say
/// how long that will take: a lock is not released sooner by hammering on it.
pub const STILL_RUNNING_FLOOR: Duration = Duration::from_secs(1);

/// The classification of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What has to follow.
    pub action: Action,
    /// Whether this attempt can have had its effect.
    pub applied: Applied,
    /// Why, for people and logs. Never holds bodies, queries or credentials.
    pub reason: String,
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
    /// The server is still working on it: ask again where this was asked, bounded by time, not by
    /// count, and no sooner than [`STILL_RUNNING_FLOOR`].
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

impl Reason {
    /// Its name, in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Reason::Exhausted => "exhausted",
            Reason::WindowClosed => "window-closed",
            Reason::KeyMismatch => "key-mismatch",
            Reason::RefusedAfterDoubt => "refused-after-doubt",
            Reason::FinalErrorReplayed => "final-error-replayed",
            Reason::UnexpectedBody => "unexpected-body",
            Reason::CrossOriginRedirect => "cross-origin-redirect",
            Reason::Redirected => "redirected",
            Reason::Protocol => "protocol",
            Reason::PollLost => "poll-lost",
            Reason::WorkFailed => "work-failed",
            Reason::Throttled => "throttled",
            Reason::Cancelled => "cancelled",
            Reason::Crashes => "crashes",
            Reason::Tls => "tls",
            Reason::NoKeySupport => "no-key-support",
            Reason::AlreadyDone => "already-done",
        }
    }
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

impl Context<'_> {
    fn may(&self, remedy: Once) -> bool {
        !self.used.contains(&remedy)
    }
}

//! What the machine is told, and what it orders.

use super::{Permit, Probe};
use crate::entry::{Entry, Flush, Progress, Receipt};
use crate::message::{Failure, Response};
use crate::profile::Profile;
use crate::retry::Policy;
use crate::retry::classify::Reason;
use crate::time::{Now, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// The moment of an event, and the luck that goes with it.
#[derive(Clone, Copy, Debug)]
pub struct Tick {
    /// Both clocks.
    pub now: Now,
    /// A number from the [`Dice`](crate::clock::Dice), for jitter.
    pub roll: u64,
}

impl Tick {
    /// Both clocks at `seconds`, and a fixed roll: for examples and tests.
    #[must_use]
    pub fn at_seconds(seconds: u64) -> Tick {
        let monotonic = Duration::from_secs(seconds);
        Tick {
            now: Now {
                wall: Timestamp::from_millis(seconds * 1000),
                monotonic,
            },
            roll: 7,
        }
    }
}

/// What happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The entry is durable in this revision, and ours to drive.
    Drive(Receipt),
    /// The journal wrote what it was told to.
    Recorded(Receipt),
    /// An answer came, to a send or to a probe.
    Answered(Response),
    /// None came.
    Failed(Failure),
    /// The wait is over. `may_retry` is the word of the host's retry budget.
    Woke {
        /// Whether the budget pays for one more attempt.
        may_retry: bool,
    },
    /// There are fresh credentials.
    Authorised,
    /// There is nobody to ask for fresh credentials.
    Unauthorised,
}

impl Event {
    /// Whether what follows may depend on luck: a wait that is drawn.
    pub(crate) fn needs_luck(&self) -> bool {
        !matches!(self, Event::Drive(_) | Event::Recorded(_))
    }
}

/// What to do next. Exactly one [`Event`] answers it, except [`Decision::Finish`].
#[derive(Debug)]
#[must_use]
pub enum Decision {
    /// Write this progress, replacing the revision before it; then [`Event::Recorded`].
    Record {
        /// What to write.
        progress: Box<Progress>,
        /// How hard.
        flush: Flush,
    },
    /// Send; then [`Event::Answered`] or [`Event::Failed`].
    Send(Permit),
    /// Ask; then [`Event::Answered`] or [`Event::Failed`].
    Probe(Probe),
    /// Wait; then [`Event::Woke`].
    Sleep {
        /// How long.
        wait: Duration,
        /// Whether the host's retry budget is to be charged on waking.
        charge: bool,
    },
    /// Ask for fresh credentials; then [`Event::Authorised`] or [`Event::Unauthorised`].
    Reauthorise,
    /// Tell the caller. The entry is written.
    Finish(End),
}

/// How driving an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is succeeded, rejected or abandoned; the progress says which.
    Settled,
    /// A person has to look.
    Attention(Reason),
    /// Parked until a time.
    Deferred(Timestamp),
    /// Given up for now, and no attempt can have had an effect.
    NotApplied,
}

/// What the machine needs to know of one operation.
#[derive(Debug)]
pub struct Task {
    /// The entry, in the revision that is ours.
    pub entry: Entry,
    /// The exact body.
    pub body: Arc<[u8]>,
    /// How the server speaks.
    pub profile: Profile,
    /// The limits.
    pub policy: Policy,
    /// Whether successes are flushed as hard as everything else.
    pub flush_all: bool,
    /// Whether this process knows that nothing was sent yet.
    pub surely_unsent: bool,
}

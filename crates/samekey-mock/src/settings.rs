//! The knobs. Where authors of servers disagree, the default is the careful choice.

use crate::naughty::Habits;
use crate::profile::Profile;
use std::path::PathBuf;
use std::time::Duration;

/// What becomes of a lock whose worker has not come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stale {
    /// The sweeper looks for an effect: none, the key is freed; one, a person must look.
    Reconcile,
    /// The next retry takes it over.
    Reclaim,
}

/// What a duplicate of work in progress is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFlight {
    /// 409 with Retry-After.
    Conflict,
    /// Waits this long for the first, then 409.
    Wait(Duration),
    /// 202 and where to ask.
    Poll,
}

/// How Retry-After is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// `Retry-After: 1`
    Seconds,
    /// `Retry-After: Sun, 06 Nov 1994 08:49:37 GMT`
    HttpDate,
    /// Not at all.
    Absent,
}

/// Which answers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// 2xx and the handler's 4xx.
    SuccessAndClientError,
    /// Server errors too.
    All,
    /// 2xx only.
    Success,
}

/// What becomes of a key that comes back after it was forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterExpiry {
    /// It runs as a new one.
    Run,
    /// It is refused with this status.
    Refuse(u16),
}

/// How the key may be written in its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySyntax {
    /// Bare, or as a quoted string.
    Either,
    /// Bare only.
    Bare,
    /// Quoted only, as the draft has it.
    Quoted,
}

/// At most so many in so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// How many.
    pub quota: u64,
    /// In how long.
    pub window: Duration,
}

/// All knobs of a mock.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whose answers to give.
    pub profile: Profile,
    /// Promises to break.
    pub naughty: Habits,
    /// Whether a POST or PATCH without key is refused.
    pub key_required: bool,
    /// How the key may be written.
    pub key_syntax: KeySyntax,
    /// Status of a mismatch; the profile's own where none is set.
    pub mismatch_status: Option<u16>,
    /// What a duplicate in flight is told.
    pub in_flight: InFlight,
    /// How Retry-After is written.
    pub retry_after: RetryAfter,
    /// Answer repeats with 200 instead of the stored status.
    pub replay_as_200: bool,
    /// Which answers are kept.
    pub stored: Stored,
    /// The published life of a key.
    pub ttl: Duration,
    /// How much longer it is really kept.
    pub margin: Duration,
    /// What a late repeat meets.
    pub after_expiry: AfterExpiry,
    /// Age at which a lock counts as stale.
    pub lock_limit: Duration,
    /// What becomes of stale locks.
    pub stale: Stale,
    /// Keys removed per transaction of the reaper.
    pub reap_batch: usize,
    /// How often reaper and sweeper run by themselves.
    pub housekeeping: Duration,
    /// New keys per tenant.
    pub rate_limit: Option<Limit>,
    /// Look-ups of keys per tenant.
    pub lookup_limit: Option<Limit>,
    /// Active keys per tenant.
    pub key_cap: Option<u64>,
    /// Refuse requests whose `Date` is older than this.
    pub max_request_age: Option<Duration>,
    /// Run the export job for this long.
    pub export_time: Duration,
    /// Header names left out of the CORS lists.
    pub cors_omit: Vec<String>,
    /// Tries of the outbox before a message is given up.
    pub outbox_tries: u32,
    /// Largest body that is read.
    pub body_limit: usize,
    /// Requests remembered in the ledger; the oldest go first.
    pub ledger_limit: usize,
    /// Answer every POST at once without any store.
    pub instant: bool,
    /// Keep keys and effects in this file; in memory where none is given.
    pub file: Option<PathBuf>,
    /// Delay every request by between so many milliseconds.
    pub delay: Option<(u64, u64)>,
    /// Seed of random faults.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 3600);
        Self {
            profile: Profile::Default,
            naughty: Habits::default(),
            key_required: true,
            key_syntax: KeySyntax::Either,
            mismatch_status: None,
            in_flight: InFlight::Conflict,
            retry_after: RetryAfter::Seconds,
            replay_as_200: false,
            stored: Stored::SuccessAndClientError,
            ttl: day,
            margin: day / 16,
            after_expiry: AfterExpiry::Run,
            lock_limit: Duration::from_secs(15 * 60),
            stale: Stale::Reconcile,
            reap_batch: 500,
            housekeeping: Duration::from_secs(5),
            rate_limit: None,
            lookup_limit: Some(Limit {
                quota: 600,
                window: Duration::from_secs(60),
            }),
            key_cap: None,
            max_request_age: None,
            export_time: Duration::from_secs(2),
            cors_omit: Vec::new(),
            outbox_tries: 5,
            body_limit: 8 << 20,
            ledger_limit: 200_000,
            instant: false,
            file: None,
            delay: None,
            seed: 0,
        }
    }
}

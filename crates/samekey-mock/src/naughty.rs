//! Ways to break the contract on purpose, so that tests can prove that they notice.

use serde::Serialize;
use std::fmt;
use std::str::FromStr;

macro_rules! switches {
    ($($name:ident $text:literal $says:literal,)*) => {
        /// One broken promise. Each names the habit that breaks it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Naughty { $(#[doc = $says] $name,)* }

        impl Naughty {
            /// Every switch.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The name used on the command line and in JSON.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// What it does, in a sentence.
            pub fn about(self) -> &'static str {
                match self { $(Self::$name => $says,)* }
            }
        }
    };
}

switches! {
    NoBodyCheck "no-body-check" "Replays the stored answer even when the body is another one.",
    CheckThenInsert "check-then-insert" "Looks first and inserts later, so that two requests both find nothing.",
    EffectWithoutAnswer "effect-without-answer" "Commits the effect first and stores the answer in a second transaction.",
    TtlTooShort "ttl-too-short" "Forgets keys after a tenth of the published time.",
    CleanupRacesRetry "cleanup-races-retry" "Cleans up at the very end of the published time, in-flight keys included.",
    ReserveAfterEffect "reserve-after-effect" "Does the work first and looks at the key afterwards.",
    SharedTenants "shared-tenants" "Looks keys up without the tenant.",
    TenantFromBody "tenant-from-body" "Believes a tenant named in the body.",
    OpenLookup "open-lookup" "Shows the state of any tenant's key to everyone.",
    CacheServerErrors "cache-server-errors" "Stores a 500 and replays it for ever.",
    NodeLocalKeys "node-local-keys" "Keeps keys per process, so that two nodes do not see each other's.",
    NoRetryAfter "no-retry-after" "Answers 409 without saying when to come back.",
    RunWhileInFlight "run-while-in-flight" "Runs a duplicate although the first is still at work.",
    KeyOptional "key-optional" "Runs requests that carry no key.",
    UncoveredRoute "uncovered-route" "Ignores keys on refunds.",
    FailOpen "fail-open" "Runs requests without protection while the key store is down.",
    NeverExpires "never-expires" "Keeps keys past the published time.",
    OneBigDelete "one-big-delete" "Removes all expired keys in one transaction.",
    NoSweeper "no-sweeper" "Leaves stale locks alone for ever.",
    NoFencing "no-fencing" "Lets a worker that lost its lock complete all the same.",
    AnyKey "any-key" "Accepts keys of any length and alphabet, and lists of keys.",
    NoMarker "no-marker" "Replays without saying that it is a replay.",
    NoExpiryHeader "no-expiry-header" "Does not say when a key will be forgotten.",
    LiveAnswer "live-answer" "Answers a repeat with the present state instead of the stored answer.",
    FreshDownstreamKey "fresh-downstream-key" "Calls the payment processor with a new key on every try.",
    NoLimits "no-limits" "Ignores the rate limit and the cap of keys.",
    NewJobEachTime "new-job-each-time" "Starts long work again for the same key.",
    UnorderedJson "unordered-json" "Compares JSON bodies byte for byte.",
    StoresRefusals "stores-refusals" "Stores answers that were given before the work began, such as 429.",
    DropsClientErrors "drops-client-errors" "Runs the handler again after a stored 4xx.",
}

impl fmt::Display for Naughty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Naughty {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl FromStr for Naughty {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().copied().find(|n| n.name() == text);
        found.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|n| n.name()).collect();
            format!("no switch `{text}`; there are: {}", names.join(", "))
        })
    }
}

/// The switches that are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Habits(u64);

impl Habits {
    /// Whether a switch is on.
    pub fn has(self, switch: Naughty) -> bool {
        self.0 & (1 << switch as u64) != 0
    }

    /// Turns a switch on or off.
    pub fn set(&mut self, switch: Naughty, on: bool) {
        let bit = 1 << switch as u64;
        if on { self.0 |= bit } else { self.0 &= !bit }
    }

    /// The switches that are on, in order.
    pub fn on(self) -> impl Iterator<Item = Naughty> {
        Naughty::ALL.iter().copied().filter(move |n| self.has(*n))
    }
}

impl FromIterator<Naughty> for Habits {
    fn from_iter<I: IntoIterator<Item = Naughty>>(switches: I) -> Self {
        let mut habits = Self::default();
        switches.into_iter().for_each(|n| habits.set(n, true));
        habits
    }
}

/// One line of the verification checklist of an idempotency layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "`text` says what each line means")]
pub enum Check {
    OneEffectForDuplicates,
    OneEffectFromTwoNodes,
    MismatchIsRefused,
    TenantsAreApart,
    OtherCredentialSeesNothing,
    InFlightSaysWhenToReturn,
    KeyIsRequired,
    EveryRouteIsCovered,
    FailsClosed,
    ServerErrorIsNotReplayed,
    CrashAfterEffect,
    RetryAfterExpiryIsVisible,
    ReaperLeavesRoom,
    SweeperFreesStuckKeys,
    BugNoBodyCheck,
    BugCheckThenInsert,
    BugEffectWithoutAnswer,
    BugTtlTooShort,
    BugCleanupRacesRetry,
}

impl Check {
    /// Every line: the fourteen of the checklist, then the five classic bugs.
    pub const ALL: &'static [Self] = &[
        Self::OneEffectForDuplicates,
        Self::OneEffectFromTwoNodes,
        Self::MismatchIsRefused,
        Self::TenantsAreApart,
        Self::OtherCredentialSeesNothing,
        Self::InFlightSaysWhenToReturn,
        Self::KeyIsRequired,
        Self::EveryRouteIsCovered,
        Self::FailsClosed,
        Self::ServerErrorIsNotReplayed,
        Self::CrashAfterEffect,
        Self::RetryAfterExpiryIsVisible,
        Self::ReaperLeavesRoom,
        Self::SweeperFreesStuckKeys,
        Self::BugNoBodyCheck,
        Self::BugCheckThenInsert,
        Self::BugEffectWithoutAnswer,
        Self::BugTtlTooShort,
        Self::BugCleanupRacesRetry,
    ];

    /// The switches that break this line. The match has no rest arm: a line without a switch does
    /// not compile.
    pub fn broken_by(self) -> &'static [Naughty] {
        match self {
            Self::OneEffectForDuplicates => &[Naughty::ReserveAfterEffect],
            Self::OneEffectFromTwoNodes => &[Naughty::NodeLocalKeys],
            Self::MismatchIsRefused | Self::BugNoBodyCheck => &[Naughty::NoBodyCheck],
            Self::TenantsAreApart => &[Naughty::SharedTenants],
            Self::OtherCredentialSeesNothing => &[Naughty::TenantFromBody, Naughty::OpenLookup],
            Self::InFlightSaysWhenToReturn => &[Naughty::NoRetryAfter],
            Self::KeyIsRequired => &[Naughty::KeyOptional],
            Self::EveryRouteIsCovered => &[Naughty::UncoveredRoute],
            Self::FailsClosed => &[Naughty::FailOpen],
            Self::ServerErrorIsNotReplayed => &[Naughty::CacheServerErrors],
            Self::CrashAfterEffect | Self::BugEffectWithoutAnswer => {
                &[Naughty::EffectWithoutAnswer]
            }
            Self::RetryAfterExpiryIsVisible => &[Naughty::NeverExpires],
            Self::ReaperLeavesRoom => &[Naughty::OneBigDelete],
            Self::SweeperFreesStuckKeys => &[Naughty::NoSweeper],
            Self::BugCheckThenInsert => &[Naughty::CheckThenInsert],
            Self::BugTtlTooShort => &[Naughty::TtlTooShort],
            Self::BugCleanupRacesRetry => &[Naughty::CleanupRacesRetry],
        }
    }

    /// The line in words.
    pub fn text(self) -> &'static str {
        match self {
            Self::OneEffectForDuplicates => {
                "64 simultaneous duplicates: one effect, the same answer for all"
            }
            Self::OneEffectFromTwoNodes => "the same from two app nodes",
            Self::MismatchIsRefused => "the same key with another body: 422",
            Self::TenantsAreApart => "the same key from two tenants: two independent results",
            Self::OtherCredentialSeesNothing => "another credential learns nothing about a key",
            Self::InFlightSaysWhenToReturn => "a duplicate in flight: 409 with Retry-After",
            Self::KeyIsRequired => "no key: 400",
            Self::EveryRouteIsCovered => "every step of a flow is covered",
            Self::FailsClosed => "key store down: 503 and no effect",
            Self::ServerErrorIsNotReplayed => "a 500 is not replayed",
            Self::CrashAfterEffect => "worker crash after the effect: still one effect",
            Self::RetryAfterExpiryIsVisible => {
                "a retry after the published time runs again, and the ledger shows it"
            }
            Self::ReaperLeavesRoom => "the reaper works in batches and does not block traffic",
            Self::SweeperFreesStuckKeys => "the sweeper frees stuck keys",
            Self::BugNoBodyCheck => "classic bug: no body check",
            Self::BugCheckThenInsert => "classic bug: check, then insert",
            Self::BugEffectWithoutAnswer => "classic bug: effect without stored answer",
            Self::BugTtlTooShort => "classic bug: forgets too early",
            Self::BugCleanupRacesRetry => "classic bug: cleanup races the retry",
        }
    }
}

//! What a client was told: plain values, the same for a program's client and for a page's.

use crate::entry::{Entry, Scope};
use crate::error::{Error, ErrorKind, Problems};
use crate::machine::may_have_left;
use crate::message::{Origin, filled, place_of, quoted};
use crate::profile::Profile;
use crate::retry::Policy;
use crate::seal::{Body, Keeper};
use crate::time::spoken;
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

/// The settings of a client; until [`settle`](Settings::settle) said so, as they were given.
pub(crate) struct Settings {
    pub(crate) scope: Scope,
    pub(crate) policy: Policy,
    pub(crate) profiles: Vec<Profile>,
    /// Besides the usual ones.
    kept_headers: Vec<Box<str>>,
    pub(crate) body: Body,
    pub(crate) keeper: Keeper,
    pub(crate) origins: Vec<Origin>,
    pub(crate) flush_all: bool,
    pub(crate) settled_for: Duration,
    pub(crate) tombstones_for: Duration,
}

impl Settings {
    pub(crate) fn new() -> Settings {
        Settings {
            scope: Scope::from_stored(""),
            policy: Policy::new(),
            profiles: Vec::new(),
            kept_headers: Vec::new(),
            body: Body::default(),
            keeper: Keeper::default(),
            origins: Vec::new(),
            flush_all: false,
            settled_for: 30 * DAY,
            tombstones_for: 400 * DAY,
        }
    }

    pub(crate) fn keep_header(&mut self, name: &str) {
        self.kept_headers.push(name.to_ascii_lowercase().into());
    }

    /// Whether the journal may keep a header of this name.
    pub(crate) fn keeps(&self, name: &str) -> bool {
        KEPT_HEADERS.contains(&name) || self.kept_headers.iter().any(|kept| **kept == *name)
    }

    /// What is wrong with how long settled entries are kept.
    pub(crate) fn check_retention(&self, problems: &mut Problems) {
        let longest = self.profiles.iter().map(Profile::window).max();
        let longest = longest.unwrap_or(DAY);
        if self.settled_for < longest {
            problems.add(&filled(
                "settled entries are kept for %, which is shorter than the window of %: keep them longer",
                &[&spoken(self.settled_for), &spoken(longest)],
            ));
        }
    }

    /// Names every mistake at once, in these settings and in what they still lack, besides those found before.
    pub(crate) fn settle(
        &mut self,
        application: &str,
        principal: Option<&str>,
        origins: &mut dyn Iterator<Item = &str>,
        mut problems: Problems,
    ) -> Result<(), Error> {
        match Scope::new(application, principal) {
            Ok(scope) => self.scope = scope,
            Err(problem) => problems.add(&problem),
        }
        for origin in origins {
            match Origin::of(origin) {
                Ok(origin) => self.origins.push(origin),
                Err(invalid) => problems.add(&invalid.0),
            }
        }
        if self.profiles.is_empty() {
            self.profiles.push(Profile::default());
        }
        let shortest = self.profiles.iter().map(Profile::window).min();
        problems.add_all(&self.policy.problems(shortest.unwrap_or(DAY)));
        #[cfg(feature = "sealing")]
        if self.body == Body::Sealed && !self.keeper.has_key() {
            problems.add("Body::Sealed needs a key: give one with `seal_with`");
        }
        for name in &self.kept_headers {
            if is_credential(name) {
                let secret = "the header % is a credential and must not be kept; use `credentials`";
                problems.add(&filled(secret, &[name]));
            }
        }
        problems.told(ErrorKind::InvalidConfiguration)
    }

    pub(super) fn profile(&self, name: &str) -> Option<Profile> {
        let mut own = self.profiles.iter();
        let own = own.find(|profile| profile.name() == name).cloned();
        own.or_else(|| Profile::named(name))
    }

    /// Whether an operation with this profile could be resumed by a client like this one.
    pub(crate) fn knows_profile(&self, name: &str) -> bool {
        self.profile(name).is_some()
    }

    /// The profile that an entry was begun with.
    pub(crate) fn profile_of(&self, entry: &Entry) -> Result<Profile, Error> {
        let name = &*entry.frozen.profile;
        self.profile(name).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidConfiguration,
                filled(
                    "the operation was begun with the profile %, which this client does not know; \
                     give it that profile",
                    &[&quoted(name)],
                ),
            )
            .about(entry.reference())
            .after(entry.progress.attempts, may_have_left(&entry.progress))
        })
    }

    /// Refuses a destination that the current configuration does not allow.
    pub(crate) fn check_origin(&self, url: &str) -> Result<Origin, Error> {
        let origin =
            Origin::of(url).map_err(|invalid| Error::new(ErrorKind::InvalidRequest, invalid.0))?;
        if self.origins.is_empty() || self.origins.contains(&origin) {
            return Ok(origin);
        }
        Err(Error::new(
            ErrorKind::OriginNotAllowed,
            filled(
                "% is not among the origins that this client may send to; allow it first",
                &[&origin.text()],
            ),
        ))
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

//! Facts about a provider, and the signs by which its answers are known.

use crate::json;
use crate::message::Response;
use std::borrow::Cow;
use std::fmt;

/// How well a fact is founded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Standing {
    /// Read in the provider's own text, specification or library.
    Confirmed,
    /// Said by somebody else.
    Reported,
    /// Found nowhere; chosen so that being wrong does no harm.
    Assumed,
    /// Stated by whoever built the profile.
    Given,
}

/// One thing that a profile says about its provider.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fact {
    /// What it is about.
    pub axis: &'static str,
    /// What it says.
    pub value: String,
    /// Where it was read.
    pub source: Cow<'static, str>,
    /// The day on which the source was read, as `2026-11-16`; empty for a profile of one's own.
    pub checked_on: &'static str,
    /// How well it is founded.
    pub standing: Standing,
}

impl Fact {
    /// Whether the provider's own text does not say so.
    #[must_use]
    pub fn is_unverified(&self) -> bool {
        matches!(self.standing, Standing::Reported | Standing::Assumed)
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({}", self.axis, self.value, self.source)?;
        if !self.checked_on.is_empty() {
            write!(f, ", {}", self.checked_on)?;
        }
        f.write_str(if self.is_unverified() {
            ", unverified)"
        } else {
            ")"
        })
    }
}

/// By what an answer is known to mean something: its status, and a member of its JSON body.
///
/// ```
/// use samekey::profile::Sign;
/// let busy = Sign::status(409).with("error.code", "idempotency_key_in_use");
/// assert_eq!(busy.to_string(), "409 with error.code = idempotency_key_in_use");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sign {
    pub(super) status: u16,
    pub(super) member: Option<(Cow<'static, str>, Cow<'static, str>)>,
}

impl Sign {
    /// Any answer with this status.
    #[must_use]
    pub const fn status(status: u16) -> Sign {
        Sign {
            status,
            member: None,
        }
    }

    /// Only where the JSON member at `path`, such as `errors[0].code`, has this value.
    #[must_use]
    pub fn with(
        mut self,
        path: impl Into<Cow<'static, str>>,
        value: impl Into<Cow<'static, str>>,
    ) -> Sign {
        self.member = Some((path.into(), value.into()));
        self
    }

    pub(crate) fn is_on(&self, response: &Response) -> bool {
        if response.status != self.status {
            return false;
        }
        let Some((path, value)) = &self.member else {
            return true;
        };
        let body = response.content.bytes();
        let found = body.and_then(|body| json::find(body, path));
        found.is_some_and(|found| found.text == *value)
    }
}

impl fmt::Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        match &self.member {
            Some((path, value)) => write!(f, " with {path} = {value}"),
            None => Ok(()),
        }
    }
}

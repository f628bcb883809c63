//! How different providers say the same things: where the key travels, and the answers for a repeat,
//! for work in progress, for another body, for no key and for a store that is down.

#[cfg(feature = "server")]
mod shapes;

use crate::settings::{KeySyntax, RetryAfter, Settings, Stored};
use serde::Serialize;
use std::str::FromStr;

/// Whose answers the mock gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Bare UUID in `Idempotency-Key`, problem details, 409 and 422, a replay marker.
    Default,
    /// As the expired Internet-Draft has it: quoted key, no marker.
    IetfDraft,
    /// Stripe's v1 API.
    Stripe,
    /// Adyen.
    Adyen,
    /// PayPal's REST APIs.
    Paypal,
    /// Square: the key travels in the body.
    Square,
    /// GoCardless: a repeat is a 409 that names what exists.
    Gocardless,
}

/// Where the key travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// In this header.
    Header(&'static str),
    /// In this member of the JSON body.
    Body(&'static str),
}

/// What a repeat of finished work is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// The stored answer.
    Stored,
    /// 200 with the present state.
    Current,
    /// 409 with the id of what exists.
    Conflict,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 7] = [
        Self::Default,
        Self::IetfDraft,
        Self::Stripe,
        Self::Adyen,
        Self::Paypal,
        Self::Square,
        Self::Gocardless,
    ];

    /// The name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::IetfDraft => "ietf_draft",
            Self::Stripe => "stripe",
            Self::Adyen => "adyen",
            Self::Paypal => "paypal",
            Self::Square => "square",
            Self::Gocardless => "gocardless",
        }
    }

    /// Sets the knobs in which this provider differs from the defaults.
    pub fn apply(self, settings: &mut Settings) {
        settings.profile = self;
        if self == Self::Default {
            return;
        }
        // None of them is known to say when to come back from work in flight.
        settings.retry_after = RetryAfter::Absent;
        settings.key_syntax = KeySyntax::Bare;
        match self {
            Self::IetfDraft => settings.key_syntax = KeySyntax::Quoted,
            Self::Stripe => settings.stored = Stored::All,
            _ => {}
        }
    }

    /// Where the key travels.
    pub fn carrier(self) -> Carrier {
        match self {
            Self::Paypal => Carrier::Header("paypal-request-id"),
            Self::Square => Carrier::Body("idempotency_key"),
            _ => Carrier::Header("idempotency-key"),
        }
    }

    /// The longest key that is accepted.
    pub fn max_key(self) -> usize {
        match self {
            Self::Adyen => 64,
            Self::Paypal => 108,
            Self::Square => 45,
            _ => 255,
        }
    }

    /// The header that marks a replay.
    pub fn marker(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Default | Self::Stripe => Some(("idempotent-replayed", "true")),
            _ => None,
        }
    }

    /// What a repeat of finished work is told.
    pub fn repeat(self) -> Repeat {
        match self {
            Self::Paypal => Repeat::Current,
            Self::Gocardless => Repeat::Conflict,
            _ => Repeat::Stored,
        }
    }

    /// Whether this provider publishes the end of a key's life, which no real one does.
    pub fn tells_expiry(self) -> bool {
        self == Self::Default
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = text.replace('-', "_");
        Self::ALL
            .into_iter()
            .find(|p| p.name() == wanted)
            .ok_or_else(|| {
                let names: Vec<_> = Self::ALL.iter().map(|p| p.name()).collect();
                format!("no profile `{text}`; there are: {}", names.join(", "))
            })
    }
}

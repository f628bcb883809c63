//! How different providers say the same things: where the key travels, and the answers for a repeat,
//! for work in progress, for another body, for no key and for a store that is down.

use crate::answer::Answer;
use crate::settings::{KeySyntax, Settings, Stored};
use serde::Serialize;
use serde_json::json;
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
        match self {
            Self::Default => {}
            Self::IetfDraft => settings.key_syntax = KeySyntax::Quoted,
            Self::Stripe => {
                settings.key_syntax = KeySyntax::Bare;
                settings.stored = Stored::All;
            }
            Self::Adyen | Self::Paypal | Self::Square | Self::Gocardless => {
                settings.key_syntax = KeySyntax::Bare;
            }
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

    /// A duplicate of work in progress.
    pub fn in_flight(self) -> Answer {
        let detail = "A request with this key is still being worked on.";
        match self {
            Self::Default | Self::IetfDraft => Answer::problem(
                409,
                "in-flight",
                "A request with this key is in flight",
                detail,
            ),
            Self::Stripe => stripe(
                409,
                "idempotency_error",
                Some("idempotency_key_in_use"),
                detail,
            )
            .header("stripe-should-retry", "true"),
            Self::Adyen => adyen(409, "704", detail).header("transient-error", "true"),
            Self::Paypal => paypal(
                409,
                "RESOURCE_CONFLICT",
                "PREVIOUS_REQUEST_IN_PROGRESS",
                detail,
            ),
            Self::Square => square(409, "API_ERROR", "CONFLICT", detail),
            Self::Gocardless => gocardless(
                409,
                "invalid_state",
                "idempotent_creation_conflict",
                detail,
                None,
            ),
        }
    }

    /// The key was used with another request.
    pub fn mismatch(self) -> Answer {
        let detail = "This key was used before with a different request.";
        match self {
            Self::Default | Self::IetfDraft => Answer::problem(
                422,
                "key-reused",
                "The key belongs to another request",
                detail,
            ),
            Self::Stripe => stripe(400, "idempotency_error", None, detail)
                .header("stripe-should-retry", "false"),
            Self::Adyen => adyen(422, "702", detail),
            Self::Paypal => paypal(422, "UNPROCESSABLE_ENTITY", "DUPLICATE_REQUEST_ID", detail),
            Self::Square => square(
                400,
                "INVALID_REQUEST_ERROR",
                "IDEMPOTENCY_KEY_REUSED",
                detail,
            ),
            Self::Gocardless => gocardless(
                409,
                "invalid_state",
                "idempotent_creation_conflict",
                detail,
                None,
            ),
        }
    }

    /// No key, or one that cannot be accepted.
    pub fn bad_key(self, missing: bool, detail: &str) -> Answer {
        match self {
            Self::Default | Self::IetfDraft if missing => {
                Answer::problem(400, "key-missing", "An idempotency key is required", detail)
            }
            Self::Default | Self::IetfDraft => Answer::problem(
                400,
                "key-invalid",
                "The idempotency key is not valid",
                detail,
            ),
            Self::Stripe => stripe(400, "invalid_request_error", None, detail),
            Self::Adyen => adyen(400, "701", detail),
            Self::Paypal => paypal(400, "INVALID_REQUEST", "INVALID_PARAMETER_VALUE", detail),
            Self::Square => square(400, "INVALID_REQUEST_ERROR", "BAD_REQUEST", detail),
            Self::Gocardless => gocardless(400, "invalid_api_usage", "bad_request", detail, None),
        }
    }

    /// The store of keys does not answer: nothing was done.
    pub fn store_down(self) -> Answer {
        let detail = "The key store does not answer; nothing was done.";
        match self {
            Self::Default | Self::IetfDraft => {
                Answer::problem(503, "store-down", "Keys cannot be checked now", detail)
            }
            Self::Stripe => {
                stripe(503, "api_error", None, detail).header("stripe-should-retry", "true")
            }
            Self::Adyen => adyen(503, "703", detail).header("transient-error", "true"),
            Self::Paypal => paypal(503, "SERVICE_UNAVAILABLE", "SERVICE_UNAVAILABLE", detail),
            Self::Square => square(503, "API_ERROR", "SERVICE_UNAVAILABLE", detail),
            Self::Gocardless => gocardless(503, "gocardless", "internal_error", detail, None),
        }
    }

    /// A repeat where the provider answers with the id of what exists.
    pub fn exists(self, id: &str) -> Answer {
        let detail = "A resource has already been created with this idempotency key";
        gocardless(
            409,
            "invalid_state",
            "idempotent_creation_conflict",
            detail,
            Some(id),
        )
    }
}

fn stripe(status: u16, kind: &str, code: Option<&str>, message: &str) -> Answer {
    let mut error = json!({ "type": kind, "message": message });
    if let Some(code) = code {
        error["code"] = json!(code);
    }
    Answer::json(status, &json!({ "error": error }))
}

fn adyen(status: u16, code: &str, message: &str) -> Answer {
    let body = json!({
        "status": status, "errorCode": code, "message": message, "errorType": "validation",
    });
    Answer::json(status, &body)
}

fn paypal(status: u16, name: &str, issue: &str, description: &str) -> Answer {
    let details = json!([{ "issue": issue, "description": description }]);
    Answer::json(
        status,
        &json!({ "name": name, "message": description, "details": details }),
    )
}

fn square(status: u16, category: &str, code: &str, detail: &str) -> Answer {
    let error = json!({ "category": category, "code": code, "detail": detail });
    Answer::json(status, &json!({ "errors": [error] }))
}

fn gocardless(status: u16, kind: &str, reason: &str, message: &str, id: Option<&str>) -> Answer {
    let mut error = json!({ "reason": reason, "message": message });
    if let Some(id) = id {
        error["links"] = json!({ "conflicting_resource_id": id });
    }
    let body = json!({
        "error": { "type": kind, "code": status, "message": message, "errors": [error] },
    });
    Answer::json(status, &body)
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

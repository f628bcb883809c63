//! The built-in profiles. Every line states a fact under the source it was read in.

use super::Standing::{Assumed, Confirmed, Reported};
use super::{Builder, Profile, Repeat, Sign};
use crate::message::Method;
use std::time::Duration;

/// The day on which the sources were read.
pub(super) const CHECKED_ON: &str = "2026-11-16";

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

const DRAFT: &str = "draft-ietf-httpapi-idempotency-key-header-07, expired";
const SAFE: &str = "no source; chosen to be safe";
const COMMENTARY: &str = "write-ups that quote the provider's pages";

type Make = fn() -> Profile;

const ALL: [(&str, Make); 10] = [
    ("default", Profile::default_profile),
    ("ietf_draft", Profile::ietf_draft),
    ("stripe", Profile::stripe),
    ("adyen", Profile::adyen),
    ("paypal", Profile::paypal),
    ("square", Profile::square),
    ("gocardless", Profile::gocardless),
    ("wise", Profile::wise),
    ("mollie", Profile::mollie),
    ("none", Profile::none),
];

impl Profile {
    /// The built-in profile of this name.
    ///
    /// ```
    /// use samekey::profile::Profile;
    /// assert_eq!(Profile::named("stripe"), Some(Profile::stripe()));
    /// assert_eq!(Profile::named("acme"), None);
    /// ```
    #[must_use]
    pub fn named(name: &str) -> Option<Profile> {
        ALL.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, make)| make())
    }

    /// All built-in profiles.
    pub fn all() -> impl Iterator<Item = Profile> {
        ALL.into_iter().map(|(_, make)| make())
    }

    /// What nearly all servers take: the header `Idempotency-Key` with a bare UUID, and the
    /// statuses of the draft.
    #[must_use]
    pub fn default_profile() -> Profile {
        draft("default")
            .from("common practice; the draft itself wants quotes", Assumed)
            .note("quoting", "bare")
            .unchecked()
    }

    /// The expired draft to the letter: the key is a quoted string.
    #[must_use]
    pub fn ietf_draft() -> Profile {
        draft("ietf_draft")
            .from(DRAFT, Confirmed)
            .quoted()
            .unchecked()
    }

    /// Stripe, API v1.
    #[must_use]
    pub fn stripe() -> Profile {
        Profile::builder("stripe")
            .from("docs.stripe.com/api/idempotent_requests", Confirmed)
            .key_in_header("Idempotency-Key")
            .note("quoting", "bare")
            .key_length(1, 255)
            .window(DAY)
            .repeat(Repeat::Original)
            .note("after expiry", "the request runs again")
            .from("docs.stripe.com/error-low-level", Confirmed)
            .note("stored", "every answer once execution began, 500 included")
            .unprocessed(429)
            .from("stripe/stripe-python", Confirmed)
            .methods(&[Method::Post])
            .should_retry("Stripe-Should-Retry")
            .mismatch(Sign::status(400).with("error.type", "idempotency_error"))
            .mismatch(Sign::status(404).with("error.type", "idempotency_error"))
            .from(
                "a response quoted in beam-community/stripity-stripe issue 564",
                Confirmed,
            )
            .in_flight(Sign::status(409).with("error.code", "idempotency_key_in_use"))
            .from(COMMENTARY, Reported)
            .reliable_replay_marker("Idempotent-Replayed", "true")
            .from(
                "402 is a decline by the handler; errors are stored once it runs",
                Reported,
            )
            .vouches_for(402)
            .unchecked()
    }

    /// Adyen.
    #[must_use]
    pub fn adyen() -> Profile {
        Profile::builder("adyen")
            .from(
                "docs.adyen.com/development-resources/api-idempotency",
                Confirmed,
            )
            .key_in_header("Idempotency-Key")
            .note("quoting", "bare")
            .key_length(1, 64)
            .methods(&[Method::Post])
            .note("scope", "company account; not across regions")
            .repeat(Repeat::Original)
            .from("Adyen/adyen-java-api-library", Confirmed)
            .should_retry("transient-error")
            .from(COMMENTARY, Reported)
            .window(7 * DAY)
            .in_flight(Sign::status(409).with("errorCode", "704"))
            .in_flight(Sign::status(422).with("errorCode", "704"))
            .from(SAFE, Assumed)
            .note(
                "mismatch",
                "not documented; problems that speak of the key are recognised",
            )
            .unchecked()
    }

    /// PayPal. Windows and lengths differ by API; elsewhere the shortest known ones hold.
    #[must_use]
    pub fn paypal() -> Profile {
        Profile::builder("paypal")
            .from("paypal/paypal-rest-api-specifications, 2024-02", Confirmed)
            .key_in_header("PayPal-Request-Id")
            .note("quoting", "bare")
            .methods(&[Method::Post])
            .key_length(1, 78)
            .key_length_on("/v2/checkout/orders", 108)
            .key_length_on("/v1/payments/payouts", 255)
            .window(3 * HOUR)
            .window_on("/v2/checkout/orders", 6 * HOUR)
            .window_on("/v2/payments/", 45 * DAY)
            .window_on("/v1/payments/", 30 * DAY)
            .window_on("/v1/billing/", 3 * DAY)
            .window_on("/v1/catalogs/", 3 * DAY)
            .window_on("/v3/vault/", 3 * HOUR)
            .in_flight(Sign::status(409).with("details[0].issue", "PREVIOUS_REQUEST_IN_PROGRESS"))
            .in_flight(Sign::status(409).with("name", "PREVIOUS_REQUEST_IN_PROGRESS"))
            .from(
                "developer.paypal.com/reference/guidelines/idempotency",
                Confirmed,
            )
            .repeat(Repeat::CurrentState)
            .from(SAFE, Assumed)
            .note("mismatch", "not documented")
            .unchecked()
    }

    /// Square: the key travels in the body. Lengths differ by endpoint; elsewhere the shortest
    /// known one holds.
    #[must_use]
    pub fn square() -> Profile {
        Profile::builder("square")
            .from("square/connect-api-specification, 2025-08", Confirmed)
            .key_in_json("idempotency_key")
            .methods(&[Method::Post, Method::Put])
            .key_length(1, 45)
            .key_length_on("/v2/invoices", 128)
            .key_length_on("/v2/catalog", 128)
            .key_length_on("/v2/orders", 192)
            .from(
                "developer.squareup.com/docs/working-with-apis/idempotency",
                Confirmed,
            )
            .repeat(Repeat::Original)
            .from(
                "the code is Square's; the status is from write-ups",
                Reported,
            )
            .mismatch(Sign::status(400).with("errors[0].code", "IDEMPOTENCY_KEY_REUSED"))
            .from(SAFE, Assumed)
            .window(DAY)
            .note("in flight", "not documented")
            .unchecked()
    }

    /// GoCardless: a repeat is answered by a 409 that names what was created.
    #[must_use]
    pub fn gocardless() -> Profile {
        Profile::builder("gocardless")
            .from("gocardless/gocardless-pro-python", Confirmed)
            .key_in_header("Idempotency-Key")
            .note("quoting", "bare")
            .methods(&[Method::Post])
            .repeat(Repeat::ConflictWithId)
            .already_created(
                Sign::status(409).with("error.errors[0].reason", "idempotent_creation_conflict"),
                "error.errors[0].links.conflicting_resource_id",
            )
            .note("mismatch", "cannot be told from a repeat")
            .from(SAFE, Assumed)
            .key_length(1, 128)
            .window(DAY)
            .note("in flight", "not documented")
            .unchecked()
    }

    /// Wise: balances, card orders and profiles. (A transfer carries its own id in the body; use a
    /// profile with `key_in_json("customerTransactionId")` for it.)
    #[must_use]
    pub fn wise() -> Profile {
        Profile::builder("wise")
            .from(
                "a copy of docs.wise.com in ParapluOU/wise-rs, 2026-02",
                Confirmed,
            )
            .key_in_header("X-idempotence-uuid")
            .note("quoting", "bare")
            .only_uuids()
            .methods(&[Method::Post])
            .note(
                "409 without mention of the key",
                "the profile exists already",
            )
            .from(SAFE, Assumed)
            .window(DAY)
            .repeat(Repeat::Unknown)
            .note("in flight", "not documented")
            .note("mismatch", "not documented")
            .unchecked()
    }

    /// Mollie, which remembers a key for an hour only.
    #[must_use]
    pub fn mollie() -> Profile {
        Profile::builder("mollie")
            .from("mollie/openapi, 2026-08", Confirmed)
            .key_in_header("Idempotency-Key")
            .note("quoting", "bare")
            .methods(&[Method::Post, Method::Patch, Method::Delete])
            .from(
                "a third party's comment that cites docs.mollie.com",
                Reported,
            )
            .window(HOUR)
            .repeat(Repeat::Original)
            .replay_marker("Idempotent-Replayed", "true")
            .key_length(1, 100)
            .note("mismatch", "400; recognised where it speaks of the key")
            .from(SAFE, Assumed)
            .note("in flight", "409, where it speaks of the key")
            .unchecked()
    }

    /// A server that does not know keys. Only what was surely not sent is sent again; whatever else
    /// goes wrong is for a person to look at.
    #[must_use]
    pub fn none() -> Profile {
        Profile::builder("none")
            .from("your word", Confirmed)
            .without_keys()
            .unchecked()
    }
}

/// What the draft says and what grew around it.
fn draft(name: &'static str) -> Builder {
    Profile::builder(name)
        .from(DRAFT, Confirmed)
        .key_in_header("Idempotency-Key")
        .repeat(Repeat::Original)
        .note(
            "in flight",
            "409 with Retry-After or a problem that speaks of the key",
        )
        .note("mismatch", "422 with a problem that speaks of the key")
        .from(SAFE, Assumed)
        .key_length(1, 255)
        .window(DAY)
        .from(
            "what several providers send; the draft names no marker",
            Reported,
        )
        .replay_marker("Idempotent-Replayed", "true")
        .from("samekey's own proposal, sent by its mock server", Assumed)
        .window_header("Idempotency-Key-Expires")
}

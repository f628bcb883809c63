//! The built-in profiles. Every line states a fact under the source it was read in.
//!
//! They are data, read by one function: ten that each call the builder would be ten times the code,
//! and a page downloads all of it to use one.

use super::Standing::{self, Assumed, Confirmed, Reported};
use super::{Builder, Profile, Repeat, Sign};
use crate::message::Method;
use std::time::Duration;

/// The day on which the sources were read.
pub(super) const CHECKED_ON: &str = "2026-11-16";

const DAY: u32 = 24;

const DRAFT: &str = "draft-ietf-httpapi-idempotency-key-header-07, expired";
const SAFE: &str = "no source; chosen to be safe";
const COMMENTARY: &str = "write-ups that quote the provider's pages";

/// A name, and what is said of the provider; where two share something, in parts.
type Told = (&'static str, &'static [&'static [Say]]);

/// One call of the builder.
#[derive(Clone, Copy)]
enum Say {
    From(&'static str, Standing),
    Note(&'static str, &'static str),
    Header(&'static str),
    Json(&'static str),
    WithoutKeys,
    Quoted,
    Length(u16, u16),
    LengthOn(&'static str, u16),
    OnlyUuids,
    Methods(&'static [Method]),
    /// In hours, as those below it.
    Window(u32),
    WindowOn(&'static str, u32),
    WindowHeader(&'static str),
    /// A replay's header is `true`.
    Marker(&'static str),
    ReliableMarker(&'static str),
    Repeated(Repeat),
    /// A status, and the value of a member.
    InFlight(u16, &'static [&'static str; 2]),
    Mismatch(u16, &'static [&'static str; 2]),
    /// The same, and the member that holds the id.
    Created(u16, &'static [&'static str; 2], &'static str),
    ShouldRetry(&'static str),
    Vouched(u16),
    Unprocessed(u16),
}

use Say::*;

/// Where the facts that follow were read. What only facts tell is no part of a build without them.
const fn from(source: &'static str, standing: Standing) -> Say {
    From(if cfg!(feature = "facts") { source } else { "" }, standing)
}

/// A fact that changes nothing by itself.
const fn note(axis: &'static str, value: &'static str) -> Say {
    if cfg!(feature = "facts") {
        Note(axis, value)
    } else {
        Note("", "")
    }
}

const ALL: [&Told; 10] = [
    &DEFAULT,
    &IETF,
    &STRIPE,
    &ADYEN,
    &PAYPAL,
    &SQUARE,
    &GOCARDLESS,
    &WISE,
    &MOLLIE,
    &NONE,
];

fn made((name, parts): &Told) -> Profile {
    let mut builder = Profile::builder(*name);
    for part in *parts {
        for say in *part {
            builder = say.to(builder);
        }
    }
    builder.unchecked()
}

impl Say {
    fn to(self, builder: Builder) -> Builder {
        let hours = |hours: u32| Duration::from_secs(u64::from(hours) * 3600);
        let sign = |status: u16, [path, value]: &[&'static str; 2]| {
            Sign::status(status).with(*path, *value)
        };
        match self {
            From(source, standing) => builder.from(source, standing),
            Note(axis, value) => builder.note(axis, value),
            Header(name) => builder.key_in_header(name),
            Json(member) => builder.key_in_json(member),
            WithoutKeys => builder.without_keys(),
            Quoted => builder.quoted(),
            Length(shortest, longest) => builder.key_length(shortest.into(), longest.into()),
            LengthOn(path, longest) => builder.key_length_on(path, longest.into()),
            OnlyUuids => builder.only_uuids(),
            Methods(methods) => builder.methods(methods),
            Window(long) => builder.window(hours(long)),
            WindowOn(path, long) => builder.window_on(path, hours(long)),
            WindowHeader(name) => builder.window_header(name),
            Marker(name) => builder.replay_marker(name, "true"),
            ReliableMarker(name) => builder.reliable_replay_marker(name, "true"),
            Repeated(repeat) => builder.repeat(repeat),
            InFlight(status, member) => builder.in_flight(sign(status, member)),
            Mismatch(status, member) => builder.mismatch(sign(status, member)),
            Created(status, member, id) => builder.already_created(sign(status, member), id),
            ShouldRetry(name) => builder.should_retry(name),
            Vouched(status) => builder.vouches_for(status),
            Unprocessed(status) => builder.unprocessed(status),
        }
    }
}

/// What the draft says and what grew around it.
const OF_DRAFT: &[Say] = &[
    from(DRAFT, Confirmed),
    Header("Idempotency-Key"),
    Repeated(Repeat::Original),
    note(
        "in flight",
        "409 with Retry-After or a problem that speaks of the key",
    ),
    note("mismatch", "422 with a problem that speaks of the key"),
    from(SAFE, Assumed),
    Length(1, 255),
    Window(DAY),
    from(
        "what several providers send; the draft names no marker",
        Reported,
    ),
    Marker("Idempotent-Replayed"),
    from("samekey's own proposal, sent by its mock server", Assumed),
    WindowHeader("Idempotency-Key-Expires"),
];

const DEFAULT: Told = (
    "default",
    &[
        OF_DRAFT,
        &[
            from("common practice; the draft itself wants quotes", Assumed),
            note("quoting", "bare"),
        ],
    ],
);

const IETF: Told = ("ietf_draft", &[OF_DRAFT, &[from(DRAFT, Confirmed), Quoted]]);

const STRIPE: Told = (
    "stripe",
    &[&[
        from("docs.stripe.com/api/idempotent_requests", Confirmed),
        Header("Idempotency-Key"),
        note("quoting", "bare"),
        Length(1, 255),
        Window(DAY),
        Repeated(Repeat::Original),
        note("after expiry", "the request runs again"),
        from("docs.stripe.com/error-low-level", Confirmed),
        note("stored", "every answer once execution began, 500 included"),
        Unprocessed(429),
        from("stripe/stripe-python", Confirmed),
        Methods(&[Method::Post]),
        ShouldRetry("Stripe-Should-Retry"),
        Mismatch(400, &["error.type", "idempotency_error"]),
        Mismatch(404, &["error.type", "idempotency_error"]),
        from(
            "a response quoted in beam-community/stripity-stripe issue 564",
            Confirmed,
        ),
        InFlight(409, &["error.code", "idempotency_key_in_use"]),
        from(COMMENTARY, Reported),
        ReliableMarker("Idempotent-Replayed"),
        from(
            "402 is a decline by the handler; errors are stored once it runs",
            Reported,
        ),
        Vouched(402),
    ]],
);

const ADYEN: Told = (
    "adyen",
    &[&[
        from(
            "docs.adyen.com/development-resources/api-idempotency",
            Confirmed,
        ),
        Header("Idempotency-Key"),
        note("quoting", "bare"),
        Length(1, 64),
        Methods(&[Method::Post]),
        note("scope", "company account; not across regions"),
        Repeated(Repeat::Original),
        from("Adyen/adyen-java-api-library", Confirmed),
        ShouldRetry("transient-error"),
        from(COMMENTARY, Reported),
        Window(7 * DAY),
        InFlight(409, &["errorCode", "704"]),
        InFlight(422, &["errorCode", "704"]),
        from(SAFE, Assumed),
        note(
            "mismatch",
            "not documented; problems that speak of the key are recognised",
        ),
    ]],
);

const PAYPAL: Told = (
    "paypal",
    &[&[
        from("paypal/paypal-rest-api-specifications, 2024-02", Confirmed),
        Header("PayPal-Request-Id"),
        note("quoting", "bare"),
        Methods(&[Method::Post]),
        Length(1, 78),
        LengthOn("/v2/checkout/orders", 108),
        LengthOn("/v1/payments/payouts", 255),
        Window(3),
        WindowOn("/v2/checkout/orders", 6),
        WindowOn("/v2/payments/", 45 * DAY),
        WindowOn("/v1/payments/", 30 * DAY),
        WindowOn("/v1/billing/", 3 * DAY),
        WindowOn("/v1/catalogs/", 3 * DAY),
        WindowOn("/v3/vault/", 3),
        InFlight(409, &["details[0].issue", "PREVIOUS_REQUEST_IN_PROGRESS"]),
        InFlight(409, &["name", "PREVIOUS_REQUEST_IN_PROGRESS"]),
        from(
            "developer.paypal.com/reference/guidelines/idempotency",
            Confirmed,
        ),
        Repeated(Repeat::CurrentState),
        from(SAFE, Assumed),
        note("mismatch", "not documented"),
    ]],
);

const SQUARE: Told = (
    "square",
    &[&[
        from("square/connect-api-specification, 2025-08", Confirmed),
        Json("idempotency_key"),
        Methods(&[Method::Post, Method::Put]),
        Length(1, 45),
        LengthOn("/v2/invoices", 128),
        LengthOn("/v2/catalog", 128),
        LengthOn("/v2/orders", 192),
        from(
            "developer.squareup.com/docs/working-with-apis/idempotency",
            Confirmed,
        ),
        Repeated(Repeat::Original),
        from(
            "the code is Square's; the status is from write-ups",
            Reported,
        ),
        Mismatch(400, &["errors[0].code", "IDEMPOTENCY_KEY_REUSED"]),
        from(SAFE, Assumed),
        Window(DAY),
        note("in flight", "not documented"),
    ]],
);

const GOCARDLESS: Told = (
    "gocardless",
    &[&[
        from("gocardless/gocardless-pro-python", Confirmed),
        Header("Idempotency-Key"),
        note("quoting", "bare"),
        Methods(&[Method::Post]),
        Repeated(Repeat::ConflictWithId),
        Created(
            409,
            &["error.errors[0].reason", "idempotent_creation_conflict"],
            "error.errors[0].links.conflicting_resource_id",
        ),
        note("mismatch", "cannot be told from a repeat"),
        from(SAFE, Assumed),
        Length(1, 128),
        Window(DAY),
        note("in flight", "not documented"),
    ]],
);

const WISE: Told = (
    "wise",
    &[&[
        from(
            "a copy of docs.wise.com in ParapluOU/wise-rs, 2026-02",
            Confirmed,
        ),
        Header("X-idempotence-uuid"),
        note("quoting", "bare"),
        OnlyUuids,
        Methods(&[Method::Post]),
        note(
            "409 without mention of the key",
            "the profile exists already",
        ),
        from(SAFE, Assumed),
        Window(DAY),
        Repeated(Repeat::Unknown),
        note("in flight", "not documented"),
        note("mismatch", "not documented"),
    ]],
);

const MOLLIE: Told = (
    "mollie",
    &[&[
        from("mollie/openapi, 2026-08", Confirmed),
        Header("Idempotency-Key"),
        note("quoting", "bare"),
        Methods(&[Method::Post, Method::Patch, Method::Delete]),
        from(
            "a third party's comment that cites docs.mollie.com",
            Reported,
        ),
        Window(1),
        Repeated(Repeat::Original),
        Marker("Idempotent-Replayed"),
        Length(1, 100),
        note("mismatch", "400; recognised where it speaks of the key"),
        from(SAFE, Assumed),
        note("in flight", "409, where it speaks of the key"),
    ]],
);

const NONE: Told = ("none", &[&[from("your word", Confirmed), WithoutKeys]]);

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
        let told = ALL.into_iter().find(|(known, _)| *known == name);
        told.map(made)
    }

    /// All built-in profiles.
    pub fn all() -> impl Iterator<Item = Profile> {
        ALL.into_iter().map(made)
    }

    /// What nearly all servers take: the header `Idempotency-Key` with a bare UUID, and the
    /// statuses of the draft.
    #[must_use]
    pub fn default_profile() -> Profile {
        made(&DEFAULT)
    }

    /// The expired draft to the letter: the key is a quoted string.
    #[must_use]
    pub fn ietf_draft() -> Profile {
        made(&IETF)
    }

    /// Stripe, API v1.
    #[must_use]
    pub fn stripe() -> Profile {
        made(&STRIPE)
    }

    /// Adyen.
    #[must_use]
    pub fn adyen() -> Profile {
        made(&ADYEN)
    }

    /// PayPal. Windows and lengths differ by API; elsewhere the shortest known ones hold.
    #[must_use]
    pub fn paypal() -> Profile {
        made(&PAYPAL)
    }

    /// Square: the key travels in the body. Lengths differ by endpoint; elsewhere the shortest
    /// known one holds.
    #[must_use]
    pub fn square() -> Profile {
        made(&SQUARE)
    }

    /// GoCardless: a repeat is answered by a 409 that names what was created.
    #[must_use]
    pub fn gocardless() -> Profile {
        made(&GOCARDLESS)
    }

    /// Wise: balances, card orders and profiles. (A transfer carries its own id in the body; use a
    /// profile with `key_in_json("customerTransactionId")` for it.)
    #[must_use]
    pub fn wise() -> Profile {
        made(&WISE)
    }

    /// Mollie, which remembers a key for an hour only.
    #[must_use]
    pub fn mollie() -> Profile {
        made(&MOLLIE)
    }

    /// A server that does not know keys. Only what was surely not sent is sent again; whatever else
    /// goes wrong is for a person to look at.
    #[must_use]
    pub fn none() -> Profile {
        made(&NONE)
    }
}

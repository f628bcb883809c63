//! The built-in profiles. Every line states a fact under the source it was read in.
//!
//! They are data: what is said of a provider becomes its rules when samekey is compiled, so that a page
//! downloads no code for it; the builder is told the same where people ask for facts.

use super::Standing::{self, Assumed, Confirmed, Reported};
use super::{Carrier, Profile, Repeat, Route, Rules, Sign};
use crate::message::Method;
use std::borrow::Cow;
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
    On(&'static [Route]),
    OnlyUuids,
    Methods(&'static [Method]),
    /// In hours, as those below it.
    Window(u32),
    WindowHeader(&'static str),
    /// A replay's header is `true`.
    Marker(&'static str),
    ReliableMarker(&'static str),
    Repeated(Repeat),
    InFlight(&'static [Sign]),
    Mismatch(&'static [Sign]),
    /// Each with the member that holds the id.
    Created(&'static [(Sign, Cow<'static, str>)]),
    ShouldRetry(&'static str),
    Vouched(&'static [u16]),
    Unprocessed(&'static [u16]),
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

const fn sign(status: u16, path: &'static str, value: &'static str) -> Sign {
    Sign {
        status,
        member: Some((Cow::Borrowed(path), Cow::Borrowed(value))),
    }
}

const fn length_on(path: &'static str, longest: usize) -> Route {
    Route {
        path: Cow::Borrowed(path),
        longest_key: Some(longest),
        window: None,
    }
}

const fn window_on(path: &'static str, long: u32) -> Route {
    Route {
        path: Cow::Borrowed(path),
        longest_key: None,
        window: Some(hours(long)),
    }
}

const fn hours(hours: u32) -> Duration {
    Duration::from_secs(hours as u64 * 3600)
}

const TOLD: [Told; 10] = [
    DEFAULT, IETF, STRIPE, ADYEN, PAYPAL, SQUARE, GOCARDLESS, WISE, MOLLIE, NONE,
];

/// The rules in the same order, worked out when samekey is compiled.
static ALL: [Rules; 10] = {
    let mut all = [const { Rules::new(Cow::Borrowed("")) }; 10];
    let mut at = 0;
    while at < all.len() {
        put(&mut all[at], rules(&TOLD[at]));
        at += 1;
    }
    all
};

/// Assigns without dropping what was there, which holds nothing yet.
const fn put<T>(place: &mut T, value: T) {
    std::mem::forget(std::mem::replace(place, value));
}

const fn rules(&(name, parts): &Told) -> Rules {
    let mut rules = Rules::new(Cow::Borrowed(name));
    let mut assumed = false;
    let (mut part, mut at) = (0, 0);
    while part < parts.len() {
        if at == parts[part].len() {
            (part, at) = (part + 1, 0);
            continue;
        }
        match parts[part][at] {
            From(_, standing) => assumed = matches!(standing, Assumed),
            Window(_) => rules.window_is_assumed = assumed,
            _ => {}
        }
        parts[part][at].set(&mut rules);
        at += 1;
    }
    rules
}

impl Say {
    /// What the builder makes of it.
    const fn set(self, rules: &mut Rules) {
        match self {
            From(..) | Note(..) => {}
            Header(name) => put(&mut rules.carrier, Carrier::Header(Cow::Borrowed(name))),
            Json(name) => put(&mut rules.carrier, Carrier::JsonMember(Cow::Borrowed(name))),
            WithoutKeys => {
                put(&mut rules.carrier, Carrier::Nowhere);
                rules.repeat = Repeat::Unknown;
            }
            Quoted => rules.quoted = true,
            Length(shortest, longest) => {
                (rules.shortest_key, rules.longest_key) = (shortest as usize, longest as usize);
            }
            On(routes) => put(&mut rules.routes, Cow::Borrowed(routes)),
            OnlyUuids => rules.uuid_only = true,
            Methods(methods) => put(&mut rules.methods, Cow::Borrowed(methods)),
            Window(long) => rules.window = hours(long),
            WindowHeader(name) => put(&mut rules.window_header, Some(Cow::Borrowed(name))),
            Marker(header) => put(&mut rules.marker, Some(marker(header, false))),
            ReliableMarker(header) => put(&mut rules.marker, Some(marker(header, true))),
            Repeated(repeat) => rules.repeat = repeat,
            InFlight(signs) => put(&mut rules.in_flight, Cow::Borrowed(signs)),
            Mismatch(signs) => put(&mut rules.mismatch, Cow::Borrowed(signs)),
            Created(signs) => put(&mut rules.created, Cow::Borrowed(signs)),
            ShouldRetry(name) => put(&mut rules.should_retry, Some(Cow::Borrowed(name))),
            Vouched(statuses) => put(&mut rules.vouched, Cow::Borrowed(statuses)),
            Unprocessed(statuses) => put(&mut rules.unprocessed, Cow::Borrowed(statuses)),
        }
    }
}

const fn marker(header: &'static str, always: bool) -> super::Marker {
    super::Marker {
        header: Cow::Borrowed(header),
        value: Cow::Borrowed("true"),
        always,
    }
}

/// All of it told to the builder, which writes the facts down.
pub(super) fn said(name: &str) -> super::Builder {
    let told = TOLD.iter().find(|(known, _)| *known == name);
    let mut builder = Profile::builder(name.to_owned());
    for say in told
        .into_iter()
        .flat_map(|(_, parts)| *parts)
        .copied()
        .flatten()
    {
        builder = say.to(builder);
    }
    builder
}

impl Say {
    fn to(self, mut builder: super::Builder) -> super::Builder {
        match self {
            From(source, standing) => builder.from(source, standing),
            Note(axis, value) => builder.note(axis, value),
            Header(name) => builder.key_in_header(name),
            Json(member) => builder.key_in_json(member),
            WithoutKeys => builder.without_keys(),
            Quoted => builder.quoted(),
            Length(shortest, longest) => builder.key_length(shortest.into(), longest.into()),
            On(routes) => {
                for route in routes {
                    let path = route.path.clone();
                    builder = match (route.longest_key, route.window) {
                        (Some(longest), _) => builder.key_length_on(path, longest),
                        (_, window) => builder.window_on(path, window.unwrap_or_default()),
                    };
                }
                builder
            }
            OnlyUuids => builder.only_uuids(),
            Methods(methods) => builder.methods(methods),
            Window(long) => builder.window(hours(long)),
            WindowHeader(name) => builder.window_header(name),
            Marker(name) => builder.replay_marker(name, "true"),
            ReliableMarker(name) => builder.reliable_replay_marker(name, "true"),
            Repeated(repeat) => builder.repeat(repeat),
            InFlight(signs) => signs
                .iter()
                .cloned()
                .fold(builder, super::Builder::in_flight),
            Mismatch(signs) => signs
                .iter()
                .cloned()
                .fold(builder, super::Builder::mismatch),
            Created(signs) => signs.iter().cloned().fold(builder, |builder, (sign, id)| {
                builder.already_created(sign, id)
            }),
            ShouldRetry(name) => builder.should_retry(name),
            Vouched(of) => of
                .iter()
                .copied()
                .fold(builder, super::Builder::vouches_for),
            Unprocessed(of) => of
                .iter()
                .copied()
                .fold(builder, super::Builder::unprocessed),
        }
    }
}

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
    Marker("idempotent-replayed"),
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
        Unprocessed(&[429]),
        from("stripe/stripe-python", Confirmed),
        Methods(&[Method::Post]),
        ShouldRetry("stripe-should-retry"),
        Mismatch(&[
            sign(400, "error.type", "idempotency_error"),
            sign(404, "error.type", "idempotency_error"),
        ]),
        from(
            "a response quoted in beam-community/stripity-stripe issue 564",
            Confirmed,
        ),
        InFlight(&[sign(409, "error.code", "idempotency_key_in_use")]),
        from(COMMENTARY, Reported),
        ReliableMarker("idempotent-replayed"),
        from(
            "402 is a decline by the handler; errors are stored once it runs",
            Reported,
        ),
        Vouched(&[402]),
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
        InFlight(&[sign(409, "errorCode", "704"), sign(422, "errorCode", "704")]),
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
        Window(3),
        On(&[
            length_on("/v2/checkout/orders", 108),
            length_on("/v1/payments/payouts", 255),
            window_on("/v2/checkout/orders", 6),
            window_on("/v2/payments/", 45 * DAY),
            window_on("/v1/payments/", 30 * DAY),
            window_on("/v1/billing/", 3 * DAY),
            window_on("/v1/catalogs/", 3 * DAY),
            window_on("/v3/vault/", 3),
        ]),
        InFlight(&[
            sign(409, "details[0].issue", "PREVIOUS_REQUEST_IN_PROGRESS"),
            sign(409, "name", "PREVIOUS_REQUEST_IN_PROGRESS"),
        ]),
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
        On(&[
            length_on("/v2/invoices", 128),
            length_on("/v2/catalog", 128),
            length_on("/v2/orders", 192),
        ]),
        from(
            "developer.squareup.com/docs/working-with-apis/idempotency",
            Confirmed,
        ),
        Repeated(Repeat::Original),
        from(
            "the code is Square's; the status is from write-ups",
            Reported,
        ),
        Mismatch(&[sign(400, "errors[0].code", "IDEMPOTENCY_KEY_REUSED")]),
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
        Created(&[(
            sign(
                409,
                "error.errors[0].reason",
                "idempotent_creation_conflict",
            ),
            Cow::Borrowed("error.errors[0].links.conflicting_resource_id"),
        )]),
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
        Marker("idempotent-replayed"),
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
        Profile::all().find(|profile| profile.name() == name)
    }

    /// All built-in profiles.
    pub fn all() -> impl Iterator<Item = Profile> {
        ALL.iter().map(Profile)
    }

    /// What nearly all servers take: the header `Idempotency-Key` with a bare UUID, and the
    /// statuses of the draft.
    #[must_use]
    pub fn default_profile() -> Profile {
        Profile(&ALL[0])
    }

    /// The expired draft to the letter: the key is a quoted string.
    #[must_use]
    pub fn ietf_draft() -> Profile {
        Profile(&ALL[1])
    }

    /// Stripe, API v1.
    #[must_use]
    pub fn stripe() -> Profile {
        Profile(&ALL[2])
    }

    /// Adyen.
    #[must_use]
    pub fn adyen() -> Profile {
        Profile(&ALL[3])
    }

    /// PayPal. Windows and lengths differ by API; elsewhere the shortest known ones hold.
    #[must_use]
    pub fn paypal() -> Profile {
        Profile(&ALL[4])
    }

    /// Square: the key travels in the body. Lengths differ by endpoint; elsewhere the shortest
    /// known one holds.
    #[must_use]
    pub fn square() -> Profile {
        Profile(&ALL[5])
    }

    /// GoCardless: a repeat is answered by a 409 that names what was created.
    #[must_use]
    pub fn gocardless() -> Profile {
        Profile(&ALL[6])
    }

    /// Wise: balances, card orders and profiles. (A transfer carries its own id in the body; use a
    /// profile with `key_in_json("customerTransactionId")` for it.)
    #[must_use]
    pub fn wise() -> Profile {
        Profile(&ALL[7])
    }

    /// Mollie, which remembers a key for an hour only.
    #[must_use]
    pub fn mollie() -> Profile {
        Profile(&ALL[8])
    }

    /// A server that does not know keys. Only what was surely not sent is sent again; whatever else
    /// goes wrong is for a person to look at.
    #[must_use]
    pub fn none() -> Profile {
        Profile(&ALL[9])
    }
}

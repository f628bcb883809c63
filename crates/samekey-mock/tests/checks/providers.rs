//! The profiles' answers beside the raw samples that the client is tested with.

use crate::client::{Ask, Reply, key};
use crate::proof::quiet;
use samekey_mock::settings::Limit;
use samekey_mock::{Builder, LAST_ITEM, Profile};
use std::path::PathBuf;
use std::time::Duration;

/// How to make the mock give an answer.
#[derive(Clone, Copy, PartialEq)]
enum Scene {
    Created,
    Again,
    Declined,
    DeclinedAgain,
    InFlight,
    Mismatch,
    RateLimit,
    ServerError,
    ServerErrorAgain,
    Validation,
    Currency,
    KeyMissing,
    StoreDown,
    Accepted,
    BadGateway,
    Portal,
    OutOfStock,
}

use Scene::*;

/// Sample, and the scene in which the mock says the same.
const ROWS: &[(&str, Scene)] = &[
    ("default/accepted", Accepted),
    ("default/bad_gateway", BadGateway),
    ("default/captive_portal", Portal),
    ("default/conflict", OutOfStock),
    ("default/created", Created),
    ("default/in_flight", InFlight),
    ("default/key_missing", KeyMissing),
    ("default/mismatch", Mismatch),
    ("default/rate_limit", RateLimit),
    ("default/replayed", Again),
    ("default/replayed_refusal", DeclinedAgain),
    ("default/server_error", ServerError),
    ("default/store_down", StoreDown),
    ("default/validation", Validation),
    ("ietf_draft/created", Created),
    ("ietf_draft/in_flight", InFlight),
    ("ietf_draft/key_missing", KeyMissing),
    ("ietf_draft/mismatch", Mismatch),
    ("ietf_draft/validation", Validation),
    ("stripe/created", Created),
    ("stripe/decline", Declined),
    ("stripe/in_flight", InFlight),
    ("stripe/mismatch", Mismatch),
    ("stripe/rate_limit", RateLimit),
    ("stripe/replayed", Again),
    ("stripe/stored_decline", DeclinedAgain),
    ("stripe/stored_error", ServerErrorAgain),
    ("stripe/validation", Validation),
    ("adyen/created", Created),
    ("adyen/in_flight_409", InFlight),
    ("adyen/server_error", ServerError),
    ("adyen/store_down", StoreDown),
    ("adyen/validation", Validation),
    ("paypal/conflict", OutOfStock),
    ("paypal/created", Created),
    ("paypal/in_flight", InFlight),
    ("paypal/rate_limit", RateLimit),
    ("paypal/repeat", Again),
    ("paypal/validation", Currency),
    ("square/created", Created),
    ("square/mismatch", Mismatch),
    ("square/rate_limit", RateLimit),
    ("square/server_error", ServerError),
    ("square/validation", Validation),
    ("gocardless/already_created", Again),
    ("gocardless/already_created_without_id", InFlight),
    ("gocardless/created", Created),
    ("gocardless/rate_limit", RateLimit),
    ("gocardless/server_error", ServerError),
    ("gocardless/validation", Validation),
];

/// Samples that show other servers' habits, which the mock does not share.
const OTHERS: &[&str] = &[
    "default/abuse",
    "default/in_flight_by_code",
    "default/in_flight_without_hint",
    "default/mismatch_as_409",
    "stripe/in_flight_without_header",
    "stripe/told_to_retry",
    "stripe/told_to_stop",
    "stripe/unauthorized",
    "adyen/in_flight_422",
];

/// Headers that carry a signal: the mock sends each exactly where the sample does.
const SIGNALS: &[&str] = &[
    "stripe-should-retry",
    "transient-error",
    "idempotent-replayed",
];
/// Headers of the sample that must be there, whatever they hold.
const PRESENT: &[&str] = &[
    "retry-after",
    "ratelimit",
    "location",
    "idempotency-key-expires",
    "paypal-debug-id",
    "request-id",
    "link",
];
/// Where the providers put their codes.
const CODES: &[&str] = &[
    "/error/type",
    "/error/code",
    "/errorCode",
    "/errorType",
    "/name",
    "/details/0/issue",
    "/errors/0/category",
    "/errors/0/code",
    "/error/errors/0/reason",
    "/resultCode",
    "/object",
];

fn samples() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/providers"
    ))
}

fn read(name: &str) -> Reply {
    let text = std::fs::read_to_string(samples().join(format!("{name}.http")))
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let (head, body) = text.split_once("\n\n").unwrap_or((&text, ""));
    let body = body.trim_end();
    let wire = format!(
        "{}\r\ncontent-length: {}\r\n\r\n{body}",
        head.replace('\n', "\r\n"),
        body.len()
    );
    crate::client::parse(wire.as_bytes()).unwrap_or_else(|| panic!("{name} is no answer"))
}

fn with_key(ask: Ask, profile: Profile, n: u32, body: &str) -> Ask {
    match profile {
        Profile::Paypal => ask.header("PayPal-Request-Id", &key(n)).json(body),
        Profile::IetfDraft => ask.key(&format!("\"{}\"", key(n))).json(body),
        Profile::Square => {
            let rest = body.trim_start_matches('{');
            let comma = if rest == "}" { "" } else { "," };
            ask.json(&format!(
                "{{\"idempotency_key\":\"{}\"{comma}{rest}",
                key(n)
            ))
        }
        _ => ask.key(&key(n)).json(body),
    }
}

fn builder(profile: Profile, scene: Scene) -> Builder {
    let limit = Limit {
        quota: 1,
        window: Duration::from_secs(60),
    };
    quiet().profile(profile).settings(|s| {
        s.rate_limit = (scene == RateLimit).then_some(limit);
    })
}

async fn play(profile: Profile, scene: Scene) -> Reply {
    let mock = builder(profile, scene).start().await.unwrap();
    let path = match scene {
        Accepted => "/exports",
        OutOfStock => "/orders",
        _ => "/payments",
    };
    let post = || Ask::new(mock.address(), "POST", path);
    let ask = |body: &str| with_key(post(), profile, 1, body);
    let other = |body: &str| with_key(post(), profile, 2, body);
    let last = format!("{{\"item\":\"{LAST_ITEM}\"}}");
    let (fine, dear) = ("{\"amount\":5}", "{\"amount\":2000000}");
    match scene {
        Created | Accepted => ask(fine).send().await,
        Again => {
            ask(fine).send().await;
            ask(fine).send().await
        }
        Declined => ask(dear).send().await,
        DeclinedAgain => {
            ask(dear).send().await;
            ask(dear).send().await
        }
        InFlight => ask(fine).fault("in-flight").send().await,
        Mismatch => {
            ask(fine).send().await;
            ask("{\"amount\":6}").send().await
        }
        RateLimit => {
            ask(fine).send().await;
            other(fine).send().await
        }
        ServerError => ask(fine).fault("handler-error").send().await,
        ServerErrorAgain => {
            ask(fine).fault("handler-error").send().await;
            ask(fine).send().await
        }
        Validation => ask("{\"amount\":-1}").send().await,
        Currency => ask("{\"currency\":\"beads\"}").send().await,
        KeyMissing => post().json(fine).send().await,
        StoreDown => ask(fine).fault("store-down").send().await,
        BadGateway => ask(fine).fault("status:502").send().await,
        Portal => ask(fine).fault("portal").send().await,
        OutOfStock => {
            ask(&last).send().await;
            other(&last).send().await
        }
    }
}

fn essence(reply: &Reply) -> &str {
    reply
        .header("content-type")
        .unwrap_or("")
        .split(';')
        .next()
        .unwrap_or("")
}

fn compare(name: &str, sample: &Reply, said: &Reply) {
    assert_eq!(sample.status_line, said.status_line, "{name}");
    assert_eq!(essence(sample), essence(said), "{name}");
    for signal in SIGNALS {
        assert_eq!(
            sample.header(signal),
            said.header(signal),
            "{name}: {signal}"
        );
    }
    for header in PRESENT {
        let missing = sample.header(header).is_some() && said.header(header).is_none();
        assert!(!missing, "{name}: {header} is missing");
    }
    let (wanted, given) = (sample.json(), said.json());
    for code in CODES {
        if let Some(value) = wanted.pointer(code) {
            assert_eq!(Some(value), given.pointer(code), "{name}: {code}");
        }
    }
    let id = "/error/errors/0/links/conflicting_resource_id";
    assert_eq!(
        wanted.pointer(id).is_some(),
        given.pointer(id).is_some(),
        "{name}: {id}"
    );
    // The last part of a problem's type is what the client goes by; business problems are free.
    let kind = |v: &serde_json::Value| {
        v["type"]
            .as_str()
            .and_then(|t| t.rsplit('/').next()?.to_owned().into())
    };
    let fixed = [
        "in-flight",
        "key-missing",
        "key-reused",
        "store-down",
        "quota-exceeded",
    ];
    if let Some(wanted) = kind(&wanted).filter(|k: &String| fixed.contains(&k.as_str())) {
        assert_eq!(
            kind(&given).as_deref(),
            Some(wanted.as_str()),
            "{name}: type"
        );
    }
}

#[tokio::test]
async fn the_profiles_answer_like_the_samples() {
    for (name, scene) in ROWS {
        let profile: Profile = name.split('/').next().unwrap().parse().unwrap();
        compare(name, &read(name), &play(profile, *scene).await);
    }
}

#[test]
fn every_sample_of_a_profile_has_a_scene_or_a_reason() {
    for profile in Profile::ALL {
        let folder = samples().join(profile.name());
        for file in std::fs::read_dir(&folder).unwrap() {
            let file = file.unwrap().path();
            let name = format!(
                "{}/{}",
                profile.name(),
                file.file_stem().unwrap().to_str().unwrap()
            );
            let known = ROWS.iter().any(|(row, _)| *row == name) || OTHERS.contains(&name.as_str());
            assert!(known, "{name} has no scene");
        }
    }
}

#[tokio::test]
async fn a_comparison_notices_another_providers_answer() {
    let sample = read("stripe/in_flight");
    let foreign = play(Profile::Adyen, InFlight).await;
    let noticed = std::panic::catch_unwind(|| compare("twin", &sample, &foreign));
    assert!(noticed.is_err());
}

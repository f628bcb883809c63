//! Mistakes of the caller: each says what happened and what to do, and nothing is sent.

use super::support::{HOUR, URL, World, pay, run};
use samekey::journal::JournalErrorKind;
use samekey::profile::Profile;
use samekey::{Body, Client, Error, ErrorKind, MemoryJournal, OperationBuilder, Policy};
use serde_json::json;
use std::time::Duration;

/// Begins, which must fail, and checks what every such failure has in common.
#[track_caller]
fn refused(world: &World, operation: OperationBuilder, says: &[&str]) -> Error {
    let before = world.entries().len();
    let error = run(operation.begin()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
    assert!(
        error.nothing_was_sent() && !error.is_unresolved(),
        "{error}"
    );
    assert_eq!(error.attempts(), 0);
    assert_eq!(
        (world.sent(), world.entries().len()),
        (0, before),
        "{error}"
    );
    for words in says {
        assert!(error.to_string().contains(words), "{words:?} in {error}");
    }
    error
}

#[test]
fn urls_that_cannot_be_sent_to_are_refused() {
    let world = World::new();
    let client = world.client();
    for bad in [
        "",
        "/payments",
        "payments",
        "ftp://api.example.com/",
        "https://",
        "https://a b/",
        "https://api.example.com:99999/",
        "https://api.example.com/a\r\nx: y",
    ] {
        refused(&world, client.operation("a").post(bad), &[]);
    }
    let error = refused(
        &world,
        client
            .operation("a")
            .post("https://me:hunter2@api.example.com/"),
        &["credentials"],
    );
    assert!(!error.to_string().contains("hunter2"));
    // A control.
    run(client.operation("a").post(URL).begin()).unwrap();
}

#[test]
fn get_head_and_no_request_at_all_are_refused_with_the_reason() {
    let world = World::new();
    let client = world.client();
    for method in ["GET", "head"] {
        refused(
            &world,
            client.operation("a").method(method, URL),
            &["needs no key", "any HTTP client"],
        );
    }
    refused(
        &world,
        client.operation("a").method("BREW", URL),
        &["POST, PATCH, PUT, DELETE"],
    );
    refused(&world, client.operation("a"), &["method and URL"]);
    run(client.operation("a").method("patch", URL).begin()).unwrap();
}

#[test]
fn e48_a_second_line_for_the_key_is_refused() {
    let world = World::new();
    let client = world.builder().keep_header("Idempotency-Key").build();
    let client = client.unwrap();
    for name in ["idempotency-key", "Idempotency-Key", "IDEMPOTENCY-KEY"] {
        refused(
            &world,
            pay(&client, "a").header(name, "mine"),
            &["samekey's to set", "adopt"],
        );
    }
    let paypal = world
        .builder()
        .profile(Profile::paypal())
        .keep_header("paypal-request-id")
        .build()
        .unwrap();
    refused(
        &world,
        pay(&paypal, "a").header("PayPal-Request-Id", "mine"),
        &["samekey's to set"],
    );
}

#[test]
fn e43_cr_and_lf_in_a_header_are_refused() {
    let world = World::new();
    let client = world.client();
    for (name, value) in [
        ("x-request-id", "a\r\nAuthorization: stolen"),
        ("x-request-id", "a\nb"),
        ("x-request-id", "a\0b"),
        ("x-request\r\n-id", "a"),
        ("", "a"),
    ] {
        refused(&world, pay(&client, "a").header(name, value), &[]);
    }
    refused(
        &world,
        pay(&client, "a").header("x-request-id", "a\rb"),
        &["control character", "remove it"],
    );
    run(pay(&client, "a").header("x-request-id", "7").begin()).unwrap();
}

#[test]
fn headers_that_are_credentials_framing_or_unknown_are_refused() {
    let world = World::new();
    let client = world.client();
    for name in ["Authorization", "Cookie", "X-Api-Key", "x-csrf-token"] {
        refused(
            &world,
            pay(&client, "a").header(name, "hunter2"),
            &["credential", "`credentials`"],
        );
    }
    for name in ["Host", "Content-Length", "Transfer-Encoding", "Expect"] {
        refused(&world, pay(&client, "a").header(name, "1"), &["remove it"]);
    }
    refused(
        &world,
        pay(&client, "a").header("x-shop", "1"),
        &["headers that the client keeps"],
    );
    let keeps = world.builder().keep_header("X-Shop").build().unwrap();
    run(pay(&keeps, "a").header("x-shop", "1").begin()).unwrap();
    let error = world.builder().keep_header("authorization").build();
    assert!(error.unwrap_err().to_string().contains("`credentials`"));
}

#[test]
fn intents_are_one_to_512_bytes_without_control_characters() {
    let world = World::new();
    let client = world.client();
    let long = "x".repeat(513);
    for bad in ["", long.as_str(), "a\nb", "a\0"] {
        refused(&world, pay(&client, bad), &["1 to 512"]);
    }
    run(pay(&client, &long[..512]).begin()).unwrap();
}

#[test]
fn i21_a_body_over_the_cap_is_refused_with_its_size() {
    let world = World::new();
    let client = world.client();
    let cap = 16 * 1024 * 1024;
    let body = |bytes: usize| {
        let operation = client.operation(&format!("upload/{bytes}")).post(URL);
        operation.body(vec![7; bytes], "application/octet-stream")
    };
    refused(&world, body(cap + 1), &["16777217", "link"]);
    run(body(1024).begin()).unwrap();
}

#[test]
fn every_mistake_of_a_request_is_named_at_once() {
    let world = World::new();
    let client = world.client();
    let worst = client
        .operation("")
        .method("GET", "nowhere")
        .header("authorization", "x")
        .header("a b", "c")
        .adopt_key("a b");
    refused(
        &world,
        worst,
        &[
            "intent",
            "GET",
            "credential",
            "header name",
            "visible ASCII",
        ],
    );
}

#[test]
fn a_key_in_the_body_needs_a_json_object_without_one() {
    let world = World::new();
    let client = world.builder().profile(Profile::square()).build().unwrap();
    let raw = client.operation("a").post(URL).body("x=1", "text/plain");
    refused(&world, raw, &["JSON object"]);
    let twice = client
        .operation("a")
        .post(URL)
        .json(&json!({"idempotency_key": "mine"}));
    refused(&world, twice, &["already", "adopt"]);
}

#[test]
fn a_profile_that_the_client_does_not_know_is_refused_before_it_cannot_be_resumed() {
    let world = World::new();
    let client = world.client();
    let own = Profile::builder("acme").build().unwrap();
    refused(
        &world,
        pay(&client, "a").profile(own.clone()),
        &["acme", "`profile`"],
    );
    let knows = world.builder().profile(own.clone()).build().unwrap();
    run(async { pay(&knows, "a").profile(own).begin().await?.send().await }).unwrap();
}

fn unbuildable(policy: Policy) -> String {
    let error = World::new().builder().policy(policy).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfiguration);
    assert!(error.nothing_was_sent());
    error.to_string()
}

#[test]
fn a_policy_that_makes_no_sense_is_refused_with_what_to_do() {
    assert!(unbuildable(Policy::new().max_attempts(0)).contains("use 1"));
    let longer = unbuildable(Policy::new().give_up_after(24 * HOUR));
    assert!(longer.contains("window"), "{longer}");
    for absurd in [Duration::MAX, Duration::from_secs(u64::MAX)] {
        let text = unbuildable(
            Policy::new()
                .give_up_after(absurd)
                .attempt_timeout(absurd)
                .cap(absurd)
                .defer_above(absurd),
        );
        for name in ["cap", "attempt_timeout", "give_up_after", "defer_above"] {
            assert!(
                text.contains(&format!("{name} is longer")),
                "{name}: {text}"
            );
        }
    }
    assert!(unbuildable(Policy::new().attempt_timeout(Duration::ZERO)).contains("zero"));
    // Shorter windows of any profile given count.
    let world = World::new();
    let policy = || Policy::new().give_up_after(2 * HOUR);
    world.builder().policy(policy()).build().unwrap();
    let mollie = world.builder().policy(policy()).profile(Profile::mollie());
    assert!(mollie.build().is_err());
}

#[test]
fn every_mistake_of_a_client_is_named_at_once() {
    let world = World::new();
    let error = Client::with_parts("no spaces please", world.parts())
        .principal("")
        .policy(Policy::new().max_attempts(0).factor(0))
        .allow_origin("nowhere")
        .keep_header("cookie")
        .retention(Duration::ZERO, Duration::ZERO)
        .body(Body::Sealed)
        .build()
        .unwrap_err()
        .to_string();
    for word in [
        "no spaces please",
        "max_attempts",
        "factor",
        "nowhere",
        "cookie",
        "keep them longer",
        "seal_with",
    ] {
        assert!(error.contains(word), "{word}: {error}");
    }
}

#[test]
fn t17_a_journal_in_trouble_says_so_and_nothing_is_sent() {
    for kind in [
        JournalErrorKind::Full,
        JournalErrorKind::Poisoned,
        JournalErrorKind::ReadOnly,
        JournalErrorKind::TooNew,
    ] {
        let world = World::new();
        let journal = super::support::Hooked::new(MemoryJournal::new(), move |_| Err(kind));
        let client = Client::with_parts("shop", world.parts_on(journal));
        let client = client.build().unwrap();
        let error = run(client.post("a", URL, &json!({}))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Journal(kind));
        assert!(error.nothing_was_sent());
        assert!(std::error::Error::source(&error).is_some());
        assert_eq!(world.sent(), 0);
    }
}

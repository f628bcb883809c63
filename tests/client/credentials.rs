//! Credentials: asked for at each attempt, kept nowhere, sent to nobody else.

use super::support::{URL, World, answer, headers, lost, pay, run};
use samekey::{Asked, CredentialsError, ErrorKind, Headers, Phase, Policy};
use serde_json::json;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

#[test]
fn credentials_are_fresh_at_every_attempt() {
    let world = World::new();
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let client = world
        .builder()
        .principal("anna")
        .credentials(move |asked: Asked| {
            assert_eq!(asked.origin.to_string(), "https://api.example.com");
            assert_eq!(asked.scope.as_str(), "shop/anna");
            assert!(!asked.refresh);
            let n = count.fetch_add(1, Ordering::Relaxed);
            async move { Ok(Headers::bearer(&format!("token-{n}"))?) }
        })
        .build()
        .unwrap();
    world.server.fail(lost());
    world.server.answer(answer(503, &[], ""));
    run(client.post("a", URL, &json!({}))).unwrap();
    let tokens: Vec<_> = world
        .requests()
        .iter()
        .map(|seen| seen.header("authorization").unwrap().to_owned())
        .collect();
    assert_eq!(
        tokens,
        ["Bearer token-0", "Bearer token-1", "Bearer token-2"]
    );
}

#[test]
fn a18_a_401_asks_once_for_fresh_ones_and_then_believes_it() {
    let world = World::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&seen);
    let client = world
        .builder()
        .credentials(move |asked: Asked| {
            note.lock().unwrap().push(asked.refresh);
            async move { Ok(Headers::bearer("t")?) }
        })
        .build()
        .unwrap();
    world.server.answer(answer(401, &[], ""));
    assert!(run(client.post("a", URL, &json!({}))).unwrap().is_success());
    assert_eq!(*seen.lock().unwrap(), [false, true]);
    seen.lock().unwrap().clear();
    world.server.answer(answer(401, &[], ""));
    world.server.answer(answer(401, &[], ""));
    let outcome = run(client.post("b", URL, &json!({}))).unwrap();
    assert_eq!((outcome.phase(), outcome.status()), (Phase::Rejected, 401));
    assert_eq!(*seen.lock().unwrap(), [false, true]);
}

#[test]
fn a18_twin_fixed_headers_cannot_be_refreshed_so_nobody_is_asked_twice() {
    let world = World::new();
    let client = world
        .builder()
        .credentials(Headers::bearer("t").unwrap())
        .build()
        .unwrap();
    world.server.answer(answer(401, &[], ""));
    let outcome = run(client.post("a", URL, &json!({}))).unwrap();
    assert_eq!((outcome.status(), world.sent()), (401, 1));
}

#[test]
fn a_callback_that_fails_sends_nothing_in_that_attempt() {
    let world = World::new();
    let calls = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&calls);
    let client = world
        .builder()
        .credentials(move |_: Asked| {
            let first = count.fetch_add(1, Ordering::Relaxed) == 0;
            async move {
                if first {
                    return Err::<Headers, CredentialsError>("the vault is closed".into());
                }
                Ok(Headers::bearer("t")?)
            }
        })
        .build()
        .unwrap();
    let outcome = run(client.post("a", URL, &json!({}))).unwrap();
    assert!(outcome.is_success());
    assert_eq!((world.sent(), outcome.attempts()), (1, 2));
}

#[test]
fn a_callback_that_always_fails_ends_as_not_sent_and_says_why() {
    let world = World::new();
    let client = world
        .builder()
        .policy(Policy::new().max_attempts(2))
        .credentials(|_: Asked| async {
            Err::<Headers, CredentialsError>("the vault is closed".into())
        })
        .build()
        .unwrap();
    let operation = run(pay(&client, "a").begin()).unwrap();
    let error = run(operation.send()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotApplied);
    assert!(error.nothing_was_sent());
    assert!(error.to_string().contains("the vault is closed"), "{error}");
    assert_eq!(world.sent(), 0);
    assert_eq!(run(operation.cancel()).unwrap(), Phase::Abandoned);
}

#[test]
fn e48_a_callback_cannot_add_a_second_key_or_replace_what_is_frozen() {
    for name in ["Idempotency-Key", "content-type", "content-length", "host"] {
        let world = World::new();
        let client = world
            .builder()
            .credentials(headers(&[("authorization", "x"), (name, "mine")]))
            .build()
            .unwrap();
        let error = run(client.post("a", URL, &json!({}))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotApplied, "{name}: {error}");
        let lower = name.to_ascii_lowercase();
        assert!(error.to_string().contains(&lower), "{error}");
        assert_eq!(world.sent(), 0);
    }
}

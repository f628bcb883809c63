//! A deliberate repeat: a key of its own, and one only, however often it is asked for.

use super::support::{URL, World, answer, lost, pay, run};
use samekey::{ErrorKind, Policy, Profile, Reason};
use serde_json::json;

#[test]
fn a_repeat_asked_twice_across_a_crash_has_one_new_key() {
    let world = World::new();
    let client = world.client();
    let first = run(pay(&client, "coffee").begin()).unwrap();
    run(first.send()).unwrap();
    let repeat = run(client.repeat(first.reference()).begin()).unwrap();
    let (old, new) = (first.key(), repeat.key());
    assert_ne!(old, new);
    let reference = first.reference();
    // The program dies before it sends, and asks again.
    drop((first, repeat, client));
    let client = world.client();
    let again = run(client.repeat(reference).begin()).unwrap();
    assert_eq!(again.key(), new);
    run(again.send()).unwrap();
    let after = run(client.repeat(reference).begin()).unwrap();
    assert_eq!(after.key(), new, "also when it has ended");
    assert_eq!(run(after.send()).unwrap().status(), 201);
    assert_eq!((world.sent(), world.keys().len()), (2, 2));
    // The twin: a repeat of the repeat is a third action.
    let third = run(client.repeat(again.reference()).begin()).unwrap();
    assert_ne!(third.key(), new);
    assert_eq!(third.entry().frozen.generation, 2);
}

#[test]
fn a_repeat_sends_the_same_request_with_another_key() {
    let world = World::new();
    let client = world.client();
    let first = run(pay(&client, "a").header("x-request-id", "r").begin()).unwrap();
    run(first.send()).unwrap();
    run(async { client.repeat(first.reference()).begin().await?.send().await }).unwrap();
    let requests = world.requests();
    assert_eq!(requests[0].body, requests[1].body);
    assert_eq!(requests[0].url, requests[1].url);
    assert_eq!(requests[1].header("x-request-id"), Some("r"));
    assert_eq!(world.keys().len(), 2);
}

#[test]
fn a_repeat_keeps_the_profile_that_puts_the_key_into_the_body() {
    let world = World::new();
    let client = world.client();
    let first = pay(&client, "a").profile(Profile::square());
    let first = run(first.begin()).unwrap();
    run(first.send()).unwrap();
    let second = run(client.repeat(first.reference()).begin()).unwrap();
    run(second.send()).unwrap();
    let body = String::from_utf8(world.requests()[1].body.clone()).unwrap();
    let expected = format!(
        r#"{{"idempotency_key":"{}","amount":100}}"#,
        second.key().as_str()
    );
    assert_eq!(body, expected);
}

#[test]
fn a_repeat_of_an_unresolved_operation_needs_the_word_that_says_so() {
    let world = World::new();
    let policy = Policy::new().max_attempts(1);
    let client = world.builder().policy(policy).build().unwrap();
    world.server.fail(lost());
    let first = run(pay(&client, "a").begin()).unwrap();
    let error = run(first.send()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Attention(Reason::Exhausted));
    let error = run(client.repeat(first.reference()).begin()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PreviousUnresolved);
    assert_eq!(error.reference(), Some(first.reference()));
    assert!(error.is_unresolved());
    assert!(error.to_string().contains("even if unresolved"), "{error}");
    assert_eq!(world.entries().len(), 1);
    let anyway = client.repeat(first.reference()).even_if_unresolved();
    let anyway = run(anyway.begin()).unwrap();
    assert_ne!(anyway.key(), first.key());
    run(anyway.send()).unwrap();
    // After it was settled no special word is needed.
    run(first.settle(false, "the bank says no")).unwrap();
    let joined = run(client.repeat(first.reference()).begin()).unwrap();
    assert_eq!(joined.key(), anyway.key());
}

#[test]
fn e24_a_repeat_with_another_request_than_the_first_time_is_refused() {
    let world = World::new();
    let client = world.client();
    let first = run(pay(&client, "a").begin()).unwrap();
    run(first.send()).unwrap();
    let other = |amount: u32| {
        client
            .repeat(first.reference())
            .post(URL)
            .json(&json!({"amount": amount}))
    };
    let repeat = run(other(7).begin()).unwrap();
    assert_eq!(&*repeat.intent(), "a");
    let error = run(other(8).begin()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FingerprintMismatch);
    assert_eq!(error.reference(), Some(repeat.reference()));
}

#[test]
fn an_intent_whose_entry_was_forgotten_stays_taken() {
    let world = World::new();
    let client = world.client();
    world.server.answer(answer(201, &[], ""));
    let operation = run(pay(&client, "a").begin()).unwrap();
    run(operation.send()).unwrap();
    run(operation.forget()).unwrap();
    let error = run(pay(&client, "a").begin()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tombstone);
    assert_eq!(error.reference(), Some(operation.reference()));
    assert!(!error.nothing_was_sent(), "it was, long ago");
    assert!(error.to_string().contains("another intent"), "{error}");
    assert_eq!(world.sent(), 1);
}

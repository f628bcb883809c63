//! Send drives to an end: success, refusal, or an honest "not known".

use super::support::{URL, World, answer, headers, lost, pay, run, unreachable};
use samekey::{
    Content, ErrorKind, Failure, FailureKind, Phase, Policy, Profile, Provenance, Reason, Response,
    Sent, Update,
};
use serde_json::json;
use std::time::Duration;

#[test]
fn one_call_posts_sorted_json_under_a_key() {
    let world = World::new();
    world.server.answer(answer(
        201,
        &[("content-type", "application/json"), ("x-trace", "7")],
        r#"{"id":"p1"}"#,
    ));
    let client = world.client();
    let outcome = run(client.post("invoice/42", URL, &json!({"b": 1, "a": 2}))).unwrap();
    assert!(outcome.is_success() && outcome.is_recorded());
    assert_eq!((outcome.status(), outcome.attempts()), (201, 1));
    assert_eq!(outcome.provenance(), Provenance::Fresh);
    assert_eq!(outcome.text(), Some(r#"{"id":"p1"}"#));
    assert_eq!(outcome.json::<serde_json::Value>().unwrap()["id"], "p1");
    assert_eq!(outcome.headers().get("x-trace"), Some("7"));
    assert_eq!(outcome.answered_at(), super::support::START);
    let seen = &world.requests()[0];
    assert_eq!((seen.method.as_str(), seen.url.as_str()), ("POST", URL));
    assert_eq!(seen.body, br#"{"a":2,"b":1}"#);
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.header("idempotency-key"), Some(outcome.key().as_str()));
}

#[test]
fn a_refusal_is_an_outcome_and_is_not_asked_twice() {
    let world = World::new();
    world.server.answer(answer(402, &[], "no money"));
    let client = world.client();
    let operation = run(pay(&client, "a").begin()).unwrap();
    let outcome = run(operation.send()).unwrap();
    assert!(!outcome.is_success());
    assert_eq!((outcome.status(), outcome.phase()), (402, Phase::Rejected));
    assert_eq!(outcome.text(), Some("no money"));
    let again = run(operation.send()).unwrap();
    assert_eq!((again.status(), again.text()), (402, Some("no money")));
    assert_eq!(again.provenance(), Provenance::Recovered);
    assert_eq!(world.sent(), 1);
    // It has ended, and it was sent: whoever stops it now is told both.
    let error = run(operation.cancel()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ended(Phase::Rejected));
    assert!(!error.nothing_was_sent() && !error.is_unresolved());
}

#[test]
fn i8_attempts_that_may_have_been_applied_end_as_not_known_and_never_as_failure() {
    let world = World::new();
    let client = world.client();
    (0..6).for_each(|_| world.server.fail(lost()));
    let operation = run(pay(&client, "a").begin()).unwrap();
    let error = run(operation.send()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Attention(Reason::Exhausted));
    assert!(error.is_unresolved() && !error.nothing_was_sent());
    assert_eq!(error.attempts(), 6);
    assert_eq!(error.reference(), Some(operation.reference()));
    assert!(
        error.to_string().contains("the connection broke"),
        "{error}"
    );
    assert_eq!(run(client.unfinished()).unwrap().len(), 1);
    // Resuming goes on under the same key.
    assert!(run(operation.resume()).unwrap().is_success());
    assert_eq!((world.sent(), world.keys().len()), (7, 1));
}

#[test]
fn t01_twin_attempts_that_surely_never_left_are_said_not_to_have() {
    let world = World::new();
    let client = world.client();
    (0..6).for_each(|_| world.server.fail(unreachable()));
    let operation = run(pay(&client, "a").begin()).unwrap();
    let error = run(operation.send()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotApplied);
    assert!(error.nothing_was_sent() && !error.is_unresolved());
    assert!(error.to_string().contains("resume"), "what to do: {error}");
    assert!(run(operation.send()).unwrap().is_success());
    assert_eq!(world.keys().len(), 1);
}

#[test]
fn a_later_failure_to_connect_does_not_unsay_that_an_attempt_was_answered() {
    let world = World::new();
    let client = world
        .builder()
        .policy(Policy::new().max_attempts(2))
        .build()
        .unwrap();
    world.server.answer(answer(425, &[], ""));
    world.server.fail(unreachable());
    let error = run(client.post("a", URL, &json!({}))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotApplied);
    assert!(!error.nothing_was_sent(), "the first was there: {error}");
    let reference = error.reference().unwrap();
    let found = run(client.get(reference)).unwrap();
    assert_eq!(found.entry().progress.recent.len(), 2);
}

#[test]
fn t02_a_refused_certificate_is_an_error_that_says_so_and_not_a_persons_word() {
    let world = World::new();
    let client = world.client();
    let tls = "the certificate is not trusted";
    world
        .server
        .fail(Failure::new(FailureKind::Tls, Sent::No, tls));
    let operation = run(pay(&client, "a").begin()).unwrap();
    for _ in 0..2 {
        let error = run(operation.send()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Ended(Phase::Rejected));
        assert!(error.to_string().contains(tls), "{error}");
        assert!(error.nothing_was_sent() && !error.is_unresolved());
    }
    assert!(operation.outcome().is_err());
    assert_eq!(world.sent(), 1, "no silent loop");
    assert!(
        run(async {
            client
                .repeat(operation.reference())
                .begin()
                .await?
                .send()
                .await
        })
        .is_ok()
    );
}

#[test]
fn provenance_tells_fresh_replayed_recovered_and_by_hand() {
    let world = World::new();
    let stripe = world.builder().profile(Profile::stripe()).build().unwrap();
    world.server.fail(lost());
    let marker = &[("idempotent-replayed", "true")];
    world.server.answer(answer(200, marker, "first"));
    let outcome = run(stripe.post("a", URL, &json!({}))).unwrap();
    assert_eq!(outcome.provenance(), Provenance::Replayed);
    assert_eq!(outcome.attempts(), 2);
    drop(stripe);
    let client = world.client();
    let again = run(client.post("a", URL, &json!({}))).unwrap();
    assert_eq!(again.provenance(), Provenance::Recovered);
    assert_eq!((again.text(), again.attempts()), (Some("first"), 2));
    assert_eq!(again.answered_at(), outcome.answered_at());
    let operation = run(pay(&client, "b").begin()).unwrap();
    run(operation.settle(true, "the bank called")).unwrap();
    let by_hand = run(operation.send()).unwrap();
    assert_eq!(by_hand.provenance(), Provenance::ByHand);
    assert_eq!(by_hand.note(), Some("the bank called"));
    assert_eq!((by_hand.status(), by_hand.is_success()), (0, true));
}

#[test]
fn updates_tell_every_step_in_order_and_end_with_the_handle() {
    let world = World::new();
    let client = world.client();
    world.server.fail(lost());
    world
        .server
        .answer(answer(503, &[("retry-after", "7")], ""));
    let operation = run(pay(&client, "a").begin()).unwrap();
    let mut updates = operation.updates();
    run(operation.send()).unwrap();
    drop(operation);
    let mut told = Vec::new();
    while let Some(update) = run(updates.next()) {
        told.push(update);
    }
    let kinds: Vec<&str> = told
        .iter()
        .map(|update| match update {
            Update::Sending { .. } => "sending",
            Update::Waiting { .. } => "waiting",
            Update::Settled(_) => "settled",
            _ => "else",
        })
        .collect();
    let expected = [
        "sending", "waiting", "sending", "waiting", "sending", "settled",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(told[4], Update::Sending { attempt: 3 });
    assert_eq!(told[5], Update::Settled(Phase::Succeeded));
    assert!(
        matches!(&told[1], Update::Waiting { attempt: 1, reason, .. }
        if &**reason == "the connection broke")
    );
}

#[test]
fn i14_a_retry_comes_no_sooner_than_the_server_asked() {
    let world = World::new();
    let client = world.client();
    world
        .server
        .answer(answer(503, &[("retry-after", "17")], ""));
    let outcome = run(client.post("a", URL, &json!({}))).unwrap();
    let waited = outcome.answered_at().since(super::support::START);
    assert!(waited >= Duration::from_secs(17), "{waited:?}");
    assert!(waited < Duration::from_secs(40), "{waited:?}");
    // The twin: without a hint it does not wait for so long.
    world.server.answer(answer(503, &[], ""));
    let before = outcome.answered_at();
    let outcome = run(client.post("b", URL, &json!({}))).unwrap();
    assert!(outcome.answered_at().since(before) < Duration::from_secs(2));
}

#[test]
fn i3_every_attempt_has_the_same_method_url_headers_and_body() {
    let world = World::new();
    let client = world.client();
    world.server.fail(lost());
    world.server.answer(answer(500, &[], ""));
    world
        .server
        .answer(answer(409, &[("retry-after", "1")], ""));
    run(async {
        let operation = pay(&client, "a").header("x-request-id", "r-1");
        operation.begin().await?.send().await
    })
    .unwrap();
    let requests = world.requests();
    assert_eq!(requests.len(), 4);
    assert!(requests.iter().all(|seen| *seen == requests[0]));
}

#[test]
fn e17_a_401_after_a_lost_answer_is_not_a_refusal_of_the_action() {
    let world = World::new();
    let client = world.client();
    world.server.fail(lost());
    world.server.answer(answer(401, &[], ""));
    let error = run(client.post("a", URL, &json!({}))).unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::Attention(Reason::RefusedAfterDoubt)
    );
    assert!(error.is_unresolved());
    // The twin: without the lost answer it is the server's final word.
    world.server.answer(answer(401, &[], ""));
    let operation = run(pay(&client, "b").begin()).unwrap();
    assert_eq!(run(operation.send()).unwrap().phase(), Phase::Rejected);
    assert_eq!(
        operation.entry().progress.recent.len(),
        1,
        "one attempt, noted once"
    );
}

#[test]
fn a25_a_key_that_the_server_knows_with_another_body_stops_for_ever() {
    let world = World::new();
    let client = world.client();
    let problem = r#"{"type":"about:blank","title":"Idempotency-Key is already used"}"#;
    let json = &[("content-type", "application/problem+json")];
    world.server.answer(answer(422, json, problem));
    let operation = run(pay(&client, "a").begin()).unwrap();
    let error = run(operation.send()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Attention(Reason::KeyMismatch));
    let error = run(operation.resume()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Attention(Reason::KeyMismatch));
    assert!(error.is_unresolved());
    assert_eq!(world.sent(), 1);
}

#[test]
fn a06_a_success_whose_body_is_lost_is_collected_or_told_as_a_success_without_body() {
    let cut = || Response {
        status: 201,
        headers: headers(&[]),
        content: Content::Lost,
    };
    let world = World::new();
    let client = world.client();
    world.server.answer(cut());
    world.server.answer(answer(201, &[], "whole"));
    let outcome = run(client.post("a", URL, &json!({}))).unwrap();
    assert_eq!(outcome.text(), Some("whole"));
    (0..6).for_each(|_| world.server.answer(cut()));
    let outcome = run(client.post("b", URL, &json!({}))).unwrap();
    assert!(outcome.is_success());
    assert_eq!(*outcome.content(), Content::Lost);
    // And it stays so after a restart.
    drop(client);
    let again = run(world.client().post("b", URL, &json!({}))).unwrap();
    assert!(again.is_success());
    assert_eq!(*again.content(), Content::Lost);
}

#[test]
fn e38_an_answer_too_big_to_keep_is_handed_out_and_succeeds() {
    let world = World::new();
    let client = world.client();
    let big = "x".repeat(65 * 1024);
    world.server.answer(answer(201, &[], &big));
    let operation = run(pay(&client, "a").begin()).unwrap();
    assert_eq!(run(operation.send()).unwrap().text(), Some(big.as_str()));
    let again = run(operation.send()).unwrap();
    assert!(again.is_success());
    assert_eq!(*again.content(), Content::NotKept);
    assert_eq!(world.sent(), 1);
}

#[test]
fn put_and_delete_carry_a_key_only_on_request() {
    let world = World::new();
    let client = world.client();
    run(async {
        client.operation("a").put(URL).begin().await?.send().await?;
        client
            .operation("b")
            .delete(URL)
            .begin()
            .await?
            .send()
            .await?;
        client
            .operation("c")
            .put(URL)
            .with_key()
            .begin()
            .await?
            .send()
            .await?;
        client
            .operation("d")
            .delete(URL)
            .with_key()
            .begin()
            .await?
            .send()
            .await
    })
    .unwrap();
    let keyed: Vec<bool> = world
        .requests()
        .iter()
        .map(|seen| seen.header("idempotency-key").is_some())
        .collect();
    assert_eq!(keyed, [false, false, true, true]);
}

#[test]
fn e49_e50_squares_key_stands_in_the_body_once_and_stays_the_same() {
    let world = World::new();
    let square = || world.builder().profile(Profile::square()).build().unwrap();
    let client = square();
    world.server.fail(lost());
    let policy = Policy::new().max_attempts(1);
    let once = world.builder().profile(Profile::square()).policy(policy);
    let once = once.build().unwrap();
    let operation = run(pay(&once, "a").begin()).unwrap();
    let key = operation.key();
    assert!(run(operation.send()).unwrap_err().is_unresolved());
    drop((operation, once));
    // Joined by a caller whose body has no key in it: the same action.
    let operation = run(pay(&client, "a").begin()).unwrap();
    assert_eq!(operation.key(), key);
    run(operation.send()).unwrap();
    let requests = world.requests();
    assert_eq!(requests.len(), 2);
    let body = format!(r#"{{"idempotency_key":"{}","amount":100}}"#, key.as_str());
    for seen in requests {
        assert_eq!(String::from_utf8_lossy(&seen.body), body);
        assert_eq!(seen.header("idempotency-key"), None);
    }
}

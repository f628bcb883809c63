//! A long wait is not sat out: it is parked, durably, and taken up again when it is due.

use super::support::{HOUR, START, URL, World, answer, lost, pay, run};
use samekey::{Body, ErrorKind, Operation, Phase, Update};
use serde_json::json;
use std::time::Duration;

/// Lets background tasks run until the operation has ended.
async fn settled(operation: &Operation) -> Phase {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
        let phase = operation.refresh().await.unwrap();
        if phase.is_settled() {
            return phase;
        }
    }
    operation.phase()
}

#[test]
fn e09_an_hour_is_parked_promptly_and_a_restart_resumes_with_the_same_key() {
    let world = World::new();
    let client = world.client();
    world
        .server
        .answer(answer(429, &[("retry-after", "3600")], ""));
    let operation = run(pay(&client, "a").begin()).unwrap();
    let mut updates = operation.updates();
    let error = run(operation.send()).unwrap_err();
    let ErrorKind::Deferred(until) = error.kind() else {
        panic!("{error}");
    };
    assert!(until.since(START) >= HOUR);
    assert!(error.is_unresolved(), "it will go on: {error}");
    assert!(!error.nothing_was_sent());
    assert!(error.to_string().contains("3600 s"), "{error}");
    assert_eq!(run(updates.next()), Some(Update::Sending { attempt: 1 }));
    assert_eq!(run(updates.next()), Some(Update::Deferred { until }));
    let key = operation.key();
    drop((operation, client));
    // A restart before the time waits, too.
    let client = world.client();
    let left = run(client.unfinished()).unwrap().remove(0);
    assert_eq!(left.phase(), Phase::Deferred);
    let error = run(left.resume()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deferred(until));
    assert_eq!(world.sent(), 1);
    world.clock.advance(HOUR + Duration::from_secs(60));
    let outcome = run(left.resume()).unwrap();
    assert_eq!(*outcome.key(), key);
    assert_eq!((world.sent(), world.keys().len()), (2, 1));
}

#[tokio::test]
async fn e09_a_live_client_drives_it_when_it_is_due() {
    let world = World::new();
    let client = world.client();
    world
        .server
        .answer(answer(429, &[("retry-after", "3600")], ""));
    let operation = pay(&client, "a").begin().await.unwrap();
    let error = operation.send().await.unwrap_err();
    let ErrorKind::Deferred(until) = error.kind() else {
        panic!("{error}");
    };
    assert_eq!(settled(&operation).await, Phase::Succeeded);
    let answered = operation.outcome().unwrap().unwrap().answered_at();
    assert!(answered >= until, "not before it was due");
    assert_eq!((world.sent(), world.keys().len()), (2, 1));
}

#[tokio::test]
async fn e09_twin_a_client_that_is_gone_drives_nothing() {
    let world = World::new();
    let client = world.client();
    world
        .server
        .answer(answer(429, &[("retry-after", "3600")], ""));
    let operation = pay(&client, "a").begin().await.unwrap();
    operation.send().await.unwrap_err();
    drop((operation, client));
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.sent(), 1);
    assert_eq!(world.entries()[0].progress.phase, Phase::Deferred);
}

#[tokio::test]
async fn what_an_earlier_run_parked_is_driven_by_the_client_that_asked_for_it() {
    let world = World::new();
    let client = world.client();
    world
        .server
        .answer(answer(429, &[("retry-after", "3600")], ""));
    let error = client.post("a", URL, &json!({})).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Deferred(_)));
    drop(client);
    let client = world.client();
    let left = client.unfinished().await.unwrap().remove(0);
    for _ in 0..3 {
        // Asking three times starts one timer, not three.
        let error = left.resume().await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Deferred(_)), "{error}");
    }
    assert_eq!(settled(&left).await, Phase::Succeeded);
    assert_eq!(world.sent(), 2);
}

#[tokio::test]
async fn a_body_that_the_journal_does_not_keep_is_kept_by_the_client_that_parks_it() {
    let world = World::new();
    let client = world.builder().body(Body::FingerprintOnly).build().unwrap();
    world
        .server
        .answer(answer(429, &[("retry-after", "3600")], ""));
    let operation = pay(&client, "a").begin().await.unwrap();
    operation.send().await.unwrap_err();
    assert_eq!(settled(&operation).await, Phase::Succeeded);
    let requests = world.requests();
    assert_eq!(requests[0].body, requests[1].body);
}

#[test]
fn a_deferral_in_doubt_stays_in_doubt() {
    let world = World::new();
    let client = world.client();
    world.server.fail(lost());
    world
        .server
        .answer(answer(503, &[("retry-after", "3600")], ""));
    let operation = run(pay(&client, "a").begin()).unwrap();
    assert!(run(operation.send()).unwrap_err().is_unresolved());
    world.clock.advance(2 * HOUR);
    world.server.answer(answer(404, &[], ""));
    let error = run(operation.send()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Attention(_)), "{error}");
}

#[test]
fn a_cancel_wins_over_what_is_parked() {
    let world = World::new();
    let client = world.client();
    world
        .server
        .answer(answer(503, &[("retry-after", "3600")], ""));
    let operation = run(pay(&client, "a").begin()).unwrap();
    run(operation.send()).unwrap_err();
    assert!(matches!(
        run(operation.cancel()).unwrap(),
        Phase::Attention(_)
    ));
    world.clock.advance(2 * HOUR);
    assert!(run(operation.resume()).is_err());
    assert_eq!(world.sent(), 1);
}

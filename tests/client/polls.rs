//! 202: the result is asked for with a GET, and the request is not sent again.

use super::support::{URL, World, answer, headers, pay, poll_until, run, unreachable};
use samekey::{Asked, ErrorKind, Failure, FailureKind, Headers, Profile, Reason, Sent};
use serde_json::json;

const JOB: &str = "https://api.example.com/jobs/7";
const ACCEPTED: &[(&str, &str)] = &[("location", "/jobs/7"), ("retry-after", "2")];

#[test]
fn a08_a_202_is_polled_without_key_until_the_result_is_there() {
    let world = World::new();
    let client = world.client();
    world.server.answer(answer(202, ACCEPTED, ""));
    world
        .server
        .answer(answer(202, &[("retry-after", "2")], ""));
    world.server.answer(answer(500, &[], ""));
    world.server.fail(unreachable());
    world.server.answer(answer(200, &[], "done"));
    let outcome = run(client.post("a", URL, &json!({}))).unwrap();
    assert_eq!((outcome.text(), outcome.attempts()), (Some("done"), 1));
    let requests = world.requests();
    assert_eq!(requests.len(), 5);
    for poll in &requests[1..] {
        assert_eq!((poll.method.as_str(), poll.url.as_str()), ("GET", JOB));
        assert_eq!(poll.header("idempotency-key"), None);
        assert!(poll.body.is_empty());
    }
}

#[test]
fn e27_after_a_restart_it_polls_and_does_not_post() {
    let world = World::new();
    let parts = world.parts_on(super::support::Hooked::pausing(world.memory.reopen()));
    let client = samekey::Client::with_parts("shop", parts).build().unwrap();
    world.server.answer(answer(202, ACCEPTED, ""));
    world.server.answer(answer(202, ACCEPTED, ""));
    let operation = run(pay(&client, "a").begin()).unwrap();
    // The program dies somewhere between two polls.
    poll_until(operation.send(), || world.sent() == 2);
    drop((operation, client));
    let client = world.client();
    let left = run(client.unfinished()).unwrap();
    assert_eq!(left.len(), 1);
    let outcome = run(left[0].resume()).unwrap();
    assert!(outcome.is_success());
    let requests = world.requests();
    let posts = requests.iter().filter(|seen| seen.method == "POST");
    assert_eq!(posts.count(), 1, "{requests:?}");
    assert!(requests.len() > 1);
}

#[test]
fn e27_a_poll_that_is_gone_costs_one_post_under_the_same_key() {
    let world = World::new();
    let client = world.client();
    world.server.answer(answer(202, ACCEPTED, ""));
    world.server.answer(answer(404, &[], ""));
    world.server.answer(answer(202, ACCEPTED, ""));
    world.server.answer(answer(404, &[], ""));
    let error = run(client.post("a", URL, &json!({}))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Attention(Reason::PollLost));
    assert!(error.is_unresolved());
    let methods: Vec<_> = world
        .requests()
        .into_iter()
        .map(|seen| seen.method)
        .collect();
    assert_eq!(methods, ["POST", "GET", "POST", "GET"]);
    assert_eq!(world.keys().len(), 1);
}

#[test]
fn a18_a_401_to_a_poll_asks_for_fresh_credentials_and_polls_again() {
    let world = World::new();
    let token = |asked: Asked| async move {
        Ok(Headers::bearer(if asked.refresh { "new" } else { "old" })?)
    };
    let client = world.builder().credentials(token).build().unwrap();
    world.server.answer(answer(202, ACCEPTED, ""));
    world.server.answer(answer(401, &[], ""));
    world.server.answer(answer(200, &[], "done"));
    let outcome = run(client.post("a", URL, &json!({}))).unwrap();
    assert_eq!(outcome.text(), Some("done"));
    let requests = world.requests();
    let methods: Vec<_> = requests.iter().map(|seen| seen.method.as_str()).collect();
    assert_eq!(methods, ["POST", "GET", "GET"], "no second POST");
    assert_eq!(requests[2].header("authorization"), Some("Bearer new"));
}

#[test]
fn a_server_without_keys_is_polled_on_after_a_lost_poll() {
    let world = World::new();
    let client = world.builder().profile(Profile::none()).build().unwrap();
    world.server.answer(answer(202, ACCEPTED, ""));
    world
        .server
        .fail(Failure::new(FailureKind::Timeout, Sent::Maybe, "slow"));
    world.server.answer(answer(200, &[], "done"));
    let outcome = run(client.post("a", URL, &json!({}))).unwrap();
    assert_eq!(outcome.text(), Some("done"));
    // The twin: its POST is never sent twice.
    world
        .server
        .fail(Failure::new(FailureKind::Timeout, Sent::Maybe, "slow"));
    let error = run(client.post("b", URL, &json!({}))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Attention(Reason::NoKeySupport));
    assert_eq!(world.sent(), 4);
}

#[test]
fn polls_of_another_origin_never_get_credentials() {
    let world = World::new();
    let client = world
        .builder()
        .credentials(headers(&[("authorization", "Bearer secret")]))
        .build()
        .unwrap();
    let elsewhere = &[("operation-location", "https://jobs.example/7")];
    world.server.answer(answer(202, elsewhere, ""));
    world.server.answer(answer(200, &[], "done"));
    let _ = run(client.post("a", URL, &json!({})));
    for seen in world.requests() {
        let home = seen.url.starts_with("https://api.example.com/");
        assert_eq!(seen.header("authorization").is_some(), home, "{}", seen.url);
    }
    // The twin: polls at home do get them.
    let world = World::new();
    let client = world
        .builder()
        .credentials(headers(&[("authorization", "Bearer secret")]))
        .build()
        .unwrap();
    world.server.answer(answer(202, ACCEPTED, ""));
    run(client.post("a", URL, &json!({}))).unwrap();
    let poll = &world.requests()[1];
    assert_eq!(poll.header("authorization"), Some("Bearer secret"));
}

#[test]
fn t12_a_cancel_while_the_server_works_needs_attention() {
    let world = World::new();
    let client = world.client();
    let far = &[("location", "/jobs/7"), ("retry-after", "600")];
    world.server.answer(answer(202, far, ""));
    let operation = run(pay(&client, "a").begin()).unwrap();
    let error = run(operation.send()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Deferred(_)), "{error}");
    assert!(error.is_unresolved());
    let phase = run(operation.cancel()).unwrap();
    assert_eq!(phase, samekey::Phase::Attention(Reason::Cancelled));
}

#[test]
fn i9_debug_does_not_show_the_query_of_a_url_that_the_server_gave() {
    let world = World::new();
    let client = world.client();
    let signed = &[("location", "/jobs/7?sig=hunter2"), ("retry-after", "600")];
    world.server.answer(answer(202, signed, ""));
    let operation = run(pay(&client, "a").begin()).unwrap();
    let error = run(operation.send()).unwrap_err();
    let text = format!("{operation:?} {:?} {error} {error:?}", operation.entry());
    assert!(text.contains("/jobs/7"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    assert_eq!(
        operation.entry().progress.poll_url.as_deref(),
        Some("https://api.example.com/jobs/7?sig=hunter2")
    );
}

//! Redirects: within the origin, with the same key and bytes, or not at all.

use super::support::{URL, World, answer, headers, lost, pay, run};
use samekey::{ErrorKind, Headers, Phase, Reason};
use serde_json::json;

#[test]
fn a13_e40_within_the_origin_method_body_key_and_credentials_go_along() {
    for status in [307, 308] {
        let world = World::new();
        let client = world
            .builder()
            .credentials(Headers::bearer("t").unwrap())
            .build()
            .unwrap();
        let to = &[("location", "/v2/payments")];
        world.server.answer(answer(status, to, ""));
        let outcome = run(client.post("a", URL, &json!({"amount": 1}))).unwrap();
        assert!(outcome.is_success());
        let requests = world.requests();
        assert_eq!(requests[1].url, "https://api.example.com/v2/payments");
        assert_eq!(requests[1].method, "POST");
        assert_eq!(requests[0].body, requests[1].body);
        assert_eq!(requests[0].headers, requests[1].headers);
        assert_eq!(world.keys().len(), 1);
    }
}

#[test]
fn e40_a_loop_stops_at_the_hop_cap_with_the_same_key() {
    let world = World::new();
    let client = world.client();
    for _ in 0..10 {
        world.server.answer(answer(308, &[("location", URL)], ""));
    }
    let error = run(client.post("a", URL, &json!({}))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Attention(Reason::Redirected));
    assert!(!error.nothing_was_sent() && error.is_unresolved());
    assert_eq!((world.sent(), world.keys().len()), (6, 1));
}

#[test]
fn a13_a_restart_goes_on_where_the_redirect_led() {
    let world = World::new();
    let client = world.client();
    world
        .server
        .answer(answer(307, &[("location", "/v2/payments")], ""));
    (0..6).for_each(|_| world.server.fail(lost()));
    let error = run(client.post("a", URL, &json!({}))).unwrap_err();
    assert!(error.is_unresolved());
    drop(client);
    let client = world.client();
    let left = run(client.unfinished()).unwrap();
    run(left[0].resume()).unwrap();
    let last = world.requests().pop().unwrap();
    assert_eq!(last.url, "https://api.example.com/v2/payments");
    assert_eq!(world.keys().len(), 1);
}

#[test]
fn a14_e41_another_origin_sees_neither_key_nor_credentials_nor_anything() {
    for location in [
        "https://evil.example/payments",
        "https://api.example.com:8443/payments",
        "http://api.example.com/payments",
        "//evil.example/payments",
    ] {
        for status in [307, 308] {
            let world = World::new();
            let client = world
                .builder()
                .credentials(headers(&[("authorization", "Bearer secret")]))
                .build()
                .unwrap();
            let to = &[("location", location)];
            world.server.answer(answer(status, to, ""));
            let error = run(client.post("a", URL, &json!({}))).unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::Attention(Reason::CrossOriginRedirect)
            );
            assert!(error.is_unresolved() && !error.nothing_was_sent());
            let requests = world.requests();
            assert_eq!(requests.len(), 1, "{location}");
            assert_eq!(requests[0].url, URL);
        }
    }
}

#[test]
fn a11_e42_301_and_302_are_never_followed_and_never_a_success() {
    for (status, in_doubt) in [(301, false), (302, false), (301, true), (302, true)] {
        let world = World::new();
        let client = world.client();
        if in_doubt {
            world.server.fail(lost());
        }
        world
            .server
            .answer(answer(status, &[("location", "/elsewhere")], ""));
        let operation = run(pay(&client, "a").begin()).unwrap();
        match run(operation.send()) {
            Ok(outcome) => {
                assert_eq!((status, in_doubt), (301, false));
                assert_eq!(outcome.phase(), Phase::Rejected);
            }
            Err(error) => assert!(error.is_unresolved(), "{error}"),
        }
        assert!(world.requests().iter().all(|seen| seen.url == URL));
    }
}

#[test]
fn a12_e42_303_is_answered_with_a_get_without_key_and_body() {
    let world = World::new();
    let client = world.client();
    world
        .server
        .answer(answer(303, &[("location", "/payments/7")], ""));
    world.server.answer(answer(200, &[], "done"));
    let outcome = run(client.post("a", URL, &json!({"amount": 1}))).unwrap();
    assert_eq!(outcome.text(), Some("done"));
    let requests = world.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[1].method, "GET");
    assert_eq!(requests[1].url, "https://api.example.com/payments/7");
    assert!(requests[1].body.is_empty());
    assert_eq!(requests[1].header("idempotency-key"), None);
}

#[test]
fn a12_303_to_another_origin_is_not_followed() {
    let world = World::new();
    let client = world.client();
    world
        .server
        .answer(answer(303, &[("location", "https://evil.example/7")], ""));
    let error = run(client.post("a", URL, &json!({}))).unwrap_err();
    assert!(error.is_unresolved());
    assert_eq!(world.sent(), 1);
}

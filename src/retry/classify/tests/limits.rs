//! Every rule from both sides: each of these was written for a mutant that nobody had noticed.

use super::*;

const STOP: (&str, &str) = ("stripe-should-retry", "false");
const STORED: (&str, &str) = ("idempotent-replayed", "true");
const REUSED: &str = r#"{"error":{"type":"idempotency_error","code":"idempotency_key_reused"}}"#;

#[test]
fn a05_people_read_that_a_success_was_replayed_and_only_then() {
    let marked = case().answer(&response(201, &[STORED], ""));
    assert!(marked.reason.contains("replayed"), "{marked:?}");
    let fresh = case().status(201);
    assert!(!fresh.reason.contains("replayed"), "{fresh:?}");
}

#[test]
fn a_success_without_a_body_is_whole_whatever_type_it_names() {
    for kind in ["application/json", "application/problem+json", "text/html"] {
        let lines = [("content-type", kind)];
        succeeds(&case().answer(&response(200, &lines, "")), Replayed::No);
        // These have no body by definition; what stands there is the connection's.
        succeeds(&case().answer(&response(204, &lines, "<p>")), Replayed::No);
    }
    let broken = json(200, "<p>");
    assert_eq!(
        again(&case().answer(&broken)).once,
        Some(Once::UnexpectedBody)
    );
}

#[test]
fn e20_a_server_that_says_to_stop_and_why_is_taken_at_its_word() {
    let stripe = || with(Profile::stripe());
    let mismatch = response(400, &[STOP], REUSED);
    attends(&stripe().answer(&mismatch), Reason::KeyMismatch);
    // Fresh credentials are asked for once; after that its words count here too.
    let own = || {
        let denied = Sign::status(401).with("error.type", "idempotency_error");
        let own = Profile::builder("own").should_retry(STOP.0);
        with(own.mismatch(denied).build().unwrap())
    };
    let denied = response(401, &[STOP], REUSED);
    assert_eq!(own().answer(&denied).action, Action::Reauthorise);
    let again = own().used(Once::Reauthorise);
    attends(&again.answer(&denied), Reason::KeyMismatch);
}

#[test]
fn a_stored_refusal_that_only_asks_for_patience_is_not_final() {
    for status in [408, 425, 429] {
        again(&case().answer(&response(status, &[STORED], "")));
    }
    rejects(&case().answer(&response(402, &[STORED], "")));
}

#[test]
fn a38_people_read_that_a_gateway_spoke_and_not_the_server() {
    for status in [502, 504] {
        let verdict = case().status(status);
        assert!(verdict.reason.contains("gateway"), "{verdict:?}");
    }
    let verdict = case().status(500);
    assert!(!verdict.reason.contains("gateway"), "{verdict:?}");
}

#[test]
fn a_named_result_that_is_not_whole_yet_is_no_result() {
    let case = case().doubt();
    runs(&followed(&bare(202), &case.context()), None);
    let part = followed(&bare(206), &case.context());
    assert_eq!(part, case.polled(&bare(206)));
    assert!(!matches!(part.action, Action::Succeed(_)), "{part:?}");
}

#[test]
fn a_poll_whose_tls_broke_after_it_had_left_is_repeated() {
    let broke = |sent| poll_failed(&Failure::new(FailureKind::Tls, sent, "it broke"));
    attends(&broke(Sent::No), Reason::Tls);
    again(&broke(Sent::Maybe));
}

#[test]
fn every_reason_has_a_name_of_its_own() {
    let names = [
        (Reason::Exhausted, "exhausted"),
        (Reason::WindowClosed, "window-closed"),
        (Reason::KeyMismatch, "key-mismatch"),
        (Reason::AlreadyDone, "already-done"),
    ];
    for (reason, name) in names {
        assert_eq!(reason.name(), name);
    }
}

#[test]
fn a11_a_redirect_that_leads_nowhere_is_for_a_person_to_look_at() {
    for status in [301, 302, 303, 307, 308] {
        attends(&case().status(status), Reason::Protocol);
    }
    rejects(&case().answer(&response(301, &[("location", "/new")], "")));
}

#[test]
fn a_body_too_large_to_keep_is_a_body_and_one_that_was_lost_is_none() {
    let too_large = Response {
        content: Content::TooLarge,
        ..bare(200)
    };
    assert!(Complete::Body.is_met_by(&too_large));
    assert!(!Complete::Body.is_met_by(&lost(200)));
}

#[test]
fn people_read_what_a_complete_answer_lacks() {
    let reason = |complete: &Complete| {
        let case = case();
        let verdict = case.status(200);
        completed(verdict, &bare(200), complete, &case.context()).reason
    };
    assert!(reason(&Complete::Header("x-order-id".into())).contains("header"));
    assert!(reason(&Complete::Body).contains("without the body"));
}

#[test]
fn a_problem_of_a_key_is_known_by_its_bare_name_too() {
    runs(&case().answer(&json(409, r#"{"type":"in-flight"}"#)), None);
    let other = json(409, r#"{"type":"not-in-flight"}"#);
    rejects(&case().answer(&other));
}

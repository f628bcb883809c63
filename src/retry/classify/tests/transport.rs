//! Table B, and the rules for polling.

use super::*;

#[test]
fn t01_no_connection_is_tried_again_without_doubt() {
    let verdict = case().failed(FailureKind::Connect, Sent::No);
    assert_eq!(again(&verdict), Again::default());
    assert_eq!(verdict.applied, Applied::No);
    assert_eq!(verdict.reason, "it broke");
    again(&with(Profile::none()).failed(FailureKind::Connect, Sent::No));
}

#[test]
fn t02_a_refused_certificate_is_no_loop() {
    rejects(&case().failed(FailureKind::Tls, Sent::No));
    let after_doubt = case().doubt().failed(FailureKind::Tls, Sent::No);
    attends(&after_doubt, Reason::Tls);
    again(&case().failed(FailureKind::Tls, Sent::Maybe));
}

#[test]
fn t03_what_never_left_the_queue_is_tried_again() {
    let verdict = case().failed(FailureKind::Queued, Sent::No);
    again(&verdict);
    assert_eq!(verdict.applied, Applied::No);
}

#[test]
fn t04_t05_t07_t11_a_broken_exchange_may_have_been_applied() {
    for kind in [
        FailureKind::Write,
        FailureKind::Reset,
        FailureKind::BadHead,
        FailureKind::Refused,
    ] {
        let verdict = case().failed(kind, Sent::Maybe);
        assert_eq!(again(&verdict), Again::default(), "{kind:?}");
        assert_eq!(verdict.applied, Applied::Maybe, "{kind:?}");
        attends(
            &with(Profile::none()).failed(kind, Sent::Maybe),
            Reason::NoKeySupport,
        );
    }
}

#[test]
fn t06_a_stale_connection_is_replaced_at_once_a_single_time() {
    let verdict = case().failed(FailureKind::StaleConnection, Sent::Maybe);
    let how = again(&verdict);
    assert!(how.at_once);
    assert_eq!(how.once, Some(Once::StaleConnection));
    assert_eq!(verdict.applied, Applied::Maybe);
    let second = case()
        .used(Once::StaleConnection)
        .failed(FailureKind::StaleConnection, Sent::Maybe);
    assert_eq!(again(&second), Again::default());
}

#[test]
fn t08_an_error_without_its_body_is_what_its_status_says() {
    rejects(&case().answer(&lost(404)));
    again(&case().answer(&lost(503)));
    rejects(&case().answer(&lost(422)));
}

#[test]
fn t09_t10_a_request_that_the_server_did_not_process_leaves_no_doubt() {
    let verdict = case().failed(FailureKind::Refused, Sent::No);
    assert!(again(&verdict).at_once);
    assert_eq!(verdict.applied, Applied::No);
    let mut later = case();
    later.attempt = 2;
    assert!(!again(&later.failed(FailureKind::Refused, Sent::No)).at_once);
    again(&with(Profile::none()).failed(FailureKind::Refused, Sent::No));
}

#[test]
fn t12_a_timeout_may_have_been_applied() {
    let verdict = case().failed(FailureKind::Timeout, Sent::Maybe);
    again(&verdict);
    assert_eq!(verdict.applied, Applied::Maybe);
}

#[test]
fn t15_a_rejected_fetch_may_always_have_been_applied() {
    let verdict = case().failed(FailureKind::Fetch, Sent::Maybe);
    again(&verdict);
    assert_eq!(verdict.applied, Applied::Maybe);
}

#[test]
fn t16_an_opaque_redirect_needs_a_person() {
    let verdict = case().failed(FailureKind::OpaqueRedirect, Sent::Maybe);
    attends(&verdict, Reason::Redirected);
    assert_eq!(verdict.applied, Applied::Maybe);
}

#[test]
fn what_could_not_be_built_or_came_too_late_is_not_sent() {
    rejects(&case().failed(FailureKind::Unsendable, Sent::No));
    attends(
        &case().doubt().failed(FailureKind::Unsendable, Sent::No),
        Reason::Protocol,
    );
    attends(
        &case().failed(FailureKind::WindowClosed, Sent::No),
        Reason::WindowClosed,
    );
}

#[test]
fn a_poll_goes_on_until_the_work_is_done() {
    let waiting = [
        response(202, &[("retry-after", "5")], ""),
        response(200, &[("retry-after", "5")], r#"{"status":"Running"}"#),
        response(200, &[("retry-after", "5")], r#"{"status":"pending"}"#),
        response(
            200,
            &[("retry-after", "5")],
            r#"{"name":"op","done":false}"#,
        ),
    ];
    for running in &waiting {
        runs(&case().polled(running), Some(secs(5)));
    }
    let here = response(202, &[("location", URL)], "");
    runs(&case().polled(&here), None);
    let result_later = response(200, &[("location", "/r")], r#"{"status":"Running"}"#);
    runs(&case().polled(&result_later), None);
    let moved = response(202, &[("location", "/jobs/8")], "");
    assert_eq!(
        case().polled(&moved).action,
        Action::Poll("https://api.example/jobs/8".into(), None)
    );
    for done in [
        json(200, r#"{"status":"Succeeded","id":7}"#),
        json(201, r#"{"id":7}"#),
        json(200, r#"{"done":true,"response":{"id":7}}"#),
        json(200, r#"{"id":"ord_1","status":"open"}"#),
        bare(204),
    ] {
        succeeds(&case().polled(&done), Replayed::No);
    }
}

#[test]
fn a_poll_may_end_in_the_stored_refusal() {
    let stored = response(402, &[("idempotent-replayed", "true")], "");
    rejects(&case().doubt().polled(&stored));
    attends(&case().polled(&bare(402)), Reason::RefusedAfterDoubt);
    attends(&case().polled(&bare(206)), Reason::Protocol);
}

#[test]
fn a_poll_without_an_answer_is_repeated() {
    for kind in [
        FailureKind::Connect,
        FailureKind::Reset,
        FailureKind::Timeout,
        FailureKind::Fetch,
    ] {
        again(&poll_failed(&Failure::new(kind, Sent::Maybe, "it broke")));
    }
    for (kind, reason) in [
        (FailureKind::Tls, Reason::Tls),
        (FailureKind::Unsendable, Reason::Protocol),
        (FailureKind::OpaqueRedirect, Reason::Redirected),
    ] {
        let failure = Failure::new(kind, Sent::No, "it broke");
        attends(&poll_failed(&failure), reason);
    }
}

#[test]
fn work_that_failed_after_it_began_needs_a_person() {
    for failed in [
        r#"{"status":"Failed"}"#,
        r#"{"status":"Canceled"}"#,
        r#"{"done":true,"error":{"code":3}}"#,
    ] {
        attends(&case().polled(&json(200, failed)), Reason::WorkFailed);
    }
}

#[test]
fn e27_a_poll_that_is_gone_is_asked_for_once_under_the_same_key() {
    for status in [404, 410] {
        let verdict = case().polled(&bare(status));
        assert_eq!(again(&verdict).once, Some(Once::PollLost));
        attends(
            &case().used(Once::PollLost).polled(&bare(status)),
            Reason::PollLost,
        );
        attends(
            &with(Profile::none()).polled(&bare(status)),
            Reason::PollLost,
        );
    }
}

#[test]
fn a08_only_a_303_says_that_the_result_is_there() {
    let case = case();
    let to = |status, place| response(status, &[("location", place), ("retry-after", "2")], "");
    let there = || "https://api.example/jobs/8".to_owned();
    for status in [301, 302, 307, 308] {
        let moved = to(status, "/jobs/8");
        let verdict = case.polled(&moved);
        assert_eq!(verdict.action, Action::Poll(there(), Some(secs(2))));
        assert_eq!(verdict.applied, Applied::Maybe);
        let result = followed(&moved, &case.context());
        assert_eq!(result.action, Action::SeeOther(there(), Some(secs(2))));
        let bare_move = response(status, &[("location", "/jobs/8")], "");
        assert_eq!(case.polled(&bare_move).action, Action::Poll(there(), None));
    }
    let see = to(303, "/jobs/8");
    for verdict in [case.polled(&see), followed(&see, &case.context())] {
        assert_eq!(verdict.action, Action::SeeOther(there(), Some(secs(2))));
    }
    for status in [301, 302, 303, 307, 308] {
        let away = to(status, "https://evil.example/");
        let nowhere = [bare(status), response(status, &[("location", "")], "")];
        attends(&case.polled(&away), Reason::CrossOriginRedirect);
        attends(
            &followed(&away, &case.context()),
            Reason::CrossOriginRedirect,
        );
        for nowhere in &nowhere {
            attends(&case.polled(nowhere), Reason::Protocol);
            attends(&followed(nowhere, &case.context()), Reason::Protocol);
        }
    }
    for status in [300, 304, 305, 306, 399] {
        attends(&case.polled(&to(status, "/jobs/8")), Reason::Protocol);
        attends(
            &followed(&to(status, "/jobs/8"), &case.context()),
            Reason::Protocol,
        );
    }
}

#[test]
fn a08_a_word_that_nobody_knows_is_no_result_while_the_server_says_to_ask_again() {
    let place = ("operation-location", "/jobs/8");
    for body in [
        r#"{"status":"crunching"}"#,
        r#"{"state":"Phase 2"}"#,
        r#"{"status":""}"#,
        r#"{"status":"ok","state":"crunching"}"#,
    ] {
        let asks = |lines: &[(&str, &str)]| case().polled(&response(200, lines, body));
        runs(&asks(&[("retry-after", "5")]), Some(secs(5)));
        runs(&asks(&[("retry-after-ms", "5000")]), Some(secs(5)));
        runs(&asks(&[("operation-location", URL)]), None);
        assert_eq!(
            asks(&[place]).action,
            Action::Poll("https://api.example/jobs/8".into(), None)
        );
        succeeds(&asks(&[]), Replayed::No);
        // A quota says when the next request may come, not that there is more to come.
        succeeds(&asks(&[("ratelimit", "\"a\";r=0;t=9")]), Replayed::No);
    }
    for body in [
        r#"{"status":"Succeeded"}"#,
        r#"{"state":"COMPLETED"}"#,
        r#"{"status":"paid","state":"running"}"#,
        r#"{"done":true,"status":"crunching"}"#,
        r#"{"id":7}"#,
        r#"{"status":200}"#,
    ] {
        for line in [("retry-after", "5"), place] {
            succeeds(&case().polled(&response(200, &[line], body)), Replayed::No);
        }
    }
    for word in ["failed", "Errored", "timed_out", "rejected", "expired"] {
        let body = format!(r#"{{"state":"{word}"}}"#);
        for lines in [&[][..], &[("retry-after", "5")], &[place]] {
            attends(
                &case().polled(&response(200, lines, &body)),
                Reason::WorkFailed,
            );
        }
    }
}

#[test]
fn e27_a_poll_that_moved_and_is_gone_there_is_asked_for_under_the_same_key() {
    let moved = response(308, &[("location", "/jobs/8")], "");
    let case = case();
    let Action::Poll(url, None) = case.polled(&moved).action else {
        panic!("it is still a poll");
    };
    let there = Context {
        url: &url,
        ..case.context()
    };
    let gone = polled(&bare(404), &there);
    assert_eq!(again(&gone).once, Some(Once::PollLost));
    let running = polled(&json(200, r#"{"status":"running"}"#), &there);
    runs(&running, None);
}

#[test]
fn a_poll_that_fails_repeats_the_poll_and_nothing_else() {
    for status in [408, 429, 500, 502, 503, 504] {
        let verdict = case().polled(&response(status, &[("retry-after", "3")], ""));
        assert_eq!(
            again(&verdict),
            Again {
                hint: Some(secs(3)),
                ..Again::default()
            }
        );
        // A GET repeats even where the server does not know keys.
        again(&with(Profile::none()).polled(&bare(status)));
    }
    again(&case().polled(&lost(200)));
    again(&case().polled(&response(200, &[("content-type", "text/html")], "<html>")));
    let see = response(303, &[("location", "/results/7")], "");
    assert_eq!(
        case().polled(&see).action,
        Action::SeeOther("https://api.example/results/7".into(), None)
    );
    let away = response(303, &[("location", "https://evil.example/")], "");
    attends(&case().polled(&away), Reason::CrossOriginRedirect);
    assert_eq!(case().polled(&bare(401)).action, Action::Reauthorise);
    attends(
        &case().used(Once::Reauthorise).polled(&bare(401)),
        Reason::RefusedAfterDoubt,
    );
    attends(&case().polled(&bare(403)), Reason::RefusedAfterDoubt);
    attends(&case().polled(&bare(304)), Reason::Protocol);
}

#[test]
fn a_named_result_is_the_result_whatever_state_it_is_in() {
    let case = case();
    let context = case.context();
    for state in ["pending", "failed", "running"] {
        let body = json(200, &format!(r#"{{"status":"{state}"}}"#));
        succeeds(&followed(&body, &context), Replayed::No);
    }
    again(&followed(&lost(200), &context));
    again(&followed(&bare(503), &context));
    attends(&followed(&bare(404), &context), Reason::PollLost);
    attends(&followed(&bare(403), &context), Reason::RefusedAfterDoubt);
}

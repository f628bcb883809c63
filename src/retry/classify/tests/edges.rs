//! Edge cases of classification.

use super::*;

#[test]
fn e14_a_business_conflict_is_not_repeated() {
    let taken = json(
        409,
        r#"{"type":"https://x.example/email-taken","title":"E-mail is taken"}"#,
    );
    for profile in [
        Profile::default(),
        Profile::ietf_draft(),
        Profile::wise(),
        Profile::paypal(),
    ] {
        rejects(&with(profile).answer(&taken));
    }
}

#[test]
fn e16_a_validation_error_is_told_from_a_mismatch() {
    rejects(&case().answer(&json(
        422,
        r#"{"type":"https://x.example/problems/amount"}"#,
    )));
    let reused = json(422, r#"{"type":"https://x.example/problems/key-reused"}"#);
    attends(&case().answer(&reused), Reason::KeyMismatch);
}

#[test]
fn e17_e18_a_refusal_after_doubt_is_never_final() {
    for status in [401, 403, 413, 429] {
        let verdict = case().doubt().status(status);
        assert_ne!(verdict.action, Action::Reject, "{status}");
    }
}

#[test]
fn e19_a_replayed_500_is_not_repeated_for_ever() {
    let stored = response(500, &[("idempotent-replayed", "true")], "");
    attends(
        &with(Profile::stripe()).doubt().answer(&stored),
        Reason::FinalErrorReplayed,
    );
}

#[test]
fn e20_a_should_retry_header_wins_both_ways() {
    let stripe = || with(Profile::stripe());
    let says = |status, word| response(status, &[("Stripe-Should-Retry", word)], "");
    attends(
        &stripe().answer(&says(503, "false")),
        Reason::FinalErrorReplayed,
    );
    rejects(&stripe().answer(&says(429, "false")));
    attends(
        &stripe().doubt().answer(&says(429, "false")),
        Reason::RefusedAfterDoubt,
    );
    again(&stripe().answer(&says(400, "true")));
    again(&stripe().answer(&says(402, "true")));
    again(&stripe().answer(&says(500, "perhaps")));
    // Fresh credentials make it another request; the header speaks of this one.
    assert_eq!(
        stripe().answer(&says(401, "false")).action,
        Action::Reauthorise
    );
    // Under another profile the header means nothing.
    rejects(&case().answer(&says(400, "true")));
    let busy = response(
        409,
        &[("stripe-should-retry", "false"), ("retry-after", "1")],
        "",
    );
    attends(&stripe().answer(&busy), Reason::FinalErrorReplayed);
    rejects(&stripe().answer(&says(409, "false")));
    let stored = [
        ("stripe-should-retry", "false"),
        ("idempotent-replayed", "true"),
    ];
    rejects(&stripe().doubt().answer(&response(400, &stored, "")));
    let code = r#"{"error":{"code":"idempotency_key_in_use"}}"#;
    let busy = response(409, &[("stripe-should-retry", "false")], code);
    attends(&stripe().answer(&busy), Reason::FinalErrorReplayed);
}

#[test]
fn e21_adyens_704_is_in_flight_and_no_mismatch() {
    for code in [r#"{"errorCode":"704"}"#, r#"{"errorCode":704}"#] {
        for status in [409, 422] {
            for lines in [&[("transient-error", "true")][..], &[]] {
                let busy = response(status, lines, code);
                runs(&with(Profile::adyen()).doubt().answer(&busy), None);
            }
        }
    }
}

#[test]
fn e22_gocardless_without_an_id_needs_a_person() {
    let body = r#"{"error":{"errors":[{"reason":"idempotent_creation_conflict"}]}}"#;
    let gocardless = || with(Profile::gocardless()).doubt();
    attends(&gocardless().answer(&json(409, body)), Reason::AlreadyDone);
    let soon = response(409, &[("retry-after", "2")], body);
    runs(&gocardless().answer(&soon), Some(secs(2)));
}

#[test]
fn e23_paypals_repeat_shows_the_present_state() {
    let now = json(200, r#"{"id":"1","status":"COMPLETED"}"#);
    succeeds(
        &with(Profile::paypal()).doubt().answer(&now),
        Replayed::Unknown,
    );
}

#[test]
fn e25_a_problem_that_contradicts_itself_changes_nothing() {
    for body in [
        r#"{"status":200,"title":7}"#,
        r#"{"type":null,"title":{"a":1},"status":"409"}"#,
        r#"{"type":["idempotency"],"code":409}"#,
        r#"{"type":"#,
        "not json",
        "[]",
    ] {
        rejects(&case().answer(&response(
            404,
            &[("content-type", "application/problem+json")],
            body,
        )));
        rejects(&case().answer(&json(409, body)));
        again(&case().answer(&json(500, body)));
    }
}

#[test]
fn e26_a_captive_portal_is_no_success() {
    let portal = response(200, &[("content-type", "text/html")], "<html>Log in</html>");
    for case in [
        case(),
        case().doubt(),
        case().used(Once::UnexpectedBody),
        with(Profile::stripe()),
    ] {
        let verdict = case.answer(&portal);
        assert!(!matches!(verdict.action, Action::Succeed(_)), "{verdict:?}");
    }
}

#[test]
fn e28_unknown_statuses_mean_what_their_class_means() {
    succeeds(&case().status(299), Replayed::No);
    attends(&case().status(399), Reason::Protocol);
    for status in [418, 420, 444, 460, 499] {
        rejects_unless_in_doubt(&bare(status));
    }
    for status in [509, 520, 527, 599] {
        again(&case().status(status));
    }
}

#[test]
fn a_server_without_keys_is_never_sent_to_twice() {
    let none = || with(Profile::none());
    for status in [408, 429, 500, 502, 503, 504, 511, 0, 600] {
        attends(&none().status(status), Reason::NoKeySupport);
    }
    attends(
        &none().answer(&response(409, &[("retry-after", "1")], "")),
        Reason::NoKeySupport,
    );
    rejects(&none().answer(&json(409, r#"{"title":"idempotency in progress"}"#)));
    rejects(&none().status(422));
    // These mean by definition that nothing was done.
    assert_eq!(none().status(401).action, Action::Reauthorise);
    again(&none().status(421));
}

#[test]
fn reasons_are_sentences_without_secrets() {
    for status in 0..700 {
        for case in [case(), case().doubt(), with(Profile::none())] {
            let body = r#"{"title":"secret-in-body"}"#;
            let lines = [
                ("location", "https://other.example/secret?token=1"),
                ("x", "secret-in-header"),
            ];
            for verdict in [
                case.answer(&response(status, &lines, body)),
                case.polled(&response(status, &lines, body)),
            ] {
                assert!(verdict.reason.len() > 10, "{verdict:?}");
                assert!(!verdict.reason.contains("secret"), "{verdict:?}");
                assert!(!verdict.reason.contains("token"), "{verdict:?}");
            }
        }
    }
}

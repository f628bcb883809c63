//! Table A.

use super::*;

#[test]
fn a01_a41_a_status_that_is_no_answer_is_a_head_that_cannot_be_trusted() {
    for status in [
        0,
        1,
        99,
        100,
        101,
        102,
        103,
        150,
        199,
        600,
        601,
        999,
        u16::MAX,
    ] {
        let verdict = case().status(status);
        assert_eq!(again(&verdict), Again::default(), "{status}");
        assert_eq!(verdict.applied, Applied::Maybe);
    }
}

#[test]
fn a02_a_first_success_is_fresh() {
    for status in [200, 201, 204, 205] {
        succeeds(&case().status(status), Replayed::No);
    }
    succeeds(&case().answer(&json(201, "{\"id\":7}")), Replayed::No);
}

#[test]
fn a03_a_reliable_marker_that_is_absent_says_fresh() {
    let dated = response(200, &[("date", "Mon, 16 Nov 2026 09:30:00 GMT")], "");
    succeeds(
        &with(Profile::stripe()).doubt().answer(&dated),
        Replayed::No,
    );
    // A browser hides headers of other origins, Date among them: absence then says nothing.
    succeeds(
        &with(Profile::stripe()).doubt().status(200),
        Replayed::Unknown,
    );
}

#[test]
fn a04_without_a_reliable_marker_a_later_success_may_be_a_replay() {
    let dated = response(200, &[("date", "Mon, 16 Nov 2026 09:30:00 GMT")], "");
    for profile in [Profile::default(), Profile::adyen(), Profile::square()] {
        succeeds(&with(profile).doubt().answer(&dated), Replayed::Unknown);
    }
    let mut nothing_sent_before = case();
    nothing_sent_before.attempt = 3;
    succeeds(&nothing_sent_before.status(200), Replayed::No);
}

#[test]
fn a05_a_marked_success_is_a_replay() {
    let marked = response(201, &[("Idempotent-Replayed", "TRUE")], "");
    for profile in [
        Profile::default(),
        Profile::ietf_draft(),
        Profile::stripe(),
        Profile::mollie(),
    ] {
        succeeds(&with(profile).doubt().answer(&marked), Replayed::Yes);
    }
    succeeds(&case().answer(&marked), Replayed::Yes);
    let denied = response(201, &[("Idempotent-Replayed", "false")], "");
    succeeds(&case().doubt().answer(&denied), Replayed::Unknown);
    let own = Profile::builder("ppro")
        .replay_marker("Request-Idempotency", "true")
        .build()
        .unwrap();
    succeeds(
        &with(own).answer(&response(200, &[("request-idempotency", "true")], "")),
        Replayed::Yes,
    );
}

#[test]
fn a06_a_success_without_its_body_is_asked_for_again_where_answers_are_kept() {
    let verdict = case().answer(&lost(201));
    again(&verdict);
    assert_eq!(verdict.applied, Applied::Maybe);
    assert!(is_success_without_body(&lost(201)));
    assert!(!is_success_without_body(&bare(201)));
    assert!(!is_success_without_body(&lost(500)));
    succeeds(&with(Profile::wise()).answer(&lost(201)), Replayed::No);
    succeeds(&with(Profile::none()).answer(&lost(201)), Replayed::No);
    let large = Response {
        content: Content::TooLarge,
        ..bare(200)
    };
    succeeds(&case().answer(&large), Replayed::No);
}

#[test]
fn a07_a_page_in_place_of_a_result_is_asked_about_once_then_shown() {
    let page = response(
        200,
        &[("content-type", "Text/HTML; charset=utf-8")],
        "<html>",
    );
    assert_eq!(
        again(&case().answer(&page)).once,
        Some(Once::UnexpectedBody)
    );
    attends(
        &case().used(Once::UnexpectedBody).answer(&page),
        Reason::UnexpectedBody,
    );
    attends(&with(Profile::none()).answer(&page), Reason::UnexpectedBody);
    let no_json = json(200, "{\"id\":");
    assert_eq!(
        again(&case().answer(&no_json)).once,
        Some(Once::UnexpectedBody)
    );
    let html = Profile::builder("forms").answers_in_html().build().unwrap();
    succeeds(&with(html).answer(&page), Replayed::No);
    let empty_page = response(204, &[("content-type", "text/html")], "");
    succeeds(&case().answer(&empty_page), Replayed::No);
}

#[test]
fn a08_accepted_work_is_polled_where_the_server_says() {
    for (name, place, url) in [
        ("location", "/jobs/7", "https://api.example/jobs/7"),
        ("location", "jobs/7", "https://api.example/v1/jobs/7"),
        (
            "operation-location",
            "https://api.example/ops/1?v=2",
            "https://api.example/ops/1?v=2",
        ),
    ] {
        let accepted = response(202, &[(name, place), ("retry-after", "9")], "{}");
        let verdict = case().answer(&accepted);
        assert_eq!(verdict.action, Action::Poll(url.into(), Some(secs(9))));
        assert_eq!(verdict.applied, Applied::Maybe);
    }
    let both = response(
        202,
        &[("location", "/result"), ("operation-location", "/op")],
        "",
    );
    assert_eq!(
        case().answer(&both).action,
        Action::Poll("https://api.example/op".into(), None)
    );
    let tokens = Profile::builder("tokens")
        .poll_member("links.self")
        .build()
        .unwrap();
    let body = json(202, r#"{"links":{"self":"/jobs/9"}}"#);
    assert_eq!(
        with(tokens).answer(&body).action,
        Action::Poll("https://api.example/jobs/9".into(), None)
    );
    let elsewhere = response(202, &[("location", "https://other.example/jobs/7")], "");
    attends(&case().answer(&elsewhere), Reason::CrossOriginRedirect);
}

#[test]
fn a09_accepted_with_nothing_to_poll_is_what_the_profile_says() {
    succeeds(&case().status(202), Replayed::No);
    let asks = Profile::builder("slow")
        .accepted(Accepted::AskAgain)
        .build()
        .unwrap();
    runs(
        &with(asks).answer(&response(202, &[("retry-after", "4")], "")),
        Some(secs(4)),
    );
}

#[test]
fn a10_altered_partial_and_partly_done_answers() {
    let altered = case().status(203);
    succeeds(&altered, Replayed::No);
    assert!(altered.reason.contains("proxy"), "{altered:?}");
    let parts = case().status(207);
    succeeds(&parts, Replayed::No);
    assert!(parts.reason.contains("parts"), "{parts:?}");
    attends(&case().status(206), Reason::Protocol);
}

#[test]
fn a11_301_and_302_are_never_followed() {
    let to = |status| response(status, &[("location", "/elsewhere")], "");
    rejects(&case().answer(&to(301)));
    attends(&case().doubt().answer(&to(301)), Reason::Redirected);
    // A web application often answers 302 after it has acted, so this is no refusal.
    attends(&case().answer(&to(302)), Reason::Redirected);
    attends(&case().doubt().answer(&to(302)), Reason::Redirected);
}

#[test]
fn a12_303_leads_to_the_result_within_the_origin() {
    let to = |place| response(303, &[("location", place), ("retry-after", "2")], "");
    let verdict = case().answer(&to("/results/1"));
    assert_eq!(
        verdict.action,
        Action::SeeOther("https://api.example/results/1".into(), Some(secs(2)))
    );
    assert_eq!(verdict.applied, Applied::Maybe);
    attends(
        &case().answer(&to("https://evil.example/")),
        Reason::CrossOriginRedirect,
    );
    attends(&case().status(303), Reason::Protocol);
}

#[test]
fn a13_307_and_308_are_resent_within_the_origin() {
    for status in [307, 308] {
        let verdict = case().answer(&response(status, &[("location", "/v2/orders")], ""));
        assert_eq!(
            verdict.action,
            Action::Resend("https://api.example/v2/orders".into())
        );
        assert_eq!(verdict.applied, Applied::No);
        attends(&case().status(status), Reason::Protocol);
    }
}

#[test]
fn a14_no_redirect_takes_the_key_to_another_origin() {
    for place in [
        "https://evil.example/v1/orders",
        "http://api.example/v1/orders",
        "https://api.example:8443/v1/orders",
        "//evil.example/",
    ] {
        for status in [307, 308] {
            let verdict = case().answer(&response(status, &[("location", place)], ""));
            attends(&verdict, Reason::CrossOriginRedirect);
        }
    }
    let nonsense = response(307, &[("location", "https://user:pw@api.example/")], "");
    let verdict = case().answer(&nonsense);
    attends(&verdict, Reason::Protocol);
    assert!(!verdict.reason.contains("pw"));
}

#[test]
fn a15_other_redirects_have_no_meaning() {
    for status in [300, 304, 305, 306, 399] {
        let verdict = case().answer(&response(status, &[("location", "/x")], ""));
        attends(&verdict, Reason::Protocol);
    }
}

#[test]
fn a16_a_key_that_is_not_accepted_is_a_fault_of_the_configuration() {
    let missing = json(
        400,
        r#"{"type":"about:blank","title":"Idempotency-Key is missing"}"#,
    );
    let verdict = case().answer(&missing);
    rejects(&verdict);
    assert!(
        verdict.reason.contains("does not accept the key"),
        "{verdict:?}"
    );
    attends(&case().doubt().answer(&missing), Reason::RefusedAfterDoubt);
    let own = Profile::builder("own")
        .key_refused(Sign::status(428))
        .build()
        .unwrap();
    assert!(
        with(own)
            .status(428)
            .reason
            .contains("does not accept the key")
    );
}

#[test]
fn a17_a_plain_400_is_a_refusal() {
    rejects_unless_in_doubt(&bare(400));
    rejects_unless_in_doubt(&json(400, r#"{"title":"Amount is missing"}"#));
}

#[test]
fn a18_credentials_are_asked_for_once() {
    for status in [401, 407] {
        for fresh in [case(), case().doubt()] {
            let verdict = fresh.status(status);
            assert_eq!(verdict.action, Action::Reauthorise);
            assert_eq!(verdict.applied, Applied::No);
        }
        rejects(&case().used(Once::Reauthorise).status(status));
        let after_doubt = case().doubt().used(Once::Reauthorise).status(status);
        attends(&after_doubt, Reason::RefusedAfterDoubt);
    }
}

#[test]
fn a19_refusals_are_final_unless_an_earlier_attempt_is_in_doubt() {
    for status in [
        402, 403, 404, 405, 406, 410, 411, 414, 415, 416, 428, 431, 451,
    ] {
        rejects_unless_in_doubt(&bare(status));
    }
    rejects(&with(Profile::stripe()).doubt().status(402));
    attends(
        &with(Profile::stripe()).doubt().status(403),
        Reason::RefusedAfterDoubt,
    );
    let stored = response(403, &[("idempotent-replayed", "true")], "");
    rejects(&case().doubt().answer(&stored));
}

#[test]
fn a20_408_is_sent_again() {
    let verdict = case().status(408);
    assert_eq!(again(&verdict), Again::default());
    assert_eq!(verdict.applied, Applied::Maybe);
}

#[test]
fn a21_409_in_flight_waits_as_long_as_the_server_asks() {
    let busy = response(409, &[("retry-after", "7")], "");
    let verdict = case().answer(&busy);
    runs(&verdict, Some(secs(7)));
    assert_eq!(
        verdict.reason,
        "the server is still working on this key; the server asks for 7 s"
    );
    let code = r#"{"error":{"code":"idempotency_key_in_use"}}"#;
    let stripe = response(409, &[("retry-after", "3")], code);
    runs(
        &with(Profile::stripe()).doubt().answer(&stripe),
        Some(secs(3)),
    );
}

#[test]
fn a22_409_in_flight_without_a_hint_has_a_floor() {
    let busy = json(
        409,
        r#"{"title":"A request is outstanding for this Idempotency-Key"}"#,
    );
    runs(&case().doubt().answer(&busy), None);
    assert_eq!(STILL_RUNNING_FLOOR, secs(1));
}

#[test]
fn a23_409_that_names_what_was_created_leads_there() {
    let conflict = |links: &str| {
        json(
            409,
            &format!(
                r#"{{"error":{{"errors":[{{"reason":"idempotent_creation_conflict"{links}}}]}}}}"#
            ),
        )
    };
    let gocardless = || with(Profile::gocardless()).doubt();
    let named = conflict(r#","links":{"conflicting_resource_id":"PM1"}"#);
    let verdict = gocardless().answer(&named);
    assert_eq!(
        verdict.action,
        Action::SeeOther("https://api.example/v1/orders/PM1".into(), None)
    );
    succeeds(
        &followed(&json(200, "{}"), &gocardless().context()),
        Replayed::Yes,
    );
    for hostile in ["../admin", "a/b", "a?b", "", "é"] {
        let links = format!(r#","links":{{"conflicting_resource_id":"{hostile}"}}"#);
        attends(&gocardless().answer(&conflict(&links)), Reason::AlreadyDone);
    }
}

#[test]
fn a24_409_that_speaks_of_nothing_is_a_conflict_with_what_is_there() {
    rejects_unless_in_doubt(&json(409, r#"{"title":"Address is taken"}"#));
    rejects_unless_in_doubt(&response(409, &[("retry-after", "soon")], ""));
    // The explanation is lost: it may have been the in-flight kind.
    again(&case().answer(&lost(409)));
}

#[test]
fn a25_a_mismatch_stops_for_ever() {
    for (profile, answer) in [
        (
            Profile::default(),
            json(422, r#"{"type":"https://x.example/p/key-reused"}"#),
        ),
        (
            Profile::default(),
            json(422, r#"{"title":"Idempotency-Key is already used"}"#),
        ),
        (
            Profile::default(),
            json(409, r#"{"code":"IDEMPOTENCY_KEY_REUSED"}"#),
        ),
        (
            Profile::default(),
            json(
                400,
                r#"{"error":{"code":"idempotency_parameter_mismatch"}}"#,
            ),
        ),
        (
            Profile::stripe(),
            json(400, r#"{"error":{"type":"idempotency_error"}}"#),
        ),
        (
            Profile::square(),
            json(400, r#"{"errors":[{"code":"IDEMPOTENCY_KEY_REUSED"}]}"#),
        ),
    ] {
        attends(&with(profile.clone()).answer(&answer), Reason::KeyMismatch);
        attends(&with(profile).doubt().answer(&answer), Reason::KeyMismatch);
    }
}

#[test]
fn a26_422_without_mention_of_the_key_is_a_refusal() {
    rejects_unless_in_doubt(&bare(422));
    rejects_unless_in_doubt(&json(422, r#"{"title":"Currency is invalid"}"#));
}

#[test]
fn a27_412_is_a_refusal_or_an_expired_key() {
    rejects_unless_in_doubt(&bare(412));
    let oasis = Profile::builder("oasis")
        .window_closed(Sign::status(412))
        .build()
        .unwrap();
    attends(&with(oasis).doubt().status(412), Reason::WindowClosed);
}

#[test]
fn a28_413_is_temporary_only_if_it_says_so() {
    rejects_unless_in_doubt(&bare(413));
    let later = case().answer(&response(413, &[("retry-after", "30")], ""));
    assert_eq!(again(&later).hint, Some(secs(30)));
}

#[test]
fn a30_421_is_sent_once_over_another_connection() {
    let verdict = case().status(421);
    let how = again(&verdict);
    assert!(how.at_once);
    assert_eq!(how.once, Some(Once::Misdirected));
    assert_eq!(verdict.applied, Applied::No);
    rejects(&case().used(Once::Misdirected).status(421));
    attends(
        &case().doubt().used(Once::Misdirected).status(421),
        Reason::RefusedAfterDoubt,
    );
}

#[test]
fn a31_424_needs_a_person() {
    attends(&case().status(424), Reason::WorkFailed);
}

#[test]
fn a32_425_is_sent_at_once_then_by_the_schedule() {
    let verdict = case().status(425);
    assert!(again(&verdict).at_once);
    assert_eq!(verdict.applied, Applied::No);
    assert!(!again(&case().doubt().status(425)).at_once);
}

#[test]
fn a33_429_waits_as_asked_and_abuse_stops() {
    let verdict = case().answer(&response(429, &[("retry-after", "12")], ""));
    assert_eq!(again(&verdict).hint, Some(secs(12)));
    let quota = json(
        429,
        r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded"}"#,
    );
    again(&case().answer(&quota));
    let abuse = json(
        429,
        r#"{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected"}"#,
    );
    attends(&case().answer(&abuse), Reason::Throttled);
}

#[test]
fn a34_a_bare_429_has_a_higher_floor_or_the_rate_limits_hint() {
    assert_eq!(
        again(&case().status(429)),
        Again {
            floor: secs(1),
            ..Again::default()
        }
    );
    let limits = response(429, &[("ratelimit", r#""day";r=0;t=50"#)], "");
    let how = again(&case().answer(&limits));
    assert_eq!((how.hint, how.floor), (Some(secs(50)), Duration::ZERO));
    assert_eq!(case().status(429).applied, Applied::Maybe);
    assert_eq!(
        with(Profile::stripe()).status(429).applied,
        Applied::No,
        "documented by Stripe"
    );
}

#[test]
fn a35_500_is_sent_again_under_the_same_key() {
    for case in [case(), case().doubt(), with(Profile::stripe())] {
        let verdict = case.status(500);
        assert_eq!(again(&verdict), Again::default());
        assert_eq!(verdict.applied, Applied::Maybe);
    }
}

#[test]
fn a36_a_stored_5xx_or_one_marked_final_stops() {
    for status in [500, 502, 503] {
        let stored = response(status, &[("idempotent-replayed", "true")], "");
        attends(&case().answer(&stored), Reason::FinalErrorReplayed);
        let told = response(status, &[("stripe-should-retry", "false")], "");
        attends(
            &with(Profile::stripe()).answer(&told),
            Reason::FinalErrorReplayed,
        );
    }
}

#[test]
fn a37_what_the_server_cannot_do_at_all_is_a_refusal() {
    for status in [501, 505, 506, 508, 510] {
        rejects_unless_in_doubt(&bare(status));
    }
    let oasis = Profile::builder("oasis")
        .key_refused(Sign::status(501))
        .build()
        .unwrap();
    rejects(&with(oasis).status(501));
}

#[test]
fn a38_a_gateways_502_or_504_may_hide_an_effect() {
    for status in [502, 504] {
        let verdict = case().answer(&response(status, &[("retry-after", "5")], "<html>"));
        assert_eq!(again(&verdict).hint, Some(secs(5)));
        assert_eq!(verdict.applied, Applied::Maybe);
        assert_eq!(again(&case().status(status)).hint, None);
    }
}

#[test]
fn a39_503_waits_as_asked_or_by_the_schedule() {
    let asked = response(503, &[("retry-after", "8")], "");
    let verdict = case().answer(&asked);
    assert_eq!(again(&verdict).hint, Some(secs(8)));
    assert_eq!(
        verdict.reason,
        "the server is not available; the server asks for 8 s"
    );
    assert_eq!(again(&case().status(503)).hint, None);
    let adyen = response(
        503,
        &[("transient-error", "true")],
        r#"{"errorCode":"703"}"#,
    );
    again(&with(Profile::adyen()).doubt().answer(&adyen));
}

#[test]
fn a40_a_network_that_wants_a_login_is_waited_out() {
    let portal = response(511, &[("content-type", "text/html")], "<html>");
    let verdict = case().answer(&portal);
    again(&verdict);
    assert!(verdict.reason.contains("login"), "{verdict:?}");
    again(&case().answer(&response(503, &[("content-type", "text/html")], "<html>")));
}

#[test]
fn a42_an_error_inside_a_200_is_read_where_a_profile_knows_it() {
    let path = "errors[0].extensions.code";
    let shopify = Profile::builder("shopify")
        .in_flight(Sign::status(200).with(path, "IDEMPOTENCY_CONCURRENT_REQUEST"))
        .mismatch(Sign::status(200).with(path, "IDEMPOTENCY_KEY_PARAMETER_MISMATCH"))
        .build()
        .unwrap();
    let says = |code: &str| {
        json(
            200,
            &format!(r#"{{"errors":[{{"extensions":{{"code":"{code}"}}}}]}}"#),
        )
    };
    let shopify = with(shopify);
    runs(
        &shopify.answer(&says("IDEMPOTENCY_CONCURRENT_REQUEST")),
        None,
    );
    attends(
        &shopify.answer(&says("IDEMPOTENCY_KEY_PARAMETER_MISMATCH")),
        Reason::KeyMismatch,
    );
    succeeds(&shopify.answer(&says("OTHER")), Replayed::No);
}

#[test]
fn e26_a_login_page_cut_short_is_no_success_either() {
    let page = Response {
        content: Content::Lost,
        ..response(200, &[("content-type", "text/html")], "")
    };
    again(&case().answer(&page));
    for profile in [Profile::wise(), Profile::none()] {
        let verdict = with(profile).answer(&page);
        assert!(!matches!(verdict.action, Action::Succeed(_)), "{verdict:?}");
    }
}

//! What must hold for every answer that anybody could send.

use super::*;
use proptest::prelude::*;

fn headers() -> impl Strategy<Value = Headers> {
    let line = prop_oneof![
        ("[a-z-]{1,12}", "[ -~]{0,20}"),
        (Just("retry-after".to_owned()), "[0-9]{0,22}|[ -~]{0,30}"),
        (Just("ratelimit".to_owned()), "[\";,=rt0-9a-z ]{0,24}"),
        (
            Just("location".to_owned()),
            "(https?:)?/{0,2}[a-z.]{0,9}[/?#:@a-z0-9]{0,9}"
        ),
        (
            Just("content-type".to_owned()),
            "text/html|application/json|application/problem\\+json"
        ),
        (Just("idempotent-replayed".to_owned()), "true|false|"),
        (Just("stripe-should-retry".to_owned()), "true|false|"),
        (Just("transient-error".to_owned()), "true|false"),
        (
            Just("date".to_owned()),
            "Mon, 16 Nov 2026 09:30:00 GMT|[ -~]{0,29}"
        ),
    ];
    proptest::collection::vec(line, 0..6).prop_map(|lines| {
        let mut headers = Headers::new();
        for (name, value) in lines {
            headers.push(&name, &value).unwrap();
        }
        headers
    })
}

fn body() -> impl Strategy<Value = Content> {
    let words = "idempotency_key_in_use|idempotency_error|IDEMPOTENCY_KEY_REUSED|704|\
                 idempotent_creation_conflict|PREVIOUS_REQUEST_IN_PROGRESS|key-reused|in-flight|Failed";
    let spoken = words.prop_flat_map(|word| {
        proptest::sample::select(vec![
            format!(r#"{{"error":{{"code":"{word}","errors":[{{"reason":"{word}"}}]}}}}"#),
            format!(r#"{{"error":{{"type":"{word}"}},"status":"{word}"}}"#),
            format!(r#"{{"type":"https://x/{word}","errorCode":"{word}","details":[{{"issue":"{word}"}}]}}"#),
            format!(r#"{{"errors":[{{"code":"{word}"}}],"done":true}}"#),
        ])
    });
    prop_oneof![
        3 => spoken.prop_map(|text| Content::Whole(text.into_bytes())),
        2 => any::<Vec<u8>>().prop_map(Content::Whole),
        1 => Just(Content::Lost),
        1 => Just(Content::TooLarge),
    ]
}

prop_compose! {
    fn any_response()(status in prop_oneof![8 => 200u16..600, 1 => any::<u16>()], headers in headers(), content in body()) -> Response {
        Response { status, headers, content }
    }
}

fn profiles() -> impl Strategy<Value = Profile> {
    proptest::sample::select(Profile::all().collect::<Vec<_>>())
}

/// A word for work that goes on, in any case and with anything between its parts.
fn running_word() -> impl Strategy<Value = String> {
    let words = "accepted|creating|enqueued|in progress|not started|pending|processing|\
                 provisioning|queued|running|scheduled|started|starting|updating|waiting";
    let joints = proptest::sample::select(vec!["", " ", "_", "-", "."]);
    (words, joints, any::<u64>()).prop_map(|(word, joint, upper)| {
        word.replace(' ', joint)
            .chars()
            .enumerate()
            .map(|(at, c)| match upper >> (at % 64) & 1 {
                1 => c.to_ascii_uppercase(),
                _ => c,
            })
            .collect()
    })
}

fn remedies() -> impl Strategy<Value = Vec<Once>> {
    let all = vec![
        Once::UnexpectedBody,
        Once::Misdirected,
        Once::StaleConnection,
        Once::Reauthorise,
        Once::PollLost,
    ];
    proptest::sample::subsequence(all, 0..=5)
}

/// The rule: while an earlier attempt is in doubt, only a replay or a status that the profile
/// vouches for may say that it was refused.
fn is_safe(response: &Response, context: &Context<'_>, verdict: &Verdict) -> bool {
    let excused =
        context.profile.is_marked(&response.headers) || context.profile.vouches(response.status);
    !context.in_doubt || excused || verdict.action != Action::Reject
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_refusal_never_settles_what_is_in_doubt(response in any_response(), profile in profiles(), used in remedies()) {
        let case = Case { profile, attempt: 2, in_doubt: true, used };
        let context = case.context();
        for verdict in [answer(&response, &context), polled(&response, &context), followed(&response, &context)] {
            prop_assert!(is_safe(&response, &context, &verdict), "{:?}", verdict);
        }
    }

    #[test]
    fn no_answer_makes_the_classifier_panic(
        response in any_response(), profile in profiles(), used in remedies(),
        attempt: u32, in_doubt: bool, now: u64, url in "https?://[a-z]{1,5}[/?a-z]{0,9}|.{0,12}",
    ) {
        let now = Timestamp::from_millis(now);
        let context = Context { profile: &profile, url: &url, attempt, in_doubt, used: &used, now };
        for verdict in [answer(&response, &context), polled(&response, &context), followed(&response, &context)] {
            prop_assert!(!verdict.reason.is_empty());
            if verdict.action == Action::Reject {
                prop_assert_eq!(verdict.applied, Applied::No);
            }
            if let Action::Succeed(_) | Action::StillRunning(_) | Action::Poll(..) = verdict.action {
                prop_assert_eq!(verdict.applied, Applied::Maybe);
            }
            if let Action::TryAgain(Again { once: Some(once), .. }) = verdict.action {
                prop_assert!(!used.contains(&once), "a remedy is used a single time");
            }
        }
    }

    #[test]
    fn no_url_of_another_origin_is_ever_named(response in any_response(), profile in profiles()) {
        let case = with(profile);
        let here = crate::Origin::of(URL).unwrap();
        for verdict in [case.answer(&response), case.polled(&response), followed(&response, &case.context())] {
            if let Action::Poll(url, _) | Action::SeeOther(url, _) | Action::Resend(url) = verdict.action {
                prop_assert_eq!(crate::Origin::of(&url).unwrap(), here.clone());
            }
        }
    }

    #[test]
    fn a08_a_running_word_is_never_success(
        status in 200u16..300, headers in headers(), profile in profiles(), used in remedies(),
        word in running_word(), member in "status|state", in_doubt: bool,
        place in proptest::option::of("/[a-z]{0,5}|https://evil\\.example/|"),
    ) {
        let mut headers = headers;
        if let Some(place) = place {
            headers.push("operation-location", &place).unwrap();
        }
        let body = format!(r#"{{"id":7,"{member}":"{word}","error":null}}"#);
        let response = Response::new(status, headers, body);
        let case = Case { profile, attempt: 2, in_doubt, used };
        let verdict = case.polled(&response);
        prop_assert!(!matches!(verdict.action, Action::Succeed(_) | Action::SeeOther(..)), "{:?}", verdict);
    }

    #[test]
    fn a08_a_moved_poll_never_leads_to_a_result(
        status in 300u16..400, headers in headers(), content in body(), profile in profiles(),
    ) {
        let response = Response { status, headers, content };
        let verdict = with(profile).polled(&response);
        prop_assert!(!matches!(verdict.action, Action::Succeed(_)), "{:?}", verdict);
        if let Action::SeeOther(..) = verdict.action {
            prop_assert_eq!(status, 303);
        }
    }

    #[test]
    fn without_keys_only_what_had_no_effect_is_sent_again(response in any_response(), used in remedies()) {
        let case = Case { profile: Profile::none(), attempt: 1, in_doubt: false, used };
        let verdict = case.answer(&response);
        if let Action::TryAgain(_) | Action::StillRunning(_) | Action::Resend(_) | Action::Reauthorise = verdict.action {
            prop_assert_eq!(verdict.applied, Applied::No, "{:?}", verdict);
        }
    }
}

/// The twin of the safety property: a classifier that believes every 4xx is caught by the checker.
#[test]
fn the_checker_catches_a_classifier_that_believes_every_refusal() {
    let credulous = |response: &Response| {
        let (action, applied) = match response.status {
            400..500 => (Action::Reject, Applied::No),
            _ => (Action::TryAgain(Again::default()), Applied::Maybe),
        };
        let reason = "believed".into();
        Verdict {
            action,
            applied,
            reason,
        }
    };
    let case = case().doubt();
    let context = case.context();
    assert!(!is_safe(&bare(403), &context, &credulous(&bare(403))));
    assert!(is_safe(&bare(403), &context, &answer(&bare(403), &context)));
    let certain = super::case();
    assert!(is_safe(
        &bare(403),
        &certain.context(),
        &credulous(&bare(403))
    ));
}

use super::*;
use proptest::prelude::*;

fn key(text: &str) -> Key {
    Key::adopt(text).unwrap()
}

fn minted() -> Key {
    Key::from_random([0x5a; 16])
}

/// Reads a structured-field string back, as a server would.
fn read_sf_string(value: &str) -> Option<String> {
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    let mut out = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(chars.next().filter(|c| matches!(c, '"' | '\\'))?),
            '"' => return None,
            ' '..='~' => out.push(c),
            _ => return None,
        }
    }
    Some(out)
}

#[cfg(feature = "facts")]
#[test]
fn what_is_worked_out_at_compile_time_is_what_the_builder_makes_of_the_same_words() {
    for profile in Profile::all() {
        assert_eq!(builtin::said(profile.name()).rules, *profile.0);
    }
    // The twin: a word less makes other rules.
    let bare = Profile::builder("stripe").build().unwrap();
    assert_ne!(*bare.0, *Profile::stripe().0);
}

#[test]
fn a_profile_built_twice_is_kept_once() {
    let built = |longest| {
        let own = Profile::builder("kept").key_length(1, longest);
        own.build().unwrap()
    };
    assert!(std::ptr::eq(built(40).0, built(40).0));
    assert!(!std::ptr::eq(built(40).0, built(41).0));
    assert_eq!(built(40).facts(), built(40).facts());
}

#[test]
fn every_built_in_profile_breaks_no_rule_of_the_builder() {
    for profile in Profile::all() {
        assert_eq!(profile.0.problems(), Vec::<String>::new(), "{profile:?}");
        assert_eq!(Profile::named(profile.name()).as_ref(), Some(&profile));
    }
    assert_eq!(Profile::all().count(), 10);
    assert_eq!(Profile::default().name(), "default");
}

#[test]
fn every_fact_has_a_source_and_a_day_and_guesses_are_shown_as_such() {
    for profile in Profile::all() {
        assert!(!profile.facts().is_empty());
        for fact in profile.facts() {
            assert!(
                !fact.source.is_empty() && !fact.value.is_empty(),
                "{fact:?}"
            );
            assert_eq!(fact.checked_on, "2026-11-16", "{fact:?}");
            assert_eq!(
                fact.to_string().contains("unverified"),
                fact.is_unverified()
            );
        }
        assert!(profile.to_string().starts_with(profile.name()));
    }
    let mollie = Profile::mollie();
    let window = mollie.facts().iter().find(|f| f.axis == "window").unwrap();
    assert_eq!(
        window.to_string(),
        "window: 1 h (a third party's comment that cites docs.mollie.com, 2026-11-16, unverified)"
    );
}

#[test]
fn windows_are_the_shortest_that_is_known_and_guesses_say_so() {
    let hours = |profile: Profile| profile.window().as_secs() / 3600;
    assert_eq!(hours(Profile::stripe()), 24);
    assert_eq!(hours(Profile::adyen()), 7 * 24);
    assert_eq!(hours(Profile::mollie()), 1);
    for guessed in [
        Profile::default(),
        Profile::ietf_draft(),
        Profile::square(),
        Profile::gocardless(),
        Profile::wise(),
    ] {
        assert!(guessed.window_is_assumed(), "{guessed:?}");
        assert_eq!(guessed.window(), ASSUMED_WINDOW);
    }
    for known in [
        Profile::stripe(),
        Profile::adyen(),
        Profile::paypal(),
        Profile::mollie(),
    ] {
        assert!(!known.window_is_assumed(), "{known:?}");
    }
    let paypal = Profile::paypal();
    for (url, hours) in [
        ("https://api.example/v2/checkout/orders/1/capture", 6),
        ("https://api.example/v2/payments/captures/1/refund", 45 * 24),
        ("https://api.example/v3/vault/setup-tokens", 3),
        ("https://api.example/v9/unheard-of", 3),
        ("https://api.example/x?next=/v2/payments/", 3),
    ] {
        assert_eq!(paypal.window_for(url).as_secs() / 3600, hours, "{url}");
        assert!(paypal.window_for(url) >= paypal.window());
    }
}

#[test]
fn an_expiry_that_the_server_states_is_measured_by_its_own_clock() {
    let mut headers = Headers::new();
    headers
        .push("Date", "Sun, 06 Nov 1994 08:49:37 GMT")
        .unwrap();
    headers
        .push("Idempotency-Key-Expires", "Mon, 07 Nov 1994 08:49:37 GMT")
        .unwrap();
    let any_clock = Timestamp::from_millis(1_800_000_000_000);
    assert_eq!(
        Profile::default().remembered_for(&headers, any_clock),
        Some(ASSUMED_WINDOW)
    );
    assert_eq!(Profile::stripe().remembered_for(&headers, any_clock), None);
    assert_eq!(
        Profile::default().remembered_for(&Headers::new(), any_clock),
        None
    );
}

#[test]
fn e43_e46_a_key_is_sent_byte_for_byte() {
    let mixed = key("aBcD-42:X");
    let profile = Profile::default();
    let (name, value) = profile.wire_key(&mixed).unwrap().unwrap();
    assert_eq!((name, value.as_str()), ("Idempotency-Key", "aBcD-42:X"));
    for profile in Profile::all() {
        if let Some((name, value)) = profile.wire_key(&minted()).unwrap() {
            Headers::new().push(name, &value).unwrap();
            assert!(value.contains(minted().as_str()));
        }
    }
}

#[test]
fn e45_quoting_belongs_to_the_profiles_name_and_never_changes() {
    let wire = |name: &str| {
        let profile = Profile::named(name).unwrap();
        profile.wire_key(&minted()).unwrap().map(|(_, value)| value)
    };
    assert_eq!(
        wire("ietf_draft"),
        Some(format!("\"{}\"", minted().as_str()))
    );
    for bare in [
        "default",
        "stripe",
        "adyen",
        "paypal",
        "gocardless",
        "wise",
        "mollie",
    ] {
        assert_eq!(wire(bare).as_deref(), Some(minted().as_str()), "{bare}");
    }
    assert_eq!(wire("square"), None);
    assert_eq!(wire("none"), None);
}

#[test]
fn e47_a_key_over_the_limit_is_refused_and_never_shortened() {
    let url = "https://api.example/v2/payments";
    for (profile, url, fits) in [
        (Profile::square(), url, 45),
        (Profile::square(), "https://api.example/v2/orders", 192),
        (Profile::square(), "https://api.example/v2/invoices/1", 128),
        (Profile::adyen(), url, 64),
        (Profile::mollie(), url, 100),
        (Profile::stripe(), url, 255),
        (
            Profile::paypal(),
            "https://api.example/v2/checkout/orders",
            108,
        ),
        (Profile::paypal(), url, 78),
    ] {
        assert!(
            profile.check_key(&key(&"k".repeat(fits)), url).is_ok(),
            "{profile:?} {url}"
        );
        if fits < 255 {
            let error = profile
                .check_key(&key(&"k".repeat(fits + 1)), url)
                .unwrap_err();
            assert!(error.to_string().contains(&fits.to_string()), "{error}");
        }
        assert!(profile.check_key(&minted(), url).is_ok());
    }
    let mangopay = Profile::builder("mangopay")
        .key_length(16, 36)
        .build()
        .unwrap();
    assert!(mangopay.check_key(&key("short"), url).is_err());
    assert!(mangopay.wire_key(&key("short")).is_err());
    assert!(Profile::wise().check_key(&key("order-42"), url).is_err());
    assert!(Profile::wise().check_key(&minted(), url).is_ok());
}

#[test]
fn e48_a_second_line_for_the_key_is_refused() {
    let mut headers = Headers::new();
    headers.push("X-Other", "1").unwrap();
    for profile in Profile::all() {
        assert!(profile.check_headers(&headers).is_ok());
    }
    headers.push("IDEMPOTENCY-KEY", "mine").unwrap();
    for profile in Profile::all() {
        let error = profile.check_headers(&headers).unwrap_err();
        assert!(!error.to_string().contains("mine"), "{error}");
    }
    let mut paypals = Headers::new();
    paypals.push("paypal-request-id", "mine").unwrap();
    assert!(Profile::paypal().check_headers(&paypals).is_err());
    assert!(Profile::stripe().check_headers(&paypals).is_ok());
}

#[test]
fn e49_e50_a_key_in_the_body_is_placed_once_and_nothing_else_moves() {
    let square = Profile::square();
    let body = b"{ \"amount\": 1.00 }";
    let placed = square.place_in_body(body, &key("k\"1")).unwrap();
    assert_eq!(
        placed,
        b"{\"idempotency_key\":\"k\\\"1\", \"amount\": 1.00 }"
    );
    let twice = square.place_in_body(&placed, &minted()).unwrap_err();
    assert!(twice.to_string().contains("already"), "{twice}");
    assert!(square.place_in_body(b"amount=1", &minted()).is_err());
    assert_eq!(
        Profile::default()
            .place_in_body(b"anything", &minted())
            .unwrap(),
        b"anything"
    );
}

#[test]
fn what_is_wrong_with_a_profile_is_said_all_at_once() {
    let wrong = Profile::builder("two words")
        .key_in_header("Content-Type")
        .key_length(300, 20)
        .methods(&[])
        .window(Duration::ZERO)
        .window_on("/x", Duration::MAX)
        .in_flight(Sign::status(42))
        .vouches_for(503)
        .build()
        .unwrap_err();
    assert_eq!(wrong.all().len(), 9, "{wrong}");
    let injected = Profile::builder("x")
        .key_in_header("a: b\r\nc")
        .build()
        .unwrap_err();
    assert_eq!(injected.all().len(), 1, "{injected}");
    let nothing = Profile::builder("")
        .key_in_json("")
        .quoted()
        .build()
        .unwrap_err();
    assert_eq!(nothing.all().len(), 3, "{nothing}");
    assert!(Profile::builder("plain").build().is_ok());
}

#[test]
fn which_answers_come_back_decides_what_a_lost_one_costs() {
    for keeps in [
        Profile::default(),
        Profile::stripe(),
        Profile::paypal(),
        Profile::gocardless(),
    ] {
        assert!(keeps.replays(), "{keeps:?}");
    }
    for forgets in [Profile::wise(), Profile::none()] {
        assert!(!forgets.replays(), "{forgets:?}");
    }
    assert!(!Profile::none().knows_keys());
    assert!(Profile::wise().knows_keys());
}

proptest! {
    #[test]
    fn e44_a_quoted_key_is_read_back_exactly(text in "[!-~]{1,255}") {
        let key = key(&text);
        let profile = Profile::ietf_draft();
        let (_, value) = profile.wire_key(&key).unwrap().unwrap();
        prop_assert_eq!(read_sf_string(&value), Some(text));
        prop_assert!(Headers::new().push("idempotency-key", &value).is_ok());
    }

    #[test]
    fn no_url_or_body_makes_a_profile_panic(url in ".{0,40}", body: Vec<u8>, status in 0u16..700) {
        for profile in Profile::all() {
            let _ = profile.check_key(&minted(), &url);
            let _ = profile.window_for(&url);
            let _ = profile.place_in_body(&body, &minted());
            let response = Response::new(status, Headers::new(), body.clone());
            let _ = profile.says_created(&response, &url);
            let _ = profile.says_in_flight(&response);
        }
    }
}

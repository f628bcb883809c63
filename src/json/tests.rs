use super::*;
use proptest::prelude::*;

const STRIPE: &[u8] = br#"
    {"error": {"type": "idempotency_error", "code": "x\"y", "param": null, "n": -1.5e3},
     "errors": [{"reason": "first"}, {"reason": "second", "deep": [[1], [true]]}],
     "done": false}"#;

/// What stands there without quotes.
fn plain(text: &str) -> Option<Scalar> {
    Some(Scalar {
        quoted: false,
        text: text.into(),
    })
}

#[test]
fn members_and_elements_are_found_by_path() {
    assert_eq!(
        text(STRIPE, "error.type").as_deref(),
        Some("idempotency_error")
    );
    assert_eq!(text(STRIPE, "error.code").as_deref(), Some("x\"y"));
    assert_eq!(text(STRIPE, "errors[1].reason").as_deref(), Some("second"));
    assert_eq!(
        find(STRIPE, "errors[1].deep[1]"),
        None,
        "an array is no scalar"
    );
    assert_eq!(find(STRIPE, "done"), plain("false"));
    assert_eq!(find(STRIPE, "error.n"), plain("-1.5e3"));
    for absent in [
        "error.param",
        "error.nope",
        "errors[2].reason",
        "done.x",
        "error[0]",
        "",
        "errors[x]",
    ] {
        assert_eq!(find(STRIPE, absent), None, "{absent}");
    }
}

#[test]
fn of_a_duplicate_member_the_last_counts() {
    assert_eq!(text(br#"{"a":"1","a":"2"}"#, "a").as_deref(), Some("2"));
    assert_eq!(
        text(br#"{"a":"1","\u0061":"2"}"#, "a").as_deref(),
        Some("2")
    );
}

#[test]
fn escapes_are_resolved_and_lone_surrogates_replaced() {
    let body = br#"{"a":"\u0041\n\ud83d\ude00\ud800!"}"#;
    assert_eq!(text(body, "a").as_deref(), Some("A\n😀\u{fffd}!"));
}

#[test]
fn what_stands_before_a_break_is_still_read() {
    assert_eq!(
        text(br#"{"code":"x","rest":[1,"#, "code").as_deref(),
        Some("x")
    );
    assert_eq!(text(b"<html>", "code"), None);
    assert_eq!(
        text(b"\xef\xbb\xbf {\"a\":\"b\"}", "a").as_deref(),
        Some("b")
    );
}

#[test]
fn broken_text_is_told_from_json() {
    for good in [
        "{}",
        " [] ",
        "0",
        "-0.5E+7",
        "\"\"",
        "null",
        r#"{"a":[1,{"b":"\u00e9"}]}"#,
    ] {
        assert!(!is_broken(good.as_bytes()), "{good}");
    }
    for bad in [
        "",
        "{",
        "{]",
        "[1,]",
        "{\"a\"}",
        "{\"a\":1,}",
        "01",
        "1.",
        "+1",
        "nul",
        "\"\n\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "{} {}",
        "<html></html>",
        "1e",
    ] {
        assert!(is_broken(bad.as_bytes()), "{bad}");
    }
    assert!(is_broken(b"\"\xff\""));
}

#[test]
fn deep_nesting_stops_without_a_verdict() {
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    assert!(!is_broken(&deep));
    assert_eq!(find(&deep, "a"), None);
    assert_eq!(with_member(&deep, "a", "b"), Err(NotAdded::NotAnObject));
}

#[test]
fn a_member_is_added_in_front_and_nothing_else_moves() {
    let add = |text: &str| {
        with_member(text.as_bytes(), "idempotency_key", "k").map(|b| String::from_utf8(b).unwrap())
    };
    assert_eq!(add("{}").unwrap(), r#"{"idempotency_key":"k"}"#);
    assert_eq!(add(" { } ").unwrap(), r#" {"idempotency_key":"k" } "#);
    assert_eq!(
        add("{ \"amount\" : 1.0,\n\"x\":[ ] }").unwrap(),
        "{\"idempotency_key\":\"k\", \"amount\" : 1.0,\n\"x\":[ ] }"
    );
    assert_eq!(add(r#"{"idempotency_key":"old"}"#), Err(NotAdded::Exists));
    assert_eq!(
        add(r#"{"idempotency\u005fkey":null}"#),
        Err(NotAdded::Exists)
    );
    assert!(add(r#"{"nested":{"idempotency_key":"inner"}}"#).is_ok());
    for no_object in ["", "[]", "7", "\"{}\"", "{} x", "{\"a\":}", "amount=1"] {
        assert_eq!(add(no_object), Err(NotAdded::NotAnObject), "{no_object}");
    }
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("finite", |f| f.is_finite())
            .prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::hash_map("[a-z\"\\\\é😀]{1,3}", inner, 0..5)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_bytes_make_the_scanner_panic(bytes: Vec<u8>, path in "[a-z.\\[\\]0-9]{0,12}") {
        let _ = find(&bytes, &path);
        let _ = is_broken(&bytes);
        let _ = with_member(&bytes, "k", "v");
    }

    #[test]
    fn no_almost_json_makes_the_scanner_panic(text in "[{}\\[\\]\",:\\\\u0-9a-f \n.eE+tn-]{0,60}") {
        let _ = find(text.as_bytes(), "a[0].b");
        // A full parser agrees on what is broken.
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        if let Err(e) = &theirs {
            // Two limits of theirs, not of the grammar.
            prop_assume!(!e.to_string().contains("out of range"));
            prop_assume!(!e.to_string().contains("surrogate") && !e.to_string().contains("hex escape"));
        }
        prop_assert_eq!(is_broken(text.as_bytes()), theirs.is_err(), "{}", text);
    }

    #[test]
    fn every_object_takes_a_member_and_keeps_the_rest(value in json(), name in "[a-z_]{4,9}", key in "[!-~]{1,40}") {
        let text = serde_json::to_vec(&value).unwrap();
        prop_assert!(!is_broken(&text));
        match with_member(&text, &name, &key) {
            Ok(more) => {
                let mut read: serde_json::Value = serde_json::from_slice(&more).unwrap();
                prop_assert_eq!(self::text(&more, &name), Some(key.clone()));
                let taken = read.as_object_mut().unwrap().remove(&name);
                prop_assert_eq!(taken, Some(serde_json::Value::from(key)));
                let original: serde_json::Value = serde_json::from_slice(&text).unwrap();
                prop_assert_eq!(read, original);
            }
            Err(NotAdded::NotAnObject) => prop_assert!(!value.is_object()),
            Err(NotAdded::Exists) => prop_assert!(false, "names of four letters are not generated"),
        }
    }
}

use super::*;

fn canon(text: &str) -> String {
    canonical(text.as_bytes()).unwrap()
}

fn print_of(body: &str) -> String {
    fingerprint(Parts {
        method: "POST",
        route: "/orders",
        query: "",
        content_type: Some("application/json"),
        body: body.as_bytes(),
    })
    .unwrap()
}

#[test]
fn m07_e51_spellings_of_one_number_are_equal() {
    for text in ["1", "1.0", "1e0", "10e-1"] {
        assert_eq!(canon(text), "1");
    }
    assert_eq!(canon("-0"), "0");
    assert_eq!(canon("[0.0,-0.0]"), "[0,0]");
}

#[test]
fn m07_e51_numbers_print_as_ecmascript_does() {
    for (text, expected) in [
        ("333333333.33333329", "333333333.3333333"),
        ("1E30", "1e+30"),
        ("4.50", "4.5"),
        ("2e-3", "0.002"),
        ("0.000000000000000000000000001", "1e-27"),
        ("123456789012345680000", "123456789012345680000"),
        ("1e21", "1e+21"),
        ("1.5e300", "1.5e+300"),
        ("0.000001", "0.000001"),
        ("0.0000001", "1e-7"),
        ("-12.5", "-12.5"),
    ] {
        assert_eq!(canon(text), expected);
    }
}

#[test]
fn m07_e52_integers_beyond_a_double_never_collapse() {
    assert_ne!(canon("9007199254740993"), canon("9007199254740992"));
    assert_ne!(canon("-9007199254740993"), canon("-9007199254740992"));
    assert_eq!(canon("9007199254740993"), "9007199254740993");
    assert_eq!(canon("9007199254740992"), "9007199254740992");
    assert_eq!(canonical(b"1e400"), Err(JsonFault::Range(0)));
}

#[test]
fn m07_e53_a_member_given_twice_is_refused() {
    assert_eq!(
        canonical(br#"{"a":1,"a":2}"#),
        Err(JsonFault::Twice("a".into()))
    );
    assert_eq!(
        canonical(br#"{"a":1,"\u0061":2}"#),
        Err(JsonFault::Twice("a".into()))
    );
}

#[test]
fn m07_e54_names_are_ordered_by_utf16_units() {
    // U+1F600 is D83D DE00 in UTF-16 and so comes before U+FB33, though not in UTF-8.
    let text = "{\"\u{fb33}\":1,\"\u{1f600}\":2,\"\u{20ac}\":3,\"\\r\":4,\"1\":5}";
    assert_eq!(
        canon(text),
        "{\"\\r\":4,\"1\":5,\"\u{20ac}\":3,\"\u{1f600}\":2,\"\u{fb33}\":1}"
    );
}

#[test]
fn m07_e55_text_is_not_normalised_and_escapes_are_resolved() {
    assert_ne!(canon("\"\u{e9}\""), canon("\"e\u{301}\""));
    assert_eq!(canon(r#""\u0041\/""#), canon(r#""A/""#));
    assert_eq!(canon(r#""\ud83d\ude00""#), "\"\u{1f600}\"");
    for lone in [
        r#""\ud83d""#,
        r#""\ude00""#,
        r#""\ud83dx""#,
        r#""\ud83d\u0041""#,
    ] {
        assert_eq!(
            canonical(lone.as_bytes()),
            Err(JsonFault::LoneSurrogate(1)),
            "{lone}"
        );
    }
    assert_eq!(canon(r#""\u001f\b\n""#), r#""\u001f\b\n""#);
}

#[test]
fn m07_e56_order_matters_in_arrays_only() {
    assert_eq!(
        print_of(r#"{"a":[1,2],"b":null}"#),
        print_of(" {\"b\" : null,\n\"a\":[1, 2]} ")
    );
    assert_ne!(print_of("[1,2]"), print_of("[2,1]"));
    assert_ne!(print_of(r#"{"a":1,"b":null}"#), print_of(r#"{"a":1}"#));
}

#[test]
fn m07_e57_a_changed_timestamp_is_another_request() {
    assert_ne!(
        print_of(r#"{"at":"10:00:00"}"#),
        print_of(r#"{"at":"10:00:01"}"#)
    );
}

#[test]
fn m07_e58_what_is_not_json_is_compared_byte_for_byte() {
    let form = |body: &'static str, content_type| {
        let parts = Parts {
            method: "POST",
            route: "/orders",
            query: "",
            content_type: Some(content_type),
            body: body.as_bytes(),
        };
        fingerprint(parts).unwrap()
    };
    let kind = "application/x-www-form-urlencoded";
    assert_ne!(form("a=1&b=2", kind), form("b=2&a=1", kind));
    assert_eq!(
        form("a=1", kind),
        form("a=1", "application/x-www-form-urlencoded; charset=utf-8")
    );
    assert_eq!(
        form("{}", "application/json"),
        form("{ }", "application/problem+json; x=y")
    );
}

#[test]
fn m07_method_route_and_query_belong_to_the_fingerprint() {
    let base = Parts {
        method: "POST",
        route: "/orders",
        query: "",
        content_type: None,
        body: b"x",
    };
    let all = [
        base,
        Parts {
            method: "PATCH",
            ..base
        },
        Parts {
            route: "/order",
            query: "s",
            ..base
        },
        Parts {
            query: "a=1",
            ..base
        },
        Parts { body: b"y", ..base },
    ];
    let prints: std::collections::BTreeSet<_> =
        all.into_iter().map(|p| fingerprint(p).unwrap()).collect();
    assert_eq!(prints.len(), all.len());
}

#[test]
fn m07_text_that_is_not_json_is_refused_and_never_panics() {
    for bad in [
        "",
        "{",
        "[1,]",
        "01",
        "1.",
        "+1",
        "\"\\x\"",
        "\"\\u+123\"",
        "nul",
        "{}x",
        "\"\u{1}\"",
    ] {
        assert!(canonical(bad.as_bytes()).is_err(), "{bad}");
    }
    assert!(canonical(b"\"\xff\"").is_err());
    assert_eq!(
        canonical("[".repeat(5000).as_bytes()),
        Err(JsonFault::Depth)
    );
}

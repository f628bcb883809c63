//! The JSON that answers carry, read by our own scanner and, as a witness, by a whole parser.

use crate::{Check, Target, rule, shape, texts};
use samekey::profile::Profile;
use samekey::retry::classify::{Action, Context, Reason, Verdict, answer};
use samekey::{Headers, Response, Timestamp};
use serde::de::IgnoredAny;
use serde_json::Value;
use std::sync::LazyLock;

pub(crate) const TARGET: Target = Target {
    name: "problem",
    check: |data| check(answer, data),
    planted: &[|data| check(by_looking_for_words, data)],
    words: &[
        "\"type\":",
        "\"title\":",
        "\"code\":",
        "\"error\":{",
        "\"errors\":[{",
        "}]",
        "\"abnormal-usage-detected\"",
        "\"idempotency-key-in-use\"",
        "\"urn:x:key-reused\"",
        "\"Idempotency-Key is missing\"",
        "\\u0074ype",
        "\u{feff}",
        "\"detail\":",
        "[[[[[[[[",
        "]]]]]]]]",
        "1e5",
        "-0",
        "\\\"",
        "\\ud800",
    ],
    made: || {
        texts(&[
            r#"{"type":"https://example.com/problems#in-flight","title":"still running","status":409}"#,
            r#"{"error":{"type":"idempotency_error","code":"mismatch"}}"#,
            r#"{"errors":[{"code":"IDEMPOTENCY_KEY_REUSED"}]}"#,
            r#"{"type":"urn:abnormal-usage-detected","detail":"slow down"}"#,
            r#"{"a":[1,-2.5e3,true,false,null,{"b":"\u00e9\n"}],"type":"x"}"#,
        ])
    },
};

type Classify = fn(&Response, &Context<'_>) -> Verdict;

/// A bug: the words count wherever they stand, in a member's name or in prose too.
fn by_looking_for_words(response: &Response, context: &Context<'_>) -> Verdict {
    let body = String::from_utf8_lossy(response.content.bytes().unwrap_or_default()).into_owned();
    let mut verdict = answer(response, context);
    if response.status == 429 && body.contains("abnormal-usage-detected") {
        verdict.action = Action::Attend(Reason::Throttled);
    }
    verdict
}

fn respond(classify: Classify, status: u16, body: &[u8], in_doubt: bool) -> Verdict {
    let mut headers = Headers::new();
    let _fits = headers.push("content-type", "application/problem+json");
    static PROFILE: LazyLock<Profile> = LazyLock::new(Profile::default);
    let context = Context {
        profile: &PROFILE,
        url: "https://api.example.com/orders",
        attempt: 2,
        in_doubt,
        used: &[],
        now: Timestamp::from_millis(0),
    };
    classify(&Response::new(status, headers, body), &context)
}

fn check(classify: Classify, body: &[u8]) -> Check {
    // Deeper than this the two readers give up at different depths.
    let flat = body.iter().filter(|b| matches!(b, b'[' | b'{')).count() < 90;
    let text = std::str::from_utf8(body);
    let json = |text: &str| {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        serde_json::from_str::<IgnoredAny>(text).is_ok()
    };
    let sound = body.is_empty() || text.is_ok_and(json);
    let success = respond(classify, 200, body, true).action;
    if flat {
        rule(
            matches!(success, Action::Succeed(_)) == sound,
            "a success is one if its body is JSON, and only then",
        )?;
    }
    let value: Option<Value> = serde_json::from_slice(body).ok().filter(|_| flat);
    let throttled = respond(classify, 429, body, false).action;
    if let Some(value) = &value {
        let kind = value["type"].as_str().unwrap_or_default();
        let abuse = kind.ends_with("abnormal-usage-detected");
        rule(
            (throttled == Action::Attend(Reason::Throttled)) == abuse,
            "a problem's type is read where it stands",
        )?;
    }
    let mut seen = vec![discriminant(&success), discriminant(&throttled)];
    for status in [400, 409, 422] {
        for in_doubt in [false, true] {
            let verdict = respond(classify, status, body, in_doubt);
            seen.push(discriminant(&verdict.action));
            spoken(&verdict, value.as_ref(), in_doubt)?;
            rule(!quotes(&verdict.reason, body), "a reason quotes no body")?;
        }
    }
    Ok(shape(&(seen, sound, body.len() / 32)))
}

fn spoken(verdict: &Verdict, value: Option<&Value>, in_doubt: bool) -> Result<(), String> {
    rule(
        !in_doubt || verdict.action != Action::Reject,
        "a refusal without a mark never settles what is in doubt",
    )?;
    let about_keys = matches!(
        verdict.action,
        Action::Attend(Reason::KeyMismatch) | Action::StillRunning(_)
    );
    let Some(value) = value.filter(|_| about_keys) else {
        return Ok(());
    };
    let places = [
        &value["type"],
        &value["title"],
        &value["code"],
        &value["error"],
        &value["error"]["type"],
        &value["error"]["code"],
        &value["errors"][0]["code"],
    ];
    let of_keys = places
        .iter()
        .filter_map(|place| place.as_str())
        .any(|text| {
            let text = text.to_ascii_lowercase();
            ["idempoten", "key", "flight"]
                .iter()
                .any(|word| text.contains(word))
        });
    rule(
        of_keys,
        "only what speaks of the key is taken to speak of it",
    )
}

pub(crate) fn discriminant(action: &Action) -> String {
    match action {
        Action::Attend(reason) => format!("{reason:?}"),
        Action::TryAgain(again) => format!("again {:?} {}", again.once, again.at_once),
        other => format!("{other:?}").chars().take(12).collect(),
    }
}

/// Whether a long word of the body stands in the reason. No word of ours has sixteen letters.
pub(crate) fn quotes(reason: &str, body: &[u8]) -> bool {
    let words = body.split(|b| !b.is_ascii_alphanumeric());
    words.filter(|word| word.len() >= 16).any(|word| {
        reason
            .as_bytes()
            .windows(word.len())
            .any(|part| part == word)
    })
}

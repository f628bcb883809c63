//! Who asks, and under which key.

use super::Incoming;
use crate::fingerprint::sha256_hex;
use crate::naughty::Naughty;
use crate::profile::Carrier;
use crate::settings::{KeySyntax, Settings};
use serde_json::Value;

/// The tenant: the bearer token up to a `~`, so that `acme~1` and `acme~2` are two tokens of one
/// principal; without credential the address. Long tokens are shown as a digest only.
pub(crate) fn tenant_of(incoming: &Incoming) -> String {
    let Some(credential) = incoming.header("authorization") else {
        return format!("ip:{}", incoming.peer);
    };
    let token = credential
        .split_once(' ')
        .map_or(credential, |(_, token)| token)
        .trim();
    let principal = token.split('~').next().unwrap_or(token);
    let plain = !principal.is_empty()
        && principal.len() <= 32
        && principal.bytes().all(|b| b.is_ascii_graphic());
    if plain {
        return principal.to_owned();
    }
    format!("token-{}", &sha256_hex(principal.as_bytes())[..8])
}

/// The key of a request, or why it cannot be accepted. Nothing is looked up before this passed.
pub(crate) fn key_of(
    settings: &Settings,
    incoming: &Incoming,
    body: &Value,
) -> Result<Option<String>, String> {
    let key = match settings.profile.carrier() {
        Carrier::Body(member) => match body.get(member) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(key)) => key.clone(),
            Some(_) => return Err(format!("`{member}` must be a string.")),
        },
        Carrier::Header(name) => {
            let mut lines = incoming.all(name);
            let Some(line) = lines.next() else {
                return Ok(None);
            };
            let any = settings.naughty.has(Naughty::AnyKey);
            if any {
                return Ok(Some(line.to_owned()));
            }
            if lines.next().is_some() {
                return Err(format!("`{name}` was sent twice."));
            }
            unquote(line.trim(), settings.key_syntax)?
        }
    };
    if settings.naughty.has(Naughty::AnyKey) {
        return Ok(Some(key));
    }
    let longest = settings.profile.max_key();
    if key.is_empty() || key.len() > longest {
        return Err(format!("A key has 1 to {longest} characters."));
    }
    if !key.bytes().all(|b| b.is_ascii_graphic()) {
        return Err("A key holds printable ASCII without spaces.".into());
    }
    Ok(Some(key))
}

/// Takes the quotes of a structured-field string away.
fn unquote(line: &str, syntax: KeySyntax) -> Result<String, String> {
    let Some(quoted) = line.strip_prefix('"') else {
        if syntax == KeySyntax::Quoted {
            return Err("The key must be a quoted string.".into());
        }
        if line.contains(',') {
            return Err("One key, not a list.".into());
        }
        return Ok(line.to_owned());
    };
    if syntax == KeySyntax::Bare {
        return Err("The key must not be quoted.".into());
    }
    let mut key = String::new();
    let mut chars = quoted.chars();
    loop {
        match chars.next() {
            Some('"') if chars.as_str().trim().is_empty() => return Ok(key),
            Some('\\') => match chars.next() {
                Some(c @ ('"' | '\\')) => key.push(c),
                _ => return Err("A backslash must escape a quote or a backslash.".into()),
            },
            Some('"') => return Err("One quoted string and nothing else.".into()),
            Some(c) => key.push(c),
            None => return Err("The closing quote is missing.".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    fn request(headers: &[(&str, &str)]) -> Incoming {
        Incoming {
            method: "POST".into(),
            path: "/orders".into(),
            query: String::new(),
            headers: headers
                .iter()
                .map(|(n, v)| ((*n).into(), (*v).into()))
                .collect(),
            body: bytes::Bytes::new(),
            peer: "127.0.0.1".into(),
            http: "1.1",
        }
    }

    fn key(syntax: KeySyntax, values: &[&str]) -> Result<Option<String>, String> {
        let settings = Settings {
            key_syntax: syntax,
            ..Settings::default()
        };
        let headers: Vec<_> = values.iter().map(|v| ("Idempotency-Key", *v)).collect();
        key_of(&settings, &request(&headers), &Value::Null)
    }

    #[test]
    fn m02_bare_and_quoted_keys_by_the_knob() {
        assert_eq!(key(KeySyntax::Either, &["abc"]), Ok(Some("abc".into())));
        assert_eq!(key(KeySyntax::Either, &["\"abc\""]), Ok(Some("abc".into())));
        assert_eq!(
            key(KeySyntax::Quoted, &[r#""a\"b\\c""#]),
            Ok(Some(r#"a"b\c"#.into()))
        );
        assert!(key(KeySyntax::Quoted, &["abc"]).is_err());
        assert!(key(KeySyntax::Bare, &["\"abc\""]).is_err());
        assert_eq!(key(KeySyntax::Either, &[]), Ok(None));
    }

    #[test]
    fn m02_lists_wrong_letters_and_wrong_lengths_are_refused() {
        let long = "x".repeat(256);
        for bad in [
            "",
            "a,b",
            "a b",
            "\"a",
            "\"a\"b",
            "\"a\\n\"",
            "\"a\", \"b\"",
            "schl\u{fc}ssel",
            &long,
        ] {
            assert!(key(KeySyntax::Either, &[bad]).is_err(), "{bad}");
        }
        assert!(key(KeySyntax::Either, &["a", "a"]).is_err());
        assert!(key(KeySyntax::Either, &[&long[..255]]).is_ok());
    }

    #[test]
    fn m02_square_carries_its_key_in_the_body() {
        let mut settings = Settings::default();
        Profile::Square.apply(&mut settings);
        let of = |body: &Value| key_of(&settings, &request(&[]), body);
        assert_eq!(
            of(&serde_json::json!({ "idempotency_key": "k" })),
            Ok(Some("k".into()))
        );
        assert_eq!(of(&serde_json::json!({})), Ok(None));
        assert!(of(&serde_json::json!({ "idempotency_key": 7 })).is_err());
        assert!(of(&serde_json::json!({ "idempotency_key": "x".repeat(46) })).is_err());
    }

    #[test]
    fn m03_the_tenant_is_the_principal_of_the_credential() {
        let of = |value: &str| tenant_of(&request(&[("authorization", value)]));
        assert_eq!(of("Bearer acme"), "acme");
        assert_eq!(of("Bearer acme~2"), "acme");
        let secret = "x".repeat(64);
        let shown = of(&format!("Bearer {secret}"));
        assert!(
            shown.starts_with("token-") && !shown.contains("xxxx"),
            "{shown}"
        );
        assert_eq!(tenant_of(&request(&[])), "ip:127.0.0.1");
    }
}

//! What a browser needs to be told before it shows an answer to a page from elsewhere.

use crate::answer::Answer;
use crate::settings::Settings;

const ALLOW: &[&str] = &[
    "Idempotency-Key",
    "PayPal-Request-Id",
    "Authorization",
    "Content-Type",
    "Prefer",
    "Mock-Fault",
];
const EXPOSE: &[&str] = &[
    "Retry-After",
    "Idempotent-Replayed",
    "Idempotency-Key-Expires",
    "Location",
    "Operation-Location",
    "RateLimit",
    "RateLimit-Policy",
    "Link",
    "Date",
];

fn list(names: &[&str], settings: &Settings) -> String {
    let kept = names.iter().filter(|name| !omits(settings, name));
    kept.copied().collect::<Vec<_>>().join(", ")
}

fn omits(settings: &Settings, name: &str) -> bool {
    settings
        .cors_omit
        .iter()
        .any(|omitted| omitted.eq_ignore_ascii_case(name))
}

/// Adds the headers to any answer, errors included.
pub(super) fn dress(settings: &Settings, answer: Answer) -> Answer {
    let mut dressed = answer;
    if !omits(settings, "Access-Control-Allow-Origin") {
        dressed = dressed.header("access-control-allow-origin", "*");
    }
    if !omits(settings, "Access-Control-Expose-Headers") {
        dressed = dressed.header("access-control-expose-headers", &list(EXPOSE, settings));
    }
    dressed
}

/// The answer to a preflight.
pub(super) fn preflight(settings: &Settings) -> Answer {
    let mut answer = Answer::new(204);
    if !omits(settings, "Access-Control-Allow-Headers") {
        answer = answer.header("access-control-allow-headers", &list(ALLOW, settings));
    }
    answer
        .header(
            "access-control-allow-methods",
            "GET, POST, PUT, PATCH, DELETE",
        )
        .header("access-control-max-age", "600")
}

//! What an answer says of the key, if it speaks of it.

use crate::json;
use crate::message::{Response, place_of};
use crate::profile::Profile;

/// What was said of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The first request under it is still running.
    InFlight,
    /// It belongs to another request.
    Reused,
    /// It is missing, malformed or unwelcome.
    Refused,
}

/// Where machine-readable codes are found; `detail` and `message` are prose and are not read.
const CODES: [&str; 7] = [
    "type",
    "title",
    "code",
    "error",
    "error.type",
    "error.code",
    "errors[0].code",
];

const REUSED: [&str; 5] = [
    "reuse",
    "mismatch",
    "different",
    "already used",
    "another request",
];
const IN_FLIGHT: [&str; 10] = [
    "in flight",
    "in use",
    "in progress",
    "outstanding",
    "concurrent",
    "processing",
    "running",
    "locked",
    "pending",
    "progress",
];
const REFUSED: [&str; 5] = ["missing", "required", "invalid", "malformed", "too long"];

/// The profile's own signs first, then problems that speak of the key.
pub(super) fn meaning(response: &Response, profile: &Profile) -> Option<Meaning> {
    if profile.says_mismatch(response) {
        Some(Meaning::Reused)
    } else if profile.says_in_flight(response) {
        Some(Meaning::InFlight)
    } else if profile.says_key_refused(response) {
        Some(Meaning::Refused)
    } else if profile.knows_keys() {
        problem(response)
    } else {
        None
    }
}

/// What a problem says that speaks of the key. What it leaves open its status decides, as in the
/// draft: 409 in flight, 422 reused, 400 refused.
fn problem(response: &Response) -> Option<Meaning> {
    let by_status = match response.status {
        400 => Meaning::Refused,
        409 => Meaning::InFlight,
        422 => Meaning::Reused,
        _ => return None,
    };
    let body = response.content.bytes()?;
    // One text after the other, in lines of their own; no word that is looked for holds a break.
    let (mut words, mut speaks) = (String::new(), false);
    for path in CODES {
        let Some(text) = json::text(body, path) else {
            continue;
        };
        let from = words.len() + 1;
        words.push('\n');
        for c in text.chars() {
            words.push(match c {
                '-' | '_' => ' ',
                _ => c.to_ascii_lowercase(),
            });
        }
        speaks |= is_kind(&words[from..]);
    }
    let says = |list: &[&str]| list.iter().any(|word| place_of(&words, word).is_some());
    if !speaks && !says(&["idempoten"]) {
        return None;
    }
    Some(if says(&REUSED) {
        Meaning::Reused
    } else if says(&IN_FLIGHT) {
        Meaning::InFlight
    } else if says(&REFUSED) {
        Meaning::Refused
    } else {
        by_status
    })
}

/// Whether a problem's type ends in a name that only problems of keys have.
fn is_kind(text: &str) -> bool {
    let mark = text.bytes().rposition(|byte| b"/#:".contains(&byte));
    matches!(
        text.get(mark.map_or(0, |at| at + 1)..).unwrap_or_default(),
        "key reused" | "in flight" | "key missing" | "key invalid" | "key required"
    )
}

//! What an answer says of the key, if it speaks of it.

use crate::json;
use crate::message::{Response, parts, place_in};
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
const CODES: &str = "type|title|code|error|error.type|error.code|errors[0].code";

const REUSED: &str = "reuse|mismatch|different|already used|another request";
const IN_FLIGHT: &str = "in flight|in use|in progress|outstanding|concurrent|processing|running|locked|\
    pending|progress";
const REFUSED: &str = "missing|required|invalid|malformed|too long";

/// Names that only problems of keys have.
const KINDS: &str = "key reused|in flight|key missing|key invalid|key required";

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
    let (mut words, mut speaks) = (Vec::new(), false);
    for path in parts(CODES, b'|') {
        let Some(text) = json::text(body, path) else {
            continue;
        };
        words.push(b'\n');
        for byte in text.bytes() {
            words.push(match byte {
                b'-' | b'_' => b' ',
                _ => byte.to_ascii_lowercase(),
            });
        }
        speaks |= parts(KINDS, b'|').any(|kind| ends_in(&words, kind));
    }
    let says = |list: &str| parts(list, b'|').any(|word| place_in(&words, word).is_some());
    if !speaks && !says("idempoten") {
        return None;
    }
    Some(if says(REUSED) {
        Meaning::Reused
    } else if says(IN_FLIGHT) {
        Meaning::InFlight
    } else if says(REFUSED) {
        Meaning::Refused
    } else {
        by_status
    })
}

/// Whether the last line is this name, or a URL or URN that ends in it.
fn ends_in(words: &[u8], name: &str) -> bool {
    let before = words.strip_suffix(name.as_bytes());
    matches!(
        before.and_then(|before| before.last()),
        Some(b'\n' | b'/' | b'#' | b':')
    )
}

//! When the server asks to be asked again.
//!
//! `Retry-After` comes as seconds or as a date. A date is the server's, so it is measured against
//! the server's own `Date`: a laptop whose clock is ten minutes fast would otherwise return at once
//! and be told to wait again. A wait is never shorter than the server asked; jitter only lengthens
//! it, because everybody who was told the same moment would come back at the same moment.

use super::backoff::share;
use crate::message::Headers;
use crate::time::Timestamp;
use std::time::{Duration, UNIX_EPOCH};

/// The longest wait believed of a date that could only be compared with the local clock: whoever's
/// clock is a year slow must not wait for a year.
pub const LONGEST_UNCORRECTED: Duration = Duration::from_secs(24 * 3600);

/// Rate limits longer than this are the server's mistake or its joke.
const FIFTY_YEARS: Duration = Duration::from_secs(50 * 366 * 24 * 3600);

/// How long the server asks to wait: [`asked`], or else what its [`rate_limit`] fields say.
///
/// ```
/// use samekey::{Headers, Timestamp, retry::retry_after::hint};
/// use std::time::Duration;
///
/// let mut headers = Headers::new();
/// headers.push("Date", "Sun, 06 Nov 1994 08:49:37 GMT")?;
/// headers.push("Retry-After", "Sun, 06 Nov 1994 08:49:44 GMT")?;
/// let any_clock = Timestamp::from_millis(0);
/// assert_eq!(hint(&headers, any_clock), Some(Duration::from_secs(7)));
/// # Ok::<(), samekey::InvalidMessage>(())
/// ```
#[must_use]
pub fn hint(headers: &Headers, now: Timestamp) -> Option<Duration> {
    asked(headers, now).or_else(|| rate_limit(headers))
}

/// What `Retry-After` says, or one of its cousins in milliseconds; of several the longest.
///
/// What does not follow the grammar is treated as absent.
#[must_use]
#[inline(never)]
pub fn asked(headers: &Headers, now: Timestamp) -> Option<Duration> {
    let whole = headers
        .get_all("retry-after")
        .filter_map(|value| seconds(value).or_else(|| until(value, headers, now)));
    let exact = ["retry-after-ms", "x-ms-retry-after-ms"]
        .into_iter()
        .flat_map(|name| headers.get_all(name))
        .filter_map(|value| digits(value).map(Duration::from_millis));
    whole.chain(exact).max()
}

/// What `RateLimit` says: of the quotas with nothing left, the longest time until they refill.
///
/// A field that is malformed anywhere is ignored as a whole, and so is one from a cache.
#[must_use]
pub fn rate_limit(headers: &Headers) -> Option<Duration> {
    if headers.get("age").is_some() {
        return None;
    }
    let lines: Vec<_> = headers.get_all("ratelimit").collect();
    let mut longest = None;
    for item in split_outside_strings(&lines.join(","), ',')? {
        let mut parts = split_outside_strings(item, ';')?.into_iter();
        if !is_item(parts.next()?.trim()) {
            return None;
        }
        let (mut left, mut reset) = (None, None);
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            match name.trim() {
                "r" => left = Some(digits(value)?),
                "t" => reset = Some(Duration::from_secs(digits(value)?)),
                _ => {}
            }
        }
        if left == Some(0) {
            longest = longest.max(reset);
        }
    }
    longest
}

/// How long to wait: never less than the server asked, never less than `floor`.
///
/// `backoff` is the schedule's own wait, jitter included; `roll` lengthens a wait that the server
/// gave by up to a tenth.
///
/// ```
/// use samekey::retry::retry_after::wait;
/// use std::time::Duration;
///
/// let (none, second) = (Duration::ZERO, Duration::from_secs(1));
/// assert_eq!(wait(Some(7 * second), second, none, 0), 7 * second);
/// assert_eq!(wait(Some(7 * second), second, none, u64::MAX), Duration::from_millis(7_700));
/// // "Retry-After: 0" is no leave to hammer.
/// assert!(wait(Some(none), second, none, 0) >= second);
/// assert_eq!(wait(None, second, none, 0), second);
/// ```
#[must_use]
pub fn wait(hint: Option<Duration>, backoff: Duration, floor: Duration, roll: u64) -> Duration {
    let Some(hint) = hint else {
        // Below the floor the schedule's draw goes on top of it: a plain maximum would make all
        // short draws alike.
        return if backoff < floor {
            floor.saturating_add(backoff)
        } else {
            backoff
        };
    };
    let hint = if crate::planted::is(19) {
        hint / 1000
    } else {
        hint
    };
    let least = hint.max(backoff).max(floor);
    let room = (least / 10).clamp(Duration::from_millis(100), Duration::from_secs(10));
    least.saturating_add(share(room, roll))
}

/// How far ahead the date in `value` lies; zero if it has passed.
///
/// Measured against the response's `Date` where that can be read and is not a cache's.
pub(crate) fn until(value: &str, headers: &Headers, now: Timestamp) -> Option<Duration> {
    let asked = date(value)?;
    let from = match headers.get("age") {
        None => headers.get("date").and_then(date),
        Some(_) => None,
    };
    let two_digit_year = value.bytes().any(|b| b == b'-');
    let ahead = asked.since(from.unwrap_or(now));
    if two_digit_year && ahead > FIFTY_YEARS {
        return Some(Duration::ZERO);
    }
    Some(if from.is_some() {
        ahead
    } else {
        ahead.min(LONGEST_UNCORRECTED)
    })
}

/// An HTTP date in any of its three forms.
fn date(value: &str) -> Option<Timestamp> {
    let since = httpdate::parse_http_date(value)
        .ok()?
        .duration_since(UNIX_EPOCH)
        .ok()?;
    Some(Timestamp::default() + since)
}

fn seconds(value: &str) -> Option<Duration> {
    digits(value).map(Duration::from_secs)
}

/// Digits and nothing else; more than fit are as many as fit.
fn digits(value: &str) -> Option<u64> {
    let all_digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    all_digits.then(|| value.parse().unwrap_or(u64::MAX))
}

/// Splits at `separator` where it does not stand inside quotes; nothing if a quote stays open.
fn split_outside_strings(text: &str, separator: char) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            c if c == separator && !quoted => {
                parts.extend(text.get(start..at));
                start = at + separator.len_utf8();
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..));
    (!quoted).then_some(parts)
}

/// A quota's name: a quoted string or a token.
fn is_item(text: &str) -> bool {
    let string = text.len() >= 2 && text.starts_with('"') && text.ends_with('"');
    let token = text
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"_-.:*/%!#$&'^`|~+".contains(&b));
    !text.is_empty() && (string || token)
}

#[cfg(test)]
mod tests;

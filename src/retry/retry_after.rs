//! When the server asks to be asked again.
//!
//! `Retry-After` comes as seconds or as a date. A date is the server's, so it is measured against
//! the server's own `Date`: a laptop whose clock is ten minutes fast would otherwise return at once
//! and be told to wait again. A wait is never shorter than the server asked; jitter only lengthens
//! it, because everybody who was told the same moment would come back at the same moment.

mod date;

use super::backoff::share;
use crate::message::{Headers, around, number};
use crate::time::Timestamp;
use date::date;
use std::time::Duration;

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
pub fn asked(headers: &Headers, now: Timestamp) -> Option<Duration> {
    let mut longest = None;
    for (name, value) in headers.iter() {
        let count = number(value);
        longest = longest.max(match name {
            "retry-after" => match count {
                Some(seconds) => Some(Duration::from_secs(seconds)),
                None => until(value, headers, now),
            },
            "retry-after-ms" | "x-ms-retry-after-ms" => count.map(Duration::from_millis),
            _ => None,
        });
    }
    longest
}

/// What `RateLimit` says: of the quotas with nothing left, the longest time until they refill.
///
/// A field that is malformed anywhere is ignored as a whole, and so is one from a cache.
#[must_use]
pub fn rate_limit(headers: &Headers) -> Option<Duration> {
    if headers.get("age").is_some() {
        return None;
    }
    let mut longest = None;
    for line in headers.get_all("ratelimit") {
        let (mut rest, mut named) = (line, false);
        let (mut left, mut reset) = (None, None);
        loop {
            let (part, mark, after) = divided(rest)?;
            let (name, value) = around(part, b'=').unwrap_or((part, ""));
            match name.trim_ascii() {
                _ if !named => named = is_item(part.trim_ascii()).then_some(true)?,
                "r" => left = Some(number(value)?),
                "t" => reset = Some(number(value)?),
                _ => {}
            }
            if mark != b';' {
                // The end of a quota, which counts if nothing is left of it.
                if left == Some(0) {
                    longest = longest.max(reset);
                }
                (named, left, reset) = (false, None, None);
            }
            if mark == 0 {
                break;
            }
            rest = after;
        }
    }
    longest.map(Duration::from_secs)
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
        hint.checked_div(1000).unwrap_or(hint)
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

/// What stands before the first `,` or `;` outside quotes, which of them it is (none at the end), and
/// what comes after it; nothing if a quote stays open.
fn divided(text: &str) -> Option<(&str, u8, &str)> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b';' if !quoted => {
                return Some((text.get(..at)?, byte, text.get(at + 1..)?));
            }
            _ => {}
        }
    }
    (!quoted).then_some((text, 0, ""))
}

/// What else a token may hold: any of `_-.:*/%!#$&'^`|~+`.
fn is_mark(byte: u8) -> bool {
    matches!(
        byte,
        b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-'..=b'/' | b':' | b'^'..=b'`' | b'|' | b'~'
    )
}

/// A quota's name: a quoted string or a token.
fn is_item(text: &str) -> bool {
    let string = text.len() >= 2 && text.starts_with('"') && text.ends_with('"');
    let token = text
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || is_mark(b));
    !text.is_empty() && (string || token)
}

#[cfg(test)]
mod tests;

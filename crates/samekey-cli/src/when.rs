//! Time as people type it and read it.

use samekey::Timestamp;
use samekey::clock::Clock;
use samekey::platform::native::SystemClock;
use std::time::Duration;

/// The time now.
pub(crate) fn now() -> Timestamp {
    SystemClock.now().wall
}

/// Time that only moves forward, from some moment on.
pub(crate) fn monotonic() -> Duration {
    SystemClock.now().monotonic
}

const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// Reads `500ms`, `20s`, `1h30m`, `7d`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration; write it as 500ms, 20s, 5m, 1h30m or 7d");
    let mut total: u64 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at(letters);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let (_, millis) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(wrong)?;
        total = number
            .checked_mul(*millis)
            .and_then(|part| total.checked_add(part))
            .ok_or_else(wrong)?;
        rest = after;
    }
    Ok(Duration::from_millis(total))
}

/// A duration in a few characters: `0.4 s`, `12 s`, `3 m`, `5 h`, `9 d`.
pub(crate) fn short(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..120 => format!("{seconds} s"),
        120..7200 => format!("{} m", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Reads a moment: a duration before now, a day, or a day and a time in UTC.
pub(crate) fn parse_since(text: &str) -> Result<Timestamp, String> {
    if let Ok(ago) = parse_duration(text) {
        return Ok(now().before(ago));
    }
    parse_moment(text).ok_or_else(|| {
        format!(
            "{text:?} is no time; write how long ago (2h, 7d), a day (2026-01-31) or a moment \
             (2026-01-31T18:00:00Z)"
        )
    })
}

fn parse_moment(text: &str) -> Option<Timestamp> {
    let (day, time) = text.split_once('T').unwrap_or((text, "00:00:00Z"));
    let mut parts = day.splitn(3, '-').map(str::parse::<u64>);
    let (year, month, day) = (
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next()?.ok()?,
    );
    let time = time.strip_suffix('Z')?;
    let mut parts = time.splitn(3, ':').map(str::parse::<u64>);
    let (hour, minute) = (parts.next()?.ok()?, parts.next()?.ok()?);
    let second = parts.next().unwrap_or(Ok(0)).ok()?;
    let possible = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    possible.then(|| {
        let days = days_before(year, month, day);
        Timestamp::from_millis((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000)
    })
}

/// Days from 1970-01-01, in the Gregorian calendar.
fn days_before(year: u64, month: u64, day: u64) -> u64 {
    // March first: the leap day is then the year's last.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    days - 719_468
}

/// A moment as `2026-01-31T18:00:00Z`.
pub(crate) fn moment(at: Timestamp) -> String {
    let seconds = at.as_millis() / 1000;
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (year * 365 + year / 4 - year / 100);
    let month = (of_year * 5 + 2) / 153;
    let day = of_year - (month * 153 + 2) / 5 + 1;
    let (year, month) = if month < 10 {
        (year + era * 400, month + 3)
    } else {
        (year + era * 400 + 1, month - 9)
    };
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, millis) in [
            ("500ms", 500),
            ("20s", 20_000),
            ("1h30m", 5_400_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)));
        }
        for text in [
            "",
            "20",
            "s",
            "1.5s",
            "-3s",
            "20 s",
            "99999999999999999999s",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn moments_are_read_and_written_the_same() {
        for text in [
            "1970-01-01T00:00:00Z",
            "2000-02-29T23:59:59Z",
            "2026-11-18T01:06:24Z",
            "2100-03-01T00:00:00Z",
            "2400-12-31T12:00:00Z",
        ] {
            assert_eq!(moment(parse_moment(text).unwrap()), text);
        }
        let of = |text| parse_moment(text).map(Timestamp::as_millis);
        assert_eq!(of("2026-01-31"), of("2026-01-31T00:00Z"));
        assert_eq!(of("1970-01-02"), Some(86_400_000));
        for text in [
            "yesterday",
            "2026-13-01",
            "2026-01-31T18:00:00",
            "1969-01-01",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn short_durations_fit_a_column() {
        let of = |millis| short(Duration::from_millis(millis));
        assert_eq!(of(370), "0.4 s");
        assert_eq!(of(95_000), "95 s");
        assert_eq!(of(3 * 3_600_000), "3 h");
        assert_eq!(of(400 * 86_400_000), "400 d");
    }
}

//! An HTTP date in any of its three forms.
//!
//! By hand: a page downloads it, and a general reader of dates is ten times as large. A test holds it
//! against one.

use crate::time::Timestamp;

const DAYS: [&str; 7] = [
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
];
const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";

/// What follows the day's name, the full one and the short one. A letter stands for a digit, or a
/// letter, of its field; for `_` a space does, too.
const LONG: &[u8] = b", DD-OOO-YY hh:mm:ss GMT";
const SHORT: &[u8] = b", DD OOO YYYY hh:mm:ss GMT";
const ASCTIME: &[u8] = b" OOO _D hh:mm:ss YYYY";

pub(super) fn date(text: &str) -> Option<Timestamp> {
    let named = |name: &&str| text.get(..3) == name.get(..3);
    let weekday = DAYS.iter().position(named)?;
    let (year, fields) = match text.strip_prefix(DAYS[weekday]) {
        Some(rest) => {
            let fields = read(LONG, rest)?;
            let century = if fields[0] < 70 { 2000 } else { 1900 };
            (century + fields[0], fields)
        }
        None => {
            let rest = text.get(3..)?;
            let fields = read(SHORT, rest).or_else(|| read(ASCTIME, rest))?;
            (fields[0], fields)
        }
    };
    let [_, name, day, hour, minute, second] = fields;
    let mut months = MONTHS.chunks(3);
    let month = months.position(|month| number(month, 256) == name)? as u32;
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = match month {
        1 => 28 + u32::from(leap),
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    };
    if year < 1970 || !(1..=length).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // Years begin in March here, so that a leap day is the last of its year.
    let (march, begun) = ((month + 10) % 12, year - u32::from(month < 2));
    let leaps = begun / 4 - begun / 100 + begun / 400;
    let days = begun * 365 + leaps + (march * 153 + 2) / 5 + day - 719_469;
    let seconds = u64::from(days * 24 + hour) * 3600 + u64::from(minute * 60 + second);
    (days as usize % 7 == weekday).then(|| Timestamp::from_millis(seconds * 1000))
}

/// The fields `YODhms` of a text that fits the pattern.
fn read(pattern: &[u8], text: &str) -> Option<[u32; 6]> {
    let mut fields = [0; 6];
    if pattern.len() != text.len() {
        return None;
    }
    for (&shape, byte) in pattern.iter().zip(text.bytes()) {
        let padded = shape == b'_' && byte == b' ';
        let letter = if shape == b'_' { b'D' } else { shape };
        let Some(field) = b"YODhms".iter().position(|field| *field == letter) else {
            if shape != byte {
                return None;
            }
            continue;
        };
        fields[field] = match byte {
            _ if shape == b'O' => fields[field] * 256 + u32::from(byte),
            b'0'..=b'9' => fields[field] * 10 + u32::from(byte - b'0'),
            _ if padded => 0,
            _ => return None,
        };
    }
    Some(fields)
}

/// Digits, or letters, as one number.
fn number(digits: &[u8], base: u32) -> u32 {
    digits
        .iter()
        .fold(0, |number, digit| number * base + u32::from(*digit))
}

#[cfg(test)]
mod tests {
    use super::{Timestamp, date};
    use proptest::prelude::*;
    use std::time::{Duration, UNIX_EPOCH};

    /// What a general reader makes of it.
    fn expected(text: &str) -> Option<u64> {
        let time = httpdate::parse_http_date(text).ok()?;
        Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs() * 1000)
    }

    fn read(text: &str) -> Option<u64> {
        date(text).map(Timestamp::as_millis)
    }

    #[test]
    fn the_first_year_of_two_digits_is_1970_and_the_last_2069() {
        assert_eq!(read("Thursday, 01-Jan-70 00:00:07 GMT"), Some(7_000));
        let last = "Tuesday, 31-Dec-69 23:59:59 GMT";
        assert!(read(last).is_some() && read(last) == expected(last));
    }

    proptest! {
        #[test]
        fn every_second_until_the_year_9999_is_read_as_a_general_reader_reads_it(seconds in 0u64..253_402_300_800) {
            let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
            prop_assert_eq!(read(&text), Some(seconds * 1000));
        }

        #[test]
        fn what_is_nearly_a_date_is_never_read_as_another_time(
            form in 0..3, weekday in 0..7usize, day in 0..33u32, month in 0..13usize, year in 1960..2110u32,
            hour in 0..26u32, minute in 0..62u32, second in 0..62u32, at in 0..40usize, put in "[ -~]", spoil: bool,
        ) {
            let long = super::DAYS[weekday];
            let short = &long[..3];
            let month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "dec"][month];
            let time = format!("{hour:02}:{minute:02}:{second:02}");
            let mut text = match form {
                0 => format!("{short}, {day:02} {month} {year} {time} GMT"),
                1 => format!("{long}, {day:02}-{month}-{:02} {time} GMT", year % 100),
                _ => format!("{short} {month} {day:>2} {time} {year}"),
            };
            if spoil && at < text.len() {
                text.replace_range(at..=at, &put);
            }
            // The other reader does not look at every character between the fields.
            if !spoil || read(&text).is_some() {
                prop_assert_eq!(read(&text), expected(&text), "{}", text);
            }
        }
    }

    #[test]
    fn the_right_day_of_the_week_is_read_in_all_three_forms() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Thu, 29 Feb 2024 00:00:00 GMT",
        ] {
            assert!(read(text).is_some(), "{text}");
            assert_eq!(read(text), expected(text), "{text}");
        }
        for text in [
            "Wed, 29 Feb 2023 00:00:00 GMT",
            "Sat, 06 Nov 1994 08:49:37 GMT",
            // Only asctime pads, only with a space, and only the day.
            "Sun,  6 Nov 1994 08:49:37 GMT",
            "Sun, x6 Nov 1994 08:49:37 GMT",
            "Sun Nov x6 08:49:37 1994",
            "Sun Nov  6  8:49:37 1994",
            "Sun",
            "",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}

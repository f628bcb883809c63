use super::*;
use proptest::prelude::*;

/// Sun, 06 Nov 1994 08:49:37 GMT
const THEN: Timestamp = Timestamp::from_millis(784_111_777_000);
const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

fn headers(lines: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in lines {
        headers.push(name, value).unwrap();
    }
    headers
}

fn after(value: &str) -> Option<Duration> {
    hint(&headers(&[("retry-after", value)]), THEN)
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn e01_retry_after_zero_is_no_leave_to_hammer() {
    assert_eq!(after("0"), Some(Duration::ZERO));
    let backoff = Duration::from_millis(300);
    for roll in [0, u64::MAX] {
        assert!(wait(after("0"), backoff, Duration::ZERO, roll) >= backoff);
    }
}

#[test]
fn e02_a_date_in_the_past_leaves_the_backoff() {
    assert_eq!(after("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
    assert_eq!(after("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Duration::ZERO));
}

#[test]
fn e03_a_date_is_measured_against_the_servers_own_clock() {
    let fast_by_ten_minutes = THEN + secs(600);
    let both = headers(&[
        ("date", DATE),
        ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"),
    ]);
    assert_eq!(hint(&both, fast_by_ten_minutes), Some(secs(30)));
    // A cache's Date is old; the local clock is the better guess.
    let cached = headers(&[
        ("date", DATE),
        ("age", "600"),
        ("retry-after", "Sun, 06 Nov 1994 09:00:07 GMT"),
    ]);
    assert_eq!(hint(&cached, fast_by_ten_minutes), Some(secs(30)));
}

#[test]
fn e04_without_a_readable_date_the_local_clock_counts_within_bounds() {
    assert_eq!(after("Sun, 06 Nov 1994 08:50:07 GMT"), Some(secs(30)));
    assert_eq!(
        after("Mon, 06 Nov 1995 08:49:37 GMT"),
        Some(LONGEST_UNCORRECTED)
    );
    let bad_date = headers(&[
        ("date", "yesterday"),
        ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"),
    ]);
    assert_eq!(hint(&bad_date, THEN), Some(secs(30)));
}

#[test]
fn e05_all_three_date_forms_are_read() {
    for form in [
        "Sun, 06 Nov 1994 08:49:44 GMT",
        "Sunday, 06-Nov-94 08:49:44 GMT",
        "Sun Nov  6 08:49:44 1994",
    ] {
        assert_eq!(after(form), Some(secs(7)), "{form}");
    }
    // Two digits that would lie more than fifty years ahead mean a year that has passed.
    let with_date = headers(&[
        ("date", DATE),
        ("retry-after", "Sunday, 06-Nov-50 08:49:37 GMT"),
    ]);
    assert_eq!(hint(&with_date, THEN), Some(Duration::ZERO));
}

#[test]
fn e06_what_breaks_the_grammar_is_absent() {
    for garbage in [
        "-5",
        "1.5",
        "+3",
        "1e9",
        "soon",
        "",
        "120, 60",
        "0x10",
        "1 2",
        "٣",
        "12s",
        "Sun, 06 Nov 1994",
        "Mon, 06 Nov 1994 08:49:37 GMT",
        "Sun, 99 Nov 1994 08:49:37 GMT",
    ] {
        assert_eq!(after(garbage), None, "{garbage:?}");
    }
}

#[test]
fn e07_absurd_seconds_saturate_and_never_wrap() {
    assert_eq!(after("99999999999999999999"), Some(secs(u64::MAX)));
    let longest = wait(after("99999999999999999999"), secs(1), secs(1), u64::MAX);
    assert!(longest >= secs(u64::MAX));
    assert_eq!(THEN + longest, Timestamp::MAX);
}

#[test]
fn e08_of_two_lines_the_longest_valid_one_counts() {
    let two = headers(&[
        ("retry-after", "5"),
        ("retry-after", "60"),
        ("retry-after", "never"),
    ]);
    assert_eq!(hint(&two, THEN), Some(secs(60)));
}

#[test]
fn milliseconds_are_read_too() {
    assert_eq!(
        hint(&headers(&[("retry-after-ms", "1500")]), THEN),
        Some(Duration::from_millis(1500))
    );
    let both = headers(&[("x-ms-retry-after-ms", "200"), ("retry-after", "1")]);
    assert_eq!(
        hint(&both, THEN),
        Some(secs(1)),
        "the longer one is safe in any case"
    );
    assert_eq!(hint(&headers(&[("retry-after-ms", "1.5")]), THEN), None);
}

#[test]
fn e13_retry_after_wins_over_rate_limit_and_of_that_the_longest_counts() {
    let limit = r#""a";r=0;t=5, "b";r=0;t=60, "c";r=3;t=900"#;
    assert_eq!(
        hint(&headers(&[("ratelimit", limit)]), THEN),
        Some(secs(60))
    );
    let both = headers(&[("ratelimit", limit), ("retry-after", "10")]);
    assert_eq!(hint(&both, THEN), Some(secs(10)));
    let lines = headers(&[
        ("ratelimit", r#""a";r=0;t=5"#),
        ("ratelimit", r#"b;t=7;pk=:x:;r=0"#),
    ]);
    assert_eq!(hint(&lines, THEN), Some(secs(7)));
    let tricky = headers(&[("ratelimit", r#""a,\";r=0;t=99";r=0;t=5"#)]);
    assert_eq!(hint(&tricky, THEN), Some(secs(5)));
    for ignored in [
        "",
        r#""a";r=0"#,
        r#""a";r=1;t=5"#,
        r#""a;r=0;t=5"#,
        r#""a";r=x;t=5"#,
        r#""a";r=0;t=-5"#,
        r#"r=0;t=5, ,"#,
        r#""a";r=0;t=5,"#,
        r#""a";r=0;t=5;r"#,
        "limit=10, remaining=0, reset=5",
        "é;r=0;t=5",
    ] {
        assert_eq!(
            hint(&headers(&[("ratelimit", ignored)]), THEN),
            None,
            "{ignored}"
        );
    }
    let cached = headers(&[("ratelimit", limit), ("age", "3")]);
    assert_eq!(hint(&cached, THEN), None);
}

#[test]
fn a_floor_does_not_cancel_the_spread_of_the_schedule() {
    let floor = secs(1);
    let waits = [100, 200, 300].map(|ms| wait(None, Duration::from_millis(ms), floor, 0));
    assert!(waits.iter().all(|w| *w >= floor));
    assert!(waits[0] < waits[1] && waits[1] < waits[2]);
}

#[test]
fn a_date_judged_by_our_own_clock_alone_is_believed_for_a_day() {
    assert_eq!(LONGEST_UNCORRECTED, secs(86_400));
}

#[test]
fn a_year_of_two_digits_lies_at_most_fifty_years_ahead() {
    for (value, ahead) in [
        ("Tuesday, 13-Dec-44 08:49:37 GMT", secs(18_300 * 86_400)),
        ("Wednesday, 14-Dec-44 08:49:37 GMT", Duration::ZERO),
    ] {
        let headers = headers(&[("date", DATE), ("retry-after", value)]);
        assert_eq!(hint(&headers, THEN), Some(ahead), "{value}");
    }
}

proptest! {
    #[test]
    fn no_wait_is_shorter_than_the_hint_the_floor_or_the_schedule(
        hint in proptest::option::of(any::<u64>()), backoff: u32, floor: u32, roll: u64,
    ) {
        let hint = hint.map(Duration::from_millis);
        let (backoff, floor) = (Duration::from_millis(backoff.into()), Duration::from_millis(floor.into()));
        let wait = wait(hint, backoff, floor, roll);
        prop_assert!(wait >= hint.unwrap_or_default());
        prop_assert!(wait >= backoff);
        prop_assert!(wait >= floor);
    }

    #[test]
    fn a_hint_is_spread_upward(seconds in 1u64..100_000, a: u64, b: u64) {
        let hint = Some(secs(seconds));
        let at = |roll| wait(hint, Duration::ZERO, Duration::ZERO, roll);
        prop_assert!((a < b) <= (at(a) <= at(b)));
        prop_assert!(at(u64::MAX) > at(0));
        prop_assert!(at(u64::MAX) <= secs(seconds + seconds / 10 + 1));
    }

    #[test]
    fn no_header_text_makes_the_reader_panic(
        a in "[ -~]{0,40}", b in "[\"\\\\;,=rt0-9 a-z]{0,40}", date in "[A-Za-z0-9:, -]{0,35}", now: u64,
    ) {
        let headers = headers(&[("retry-after", &a), ("ratelimit", &b), ("date", &date), ("retry-after", &date)]);
        let _ = hint(&headers, Timestamp::from_millis(now));
    }

    #[test]
    fn every_second_count_is_read_back(n: u64) {
        prop_assert_eq!(after(&n.to_string()), Some(secs(n)));
    }
}

#[test]
fn a_year_of_four_digits_is_believed_however_far_ahead() {
    let far = headers(&[
        ("date", DATE),
        ("retry-after", "Sat, 06 Nov 2094 08:49:37 GMT"),
    ]);
    assert_eq!(hint(&far, THEN), Some(secs(36_525 * 86_400)));
}

#[test]
fn e13_a_quota_has_a_whole_name_and_a_backslash_means_something_only_in_quotes() {
    let limit = |value: &str| rate_limit(&headers(&[("ratelimit", value)]));
    assert_eq!(limit(r#""a;b\"";r=0;t=5"#), Some(secs(5)));
    for nameless in [r#"a"b";r=0;t=5"#, r#""a"b;r=0;t=5"#, r#"";r=0;t=5"#] {
        assert_eq!(limit(nameless), None, "{nameless}");
    }
    assert_eq!(limit(r#"a;x=\;r=0;t=5"#), Some(secs(5)));
}

#[test]
fn a_date_that_no_calendar_and_no_clock_shows_is_none() {
    let date = |value: &str| after(value).is_some();
    // Each names the weekday of the moment that it would spill over to.
    for (shown, never) in [
        (
            "Thu, 30 Apr 2026 08:00:00 GMT",
            "Fri, 31 Apr 2026 08:00:00 GMT",
        ),
        (
            "Tue, 30 Jun 2026 08:00:00 GMT",
            "Wed, 31 Jun 2026 08:00:00 GMT",
        ),
        (
            "Sun, 06 Nov 1994 23:00:00 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
        ),
        (
            "Sun, 06 Nov 1994 08:59:00 GMT",
            "Sun, 06 Nov 1994 08:60:00 GMT",
        ),
        (
            "Sun, 06 Nov 1994 08:49:59 GMT",
            "Sun, 06 Nov 1994 08:49:60 GMT",
        ),
        (
            "Tue, 01 Nov 1994 08:49:37 GMT",
            "Mon, 00 Nov 1994 08:49:37 GMT",
        ),
    ] {
        assert!(date(shown), "{shown}");
        assert!(!date(never), "{never}");
    }
}

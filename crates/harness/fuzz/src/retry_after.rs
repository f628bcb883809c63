//! How long a server asks to wait, out of header lines that anybody may have written.

use crate::{Check, Target, rule, shape, texts};
use samekey::retry::retry_after::{LONGEST_UNCORRECTED, asked, hint, rate_limit, wait};
use samekey::{Headers, Timestamp};
use std::time::Duration;

pub(crate) const TARGET: Target = Target {
    name: "retry_after",
    check: |data| check(asked, data),
    planted: &[|data| check(hasty, data)],
    words: &[
        "retry-after: ",
        "retry-after-ms: ",
        "x-ms-retry-after-ms: ",
        "ratelimit: ",
        "date: ",
        "age: 1\n",
        "\n",
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "18446744073709551616",
        "\"default\";r=0;t=7",
        ";r=0",
        ";t=",
    ],
    made: || {
        texts(&[
            "retry-after: 7",
            "retry-after: Sun, 06 Nov 1994 08:49:44 GMT\ndate: Sun, 06 Nov 1994 08:49:37 GMT",
            "retry-after: Fri, 31 Dec 9999 23:59:59 GMT",
            "retry-after-ms: 1500\nretry-after: 1",
            "ratelimit: \"a\";r=0;t=7, \"b\";r=3;t=100\nretry-after: soon",
        ])
    },
};

type Asked = fn(&Headers, Timestamp) -> Option<Duration>;

/// A bug: of several the first counts, not the longest.
fn hasty(headers: &Headers, now: Timestamp) -> Option<Duration> {
    let mut first = Headers::new();
    for (name, value) in headers.iter() {
        if first.get(name).is_none() {
            first.push(name, value).ok()?;
        }
    }
    asked(&first, now)
}

fn check(asked: Asked, data: &[u8]) -> Check {
    let text = String::from_utf8_lossy(data);
    let mut headers = Headers::new();
    for line in text.lines() {
        if let Some((name, value)) = line.split_once(':') {
            let _refused = headers.push(name, value);
        }
    }
    let now = Timestamp::from_millis(data.len() as u64 * 1_000_003_000);
    let said = asked(&headers, now);
    let longest = headers
        .get_all("retry-after")
        .filter(|value| !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()))
        .map(|value| Duration::from_secs(value.parse().unwrap_or(u64::MAX)))
        .max();
    rule(
        said >= longest,
        "never sooner than the longest wait asked for",
    )?;
    let dated = |name: &str| headers.get(name).is_some();
    if !dated("date")
        && longest.is_none()
        && !dated("retry-after-ms")
        && !dated("x-ms-retry-after-ms")
    {
        rule(
            said <= Some(LONGEST_UNCORRECTED),
            "a date that only our own clock can judge is not waited for longer than a day",
        )?;
    }
    if !text.bytes().any(|b| b.is_ascii_digit()) {
        rule(
            hint(&headers, now).is_none(),
            "without a digit nothing is asked for",
        )?;
    }
    let mut more = headers.clone();
    let _fits = more.push("retry-after", "5");
    rule(
        asked(&more, now) >= said && asked(&more, now) >= Some(Duration::from_secs(5)),
        "one more line never shortens the wait",
    )?;
    rule(
        hint(&headers, now)
            == samekey::retry::retry_after::asked(&headers, now).or_else(|| rate_limit(&headers)),
        "rate limits count only where nothing else was said",
    )?;
    waits(said.or_else(|| rate_limit(&headers)), data)?;
    Ok(shape(&(
        said.map(|wait| wait.as_millis().checked_ilog2()),
        rate_limit(&headers).map(|wait| wait.as_secs().checked_ilog2()),
        headers.len(),
    )))
}

fn waits(hint: Option<Duration>, data: &[u8]) -> Result<(), String> {
    let byte = |at: usize| u64::from(data.get(at).copied().unwrap_or(0));
    let (backoff, floor) = (
        Duration::from_millis(byte(0) * 100),
        Duration::from_millis(byte(1) * 20),
    );
    for roll in [0, byte(2) << 56, u64::MAX] {
        let wait = wait(hint, backoff, floor, roll);
        let least = hint.unwrap_or_default().max(backoff).max(floor);
        rule(
            wait >= least,
            "no wait is shorter than the hint, the floor or the schedule",
        )?;
        let most = least.saturating_add(backoff.max(Duration::from_secs(10)));
        rule(wait <= most, "jitter lengthens a wait by little")?;
    }
    Ok(())
}

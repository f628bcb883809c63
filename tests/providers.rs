//! Every stored answer of a provider leads to the verdict that stands beside its name here.

use samekey::profile::Profile;
use samekey::retry::classify::{Action, Again, Context, Once, answer};
use samekey::{Headers, Response, Timestamp};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// `?` in front of a file's name: an earlier attempt may have been applied.
const TABLE: &[(&str, &str)] = &[
    ("default/created", "succeed No"),
    ("?default/created", "succeed Unknown"),
    ("?default/replayed", "succeed Yes"),
    ("?default/replayed_refusal", "reject"),
    ("?default/in_flight", "still running, 2 s"),
    ("?default/in_flight_without_hint", "still running"),
    ("?default/in_flight_by_code", "still running"),
    ("default/conflict", "reject"),
    ("?default/conflict", "attend RefusedAfterDoubt"),
    ("?default/mismatch", "attend KeyMismatch"),
    ("?default/mismatch_as_409", "attend KeyMismatch"),
    ("default/validation", "reject"),
    ("?default/validation", "attend RefusedAfterDoubt"),
    ("default/key_missing", "reject"),
    ("default/rate_limit", "again, 4 s"),
    ("default/abuse", "attend Throttled"),
    ("default/accepted", "poll https://api.example/jobs/42, 3 s"),
    ("default/store_down", "again, 11 s"),
    ("default/server_error", "again"),
    ("default/bad_gateway", "again"),
    ("default/captive_portal", "again once (UnexpectedBody)"),
    ("?ietf_draft/in_flight", "still running"),
    ("?ietf_draft/mismatch", "attend KeyMismatch"),
    ("ietf_draft/key_missing", "reject"),
    ("ietf_draft/validation", "reject"),
    ("ietf_draft/created", "succeed No"),
    ("?stripe/created", "succeed No"),
    ("?stripe/replayed", "succeed Yes"),
    ("?stripe/in_flight", "still running"),
    ("?stripe/in_flight_without_header", "still running"),
    ("?stripe/mismatch", "attend KeyMismatch"),
    ("?stripe/stored_error", "attend FinalErrorReplayed"),
    ("?stripe/stored_decline", "reject"),
    ("?stripe/decline", "reject"),
    ("stripe/validation", "reject"),
    ("?stripe/validation", "attend RefusedAfterDoubt"),
    ("stripe/rate_limit", "again"),
    ("stripe/told_to_stop", "attend FinalErrorReplayed"),
    ("stripe/told_to_retry", "again"),
    ("?stripe/unauthorized", "reauthorise"),
    ("?adyen/created", "succeed Unknown"),
    ("?adyen/in_flight_422", "still running"),
    ("?adyen/in_flight_409", "still running"),
    ("adyen/store_down", "again"),
    ("adyen/validation", "reject"),
    ("adyen/server_error", "again"),
    ("paypal/created", "succeed No"),
    ("?paypal/repeat", "succeed Unknown"),
    ("?paypal/in_flight", "still running"),
    ("paypal/conflict", "reject"),
    ("paypal/validation", "reject"),
    ("paypal/rate_limit", "again"),
    ("?square/created", "succeed Unknown"),
    ("?square/mismatch", "attend KeyMismatch"),
    ("square/validation", "reject"),
    ("square/rate_limit", "again"),
    ("square/server_error", "again"),
    ("gocardless/created", "succeed No"),
    (
        "?gocardless/already_created",
        "see https://api.example/payments/PM00MADEUP1",
    ),
    (
        "?gocardless/already_created_without_id",
        "attend AlreadyDone",
    ),
    ("gocardless/validation", "reject"),
    ("gocardless/rate_limit", "again, 6 s"),
    ("gocardless/server_error", "again"),
    ("wise/created", "succeed No"),
    ("wise/profile_exists", "reject"),
    ("?wise/profile_exists", "attend RefusedAfterDoubt"),
    ("wise/unauthorized", "reauthorise"),
    ("wise/validation", "reject"),
    ("mollie/created", "succeed No"),
    ("?mollie/replayed", "succeed Yes"),
    ("?mollie/mismatch", "attend KeyMismatch"),
    ("?mollie/in_flight", "still running"),
    ("mollie/validation", "reject"),
    ("mollie/server_error", "again"),
    ("none/created", "succeed No"),
    ("none/validation", "reject"),
    ("none/unavailable", "attend NoKeySupport"),
    ("none/busy", "attend NoKeySupport"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/providers")
}

/// A response from its raw text.
fn parse(raw: &str) -> Response {
    let raw = raw.replace("\r\n", "\n");
    let (head, body) = raw
        .split_once("\n\n")
        .expect("an empty line after the head");
    let mut lines = head.lines();
    let status_line = lines.next().expect("a status line");
    let status = status_line
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3))
        .and_then(|code| code.parse().ok())
        .expect("HTTP/1.1 and a status");
    let mut headers = Headers::new();
    for line in lines {
        let (name, value) = line.split_once(':').expect("a colon in a header line");
        headers
            .push(name, value)
            .expect("a header that can be sent");
    }
    Response::new(status, headers, body.trim_end())
}

/// A verdict's action in a few words.
fn in_words(action: &Action) -> String {
    let (words, hint) = match action {
        Action::Succeed(replayed) => (format!("succeed {replayed:?}"), None),
        Action::Reject => ("reject".into(), None),
        Action::Attend(reason) => (format!("attend {reason:?}"), None),
        Action::TryAgain(Again { hint, once, .. }) => (
            once.map_or("again".into(), |once: Once| {
                format!("again once ({once:?})")
            }),
            *hint,
        ),
        Action::StillRunning(hint) => ("still running".into(), *hint),
        Action::Poll(url, hint) => (format!("poll {url}"), *hint),
        Action::SeeOther(url, hint) => (format!("see {url}"), *hint),
        Action::Resend(url) => (format!("resend to {url}"), None),
        Action::Reauthorise => ("reauthorise".into(), None),
        other => (format!("{other:?}"), None),
    };
    match hint {
        Some(wait) => format!("{words}, {} s", wait.as_secs()),
        None => words,
    }
}

#[test]
fn every_stored_answer_leads_to_its_verdict() {
    let mut wrong = Vec::new();
    for (name, expected) in TABLE {
        let (file, in_doubt) = match name.strip_prefix('?') {
            Some(file) => (file, true),
            None => (*name, false),
        };
        let (provider, _) = file.split_once('/').expect("profile/case");
        let profile = Profile::named(provider).expect("a folder is named after a built-in profile");
        let raw = std::fs::read_to_string(folder().join(format!("{file}.http")))
            .unwrap_or_else(|e| panic!("{file}: {e}"));
        let context = Context {
            profile: &profile,
            url: "https://api.example/payments",
            attempt: if in_doubt { 2 } else { 1 },
            in_doubt,
            used: &[],
            now: Timestamp::default(),
        };
        let verdict = answer(&parse(&raw), &context);
        let found = in_words(&verdict.action);
        if found != *expected {
            wrong.push(format!(
                "{name}: {found} ({}), expected {expected}",
                verdict.reason
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_file_has_a_row_and_every_profile_has_files() {
    let mut files = BTreeSet::new();
    for provider in std::fs::read_dir(folder()).unwrap() {
        let provider = provider.unwrap();
        if !provider.file_type().unwrap().is_dir() {
            continue;
        }
        for file in std::fs::read_dir(provider.path()).unwrap() {
            let file = file.unwrap().path();
            assert_eq!(
                file.extension().and_then(|e| e.to_str()),
                Some("http"),
                "{file:?}"
            );
            let case = file.file_stem().unwrap().to_str().unwrap();
            files.insert(format!("{}/{case}", provider.file_name().to_str().unwrap()));
        }
    }
    let rows: BTreeSet<String> = TABLE
        .iter()
        .map(|(name, _)| name.trim_start_matches('?').to_owned())
        .collect();
    assert_eq!(files, rows);
    let folders: BTreeSet<_> = rows
        .iter()
        .filter_map(|row| row.split('/').next())
        .collect();
    let profiles: Vec<_> = Profile::all().collect();
    assert_eq!(folders, profiles.iter().map(Profile::name).collect());
}

//! What any answer means to any profile: whoever speaks, doubt is not talked away.

use crate::problem::{discriminant, quotes};
use crate::{Check, Target, rule, shape};
use samekey::profile::Profile;
use samekey::retry::classify::{
    self, Action, Applied, Context, Once, Reason, Verdict, answer, followed, polled,
};
use samekey::{Content, Failure, FailureKind, Headers, Origin, Response, Sent, Timestamp};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

pub(crate) const TARGET: Target = Target {
    name: "profile",
    check: |data| check(answer, data),
    planted: &[|data| check(forgetful, data)],
    words: &[
        "HTTP/1.1 409 Conflict\n",
        "HTTP/1.1 202 Accepted\n",
        "HTTP/1.1 403 \n",
        "Idempotent-Replayed: true\n",
        "Retry-After: 3\n",
        "Location: /jobs/7\n",
        "Location: https://other.example/\n",
        "Location: //other.example\n",
        "Stripe-Should-Retry: false\n",
        "transient-error: true\n",
        "Content-Type: text/html\n",
        "\n\n",
        "Content-Type: application/json\n",
        "\"status\":\"failed\"",
        "\"done\":true",
        "Operation-Location: ",
        "idempotent_creation_conflict",
        "conflicting_resource_id",
        "../",
        "@",
        "Idempotency-Key-Expires: ",
    ],
    made: provider_answers,
};

const URL: &str = "https://api.example/payments?secret=1";

type Classify = fn(&Response, &Context<'_>) -> Verdict;

/// A bug: a refusal is final whatever came before it.
fn forgetful(response: &Response, context: &Context<'_>) -> Verdict {
    answer(
        response,
        &Context {
            in_doubt: false,
            ..*context
        },
    )
}

/// The stored answers of providers, for every profile with and without doubt.
fn provider_answers() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/providers");
    let mut seeds = Vec::new();
    for (index, profile) in (b'0'..).zip(Profile::all()) {
        let Ok(files) = fs::read_dir(folder.join(profile.name())) else {
            continue;
        };
        for file in files.flatten() {
            if let Ok(http) = fs::read(file.path()) {
                seeds.push([&[index, b'1', b'0'], http.as_slice()].concat());
                seeds.push([&[index, b'0', b'0'], http.as_slice()].concat());
            }
        }
    }
    seeds.sort();
    seeds
}

/// Profile, doubt and remedies in three bytes; then an answer as it comes over the wire.
fn check(classify: Classify, data: &[u8]) -> Check {
    let Some((&[profile, doubt, remedies], http)) = data.split_first_chunk() else {
        return Ok(0);
    };
    static ALL: LazyLock<Vec<Profile>> = LazyLock::new(|| Profile::all().collect());
    let profile = &ALL[usize::from(profile) % ALL.len()];
    let used: Vec<Once> = [
        Once::UnexpectedBody,
        Once::Misdirected,
        Once::StaleConnection,
        Once::Reauthorise,
        Once::PollLost,
    ]
    .into_iter()
    .enumerate()
    .filter(|(bit, _)| remedies & (1 << bit) != 0 && remedies != b'0')
    .map(|(_, once)| once)
    .collect();
    let context = Context {
        profile,
        url: URL,
        attempt: u32::from(doubt / 8),
        in_doubt: doubt % 2 == 1,
        used: &used,
        now: Timestamp::from_millis(1_800_000_000_000),
    };
    let response = response(http, doubt & 64 != 0);
    let verdict = classify(&response, &context);
    laws(&verdict, &response, &context)?;
    if verdict.action == Action::Reject && context.in_doubt {
        let certain = Context {
            in_doubt: false,
            ..context
        };
        rule(
            classify(&response, &certain).action == Action::Reject,
            "what is refused in doubt is refused without it",
        )?;
    }
    let mut seen = vec![discriminant(&verdict.action)];
    for ask in [polled, followed] {
        let verdict = ask(&response, &context);
        laws(&verdict, &response, &context)?;
        let resends = matches!(verdict.action, Action::Resend(_));
        rule(
            !resends,
            "a question is never answered by sending the request elsewhere",
        )?;
        seen.push(discriminant(&verdict.action));
    }
    failures(&context, remedies)?;
    Ok(shape(&(seen, profile.name(), response.status)))
}

/// What holds of every verdict.
fn laws(verdict: &Verdict, response: &Response, context: &Context<'_>) -> Result<(), String> {
    let Context {
        profile,
        in_doubt,
        used,
        ..
    } = context;
    match &verdict.action {
        Action::Succeed(_) => rule(
            (200..300).contains(&response.status),
            "only a 2xx is a success",
        )?,
        Action::Reject => {
            rule(
                verdict.applied == Applied::No,
                "what is refused had no effect",
            )?;
            let vouched = profile.name() == "stripe" && response.status == 402;
            rule(
                !in_doubt || vouched || is_marked(profile, &response.headers),
                "maybe applied is never called rejected without a mark",
            )?;
        }
        Action::Poll(url, _) | Action::SeeOther(url, _) | Action::Resend(url) => rule(
            Origin::of(url).is_ok() && Origin::of(url) == Origin::of(URL),
            "no URL of another origin is ever named",
        )?,
        Action::TryAgain(again) => rule(
            again.once.is_none_or(|once| !used.contains(&once)),
            "a remedy is used a single time",
        )?,
        _ => {}
    }
    let quoted = quotes(
        &verdict.reason,
        response.content.bytes().unwrap_or_default(),
    );
    let names_an_origin = verdict.action == Action::Attend(Reason::CrossOriginRedirect);
    rule(names_an_origin || !quoted, "a reason quotes no body")?;
    rule(
        !verdict.reason.contains("secret"),
        "a reason quotes no query",
    )
}

/// The marks of a replay, as the providers document them.
fn is_marked(profile: &Profile, headers: &Headers) -> bool {
    let marks = ["default", "ietf_draft", "stripe", "mollie"].contains(&profile.name());
    let marked = |value: &str| value.eq_ignore_ascii_case("true");
    marks && headers.get_all("idempotent-replayed").any(marked)
}

/// The same for attempts without an answer.
fn failures(context: &Context<'_>, byte: u8) -> Result<(), String> {
    let kinds = [
        FailureKind::Timeout,
        FailureKind::Reset,
        FailureKind::Tls,
        FailureKind::Unsendable,
        FailureKind::Refused,
        FailureKind::StaleConnection,
        FailureKind::OpaqueRedirect,
    ];
    let kind = kinds[usize::from(byte) % kinds.len()];
    for sent in [Sent::No, Sent::Maybe] {
        let verdict = classify::failure(&Failure::new(kind, sent, "no answer"), context);
        if verdict.action == Action::Reject {
            rule(
                sent == Sent::No && !context.in_doubt,
                "without an answer only what was surely not sent is rejected",
            )?;
        }
        let again = matches!(verdict.action, Action::TryAgain(_));
        rule(
            context.profile.knows_keys() || sent == Sent::No || !again,
            "a server that knows no keys is not sent the same twice",
        )?;
    }
    Ok(())
}

fn response(http: &[u8], lost: bool) -> Response {
    let end = http.windows(2).position(|two| two == b"\n\n");
    let (head, body) = http.split_at(end.unwrap_or(http.len()));
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default().split(' ').nth(1);
    let mut headers = Headers::new();
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let _refused = headers.push(name, value);
    }
    let status = status.and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut response = Response::new(status, headers, body.get(2..).unwrap_or_default());
    if lost {
        response.content = Content::Lost;
    }
    response
}

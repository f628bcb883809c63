//! Rows of the contract by number: A answers, T transport, E edge cases.

use super::*;
use crate::message::{Content, Failure, FailureKind, Headers, Response, Sent};
use crate::profile::{Accepted, Sign};
use crate::time::Timestamp;

mod answers;
mod edges;
mod limits;
mod safety;
mod transport;

const URL: &str = "https://api.example/v1/orders?x=1";

/// A context to be varied: the default profile, first attempt, nothing used.
struct Case {
    profile: Profile,
    attempt: u32,
    in_doubt: bool,
    used: Vec<Once>,
}

fn case() -> Case {
    with(Profile::default())
}

fn with(profile: Profile) -> Case {
    Case {
        profile,
        attempt: 1,
        in_doubt: false,
        used: Vec::new(),
    }
}

impl Case {
    /// Attempt 2, the first of which may have been applied.
    fn doubt(mut self) -> Self {
        (self.attempt, self.in_doubt) = (2, true);
        self
    }

    fn used(mut self, remedy: Once) -> Self {
        self.used.push(remedy);
        self
    }

    fn context(&self) -> Context<'_> {
        Context {
            profile: &self.profile,
            url: URL,
            attempt: self.attempt,
            in_doubt: self.in_doubt,
            used: &self.used,
            now: Timestamp::from_millis(1_800_000_000_000),
        }
    }

    fn answer(&self, response: &Response) -> Verdict {
        answer(response, &self.context())
    }

    fn status(&self, status: u16) -> Verdict {
        self.answer(&bare(status))
    }

    fn polled(&self, response: &Response) -> Verdict {
        polled(response, &self.context())
    }

    fn failed(&self, kind: FailureKind, sent: Sent) -> Verdict {
        failure(&Failure::new(kind, sent, "it broke"), &self.context())
    }
}

fn response(status: u16, lines: &[(&str, &str)], body: &str) -> Response {
    let mut headers = Headers::new();
    for (name, value) in lines {
        headers.push(name, value).unwrap();
    }
    Response::new(status, headers, body)
}

fn bare(status: u16) -> Response {
    response(status, &[], "")
}

fn json(status: u16, body: &str) -> Response {
    response(status, &[("content-type", "application/json")], body)
}

fn lost(status: u16) -> Response {
    Response {
        content: Content::Lost,
        ..bare(status)
    }
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// How a verdict sends again, or a failure that shows the verdict.
#[track_caller]
fn again(verdict: &Verdict) -> Again {
    match verdict.action {
        Action::TryAgain(again) => again,
        _ => panic!("{verdict:?}"),
    }
}

#[track_caller]
fn rejects(verdict: &Verdict) {
    assert_eq!(verdict.action, Action::Reject, "{verdict:?}");
    assert_eq!(verdict.applied, Applied::No, "{verdict:?}");
}

#[track_caller]
fn attends(verdict: &Verdict, reason: Reason) {
    assert_eq!(verdict.action, Action::Attend(reason), "{verdict:?}");
}

#[track_caller]
fn succeeds(verdict: &Verdict, replayed: Replayed) {
    assert_eq!(verdict.action, Action::Succeed(replayed), "{verdict:?}");
}

#[track_caller]
fn runs(verdict: &Verdict, hint: Option<Duration>) {
    assert_eq!(verdict.action, Action::StillRunning(hint), "{verdict:?}");
    assert_eq!(verdict.applied, Applied::Maybe, "{verdict:?}");
}

/// Final on a first attempt, for a person to look at after doubt.
#[track_caller]
fn rejects_unless_in_doubt(response: &Response) {
    rejects(&case().answer(response));
    let doubtful = case().doubt().answer(response);
    attends(&doubtful, Reason::RefusedAfterDoubt);
    assert_eq!(doubtful.applied, Applied::No, "this attempt was refused");
}

//! What an answer to a GET means: to a poll, or to the question for a named result.

use super::answer::Answer;
use super::{Action, Again, Applied, Context, Once, Reason, Replayed, Verdict};
use crate::json::{self, Scalar};
use crate::message::{Content, Failure, FailureKind, Response, Sent};
use crate::profile::Repeat;
use crate::retry::retry_after;
use std::time::Duration;

/// The verdict on an answer to a poll.
///
/// Here [`Action::StillRunning`] and [`Action::TryAgain`] repeat the poll, a GET without key or
/// body; only if the remedy is [`Once::PollLost`] is the request itself sent, under its key, to
/// learn the URL again. [`Action::Poll`] goes on at another URL. Only a 303 says that the result is
/// there; a 301, 302, 307 or 308 has moved the question, and what answers there is polled too.
#[must_use]
pub fn polled(response: &Response, context: &Context<'_>) -> Verdict {
    let poll = Answer { response, context };
    match response.status {
        200..=299 if response.content == Content::Lost => {
            Verdict::again(poll.again(), "the answer to the poll was cut off")
        }
        200..=299 if poll.looks_foreign() => Verdict::again(
            poll.again(),
            "the answer to the poll does not look like the server's",
        ),
        202 => poll.keep_polling(),
        206 => poll.partial(),
        200..=299 => match progress(response, poll.says_to_ask_again()) {
            Some(Progress::Running) => poll.keep_polling(),
            Some(Progress::Failed) => Verdict::attend(
                Reason::WorkFailed,
                "the server reports that the work failed after it had begun",
            ),
            None => Verdict::succeed(poll.found(), "the work is done"),
        },
        _ if poll.is_stored_refusal() => {
            poll.reject("when it was polled; this is the stored result")
        }
        404 | 410 if context.may(Once::PollLost) && context.profile.knows_keys() => Verdict::again(
            Again {
                once: Some(Once::PollLost),
                ..Again::default()
            },
            "the URL to poll is gone; asking for it again under the same key",
        ),
        404 | 410 => Verdict::attend(Reason::PollLost, "the URL to poll is gone"),
        301 | 302 | 307 | 308 => poll.redirected(
            Action::Poll,
            "the URL to poll has moved within the same origin",
        ),
        _ => poll.get_failed(),
    }
}

/// The verdict on an answer to the GET that a 303, or a named result, asked for.
///
/// Whatever the resource says of its own state, it is the result. [`Action::TryAgain`] repeats the
/// GET.
#[must_use]
pub fn followed(response: &Response, context: &Context<'_>) -> Verdict {
    let get = Answer { response, context };
    match response.status {
        202 => get.keep_polling(),
        206 => get.partial(),
        200..=299 if response.content == Content::Lost || get.looks_foreign() => Verdict::again(
            get.again(),
            "the result was cut off or does not look like the server's",
        ),
        200..=299 => Verdict::succeed(
            get.found(),
            "it succeeded; this is the result that the server named",
        ),
        404 | 410 => Verdict::attend(
            Reason::PollLost,
            "the result that the server named is not there",
        ),
        301 | 302 | 307 | 308 => get.redirected(
            Action::SeeOther,
            "the result has moved within the same origin",
        ),
        _ => get.get_failed(),
    }
}

/// The verdict on a poll, or a question for a named result, that brought no answer.
///
/// A GET has no effect, so it is repeated whether or not it was sent and whether or not the server
/// knows keys; only what would fail in the same way for ever goes to a person.
#[must_use]
pub fn poll_failed(failure: &Failure) -> Verdict {
    let detail = failure.detail.to_string();
    match failure.kind {
        FailureKind::Tls if failure.sent == Sent::No => Verdict::attend(Reason::Tls, detail),
        FailureKind::Unsendable => Verdict::attend(Reason::Protocol, detail),
        FailureKind::OpaqueRedirect => Verdict::attend(Reason::Redirected, detail),
        _ => Verdict::again(Again::default(), detail),
    }
}

impl Answer<'_> {
    fn keep_polling(&self) -> Verdict {
        let headers = &self.response.headers;
        // Beside a 200, `Location` is where the result will be, not where to ask.
        let location = headers
            .get("location")
            .filter(|_| self.response.status == 202);
        let named = headers.get("operation-location").or(location);
        let reason = "the server is still working on it";
        let here = Verdict::new(Action::StillRunning(self.hint()), Applied::Maybe, reason);
        let Some(place) = named else {
            return here;
        };
        match self.follow(place, Action::Poll, reason) {
            Verdict {
                action: Action::Poll(url, _),
                ..
            } if url == self.context.url => here,
            elsewhere => elsewhere,
        }
    }

    /// Whether the answer itself says that there will be another: when to ask, or where.
    fn says_to_ask_again(&self) -> bool {
        self.hint().is_some() || self.response.headers.get("operation-location").is_some()
    }

    /// Whether a result that was found is that of an earlier attempt.
    fn found(&self) -> Replayed {
        if self.context.profile.repeat() == Repeat::ConflictWithId {
            Replayed::Yes
        } else {
            self.replayed()
        }
    }

    /// A 4xx that carries the mark of a replay is what the work came to.
    fn is_stored_refusal(&self) -> bool {
        let passing = matches!(self.response.status, 408 | 425 | 429);
        let marked = self.context.profile.is_marked(&self.response.headers);
        (400..500).contains(&self.response.status) && marked && !passing
    }

    pub(super) fn partial(&self) -> Verdict {
        Verdict::attend(
            Reason::Protocol,
            "the server sent a part of something nobody asked a part of",
        )
    }

    /// A redirect of a GET, which goes on as `action` says if it stays within the origin.
    fn redirected(
        &self,
        action: fn(String, Option<Duration>) -> Action,
        reason: &'static str,
    ) -> Verdict {
        match self.response.headers.get("location").unwrap_or_default() {
            "" => self.leads_nowhere(),
            location => self.follow(location, action, reason),
        }
    }

    fn leads_nowhere(&self) -> Verdict {
        let status = self.response.status;
        Verdict::attend(
            Reason::Protocol,
            format!("a {status} that does not say where the result is"),
        )
    }

    /// An answer to a GET that is neither a result nor progress.
    fn get_failed(&self) -> Verdict {
        let status = self.response.status;
        match status {
            303 => self.redirected(
                Action::SeeOther,
                "the result is at the URL that the server gave",
            ),
            401 | 407 if self.context.may(Once::Reauthorise) => self.unauthorised(),
            408 | 421 | 425 | 429 | 500.. | 0..200 => {
                let hint = retry_after::hint(&self.response.headers, self.context.now);
                let again = Again {
                    hint,
                    ..Again::default()
                };
                Verdict::again(
                    again,
                    format!("the question for the result was answered with {status}"),
                )
            }
            300..=399 => self.leads_nowhere(),
            _ => Verdict::attend(
                Reason::RefusedAfterDoubt,
                format!("the server does not show the result ({status}); the work may be done"),
            ),
        }
    }
}

/// How far work has come that a poll asked about.
enum Progress {
    Running,
    Failed,
}

/// What a poll's body says, if it is about work: a `done` flag with an error, or a word in `status`
/// or `state`.
///
/// A word that nobody knows is the result's own (an order that is `open`), unless the answer also
/// says to ask again: then the work is not finished, whatever it calls that.
fn progress(response: &Response, to_ask_again: bool) -> Option<Progress> {
    let body = response.content.bytes()?;
    match json::find(body, "done") {
        Some(Scalar::Flag(false)) => return Some(Progress::Running),
        Some(Scalar::Flag(true)) => {
            let failed = ["error.code", "error.message", "error.status", "error"]
                .iter()
                .any(|path| json::find(body, path).is_some());
            return failed.then_some(Progress::Failed);
        }
        _ => {}
    }
    let mut unknown = false;
    for word in ["status", "state"]
        .iter()
        .filter_map(|path| json::text(body, path))
    {
        match Word::of(&word) {
            Word::Running => return Some(Progress::Running),
            Word::Bad => return Some(Progress::Failed),
            Word::Good => return None,
            Word::Unknown => unknown = true,
        }
    }
    (unknown && to_ask_again).then_some(Progress::Running)
}

const RUNNING: &[&str] = &[
    "accepted",
    "canceling",
    "cancelling",
    "creating",
    "deleting",
    "enqueued",
    "executing",
    "finalizing",
    "initializing",
    "inprogress",
    "notstarted",
    "pending",
    "preparing",
    "processing",
    "provisioning",
    "queued",
    "running",
    "scheduled",
    "started",
    "starting",
    "updating",
    "validating",
    "waiting",
    "working",
];
const GOOD: &[&str] = &[
    "captured",
    "complete",
    "completed",
    "done",
    "finished",
    "paid",
    "refunded",
    "settled",
    "succeeded",
    "success",
    "successful",
];
const BAD: &[&str] = &[
    "aborted",
    "canceled",
    "cancelled",
    "declined",
    "denied",
    "error",
    "errored",
    "expired",
    "failed",
    "failure",
    "rejected",
    "timedout",
];

/// What a status word says of the work.
enum Word {
    Running,
    Good,
    Bad,
    Unknown,
}

impl Word {
    /// Case and what joins the parts of a word do not matter: `InProgress` is `in_progress`.
    fn of(text: &str) -> Self {
        let word: String = text
            .chars()
            .filter(char::is_ascii_alphabetic)
            .map(|c| c.to_ascii_lowercase())
            .collect();
        let among = |words: &[&str]| words.contains(&word.as_str());
        if among(RUNNING) {
            Word::Running
        } else if among(GOOD) {
            Word::Good
        } else if among(BAD) {
            Word::Bad
        } else {
            Word::Unknown
        }
    }
}

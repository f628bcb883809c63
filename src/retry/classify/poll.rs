//! What an answer to a GET means: to a poll, or to the question for a named result.

use super::answer::{Answer, FRESH_CREDENTIALS, PARTIAL, STORED};
use super::ruling::{Effect::*, Ruling, To::*};
use super::{Applied, Context, Once, Reason, Verdict};
use crate::json;
use crate::message::{Content, Failure, FailureKind, Response, Sent, is_among, parts};

/// The verdict on an answer to a poll.
///
/// Here [`super::Action::StillRunning`] and [`super::Action::TryAgain`] repeat the poll, a GET without key or
/// body; only if the remedy is [`Once::PollLost`] is the request itself sent, under its key, to
/// learn the URL again. [`super::Action::Poll`] goes on at another URL. Only a 303 says that the result is
/// there; a 301, 302, 307 or 308 has moved the question, and what answers there is polled too.
#[must_use]
pub fn polled(response: &Response, context: &Context<'_>) -> Verdict {
    let poll = Answer::polled(response, context);
    poll.verdict(match response.status {
        200..=299 if matches!(response.content, Content::Lost) || poll.looks_foreign() => CUT_OFF,
        202 => poll.keep_polling(),
        206 => PARTIAL,
        200..=299 => match progress(response, poll.says_to_ask_again()) {
            Some(Progress::Running) => poll.keep_polling(),
            Some(Progress::Failed) => &Ruling(
                Attend(Reason::WorkFailed),
                Maybe,
                "the server reports that the work failed",
            ),
            None => &Ruling(Succeed, Maybe, "the work is done"),
        },
        _ if poll.is_stored_refusal() => STORED,
        404 | 410 if context.may(Once::PollLost) && context.profile.knows_keys() => &Ruling(
            AgainOnce(Once::PollLost),
            Maybe,
            "the URL to poll is gone; asking for it again under the same key",
        ),
        404 | 410 => GONE,
        301 | 302 | 307 | 308 if poll.place().is_some_and(|place| !place.is_empty()) => &Ruling(
            Poll,
            Maybe,
            "the URL to poll has moved within the same origin",
        ),
        _ => poll.get_failed(),
    })
}

/// The verdict on an answer to the GET that a 303, or a named result, asked for.
///
/// Whatever the resource says of its own state, it is the result. [`super::Action::TryAgain`] repeats the
/// GET.
#[must_use]
pub fn followed(response: &Response, context: &Context<'_>) -> Verdict {
    let get = Answer::polled(response, context);
    get.verdict(match response.status {
        202 => get.keep_polling(),
        206 => PARTIAL,
        200..=299 if matches!(response.content, Content::Lost) || get.looks_foreign() => CUT_OFF,
        200..=299 => &Ruling(
            Succeed,
            Maybe,
            "it succeeded; this is the result that the server named",
        ),
        404 | 410 => GONE,
        301 | 302 | 307 | 308 => get.see_other(),
        _ => get.get_failed(),
    })
}

/// The verdict on a poll, or a question for a named result, that brought no answer.
///
/// A GET has no effect, so it is repeated whether or not it was sent and whether or not the server
/// knows keys; only what would fail in the same way for ever goes to a person.
#[must_use]
pub fn poll_failed(failure: &Failure) -> Verdict {
    let to = match failure.kind {
        FailureKind::Tls if failure.sent == Sent::No => Attend(Reason::Tls),
        FailureKind::Unsendable => Attend(Reason::Protocol),
        FailureKind::OpaqueRedirect => Attend(Reason::Redirected),
        _ => Again,
    };
    Verdict {
        applied: Applied::Maybe,
        ..to.after(failure)
    }
}

const CUT_OFF: &Ruling = &Ruling(
    Again,
    Maybe,
    "the result was cut off, or does not look like the server's",
);
const GONE: &Ruling = &Ruling(
    Attend(Reason::PollLost),
    Maybe,
    "the URL that the server gave for the result is gone",
);

const NOWHERE: &Ruling = &Ruling(
    Attend(Reason::Protocol),
    Maybe,
    "a % that does not say where the result is",
);

impl<'a> Answer<'a> {
    fn polled(response: &'a Response, context: &'a Context<'a>) -> Self {
        Answer {
            response,
            context,
            polled: true,
        }
    }

    fn keep_polling(&self) -> &'static Ruling {
        const WORKING: &str = "the server is still working on it";
        if self.place().is_some() {
            &Ruling(PollOn, Maybe, WORKING)
        } else {
            &Ruling(StillRunning, Maybe, WORKING)
        }
    }

    /// Whether the answer itself says that there will be another: when to ask, or where.
    fn says_to_ask_again(&self) -> bool {
        self.hint().is_some() || self.response.headers.get("operation-location").is_some()
    }

    /// A 4xx that carries the mark of a replay is what the work came to.
    fn is_stored_refusal(&self) -> bool {
        let passing = matches!(self.response.status, 408 | 425 | 429);
        let marked = self.context.profile.is_marked(&self.response.headers);
        (400..500).contains(&self.response.status) && marked && !passing
    }

    /// A redirect to the result, if it says where to.
    fn see_other(&self) -> &'static Ruling {
        if self.place().is_some_and(|place| !place.is_empty()) {
            &Ruling(
                SeeOther,
                Maybe,
                "the result is at the URL that the server gave",
            )
        } else {
            NOWHERE
        }
    }

    /// An answer to a GET that is neither a result nor progress.
    fn get_failed(&self) -> &'static Ruling {
        match self.response.status {
            303 => self.see_other(),
            300..=399 => NOWHERE,
            401 | 407 if self.context.may(Once::Reauthorise) => FRESH_CREDENTIALS,
            408 | 421 | 425 | 429 | 500.. | 0..200 => &Ruling(
                AgainLimited,
                Maybe,
                "asked for the result, the server answered %",
            ),
            _ => &Ruling(
                Attend(Reason::RefusedAfterDoubt),
                Maybe,
                "the server does not show the result (%); the work may be done",
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
    let done = json::find(body, "done").filter(|done| !done.quoted);
    match done.as_ref().map(|done| done.text.as_str()) {
        Some("false") => return Some(Progress::Running),
        Some("true") => {
            let mut places = parts("error.code|error.message|error.status|error", b'|');
            let failed = places.any(|path| json::find(body, path).is_some());
            return failed.then_some(Progress::Failed);
        }
        _ => {}
    }
    let mut unknown = false;
    for path in parts("status|state", b'|') {
        let Some(text) = json::text(body, path) else {
            continue;
        };
        // Case and what joins the parts of a word do not matter: `InProgress` is `in_progress`.
        let mut word = text.to_ascii_lowercase();
        word.retain(|c| c.is_ascii_lowercase());
        match word.as_str() {
            word if is_among(RUNNING, word) => return Some(Progress::Running),
            word if is_among(BAD, word) => return Some(Progress::Failed),
            word if is_among(GOOD, word) => return None,
            _ => unknown = true,
        }
    }
    (unknown && to_ask_again).then_some(Progress::Running)
}

const RUNNING: &str = "accepted canceling cancelling creating deleting enqueued executing finalizing \
    initializing inprogress notstarted pending preparing processing provisioning \
    queued running scheduled started starting updating validating waiting working";
const GOOD: &str = "captured complete completed done finished paid refunded settled succeeded \
    success successful";
const BAD: &str = "aborted canceled cancelled declined denied error errored expired failed failure \
    rejected timedout";

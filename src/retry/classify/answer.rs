//! Table A: what an answer means.

use super::meaning::{Meaning, meaning};
use super::{Action, Again, Applied, Context, Once, Reason, Replayed, Verdict, guarded};
use crate::json;
use crate::message::{Content, Response, before};
use crate::planted;
use crate::profile::{Accepted, Profile};
use crate::retry::retry_after;
use crate::time::spoken;
use std::borrow::Cow;
use std::time::Duration;

/// The least wait after a 429 that does not say how long.
const THROTTLED_FLOOR: Duration = Duration::from_secs(1);

/// Whether a success came without its body. The machine sends such an operation again to collect
/// the replay; when its attempts are spent, it has succeeded all the same, with the body lost.
#[must_use]
pub fn is_success_without_body(response: &Response) -> bool {
    response.is_success() && response.content == Content::Lost
}

/// The verdict on an answer.
///
/// ```
/// use samekey::profile::Profile;
/// use samekey::retry::classify::{Action, Context, Reason, answer};
/// use samekey::{Headers, Response, Timestamp};
///
/// let forbidden = Response::new(403, Headers::new(), "");
/// let profile = Profile::default();
/// let first = Context {
///     profile: &profile,
///     url: "https://api.example/payments",
///     attempt: 1,
///     in_doubt: false,
///     used: &[],
///     now: Timestamp::from_millis(0),
/// };
/// assert_eq!(answer(&forbidden, &first).action, Action::Reject);
///
/// // After an attempt that may have been applied, the same answer settles nothing.
/// let second = Context { attempt: 2, in_doubt: true, ..first };
/// let verdict = answer(&forbidden, &second);
/// assert_eq!(verdict.action, Action::Attend(Reason::RefusedAfterDoubt));
/// println!("{}", verdict.reason);
/// ```
#[must_use]
pub fn answer(response: &Response, context: &Context<'_>) -> Verdict {
    guarded(Answer { response, context }.verdict(), context)
}

pub(super) struct Answer<'a> {
    pub(super) response: &'a Response,
    pub(super) context: &'a Context<'a>,
}

impl Answer<'_> {
    fn verdict(&self) -> Verdict {
        let status = self.response.status;
        match status {
            200..300 => self.success(),
            300..400 => self.redirect(),
            400..600 => self.refusal(),
            _ => Verdict::again(
                self.again(),
                format!(
                    "the answer's status {status} has no meaning, so its head cannot be trusted"
                ),
            ),
        }
    }

    /// Again by the schedule, or when the server says.
    pub(super) fn again(&self) -> Again {
        Again {
            hint: retry_after::asked(&self.response.headers, self.context.now),
            ..Again::default()
        }
    }

    pub(super) fn hint(&self) -> Option<Duration> {
        self.again().hint
    }

    fn success(&self) -> Verdict {
        let Context { profile, .. } = self.context;
        if planted::is(13) && matches!(self.response.content, Content::Lost) {
            return self.done("half an answer will do");
        }
        if self.response.content == Content::Lost && self.looks_foreign() {
            return self.unexpected_body();
        }
        if self.response.content == Content::Lost {
            return if profile.replays() {
                Verdict::again(
                    self.again(),
                    "it succeeded, but the answer was cut off; asking again brings the stored one",
                )
            } else {
                Verdict::succeed(
                    self.replayed(),
                    "it succeeded; the answer was cut off, and this server keeps none",
                )
            };
        }
        if let Some(verdict) = self.spoken() {
            return verdict;
        }
        if self.looks_foreign() {
            return self.unexpected_body();
        }
        match self.response.status {
            202 => self.accepted(),
            203 => self.done("it succeeded; a proxy has altered the answer"),
            206 => self.partial(),
            207 => self.done("it succeeded in parts; the answer lists which"),
            _ => self.done("it succeeded"),
        }
    }

    fn done(&self, reason: &'static str) -> Verdict {
        let replayed = self.replayed();
        match replayed {
            Replayed::Yes => Verdict::succeed(
                replayed,
                format!("{reason}; the server replayed the answer of an earlier attempt"),
            ),
            _ => Verdict::succeed(replayed, reason),
        }
    }

    pub(super) fn replayed(&self) -> Replayed {
        let Context {
            profile, in_doubt, ..
        } = self.context;
        let headers = &self.response.headers;
        if profile.is_marked(headers) {
            Replayed::Yes
        } else if !in_doubt || profile.unmarked_is_fresh(headers) {
            Replayed::No
        } else {
            Replayed::Unknown
        }
    }

    /// A page where a result was expected, or a result that is none.
    pub(super) fn looks_foreign(&self) -> bool {
        let Some(body) = self.response.content.bytes() else {
            return is_page(self.response, self.context.profile);
        };
        let kind = media_type(self.response);
        match kind.as_str() {
            _ if body.is_empty() || matches!(self.response.status, 204 | 205) => false,
            "text/html" | "application/xhtml+xml" => !self.context.profile.expects_html(),
            json if json == "application/json" || json.ends_with("+json") => json::is_broken(body),
            _ => false,
        }
    }

    fn unexpected_body(&self) -> Verdict {
        let reason =
            "the answer does not look like the server's: a gateway or a login page may have spoken";
        if self.context.may(Once::UnexpectedBody) && self.context.profile.knows_keys() {
            let once = Some(Once::UnexpectedBody);
            Verdict::again(
                Again {
                    once,
                    ..self.again()
                },
                reason,
            )
        } else {
            Verdict::attend(Reason::UnexpectedBody, reason)
        }
    }

    fn accepted(&self) -> Verdict {
        let headers = &self.response.headers;
        let named = headers
            .get("operation-location")
            .or_else(|| headers.get("location"))
            .map(str::to_owned)
            .or_else(|| self.context.profile.poll_in(self.response));
        match (named, self.context.profile.accepted()) {
            (Some(location), _) => self.follow(
                &location,
                Action::Poll,
                "accepted; the result will be at the URL that the server gave",
            ),
            (None, Accepted::IsSuccess) => {
                self.done("accepted to be done later; the server gave nothing to poll")
            }
            (None, Accepted::AskAgain) => Verdict::new(
                Action::StillRunning(self.hint()),
                Applied::Maybe,
                "accepted and not done yet; asking again under the same key",
            ),
        }
    }

    fn refusal(&self) -> Verdict {
        let Context { profile, .. } = self.context;
        match profile.should_retry(&self.response.headers) {
            Some(true) => return self.told_to_retry(),
            Some(false) => return self.told_to_stop(),
            None => {}
        }
        if let Some(verdict) = self.spoken() {
            return verdict;
        }
        if profile.is_marked(&self.response.headers) {
            return self.stored_refusal();
        }
        match self.response.status {
            500..600 => self.server_error(),
            _ => self.client_error(),
        }
    }

    fn told_to_retry(&self) -> Verdict {
        if self.context.profile.says_in_flight(self.response) {
            return self.still_running();
        }
        let status = self.response.status;
        Verdict::again(
            self.again(),
            format!("the server answered {status} and says to try again"),
        )
    }

    fn told_to_stop(&self) -> Verdict {
        let status = self.response.status;
        match (status, self.spoken()) {
            (401 | 407, _) if self.context.may(Once::Reauthorise) => self.unauthorised(),
            (_, Some(verdict)) if !matches!(verdict.action, Action::StillRunning(_)) => verdict,
            (409, None) if self.hint().is_none() => self.reject("and says that it stays so"),
            (409 | 500.., _) | (_, Some(_)) => Verdict::attend(
                Reason::FinalErrorReplayed,
                format!("the server answered {status} and says that trying again is of no use"),
            ),
            _ => self.reject("and says that trying again is of no use"),
        }
    }

    /// What the answer's code or problem says of the key, if it speaks of it.
    fn spoken(&self) -> Option<Verdict> {
        let Context { profile, url, .. } = self.context;
        if let Some(place) = profile.says_created(self.response, url) {
            return Some(match place {
                Some(url) => Verdict::new(
                    Action::SeeOther(url, None),
                    Applied::Maybe,
                    "an earlier attempt has done it, and the server names the result",
                ),
                None if self.hint().is_some() => self.still_running(),
                None => Verdict::attend(
                    Reason::AlreadyDone,
                    "the server says that it was done before, but not with what result",
                ),
            });
        }
        if profile.says_window_closed(self.response) {
            return Some(Verdict::attend(
                Reason::WindowClosed,
                "the server says that the key has expired",
            ));
        }
        match meaning(self.response, profile)? {
            Meaning::Reused => Some(Verdict::attend(
                Reason::KeyMismatch,
                "the server says that this key was used with another request; look at what the \
                 first one did before anything else",
            )),
            Meaning::InFlight => Some(self.still_running()),
            Meaning::Refused => {
                Some(self.reject("because it does not accept the key: check the profile"))
            }
        }
    }

    fn still_running(&self) -> Verdict {
        let hint = self.hint();
        if planted::is(12) {
            return self.done("a conflict is a success");
        }
        let reason = match hint {
            Some(wait) => format!(
                "the server is still working on this key and asks for {}",
                spoken(wait)
            ),
            None => "the server is still working on this key".into(),
        };
        Verdict::new(Action::StillRunning(hint), Applied::Maybe, reason)
    }

    /// A refusal that carries the mark of a replay: the key's own result.
    fn stored_refusal(&self) -> Verdict {
        let status = self.response.status;
        match status {
            500.. => Verdict::attend(
                Reason::FinalErrorReplayed,
                format!("the server keeps replaying a stored {status}; it will never change"),
            ),
            408 | 425 | 429 => self.client_error(),
            _ => Verdict::new(
                Action::Reject,
                Applied::No,
                format!("the server replayed its refusal ({status}) of an earlier attempt"),
            ),
        }
    }

    /// Final if this is all that can have happened; else a refusal of this attempt only.
    pub(super) fn reject(&self, why: &str) -> Verdict {
        let status = self.response.status;
        let (space, why) = if why.is_empty() { ("", "") } else { (" ", why) };
        let Context {
            profile, in_doubt, ..
        } = self.context;
        let stored = profile.is_marked(&self.response.headers);
        if !in_doubt || stored || profile.vouches(status) || planted::is(11) {
            Verdict::new(
                Action::Reject,
                Applied::No,
                format!("the server refused it with {status}{space}{why}"),
            )
        } else {
            Verdict::attend(
                Reason::RefusedAfterDoubt,
                format!(
                    "the server refused this attempt with {status}{space}{why}, which says nothing \
                     about an earlier one that may have been applied"
                ),
            )
            .without_effect()
        }
    }

    fn server_error(&self) -> Verdict {
        let status = self.response.status;
        match status {
            501 | 505 | 506 | 508 | 510 => self.reject("and cannot do it at all"),
            503 => {
                let hint = retry_after::hint(&self.response.headers, self.context.now);
                Verdict::again(
                    Again {
                        hint,
                        ..Again::default()
                    },
                    waiting("the server is not available", hint),
                )
            }
            511 => Verdict::again(
                self.again(),
                "the network asks for a login before it lets requests pass",
            ),
            502 | 504 => Verdict::again(
                self.again(),
                format!("a gateway answered {status}; the server behind it may have acted"),
            ),
            _ => Verdict::again(self.again(), format!("the server failed with {status}")),
        }
    }

    fn client_error(&self) -> Verdict {
        let hint = self.hint();
        let verdict = match self.response.status {
            401 | 407 => self.unauthorised(),
            408 => Verdict::again(
                self.again(),
                "the server did not get the whole request in time",
            ),
            409 => self.conflict(),
            413 if hint.is_some() => Verdict::again(
                self.again(),
                waiting("the server cannot take a body of this size now", hint),
            ),
            421 => self.misdirected(),
            424 => Verdict::attend(
                Reason::WorkFailed,
                "something that the server depends on failed in the middle of it",
            ),
            425 => {
                let at_once = self.context.attempt <= 1 && hint.is_none();
                let reason = "the server did not want to act on data that could be replayed";
                Verdict::again(
                    Again {
                        at_once,
                        ..self.again()
                    },
                    reason,
                )
                .without_effect()
            }
            429 => self.throttled(),
            _ => self.reject(""),
        };
        if self.context.profile.is_unprocessed(self.response.status) {
            verdict.without_effect()
        } else {
            verdict
        }
    }

    pub(super) fn unauthorised(&self) -> Verdict {
        if self.context.may(Once::Reauthorise) {
            // 401 and 407 mean by definition that the request was not carried out.
            let reason = "the credentials were not accepted; asking for fresh ones";
            Verdict::new(Action::Reauthorise, Applied::No, reason)
        } else {
            self.reject("because of the credentials, and fresh ones did not help")
        }
    }

    fn misdirected(&self) -> Verdict {
        if self.context.may(Once::Misdirected) {
            let again = Again {
                at_once: true,
                once: Some(Once::Misdirected),
                ..Again::default()
            };
            Verdict::again(
                again,
                "the request reached the wrong server over a shared connection",
            )
            .without_effect()
        } else {
            self.reject("again, over a connection of its own")
        }
    }

    /// A 409 that no code explains.
    fn conflict(&self) -> Verdict {
        if self.hint().is_some() {
            self.still_running()
        } else if self.response.content.bytes().is_none() {
            Verdict::again(self.again(), "a conflict whose explanation was cut off")
        } else {
            self.reject("because it conflicts with what is there")
        }
    }

    fn throttled(&self) -> Verdict {
        if problem_type(self.response).is_some_and(|kind| kind.ends_with("abnormal-usage-detected"))
        {
            return Verdict::attend(
                Reason::Throttled,
                "the server takes this for abuse; trying again would make it worse",
            );
        }
        let hint = retry_after::hint(&self.response.headers, self.context.now);
        let floor = if hint.is_none() {
            THROTTLED_FLOOR
        } else {
            Duration::ZERO
        };
        let again = Again {
            hint,
            floor,
            ..Again::default()
        };
        Verdict::again(again, waiting("too many requests", hint))
    }
}

/// Whether it is a page for people where nobody asked for one, to go by its head.
pub(crate) fn is_page(response: &Response, profile: &Profile) -> bool {
    let page = matches!(
        media_type(response).as_str(),
        "text/html" | "application/xhtml+xml"
    );
    page && !profile.expects_html()
}

/// The body's media type without its parameters, in lower case.
fn media_type(response: &Response) -> String {
    let value = response.headers.get("content-type").unwrap_or_default();
    before(value, b";").trim_ascii().to_ascii_lowercase()
}

fn problem_type(response: &Response) -> Option<String> {
    json::text(response.content.bytes()?, "type")
}

fn waiting(what: &'static str, hint: Option<Duration>) -> Cow<'static, str> {
    match hint {
        Some(wait) => format!("{what}; the server asks for {}", spoken(wait)).into(),
        None => what.into(),
    }
}

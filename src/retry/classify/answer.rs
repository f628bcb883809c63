//! Table A: what an answer means.

use super::meaning::{Meaning, meaning};
use super::ruling::{Effect::*, Ruling, To::*};
use super::{Context, Once, Reason, Replayed, Verdict};
use crate::json;
use crate::message::{Content, Response, before};
use crate::planted;
use crate::profile::{Accepted, Profile, Repeat};
use crate::retry::retry_after;
use std::time::Duration;

/// Whether a success came without its body. The machine sends such an operation again to collect
/// the replay; when its attempts are spent, it has succeeded all the same, with the body lost.
#[must_use]
pub fn is_success_without_body(response: &Response) -> bool {
    response.is_success() && matches!(response.content, Content::Lost)
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
    let answer = Answer::new(response, context);
    answer.verdict(answer.ruling()).guarded(context)
}

pub(super) struct Answer<'a> {
    pub(super) response: &'a Response,
    pub(super) context: &'a Context<'a>,
    /// To a GET for the result, not to the request itself.
    pub(super) polled: bool,
}

impl<'a> Answer<'a> {
    pub(super) fn new(response: &'a Response, context: &'a Context<'a>) -> Self {
        Answer {
            response,
            context,
            polled: false,
        }
    }

    fn ruling(&self) -> &'static Ruling {
        match self.response.status {
            200..300 => self.success(),
            300..400 => self.redirect(),
            400..600 => self.refusal(),
            _ => &Ruling(
                Again,
                Maybe,
                "the status % has no meaning, so the answer cannot be trusted",
            ),
        }
    }

    /// How long the server asks to wait before the request is sent again.
    pub(super) fn hint(&self) -> Option<Duration> {
        retry_after::asked(&self.response.headers, self.context.now)
    }

    fn success(&self) -> &'static Ruling {
        let lost = matches!(self.response.content, Content::Lost);
        if planted::is(13) && lost {
            return &Ruling(Succeed, Maybe, "half an answer will do");
        }
        if !lost && let Some(ruling) = self.spoken() {
            return ruling;
        }
        if self.looks_foreign() {
            return self.unexpected_body();
        }
        match self.response.status {
            _ if lost && self.context.profile.replays() => &Ruling(
                Again,
                Maybe,
                "it succeeded, but the answer was cut off; asking again for the stored one",
            ),
            _ if lost => &Ruling(
                Succeed,
                Maybe,
                "it succeeded; the answer was cut off, and this server keeps none",
            ),
            202 => self.accepted(),
            203 => &Ruling(
                Succeed,
                Maybe,
                "it succeeded; a proxy has altered the answer",
            ),
            206 => PARTIAL,
            207 => &Ruling(
                Succeed,
                Maybe,
                "it succeeded in parts; the answer lists which",
            ),
            _ => &Ruling(Succeed, Maybe, "it succeeded"),
        }
    }

    /// Whether a success, or a result, is the answer to an earlier attempt.
    pub(super) fn replayed(&self) -> Replayed {
        let Context {
            profile, in_doubt, ..
        } = self.context;
        let headers = &self.response.headers;
        let named = self.polled && profile.repeat() == Repeat::ConflictWithId;
        if named || profile.is_marked(headers) {
            Replayed::Yes
        } else if !in_doubt || profile.unmarked_is_fresh(headers) {
            Replayed::No
        } else {
            Replayed::Unknown
        }
    }

    pub(super) fn looks_foreign(&self) -> bool {
        let page = is_page(self.response, self.context.profile);
        match self.response.content.bytes() {
            None => page,
            Some(body) if body.is_empty() || matches!(self.response.status, 204 | 205) => false,
            Some(body) => {
                let kind = media_type(self.response);
                let end = kind.get(kind.len().saturating_sub("+json".len())..);
                let json = kind.eq_ignore_ascii_case("application/json")
                    || end.is_some_and(|end| end.eq_ignore_ascii_case("+json"));
                page || (json && json::is_broken(body))
            }
        }
    }

    fn unexpected_body(&self) -> &'static Ruling {
        const FOREIGN: &str =
            "the answer does not look like the server's: perhaps a gateway or a login page spoke";
        if self.context.may(Once::UnexpectedBody) && self.context.profile.knows_keys() {
            &Ruling(AgainOnce(Once::UnexpectedBody), Maybe, FOREIGN)
        } else {
            &Ruling(Attend(Reason::UnexpectedBody), Maybe, FOREIGN)
        }
    }

    fn accepted(&self) -> &'static Ruling {
        match self.context.profile.accepted() {
            _ if self.place().is_some() => &Ruling(
                Poll,
                Maybe,
                "accepted; the result will be at the URL that the server gave",
            ),
            Accepted::IsSuccess => &Ruling(
                Succeed,
                Maybe,
                "accepted to be done later; the server gave nothing to poll",
            ),
            Accepted::AskAgain => &Ruling(
                StillRunning,
                Maybe,
                "accepted and not done yet; asking again under the same key",
            ),
        }
    }

    fn refusal(&self) -> &'static Ruling {
        let Context { profile, .. } = self.context;
        match profile.should_retry(&self.response.headers) {
            Some(true) if profile.says_in_flight(self.response) => return self.still_running(),
            Some(true) => {
                return &Ruling(Again, Maybe, "the server answered % and says to try again");
            }
            Some(false) => return self.told_to_stop(),
            None => {}
        }
        if let Some(ruling) = self.spoken() {
            return ruling;
        }
        let status = self.response.status;
        let passing = matches!(status, 408 | 425 | 429);
        if profile.is_marked(&self.response.headers) && !passing {
            // The mark of a replay: it is the key's own result.
            return if status < 500 {
                STORED
            } else {
                &Ruling(
                    Attend(Reason::FinalErrorReplayed),
                    Maybe,
                    "the server keeps replaying a stored %; it will never change",
                )
            };
        }
        if status < 500 {
            self.client_error()
        } else {
            self.server_error()
        }
    }

    fn told_to_stop(&self) -> &'static Ruling {
        match (self.response.status, self.spoken()) {
            (401 | 407, _) if self.context.may(Once::Reauthorise) => FRESH_CREDENTIALS,
            (_, Some(ruling)) if !matches!(ruling.0, StillRunning) => ruling,
            (409, None) if self.hint().is_none() => {
                &Ruling(Reject, Never, " and says that it stays so")
            }
            (409 | 500.., _) | (_, Some(_)) => &Ruling(
                Attend(Reason::FinalErrorReplayed),
                Maybe,
                "the server answered % and says that trying again is of no use",
            ),
            _ => &Ruling(Reject, Never, " and says that trying again is of no use"),
        }
    }

    /// What the profile's codes, or a problem that speaks of the key, say about it.
    fn spoken(&self) -> Option<&'static Ruling> {
        let Context { profile, url, .. } = self.context;
        if let Some(place) = profile.says_created(self.response, url) {
            return Some(if place.is_some() {
                &Ruling(
                    SeeOther,
                    Maybe,
                    "an earlier attempt has done it, and the server names the result",
                )
            } else if self.hint().is_some() {
                self.still_running()
            } else {
                &Ruling(
                    Attend(Reason::AlreadyDone),
                    Maybe,
                    "the server says that this was done before, but not with what result",
                )
            });
        }
        if profile.says_window_closed(self.response) {
            return Some(&Ruling(
                Attend(Reason::WindowClosed),
                Maybe,
                "the server says that the key has expired",
            ));
        }
        Some(match meaning(self.response, profile)? {
            Meaning::Reused => &Ruling(
                Attend(Reason::KeyMismatch),
                Maybe,
                "the server says that this key was used with another request; look at what it holds under \
                 this reference",
            ),
            Meaning::InFlight => self.still_running(),
            Meaning::Refused => &Ruling(
                Reject,
                Never,
                " because it does not accept the key: check the profile",
            ),
        })
    }

    fn still_running(&self) -> &'static Ruling {
        if planted::is(12) {
            return &Ruling(Succeed, Maybe, "a conflict is a success");
        }
        &Ruling(
            StillRunning,
            Maybe,
            "the server is still working on this key",
        )
    }

    fn server_error(&self) -> &'static Ruling {
        match self.response.status {
            501 | 505 | 506 | 508 | 510 => &Ruling(Reject, Never, " and cannot do it at all"),
            503 => &Ruling(AgainLimited, Maybe, "the server is not available"),
            511 => &Ruling(
                Again,
                Maybe,
                "the network asks for a login before it lets requests pass",
            ),
            502 | 504 => &Ruling(
                Again,
                Maybe,
                "a gateway answered %; the server behind it may have acted",
            ),
            _ => &Ruling(Again, Maybe, "the server failed with %"),
        }
    }

    fn client_error(&self) -> &'static Ruling {
        const EARLY: &str = "the server did not want to act on data that could be replayed";
        let (context, asked) = (self.context, self.hint().is_some());
        match self.response.status {
            401 | 407 if context.may(Once::Reauthorise) => FRESH_CREDENTIALS,
            401 | 407 => &Ruling(
                Reject,
                Never,
                " because of the credentials, and fresh ones did not help",
            ),
            408 => &Ruling(
                Again,
                ByProfile,
                "the server did not get the whole request in time",
            ),
            409 if asked => self.still_running(),
            409 if self.response.content.bytes().is_none() => {
                &Ruling(Again, ByProfile, "a conflict whose explanation was cut off")
            }
            409 => &Ruling(Reject, Never, " because it conflicts with what is there"),
            413 if asked => &Ruling(
                Again,
                ByProfile,
                "the server cannot take a body of this size now",
            ),
            421 if context.may(Once::Misdirected) => &Ruling(
                AgainOnce(Once::Misdirected),
                Never,
                "the request reached the wrong server over a shared connection",
            ),
            421 => &Ruling(Reject, Never, " again, over a connection of its own"),
            424 => &Ruling(
                Attend(Reason::WorkFailed),
                ByProfile,
                "something that the server depends on failed",
            ),
            425 if context.attempt <= 1 && !asked => &Ruling(AgainAtOnce, Never, EARLY),
            425 => &Ruling(Again, Never, EARLY),
            429 if self.takes_it_for_abuse() => &Ruling(
                Attend(Reason::Throttled),
                ByProfile,
                "the server takes this for abuse; trying again would make it worse",
            ),
            429 => &Ruling(Throttled, ByProfile, "too many requests"),
            _ => &Ruling(Reject, Never, ""),
        }
    }

    fn takes_it_for_abuse(&self) -> bool {
        let body = self.response.content.bytes();
        let kind = body.and_then(|body| json::text(body, "type"));
        kind.is_some_and(|kind| kind.ends_with("abnormal-usage-detected"))
    }
}

/// 401 and 407 mean by definition that the request was not carried out.
pub(super) const FRESH_CREDENTIALS: &Ruling = &Ruling(
    Reauthorise,
    Never,
    "the credentials were not accepted; asking for fresh ones",
);
pub(super) const PARTIAL: &Ruling = &Ruling(
    Attend(Reason::Protocol),
    Maybe,
    "the server sent a part of something nobody asked a part of",
);
pub(super) const STORED: &Ruling = &Ruling(
    Reject,
    Never,
    "; this is its stored answer to an earlier attempt",
);

/// Whether it is a page for people where nobody asked for one, to go by its head.
pub(crate) fn is_page(response: &Response, profile: &Profile) -> bool {
    let kind = media_type(response);
    let page = |page: &str| kind.eq_ignore_ascii_case(page);
    (page("text/html") || page("application/xhtml+xml")) && !profile.expects_html()
}

/// The body's media type without its parameters, as it was written.
fn media_type(response: &Response) -> &str {
    let value = response.headers.get("content-type").unwrap_or_default();
    before(value, b";").trim_ascii()
}

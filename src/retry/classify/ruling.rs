//! What an answer leads to, as a row of a table; what the answer itself says is filled in at the end.

use super::answer::Answer;
use super::redirect::{Target, target};
use super::{Action, Again, Applied, Context, Once, Reason, Replayed, Verdict};
use crate::message::{filled, place_of};
use crate::planted;
use crate::retry::retry_after;
use crate::text::decimal;
use crate::time::spoken;
use std::time::Duration;

/// The least wait after a 429 that does not say how long.
const THROTTLED_FLOOR: Duration = Duration::from_secs(1);

/// What follows, whether the attempt can have had its effect, and why. A `%` stands for the status.
/// Of a refusal only what comes after "the server refused it with 403".
pub(super) struct Ruling(pub(super) To, pub(super) Effect, pub(super) &'static str);

/// [`Action`], before waits and places are known.
#[derive(Clone, Copy)]
pub(super) enum To {
    Succeed,
    /// Final if this is all that can have happened; else a refusal of this attempt only.
    Reject,
    Attend(Reason),
    Again,
    /// A limit on requests, where one is stated, tells how long.
    AgainLimited,
    /// The same, with a least wait where none is.
    Throttled,
    AgainAtOnce,
    AgainOnce(Once),
    StillRunning,
    Poll,
    /// Like `Poll`, unless the server names the URL that was asked.
    PollOn,
    SeeOther,
    Resend,
    Reauthorise,
}

#[derive(Clone, Copy)]
pub(super) enum Effect {
    Maybe,
    Never,
    /// None if the profile says that this status comes before any work.
    ByProfile,
}

impl To {
    /// The action, where it needs no place and nobody doubts it.
    pub(super) fn action(self, hint: Option<Duration>) -> Action {
        let (mut at_once, mut once, mut floor) = (false, None, Duration::ZERO);
        match self {
            To::Reject => return Action::Reject,
            To::Attend(reason) => return Action::Attend(reason),
            To::StillRunning => return Action::StillRunning(hint),
            To::Reauthorise => return Action::Reauthorise,
            To::Throttled if hint.is_none() => floor = THROTTLED_FLOOR,
            To::AgainAtOnce => at_once = true,
            To::AgainOnce(remedy) => {
                at_once = matches!(remedy, Once::Misdirected | Once::StaleConnection);
                once = Some(remedy);
            }
            _ => {}
        }
        Action::TryAgain(Again {
            hint: hint.filter(|_| !at_once),
            floor,
            at_once,
            once,
        })
    }
}

impl Answer<'_> {
    pub(super) fn verdict(&self, &Ruling(to, effect, mut said): &Ruling) -> Verdict {
        let (response, context) = (self.response, self.context);
        let applied = match effect {
            Effect::Maybe => Applied::Maybe,
            Effect::ByProfile if !context.profile.is_unprocessed(response.status) => Applied::Maybe,
            _ => Applied::No,
        };
        let wait = match to {
            To::AgainLimited | To::Throttled => retry_after::hint(&response.headers, context.now),
            _ => self.hint(),
        };
        let (mut before, mut after, mut filler) = ("", "", None);
        let action = match to {
            To::Succeed => {
                let replayed = self.replayed();
                if replayed == Replayed::Yes && !self.polled {
                    after = "; the server replayed the answer of an earlier attempt";
                }
                Action::Succeed(replayed)
            }
            To::Reject if self.is_final() => {
                before = "the server refused it with %";
                Action::Reject
            }
            To::Reject => {
                before = "the server refused this attempt with %";
                after = ", which says nothing about an earlier one that may have been applied";
                Action::Attend(Reason::RefusedAfterDoubt)
            }
            To::Poll | To::PollOn | To::SeeOther | To::Resend => {
                let place = self.place().unwrap_or_default();
                match target(context.url, &place) {
                    Target::SameOrigin(url) => self.towards(to, url, wait),
                    Target::Elsewhere(_) if planted::is(21) => self.towards(to, place, wait),
                    Target::Elsewhere(origin) => {
                        filler = Some(origin);
                        said =
                            "the server points to %, which must not see the key or the credentials";
                        Action::Attend(Reason::CrossOriginRedirect)
                    }
                    Target::Nowhere => {
                        said = "the server points to a place that is no URL";
                        Action::Attend(Reason::Protocol)
                    }
                }
            }
            _ => to.action(wait),
        };
        let mut reason = [before, said, after].concat();
        if place_of(&reason, "%").is_some() {
            let filler = filler.unwrap_or_else(|| decimal(response.status));
            reason = filled(&reason, &[&filler]);
        }
        if let Action::StillRunning(Some(wait))
        | Action::TryAgain(Again {
            hint: Some(wait), ..
        }) = action
        {
            reason.push_str("; the server asks for ");
            reason.push_str(&spoken(wait));
        }
        Verdict {
            action,
            applied,
            reason,
        }
    }

    /// Whether a refusal is all that can have happened.
    fn is_final(&self) -> bool {
        let Context {
            profile, in_doubt, ..
        } = self.context;
        let stored = profile.is_marked(&self.response.headers);
        !in_doubt || stored || profile.vouches(self.response.status) || planted::is(11)
    }

    fn towards(&self, to: To, url: String, wait: Option<Duration>) -> Action {
        match to {
            To::PollOn if url == self.context.url => Action::StillRunning(wait),
            To::Poll | To::PollOn => Action::Poll(url, wait),
            To::Resend => Action::Resend(url),
            // A refusal that names what is there already names nothing that has to be waited for.
            _ => Action::SeeOther(url, wait.filter(|_| self.response.status < 400)),
        }
    }
}

impl Verdict {
    /// Under a profile without keys nothing that may have been applied is sent again.
    pub(super) fn guarded(mut self, context: &Context<'_>) -> Verdict {
        let sends_again = matches!(
            self.action,
            Action::TryAgain(_) | Action::StillRunning(_) | Action::Resend(_) | Action::Reauthorise
        );
        if !context.profile.knows_keys() && sends_again && self.applied == Applied::Maybe {
            self.action = Action::Attend(Reason::NoKeySupport);
            self.reason
                .push_str("; this server does not know keys, so it is not sent again");
        }
        self
    }
}

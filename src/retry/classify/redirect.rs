//! Where an answer points to, and whether the key may go there.

use super::answer::Answer;
use super::{Action, Applied, Reason, Verdict};
use crate::message::{Origin, resolve};
use std::time::Duration;

impl Answer<'_> {
    /// An action at another URL of the same origin.
    pub(super) fn follow(
        &self,
        location: &str,
        action: fn(String, Option<Duration>) -> Action,
        reason: &'static str,
    ) -> Verdict {
        match target(self.context.url, location) {
            Target::SameOrigin(url) => {
                Verdict::new(action(url, self.hint()), Applied::Maybe, reason)
            }
            Target::Elsewhere(_) if crate::planted::is(21) => {
                let url = location.to_owned();
                Verdict::new(action(url, self.hint()), Applied::Maybe, reason)
            }
            Target::Elsewhere(origin) => Verdict::attend(
                Reason::CrossOriginRedirect,
                format!(
                    "the server points to {origin}, which must not see the key or the credentials"
                ),
            ),
            Target::Nowhere => Verdict::attend(
                Reason::Protocol,
                "the server points to a place that is no URL",
            ),
        }
    }

    pub(super) fn redirect(&self) -> Verdict {
        let status = self.response.status;
        let location = self.response.headers.get("location").unwrap_or_default();
        match status {
            301 | 302 if self.response.headers.get("location").is_some() => self.moved(),
            303 if !location.is_empty() => self.follow(
                location,
                Action::SeeOther,
                "it was handled; the result is at the URL that the server gave",
            ),
            307 | 308 if !location.is_empty() => {
                let verdict = self.follow(
                    location,
                    |url, _| Action::Resend(url),
                    "moved within the same origin",
                );
                // A 307 or 308 asks for the request elsewhere: here it was not carried out.
                verdict.without_effect()
            }
            _ => Verdict::attend(
                Reason::Protocol,
                format!("a {status} has no meaning for a request that changes something"),
            ),
        }
    }

    /// 301 and 302: following turns a POST into a GET, whose 200 would look like success.
    fn moved(&self) -> Verdict {
        if self.response.status == 301 && !self.context.in_doubt {
            return Verdict::new(
                Action::Reject,
                Applied::No,
                "the resource has moved for good; send to its new URL as a new action",
            );
        }
        Verdict::attend(
            Reason::Redirected,
            "a redirect that cannot be followed without turning the request into a GET; \
             some servers answer so after they have acted",
        )
    }
}

enum Target {
    SameOrigin(String),
    Elsewhere(Origin),
    Nowhere,
}

/// Where a location leads, seen from the URL that answered with it.
fn target(url: &str, location: &str) -> Target {
    let Ok(absolute) = resolve(url, location) else {
        return Target::Nowhere;
    };
    match (Origin::of(url), Origin::of(&absolute)) {
        (Ok(here), Ok(there)) if here == there => Target::SameOrigin(absolute),
        (_, Ok(there)) => Target::Elsewhere(there),
        _ => Target::Nowhere,
    }
}

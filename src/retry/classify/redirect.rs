//! Where an answer points to, and whether the key may go there.

use super::Reason;
use super::answer::Answer;
use super::ruling::{Effect::*, Ruling, To::*};
use crate::message::{Origin, resolve};

impl Answer<'_> {
    /// The place that an answer names: of the result, or of where to send to instead.
    pub(super) fn place(&self) -> Option<String> {
        let (response, profile) = (self.response, self.context.profile);
        let named = |name| response.headers.get(name).map(str::to_owned);
        match response.status {
            300..400 => return named("location"),
            _ if self.polled => {}
            _ => {
                if let Some(Some(place)) = profile.says_created(response, self.context.url) {
                    return Some(place);
                }
            }
        }
        let place = named("operation-location");
        if response.status != 202 {
            // Beside a 200, `Location` is where the result will be, not where to ask.
            return place;
        }
        let place = place.or_else(|| named("location"));
        place.or_else(|| profile.poll_in(response).filter(|_| !self.polled))
    }

    pub(super) fn redirect(&self) -> &'static Ruling {
        let location = self.response.headers.get("location");
        match self.response.status {
            301 if location.is_some() && !self.context.in_doubt => &Ruling(
                Reject,
                Never,
                ": it has moved for good; send to its new URL as a new action",
            ),
            301 | 302 if location.is_some() => &Ruling(
                Attend(Reason::Redirected),
                Maybe,
                "a redirect that cannot be followed without turning the request into a GET; \
                 some servers answer so after they have acted",
            ),
            303 if location.is_some_and(|place| !place.is_empty()) => &Ruling(
                SeeOther,
                Maybe,
                "it was handled; the result is at the URL that the server gave",
            ),
            // These ask for the request elsewhere: here it was not carried out.
            307 | 308 if location.is_some_and(|place| !place.is_empty()) => {
                &Ruling(Resend, Never, "moved within the same origin")
            }
            _ => &Ruling(
                Attend(Reason::Protocol),
                Maybe,
                "a % has no meaning for a request that changes something",
            ),
        }
    }
}

pub(super) enum Target {
    SameOrigin(String),
    Elsewhere(String),
    Nowhere,
}

/// Where `location` leads from `url`.
pub(super) fn target(url: &str, location: &str) -> Target {
    let Ok(absolute) = resolve(url, location) else {
        return Target::Nowhere;
    };
    match (Origin::of(url), Origin::of(&absolute)) {
        (Ok(here), Ok(there)) if here == there => Target::SameOrigin(absolute),
        (_, Ok(there)) => Target::Elsewhere(there.text()),
        _ => Target::Nowhere,
    }
}

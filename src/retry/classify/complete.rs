//! What the caller takes for a complete answer.

use super::answer::Answer;
use super::ruling::{Effect, Ruling, To};
use super::{Action, Context, Reason, Verdict};
use crate::message::{Content, Response};

/// What a success must bring with it before it is believed.
///
/// Some transports cannot tell an empty answer from one that was cut in its head: over plain HTTP,
/// Chromium reads `HTTP/1.1 200 O` as a 200 without headers and body, and without an error. Only the
/// caller knows that an order is always answered with one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Complete {
    /// Nothing: the status is enough.
    #[default]
    Status,
    /// A body of at least one byte.
    Body,
    /// A header of this name, in lower case.
    Header(Box<str>),
}

impl Complete {
    /// Whether the answer has what a complete one has.
    #[must_use]
    pub fn is_met_by(&self, response: &Response) -> bool {
        match self {
            Complete::Status => true,
            Complete::Body => match &response.content {
                Content::Whole(bytes) => !bytes.is_empty(),
                content => *content == Content::TooLarge,
            },
            Complete::Header(name) => response.headers.get(name).is_some(),
        }
    }
}

/// The verdict, unless it calls a success what the caller would not: that is asked for once more,
/// and never settles anything.
#[must_use]
pub fn completed(
    verdict: Verdict,
    response: &Response,
    complete: &Complete,
    context: &Context<'_>,
) -> Verdict {
    if !matches!(verdict.action, Action::Succeed(_)) || complete.is_met_by(response) {
        return verdict;
    }
    let (header, body) = (
        "a success without the header that every complete answer has",
        "a success without the body that every complete answer has",
    );
    let again = context.profile.replays();
    let to = if again {
        To::Again
    } else {
        To::Attend(Reason::UnexpectedBody)
    };
    let said = match complete {
        Complete::Header(_) => header,
        _ => body,
    };
    let answer = Answer::new(response, context);
    answer
        .verdict(&Ruling(to, Effect::Maybe, said))
        .guarded(context)
}

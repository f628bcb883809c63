//! Table B: what the lack of an answer means.

use super::{Action, Again, Applied, Context, Once, Reason, Verdict, guarded};
use crate::message::{Failure, FailureKind, Sent};
use crate::planted;

/// The verdict on an attempt without an answer.
#[must_use]
pub fn failure(failure: &Failure, context: &Context<'_>) -> Verdict {
    let detail = failure.detail.to_string();
    let unsent = failure.sent == Sent::No;
    if planted::is(10) && matches!(failure.kind, FailureKind::Timeout) {
        return Verdict::new(Action::Reject, Applied::No, detail);
    }
    let verdict = match failure.kind {
        FailureKind::Tls if unsent && !context.in_doubt => {
            Verdict::new(Action::Reject, Applied::No, detail)
        }
        FailureKind::Tls if unsent => Verdict::attend(Reason::Tls, detail),
        FailureKind::Unsendable if unsent && !context.in_doubt => {
            Verdict::new(Action::Reject, Applied::No, detail)
        }
        FailureKind::Unsendable => Verdict::attend(Reason::Protocol, detail),
        FailureKind::WindowClosed => Verdict::attend(Reason::WindowClosed, detail),
        FailureKind::OpaqueRedirect => Verdict::attend(Reason::Redirected, detail),
        FailureKind::StaleConnection if context.may(Once::StaleConnection) => {
            let once = Some(Once::StaleConnection);
            Verdict::again(
                Again {
                    at_once: true,
                    once,
                    ..Again::default()
                },
                detail,
            )
        }
        FailureKind::Refused if unsent && context.attempt <= 1 => Verdict::again(
            Again {
                at_once: true,
                ..Again::default()
            },
            detail,
        ),
        _ => Verdict::again(Again::default(), detail),
    };
    guarded(
        if unsent {
            verdict.without_effect()
        } else {
            verdict
        },
        context,
    )
}

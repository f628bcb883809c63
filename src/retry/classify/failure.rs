//! Table B: what the lack of an answer means.

use super::ruling::To;
use super::{Applied, Context, Once, Reason, Verdict};
use crate::message::{Failure, FailureKind, Sent};
use crate::planted;

/// The verdict on an attempt without an answer.
#[must_use]
pub fn failure(failure: &Failure, context: &Context<'_>) -> Verdict {
    let unsent = failure.sent == Sent::No;
    let unknown = context.in_doubt || !unsent;
    let to = match failure.kind {
        FailureKind::Timeout if planted::is(10) => To::Reject,
        FailureKind::Tls | FailureKind::Unsendable if !unknown => To::Reject,
        FailureKind::Tls if unsent => To::Attend(Reason::Tls),
        FailureKind::Unsendable => To::Attend(Reason::Protocol),
        FailureKind::WindowClosed => To::Attend(Reason::WindowClosed),
        FailureKind::OpaqueRedirect => To::Attend(Reason::Redirected),
        FailureKind::StaleConnection if context.may(Once::StaleConnection) => {
            To::AgainOnce(Once::StaleConnection)
        }
        FailureKind::Refused if unsent && context.attempt <= 1 => To::AgainAtOnce,
        _ => To::Again,
    };
    to.after(failure).guarded(context)
}

impl To {
    /// The verdict on an attempt that brought no answer.
    pub(super) fn after(self, failure: &Failure) -> Verdict {
        Verdict {
            action: self.action(None),
            applied: match failure.sent {
                Sent::No => Applied::No,
                Sent::Maybe => Applied::Maybe,
            },
            reason: failure.detail.clone().into(),
        }
    }
}

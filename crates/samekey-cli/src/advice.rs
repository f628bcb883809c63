//! What to do next, by where an operation stands.

use crate::house::House;
use crate::when;
use samekey::entry::{Entry, Liveness};
use samekey::{Phase, Reason};

/// A sentence, and the command that goes with it if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Advice {
    pub(crate) text: String,
    pub(crate) command: Option<String>,
}

/// What the owner of an entry may do now.
pub(crate) fn next(entry: &Entry, driver: Option<Liveness>, house: &House) -> Advice {
    let reference = entry.reference();
    let resume = || Some(house.hint(&format!("resume {reference}")));
    let settle = || {
        Some(house.hint(&format!(
            "settle {reference} --happened --note '…'   (or --did-not)"
        )))
    };
    let advice = |text: &str, command| Advice {
        text: text.to_owned(),
        command,
    };
    match entry.progress.phase {
        Phase::Succeeded | Phase::Rejected | Phase::Abandoned => {
            advice("Nothing: it has ended.", None)
        }
        Phase::Attention(reason) => {
            let command = if may_resume(reason) {
                resume()
            } else {
                settle()
            };
            advice(why(reason), command)
        }
        Phase::Deferred => {
            let until = entry.progress.not_before.unwrap_or_default();
            if until <= when::now() {
                return advice("Its time has come: resume it.", resume());
            }
            let text = format!(
                "Wait: the server asked to be left alone until {}. The program that parked it goes on \
                 by itself if it still runs; else resume it then.",
                when::moment(until)
            );
            advice(&text, resume())
        }
        _ if driver == Some(Liveness::Alive) => advice("Wait: a process is working on it.", None),
        _ => advice(
            "Resume it: it goes on under the same key, with the same bytes.",
            resume(),
        ),
    }
}

fn may_resume(reason: Reason) -> bool {
    !matches!(
        reason,
        Reason::Cancelled
            | Reason::KeyMismatch
            | Reason::WindowClosed
            | Reason::NoKeySupport
            | Reason::AlreadyDone
    )
}

/// What needs attention, in words.
fn why(reason: Reason) -> &'static str {
    match reason {
        Reason::Exhausted => {
            "The attempts are spent and one may have been applied: resume it later."
        }
        Reason::WindowClosed => {
            "The server may have forgotten the key, so nothing is sent any more: find out there by the \
             reference, then settle it."
        }
        Reason::KeyMismatch => {
            "The server knows this key with another request: look at what it holds, then settle it."
        }
        Reason::RefusedAfterDoubt => {
            "This attempt was refused, but an earlier one may have been applied: remove the cause \
             (credentials, perhaps) and resume it, or find out on the server."
        }
        Reason::FinalErrorReplayed => {
            "The server keeps replaying a stored error: find out there what happened before it failed."
        }
        Reason::UnexpectedBody => {
            "The answer did not look like the API's, perhaps a portal spoke: check the network, then \
             resume it."
        }
        Reason::CrossOriginRedirect | Reason::Redirected => {
            "The server redirects where the request cannot follow: find out there whether anything \
             happened, then begin anew with the right URL."
        }
        Reason::PollLost => {
            "The place of the result is gone: find out on the server by the reference."
        }
        Reason::WorkFailed => {
            "The server took it and reports that the work failed: see its answer."
        }
        Reason::Throttled => {
            "The server takes this for abuse: talk to its operator, then resume it."
        }
        Reason::Cancelled => {
            "It was stopped, but may have been applied before: find out on the server, then settle it."
        }
        Reason::Crashes => "Programs kept dying over it: find the cause, then resume it.",
        Reason::Tls => "The connection is no longer trusted: mend the certificate, then resume it.",
        Reason::NoKeySupport => {
            "The server does not know keys, so nothing is sent twice: find out there, then settle it."
        }
        Reason::AlreadyDone => {
            "The server says it was done before, but not with what result: find it, then settle it."
        }
        _ => "Find out on the server by the reference, then settle it.",
    }
}

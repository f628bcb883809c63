//! Outcomes, errors and updates as plain values; `pkg/src/told.ts` names them.

use samekey::platform::web::border::Pack;
use samekey::{Error, ErrorKind, Operation, Outcome, Phase, Update};

/// What a call tells the package.
pub(crate) type Answer = Result<Pack, Pack>;

fn optional(pack: &mut Pack, number: Option<f64>) {
    match number {
        Some(number) => pack.number(number),
        None => pack.nothing(),
    }
}

/// A mistake in the options themselves.
pub(crate) fn mistake(message: &str) -> Pack {
    let mut told = Pack::of("invalid-configuration");
    told.nothing();
    told.text(message);
    told
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` wants it")]
pub(crate) fn fail(error: Error) -> Pack {
    let (mut reason, mut until) = (None, None);
    let kind = match error.kind() {
        ErrorKind::InvalidRequest => "invalid-request",
        ErrorKind::InvalidConfiguration => "invalid-configuration",
        ErrorKind::Journal(kind) => {
            reason = Some(kind.name());
            "journal"
        }
        ErrorKind::FingerprintMismatch => "fingerprint-mismatch",
        ErrorKind::Tombstone => "tombstone",
        ErrorKind::Attention(why) => {
            reason = Some(why.name());
            "attention"
        }
        ErrorKind::Deferred(time) => {
            until = Some(time.as_millis() as f64);
            "deferred"
        }
        ErrorKind::NotApplied => "not-applied",
        ErrorKind::HeldElsewhere => "held-elsewhere",
        ErrorKind::BodyNeeded => "body-needed",
        ErrorKind::BodyMismatch => "body-mismatch",
        ErrorKind::OtherScope => "other-scope",
        ErrorKind::OriginNotAllowed => "origin-not-allowed",
        ErrorKind::NotFound => "not-found",
        ErrorKind::Ambiguous => "ambiguous",
        ErrorKind::Ended(phase) => {
            reason = Some(phase.name());
            "ended"
        }
        ErrorKind::Damaged => "damaged",
        ErrorKind::PreviousUnresolved => "previous-unresolved",
        _ => "locked",
    };
    let mut told = Pack::of(kind);
    told.optional(reason);
    told.text(&error.to_string());
    let reference = error.reference().map(|reference| reference.to_string());
    told.optional(reference.as_deref());
    optional(&mut told, until);
    told.number(f64::from(error.attempts()));
    told.flag(error.is_unresolved());
    told.flag(error.nothing_was_sent());
    told
}

pub(crate) fn outcome(outcome: &Outcome) -> Pack {
    let mut told = Pack::of(outcome.phase().name());
    told.number(f64::from(outcome.status()));
    match outcome.body() {
        Some(body) => told.bytes(body),
        None => told.nothing(),
    }
    told.text(outcome.provenance().name());
    told.number(f64::from(outcome.attempts()));
    told.number(outcome.answered_at().as_millis() as f64);
    told.text(&outcome.reference().to_string());
    told.text(outcome.key().as_str());
    told.flag(outcome.is_recorded());
    told.optional(outcome.note());
    for (name, value) in outcome.headers().iter() {
        told.text(name);
        told.text(value);
    }
    told
}

pub(crate) fn update(update: &Update) -> Pack {
    let (mut attempted, mut waits, mut why, mut when) = (None, None, None, None);
    let state = match update {
        Update::Sending { attempt } => {
            attempted = Some(f64::from(*attempt));
            "sending"
        }
        Update::Waiting {
            attempt,
            wait,
            reason,
        } => {
            attempted = Some(f64::from(*attempt));
            waits = Some(wait.as_millis() as f64);
            why = Some(&**reason);
            "waiting"
        }
        Update::Polling => "polling",
        Update::Joined => "joined",
        Update::Deferred { until } => {
            when = Some(until.as_millis() as f64);
            "deferred"
        }
        Update::Settled(phase) => phase.name(),
        Update::Attention(reason) => {
            why = Some(reason.name());
            "attention"
        }
        _ => "unknown",
    };
    let mut told = Pack::of(state);
    optional(&mut told, attempted);
    optional(&mut told, waits);
    told.optional(why);
    optional(&mut told, when);
    told
}

/// What a handle knows, for a list.
pub(crate) fn summary(operation: &Operation) -> Pack {
    let entry = operation.entry();
    let (frozen, progress) = (&entry.frozen, &entry.progress);
    let mut told = Pack::of(&entry.reference().to_string());
    told.text(entry.key().as_str());
    told.text(&frozen.intent);
    told.text(&frozen.url);
    told.text(frozen.method.as_str());
    told.text(progress.phase.name());
    told.optional(match progress.phase {
        Phase::Attention(reason) => Some(reason.name()),
        _ => None,
    });
    told.number(f64::from(progress.attempts));
    told.number(frozen.begun_at.as_millis() as f64);
    told.flag(progress.maybe_applied);
    told.flag(progress.phase.is_unfinished());
    told.text(operation.grade().name());
    optional(
        &mut told,
        progress.not_before.map(|until| until.as_millis() as f64),
    );
    told.optional(progress.recent.last().map(|last| &*last.reason));
    let damage = operation.damage().map(|damage| damage.to_string());
    told.optional(damage.as_deref());
    told
}

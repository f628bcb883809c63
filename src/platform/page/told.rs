//! Outcomes, errors and updates as plain values; `pkg/src/told.ts` names them.

use crate::entry::{Entry, Phase};
use crate::error::{Error, ErrorKind};
use crate::outcome::Outcome;
use crate::seam::values::Pack;
use crate::time::Timestamp;

/// The last moment that a script's dates can name.
const LAST_DATE: u64 = 8_640_000_000_000_000;

pub(super) fn optional(told: &mut Pack, time: Option<Timestamp>) {
    match time {
        Some(time) => told.number(time.as_millis().min(LAST_DATE) as f64),
        None => told.nothing(),
    }
}

pub(super) fn trouble(told: &mut Pack, error: &Error) {
    let (mut reason, mut until) = (None, None);
    // As the script counts them.
    let kind = match error.kind() {
        ErrorKind::InvalidRequest => 0,
        ErrorKind::InvalidConfiguration => 1,
        ErrorKind::Journal(kind) => {
            reason = Some(kind.name());
            2
        }
        ErrorKind::FingerprintMismatch => 3,
        ErrorKind::Tombstone => 4,
        ErrorKind::Attention(why) => {
            reason = Some(why.name());
            5
        }
        ErrorKind::Deferred(time) => {
            until = Some(time);
            6
        }
        ErrorKind::NotApplied => 7,
        ErrorKind::HeldElsewhere => 8,
        ErrorKind::BodyNeeded => 9,
        ErrorKind::BodyMismatch => 10,
        ErrorKind::Locked => 11,
        ErrorKind::OtherScope => 12,
        ErrorKind::OriginNotAllowed => 13,
        ErrorKind::NotFound => 14,
        ErrorKind::Ambiguous => 15,
        ErrorKind::Ended(phase) => {
            reason = Some(phase.name());
            16
        }
        ErrorKind::Damaged => 17,
        ErrorKind::PreviousUnresolved => 18,
    };
    told.number(f64::from(kind));
    told.optional(reason);
    told.text(error.message());
    let reference = error.reference().map(|reference| reference.text());
    told.optional(reference.as_deref());
    optional(told, until);
    told.number(f64::from(error.attempts()));
    told.flag(error.is_unresolved());
    told.flag(error.nothing_was_sent());
}

pub(super) fn outcome(told: &mut Pack, outcome: &Outcome) {
    told.text(outcome.phase().name());
    told.number(f64::from(outcome.status()));
    told.optional_bytes(outcome.body());
    told.text(outcome.provenance().name());
    told.number(f64::from(outcome.attempts()));
    told.number(outcome.answered_at().as_millis() as f64);
    told.text(&outcome.reference().text());
    told.text(outcome.key().as_str());
    told.flag(outcome.is_recorded());
    told.optional(outcome.note());
    for (name, value) in outcome.headers().iter() {
        told.text(name);
        told.text(value);
    }
}

/// What an entry says, for a list.
pub(super) fn summary(told: &mut Pack, entry: &Entry) {
    let (frozen, progress) = (&entry.frozen, &entry.progress);
    told.text(&entry.reference().text());
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
    optional(told, progress.not_before);
    told.optional(progress.recent.last().map(|last| &*last.reason));
}

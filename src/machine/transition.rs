//! Changes of an entry that need no driver: taking it over, letting it go, and what people decide.

use crate::entry::{Entry, Liveness, Owner, Phase, Progress};
use crate::planted;
use crate::retry::classify::Reason;
use crate::time::Timestamp;

/// So many processes may die over one entry before a person has to look.
const MAX_CRASHES: u32 = 5;

/// Whether an entry may be driven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Yes, once this progress is written.
    Take(Box<Progress>),
    /// Another owner works on it.
    Held,
    /// Not before this time.
    NotYet(Timestamp),
    /// No: it ended, or needs a person.
    Closed,
}

/// Whether `me` may drive `entry` now, given whether its present owner lives.
///
/// A dead or silent owner's entry is taken over with a new epoch; the old owner's writes bounce
/// from then on. Crashes are counted, so that an entry that kills its drivers is not tried for ever.
#[must_use]
pub fn claim(entry: &Entry, me: Owner, holder: Liveness, now: Timestamp) -> Claim {
    let old = &entry.progress;
    match old.phase {
        Phase::Attention(reason) if !may_be_retried(reason) => return Claim::Closed,
        phase if phase.is_settled() && !planted::is(15) => return Claim::Closed,
        Phase::Deferred if old.waits_at(now) => {
            return Claim::NotYet(old.not_before.unwrap_or(now));
        }
        _ => {}
    }
    let orphaned = old.owner != Owner::NONE && old.owner != me;
    if orphaned && (holder == Liveness::Alive || planted::is(16)) {
        return Claim::Held;
    }
    let mut new = old.clone();
    new.revision += 1;
    new.epoch += 1;
    new.seen_at = new.seen_at.max(now);
    let was_sending = matches!(old.phase, Phase::Ready | Phase::Sending);
    if orphaned && (was_sending || old.phase == Phase::Polling) {
        new.crashes += 1;
        if new.crashes >= MAX_CRASHES {
            new.owner = Owner::NONE;
            new.phase = Phase::Attention(Reason::Crashes);
            return Claim::Take(Box::new(new));
        }
    }
    if orphaned && old.phase == Phase::Ready {
        // Its first attempt may have left without a note: count it.
        new.attempts += 1;
    }
    if !old.maybe_applied {
        // What a clock that ran ahead has seen is no part of a window that begins now.
        (new.window_start, new.seen_at) = (now, now);
    } else if planted::is(9) {
        new.window_start = now;
    }
    new.owner = me;
    new.maybe_applied = true;
    if old.poll_url.is_some() {
        new.phase = Phase::Polling;
    } else {
        new.phase = Phase::Sending;
        new.attempts += 1;
    }
    Claim::Take(Box::new(new))
}

/// Whether a person may ask for another attempt under the same key.
fn may_be_retried(reason: Reason) -> bool {
    !matches!(
        reason,
        Reason::Cancelled | Reason::KeyMismatch | Reason::WindowClosed | Reason::NoKeySupport
    )
}

/// Whether an attempt may have left for the server, answered or not.
///
/// More than doubt: a refusal leaves none, and yet the request was there.
#[must_use]
pub fn may_have_left(progress: &Progress) -> bool {
    let answered = || {
        progress
            .recent
            .iter()
            .any(|attempt| attempt.status.is_some())
    };
    // Whoever was sent elsewhere was answered, too.
    progress.maybe_applied || progress.answer.is_some() || progress.hops > 0 || answered()
}

/// Lets an open entry go in an orderly way, so that anyone may take it at once.
#[must_use]
pub fn release(progress: &Progress, surely_unsent: bool) -> Progress {
    let mut new = step(progress);
    new.owner = Owner::NONE;
    new.maybe_applied = !surely_unsent;
    if surely_unsent {
        // The attempt that was about to leave did not; those that ended before it count.
        new.attempts = new.recent.last().map_or(0, |last| last.number);
        new.phase = Phase::Ready;
    } else if new.phase == Phase::Ready {
        new.phase = Phase::Sending;
        new.attempts = new.attempts.max(1);
    }
    new
}

/// The user's stop. It wins over every later resume: abandoned if nothing can have happened, else
/// a person has to find out. `None` if the operation ended already.
#[must_use]
pub fn cancel(progress: &Progress, surely_unsent: bool, note: Option<&str>) -> Option<Progress> {
    if progress.phase.is_settled() {
        return None;
    }
    let mut new = step(progress);
    new.owner = Owner::NONE;
    new.note = note.map(Into::into);
    new.maybe_applied &= !surely_unsent;
    new.phase = if new.maybe_applied {
        Phase::Attention(Reason::Cancelled)
    } else {
        Phase::Abandoned
    };
    Some(new)
}

/// Closes an operation on purpose, whatever may have happened. `None` if it ended already.
#[must_use]
pub fn abandon(progress: &Progress, note: &str) -> Option<Progress> {
    close_by_hand(progress, Phase::Abandoned, note)
}

/// A person's word on what happened. `None` if the operation ended already.
#[must_use]
pub fn settle(progress: &Progress, happened: bool, note: &str) -> Option<Progress> {
    close_by_hand(
        progress,
        if happened {
            Phase::Succeeded
        } else {
            Phase::Rejected
        },
        note,
    )
}

fn close_by_hand(progress: &Progress, phase: Phase, note: &str) -> Option<Progress> {
    if progress.phase.is_settled() {
        return None;
    }
    let mut new = step(progress);
    new.phase = phase;
    new.owner = Owner::NONE;
    new.note = Some(note.into());
    Some(new)
}

/// The next revision, still unchanged. The epoch counts up too: whoever drives it is cut off.
fn step(progress: &Progress) -> Progress {
    let mut new = progress.clone();
    new.revision += 1;
    new.epoch += 1;
    new
}

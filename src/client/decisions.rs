//! What the loop around the machine has to decide, as plain functions: the loop of a program and the
//! script of a page carry out the same.

use crate::clock::Dice;
use crate::entry::{DecodeError, Entry, Frozen, Kept, Phase, Progress, Scope};
use crate::error::{Error, ErrorKind};
use crate::journal;
use crate::key::Key;
use crate::machine::{self, End, Machine};
use crate::message::{Content, Response, filled};
use crate::operation::nonce;
use crate::outcome::Outcome;
use crate::seal::{Keeper, Part};
use crate::text::decimal;
use crate::time::Timestamp;

use super::settings::is_framing;

/// Whether what we began, and still hold, may be sent as it is. If it lay unsent for long, its window
/// has to begin again, durably, before anything is sent.
pub(crate) fn is_young(progress: &Progress, now: Timestamp) -> bool {
    now.since(progress.window_start) <= progress.window / 2
}

/// What is merely exhausted goes on by itself; all else waits until somebody wants it resumed.
pub(crate) fn needs_a_person(phase: Phase) -> bool {
    matches!(phase, Phase::Attention(_)) && !phase.is_unfinished()
}

/// Whether a caller that waited for another one's drive has its answer here.
pub(crate) fn is_over(phase: Phase) -> bool {
    matches!(phase, Phase::Attention(_) | Phase::Deferred) || phase.is_settled()
}

pub(crate) fn other_scope(entry: &Entry, mine: &Scope) -> Error {
    Error::new(
        ErrorKind::OtherScope,
        filled(
            "the operation belongs to %, and this client acts for %: the server would take it for a \
             new action. Nothing was sent now",
            &[entry.frozen.scope.as_str(), mine.as_str()],
        ),
    )
}

pub(crate) fn held_elsewhere() -> Error {
    Error::new(
        ErrorKind::HeldElsewhere,
        "another process is still working on this operation; ask again later",
    )
}

pub(crate) fn gone() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "the journal no longer has this operation: it was settled and reaped, or forgotten",
    )
}

/// A reference has `found` operations here, where one was wanted.
pub(crate) fn not_one(found: usize, scope: &Scope) -> Error {
    if found == 0 {
        let none = "the journal has no operation of % with this reference";
        return Error::new(ErrorKind::NotFound, filled(none, &[scope.as_str()]));
    }
    Error::new(
        ErrorKind::Ambiguous,
        filled(
            "% operations have this reference; `find` gives all of them, choose by the key",
            &[&decimal(found as u64)],
        ),
    )
}

/// An entry that is there and cannot be read.
pub(crate) fn distrusted(slot: u64, damage: DecodeError) -> Error {
    let (_, message) = journal::unreadable(slot, damage);
    Error::new(ErrorKind::Damaged, message).after(0, true)
}

pub(crate) fn ended(phase: Phase) -> Error {
    let ended = filled("the operation has ended already: %", &[phase.name()]);
    Error::new(ErrorKind::Ended(phase), ended)
}

/// What an entry says that is closed to us.
pub(crate) fn conclude(entry: &Entry, keeper: &Keeper, now: Timestamp) -> Result<Outcome, Error> {
    let progress = &entry.progress;
    match progress.phase {
        Phase::Succeeded | Phase::Rejected => recovered(entry, keeper),
        Phase::Attention(reason) => Err(Error::attention(reason)),
        Phase::Abandoned => {
            let advice = if machine::may_have_left(progress) {
                "the operation was abandoned, and may have happened before that; find out by the \
                 reference before doing it again"
            } else {
                "the operation was abandoned before anything was sent; use another intent, or \
                 `repeat`, to do it after all"
            };
            Err(Error::new(ErrorKind::Ended(Phase::Abandoned), advice))
        }
        _ => Err(Error::deferred(
            progress.not_before.unwrap_or_default(),
            now,
        )),
    }
}

/// The outcome that a settled entry holds.
pub(crate) fn recovered(entry: &Entry, keeper: &Keeper) -> Result<Outcome, Error> {
    if let Some(error) = given_up(&entry.progress) {
        return Err(error);
    }
    let answer = entry.progress.answer.as_ref();
    let content = match answer.map(|answer| &answer.body) {
        None | Some(Kept::NotKept) => Content::NotKept,
        Some(Kept::Lost) => Content::Lost,
        Some(Kept::TooLarge) => Content::TooLarge,
        Some(kept) => match keeper.open(kept, &entry.frozen, Part::Answer)? {
            Some(bytes) => Content::Whole(bytes.to_vec()),
            None => Content::NotKept,
        },
    };
    Ok(Outcome::of(entry.key(), &entry.progress, content, true))
}

/// An operation that the transport refused for good before anything was sent: no server's word.
pub(crate) fn given_up(progress: &Progress) -> Option<Error> {
    let no_answer = progress.answer.is_none() && progress.note.is_none();
    (progress.phase == Phase::Rejected && no_answer).then(|| {
        Error::new(
            ErrorKind::Ended(Phase::Rejected),
            "it was given up before anything was sent; mend the cause, then `repeat` it",
        )
        .because(progress)
    })
}

/// The outcome as it came, with what the journal does not keep.
#[cfg(feature = "page")]
pub(crate) fn outcome(machine: &Machine, key: &Key, found: bool) -> Outcome {
    outcome_of(
        machine.last_response().cloned(),
        machine.progress(),
        key,
        found,
    )
}

/// The outcome of the answer that settled it.
pub(crate) fn outcome_of(
    response: Option<Response>,
    progress: &Progress,
    key: &Key,
    found: bool,
) -> Outcome {
    match response {
        Some(Response {
            headers, content, ..
        }) => Outcome::of(key, progress, content, found).with_headers(headers),
        None => Outcome::of(key, progress, Content::NotKept, found),
    }
}

/// How a drive ended that brought no outcome; `None` if it settled.
pub(crate) fn unsettled(end: End, progress: &Progress, now: Timestamp) -> Option<Error> {
    let error = match end {
        End::Settled => return None,
        End::Attention(reason) => Error::attention(reason),
        End::Deferred(until) => Error::deferred(until, now),
        End::NotApplied => Error::new(
            ErrorKind::NotApplied,
            "given up for now, and no attempt can have had an effect; it stays in the journal \
             and goes on under the same key when it is resumed",
        ),
    };
    Some(error.because(progress))
}

/// Somebody else wrote while we drove. What becomes of our last word?
pub(crate) enum Overruled {
    /// It is written over what they noted.
    Insist(Box<Progress>),
    /// A person closed it meanwhile. Their note stands in the journal, but the caller hears what the
    /// server said.
    Heard,
    /// Theirs stands.
    Theirs,
}

/// Of two final words the first stands; else ours is written over what somebody else noted. Except
/// where it leans on nothing having left before and others have sent since, more than the `noted`
/// attempts: a refusal of our attempt says nothing about theirs.
pub(crate) fn overruled(machine: &Machine, theirs: &Progress, noted: u32) -> Overruled {
    let mine = machine.progress();
    let insist = mine.phase.is_settled() && (machine.in_doubt() || theirs.attempts <= noted);
    if !insist {
        return Overruled::Theirs;
    }
    if theirs.phase.is_settled() {
        return match theirs.answer {
            None => Overruled::Heard,
            Some(_) => Overruled::Theirs,
        };
    }
    let mut progress = mine.clone();
    progress.revision = theirs.revision + 1;
    progress.epoch = theirs.epoch + 1;
    progress.attempts = progress.attempts.max(theirs.attempts);
    Overruled::Insist(Box::new(progress))
}

/// The entry of a drive that was broken off, as others may take it up; `None` if there is nothing to
/// let go. `failed`: the journal did not take our latest write.
pub(crate) fn broken_off(machine: &Machine, sending: bool, failed: bool) -> Option<Progress> {
    let progress = machine.progress();
    if progress.phase.is_open() {
        let surely_unsent = !sending && !machine.in_doubt();
        return Some(machine::release(progress, surely_unsent));
    }
    if !failed {
        return None;
    }
    // A last word that the journal did not take is not the journal's: there it is still open.
    let mut open = progress.clone();
    (open.phase, open.answer) = (Phase::Sending, None);
    Some(machine::release(&open, false))
}

/// Makes of a progress what the journal keeps: an answer is kept as the body is.
pub(crate) fn keep(progress: &mut Progress, frozen: &Frozen, keeper: &Keeper, dice: &dyn Dice) {
    if let Some(answer) = &mut progress.answer
        && let Kept::Plain(bytes) = &answer.body
    {
        let mode = Keeper::mode_of(&frozen.body);
        let kept = keeper.keep(mode, bytes, frozen, Part::Answer, || nonce(dice));
        answer.body = kept.unwrap_or(Kept::NotKept);
    }
}

/// Whether the frozen request, or the transport, sets this header.
pub(crate) fn is_taken(frozen: &Frozen, name: &str) -> bool {
    let key = frozen
        .key_line
        .as_ref()
        .map_or("idempotency-key", |(name, _)| name);
    name.eq_ignore_ascii_case(key) || frozen.headers.get(name).is_some() || is_framing(name)
}

pub(crate) fn line_is_taken(name: &str) -> String {
    filled(
        "the credentials callback gave a line %, which the request has already; leave it out",
        &[name],
    )
}

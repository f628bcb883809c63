//! Getting the right to drive an entry, writing to it, and letting it go.

use super::{Inner, decisions};
use crate::entry::{Entry, Frozen, Owner, Progress, Receipt};
use crate::error::{Error, ErrorKind};
use crate::journal::{Expected, Flush, JournalError, JournalErrorKind, Liveness, Write};
use crate::machine::{self, Claim};
use crate::message::Origin;
use crate::operation::Operation;
use crate::outcome::Outcome;
use crate::seam::BoxFuture;
use crate::time::Now;
use crate::trace;
use crate::update::Update;
use std::task::{Context, Waker};
use std::time::Duration;

/// How often a waiting process looks whether another one is done, at the least.
const JOIN_EVERY: Duration = Duration::from_millis(200);
/// How long after its begin an operation may be sent without a look at what others did to it.
const FRESH: Duration = Duration::from_millis(250);

/// Why an operation is to be driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The program goes its way.
    Send,
    /// Somebody wants it taken up again, and may know that what stood in the way is gone.
    Resume,
}

/// An entry that is ours to drive.
pub(super) struct Mine {
    pub(super) entry: Entry,
    pub(super) receipt: Receipt,
    pub(super) surely_unsent: bool,
    /// When that was so.
    pub(super) now: Now,
    /// Where it goes, if that was looked at already and is allowed.
    pub(super) origin: Option<Origin>,
}

impl Inner {
    /// How the flight ended that this caller waited for, unless there is more to do.
    pub(super) async fn landed(&self, operation: &Operation) -> Result<Option<Entry>, Error> {
        let entry = self.load(operation).await?;
        operation.learn(&entry);
        Ok(decisions::is_over(entry.progress.phase).then_some(entry))
    }

    /// Gets the right to drive what was not begun a moment ago, mostly by a claim.
    pub(super) async fn acquire(
        &self,
        operation: &Operation,
        wish: Wish,
    ) -> Result<Acquired, Error> {
        let started = self.clock.now();
        let mut joined = false;
        loop {
            let entry = self.load(operation).await?;
            operation.learn(&entry);
            match self.take_held(operation, &entry).await? {
                Held::Mine(mine) => return Ok(Acquired::Mine(mine)),
                Held::Again => continue,
                Held::Void => {}
            }
            if entry.frozen.scope != self.scope && !crate::planted::is(22) {
                return Err(operation.blame(decisions::other_scope(&entry, &self.scope)));
            }
            if wish == Wish::Send && decisions::needs_a_person(entry.progress.phase) {
                return Ok(Acquired::Ended(Box::new(entry)));
            }
            match self.claim(operation, &entry).await? {
                Claimed::Mine(mine) => return Ok(Acquired::Mine(mine)),
                Claimed::Closed => return Ok(Acquired::Ended(Box::new(entry))),
                Claimed::Again => continue,
                Claimed::Held => {}
            }
            if self.clock.now().since(started) > self.policy.give_up_after {
                return Err(operation.blame(decisions::held_elsewhere()));
            }
            if !std::mem::replace(&mut joined, true) {
                operation.updates.tell(&Update::Joined);
            }
            let jitter = Duration::from_millis(self.dice.roll() % 200);
            self.clock.sleep(JOIN_EVERY + jitter).await;
        }
    }

    /// What was begun a moment ago and has not been touched since needs no second look.
    pub(super) fn take_fresh(&self, operation: &Operation) -> Option<Mine> {
        let mut state = operation.state();
        let (now, begun) = (self.clock.now(), state.entry.progress.window_start);
        if now.wall < begun || now.wall.since(begun) > FRESH {
            return None;
        }
        let receipt = state.held.take()?;
        Some(Mine {
            entry: state.entry.clone(),
            receipt,
            surely_unsent: true,
            now,
            origin: state.origin.take(),
        })
    }

    /// What we began and still hold is ours, and surely unsent: no claim is needed.
    ///
    /// If it lay unsent for long, its window has to begin again, durably, before anything is sent:
    /// it is let go, and the claim that follows sees to that.
    async fn take_held(&self, operation: &Operation, entry: &Entry) -> Result<Held, Error> {
        let now = self.clock.now();
        let young = decisions::is_young(&entry.progress, now.wall);
        {
            let mut state = operation.state();
            // Somebody else may have taken over what we began: then our receipt is void.
            let current = |receipt: &Receipt| receipt.revision() == entry.progress.revision;
            match state.held.take().filter(current) {
                None => return Ok(Held::Void),
                Some(receipt) if young => {
                    return Ok(Held::Mine(Box::new(Mine {
                        entry: entry.clone(),
                        receipt,
                        surely_unsent: true,
                        now,
                        origin: None,
                    })));
                }
                receipt => state.held = receipt,
            }
        }
        let unsent = machine::release(&entry.progress, true);
        let (slot, frozen, old) = (entry.slot, &entry.frozen, Expected::of(&entry.progress));
        match self.record(slot, frozen, old, unsent, Flush::Full).await {
            Err(error) if error.kind() != JournalErrorKind::Stale => {
                Err(operation.unseen(error.into()))
            }
            _ => Ok(Held::Again),
        }
    }

    /// One try to claim an entry; a lost race means to look again.
    async fn claim(&self, operation: &Operation, entry: &Entry) -> Result<Claimed, Error> {
        let owner = entry.progress.owner;
        let me = self.journal.owner();
        let foreign = owner != Owner::NONE && owner != me;
        let liveness = if foreign {
            self.journal
                .liveness(owner)
                .await
                .map_err(|error| operation.unseen(error.into()))?
        } else {
            Liveness::Dead
        };
        let now = self.clock.now().wall;
        let progress = match machine::claim(entry, me, liveness, now) {
            Claim::Take(progress) => *progress,
            Claim::Held => return Ok(Claimed::Held),
            Claim::NotYet(_) | Claim::Closed => return Ok(Claimed::Closed),
        };
        // What cannot be sent is not claimed.
        operation.body()?;
        self.profile_of(entry)?;
        let url = progress.moved_to.as_deref().unwrap_or(&entry.frozen.url);
        self.check_origin(url)
            .map_err(|error| operation.blame(error))?;
        let surely_unsent = !entry.progress.maybe_applied;
        let claimed = Entry {
            progress,
            ..entry.clone()
        };
        let mut unheard = Unheard(Some((self, &claimed)));
        let (slot, frozen) = (claimed.slot, &claimed.frozen);
        let old = Expected::of(&entry.progress);
        let written = self
            .record(slot, frozen, old, claimed.progress.clone(), Flush::Full)
            .await;
        // A write that is said to have failed may have taken hold all the same.
        let in_doubt = matches!(&written, Err(error) if error.kind() != JournalErrorKind::Stale);
        unheard.0.take_if(|_| !in_doubt);
        drop(unheard);
        match written {
            Ok(receipt) => {
                self.flights.end_hold(claimed.key());
                trace::claimed(&claimed, entry.progress.owner != Owner::NONE);
                Ok(Claimed::Mine(Box::new(Mine {
                    entry: claimed,
                    receipt,
                    surely_unsent,
                    now: self.clock.now(),
                    origin: None,
                })))
            }
            Err(error) if error.kind() == JournalErrorKind::Stale => Ok(Claimed::Again),
            Err(error) => Err(operation.unseen(error.into())),
        }
    }

    /// The entry as the journal has it now. Boxed: many ask, and each would have a copy of it.
    pub(crate) fn load<'a>(
        &'a self,
        operation: &'a Operation,
    ) -> BoxFuture<'a, Result<Entry, Error>> {
        Box::pin(async move {
            let (slot, key) = operation.handle();
            match self.journal.load(slot, key).await {
                Ok(Some(entry)) => Ok(entry),
                Ok(None) => Err(operation.unseen(decisions::gone())),
                Err(error) => Err(operation.unseen(error.into())),
            }
        })
    }

    pub(crate) fn record(
        &self,
        slot: u64,
        frozen: &Frozen,
        expected: Expected,
        mut progress: Progress,
        flush: Flush,
    ) -> BoxFuture<'_, Result<Receipt, JournalError>> {
        decisions::keep(&mut progress, frozen, &self.keeper, &*self.dice);
        self.journal.record(Write {
            slot,
            key: frozen.key.clone(),
            expected,
            progress,
            flush,
        })
    }

    /// A begin that is said to have failed may have taken hold all the same: then nobody drives what it
    /// made, and it is let go. Nothing more is done if that fails too.
    pub(crate) async fn let_go_if_begun(&self, entry: &Entry) {
        let scope = Some(entry.frozen.scope.clone());
        let Ok(found) = self.journal.find(entry.reference(), scope).await else {
            return;
        };
        let ours = Expected::of(&entry.progress);
        let made = |it: &&Entry| it.key() == entry.key() && Expected::of(&it.progress) == ours;
        if let Some(made) = found.entries.iter().find(made) {
            let unsent = machine::release(&made.progress, true);
            let (slot, frozen) = (made.slot, &made.frozen);
            let _ = self.record(slot, frozen, ours, unsent, Flush::Full).await;
        }
    }

    /// Starts a write without waiting for it: a future that is dropped cannot await.
    pub(crate) fn let_go(
        &self,
        slot: u64,
        frozen: &Frozen,
        expected: Expected,
        progress: Progress,
        flush: Flush,
    ) {
        let mut write = self.record(slot, frozen, expected, progress, flush);
        let _ = write.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }

    /// What an entry says that is closed to us.
    pub(super) fn conclude(&self, operation: &Operation, entry: &Entry) -> Result<Outcome, Error> {
        let now = self.clock.now().wall;
        let concluded = decisions::conclude(entry, &self.keeper, now);
        if let Err(error) = &concluded
            && let ErrorKind::Deferred(until) = error.kind()
        {
            super::deferred::later(operation, until);
        }
        concluded.map_err(|error| operation.blame(error))
    }

    /// The outcome that a settled entry holds.
    pub(crate) fn recovered(&self, operation: &Operation, entry: &Entry) -> Result<Outcome, Error> {
        decisions::recovered(entry, &self.keeper).map_err(|error| operation.blame(error))
    }
}

/// A claim whose caller has left before the journal answered, or that the journal is in trouble over.
/// It may be written, and would keep everybody else out for as long as this process lives.
struct Unheard<'a>(Option<(&'a Inner, &'a Entry)>);

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        if let Some((inner, claimed)) = self.0.take() {
            // Another's claim may have come first and have sent: never say that nothing was.
            let progress = machine::release(&claimed.progress, false);
            let (slot, frozen) = (claimed.slot, &claimed.frozen);
            let ours = Expected::of(&claimed.progress);
            inner.let_go(slot, frozen, ours, progress, Flush::Normal);
        }
    }
}

/// Whether an operation is ours to drive.
pub(super) enum Acquired {
    Mine(Box<Mine>),
    Ended(Box<Entry>),
}

enum Held {
    Mine(Box<Mine>),
    Again,
    Void,
}

enum Claimed {
    Mine(Box<Mine>),
    Held,
    Closed,
    Again,
}

//! The one loop of a program: it carries out what the machine decides, and decides nothing itself. A page's is
//! `platform::page`, with the package's script.

use super::decisions::{self, Overruled};
use super::flight::Flight;
use super::lease::{Acquired, Mine, Wish};
use super::{Asked, CredentialsError, Inner};
#[cfg(feature = "planted")]
use crate::entry::Progress;
use crate::entry::{Frozen, Owner, Phase, Receipt};
use crate::error::Error;
use crate::journal::{Expected, Flush, JournalError, JournalErrorKind};
use crate::machine::{Decision, End, Event, Machine, Permit, Probe, Task, Tick};
use crate::message::{Failure, FailureKind, Headers, Origin, Sent};
use crate::operation::Operation;
use crate::outcome::Outcome;
#[cfg(feature = "planted")]
use crate::planted;
use crate::retry::budget::Budget;
use crate::time::Now;
use crate::trace;
use crate::update::Update;
use std::sync::Arc;
use std::time::Duration;

/// A longer sleep is cut up, so that a laptop that was asleep notices when it wakes.
pub(super) const LONGEST_SLEEP: Duration = Duration::from_secs(30);

impl Inner {
    /// Drives an operation until there is an end to report.
    pub(crate) async fn drive(&self, operation: &Operation, wish: Wish) -> Result<Outcome, Error> {
        operation.check_damage()?;
        let key = operation.key();
        trace::within(&key, async {
            let (flight, waited) = self.flights.enter(&key).await;
            // Boxed, as what is rare and large below: a task that waits would keep room for it.
            if waited && let Some(entry) = Box::pin(self.landed(operation)).await? {
                return self.conclude(operation, &entry);
            }
            let mut heard = None;
            loop {
                let fresh = flight.take_held().then(|| self.take_fresh(operation));
                let mine = match fresh.flatten() {
                    Some(mine) => mine,
                    None => match Box::pin(self.acquire(operation, wish)).await? {
                        Acquired::Mine(mine) => *mine,
                        Acquired::Ended(entry) => return self.conclude(operation, &entry),
                    },
                };
                let now = mine.now;
                let (ride, receipt) = Ride::new(self, operation, &flight, mine)?;
                let mut ride = Box::new(ride);
                ride.machine.keep_to(heard);
                if let Some(end) = ride.run(receipt, now).await? {
                    return Ok(end);
                }
                // Somebody else drives it now: wait for them. If they are gone, what the server asked
                // of us still holds.
                heard = ride.machine.heard();
            }
        })
        .await
    }

    async fn sleep(&self, wait: Duration) {
        let started = self.clock.now();
        loop {
            let passed = self.clock.now().since(started);
            if passed >= wait {
                return;
            }
            self.clock.sleep((wait - passed).min(LONGEST_SLEEP)).await;
        }
    }
}

/// What the machine lets out.
enum Leaving {
    Attempt(Permit),
    Question(Probe),
}

/// One run of the machine over one entry. Dropped before its end, it lets the entry go.
struct Ride<'a> {
    inner: &'a Inner,
    operation: &'a Operation,
    flight: &'a Flight<'a>,
    slot: u64,
    frozen: Arc<Frozen>,
    machine: Machine,
    origin: Origin,
    refresh: bool,
    /// Why there were no credentials the last time.
    no_credentials: Option<CredentialsError>,
    sending: bool,
    /// The journal was told to write the machine's progress and has not answered for it.
    pending: Option<Flush>,
    /// How many attempts the journal knew of when we last wrote: more are somebody else's.
    noted: u32,
    /// The latest of ours that the journal acknowledged: what the next write replaces.
    written: Expected,
    /// What a write that failed would have left, if it took hold all the same.
    failed: Option<Expected>,
    over: bool,
}

impl<'a> Ride<'a> {
    fn new(
        inner: &'a Inner,
        operation: &'a Operation,
        flight: &'a Flight<'a>,
        mine: Mine,
    ) -> Result<(Ride<'a>, Receipt), Error> {
        let Mine {
            mut entry,
            receipt,
            surely_unsent,
            now,
            origin,
        } = mine;
        let progress = &mut entry.progress;
        let start = progress.window_start;
        let seen = now.wall.max(progress.seen_at).since(start);
        let age = flight.age(start, seen, now.monotonic);
        progress.seen_at = progress.seen_at.max(start + age);
        let origin = match origin {
            Some(origin) => origin,
            None => inner
                .check_origin(&entry.frozen.url)
                .map_err(|error| operation.blame(error))?,
        };
        let noted = entry.progress.attempts;
        let written = Expected::of(&entry.progress);
        let (slot, frozen) = (entry.slot, Arc::clone(&entry.frozen));
        let machine = Machine::new(Task {
            body: operation.body()?,
            profile: inner.profile_of(&entry)?,
            entry,
            policy: inner.policy.clone(),
            flush_all: inner.flush_all,
            surely_unsent,
        });
        inner.with_budget(&origin, now.monotonic, Budget::deposit);
        let ride = Ride {
            inner,
            operation,
            flight,
            slot,
            frozen,
            machine,
            origin,
            refresh: false,
            no_credentials: None,
            sending: false,
            pending: None,
            noted,
            written,
            failed: None,
            over: false,
        };
        Ok((ride, receipt))
    }

    /// Begins with what proves that the entry is ours, and obeys until there is an end; `None` if somebody
    /// else drives the entry now.
    async fn run(&mut self, receipt: Receipt, mut now: Now) -> Result<Option<Outcome>, Error> {
        let mut event = Event::Drive(receipt);
        loop {
            let roll = match event.needs_luck() {
                true => self.inner.dice.roll(),
                false => 0,
            };
            let decision = self.machine.step(event, Tick { now, roll });
            event = match decision {
                Decision::Record { progress, flush } => {
                    self.pending = Some(flush);
                    let (inner, slot, frozen, old) =
                        (self.inner, self.slot, &self.frozen, self.written);
                    #[cfg(feature = "planted")]
                    let written = match planted_write(inner, slot, frozen, &progress).await {
                        Some(receipt) => Ok(receipt),
                        None => inner.record(slot, frozen, old, *progress, flush).await,
                    };
                    #[cfg(not(feature = "planted"))]
                    let written = inner.record(slot, frozen, old, *progress, flush).await;
                    self.pending = None;
                    let progress = self.machine.progress();
                    match written {
                        Ok(receipt) => {
                            self.noted = progress.attempts;
                            self.written = Expected::of(progress);
                            Event::Recorded(receipt)
                        }
                        Err(error) => {
                            let failed = error.kind() != JournalErrorKind::Stale;
                            self.failed = failed.then(|| Expected::of(progress));
                            // Boxed, as it is rare and large.
                            return Box::pin(self.not_recorded(error)).await;
                        }
                    }
                }
                Decision::Send(permit) => self.exchange(Leaving::Attempt(permit)).await,
                Decision::Probe(probe) => self.exchange(Leaving::Question(probe)).await,
                Decision::Sleep { wait, charge } => self.sleep(wait, charge).await,
                Decision::Reauthorise => self.reauthorise(),
                Decision::Finish(end) => return self.finish(end, now).map(Some),
            };
            // What is settled has nothing left to be on time for.
            if !self.machine.progress().phase.is_settled() {
                now = self.inner.clock.now();
            }
        }
    }

    /// Lets a request leave, or a question: both with what proves who asks.
    async fn exchange(&mut self, leaving: Leaving) -> Event {
        let (url, update) = match &leaving {
            Leaving::Attempt(permit) => {
                let attempt = permit.attempt();
                (permit.url(), Update::Sending { attempt })
            }
            Leaving::Question(probe) => (probe.url(), Update::Polling),
        };
        self.operation.updates.tell(&update);
        let credentials = match self.credentials(url).await {
            Ok(credentials) => credentials,
            Err(failure) => return Event::Failed(failure),
        };
        let transport = &self.inner.transport;
        let mut left_before = true;
        let (attempt, answer) = match leaving {
            Leaving::Attempt(permit) => {
                self.sending = true;
                left_before = std::mem::replace(&mut self.operation.state().maybe_sent, true);
                let attempt = permit.attempt();
                let permit = permit.with_credentials(credentials);
                (Some(attempt), transport.send(permit))
            }
            Leaving::Question(probe) => {
                (None, transport.probe(probe.with_credentials(credentials)))
            }
        };
        let result = trace::attempt(attempt, answer).await;
        self.sending = false;
        match result {
            Ok(response) => Event::Answered(response),
            Err(failure) => {
                if failure.sent == Sent::No && !left_before {
                    self.operation.state().maybe_sent = false;
                }
                Event::Failed(failure)
            }
        }
    }

    /// Asks for what proves who we are. A foreign origin gets nothing unless it was allowed.
    async fn credentials(&mut self, url: &str) -> Result<Headers, Failure> {
        let Some(source) = &self.inner.credentials else {
            return Ok(Headers::new());
        };
        let unsendable = |why: String| Failure::new(FailureKind::Unsendable, Sent::No, why);
        let origin = Origin::of(url).map_err(|invalid| unsendable(invalid.to_string()))?;
        if origin != self.origin && !self.inner.origins.contains(&origin) {
            return Ok(Headers::new());
        }
        let refresh = std::mem::take(&mut self.refresh);
        let asked = Asked {
            origin,
            scope: self.inner.scope.clone(),
            refresh,
        };
        let failed = |why: String| Failure::new(FailureKind::Queued, Sent::No, why);
        let lines = source.headers(asked).await.map_err(|error| {
            // Its text may hold what it was asked for; only the caller gets to see it.
            self.no_credentials = Some(error);
            failed("the credentials callback failed".into())
        })?;
        if let Some((name, _)) = lines
            .iter()
            .find(|(name, _)| decisions::is_taken(&self.frozen, name))
        {
            return Err(failed(decisions::line_is_taken(name)));
        }
        Ok(lines)
    }

    fn reauthorise(&mut self) -> Event {
        let can_refresh = self
            .inner
            .credentials
            .as_ref()
            .is_some_and(|c| c.can_refresh());
        self.refresh = can_refresh;
        if can_refresh {
            Event::Authorised
        } else {
            Event::Unauthorised
        }
    }

    async fn sleep(&mut self, wait: Duration, charge: bool) -> Event {
        let progress = self.machine.progress();
        let reason = progress
            .recent
            .last()
            .map_or_else(Box::default, |last| last.reason.clone());
        let attempt = progress.attempts;
        trace::waiting(attempt, wait, &reason);
        self.operation.updates.tell(&Update::Waiting {
            attempt,
            wait,
            reason,
        });
        self.inner.sleep(wait).await;
        let inner = self.inner;
        let may_retry = !charge || {
            let now = inner.clock.monotonic();
            inner.with_budget(&self.origin, now, Budget::withdraw)
        };
        Event::Woke { may_retry }
    }

    fn finish(&mut self, end: End, now: Now) -> Result<Outcome, Error> {
        self.over = true;
        trace::finished(&self.frozen.key, self.machine.progress());
        let Some(error) = decisions::unsettled(end, self.machine.progress(), now.wall) else {
            return self.settled();
        };
        self.store_progress();
        match end {
            End::Attention(reason) => self.operation.updates.tell(&Update::Attention(reason)),
            End::Deferred(until) => {
                self.operation.updates.tell(&Update::Deferred { until });
                super::deferred::later(self.operation, until);
            }
            _ => {}
        }
        let error = self.operation.blame(error);
        Err(match self.no_credentials.take() {
            Some(cause) => error.caused_by(cause),
            None => error,
        })
    }

    fn settled(&mut self) -> Result<Outcome, Error> {
        let phase = self.machine.progress().phase;
        let settled = match decisions::given_up(self.machine.progress()) {
            None => Ok(self.outcome()),
            Some(error) => Err(error),
        };
        let mut state = self.operation.state();
        state.maybe_sent |= self.machine.in_doubt();
        state.entry.progress = self.machine.take_progress();
        drop(state);
        self.operation.updates.tell(&Update::Settled(phase));
        self.flight.settle();
        self.operation.client.reap_sometimes();
        settled.map_err(|error| self.operation.blame(error))
    }

    /// The outcome as it came, with what the journal does not keep. Asked for once.
    fn outcome(&mut self) -> Outcome {
        let found = !self.operation.state().begun_here;
        let response = self.machine.take_last_response();
        decisions::outcome_of(response, self.machine.progress(), &self.frozen.key, found)
    }

    fn store_progress(&self) {
        let mut state = self.operation.state();
        state.entry.progress = self.machine.progress().clone();
        state.maybe_sent |= self.machine.in_doubt();
    }

    /// The journal did not take a write: somebody else wrote first, or it is in trouble.
    async fn not_recorded(&mut self, error: JournalError) -> Result<Option<Outcome>, Error> {
        let final_word = self.machine.progress().phase.is_settled();
        if error.kind() != JournalErrorKind::Stale {
            self.store_progress();
            if final_word {
                return self.unwritten(error).map(Some);
            }
            return Err(self.operation.unseen(error.into()));
        }
        self.over = !final_word;
        loop {
            let current = self.inner.load(self.operation).await?;
            let theirs = &current.progress;
            let progress = match decisions::overruled(&self.machine, theirs, self.noted) {
                Overruled::Insist(progress) => progress,
                stands => {
                    self.over = true;
                    self.operation.learn(&current);
                    if matches!(stands, Overruled::Heard) {
                        return Ok(Some(self.outcome().not_recorded()));
                    }
                    if theirs.phase.is_open() {
                        return Ok(None);
                    }
                    return self.inner.conclude(self.operation, &current).map(Some);
                }
            };
            let (slot, frozen, old) = (self.slot, &self.frozen, Expected::of(theirs));
            let record = self.inner.record(slot, frozen, old, *progress, Flush::Full);
            match record.await {
                Ok(_) => return self.finish(End::Settled, self.inner.clock.now()).map(Some),
                Err(error) if error.kind() == JournalErrorKind::Stale => {}
                Err(error) => return self.unwritten(error).map(Some),
            }
        }
    }

    /// A final answer that the journal could not take.
    ///
    /// A success is real, written down or not: a later resume learns it again. A refusal must not be
    /// told: the entry is still open, and a resume may well succeed.
    fn unwritten(&mut self, error: JournalError) -> Result<Outcome, Error> {
        if self.machine.progress().phase == Phase::Succeeded {
            return Ok(self.outcome().not_recorded());
        }
        Err(self.operation.blame(error.into()))
    }
}

impl Drop for Ride<'_> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        // A write that nobody waits for any more may never have been started: start it again. If it
        // was, this one bounces.
        let (slot, frozen) = (self.slot, &self.frozen);
        if let Some(flush) = self.pending.take() {
            let progress = self.machine.progress();
            self.inner
                .let_go(slot, frozen, self.written, progress.clone(), flush);
            self.written = Expected::of(progress);
        }
        let failed = self.failed.is_some();
        let broken_off = decisions::broken_off(&self.machine, self.sending, failed);
        let Some(mut progress) = broken_off else {
            return;
        };
        // After a write that failed the machine is ahead of the journal, or is not: one of the two fits.
        // Only what is ours is let go: if another's claim came first, its number may be the same, its
        // owner and epoch are not.
        let failed = self.failed.filter(|it| it.owner != Owner::NONE);
        for ours in [Some(self.written), failed].into_iter().flatten() {
            progress.revision = ours.revision + 1;
            self.inner
                .let_go(slot, frozen, ours, progress.clone(), Flush::Normal);
        }
        if self.machine.progress().phase.is_open() {
            progress.revision = self.written.revision + 1;
            self.operation.state().entry.progress = progress;
        }
    }
}

/// What a bug of the harness does in place of a write: see [`planted`].
#[cfg(feature = "planted")]
async fn planted_write(
    inner: &Inner,
    slot: u64,
    frozen: &Frozen,
    progress: &Progress,
) -> Option<Receipt> {
    let fake = || {
        let (key, grade) = (frozen.key.clone(), inner.journal.grade());
        Receipt::new(key, slot, progress.revision, grade)
    };
    if planted::is(14) && !progress.phase.is_open() {
        return Some(fake());
    }
    if !planted::is(6) && !planted::is(7) {
        return None;
    }
    let load = inner.journal.load(slot, frozen.key.clone());
    let old = Expected::of(&load.await.ok()??.progress);
    let revision = old.revision + 1;
    if revision == progress.revision {
        return None;
    }
    if planted::is(7) {
        let renewed = Progress {
            revision,
            ..progress.clone()
        };
        let _ = inner.record(slot, frozen, old, renewed, Flush::Full).await;
    }
    Some(fake())
}

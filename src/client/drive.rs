//! The one loop: it carries out what the machine decides, and decides nothing itself.

use super::lease::{Acquired, Mine, Wish};
use super::{Asked, CredentialsError, Inner, is_framing};
use crate::entry::{Entry, Frozen, Phase, Progress, Receipt};
use crate::error::{Error, ErrorKind};
use crate::journal::{Flush, JournalError, JournalErrorKind};
use crate::machine::{self, Decision, End, Event, Machine, Permit, Probe, Task, Tick};
use crate::message::{Content, Failure, FailureKind, Headers, Origin, Sent};
use crate::operation::Operation;
use crate::outcome::Outcome;
use crate::planted;
use crate::retry::budget::Budget;
use crate::trace;
use crate::update::Update;
use std::sync::Arc;
use std::time::Duration;

/// A longer sleep is cut up, so that a laptop that was asleep notices when it wakes.
pub(super) const LONGEST_SLEEP: Duration = Duration::from_secs(30);

impl Inner {
    /// Drives an operation until there is an end to report.
    pub(crate) async fn drive(&self, operation: &Operation, wish: Wish) -> Result<Outcome, Error> {
        let key = operation.key();
        trace::within(&key, async {
            let (_flight, waited) = self.flights.enter(&key).await;
            if waited && let Some(entry) = self.landed(operation).await? {
                return self.conclude(operation, &entry);
            }
            loop {
                let mine = match self.acquire(operation, wish).await? {
                    Acquired::Mine(mine) => mine,
                    Acquired::Ended(entry) => return self.conclude(operation, &entry),
                };
                let mut ride = Ride::new(self, operation, *mine)?;
                if let Some(end) = ride.run().await? {
                    return Ok(end);
                }
                // Somebody else drives it now: wait for them.
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

/// One run of the machine over one entry. Dropped before its end, it lets the entry go.
struct Ride<'a> {
    inner: &'a Inner,
    operation: &'a Operation,
    slot: u64,
    frozen: Arc<Frozen>,
    machine: Machine,
    origin: Origin,
    receipt: Option<Receipt>,
    refresh: bool,
    /// Why there were no credentials the last time.
    no_credentials: Option<CredentialsError>,
    sending: bool,
    /// A revision that the journal was told to write and has not answered for.
    pending: Option<(Box<Progress>, Flush)>,
    /// How many attempts the journal knew of when we last wrote: more are somebody else's.
    noted: u32,
    /// The latest revision that the journal acknowledged.
    written: u64,
    over: bool,
}

impl<'a> Ride<'a> {
    fn new(inner: &'a Inner, operation: &'a Operation, mine: Mine) -> Result<Ride<'a>, Error> {
        let Mine {
            mut entry,
            receipt,
            surely_unsent,
        } = mine;
        let (now, progress) = (inner.clock.now(), &mut entry.progress);
        let start = progress.window_start;
        let seen = now.wall.max(progress.seen_at).since(start);
        let age = inner
            .flights
            .age(&entry.frozen.key, start, seen, now.monotonic);
        progress.seen_at = progress.seen_at.max(start + age);
        let origin = inner
            .check_origin(&entry.frozen.url)
            .map_err(|error| operation.blame(error))?;
        let noted = entry.progress.attempts;
        let written = receipt.revision();
        let (slot, frozen) = (entry.slot, Arc::clone(&entry.frozen));
        let machine = Machine::new(Task {
            body: operation.body()?,
            profile: inner.profile_of(&entry)?,
            entry,
            policy: inner.policy.clone(),
            flush_all: inner.flush_all,
            surely_unsent,
        });
        inner.with_budget(&origin, Budget::deposit);
        Ok(Ride {
            inner,
            operation,
            slot,
            frozen,
            machine,
            origin,
            receipt: Some(receipt),
            refresh: false,
            no_credentials: None,
            sending: false,
            pending: None,
            noted,
            written,
            over: false,
        })
    }

    /// Obeys until there is an end; `None` if somebody else drives the entry now.
    async fn run(&mut self) -> Result<Option<Outcome>, Error> {
        let Some(receipt) = self.receipt.take() else {
            return Ok(None);
        };
        let mut event = Event::Drive(receipt);
        loop {
            let tick = Tick {
                now: self.inner.clock.now(),
                roll: self.inner.dice.roll(),
            };
            let decision = self.machine.step(event, tick);
            event = match decision {
                Decision::Record { progress, flush } => {
                    let (progress, _) = self.pending.insert((progress, flush));
                    let written =
                        match planted_write(self.inner, self.slot, &self.frozen, progress).await {
                            Some(receipt) => Ok(receipt),
                            None => {
                                self.inner
                                    .record(self.slot, &self.frozen, progress, flush)
                                    .await
                            }
                        };
                    let noted = self.pending.take().map(|(progress, _)| progress.attempts);
                    match written {
                        Ok(receipt) => {
                            self.noted = noted.unwrap_or(self.noted);
                            self.written = receipt.revision();
                            Event::Recorded(receipt)
                        }
                        // Boxed, as it is rare and large.
                        Err(error) => return Box::pin(self.not_recorded(error)).await,
                    }
                }
                Decision::Send(permit) => self.send(permit).await,
                Decision::Probe(probe) => self.probe(probe).await,
                Decision::Sleep { wait, charge } => self.sleep(wait, charge).await,
                Decision::Reauthorise => self.reauthorise(),
                Decision::Finish(end) => return self.finish(end).map(Some),
            };
        }
    }

    async fn send(&mut self, permit: Permit) -> Event {
        let attempt = permit.attempt();
        self.operation.updates.tell(&Update::Sending { attempt });
        let credentials = match self.credentials(permit.url()).await {
            Ok(credentials) => credentials,
            Err(failure) => return Event::Failed(failure),
        };
        let permit = permit.with_credentials(credentials);
        self.sending = true;
        let left_before = std::mem::replace(&mut self.operation.state().maybe_sent, true);
        let result = trace::attempt(attempt, self.inner.transport.send(permit)).await;
        self.sending = false;
        match result {
            Ok(response) => Event::Answered(response),
            Err(failure) => {
                if failure.sent == Sent::No {
                    self.operation.state().maybe_sent = left_before;
                }
                Event::Failed(failure)
            }
        }
    }

    async fn probe(&mut self, probe: Probe) -> Event {
        self.operation.updates.tell(&Update::Polling);
        let credentials = match self.credentials(probe.url()).await {
            Ok(credentials) => credentials,
            Err(failure) => return Event::Failed(failure),
        };
        match self
            .inner
            .transport
            .probe(probe.with_credentials(credentials))
            .await
        {
            Ok(response) => Event::Answered(response),
            Err(failure) => Event::Failed(failure),
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
        if let Some((name, _)) = lines.iter().find(|(name, _)| self.is_taken(name)) {
            return Err(failed(format!(
                "the credentials callback gave a line {name}, which the request has already; leave it \
                 out"
            )));
        }
        Ok(lines)
    }

    /// Whether the frozen request, or the transport, sets this header.
    fn is_taken(&self, name: &str) -> bool {
        let frozen = &self.frozen;
        let key = frozen
            .key_line
            .as_ref()
            .map_or("idempotency-key", |(name, _)| name);
        name.eq_ignore_ascii_case(key) || frozen.headers.get(name).is_some() || is_framing(name)
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
        let may_retry = !charge || inner.with_budget(&self.origin, Budget::withdraw);
        Event::Woke { may_retry }
    }

    fn finish(&mut self, end: End) -> Result<Outcome, Error> {
        self.over = true;
        self.store_progress();
        trace::finished(&self.frozen.key, self.machine.progress());
        let error = match end {
            End::Settled => {
                let phase = self.machine.progress().phase;
                self.operation.updates.tell(&Update::Settled(phase));
                self.inner.flights.forget_age(&self.frozen.key);
                self.operation.client.reap_sometimes();
                return match given_up(self.machine.progress()) {
                    None => Ok(self.outcome()),
                    Some(error) => Err(self.operation.blame(error)),
                };
            }
            End::Attention(reason) => {
                self.operation.updates.tell(&Update::Attention(reason));
                Error::attention(reason)
            }
            End::Deferred(until) => {
                self.operation.updates.tell(&Update::Deferred { until });
                super::deferred::later(self.operation, until);
                Error::deferred(until, self.inner.clock.now().wall)
            }
            End::NotApplied => Error::new(
                ErrorKind::NotApplied,
                "given up for now, and no attempt can have had an effect; it stays in the journal \
                 and goes on under the same key when it is resumed",
            ),
        };
        let error = self.operation.blame(error.because(self.machine.progress()));
        Err(match self.no_credentials.take() {
            Some(cause) => error.caused_by(cause),
            None => error,
        })
    }

    /// The outcome as it came, with what the journal does not keep.
    fn outcome(&self) -> Outcome {
        let progress = self.machine.progress().clone();
        let entry = Entry {
            slot: self.slot,
            frozen: Arc::clone(&self.frozen),
            progress,
        };
        let recovered = !self.operation.state().begun_here;
        match self.machine.last_response() {
            Some(response) => Outcome::of(&entry, response.content.clone(), recovered)
                .with_headers(response.headers.clone()),
            None => Outcome::of(&entry, Content::NotKept, recovered),
        }
    }

    fn store_progress(&self) {
        let mut state = self.operation.state();
        state.entry.progress = self.machine.progress().clone();
        state.maybe_sent |= self.machine.in_doubt();
    }

    /// The journal did not take a write: somebody else wrote first, or it is in trouble.
    async fn not_recorded(&mut self, error: JournalError) -> Result<Option<Outcome>, Error> {
        let final_word = self.machine.progress().phase.is_settled();
        if error.kind() == JournalErrorKind::Stale {
            return if final_word {
                self.insist().await
            } else {
                self.step_aside().await
            };
        }
        self.store_progress();
        if final_word {
            return self.unwritten(error).map(Some);
        }
        Err(self.operation.unseen(error.into()))
    }

    /// A final answer that the journal could not take.
    ///
    /// A success is real, written down or not: a later resume learns it again. A refusal must not be
    /// told: the entry is still open, and a resume may well succeed.
    fn unwritten(&mut self, error: JournalError) -> Result<Outcome, Error> {
        self.over = true;
        if self.machine.progress().phase == Phase::Succeeded {
            return Ok(self.outcome().not_recorded());
        }
        Err(self.operation.blame(error.into()))
    }

    /// Somebody else moved the entry while the final answer came in: the first final word stands.
    ///
    /// Except where ours leans on nothing having left before and others have sent since: a refusal of
    /// our attempt says nothing about theirs.
    async fn insist(&mut self) -> Result<Option<Outcome>, Error> {
        let firm = self.machine.in_doubt();
        loop {
            let current = self.inner.load(self.operation).await?;
            if !firm && current.progress.attempts > self.noted {
                return self.step_aside().await;
            }
            if current.progress.phase.is_settled() {
                self.over = true;
                self.operation.learn(&current);
                if current.progress.answer.is_none() {
                    // A person closed it meanwhile. Their note stands in the journal, but the caller
                    // hears what the server said.
                    return Ok(Some(self.outcome().not_recorded()));
                }
                return self.inner.conclude(self.operation, &current).map(Some);
            }
            let mut progress = self.machine.progress().clone();
            progress.revision = current.progress.revision + 1;
            progress.epoch = current.progress.epoch + 1;
            progress.attempts = progress.attempts.max(current.progress.attempts);
            let record = self
                .inner
                .record(self.slot, &self.frozen, &progress, Flush::Full);
            match record.await {
                Ok(_) => return self.finish(End::Settled).map(Some),
                Err(error) if error.kind() == JournalErrorKind::Stale => {}
                Err(error) => return self.unwritten(error).map(Some),
            }
        }
    }

    /// Somebody else drives it, or the user stopped it.
    async fn step_aside(&mut self) -> Result<Option<Outcome>, Error> {
        self.over = true;
        let current = self.inner.load(self.operation).await?;
        self.operation.learn(&current);
        if current.progress.phase.is_open() {
            return Ok(None);
        }
        self.inner.conclude(self.operation, &current).map(Some)
    }
}

impl Drop for Ride<'_> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        // A write that nobody waits for any more may never have been started: start it again. If it
        // was, this one bounces.
        if let Some((progress, flush)) = self.pending.take() {
            self.inner.let_go(self.slot, &self.frozen, &progress, flush);
            self.written = progress.revision;
        }
        if !self.machine.progress().phase.is_open() {
            return;
        }
        let surely_unsent = !self.sending && !self.machine.in_doubt();
        let mut progress = machine::release(self.machine.progress(), surely_unsent);
        // After a write that failed the machine is ahead of the journal.
        progress.revision = self.written + 1;
        self.inner
            .let_go(self.slot, &self.frozen, &progress, Flush::Normal);
        self.operation.state().entry.progress = progress;
    }
}

/// An operation that the transport refused for good before anything was sent: no server's word.
pub(super) fn given_up(progress: &Progress) -> Option<Error> {
    let no_answer = progress.answer.is_none() && progress.note.is_none();
    (progress.phase == Phase::Rejected && no_answer).then(|| {
        Error::new(
            ErrorKind::Ended(Phase::Rejected),
            "it was given up before anything was sent; mend the cause, then `repeat` it",
        )
        .because(progress)
    })
}

/// What a bug of the harness does in place of a write: see [`planted`].
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
    let revision = load.await.ok()??.progress.revision + 1;
    if revision == progress.revision {
        return None;
    }
    if planted::is(7) {
        let renewed = Box::new(Progress {
            revision,
            ..progress.clone()
        });
        let _ = inner.record(slot, frozen, &renewed, Flush::Full).await;
    }
    Some(fake())
}

//! The one loop: it carries out what the machine decides, and decides nothing itself.

use super::{Asked, Inner, is_framing};
use crate::entry::{Entry, Kept, Owner, Phase, Progress, Receipt};
use crate::error::{Error, ErrorKind};
use crate::journal::{Flush, JournalError, JournalErrorKind, Liveness, Write};
use crate::machine::{self, Claim, Decision, End, Event, Machine, Permit, Probe, Task, Tick};
use crate::message::{Content, Failure, FailureKind, Headers, Origin, Sent};
use crate::operation::Operation;
use crate::planted;
use crate::outcome::Outcome;
use crate::retry::budget::Budget;
use crate::seal::{Keeper, Part};
use crate::trace;
use crate::update::Update;
use std::task::{Context, Waker};
use std::time::Duration;

/// How often a waiting process looks whether another one is done, at the least.
const JOIN_EVERY: Duration = Duration::from_millis(200);
/// How long after its begin an operation may be sent without a look at what others did to it.
const FRESH: Duration = Duration::from_secs(1);
/// A longer sleep is cut up, so that a laptop that was asleep notices when it wakes.
pub(super) const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// An entry that is ours to drive.
struct Mine {
    entry: Entry,
    receipt: Receipt,
    surely_unsent: bool,
}

impl Inner {
    /// Drives an operation until there is an end to report.
    pub(crate) async fn drive(&self, operation: &Operation) -> Result<Outcome, Error> {
        let key = operation.key();
        trace::within(&key, async {
            let (_flight, waited) = self.flights.enter(&key).await;
            if waited && let Some(entry) = self.landed(operation).await? {
                return self.conclude(operation, &entry);
            }
            loop {
                let mine = match self.acquire(operation).await? {
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

    /// How the flight ended that this caller waited for, unless there is more to do.
    async fn landed(&self, operation: &Operation) -> Result<Option<Entry>, Error> {
        let entry = self.load(operation).await?;
        operation.learn(&entry);
        let over = matches!(entry.progress.phase, Phase::Attention(_) | Phase::Deferred);
        Ok((over || entry.progress.phase.is_settled()).then_some(entry))
    }

    /// Gets the right to drive: at once for what we began, by a claim for all else.
    async fn acquire(&self, operation: &Operation) -> Result<Acquired, Error> {
        if let Some(mine) = self.take_fresh(operation) {
            return Ok(Acquired::Mine(mine));
        }
        let started = self.clock.now();
        loop {
            let entry = self.load(operation).await?;
            operation.learn(&entry);
            match self.take_held(operation, &entry).await? {
                Held::Mine(mine) => return Ok(Acquired::Mine(mine)),
                Held::Again => continue,
                Held::Void => {}
            }
            if entry.frozen.scope != self.scope && !planted::is(22) {
                return Err(operation.blame(other_scope(&entry, self)));
            }
            match self.claim(operation, &entry).await? {
                Claimed::Mine(mine) => return Ok(Acquired::Mine(mine)),
                Claimed::Closed => return Ok(Acquired::Ended(Box::new(entry))),
                Claimed::Again => continue,
                Claimed::Held => {}
            }
            if self.clock.now().since(started) > self.policy.give_up_after {
                return Err(operation.blame(held_elsewhere()));
            }
            operation.updates.tell(&Update::Joined);
            let jitter = Duration::from_millis(self.dice.roll() % 200);
            self.clock.sleep(JOIN_EVERY + jitter).await;
        }
    }

    /// What was begun a moment ago and has not been touched since needs no second look.
    fn take_fresh(&self, operation: &Operation) -> Option<Box<Mine>> {
        let mut state = operation.state();
        let untouched = self.flights.end_hold(state.entry.key());
        let (now, begun) = (self.clock.now().wall, state.entry.progress.window_start);
        if !untouched || now < begun || now.since(begun) > FRESH {
            return None;
        }
        let receipt = state.held.take()?;
        Some(Box::new(Mine {
            entry: state.entry.clone(),
            receipt,
            surely_unsent: true,
        }))
    }

    /// What we began and still hold is ours, and surely unsent: no claim is needed.
    ///
    /// If it lay unsent for long, its window has to begin again, durably, before anything is sent:
    /// it is let go, and the claim that follows sees to that.
    async fn take_held(&self, operation: &Operation, entry: &Entry) -> Result<Held, Error> {
        let age = self.clock.now().wall.since(entry.progress.window_start);
        {
            let mut state = operation.state();
            // Somebody else may have taken over what we began: then our receipt is void.
            let current = |receipt: &Receipt| receipt.revision() == entry.progress.revision;
            match state.held.take().filter(current) {
                None => return Ok(Held::Void),
                Some(receipt) if age <= entry.progress.window / 2 => {
                    return Ok(Held::Mine(Box::new(Mine {
                        entry: entry.clone(),
                        receipt,
                        surely_unsent: true,
                    })));
                }
                receipt => state.held = receipt,
            }
        }
        let unsent = machine::release(&entry.progress, true);
        match self.record(entry, &unsent, Flush::Full).await {
            Err(error) if error.kind() != JournalErrorKind::Stale => {
                Err(operation.blame(error.into()))
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
            self.journal.liveness(owner).await?
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
        match self.record(&claimed, &claimed.progress, Flush::Full).await {
            Ok(receipt) => {
                self.flights.end_hold(claimed.key());
                trace::claimed(&claimed, entry.progress.owner != Owner::NONE);
                Ok(Claimed::Mine(Box::new(Mine {
                    entry: claimed,
                    receipt,
                    surely_unsent,
                })))
            }
            Err(error) if error.kind() == JournalErrorKind::Stale => Ok(Claimed::Again),
            Err(error) => Err(operation.blame(error.into())),
        }
    }

    /// The entry as the journal has it now.
    pub(crate) async fn load(&self, operation: &Operation) -> Result<Entry, Error> {
        let (slot, key) = operation.handle();
        match self.journal.load(slot, key).await {
            Ok(Some(entry)) => Ok(entry),
            Ok(None) => Err(operation.blame(Error::new(
                ErrorKind::NotFound,
                "the journal no longer has this operation: it was settled and reaped, or forgotten",
            ))),
            Err(error) => Err(operation.blame(error.into())),
        }
    }

    async fn record(
        &self,
        entry: &Entry,
        progress: &Progress,
        flush: Flush,
    ) -> Result<Receipt, JournalError> {
        self.journal
            .record(self.written(entry, progress, flush))
            .await
    }

    /// A progress as the journal keeps it: an answer is kept as the body is.
    fn written(&self, entry: &Entry, progress: &Progress, flush: Flush) -> Write {
        let mut progress = progress.clone();
        if let Some(answer) = &mut progress.answer
            && let Kept::Plain(bytes) = &answer.body
        {
            let mode = Keeper::mode_of(&entry.frozen.body);
            let kept = self
                .keeper
                .keep(mode, bytes, &entry.frozen, Part::Answer, self.nonce());
            answer.body = kept.unwrap_or(Kept::NotKept);
        }
        Write {
            slot: entry.slot,
            key: entry.key().clone(),
            expected: progress.revision - 1,
            progress,
            flush,
        }
    }

    /// Starts a write without waiting for it: a future that is dropped cannot await.
    pub(crate) fn let_go(&self, entry: &Entry, progress: &Progress, flush: Flush) {
        let write = self.written(entry, progress, flush);
        let mut write = Box::pin(self.journal.record(write));
        let _ = write.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }

    /// What an entry says that is closed to us.
    fn conclude(&self, operation: &Operation, entry: &Entry) -> Result<Outcome, Error> {
        let progress = &entry.progress;
        match progress.phase {
            Phase::Succeeded | Phase::Rejected => self.recovered(operation, entry),
            Phase::Attention(reason) => Err(operation.blame(Error::attention(reason))),
            Phase::Abandoned => Err(operation.blame(Error::new(
                ErrorKind::Ended(Phase::Abandoned),
                "the operation was abandoned; begin another one under another intent",
            ))),
            _ => {
                let until = progress.not_before.unwrap_or_default();
                super::deferred::later(operation, until);
                Err(operation.blame(Error::deferred(until, self.clock.now().wall)))
            }
        }
    }

    /// The outcome that a settled entry holds.
    pub(crate) fn recovered(&self, operation: &Operation, entry: &Entry) -> Result<Outcome, Error> {
        if let Some(error) = given_up(&entry.progress) {
            return Err(operation.blame(error));
        }
        let answer = entry.progress.answer.as_ref();
        let content = match answer.map(|answer| &answer.body) {
            None | Some(Kept::NotKept) => Content::NotKept,
            Some(Kept::Lost) => Content::Lost,
            Some(Kept::TooLarge) => Content::TooLarge,
            Some(kept) => match self.keeper.open(kept, &entry.frozen, Part::Answer) {
                Ok(Some(bytes)) => Content::Whole(bytes),
                Ok(None) => Content::NotKept,
                Err(error) => return Err(operation.blame(error)),
            },
        };
        Ok(Outcome::of(entry, content, true))
    }

    /// 32 random bytes, of which a nonce is made.
    pub(crate) fn nonce(&self) -> [u8; 32] {
        let halves = [self.dice.key_bytes(), self.dice.key_bytes()];
        std::array::from_fn(|i| halves[i / 16][i % 16])
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

enum Acquired {
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

/// One run of the machine over one entry. Dropped before its end, it lets the entry go.
struct Ride<'a> {
    inner: &'a Inner,
    operation: &'a Operation,
    entry: Entry,
    machine: Machine,
    origin: Origin,
    receipt: Option<Receipt>,
    refresh: bool,
    sending: bool,
    /// A revision that the journal was told to write and has not answered for.
    pending: Option<(Progress, Flush)>,
    /// How many attempts the journal knew of when we last wrote: more are somebody else's.
    noted: u32,
    over: bool,
}

impl<'a> Ride<'a> {
    fn new(inner: &'a Inner, operation: &'a Operation, mine: Mine) -> Result<Ride<'a>, Error> {
        let Mine {
            entry,
            receipt,
            surely_unsent,
        } = mine;
        let origin = inner
            .check_origin(&entry.frozen.url)
            .map_err(|error| operation.blame(error))?;
        let noted = entry.progress.attempts;
        let machine = Machine::new(Task {
            entry: entry.clone(),
            body: operation.body()?,
            profile: inner.profile_of(&entry)?,
            policy: inner.policy.clone(),
            flush_all: inner.flush_all,
            surely_unsent,
        });
        inner.with_budget(&origin, Budget::deposit);
        Ok(Ride {
            inner,
            operation,
            entry,
            machine,
            origin,
            receipt: Some(receipt),
            refresh: false,
            sending: false,
            pending: None,
            noted,
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
                    let (progress, _) = self.pending.insert((*progress, flush));
                    let written = match planted_write(self.inner, &self.entry, progress).await {
                        Some(receipt) => Ok(receipt),
                        None => self.inner.record(&self.entry, progress, flush).await,
                    };
                    let noted = self.pending.take().map(|(progress, _)| progress.attempts);
                    match written {
                        Ok(receipt) => {
                            self.noted = noted.unwrap_or(self.noted);
                            Event::Recorded(receipt)
                        }
                        Err(error) => return self.not_recorded(error).await,
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
        let lines = source
            .headers(asked)
            .await
            .map_err(|error| failed(format!("the credentials callback failed: {error}")))?;
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
        let frozen = &self.entry.frozen;
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
        trace::finished(&self.entry.frozen.key, self.machine.progress());
        let error = match end {
            End::Settled => {
                let phase = self.machine.progress().phase;
                self.operation.updates.tell(&Update::Settled(phase));
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
        Err(self.operation.blame(error.because(self.machine.progress())))
    }

    /// The outcome as it came, with what the journal does not keep.
    fn outcome(&self) -> Outcome {
        let progress = self.machine.progress().clone();
        let entry = Entry {
            progress,
            ..self.entry.clone()
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
            // The answer is real, written down or not; a later resume learns it again.
            self.over = true;
            return Ok(Some(self.outcome().not_recorded()));
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
                self.operation.state().entry = current.clone();
                return self.inner.conclude(self.operation, &current).map(Some);
            }
            let mut progress = self.machine.progress().clone();
            progress.revision = current.progress.revision + 1;
            progress.epoch = current.progress.epoch + 1;
            progress.attempts = progress.attempts.max(current.progress.attempts);
            match self.inner.record(&self.entry, &progress, Flush::Full).await {
                Ok(_) => return self.finish(End::Settled).map(Some),
                Err(error) if error.kind() == JournalErrorKind::Stale => {}
                Err(_) => {
                    self.over = true;
                    return Ok(Some(self.outcome().not_recorded()));
                }
            }
        }
    }

    /// Somebody else drives it, or the user stopped it.
    async fn step_aside(&mut self) -> Result<Option<Outcome>, Error> {
        self.over = true;
        let current = self.inner.load(self.operation).await?;
        self.operation.state().entry = current.clone();
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
            self.inner.let_go(&self.entry, &progress, flush);
        }
        if !self.machine.progress().phase.is_open() {
            return;
        }
        let surely_unsent = !self.sending && !self.machine.in_doubt();
        let progress = machine::release(self.machine.progress(), surely_unsent);
        self.inner.let_go(&self.entry, &progress, Flush::Normal);
        self.operation.state().entry.progress = progress;
    }
}

/// An operation that the transport refused for good before anything was sent: no server's word.
fn given_up(progress: &Progress) -> Option<Error> {
    let no_answer = progress.answer.is_none() && progress.note.is_none();
    (progress.phase == Phase::Rejected && no_answer).then(|| {
        Error::new(
            ErrorKind::Ended(Phase::Rejected),
            "it was given up before anything was sent; mend the cause, then `repeat` it",
        )
        .because(progress)
    })
}

fn other_scope(entry: &Entry, inner: &Inner) -> Error {
    Error::new(
        ErrorKind::OtherScope,
        format!(
            "the operation belongs to {}, and this client acts for {}: the server would take it for a \
             new action. Nothing was sent now",
            entry.frozen.scope, inner.scope
        ),
    )
}

fn held_elsewhere() -> Error {
    Error::new(
        ErrorKind::HeldElsewhere,
        "another process is still working on this operation; ask again later",
    )
}

/// What a bug of the harness does in place of a write: see [`planted`].
async fn planted_write(inner: &Inner, entry: &Entry, progress: &Progress) -> Option<Receipt> {
    let fake = || {
        let (key, grade) = (entry.key().clone(), inner.journal.grade());
        Receipt::new(key, entry.slot, progress.revision, grade)
    };
    if planted::is(14) && !progress.phase.is_open() {
        return Some(fake());
    }
    if !planted::is(6) && !planted::is(7) {
        return None;
    }
    let now = inner.journal.load(entry.slot, entry.key().clone()).await.ok()??;
    if now.progress.revision + 1 == progress.revision {
        return None;
    }
    if planted::is(7) {
        let revision = now.progress.revision + 1;
        let renewed = Progress { revision, ..progress.clone() };
        let _ = inner.record(entry, &renewed, Flush::Full).await;
    }
    Some(fake())
}

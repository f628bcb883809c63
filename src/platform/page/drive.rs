//! Driving an operation from a page: told what came of the last thing it asked for, it asks for the next.
//! The same steps as the client's own loop takes, without the waiting.

use super::{Given, Page, answered, owner, swap, told};
use crate::client::decisions::{self, Overruled};
use crate::entry::{Entry, Expected, Flush, Grade, Liveness, Owner, Phase, Progress, Receipt};
use crate::error::{Error, ErrorKind};
use crate::journal::JournalErrorKind;
use crate::journal::row::Row;
use crate::machine::{self, Claim, Decision, End, Event, Machine, Task, Tick};
use crate::message::{Failure, FailureKind, Headers, Origin, Sent};
use crate::operation::stored_body;
use crate::outcome::Outcome;
use crate::profile::Profile;
use crate::retry::budget::Budget;
use crate::seam::values::{Pack, Values};
use crate::time::{Now, Timestamp, millis};
use std::sync::Arc;
use std::time::Duration;

/// How often a waiting tab looks whether another one is done, at the least.
const JOIN_EVERY: u64 = 200;

// What is asked for, as `pkg/src/core.ts` counts.
const LOAD: u32 = 0;
const LIVENESS: u32 = 1;
const SWAP: u32 = 2;
const WAIT: u32 = 3;
const PROVE: u32 = 4;
const EXCHANGE: u32 = 5;
const DONE: u32 = 6;
const FAILED: u32 = 7;

/// What was asked for last, and what it is for.
#[derive(Clone, Copy)]
enum Stage {
    Load,
    Liveness,
    /// What lay unsent for too long is let go, to be claimed with a new window.
    LetGo,
    Join,
    Claim,
    Record,
    /// Our last word over what somebody else noted.
    Insist,
    Sleep {
        charge: bool,
    },
    /// An attempt, or else a question about the result.
    Prove {
        attempt: bool,
    },
    Exchange {
        attempt: bool,
        left_before: bool,
    },
}

/// The machine at work on an entry that is ours.
struct Ride {
    machine: Machine,
    origin: Origin,
    refresh: bool,
    /// How many attempts the journal knew of when we last wrote: more are somebody else's.
    noted: u32,
    /// The latest of ours that the journal acknowledged: what the next write replaces.
    written: Expected,
}

pub(super) struct Drive {
    me: Owner,
    grade: Grade,
    resuming: bool,
    /// Another drive of this page was waited for, and may have brought the end.
    waited: bool,
    begun_here: bool,
    maybe_sent: bool,
    /// The revision that the page began with, if this drive was the first to claim that nothing left on it.
    held: Option<u64>,
    body: Option<Arc<[u8]>>,
    started: Now,
    joined: bool,
    stage: Stage,
    /// As the page knew it, as it was last read, or as it is being claimed.
    entry: Box<Entry>,
    surely_unsent: bool,
    ride: Option<Box<Ride>>,
    /// What the server asked of us and we could not write down, as another tab had the entry.
    heard: Option<Timestamp>,
    /// What the machine lets out, until it is known what proves who asks.
    leaving: Pack,
    /// A write that is under way: what the journal would hold then.
    pending: Option<Expected>,
    /// What a write that failed would have left, if it took hold all the same.
    failed: Option<Expected>,
    over: bool,
    update: Pack,
}

/// What is at hand while a step is taken, and where what is asked for goes.
pub(super) struct Step<'a> {
    pub(super) page: &'a mut Page,
    pub(super) given: Given,
    pub(super) asked: Pack,
}

type Asked = Result<(), Error>;

impl Step<'_> {
    fn ask(&mut self, what: u32) -> Asked {
        self.asked.number(f64::from(what));
        Ok(())
    }

    fn wait(&mut self, millis: u64) -> Asked {
        self.asked.number(f64::from(WAIT));
        self.asked.number(millis as f64);
        Ok(())
    }

    fn done(&mut self, outcome: &Outcome) -> Asked {
        self.asked.number(f64::from(DONE));
        told::outcome(&mut self.asked, outcome);
        Ok(())
    }
}

impl Drive {
    pub(super) fn new(now: Now, values: &mut Values<'_>) -> Result<Box<Drive>, Error> {
        Ok(Box::new(Drive {
            me: owner(values),
            grade: match values.number() as u32 {
                1 => Grade::Reload,
                2 => Grade::Process,
                3 => Grade::Device,
                _ => Grade::None,
            },
            resuming: values.flag(),
            waited: values.flag(),
            begun_here: values.flag(),
            maybe_sent: values.flag(),
            held: None,
            body: values.optional_bytes().map(Into::into),
            started: now,
            joined: false,
            stage: Stage::Load,
            // As the page knows it: whatever goes wrong is told with its reference.
            entry: Row::read(values).trusted()?,
            surely_unsent: false,
            ride: None,
            heard: None,
            leaving: Pack::default(),
            pending: None,
            failed: None,
            over: false,
            update: Pack::default(),
        }))
    }

    /// Takes in what came of the last thing asked for (nothing at the start), and asks for the next: whether an
    /// attempt may have left, an update to show, what is asked for, and its values.
    pub(super) fn go(
        &mut self,
        mut step: Step<'_>,
        values: Option<&mut Values<'_>>,
        told: &mut Pack,
    ) {
        let asked = match values {
            None => step.ask(LOAD),
            Some(values) => self.step(&mut step, values),
        };
        if let Err(error) = asked {
            step.asked = Pack::default();
            step.asked.number(f64::from(FAILED));
            told::trouble(&mut step.asked, &error);
        }
        told.flag(self.maybe_sent);
        told.bytes(self.update.as_bytes());
        self.update = Pack::default();
        told.append(&step.asked);
    }

    fn step(&mut self, step: &mut Step<'_>, values: &mut Values<'_>) -> Asked {
        // The store, or the callback, failed.
        let failed = values.flag();
        let stage = std::mem::replace(&mut self.stage, Stage::Load);
        let pending = self.pending.take();
        match stage {
            Stage::Prove { attempt } => match self.proof(values, failed) {
                Ok(credentials) => self.exchange(step, attempt, &credentials),
                Err(failure) => self.obey(step, Event::Failed(failure)),
            },
            _ if failed => {
                let kind = match values.number() as u32 {
                    1 => JournalErrorKind::Full,
                    2 => JournalErrorKind::TooNew,
                    3 => JournalErrorKind::OpenElsewhere,
                    _ => JournalErrorKind::Unavailable,
                };
                self.failed = pending;
                let error = Error::new(ErrorKind::Journal(kind), values.text());
                self.in_trouble(step, error, matches!(stage, Stage::Load))
            }
            Stage::Load => self.loaded(step, values),
            Stage::Liveness => {
                let liveness = match values.number() as u32 {
                    2 => Liveness::Alive,
                    1 => Liveness::Silent,
                    _ => Liveness::Dead,
                };
                self.claim(step, liveness)
            }
            Stage::LetGo | Stage::Join => step.ask(LOAD),
            Stage::Claim | Stage::Record | Stage::Insist if !values.flag() => step.ask(LOAD),
            Stage::Claim => self.mount(step),
            Stage::Record => self.recorded(step, pending),
            Stage::Insist => self.finish(step, End::Settled),
            Stage::Sleep { charge } => {
                let may_retry = !charge || self.with_budget(step, Budget::withdraw);
                self.obey(step, Event::Woke { may_retry })
            }
            Stage::Exchange { left_before, .. } => {
                let event = match answered(values) {
                    Ok(response) => Event::Answered(response),
                    Err(failure) => {
                        self.maybe_sent &= failure.sent != Sent::No || left_before;
                        Event::Failed(failure)
                    }
                };
                self.obey(step, event)
            }
        }
    }

    /// Adds to an error what is known of this operation.
    fn blame(&self, error: Error) -> Error {
        let progress = match &self.ride {
            Some(ride) => ride.machine.progress(),
            None => &self.entry.progress,
        };
        error
            .about(self.entry.reference())
            .after(progress.attempts, self.maybe_sent)
    }

    /// The same where the journal could not be looked at, or written: others may have sent it since,
    /// and that nothing left cannot be said.
    fn unseen(&self, error: Error) -> Error {
        let error = self.blame(error);
        let attempts = error.attempts();
        error.after(attempts, true)
    }

    fn in_trouble(&mut self, step: &mut Step<'_>, error: Error, looking: bool) -> Asked {
        let last_word = match &self.ride {
            Some(ride) => ride.machine.progress().phase,
            None => Phase::Ready,
        };
        if !last_word.is_settled() || looking {
            return Err(self.unseen(error));
        }
        // A final answer that the journal could not take. A success is real, written down or not: a later
        // resume learns it again. A refusal must not be told: the entry is still open, and a resume may well
        // succeed.
        match self.outcome() {
            Some(outcome) if last_word == Phase::Succeeded => step.done(&outcome.not_recorded()),
            _ => Err(self.blame(error)),
        }
    }

    fn loaded(&mut self, step: &mut Step<'_>, values: &mut Values<'_>) -> Asked {
        self.held = values.optional_number().map(|held| held as u64);
        if values.is_empty() {
            return Err(self.unseen(decisions::gone()));
        }
        match Row::read(values).trusted() {
            Ok(entry) => self.entry = entry,
            Err(error) => return Err(self.unseen(error)),
        }
        let theirs = &self.entry.progress;
        // What we hold was written by us, and not sent: there the journal is only careful.
        let ours = self.held == Some(theirs.revision);
        self.maybe_sent |= !ours && machine::may_have_left(theirs);
        if let Some(ride) = &self.ride {
            let overruled = decisions::overruled(&ride.machine, theirs, ride.noted);
            if let Overruled::Insist(mut progress) = overruled {
                let old = Expected::of(theirs);
                return self.write(step, Stage::Insist, old, &mut progress, Flush::Full);
            }
            self.over = true;
            let heard = matches!(overruled, Overruled::Heard);
            if let (true, Some(outcome)) = (heard, self.outcome()) {
                return step.done(&outcome.not_recorded());
            }
            let ride = self.ride.take();
            self.heard = ride.and_then(|ride| ride.machine.heard());
            if !self.entry.progress.phase.is_open() {
                return self.conclude(step);
            }
            // Somebody else drives it now: wait for them.
            self.over = false;
            self.started = step.given.now;
            self.joined = false;
        }
        if std::mem::take(&mut self.waited) && decisions::is_over(self.entry.progress.phase) {
            return self.conclude(step);
        }
        self.approach(step)
    }

    /// Gets the right to drive: at once for what we began, by a claim for all else.
    fn approach(&mut self, step: &mut Step<'_>) -> Asked {
        let progress = &self.entry.progress;
        if self.held.take() == Some(progress.revision) {
            if decisions::is_young(progress, step.given.now.wall) {
                self.surely_unsent = true;
                return self.mount(step);
            }
            let (mut unsent, old) = (machine::release(progress, true), Expected::of(progress));
            return self.write(step, Stage::LetGo, old, &mut unsent, Flush::Full);
        }
        let scope = &step.page.settings.scope;
        if self.entry.frozen.scope != *scope {
            return Err(self.blame(decisions::other_scope(&self.entry, scope)));
        }
        if !self.resuming && decisions::needs_a_person(progress.phase) {
            return self.conclude(step);
        }
        let owner = progress.owner;
        if owner != Owner::NONE && owner != self.me {
            self.stage = Stage::Liveness;
            step.asked.number(f64::from(LIVENESS));
            step.asked.bytes(&owner.0.to_le_bytes());
            return Ok(());
        }
        self.claim(step, Liveness::Dead)
    }

    fn claim(&mut self, step: &mut Step<'_>, holder: Liveness) -> Asked {
        let now = step.given.now;
        let mut progress = match machine::claim(&self.entry, self.me, holder, now.wall) {
            Claim::Take(progress) => progress,
            Claim::NotYet(_) | Claim::Closed => return self.conclude(step),
            Claim::Held => {
                if now.since(self.started) > step.page.settings.policy.give_up_after {
                    return Err(self.blame(decisions::held_elsewhere()));
                }
                if !std::mem::replace(&mut self.joined, true) {
                    self.tell("joined", None);
                }
                self.stage = Stage::Join;
                return step.wait(JOIN_EVERY + step.given.roll() % 200);
            }
        };
        // What cannot be sent is not claimed.
        self.provisions(step)?;
        let old = Expected::of(&self.entry.progress);
        self.surely_unsent = !self.entry.progress.maybe_applied;
        let asked = self.write(step, Stage::Claim, old, &mut progress, Flush::Full);
        self.entry.progress = *progress;
        asked
    }

    fn write(
        &mut self,
        step: &mut Step<'_>,
        stage: Stage,
        old: Expected,
        new: &mut Progress,
        flush: Flush,
    ) -> Asked {
        let (entry, keeper) = (&self.entry, &step.page.settings.keeper);
        decisions::keep(new, &entry.frozen, keeper, &step.given);
        self.stage = stage;
        self.pending = Some(Expected::of(new));
        step.asked.number(f64::from(SWAP));
        swap(&mut step.asked, entry, &old, new, flush);
        Ok(())
    }

    /// What is needed to send: the exact body, whom to ask how, and where.
    fn provisions(&self, step: &Step<'_>) -> Result<(Arc<[u8]>, Profile, Origin), Error> {
        let (settings, frozen) = (&step.page.settings, &self.entry.frozen);
        let found = || {
            let body = match &self.body {
                Some(body) => Arc::clone(body),
                None => stored_body(frozen, &settings.keeper)?,
            };
            if let Some(url) = &self.entry.progress.moved_to {
                settings.check_origin(url)?;
            }
            let origin = settings.check_origin(&frozen.url)?;
            Ok((body, settings.profile_of(&self.entry)?, origin))
        };
        found().map_err(|error| self.blame(error))
    }

    /// The entry is ours, and durable in this revision.
    fn mount(&mut self, step: &mut Step<'_>) -> Asked {
        let (body, profile, origin) = self.provisions(step)?;
        let mut entry = Entry::clone(&self.entry);
        let (now, progress) = (step.given.now, &mut entry.progress);
        let start = progress.window_start;
        let seen = now.wall.max(progress.seen_at).since(start);
        let age = step
            .page
            .ages
            .age(&entry.frozen.key, start, seen, now.monotonic);
        progress.seen_at = progress.seen_at.max(start + age);
        let (noted, written) = (progress.attempts, Expected::of(progress));
        let settings = &step.page.settings;
        let mut machine = Machine::new(Task {
            body,
            profile,
            entry,
            policy: settings.policy.clone(),
            flush_all: settings.flush_all,
            surely_unsent: self.surely_unsent,
        });
        machine.keep_to(self.heard);
        self.ride = Some(Box::new(Ride {
            origin,
            refresh: false,
            noted,
            written,
            machine,
        }));
        self.with_budget(step, |budget, now| {
            budget.deposit(now);
            true
        });
        let receipt = self.receipt(written.revision);
        self.obey(step, Event::Drive(receipt))
    }

    /// The store said that this revision is written.
    fn receipt(&self, revision: u64) -> Receipt {
        let entry = &self.entry;
        Receipt::new(entry.key().clone(), entry.slot, revision, self.grade)
    }

    fn recorded(&mut self, step: &mut Step<'_>, pending: Option<Expected>) -> Asked {
        let (Some(written), Some(ride)) = (pending, &mut self.ride) else {
            return step.ask(LOAD);
        };
        ride.written = written;
        ride.noted = ride.machine.progress().attempts;
        let receipt = self.receipt(written.revision);
        self.obey(step, Event::Recorded(receipt))
    }

    /// Carries out what the machine decides, as far as that takes no waiting.
    fn obey(&mut self, step: &mut Step<'_>, mut event: Event) -> Asked {
        loop {
            let Some(ride) = &mut self.ride else {
                return step.ask(LOAD);
            };
            let tick = Tick {
                now: step.given.now,
                roll: step.given.roll(),
            };
            match ride.machine.step(event, tick) {
                Decision::Record {
                    mut progress,
                    flush,
                } => {
                    let old = ride.written;
                    return self.write(step, Stage::Record, old, &mut progress, flush);
                }
                Decision::Send(permit) => {
                    self.tell("sending", Some(permit.attempt()));
                    let (url, timeout) = (permit.url(), permit.timeout());
                    let leaving = &mut self.leaving;
                    request(
                        leaving,
                        permit.method().as_str(),
                        url,
                        Some(permit.body()),
                        timeout,
                    );
                    leaving.number(permit.not_after().as_secs_f64() * 1000.0);
                    lines(leaving, &mut permit.headers());
                    return self.leave(step, url, true);
                }
                Decision::Probe(probe) => {
                    self.tell("polling", None);
                    let (url, leaving) = (probe.url(), &mut self.leaving);
                    request(leaving, "GET", url, None, probe.timeout());
                    leaving.nothing();
                    return self.leave(step, url, false);
                }
                Decision::Sleep { wait, charge } => {
                    let progress = ride.machine.progress();
                    let wait = millis(wait);
                    let mut update = Pack::of("waiting");
                    update.number(f64::from(progress.attempts));
                    update.number(wait as f64);
                    update.text(progress.recent.last().map_or("", |last| &*last.reason));
                    self.update = update;
                    self.stage = Stage::Sleep { charge };
                    return step.wait(wait);
                }
                Decision::Reauthorise => {
                    ride.refresh = step.page.proves;
                    event = match step.page.proves {
                        true => Event::Authorised,
                        false => Event::Unauthorised,
                    };
                }
                Decision::Finish(end) => return self.finish(step, end),
            }
        }
    }

    /// Lets a request leave, or a question: both with what proves who asks. A foreign origin gets nothing unless it
    /// was allowed.
    fn leave(&mut self, step: &mut Step<'_>, url: &str, attempt: bool) -> Asked {
        // The machine follows no URL that is not one.
        let origin = Origin::of(url).ok();
        if let (true, Some(origin), Some(ride)) = (step.page.proves, origin, &mut self.ride)
            && (origin == ride.origin || step.page.settings.origins.contains(&origin))
        {
            step.asked.number(f64::from(PROVE));
            step.asked.text(&origin.text());
            step.asked.flag(std::mem::take(&mut ride.refresh));
            self.stage = Stage::Prove { attempt };
            return Ok(());
        }
        self.exchange(step, attempt, &Headers::new())
    }

    /// The lines that the callback for credentials gave.
    fn proof(&self, values: &mut Values<'_>, failed: bool) -> Result<Headers, Failure> {
        let queued = |why: String| Failure::new(FailureKind::Queued, Sent::No, why);
        let mut lines = Headers::new();
        let mut refused = failed;
        while !refused && !values.is_empty() {
            let (name, value) = (values.text(), values.text());
            refused = lines.push(name, value).is_err();
        }
        if refused {
            // What it threw may hold a secret.
            return Err(queued("the credentials callback failed".into()));
        }
        for (name, _) in lines.iter() {
            if decisions::is_taken(&self.entry.frozen, name) {
                return Err(queued(decisions::line_is_taken(name)));
            }
        }
        Ok(lines)
    }

    fn exchange(&mut self, step: &mut Step<'_>, attempt: bool, credentials: &Headers) -> Asked {
        let left_before = !attempt || self.maybe_sent;
        self.maybe_sent |= attempt;
        self.stage = Stage::Exchange {
            attempt,
            left_before,
        };
        step.asked.number(f64::from(EXCHANGE));
        step.asked.append(&std::mem::take(&mut self.leaving));
        lines(&mut step.asked, &mut credentials.iter());
        Ok(())
    }

    fn finish(&mut self, step: &mut Step<'_>, end: End) -> Asked {
        self.over = true;
        let Some(ride) = &self.ride else {
            return step.ask(LOAD);
        };
        let progress = ride.machine.progress();
        self.maybe_sent |= ride.machine.in_doubt();
        let Some(error) = decisions::unsettled(end, progress, step.given.now.wall) else {
            let (phase, given_up) = (progress.phase, decisions::given_up(progress));
            step.page.ages.forget(self.entry.key());
            self.tell(phase.name(), None);
            return match (given_up, self.outcome()) {
                (None, Some(outcome)) => step.done(&outcome),
                (Some(error), _) => Err(self.blame(error)),
                (None, None) => step.ask(LOAD),
            };
        };
        match end {
            End::Attention(reason) => {
                self.tell("attention", None);
                self.update.nothing();
                self.update.text(reason.name());
            }
            End::Deferred(until) => {
                self.tell("deferred", None);
                self.update.nothing();
                self.update.nothing();
                told::optional(&mut self.update, Some(until));
            }
            _ => {}
        }
        Err(self.blame(error))
    }

    fn conclude(&mut self, step: &mut Step<'_>) -> Asked {
        let now = step.given.now.wall;
        match decisions::conclude(&self.entry, &step.page.settings.keeper, now) {
            Ok(outcome) => step.done(&outcome),
            Err(error) => Err(self.blame(error)),
        }
    }

    fn outcome(&self) -> Option<Outcome> {
        let ride = self.ride.as_ref()?;
        let found = !self.begun_here;
        Some(decisions::outcome(&ride.machine, self.entry.key(), found))
    }

    fn tell(&mut self, state: &str, attempt: Option<u32>) {
        self.update = Pack::of(state);
        match attempt {
            Some(attempt) => self.update.number(f64::from(attempt)),
            None => self.update.nothing(),
        }
    }

    fn with_budget(&self, step: &mut Step<'_>, use_it: fn(&mut Budget, Duration) -> bool) -> bool {
        let Some(ride) = &self.ride else {
            return true;
        };
        let budgets = &mut step.page.budgets;
        let known = budgets
            .iter()
            .position(|(origin, _)| *origin == ride.origin);
        let at = known.unwrap_or(budgets.len());
        if known.is_none() {
            budgets.push((ride.origin.clone(), Budget::new()));
        }
        use_it(&mut budgets[at].1, step.given.now.monotonic)
    }

    /// What is written of a drive that is over or broken off, each a swap: it lets go of what is ours.
    pub(super) fn end(&self, told: &mut Pack) {
        if self.over {
            return;
        }
        let (released, ours) = match &self.ride {
            // A claim that was not heard of may be written, and would keep everybody else out. Another's may have
            // come first and have sent: never say that nothing was.
            None => {
                let (claimed, progress) = (self.pending.or(self.failed), &self.entry.progress);
                let is_ours = claimed == Some(Expected::of(progress));
                let released = is_ours.then(|| machine::release(progress, false));
                (released, [claimed, None])
            }
            Some(ride) => {
                let sending = matches!(self.stage, Stage::Exchange { attempt: true, .. });
                let failed = self.failed.is_some();
                let released = decisions::broken_off(&ride.machine, sending, failed);
                let failed = self.failed.filter(|it| it.owner != Owner::NONE);
                (
                    released,
                    [Some(self.pending.unwrap_or(ride.written)), failed],
                )
            }
        };
        let Some(mut released) = released else {
            return;
        };
        // After a write that failed the machine is ahead of the journal, or is not: one of the two fits. Only what is
        // ours is let go: if another's claim came first, its number may be the same, its owner and epoch are not.
        for ours in ours.into_iter().flatten() {
            released.revision = ours.revision + 1;
            let mut write = Pack::default();
            swap(&mut write, &self.entry, &ours, &released, Flush::Normal);
            told.bytes(write.as_bytes());
        }
    }
}

fn request(leaving: &mut Pack, method: &str, url: &str, body: Option<&[u8]>, limit: Duration) {
    *leaving = Pack::of(method);
    leaving.text(url);
    leaving.optional_bytes(body);
    leaving.number(millis(limit) as f64);
}

fn lines(asked: &mut Pack, headers: &mut dyn Iterator<Item = (&str, &str)>) {
    for (name, value) in headers {
        asked.text(name);
        asked.text(value);
    }
}

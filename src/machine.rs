//! The heart: what happened goes in, what to do next comes out.
//!
//! ```text
//!            begin                                  ┌──────── 5xx, 408, 425, 429, lost ────────┐
//!              │                                    ▼                                          │
//!           ┌──▼──┐   first attempt   ┌─────────┐   answer    ┌───────────┐  time passes  ┌────┴────┐
//!           │Ready├──────────────────►│ Sending ├────────────►│  verdict  ├──────────────►│ Waiting │
//!           └─────┘                   └────▲────┘             └─┬─┬─┬─┬─┬─┘               └────┬────┘
//!                                          └────────────────────┼─┼─┼─┼─┼──────────────────────┘
//!              202: Polling ◄───────────────────────────────────┘ │ │ │ └────► Attention: a person looks
//!              long Retry-After: Deferred ◄───────────────────────┘ │ └──────► Rejected: final, did not happen
//!                                                                   └────────► Succeeded: final, happened
//! ```
//!
//! The machine does not wait, read a clock, roll dice, write, send or log. It is told what happened
//! ([`Event`]), at what time and with what luck ([`Tick`]), and answers with one [`Decision`] that
//! the client's loop carries out. So every rule about keys, doubt, windows and limits can be tested
//! without a network, and a simulation runs the very same code.
//!
//! Three rules are worth knowing before reading on:
//!
//! - **Nothing is sent without a [`Receipt`].** A [`Permit`] is made from one and from nothing else.
//! - **Doubt is sticky.** Once an attempt may have reached the server, an answer that merely
//!   refuses a later attempt no longer means that nothing happened.
//! - **The window closes.** After it the server may have forgotten the key, and the same request
//!   would act again; so nothing is sent any more, and no new key is minted either.
//!
//! ```
//! use samekey::machine::{Decision, End, Event, Machine, Tick};
//! # use samekey::{Headers, Response};
//! # use samekey::{Fingerprint, Key, Method, Profile, Timestamp, entry::*, retry::Policy};
//! # let key = Key::from_random([1; 16]);
//! # let frozen = Frozen {
//! #     key: key.clone(), scope: Scope::new("shop", None)?, intent: "cart/9".into(), generation: 0,
//! #     method: Method::Post, url: "https://api.example.com/orders".into(),
//! #     headers: Headers::new(), key_line: None, body: Kept::Plain([].into()), body_digest: [0; 32],
//! #     fingerprint: Fingerprint::from_bytes([0; 32]), profile: "default".into(),
//! #     begun_at: Timestamp::default(), complete: Default::default(),
//! # };
//! # let day = std::time::Duration::from_secs(86_400);
//! # let progress = Progress::ready(Owner(1), Timestamp::default(), day, WindowSource::Assumed);
//! # let receipt = Receipt::new(key, 1, 1, Grade::None);
//! # let mut machine = Machine::new(samekey::machine::Task {
//! #     entry: Entry { slot: 1, frozen: frozen.into(), progress }, body: vec![].into(),
//! #     profile: Profile::default(), policy: Policy::new(), flush_all: false, surely_unsent: true,
//! # });
//! # let recorded = |d: Decision| match d { Decision::Record { progress, .. } =>
//! #     Receipt::new(receipt.key().clone(), 1, progress.revision, Grade::None),
//! #     other => panic!("{other:?}") };
//! let at = |seconds| Tick::at_seconds(seconds);
//! // Durable: the first attempt may leave.
//! let decision = machine.step(Event::Drive(receipt.clone()), at(0));
//! assert!(matches!(decision, Decision::Send(permit) if permit.attempt() == 1));
//! // The server is busy and names a time: note it, wait, note the next attempt, send it.
//! let mut headers = Headers::new();
//! headers.push("retry-after", "7")?;
//! let busy = Event::Answered(Response::new(503, headers, "busy"));
//! let decision = machine.step(busy, at(1));
//! let decision = machine.step(Event::Recorded(recorded(decision)), at(1));
//! assert!(matches!(decision, Decision::Sleep { wait, .. } if wait.as_secs() >= 7));
//! let decision = machine.step(Event::Woke { may_retry: true }, at(9));
//! let decision = machine.step(Event::Recorded(recorded(decision)), at(9));
//! assert!(matches!(decision, Decision::Send(permit) if permit.attempt() == 2));
//! // A final answer is written down before anyone is told.
//! let paid = Event::Answered(Response::new(201, Headers::new(), "paid"));
//! let decision = machine.step(paid, at(10));
//! let decision = machine.step(Event::Recorded(recorded(decision)), at(10));
//! assert!(matches!(decision, Decision::Finish(End::Settled)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod permit;
mod terms;
mod transition;
mod window;

pub use permit::{Permit, Probe};
pub use terms::{Decision, End, Event, Task, Tick};
pub use transition::{Claim, abandon, cancel, claim, may_have_left, release, settle};

use crate::entry::{Answer, Attempt, Flush, Frozen, Kept, Owner, Phase, Progress, Receipt};
use crate::message::{Content, Failure, FailureKind, Method, Response, Sent};
use crate::profile::Profile;
use crate::retry::classify::{
    self, Action, Again, Applied, Complete, Context, Once, Reason, Replayed, Verdict,
};
use crate::retry::{Policy, backoff, retry_after};
use crate::time::{Now, Timestamp};
use permit::Order;
use std::sync::Arc;
use std::time::Duration;
use window::Window;

/// How often a request may be sent on to another URL of its origin.
const MAX_HOPS: u8 = 5;
/// Answers above this size are handed out but not kept in the journal.
const KEEP_ANSWERS_UP_TO: usize = 64 * 1024;
/// Headers of an answer that the journal keeps. Cookies and the like stay out.
const KEPT_ANSWER_HEADERS: [&str; 9] = [
    "content-language",
    "content-type",
    "date",
    "etag",
    "idempotent-replayed",
    "last-modified",
    "location",
    "request-id",
    "x-request-id",
];

/// Drives one operation from its entry to an end. See the [module](self).
#[derive(Debug)]
pub struct Machine {
    frozen: Arc<Frozen>,
    body: Arc<[u8]>,
    progress: Progress,
    profile: Profile,
    policy: Policy,
    flush_all: bool,
    receipt: Option<Receipt>,
    next: Option<Next>,
    run: Run,
    last: Option<Response>,
}

/// What is true of this run only and need not survive it.
#[derive(Debug)]
struct Run {
    started: Option<Now>,
    window: Window,
    in_doubt: bool,
    attempts: u32,
    retries: u32,
    sent_at: Now,
    /// Boxed, as it is rare, and everyone who waits keeps room for it.
    lost_success: Option<Box<Response>>,
    /// Until when the server wants to be left alone, if it said so last.
    heard: Option<Timestamp>,
    /// Whether the first attempt of this run, or its first question, was due already.
    begun: bool,
}

/// What follows a write.
#[derive(Debug)]
enum Next {
    Launch,
    Probe,
    Sleep { wait: Duration, charge: bool },
    Finish(End),
}

impl Machine {
    /// A machine that has yet to be told [`Event::Drive`].
    #[must_use]
    pub fn new(task: Task) -> Machine {
        let Task {
            entry,
            body,
            profile,
            policy,
            flush_all,
            surely_unsent,
        } = task;
        let run = Run {
            started: None,
            window: Window::default(),
            in_doubt: entry.progress.maybe_applied && !surely_unsent,
            attempts: 0,
            retries: 0,
            sent_at: Now::default(),
            lost_success: None,
            heard: None,
            begun: false,
        };
        Machine {
            frozen: entry.frozen,
            body,
            progress: entry.progress,
            profile,
            policy,
            flush_all,
            receipt: None,
            next: None,
            run,
            last: None,
        }
    }

    /// The operation's progress, as this machine knows it.
    #[must_use]
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The latest answer, with all that the journal does not keep of it.
    #[must_use]
    pub fn last_response(&self) -> Option<&Response> {
        self.last.as_ref()
    }

    /// The same for whoever tells it at the end.
    pub(crate) fn take_last_response(&mut self) -> Option<Response> {
        self.last.take()
    }

    /// The progress, for whoever keeps it at the end: this machine knows nothing any more.
    pub(crate) fn take_progress(&mut self) -> Progress {
        let Progress {
            window_start,
            window,
            window_source,
            ..
        } = self.progress;
        let nothing = Progress::ready(Owner::NONE, window_start, window, window_source);
        std::mem::replace(&mut self.progress, nothing)
    }

    /// Whether the request may have had its effect.
    #[must_use]
    pub fn in_doubt(&self) -> bool {
        self.run.in_doubt
    }

    /// Until when the server asked, in this run, to be left alone.
    #[must_use]
    pub fn heard(&self) -> Option<Timestamp> {
        self.run.heard
    }

    /// Keeps to what an earlier run of this program [heard](Self::heard) and could not write down, as
    /// somebody else had the entry then.
    pub fn keep_to(&mut self, heard: Option<Timestamp>) {
        self.run.heard = heard;
    }

    /// Takes in what happened and says what to do next.
    pub fn step(&mut self, event: Event, tick: Tick) -> Decision {
        let tick = &tick;
        self.progress.seen_at = self.progress.seen_at.max(tick.now.wall);
        match event {
            Event::Drive(receipt) => self.drive(receipt, tick),
            Event::Recorded(receipt) => {
                self.receipt = Some(receipt);
                self.follow(tick)
            }
            Event::Answered(response) => self.answered(response, tick),
            Event::Failed(failure) => self.failed(&failure, tick),
            Event::Woke { may_retry } => self.woke(may_retry, tick),
            Event::Authorised if self.progress.poll_url.is_some() => self.probe(tick),
            Event::Authorised => self.next_attempt(tick),
            Event::Unauthorised => match self.last.take() {
                Some(response) => {
                    // The same answer, looked at once more: it is one attempt, not two.
                    self.progress.recent.pop();
                    self.answered(response, tick)
                }
                None => self.next_attempt(tick),
            },
        }
    }

    fn drive(&mut self, receipt: Receipt, tick: &Tick) -> Decision {
        self.receipt = Some(receipt);
        self.run.started = Some(tick.now);
        self.run.window = Window::open(&self.progress, &tick.now);
        match self.progress.phase {
            Phase::Attention(reason) => return Decision::Finish(End::Attention(reason)),
            phase if phase.is_settled() => return Decision::Finish(End::Settled),
            _ => {}
        }
        if self.would_act_twice() {
            return self.attend(Reason::NoKeySupport);
        }
        let asked = |until: Timestamp| until.since(tick.now.wall);
        let wait = self.run.heard.map_or(Duration::ZERO, asked);
        if wait > Duration::ZERO {
            let pause = Pause {
                wait,
                hinted: true,
                charge: false,
            };
            return self.wait_or_stop(pause, tick);
        }
        // A longer wait than any that is sat out can only be a clock that was set back.
        let left = |until: Timestamp| until.since(tick.now.wall).min(self.policy.defer_above);
        let wait = self.progress.not_before.map_or(Duration::ZERO, left);
        if wait > Duration::ZERO {
            return Decision::Sleep {
                wait,
                charge: false,
            };
        }
        self.start(false, tick)
    }

    /// The first thing to do with an entry that is ours.
    ///
    /// Its revision is written already, and was a moment ago; after a wait somebody else may have
    /// written since, and another write shows whether the entry is still ours.
    fn start(&mut self, waited: bool, tick: &Tick) -> Decision {
        self.run.begun = true;
        self.run.started = Some(tick.now);
        if self.progress.poll_url.is_some() {
            return self.probe(tick);
        }
        if self.progress.phase == Phase::Ready {
            self.progress.attempts += 1;
            self.progress.phase = Phase::Sending;
        }
        self.run.attempts = 1;
        if waited {
            self.progress.not_before = None;
            return self.record(Flush::Normal, Next::Launch);
        }
        self.launch(tick)
    }

    fn follow(&mut self, tick: &Tick) -> Decision {
        match self.next.take() {
            Some(Next::Launch) | None => self.launch(tick),
            Some(Next::Probe) => self.probe(tick),
            Some(Next::Sleep { wait, charge }) => Decision::Sleep { wait, charge },
            Some(Next::Finish(end)) => Decision::Finish(end),
        }
    }

    fn woke(&mut self, may_retry: bool, tick: &Tick) -> Decision {
        if !self.run.begun {
            return self.start(true, tick);
        }
        if self.progress.poll_url.is_some() {
            return self.probe(tick);
        }
        if may_retry {
            return self.next_attempt(tick);
        }
        // The host has had more retries than its share: wait on, without counting an attempt.
        self.run.retries += 1;
        let wait = backoff::delay(&self.policy, self.run.retries, tick.roll);
        self.wait_or_stop(
            Pause {
                wait,
                hinted: false,
                charge: true,
            },
            tick,
        )
    }

    /// Notes that an attempt is about to leave; the write also shows whether we still hold the
    /// lease.
    fn next_attempt(&mut self, tick: &Tick) -> Decision {
        if self
            .run
            .window
            .is_closed(&self.progress, &self.policy, &tick.now)
        {
            return self.window_closed(tick);
        }
        self.run.attempts += 1;
        self.progress.attempts += 1;
        self.progress.phase = Phase::Sending;
        self.progress.not_before = None;
        self.record(Flush::Normal, Next::Launch)
    }

    /// Sends, if the window and the time that is left allow it.
    fn launch(&mut self, tick: &Tick) -> Decision {
        let Some(left) = self
            .run
            .window
            .left(&self.progress, &self.policy, &tick.now)
        else {
            return self.window_closed(tick);
        };
        let order = Order {
            frozen: &self.frozen,
            body: &self.body,
            moved_to: self.progress.moved_to.as_deref(),
            attempt: self.progress.attempts,
            timeout: self.policy.attempt_timeout.min(self.time_left(&tick.now)),
            not_after: tick.now.monotonic.saturating_add(left),
        };
        match self
            .receipt
            .as_ref()
            .and_then(|receipt| Permit::new(receipt, order))
        {
            Some(permit) => {
                self.run.sent_at = tick.now;
                Decision::Send(permit)
            }
            None => self.attend(Reason::Protocol),
        }
    }

    fn probe(&mut self, tick: &Tick) -> Decision {
        let Some(url) = &self.progress.poll_url else {
            return self.next_attempt(tick);
        };
        let timeout = self.policy.attempt_timeout.min(self.time_left(&tick.now));
        self.run.sent_at = tick.now;
        Decision::Probe(Probe::new(url, timeout))
    }

    fn answered(&mut self, response: Response, tick: &Tick) -> Decision {
        self.run
            .window
            .heed_server(&mut self.progress, &self.profile, &response, tick.now.wall);
        let context = self.context(tick);
        let verdict = match self.progress.poll_url {
            Some(_) if self.progress.following => classify::followed(&response, &context),
            Some(_) => classify::polled(&response, &context),
            None => classify::answer(&response, &context),
        };
        let complete = &self.frozen.complete;
        let verdict = classify::completed(verdict, &response, complete, &context);
        // A login page cut short is no success either.
        if classify::is_success_without_body(&response)
            && *complete == Complete::Status
            && !classify::is_page(&response, &self.profile)
        {
            self.run.lost_success = Some(Box::new(response.clone()));
        }
        let status = Some(response.status);
        self.last = Some(response);
        self.heed(verdict, status, tick)
    }

    fn failed(&mut self, failure: &Failure, tick: &Tick) -> Decision {
        if failure.kind == FailureKind::WindowClosed && failure.sent == Sent::No {
            return self.window_closed(tick);
        }
        let verdict = if self.progress.poll_url.is_some() {
            classify::poll_failed(failure)
        } else {
            classify::failure(failure, &self.context(tick))
        };
        self.last = None;
        self.heed(verdict, None, tick)
    }

    fn context(&self, tick: &Tick) -> Context<'_> {
        let url = self
            .progress
            .poll_url
            .as_deref()
            .or(self.progress.moved_to.as_deref());
        Context {
            profile: &self.profile,
            url: url.unwrap_or(&self.frozen.url),
            attempt: self.progress.attempts,
            in_doubt: self.run.in_doubt,
            used: &self.progress.used,
            now: tick.now.wall,
        }
    }

    fn heed(&mut self, verdict: Verdict, status: Option<u16>, tick: &Tick) -> Decision {
        let polling = self.progress.poll_url.is_some();
        if !polling {
            self.progress.note_attempt(Attempt {
                number: self.progress.attempts,
                ended_at: tick.now.wall,
                took: tick.now.since(self.run.sent_at),
                status,
                reason: verdict.reason.into(),
            });
            self.run.in_doubt |= verdict.applied == Applied::Maybe;
        }
        match verdict.action {
            Action::Succeed(replayed) => self.settle(Phase::Succeeded, replayed, tick),
            Action::Reject => self.settle(Phase::Rejected, Replayed::Unknown, tick),
            Action::Attend(reason) => self.attend(reason),
            Action::TryAgain(again) if polling => self.poll_again(again, tick),
            Action::TryAgain(again) => self.try_again(again, tick),
            Action::StillRunning(hint) => self.still_running(hint, tick),
            Action::Poll(url, hint) => {
                self.progress.following = false;
                self.poll_at(url, hint, tick)
            }
            Action::SeeOther(url, hint) => {
                self.progress.following = true;
                self.poll_at(url, hint, tick)
            }
            Action::Resend(url) => self.resend(url),
            Action::Reauthorise => {
                self.progress.used.push(Once::Reauthorise);
                Decision::Reauthorise
            }
        }
    }

    fn try_again(&mut self, again: Again, tick: &Tick) -> Decision {
        self.progress.used.extend(again.once);
        let parked = again
            .hint
            .is_some_and(|hint| hint > self.policy.defer_above);
        if self.run.attempts >= self.policy.max_attempts && !parked {
            // Whoever resumes it must not come sooner than the server asked.
            self.run.heard = again.hint.map(|hint| tick.now.wall + hint);
            self.progress.not_before = self.run.heard;
            return self.stop(tick);
        }
        if again.at_once {
            return self.next_attempt(tick);
        }
        self.run.retries += 1;
        let backoff = backoff::delay(&self.policy, self.run.retries, tick.roll);
        let wait = retry_after::wait(again.hint, backoff, again.floor, tick.roll);
        self.wait_or_stop(
            Pause {
                wait,
                hinted: again.hint.is_some(),
                charge: true,
            },
            tick,
        )
    }

    /// The server works on this key: that is bounded by time alone, for a lock that it holds for
    /// half a minute must not use up the attempts.
    fn still_running(&mut self, hint: Option<Duration>, tick: &Tick) -> Decision {
        self.run.attempts = self.run.attempts.saturating_sub(1).max(1);
        self.run.retries += 1;
        let backoff = backoff::delay(&self.policy, self.run.retries, tick.roll);
        let wait = retry_after::wait(hint, backoff, classify::STILL_RUNNING_FLOOR, tick.roll);
        self.wait_or_stop(
            Pause {
                wait,
                hinted: hint.is_some(),
                charge: false,
            },
            tick,
        )
    }

    fn poll_again(&mut self, again: Again, tick: &Tick) -> Decision {
        if again.once == Some(Once::PollLost) {
            self.progress.used.push(Once::PollLost);
            self.progress.poll_url = None;
            return self.next_attempt(tick);
        }
        self.still_running(again.hint, tick)
    }

    fn poll_at(&mut self, url: String, hint: Option<Duration>, tick: &Tick) -> Decision {
        let first = self.progress.poll_url.is_none();
        let moved = self
            .progress
            .poll_url
            .as_deref()
            .is_some_and(|known| known != url);
        self.progress.hops = self.progress.hops.saturating_add(u8::from(moved));
        if self.progress.hops > MAX_HOPS {
            return self.attend(Reason::Redirected);
        }
        self.progress.poll_url = Some(url.into());
        self.progress.phase = Phase::Polling;
        if hint.is_none() && (moved || first) {
            return self.record(Flush::Normal, Next::Probe);
        }
        self.still_running(hint, tick)
    }

    fn resend(&mut self, url: String) -> Decision {
        self.progress.hops = self.progress.hops.saturating_add(1);
        if self.progress.hops > MAX_HOPS {
            return self.attend(Reason::Redirected);
        }
        self.progress.moved_to = Some(url.into());
        self.record(Flush::Normal, Next::Launch)
    }

    /// Whether the server asks for a longer wait than is sat out.
    fn parks(&self, pause: &Pause) -> bool {
        pause.hinted && pause.wait > self.policy.defer_above
    }

    fn wait_or_stop(&mut self, pause: Pause, tick: &Tick) -> Decision {
        let until = tick.now.wall + pause.wait;
        self.run.heard = pause.hinted.then_some(until);
        let polling = self.progress.poll_url.is_some();
        if !polling
            && self
                .run
                .window
                .closes_within(pause.wait, &self.progress, &self.policy, &tick.now)
        {
            // What was surely not sent may begin a new window, but not sooner than the server asked.
            if self.parks(&pause) && !self.run.in_doubt {
                return self.defer(until);
            }
            self.progress.not_before = self.run.heard;
            return self.window_closed(tick);
        }
        let fits = pause.wait <= self.time_left(&tick.now);
        if polling
            && !fits
            && self
                .run
                .window
                .is_closed(&self.progress, &self.policy, &tick.now)
        {
            // A job that outlasts its key's window is a person's to look at; resuming asks again.
            return self.attend(Reason::Exhausted);
        }
        if self.parks(&pause) || (!fits && (pause.hinted || polling)) {
            return self.defer(until);
        }
        if !fits {
            return self.stop(tick);
        }
        self.progress.phase = if polling {
            Phase::Polling
        } else {
            Phase::Waiting
        };
        self.progress.not_before = Some(until);
        self.record(
            Flush::Normal,
            Next::Sleep {
                wait: pause.wait,
                charge: pause.charge,
            },
        )
    }

    fn defer(&mut self, until: Timestamp) -> Decision {
        self.progress.not_before = Some(until);
        self.close(Phase::Deferred, Flush::Full, End::Deferred(until))
    }

    /// The attempts or the time are spent.
    fn stop(&mut self, tick: &Tick) -> Decision {
        if let Some(lost) = self.run.lost_success.take() {
            self.last = Some(*lost);
            return self.settle(Phase::Succeeded, Replayed::Unknown, tick);
        }
        if self.run.in_doubt {
            return self.attend(Reason::Exhausted);
        }
        self.close(Phase::Waiting, Flush::Normal, End::NotApplied)
    }

    /// Whether sending now could repeat what an earlier attempt did: the server knows no keys, and
    /// the method is not idempotent by itself.
    fn would_act_twice(&self) -> bool {
        self.run.in_doubt
            && self.progress.poll_url.is_none()
            && !self.profile.knows_keys()
            && matches!(self.frozen.method, Method::Post | Method::Patch)
    }

    /// Nothing may be sent any more; what was surely never sent can begin a new window later.
    fn window_closed(&mut self, tick: &Tick) -> Decision {
        if self.run.in_doubt {
            self.attend(Reason::WindowClosed)
        } else {
            self.stop(tick)
        }
    }

    fn attend(&mut self, reason: Reason) -> Decision {
        self.close(
            Phase::Attention(reason),
            Flush::Full,
            End::Attention(reason),
        )
    }

    fn settle(&mut self, phase: Phase, replayed: Replayed, tick: &Tick) -> Decision {
        self.progress.answer = self.last.as_ref().map(|response| Answer {
            status: response.status,
            headers: response
                .headers
                .filtered(|name| KEPT_ANSWER_HEADERS.contains(&name)),
            body: match &response.content {
                Content::Whole(bytes) if bytes.len() > KEEP_ANSWERS_UP_TO => Kept::NotKept,
                Content::Whole(bytes) => Kept::Plain(bytes.as_slice().into()),
                Content::Lost => Kept::Lost,
                Content::TooLarge => Kept::TooLarge,
                Content::NotKept => Kept::NotKept,
            },
            replayed,
            at: tick.now.wall,
        });
        let lax = phase == Phase::Succeeded && self.profile.replays() && !self.flush_all;
        self.close(
            phase,
            if lax { Flush::Normal } else { Flush::Full },
            End::Settled,
        )
    }

    /// Writes the last word of this run and lets the entry go.
    fn close(&mut self, phase: Phase, flush: Flush, end: End) -> Decision {
        self.progress.phase = phase;
        self.progress.owner = Owner::NONE;
        self.record(flush, Next::Finish(end))
    }

    fn record(&mut self, flush: Flush, next: Next) -> Decision {
        let last_word = matches!(next, Next::Finish(_));
        self.progress.maybe_applied = self.run.in_doubt || !last_word;
        self.progress.revision += 1;
        self.next = Some(next);
        Decision::Record {
            progress: Box::new(self.progress.clone()),
            flush,
        }
    }

    fn time_left(&self, now: &Now) -> Duration {
        let spent = self
            .run
            .started
            .map_or(Duration::ZERO, |started| now.since(started));
        self.policy.give_up_after.saturating_sub(spent)
    }
}

/// A wait that is being weighed.
#[derive(Clone, Copy)]
struct Pause {
    wait: Duration,
    hinted: bool,
    charge: bool,
}

#[cfg(test)]
mod tests;

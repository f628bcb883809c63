//! A request of the shop from its arrival to its answer.
//!
//! Quick work is one transaction: reservation, effect, outbox row and stored answer. Work that takes
//! time reserves first, so that duplicates see it in flight, and then does the rest in one.

mod answers;
mod broken;

use super::{Incoming, Node, key_of, tenant_of};
use crate::answer::Answer;
use crate::business::{self, Action, Done};
use crate::clock::parse_http_date;
use crate::engine::{self, Claim, Completion, Rules, Verdict};
use crate::faults::{Fault, Plan};
use crate::fingerprint::{self, JsonFault, Parts};
use crate::ledger::Event;
use crate::naughty::Naughty;
use crate::profile::Carrier;
use crate::routes::{self, Kind, Need, Route};
use crate::settings::{InFlight, Settings};
use crate::store::{Record, Res, Slot, Store, StoreError};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How an exchange ends for the server.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// With an answer.
    Answer(Answer),
    /// Without one: the worker died or was stopped.
    Lost,
}

/// A request that has passed every check before the look-up.
#[derive(Debug)]
struct Job {
    /// Its number in the ledger.
    id: u64,
    action: Action,
    claim: Claim,
    plan: Plan,
    /// Whether its tenant may create a key, as of the present try.
    may_create: AtomicBool,
}

const FENCED: StoreError = StoreError::Rollback("fenced");
const CRASHED: StoreError = StoreError::Rollback("crashed");

/// What one try to act led to.
enum Step {
    Ran(Record, Done),
    Verdict(Verdict),
}

impl Node {
    /// Does what a request of the shop asks for, and says it in the words of the profile.
    pub(crate) async fn perform(&self, incoming: &Incoming, plan: &Plan, id: u64) -> Outcome {
        let settings = self.settings();
        match self.served(&settings, incoming, plan, id).await {
            Outcome::Lost => Outcome::Lost,
            Outcome::Answer(answer) => {
                let key = match settings.profile.carrier() {
                    Carrier::Header(name) => incoming.header(name),
                    Carrier::Body(_) => None,
                };
                Outcome::Answer(settings.profile.speak(answer, key, id))
            }
        }
    }

    async fn served(
        &self,
        settings: &Settings,
        incoming: &Incoming,
        plan: &Plan,
        id: u64,
    ) -> Outcome {
        let (route, target) = match routes::find(&incoming.method, &incoming.path) {
            Ok(found) => found,
            Err(known) => return Outcome::Answer(answers::unknown(known)),
        };
        let tenant = tenant_of(incoming);
        match route.kind {
            Kind::Read => {
                let (now, id) = (self.now(), target.to_owned());
                let read = self
                    .writer
                    .call(move |s| business::read(s, &tenant, &id, now))
                    .await;
                Outcome::Answer(read.unwrap_or_else(|_| settings.profile.store_down()))
            }
            Kind::KeyState => Outcome::Answer(self.key_state(&tenant, target).await),
            _ => match self.prepare(settings, incoming, route, target, &tenant, plan, id) {
                Ok(Prepared::Keyed(job)) => self.keyed(settings, Arc::new(*job)).await,
                Ok(Prepared::Unprotected(action)) => self.unprotected(id, *action).await,
                Err(answer) => Outcome::Answer(answer),
            },
        }
    }

    async fn keyed(&self, settings: &Settings, job: Arc<Job>) -> Outcome {
        if job.plan.has(&Fault::InFlight) {
            self.note(job.id, &job.action.slot.tenant, Event::InFlight);
            return Outcome::Answer(self.come_back(settings, settings.profile.in_flight()));
        }
        if job.plan.has(&Fault::Amnesia) {
            let forgotten = self.writer.call(|store| store.forget_all()).await;
            if forgotten.is_ok() {
                self.note(job.id, &job.action.slot.tenant, Event::Forgotten);
            }
        }
        if job.plan.has(&Fault::DownstreamDown) {
            self.fail_downstream(&job.action.slot.key);
        }
        let outcome = self.until_settled(settings, &job).await;
        if job.plan.has(&Fault::EarlyEviction) {
            let slot = job.claim.slot.clone();
            if self
                .writer
                .call(move |store| store.remove(&slot))
                .await
                .is_ok()
            {
                self.note(job.id, &job.action.slot.tenant, Event::Forgotten);
            }
        }
        outcome
    }

    /// Tries until there is something to say: again after losing a reservation, and again while the
    /// knob says to wait for the first of two duplicates.
    async fn until_settled(&self, settings: &Settings, job: &Arc<Job>) -> Outcome {
        let tenant = &job.action.slot.tenant;
        let wait = match settings.in_flight {
            InFlight::Wait(longest) => longest,
            _ => Duration::ZERO,
        };
        let deadline = tokio::time::sleep(wait);
        tokio::pin!(deadline);
        loop {
            let mut bell = self.log.listen();
            job.may_create
                .store(self.take_one(tenant), Ordering::Relaxed);
            let tried = self.step(job).await;
            if !matches!(tried, Ok(Step::Ran(..))) {
                self.give_back(tenant);
            }
            let step = match tried {
                Ok(step) => step,
                Err(error) if error == FENCED => {
                    self.note(job.id, tenant, Event::Fenced);
                    continue;
                }
                Err(error) if error == CRASHED => {
                    self.note(job.id, tenant, Event::Crashed);
                    return Outcome::Lost;
                }
                Err(_) => return self.store_down(settings, job).await,
            };
            let waits = !wait.is_zero() && !deadline.is_elapsed();
            match step {
                Step::Ran(record, done) => {
                    self.settle(job, &done);
                    return Outcome::Answer(self.dated(settings, done.answer, &record));
                }
                Step::Verdict(Verdict::InFlight(_)) if waits => {
                    tokio::select! {
                        _ = bell.changed() => {}
                        () = &mut deadline => {}
                    }
                }
                Step::Verdict(verdict) => {
                    return Outcome::Answer(self.say(settings, job, verdict).await);
                }
            }
        }
    }

    fn settle(&self, job: &Job, done: &Done) {
        let tenant = &job.action.slot.tenant;
        if let Some(effect) = done.effect {
            self.log
                .change(job.id, |request| request.effect = Some(effect));
            self.note(job.id, tenant, Event::Effect);
            self.wake_outbox();
        }
        let kept = self.rules().keeps(done.answer.status);
        self.note(
            job.id,
            tenant,
            if kept { Event::Stored } else { Event::Released },
        );
    }

    async fn step(&self, job: &Arc<Job>) -> Res<Step> {
        if job.plan.has(&Fault::StoreDown) || self.is_down() {
            return Err(StoreError::Down);
        }
        if let Some(habit) = broken::habit(self) {
            return self.broken_step(job, habit).await;
        }
        let slow = job.plan.find(slowness);
        if slow.is_none() && !self.gate.is_closed() && !job.plan.has(&Fault::WorkerCrash) {
            return self.in_one_transaction(job).await;
        }
        let held = match self.reserve(job).await? {
            Verdict::Run(held) => held,
            other => return Ok(Step::Verdict(other)),
        };
        self.note(job.id, &job.action.slot.tenant, Event::Reserved);
        self.pause(job, slow).await?;
        let (rules, now, work) = (self.rules(), self.now(), Arc::clone(job));
        let record = held.clone();
        let done = self
            .writer
            .call(move |s| work_under(s, &rules, &held, &work, now))
            .await?;
        Ok(Step::Ran(record, done))
    }

    async fn in_one_transaction(&self, job: &Arc<Job>) -> Res<Step> {
        let (rules, now, work) = (self.rules(), self.now(), Arc::clone(job));
        let claim = self.claim(job);
        let step = self.writer.call(move |store| {
            Ok(match engine::reserve(store, &rules, &claim)? {
                Verdict::Run(held) => {
                    let done = work_under(store, &rules, &held, &work, now)?;
                    Step::Ran(held, done)
                }
                other => Step::Verdict(other),
            })
        });
        let step = step.await?;
        if matches!(step, Step::Ran(..)) {
            self.note(job.id, &job.action.slot.tenant, Event::Reserved);
        }
        Ok(step)
    }

    async fn reserve(&self, job: &Arc<Job>) -> Res<Verdict> {
        let (rules, claim) = (self.rules(), self.claim(job));
        self.writer
            .call(move |store| engine::reserve(store, &rules, &claim))
            .await
    }

    /// A worker's wait between reservation and work.
    async fn pause(&self, job: &Job, slow: Option<u64>) -> Res<()> {
        if let Some(opened) = self.gate.queue() {
            self.note(job.id, &job.action.slot.tenant, Event::Held);
            // The gate is gone when the mock is: then this worker is, too.
            opened.await.map_err(|_| CRASHED)?;
        }
        if let Some(ms) = slow {
            self.note(job.id, &job.action.slot.tenant, Event::Held);
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
        Ok(())
    }

    /// The claim for this try: every try is a worker of its own.
    fn claim(&self, job: &Job) -> Claim {
        let may_create = job.may_create.load(Ordering::Relaxed);
        Claim {
            owner: self.owner(),
            now: self.now(),
            may_create,
            ..job.claim.clone()
        }
    }

    pub(crate) fn is_down(&self) -> bool {
        self.store_down.load(Ordering::Relaxed)
    }

    async fn store_down(&self, settings: &Settings, job: &Job) -> Outcome {
        if settings.naughty.has(Naughty::FailOpen) {
            return self.unprotected(job.id, job.action.clone()).await;
        }
        self.note(job.id, &job.action.slot.tenant, Event::StoreDown);
        Outcome::Answer(self.come_back(settings, settings.profile.store_down()))
    }

    /// Runs without any key.
    async fn unprotected(&self, id: u64, action: Action) -> Outcome {
        let tenant = action.slot.tenant.clone();
        self.note(id, &tenant, Event::Unprotected);
        let now = self.now();
        let done = self
            .writer
            .call(move |store| business::act(store, &action, now))
            .await;
        match done {
            Ok(done) => {
                if let Some(effect) = done.effect {
                    self.log.change(id, |request| request.effect = Some(effect));
                    self.note(id, &tenant, Event::Effect);
                    self.wake_outbox();
                }
                Outcome::Answer(done.answer)
            }
            Err(_) => Outcome::Answer(self.settings().profile.store_down()),
        }
    }
}

/// What identifies the request under its key.
fn digest_of(settings: &Settings, incoming: &Incoming) -> Result<String, JsonFault> {
    let by_meaning = !settings.naughty.has(Naughty::UnorderedJson);
    fingerprint::fingerprint(Parts {
        method: &incoming.method,
        route: &incoming.path,
        query: &incoming.query,
        content_type: incoming.header("content-type").filter(|_| by_meaning),
        body: &incoming.body,
    })
}

/// How long a worker is to hold its reservation.
fn slowness(fault: &Fault) -> Option<u64> {
    match fault {
        Fault::SlowWork(ms) => Some(*ms),
        _ => None,
    }
}

/// Does the work of a reservation and completes it, all inside the caller's transaction.
fn work_under(
    store: &mut dyn Store,
    rules: &Rules,
    held: &Record,
    job: &Job,
    now: i64,
) -> Res<Done> {
    store.begin()?;
    let mut done = business::act(store, &job.action, now)?;
    if job.plan.has(&Fault::HandlerError) {
        done = answers::handler_error().into();
    }
    if done.answer.status >= 500 {
        store.undo()?;
    } else {
        store.keep()?;
    }
    if job.plan.has(&Fault::WorkerCrash) {
        return Err(CRASHED);
    }
    match engine::complete(store, rules, held, &done.answer, now)? {
        Completion::Fenced => Err(FENCED),
        Completion::Stored | Completion::Released => Ok(done),
    }
}

enum Prepared {
    Keyed(Box<Job>),
    Unprotected(Box<Action>),
}

impl Node {
    /// Everything that is checked before a key is looked up.
    #[expect(
        clippy::too_many_arguments,
        reason = "one caller, and each is a different thing"
    )]
    fn prepare(
        &self,
        settings: &Settings,
        incoming: &Incoming,
        route: Route,
        target: &str,
        tenant: &str,
        plan: &Plan,
        id: u64,
    ) -> Result<Prepared, Answer> {
        let refuse = |event: Event, answer: Answer| {
            self.note(id, tenant, event);
            Err(answer)
        };
        let body: Value = serde_json::from_slice(&incoming.body).unwrap_or_default();
        let key = match key_of(settings, incoming, &body) {
            Ok(key) => key,
            Err(why) => return refuse(Event::KeyInvalid, settings.profile.bad_key(false, &why)),
        };
        let optional = !settings.key_required
            || route.need == Need::Optional
            || settings.naughty.has(Naughty::KeyOptional);
        if key.is_none() && !optional {
            let why = "This operation needs a key of its own; send the same one on every retry.";
            return refuse(Event::KeyMissing, settings.profile.bad_key(true, why));
        }
        if let Err(answer) = self.fresh_enough(settings, incoming) {
            return refuse(Event::TooOld, answer);
        }
        let slot = Slot {
            tenant: broken::tenant(settings, &body, tenant),
            operation: format!("{} {}", route.method, route.pattern),
            key: key.clone().unwrap_or_default(),
        };
        let action = Action {
            kind: route.kind,
            slot,
            target: target.to_owned(),
            body,
            export_time: i64::try_from(settings.export_time.as_millis()).unwrap_or(i64::MAX),
        };
        if key.is_none() || !routes::is_covered(route.kind, settings.naughty) {
            return Ok(Prepared::Unprotected(Box::new(action)));
        }
        let digest = match digest_of(settings, incoming) {
            Ok(digest) => digest,
            Err(why) => return refuse(Event::Malformed, answers::malformed(&why.to_string())),
        };
        let claim = Claim {
            slot: broken::slot(self, settings, plan, &action.slot),
            fingerprint: digest,
            owner: 0,
            now: 0,
            may_create: true,
            blind: plan.has(&Fault::LaggingReplica),
        };
        Ok(Prepared::Keyed(Box::new(Job {
            id,
            action,
            claim,
            plan: plan.clone(),
            may_create: AtomicBool::new(true),
        })))
    }

    /// The optional check against requests replayed long after the fact.
    fn fresh_enough(&self, settings: &Settings, incoming: &Incoming) -> Result<(), Answer> {
        let Some(limit) = settings.max_request_age else {
            return Ok(());
        };
        let limit = i64::try_from(limit.as_millis()).unwrap_or(i64::MAX);
        let sent = incoming.header("date").and_then(parse_http_date);
        match sent {
            Some(sent) if self.now() - sent <= limit => Ok(()),
            Some(_) => Err(answers::too_old(
                "The request is older than this server accepts.",
            )),
            None => Err(answers::too_old(
                "The request must say when it was made, in `Date`.",
            )),
        }
    }
}

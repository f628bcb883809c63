//! The broken ways of doing the work, for the switches that cannot be a mere `if` in the engine.

use super::{CRASHED, Fault, Job, Step, answers};
use crate::business::{self, Done};
use crate::engine::{self, Completion, Verdict};
use crate::naughty::Naughty;
use crate::node::Node;
use crate::settings::Settings;
use crate::store::{Record, Res, Slot};
use serde_json::Value;
use std::sync::Arc;

/// The switch, if one is on, that changes the order of the work.
pub(super) fn habit(node: &Node) -> Option<Naughty> {
    [
        Naughty::CheckThenInsert,
        Naughty::EffectWithoutAnswer,
        Naughty::ReserveAfterEffect,
    ]
    .into_iter()
    .find(|switch| node.has(*switch))
}

/// The tenant, as this server believes.
pub(super) fn tenant(settings: &Settings, body: &Value, tenant: &str) -> String {
    let named = body.get("tenant").and_then(Value::as_str);
    match named {
        Some(named) if settings.naughty.has(Naughty::TenantFromBody) => named.to_owned(),
        _ => tenant.to_owned(),
    }
}

/// The place where this server looks for the key.
pub(super) fn slot(
    node: &Node,
    settings: &Settings,
    plan: &crate::faults::Plan,
    real: &Slot,
) -> Slot {
    let mut slot = real.clone();
    if settings.naughty.has(Naughty::SharedTenants) {
        slot.tenant = "everyone".into();
    }
    if settings.naughty.has(Naughty::NodeLocalKeys) {
        slot.operation = format!("{} at {}", slot.operation, node.name);
    }
    if plan.has(&Fault::SplitBrain) {
        slot.operation = format!("{} in the other half", slot.operation);
    }
    slot
}

impl Node {
    pub(super) async fn broken_step(&self, job: &Arc<Job>, habit: Naughty) -> Res<Step> {
        match habit {
            Naughty::CheckThenInsert => self.check_then_insert(job).await,
            Naughty::ReserveAfterEffect => self.reserve_after_effect(job).await,
            _ => self.effect_without_answer(job).await,
        }
    }

    async fn act(&self, job: &Arc<Job>) -> Res<Done> {
        let (work, now) = (Arc::clone(job), self.now());
        let failing = job.plan.has(&Fault::HandlerError);
        let done = self
            .writer
            .call(move |store| business::act(store, &work.action, now))
            .await?;
        Ok(if failing {
            answers::handler_error().into()
        } else {
            done
        })
    }

    async fn finish(&self, held: &Record, done: &Done) -> Res<()> {
        let (rules, now, held) = (self.rules(), self.now(), held.clone());
        let answer = done.answer.clone();
        let work = move |store: &mut dyn crate::store::Store| {
            engine::complete(store, &rules, &held, &answer, now)
        };
        self.writer.call(work).await.map(|_: Completion| ())
    }

    async fn check_then_insert(&self, job: &Arc<Job>) -> Res<Step> {
        let slot = job.claim.slot.clone();
        if self
            .writer
            .call(move |store| store.find(&slot))
            .await?
            .is_some()
        {
            return self.in_one_transaction(job).await;
        }
        // Everyone who looked at the same time is past the check by now.
        self.pause(job, None).await?;
        let done = self.act(job).await?;
        let mut claim = self.claim(job);
        claim.blind = true;
        let rules = self.rules();
        let verdict = self
            .writer
            .call(move |store| engine::reserve(store, &rules, &claim))
            .await?;
        let Verdict::Run(held) = verdict else {
            return Ok(Step::Verdict(verdict));
        };
        self.finish(&held, &done).await?;
        Ok(Step::Ran(held, done))
    }

    async fn reserve_after_effect(&self, job: &Arc<Job>) -> Res<Step> {
        self.pause(job, None).await?;
        let done = self.act(job).await?;
        match self.reserve(job).await? {
            Verdict::Run(held) => {
                self.finish(&held, &done).await?;
                Ok(Step::Ran(held, done))
            }
            other => Ok(Step::Verdict(other)),
        }
    }

    async fn effect_without_answer(&self, job: &Arc<Job>) -> Res<Step> {
        let held = match self.reserve(job).await? {
            Verdict::Run(held) => held,
            other => return Ok(Step::Verdict(other)),
        };
        self.pause(job, None).await?;
        let done = self.act(job).await?;
        // The gap between the two transactions: whoever dies here has acted and does not know it.
        let slow = job.plan.find(super::slowness);
        self.pause(job, slow).await?;
        if job.plan.has(&Fault::WorkerCrash) {
            return Err(CRASHED);
        }
        self.finish(&held, &done).await?;
        Ok(Step::Ran(held, done))
    }
}

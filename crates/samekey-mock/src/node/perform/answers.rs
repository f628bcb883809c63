//! The words for every verdict.

use super::Job;
use crate::answer::Answer;
use crate::business;
use crate::clock::http_date;
use crate::engine::Verdict;
use crate::ledger::Event;
use crate::naughty::Naughty;
use crate::node::Node;
use crate::node::limits::Left;
use crate::profile::Repeat;
use crate::reference;
use crate::routes::Kind;
use crate::settings::{InFlight, RetryAfter, Settings};
use crate::store::{Record, State, spellings};
use serde_json::{Value, json};
use std::sync::PoisonError;

const CREATE: &str = "create";
const LOOK_UP: &str = "look-up";

pub(super) fn unknown(path_is_known: bool) -> Answer {
    if path_is_known {
        return Answer::problem(405, "method", "Method not allowed", "Not with this method.");
    }
    Answer::problem(
        404,
        "not-found",
        "Not found",
        "There is nothing here; see / for the routes.",
    )
}

pub(super) fn malformed(why: &str) -> Answer {
    Answer::problem(
        400,
        "malformed",
        "The body cannot be read",
        &format!("{why}."),
    )
}

pub(super) fn too_old(why: &str) -> Answer {
    Answer::problem(400, "too-old", "The request is too old", why)
}

pub(super) fn handler_error() -> Answer {
    Answer::problem(
        500,
        "handler",
        "The handler failed",
        "Nothing was done; the key is free.",
    )
}

impl Node {
    /// Turns a verdict that does not run into an answer.
    pub(super) async fn say(&self, settings: &Settings, job: &Job, verdict: Verdict) -> Answer {
        let tenant = &job.action.slot.tenant;
        match verdict {
            Verdict::Run(_) => handler_error(),
            Verdict::Replay(record) => self.replay(settings, job, record).await,
            Verdict::InFlight(record) => {
                self.note(job.id, tenant, Event::InFlight);
                let answer = if settings.in_flight == InFlight::Poll {
                    Answer::json(
                        202,
                        &json!({ "status": "running", "token": record.slot.key }),
                    )
                    .header("location", &format!("/keys/{}", record.slot.key))
                } else {
                    settings.profile.in_flight()
                };
                self.dated(settings, self.come_back(settings, answer), &record)
            }
            Verdict::Mismatch(record) => {
                self.note(job.id, tenant, Event::Mismatch);
                let mut answer = settings.profile.mismatch();
                answer.status = settings.mismatch_status.unwrap_or(answer.status);
                self.dated(settings, answer, &record)
            }
            Verdict::Review(record) => {
                self.note(job.id, tenant, Event::Review);
                let detail = "Its worker did not come back after it had acted; a person must look.";
                let answer = Answer::problem(409, "review", "The key is under review", detail);
                self.dated(settings, answer, &record)
            }
            Verdict::Expired(status) => {
                self.note(job.id, tenant, Event::Expired);
                let detail = "The key was used before and its published time is over.";
                Answer::problem(status, "key-expired", "The key has expired", detail)
            }
            Verdict::Limited => {
                self.note(job.id, tenant, Event::Limited);
                self.limited(settings, job).await
            }
        }
    }

    async fn replay(&self, settings: &Settings, job: &Job, record: Record) -> Answer {
        if job.action.kind == Kind::Export && settings.naughty.has(Naughty::NewJobEachTime) {
            let (action, now) = (job.action.clone(), self.now());
            let again = self
                .writer
                .call(move |store| business::act(store, &action, now))
                .await;
            if let Ok(done) = again {
                self.note(job.id, &job.action.slot.tenant, Event::Effect);
                return done.answer;
            }
        }
        self.note(job.id, &job.action.slot.tenant, Event::Replayed);
        let stored = record.answer.clone().unwrap_or_else(handler_error);
        let created: Value = serde_json::from_str(&stored.body).unwrap_or_default();
        let id = created.get("id").and_then(Value::as_str).map(str::to_owned);
        let live = settings.naughty.has(Naughty::LiveAnswer);
        let answer = match (settings.profile.repeat(), id) {
            (Repeat::Conflict, Some(id)) => settings.profile.exists(&id),
            (Repeat::Current, Some(id)) => self.current(&record, &id, 200).await.unwrap_or(stored),
            (Repeat::Stored, Some(id)) if live => self
                .current(&record, &id, stored.status)
                .await
                .unwrap_or(stored),
            _ => stored,
        };
        let marked = match settings.profile.marker() {
            Some((name, value)) if !settings.naughty.has(Naughty::NoMarker) => {
                answer.header(name, value)
            }
            _ => answer,
        };
        let mut answer = self.dated(settings, marked, &record);
        if settings.replay_as_200 && (200..300).contains(&answer.status) {
            answer.status = 200;
        }
        answer
    }

    /// The present state of what a key created.
    async fn current(&self, record: &Record, id: &str, status: u16) -> Option<Answer> {
        let (id, tenant) = (id.to_owned(), record.slot.tenant.clone());
        let object = self
            .writer
            .call(move |store| store.object(&id))
            .await
            .ok()??;
        (object.0 == tenant).then(|| {
            Answer::new(status)
                .header("content-type", "application/json")
                .body(object.1)
        })
    }

    /// Says when the key will be forgotten.
    pub(super) fn dated(&self, settings: &Settings, answer: Answer, record: &Record) -> Answer {
        if !settings.profile.tells_expiry() || settings.naughty.has(Naughty::NoExpiryHeader) {
            return answer;
        }
        answer.header("idempotency-key-expires", &http_date(record.expires))
    }

    /// Says when to come back, in the form that the knob names.
    pub(super) fn come_back(&self, settings: &Settings, answer: Answer) -> Answer {
        if settings.naughty.has(Naughty::NoRetryAfter) {
            return answer;
        }
        match settings.retry_after {
            RetryAfter::Seconds => answer.header("retry-after", "1"),
            RetryAfter::HttpDate => answer.header("retry-after", &http_date(self.now() + 1999)),
            RetryAfter::Absent => answer,
        }
    }

    /// Takes one from the tenant's quota of new keys; false where none was left.
    pub(super) fn take_one(&self, tenant: &str) -> bool {
        let settings = self.settings();
        let Some(limit) = settings.rate_limit else {
            return true;
        };
        let now = self.now();
        let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        let left = limits.look(tenant, CREATE, limit, now);
        limits.take(tenant, CREATE, limit, now);
        left.left > 0 || settings.naughty.has(Naughty::NoLimits)
    }

    /// Returns what a try took that did not create a key.
    pub(super) fn give_back(&self, tenant: &str) {
        self.limits
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .give_back(tenant, CREATE);
    }

    async fn limited(&self, settings: &Settings, job: &Job) -> Answer {
        let tenant = &job.action.slot.tenant;
        let left = settings.rate_limit.map(|limit| {
            let limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
            limits.look(tenant, CREATE, limit, self.now())
        });
        let answer = too_many("This tenant has created too many keys.", left);
        if settings.naughty.has(Naughty::StoresRefusals) {
            let now = self.now();
            let record = Record {
                slot: job.claim.slot.clone(),
                fingerprint: job.claim.fingerprint.clone(),
                state: State::Done,
                locked_at: now,
                owner: 0,
                answer: Some(answer.clone()),
                created: now,
                completed: Some(now),
                expires: now + self.rules().ttl,
            };
            let _ = self.writer.call(move |store| store.put(&record)).await;
        }
        answer
    }

    /// The state of a tenant's own key, found by the key or by its reference.
    pub(super) async fn key_state(&self, tenant: &str, asked: &str) -> Answer {
        let settings = self.settings();
        if let Some(limit) = settings.lookup_limit {
            let now = self.now();
            let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
            let left = limits.look(tenant, LOOK_UP, limit, now);
            if left.left == 0 {
                return too_many("Too many look-ups.", Some(left));
            }
            limits.take(tenant, LOOK_UP, limit, now);
        }
        let open = settings.naughty.has(Naughty::OpenLookup);
        let scope = (!open).then(|| tenant.to_owned());
        match self.find_keys(scope, asked).await {
            Ok(found) if found.is_empty() => {
                Answer::problem(404, "not-found", "Not found", "No such key.")
            }
            Ok(found) => Answer::json(200, &json!({ "matches": found })),
            Err(_) => settings.profile.store_down(),
        }
    }

    /// Keys by key or reference, of one tenant or of all.
    pub(crate) async fn find_keys(
        &self,
        tenant: Option<String>,
        asked: &str,
    ) -> Result<Vec<Value>, crate::store::StoreError> {
        let digits = reference::digits(asked);
        let exact = asked.to_owned();
        let found = self.writer.call(move |store| {
            let tenant = tenant.as_deref();
            let mut found = store.with_prefix(tenant, std::slice::from_ref(&exact))?;
            found.retain(|record| record.slot.key == exact);
            if let Some(digits) = digits.filter(|_| found.is_empty()) {
                found = store.with_prefix(tenant, &spellings(&digits))?;
            }
            Ok(found)
        });
        let describe = |record: Record| {
            json!({
                "tenant": record.slot.tenant,
                "operation": record.slot.operation,
                "key": record.slot.key,
                "reference": reference::of_key(&record.slot.key),
                "state": record.state,
                "status": record.answer.as_ref().map(|answer| answer.status),
                "created": http_date(record.created),
                "completed": record.completed.map(http_date),
                "expires": http_date(record.expires),
            })
        };
        Ok(found.await?.into_iter().map(describe).collect())
    }
}

fn too_many(detail: &str, left: Option<Left>) -> Answer {
    let answer = Answer::problem(429, "quota-exceeded", "Too many requests", detail);
    let Some(Left {
        quota,
        window,
        left,
        reset,
    }) = left
    else {
        return answer.header("retry-after", "60");
    };
    answer
        .header("retry-after", &reset.to_string())
        .header("ratelimit", &format!("\"keys\";r={left};t={reset}"))
        .header(
            "ratelimit-policy",
            &format!("\"keys\";q={quota};w={window}"),
        )
}

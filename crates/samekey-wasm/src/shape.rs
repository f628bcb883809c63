//! Outcomes, errors and updates as plain objects.

use js_sys::{Array, Object, Promise, Reflect, Uint8Array};
use samekey::{Error, ErrorKind, Headers, Operation, Outcome, Phase, Update};
use std::pin::Pin;
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::future_to_promise;

pub(crate) fn set(object: &Object, name: &str, value: impl Into<JsValue>) {
    // A plain object takes every member.
    let _ = Reflect::set(object, &name.into(), &value.into());
}

pub(crate) fn get(object: &JsValue, name: &str) -> JsValue {
    Reflect::get(object, &name.into()).unwrap_or(JsValue::UNDEFINED)
}

/// What the bindings hand out.
pub(crate) type Answer = Result<JsValue, JsValue>;

/// A promise of `work`. Boxed, so that the page downloads the machinery of promises a single time.
pub(crate) fn promise(work: impl Future<Output = Answer> + 'static) -> Promise {
    let work: Pin<Box<dyn Future<Output = Answer>>> = Box::pin(work);
    future_to_promise(work)
}

/// Names of variants as Rust writes them, such as `Attention(WindowClosed)`; the package takes them
/// apart. A table of texts here would be downloaded by every page.
fn name(value: impl std::fmt::Debug) -> String {
    format!("{value:?}")
}

pub(crate) fn error(error: &Error) -> JsValue {
    let object = Object::new();
    set(&object, "kind", name(error.kind()));
    set(&object, "message", error.to_string());
    if let Some(reference) = error.reference() {
        set(&object, "reference", reference.to_string());
    }
    if let ErrorKind::Deferred(until) = error.kind() {
        set(&object, "until", until.as_millis() as f64);
    }
    set(&object, "attempts", error.attempts());
    set(&object, "unresolved", error.is_unresolved());
    set(&object, "nothingWasSent", error.nothing_was_sent());
    object.into()
}

fn lines(headers: &Headers) -> Array {
    let lines = headers
        .iter()
        .map(|(name, value)| Array::of2(&name.into(), &value.into()));
    lines.collect()
}

pub(crate) fn outcome(outcome: &Outcome) -> JsValue {
    let object = Object::new();
    set(&object, "state", outcome.phase().name());
    set(&object, "status", outcome.status());
    set(&object, "headers", lines(outcome.headers()));
    if let Some(body) = outcome.body() {
        set(&object, "body", Uint8Array::from(body));
    }
    set(&object, "provenance", outcome.provenance().to_string());
    set(&object, "attempts", outcome.attempts());
    set(
        &object,
        "answeredAt",
        outcome.answered_at().as_millis() as f64,
    );
    set(&object, "reference", outcome.reference().to_string());
    set(&object, "key", outcome.key().as_str());
    set(&object, "recorded", outcome.is_recorded());
    if let Some(note) = outcome.note() {
        set(&object, "note", note);
    }
    object.into()
}

pub(crate) fn update(update: &Update) -> JsValue {
    let object = Object::new();
    let state = match update {
        Update::Sending { attempt } => {
            set(&object, "attempt", *attempt);
            "sending"
        }
        Update::Waiting {
            attempt,
            wait,
            reason,
        } => {
            set(&object, "attempt", *attempt);
            set(&object, "wait", wait.as_millis() as f64);
            set(&object, "reason", &**reason);
            "waiting"
        }
        Update::Polling => "polling",
        Update::Joined => "joined",
        Update::Deferred { until } => {
            set(&object, "until", until.as_millis() as f64);
            "deferred"
        }
        Update::Settled(phase) => phase.name(),
        Update::Attention(reason) => {
            set(&object, "reason", name(reason));
            "attention"
        }
        _ => "unknown",
    };
    set(&object, "state", state);
    object.into()
}

/// What a handle knows, for a list.
pub(crate) fn summary(operation: &Operation) -> JsValue {
    let entry = operation.entry();
    let (frozen, progress) = (&entry.frozen, &entry.progress);
    let object = Object::new();
    set(&object, "reference", entry.reference().to_string());
    set(&object, "key", entry.key().as_str());
    set(&object, "intent", &*frozen.intent);
    set(&object, "url", &*frozen.url);
    set(&object, "method", frozen.method.as_str());
    set(&object, "state", progress.phase.name());
    if let Phase::Attention(reason) = progress.phase {
        set(&object, "reason", name(reason));
    }
    set(&object, "attempts", progress.attempts);
    set(&object, "begunAt", frozen.begun_at.as_millis() as f64);
    set(&object, "maybeApplied", progress.maybe_applied);
    set(&object, "unfinished", progress.phase.is_unfinished());
    set(&object, "grade", operation.grade().to_string());
    if let Some(until) = progress.not_before {
        set(&object, "until", until.as_millis() as f64);
    }
    if let Some(last) = progress.recent.last() {
        set(&object, "last", &*last.reason);
    }
    if let Some(damage) = operation.damage() {
        set(&object, "damage", damage.to_string());
    }
    object.into()
}

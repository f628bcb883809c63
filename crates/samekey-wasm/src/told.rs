//! Outcomes, errors and updates as plain objects, each made by one call across the border.

use samekey::{Error, ErrorKind, Headers, Operation, Outcome, Phase, Update};
use std::pin::Pin;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::future_to_promise;

#[wasm_bindgen(module = "/src/told.js")]
#[allow(
    clippy::too_many_arguments,
    reason = "one call instead of one for each member"
)]
extern "C" {
    #[wasm_bindgen(js_name = error)]
    fn make_error(
        kind: &str,
        reason: Option<&str>,
        message: &str,
        reference: Option<&str>,
        until: Option<f64>,
        attempts: u32,
        unresolved: bool,
        nothing_was_sent: bool,
    ) -> JsValue;
    #[wasm_bindgen(js_name = outcome)]
    fn make_outcome(
        state: &str,
        status: u16,
        lines: &str,
        body: Option<&[u8]>,
        provenance: &str,
        attempts: u32,
        answered_at: f64,
        reference: &str,
        key: &str,
        recorded: bool,
        note: Option<&str>,
    ) -> JsValue;
    #[wasm_bindgen(js_name = update)]
    fn make_update(
        state: &str,
        attempt: Option<u32>,
        wait: Option<f64>,
        reason: Option<&str>,
        until: Option<f64>,
    ) -> JsValue;
    #[wasm_bindgen(js_name = summary)]
    fn make_summary(
        reference: &str,
        key: &str,
        intent: &str,
        url: &str,
        method: &str,
        state: &str,
        reason: Option<&str>,
        attempts: u32,
        begun_at: f64,
        maybe_applied: bool,
        unfinished: bool,
        grade: &str,
        until: Option<f64>,
        last: Option<&str>,
        damage: Option<&str>,
    ) -> JsValue;
}

/// What the bindings hand out.
pub(crate) type Answer = Result<JsValue, JsValue>;

/// Work behind a promise. Boxed, so that the page downloads the machinery of promises a single time.
pub(crate) type Work = Pin<Box<dyn Future<Output = Answer>>>;

pub(crate) fn promise(work: Work) -> js_sys::Promise {
    future_to_promise(work)
}

/// A mistake in the options themselves.
pub(crate) fn mistake(message: &str) -> JsValue {
    make_error(
        "invalid-configuration",
        None,
        message,
        None,
        None,
        0,
        false,
        true,
    )
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` wants it")]
pub(crate) fn error(error: Error) -> JsValue {
    let (mut reason, mut until) = (None, None);
    let kind = match error.kind() {
        ErrorKind::InvalidRequest => "invalid-request",
        ErrorKind::InvalidConfiguration => "invalid-configuration",
        ErrorKind::Journal(kind) => {
            reason = Some(kind.name());
            "journal"
        }
        ErrorKind::FingerprintMismatch => "fingerprint-mismatch",
        ErrorKind::Tombstone => "tombstone",
        ErrorKind::Attention(why) => {
            reason = Some(why.name());
            "attention"
        }
        ErrorKind::Deferred(time) => {
            until = Some(time.as_millis() as f64);
            "deferred"
        }
        ErrorKind::NotApplied => "not-applied",
        ErrorKind::HeldElsewhere => "held-elsewhere",
        ErrorKind::BodyNeeded => "body-needed",
        ErrorKind::BodyMismatch => "body-mismatch",
        ErrorKind::OtherScope => "other-scope",
        ErrorKind::OriginNotAllowed => "origin-not-allowed",
        ErrorKind::NotFound => "not-found",
        ErrorKind::Ambiguous => "ambiguous",
        ErrorKind::Ended(phase) => {
            reason = Some(phase.name());
            "ended"
        }
        ErrorKind::Damaged => "damaged",
        ErrorKind::PreviousUnresolved => "previous-unresolved",
        _ => "locked",
    };
    let reference = error.reference().map(|reference| reference.to_string());
    make_error(
        kind,
        reason,
        &error.to_string(),
        reference.as_deref(),
        until,
        error.attempts(),
        error.is_unresolved(),
        error.nothing_was_sent(),
    )
}

fn lines(headers: &Headers) -> String {
    let mut lines = String::new();
    for (name, value) in headers.iter() {
        for part in [name, "\n", value, "\n"] {
            lines.push_str(part);
        }
    }
    lines
}

pub(crate) fn outcome(outcome: &Outcome) -> JsValue {
    make_outcome(
        outcome.phase().name(),
        outcome.status(),
        &lines(outcome.headers()),
        outcome.body(),
        outcome.provenance().name(),
        outcome.attempts(),
        outcome.answered_at().as_millis() as f64,
        &outcome.reference().to_string(),
        outcome.key().as_str(),
        outcome.is_recorded(),
        outcome.note(),
    )
}

pub(crate) fn update(update: &Update) -> JsValue {
    let (mut attempted, mut waits, mut why, mut when) = (None, None, None, None);
    let state = match update {
        Update::Sending { attempt } => {
            attempted = Some(*attempt);
            "sending"
        }
        Update::Waiting {
            attempt,
            wait,
            reason,
        } => {
            attempted = Some(*attempt);
            waits = Some(wait.as_millis() as f64);
            why = Some(&**reason);
            "waiting"
        }
        Update::Polling => "polling",
        Update::Joined => "joined",
        Update::Deferred { until } => {
            when = Some(until.as_millis() as f64);
            "deferred"
        }
        Update::Settled(phase) => phase.name(),
        Update::Attention(reason) => {
            why = Some(reason.name());
            "attention"
        }
        _ => "unknown",
    };
    make_update(state, attempted, waits, why, when)
}

/// What a handle knows, for a list.
pub(crate) fn summary(operation: &Operation) -> JsValue {
    let entry = operation.entry();
    let (frozen, progress) = (&entry.frozen, &entry.progress);
    let reason = match progress.phase {
        Phase::Attention(reason) => Some(reason.name()),
        _ => None,
    };
    make_summary(
        &entry.reference().to_string(),
        entry.key().as_str(),
        &frozen.intent,
        &frozen.url,
        frozen.method.as_str(),
        progress.phase.name(),
        reason,
        progress.attempts,
        frozen.begun_at.as_millis() as f64,
        progress.maybe_applied,
        progress.phase.is_unfinished(),
        operation.grade().name(),
        progress.not_before.map(|until| until.as_millis() as f64),
        progress.recent.last().map(|last| &*last.reason),
        operation
            .damage()
            .map(|damage| damage.to_string())
            .as_deref(),
    )
}

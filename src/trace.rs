//! Spans and events. A key appears in them only as its reference.

#[cfg(not(feature = "tracing"))]
pub(crate) use off::*;
#[cfg(feature = "tracing")]
pub(crate) use on::*;

#[cfg(feature = "tracing")]
mod on {
    use crate::entry::{Entry, Progress};
    use crate::key::Key;
    use crate::message::{Failure, Response};
    use std::future::Future;
    use std::time::Duration;
    use tracing::Instrument;

    pub(crate) fn begun(entry: &Entry) {
        let frozen = &entry.frozen;
        tracing::debug!(reference = %entry.reference(), intent = %frozen.intent,
            method = %frozen.method, "begun");
    }

    pub(crate) fn claimed(entry: &Entry, orphan: bool) {
        tracing::info!(reference = %entry.reference(), orphan, epoch = entry.progress.epoch,
            crashes = entry.progress.crashes, "resuming");
    }

    /// No `async fn`: that would keep room for `work` twice.
    pub(crate) fn within<F: Future>(
        key: &Key,
        work: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        work.instrument(tracing::info_span!("operation", reference = %key.reference()))
    }

    /// A request under way; a mere question has no number, and no span.
    pub(crate) async fn attempt(
        number: Option<u32>,
        work: impl Future<Output = Result<Response, Failure>>,
    ) -> Result<Response, Failure> {
        let Some(number) = number else {
            return work.await;
        };
        let span = tracing::info_span!("attempt", number, status = tracing::field::Empty);
        let result = work.instrument(span.clone()).await;
        match &result {
            Ok(response) => drop(span.record("status", response.status)),
            Err(failure) => {
                span.in_scope(
                    || tracing::debug!(kind = ?failure.kind, sent = ?failure.sent, "no answer"),
                );
            }
        }
        result
    }

    pub(crate) fn waiting(attempt: u32, wait: Duration, reason: &str) {
        tracing::info!(attempt, ?wait, reason, "waiting");
    }

    pub(crate) fn finished(key: &Key, progress: &Progress) {
        tracing::info!(reference = %key.reference(), phase = %progress.phase,
            attempts = progress.attempts, "finished");
    }
}

#[cfg(not(feature = "tracing"))]
mod off {
    use crate::entry::{Entry, Progress};
    use crate::key::Key;
    use crate::message::{Failure, Response};
    use std::future::Future;
    use std::time::Duration;

    pub(crate) fn begun(_: &Entry) {}
    pub(crate) fn claimed(_: &Entry, _: bool) {}
    pub(crate) fn within<F: Future>(_: &Key, work: F) -> impl Future<Output = F::Output> + use<F> {
        work
    }
    pub(crate) async fn attempt(
        _: Option<u32>,
        work: impl Future<Output = Result<Response, Failure>>,
    ) -> Result<Response, Failure> {
        work.await
    }
    pub(crate) fn waiting(_: u32, _: Duration, _: &str) {}
    pub(crate) fn finished(_: &Key, _: &Progress) {}
}

//! What is known about one attempt, from inside the HTTP stack.
//!
//! reqwest's errors do not say whether a request ever met a connection. Two witnesses do: the
//! connector, which is called only when no pooled connection was there, and the body, which is
//! asked for its framing before the first byte of the request is written.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// No connection has asked for the request yet.
const QUEUED: u8 = 0;
/// A connection has asked how the body is framed, and may write the head at any time.
const TAKEN: u8 = 1;
/// It has the body too.
const HANDED: u8 = 2;
/// Given up while queued: a connection that asks now gets nothing.
const REVOKED: u8 = 3;
/// Given up after the head was taken: the body will not follow.
const ABANDONED: u8 = 4;
/// A connection asked after the window's end and got nothing.
const LATE: u8 = 5;
/// A connection had taken the head in time, and asked for the body after the window's end.
const LATE_BODY: u8 = 6;

/// One attempt's trace.
#[derive(Debug, Default)]
pub(super) struct Trace {
    stage: AtomicU8,
    dialled: AtomicBool,
    connected: AtomicBool,
}

impl Trace {
    /// A connection asks for the framing. Whether it may have the request.
    pub(super) fn take(&self) -> bool {
        self.shift(|stage| (stage == QUEUED).then_some(TAKEN));
        matches!(self.stage(), TAKEN | HANDED)
    }

    /// A connection asks for the body. Whether it may have it.
    pub(super) fn hand_over(&self) -> bool {
        self.shift(|stage| matches!(stage, QUEUED | TAKEN).then_some(HANDED));
        self.stage() == HANDED
    }

    /// Gives the attempt up; whatever has not left yet stays. Whether no connection had any of it:
    /// this decides the race between a timeout and a connection that becomes free just then.
    pub(super) fn revoke(&self) -> bool {
        self.shift(|stage| match stage {
            QUEUED => Some(REVOKED),
            TAKEN => Some(ABANDONED),
            _ => None,
        });
        self.stage() == REVOKED
    }

    /// The window has closed: no connection gets the body from here on.
    pub(super) fn close_window(&self) {
        self.shift(|stage| match stage {
            QUEUED => Some(LATE),
            TAKEN => Some(LATE_BODY),
            _ => None,
        });
    }

    fn shift(&self, step: impl Fn(u8) -> Option<u8>) {
        let _ = self
            .stage
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, step);
    }

    fn stage(&self) -> u8 {
        self.stage.load(Ordering::Acquire)
    }

    /// Whether it was withheld from every connection.
    pub(super) fn is_withheld(&self) -> bool {
        matches!(self.stage(), REVOKED | LATE)
    }

    /// Whether the window's end stopped the head as well as the body.
    pub(super) fn late_before_head(&self) -> bool {
        self.stage() == LATE
    }

    /// Whether a connection was dialled for this attempt and is not there yet.
    pub(super) fn is_dialling(&self) -> bool {
        self.dialled.load(Ordering::Acquire) && !self.connected.load(Ordering::Acquire)
    }

    /// Whether the attempt can only have used a connection out of the pool.
    pub(super) fn is_pooled(&self) -> bool {
        !self.dialled.load(Ordering::Acquire)
    }
}

tokio::task_local! {
    static CURRENT: Arc<Trace>;
}

/// Runs an attempt under its trace.
pub(super) fn watch<F: Future>(trace: Arc<Trace>, attempt: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(trace, attempt)
}

/// Gives the attempt up when dropped: an attempt whose caller is gone must not be sent later, when
/// a stream becomes free.
pub(super) struct Leash<'a>(pub(super) &'a Trace);

impl Drop for Leash<'_> {
    fn drop(&mut self) {
        self.0.revoke();
    }
}

/// Notes in the current trace when a connection is dialled and when it is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch;

impl<S> Layer<S> for Watch {
    type Service = Watched<S>;

    fn layer(&self, inner: S) -> Watched<S> {
        Watched(inner)
    }
}

/// A connector under [`Watch`].
#[derive(Clone, Debug)]
pub(super) struct Watched<S>(S);

type Dialling<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

impl<S, D> Service<D> for Watched<S>
where
    S: Service<D>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Dialling<S::Response, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, to: D) -> Self::Future {
        let trace = CURRENT.try_with(Arc::clone).ok();
        if let Some(trace) = &trace {
            trace.dialled.store(true, Ordering::Release);
        }
        let dialling = self.0.call(to);
        Box::pin(async move {
            let connection = dialling.await?;
            if let Some(trace) = &trace {
                trace.connected.store(true, Ordering::Release);
            }
            Ok(connection)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t03_what_was_given_up_while_queued_is_never_taken() {
        let trace = Trace::default();
        assert!(trace.revoke() && trace.revoke());
        assert!(!trace.take() && !trace.hand_over() && trace.is_withheld());
    }

    #[test]
    fn t12_what_was_taken_is_not_claimed_back_but_its_body_stays() {
        let trace = Trace::default();
        assert!(trace.take() && trace.take());
        assert!(!trace.revoke());
        assert!(!trace.hand_over() && !trace.is_withheld());
        let trace = Trace::default();
        assert!(trace.take() && trace.hand_over());
        assert!(!trace.revoke(), "it has left");
    }

    #[test]
    fn a_closed_window_knows_what_had_left() {
        let trace = Trace::default();
        trace.close_window();
        assert!(trace.late_before_head() && !trace.take());
        let trace = Trace::default();
        assert!(trace.take());
        trace.close_window();
        assert!(!trace.late_before_head() && !trace.hand_over());
    }
}

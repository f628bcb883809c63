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
/// A connection has taken it and may write at any time.
const TAKEN: u8 = 1;
/// It was given up while queued; a connection that asks now gets nothing.
const REVOKED: u8 = 2;
/// A connection asked after the window's end and got nothing.
const LATE: u8 = 3;
/// A connection had taken the head in time, and asked for the body after the window's end.
const LATE_BODY: u8 = 4;

/// One attempt's trace.
#[derive(Debug, Default)]
pub(super) struct Trace {
    stage: AtomicU8,
    dialled: AtomicBool,
    connected: AtomicBool,
}

impl Trace {
    /// A connection wants the request. Whether it may have it.
    pub(super) fn take(&self) -> bool {
        let taken = self
            .stage
            .compare_exchange(QUEUED, TAKEN, Ordering::AcqRel, Ordering::Acquire);
        matches!(taken, Ok(_) | Err(TAKEN))
    }

    /// Gives the request up. Whether no connection had it, and none will: this decides the race
    /// between a timeout and a connection that becomes free at the same moment.
    pub(super) fn revoke(&self) -> bool {
        let revoked =
            self.stage
                .compare_exchange(QUEUED, REVOKED, Ordering::AcqRel, Ordering::Acquire);
        matches!(revoked, Ok(_) | Err(REVOKED))
    }

    /// The window has closed: no connection gets the body from here on.
    pub(super) fn close_window(&self) {
        let late = |stage| match stage {
            QUEUED => Some(LATE),
            TAKEN => Some(LATE_BODY),
            _ => None,
        };
        let _ = self
            .stage
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, late);
    }

    /// Whether it was withheld from every connection.
    pub(super) fn is_withheld(&self) -> bool {
        matches!(self.stage.load(Ordering::Acquire), REVOKED | LATE)
    }

    /// Whether the window's end stopped the head as well as the body.
    pub(super) fn late_before_head(&self) -> bool {
        self.stage.load(Ordering::Acquire) == LATE
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

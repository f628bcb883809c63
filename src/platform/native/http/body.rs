//! The body of a request, which lets itself be sent only while the window is open.

use super::trace::{Connections, Trace};
use crate::clock::Clock;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Why the body withheld itself.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(super) enum Withheld {
    /// The server may have forgotten the key.
    #[error("the window closed before the body was sent")]
    Late,
    /// The attempt had been given up.
    #[error("the attempt was given up before the body was sent")]
    Revoked,
}

/// The exact bytes, without a copy.
///
/// It never says that it is at its end before it was polled, not even when it is empty: a
/// connection that wants to send it must ask here first.
pub(super) struct GuardedBody {
    bytes: Bytes,
    done: bool,
    trace: Arc<Trace>,
    guard: Arc<Guard>,
    not_after: Duration,
}

/// What the bodies of a transport ask.
pub(super) struct Guard {
    pub(super) connections: Connections,
    pub(super) clock: Arc<dyn Clock>,
}

impl GuardedBody {
    pub(super) fn new(
        bytes: &Arc<[u8]>,
        trace: Arc<Trace>,
        guard: Arc<Guard>,
        not_after: Duration,
    ) -> GuardedBody {
        GuardedBody {
            bytes: Bytes::from_owner(Arc::clone(bytes)),
            done: false,
            trace,
            guard,
            not_after,
        }
    }

    pub(super) fn is_late(&self) -> bool {
        self.guard.clock.monotonic() > self.not_after
    }

    fn ask(&self, grant: impl Fn(&Trace) -> bool) -> Result<(), Withheld> {
        if self.is_late() {
            self.trace.close_window();
            Err(Withheld::Late)
        } else if grant(&self.trace) {
            Ok(())
        } else {
            Err(Withheld::Revoked)
        }
    }
}

impl Body for GuardedBody {
    type Data = Bytes;
    type Error = Withheld;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Withheld>>> {
        if self.done {
            return Poll::Ready(None);
        }
        self.done = true;
        Poll::Ready(match self.ask(Trace::hand_over) {
            Err(withheld) => Some(Err(withheld)),
            Ok(()) if self.bytes.is_empty() => None,
            Ok(()) => Some(Ok(Frame::data(std::mem::take(&mut self.bytes)))),
        })
    }

    fn is_end_stream(&self) -> bool {
        // Asked by a connection that is about to write the head: from here on it may be sent.
        if !self.done {
            let _ = self.ask(|trace| trace.take(&self.guard.connections));
        }
        self.done
    }

    fn size_hint(&self) -> SizeHint {
        let length = self.bytes.len() as u64;
        // Withheld: announce a byte that never comes, so that even an empty request stays incomplete.
        let withheld = length == 0 && !self.done && self.trace.is_withheld();
        SizeHint::with_exact(if withheld { 1 } else { length })
    }
}

/// What a request carries.
pub(super) enum Outgoing {
    Action(GuardedBody),
    /// A question has no body, and is asked at any time.
    Question,
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Withheld;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Withheld>>> {
        match &mut *self {
            Outgoing::Action(body) => Pin::new(body).poll_frame(context),
            Outgoing::Question => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Outgoing::Action(body) => body.is_end_stream(),
            Outgoing::Question => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outgoing::Action(body) => body.size_hint(),
            Outgoing::Question => SizeHint::with_exact(0),
        }
    }
}

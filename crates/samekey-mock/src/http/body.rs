//! Bodies that come at once, byte by byte, or without end.

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Sleep;

/// The body of an answer.
#[derive(Debug)]
pub(super) enum Body {
    /// At once.
    Whole(Bytes),
    /// A byte, a pause, a byte.
    Slow {
        rest: Bytes,
        pause: Duration,
        sleep: Pin<Box<Sleep>>,
    },
    /// For as long as somebody reads.
    Endless,
}

impl Body {
    /// The same body, dripping.
    pub(super) fn slowly(self, pause: Duration) -> Self {
        let rest = match self {
            Self::Whole(bytes) | Self::Slow { rest: bytes, .. } => bytes,
            Self::Endless => return self,
        };
        Self::Slow {
            rest,
            pause,
            sleep: Box::pin(tokio::time::sleep(pause)),
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut *self {
            Self::Whole(bytes) => std::mem::take(bytes),
            Self::Endless => Bytes::from_static(&[b' '; 1024]),
            Self::Slow { rest, .. } if rest.is_empty() => Bytes::new(),
            Self::Slow { rest, pause, sleep } => {
                if sleep.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                sleep.set(tokio::time::sleep(*pause));
                rest.split_to(1)
            }
        };
        Poll::Ready((!next.is_empty()).then(|| Ok(Frame::data(next))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(rest) | Self::Slow { rest, .. } if rest.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(rest) | Self::Slow { rest, .. } => SizeHint::with_exact(rest.len() as u64),
            Self::Endless => SizeHint::default(),
        }
    }
}

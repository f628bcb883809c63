//! A connection whose sending side can be cut, reset or replaced at an exact byte.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// How a cut connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Close,
    Reset,
}

/// What is to happen to the next answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cut {
    /// So many bytes from its very beginning get through.
    Head(usize, End),
    /// Its head and so many bytes of its body get through.
    Body(usize, End),
    /// These bytes are sent ahead of it.
    Ahead(Vec<u8>),
    /// These bytes are sent in its place.
    Instead(Vec<u8>, End),
}

/// The handle through which a handler orders a cut on its own connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Scissors(Arc<Mutex<Option<Cut>>>);

impl Scissors {
    pub(super) fn order(&self, cut: Cut) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(cut);
    }
}

/// A TCP connection under scissors.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    scissors: Scissors,
}

impl Wire {
    pub(super) fn new(stream: TcpStream) -> (Self, Scissors) {
        let scissors = Scissors::default();
        (
            Self {
                stream,
                scissors: scissors.clone(),
            },
            scissors,
        )
    }

    fn end(&self, end: End) -> Poll<io::Result<usize>> {
        match end {
            End::Close => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            End::Reset => {
                // With a linger of zero the kernel sends a reset instead of a goodbye.
                self.stream.set_zero_linger()?;
                Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
            }
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let scissors = self.scissors.clone();
        let mut order = scissors.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *order {
            None => Pin::new(&mut self.stream).poll_write(cx, bytes),
            Some(Cut::Head(0, end)) => self.end(*end),
            Some(Cut::Head(left, _)) => {
                let some = &bytes[..bytes.len().min(*left)];
                let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, some))?;
                *left -= sent;
                Poll::Ready(Ok(sent))
            }
            Some(Cut::Body(n, end)) => {
                // The head is small and comes in one piece with the start of the body.
                let head = bytes.windows(4).position(|w| w == b"\r\n\r\n");
                *order = Some(Cut::Head(head.map_or(*n, |at| at + 4 + *n), *end));
                drop(order);
                self.poll_write(cx, bytes)
            }
            Some(Cut::Ahead(ahead)) => {
                while !ahead.is_empty() {
                    let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, ahead))?;
                    ahead.drain(..sent);
                }
                *order = None;
                drop(order);
                self.poll_write(cx, bytes)
            }
            Some(Cut::Instead(instead, end)) => {
                while !instead.is_empty() {
                    let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, instead))?;
                    instead.drain(..sent);
                }
                self.end(*end)
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

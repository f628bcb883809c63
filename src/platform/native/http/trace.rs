//! What is known about one attempt, from inside the HTTP stack.
//!
//! hyper's errors do not say whether a request ever met a connection. The body does: it is asked for
//! its framing before the first byte of the request is written, and by the connection itself, which is
//! a task of its own. A task that asked before has served a request before.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::task::Id;

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
    pooled: AtomicBool,
}

impl Trace {
    /// The trace of a question. It has no body that a connection would ask for: where there are
    /// connections, it will use one of them.
    pub(super) fn of_question(connections: &Connections) -> Trace {
        Trace {
            pooled: AtomicBool::new(connections.were_there()),
            ..Trace::default()
        }
    }

    /// The connection that runs this asks for the framing. Whether it may have the request.
    pub(super) fn take(&self, connections: &Connections) -> bool {
        if self.stage() == QUEUED {
            let known = connections.meet(tokio::task::try_id());
            self.pooled.store(known, Ordering::Release);
        }
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

    /// Whether the connection that took it had been used before.
    pub(super) fn is_pooled(&self) -> bool {
        self.pooled.load(Ordering::Acquire)
    }
}

/// More connections than anyone keeps open.
const MOST: usize = 8 * 1024;

/// The connections that took a request.
#[derive(Debug, Default)]
pub(super) struct Connections(Mutex<HashSet<Id>>);

impl Connections {
    /// Notes a connection. Whether it took a request before; not, if that was forgotten meanwhile.
    fn meet(&self, connection: Option<Id>) -> bool {
        let Some(connection) = connection else {
            return false;
        };
        let mut met = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if met.len() >= MOST && !met.contains(&connection) {
            met.clear();
        }
        !met.insert(connection)
    }

    /// Whether there was any.
    pub(super) fn were_there(&self) -> bool {
        let met = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        !met.is_empty()
    }
}

/// Gives the attempt up when dropped: an attempt whose caller is gone must not be sent later, when
/// a stream becomes free.
pub(super) struct Leash<'a>(pub(super) &'a Trace);

impl Drop for Leash<'_> {
    fn drop(&mut self) {
        self.0.revoke();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t03_what_was_given_up_while_queued_is_never_taken() {
        let (trace, met) = (Trace::default(), Connections::default());
        assert!(trace.revoke() && trace.revoke());
        assert!(!trace.take(&met) && !trace.hand_over() && trace.is_withheld());
    }

    #[test]
    fn t12_what_was_taken_is_not_claimed_back_but_its_body_stays() {
        let (trace, met) = (Trace::default(), Connections::default());
        assert!(trace.take(&met) && trace.take(&met));
        assert!(!trace.revoke());
        assert!(!trace.hand_over() && !trace.is_withheld());
        let trace = Trace::default();
        assert!(trace.take(&met) && trace.hand_over());
        assert!(!trace.revoke(), "it has left");
    }

    #[test]
    fn a_closed_window_knows_what_had_left() {
        let (trace, met) = (Trace::default(), Connections::default());
        trace.close_window();
        assert!(trace.late_before_head() && !trace.take(&met));
        let trace = Trace::default();
        assert!(trace.take(&met));
        trace.close_window();
        assert!(!trace.late_before_head() && !trace.hand_over());
    }

    #[tokio::test]
    async fn a_connection_is_pooled_from_its_second_request_on() {
        let met = std::sync::Arc::new(Connections::default());
        assert!(!met.were_there());
        for _ in 0..3 {
            let met = std::sync::Arc::clone(&met);
            let connection = tokio::spawn(async move {
                [0; 3].map(|_| {
                    let trace = Trace::default();
                    assert!(trace.take(&met) && trace.take(&met));
                    trace.is_pooled()
                })
            });
            assert_eq!(connection.await.unwrap(), [false, true, true]);
        }
        assert!(met.were_there());
    }
}

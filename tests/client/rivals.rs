//! Two who want different things of one operation at the same moment.

use super::support::{World, pay, run};
use samekey::machine::{Permit, Probe};
use samekey::seam::BoxFuture;
use samekey::transport::Transport;
use samekey::{Client, Failure, Headers, Parts, Phase, Reason, Response};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// Answers 201, but only once it is let.
#[derive(Clone, Default)]
struct Gate {
    sent: Arc<AtomicUsize>,
    open: Arc<AtomicBool>,
}

impl Transport for Gate {
    fn send(&self, _: Permit) -> BoxFuture<'_, Result<Response, Failure>> {
        self.sent.fetch_add(1, Ordering::SeqCst);
        Box::pin(poll_fn(|_| match self.open.load(Ordering::SeqCst) {
            true => Poll::Ready(Ok(Response::new(201, Headers::new(), "paid"))),
            false => Poll::Pending,
        }))
    }

    fn probe(&self, _: Probe) -> BoxFuture<'_, Result<Response, Failure>> {
        unreachable!("nothing is polled here")
    }
}

fn gated(parts: &Parts) -> (Client, Gate) {
    let gate = Gate::default();
    let parts = Parts {
        transport: Arc::new(gate.clone()),
        ..parts.clone()
    };
    (Client::with_parts("shop", parts).build().unwrap(), gate)
}

fn poll_once<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn t12_a_cancel_while_the_request_is_out_never_says_that_nothing_happened() {
    let world = World::new();
    let (client, gate) = gated(&world.parts());
    let operation = run(pay(&client, "a").begin()).unwrap();
    let mut send = pin!(operation.send());
    assert!(poll_once(send.as_mut()).is_pending());
    assert_eq!(gate.sent.load(Ordering::SeqCst), 1);
    assert_eq!(
        run(operation.cancel()).unwrap(),
        Phase::Attention(Reason::Cancelled)
    );
    gate.open.store(true, Ordering::SeqCst);
    let outcome = run(send).unwrap();
    assert!(outcome.is_success(), "the server's word is told");
}

#[test]
fn a_cancel_before_the_request_leaves_abandons_it_and_nothing_is_sent_afterwards() {
    let world = World::new();
    let (client, gate) = gated(&world.parts());
    let operation = run(pay(&client, "a").begin()).unwrap();
    assert_eq!(run(operation.cancel()).unwrap(), Phase::Abandoned);
    assert!(run(operation.send()).unwrap_err().nothing_was_sent());
    assert_eq!(gate.sent.load(Ordering::SeqCst), 0);
}

#[test]
fn i05_two_clients_of_one_journal_handle_do_not_send_at_the_same_time() {
    let world = World::new();
    let parts = world.parts();
    let (first, gate) = gated(&parts);
    let (second, other) = gated(&parts);
    let one = run(pay(&first, "a").begin()).unwrap();
    let two = run(pay(&second, "a").begin()).unwrap();
    let mut sending = pin!(one.send());
    let mut joining = pin!(two.send());
    assert!(poll_once(sending.as_mut()).is_pending());
    for _ in 0..10 {
        assert!(poll_once(joining.as_mut()).is_pending());
    }
    assert_eq!(
        other.sent.load(Ordering::SeqCst),
        0,
        "the second waits for the first"
    );
    gate.open.store(true, Ordering::SeqCst);
    assert!(run(sending).unwrap().is_success());
    assert!(run(joining).unwrap().is_success());
    assert_eq!(
        gate.sent.load(Ordering::SeqCst) + other.sent.load(Ordering::SeqCst),
        1
    );
}

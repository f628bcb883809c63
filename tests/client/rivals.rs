//! Two who want different things of one operation at the same moment.

use super::support::{Hooked, World, lost, pay, run};
use samekey::journal::Journal;
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

/// A client whose next write gets stuck once the switch is set.
fn sticky(world: &World) -> (Client, Arc<AtomicBool>, samekey::entry::Owner) {
    let journal = Hooked::new(world.memory.reopen(), |_| Ok(()));
    let (stuck, owner) = (Arc::clone(&journal.stuck), journal.owner());
    let parts = world.parts_on(journal);
    (
        Client::with_parts("shop", parts).build().unwrap(),
        stuck,
        owner,
    )
}

/// Takes over the only operation and is sending it; the claim must outlive what `rival` leaves behind.
fn taken_over_while(world: &World, rival: impl FnOnce()) {
    let parts = world.parts();
    let me = parts.journal.owner();
    let (taker, gate) = gated(&parts);
    let operation = run(taker.unfinished()).unwrap().remove(0);
    let mut send = pin!(operation.resume());
    assert!(poll_once(send.as_mut()).is_pending());
    assert_eq!(gate.sent.load(Ordering::SeqCst), 1);
    let claimed = world.entries().remove(0);
    assert_eq!(claimed.progress.owner, me);
    rival();
    assert_eq!(world.entries().remove(0), claimed, "the claim stands");
    gate.open.store(true, Ordering::SeqCst);
    assert!(run(send).unwrap().is_success());
}

#[test]
fn i05_a_driver_dropped_with_a_write_under_way_leaves_its_successors_claim_alone() {
    let world = World::new();
    let (client, stuck, owner) = sticky(&world);
    let operation = run(pay(&client, "a").begin()).unwrap();
    world.server.fail(lost());
    stuck.store(true, Ordering::Relaxed);
    let mut send = Box::pin(operation.send());
    assert!(poll_once(send.as_mut()).is_pending(), "its note is stuck");
    assert_eq!(world.sent(), 1);
    // It looks frozen, and another claims the revision that it was about to write.
    world.memory.silence(owner);
    taken_over_while(&world, || drop(send));
}

#[test]
fn i05_a_claimer_dropped_with_its_claim_under_way_leaves_the_winners_claim_alone() {
    let world = World::new();
    let (client, stuck, _) = sticky(&world);
    {
        let first = world.client();
        let operation = run(pay(&first, "a").begin()).unwrap();
        world.memory.kill(world.entries()[0].progress.owner);
        std::mem::forget(operation);
    }
    let operation = run(client.unfinished()).unwrap().remove(0);
    stuck.store(true, Ordering::Relaxed);
    let mut resume = Box::pin(operation.resume());
    assert!(
        poll_once(resume.as_mut()).is_pending(),
        "its claim is stuck"
    );
    taken_over_while(&world, || drop(resume));
}

#[test]
fn i05_twin_what_a_dropped_driver_still_holds_is_let_go() {
    let world = World::new();
    let (client, gate) = gated(&world.parts());
    let operation = run(pay(&client, "a").begin()).unwrap();
    let mut send = Box::pin(operation.send());
    assert!(poll_once(send.as_mut()).is_pending());
    assert_eq!(gate.sent.load(Ordering::SeqCst), 1);
    drop(send);
    assert_eq!(
        world.entries().remove(0).progress.owner,
        samekey::entry::Owner::NONE
    );
}

/// Another process takes up what the first has left, although that one lives.
fn anyone_can_finish(world: &World) {
    assert_eq!(
        world.entries()[0].progress.owner,
        samekey::entry::Owner::NONE
    );
    let other = world.client();
    let left = run(other.unfinished()).unwrap().remove(0);
    assert!(run(left.resume()).unwrap().is_success());
    assert_eq!(world.keys().len(), 1);
}

fn lying(world: &World) -> (Client, Arc<AtomicBool>) {
    let journal = Hooked::new(world.memory.reopen(), |_| Ok(()));
    let lies = Arc::clone(&journal.lies);
    let parts = world.parts_on(journal);
    (Client::with_parts("shop", parts).build().unwrap(), lies)
}

#[test]
fn a_begin_that_took_hold_although_it_is_said_to_have_failed_is_let_go() {
    let world = World::new();
    let (client, lies) = lying(&world);
    lies.store(true, Ordering::Relaxed);
    assert!(run(pay(&client, "a").begin()).is_err());
    anyone_can_finish(&world);
}

#[test]
fn a_note_that_took_hold_although_it_is_said_to_have_failed_is_let_go() {
    let world = World::new();
    let (client, lies) = lying(&world);
    let operation = run(pay(&client, "a").begin()).unwrap();
    world.server.fail(lost());
    lies.store(true, Ordering::Relaxed);
    assert!(run(operation.send()).unwrap_err().is_unresolved());
    anyone_can_finish(&world);
}

#[test]
fn a_claim_that_took_hold_although_it_is_said_to_have_failed_is_let_go() {
    let world = World::new();
    let (client, lies) = lying(&world);
    drop(run(pay(&client, "a").begin()).unwrap());
    let operation = run(client.unfinished()).unwrap().remove(0);
    lies.store(true, Ordering::Relaxed);
    assert!(run(operation.resume()).is_err());
    anyone_can_finish(&world);
}

#[test]
fn an_end_that_is_said_to_have_failed_and_did_is_let_go_and_learnt_again() {
    let world = World::new();
    let refuse = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&refuse);
    let hook = move |call: super::support::Call<'_>| match call {
        super::support::Call::Record(_) if switch.swap(false, Ordering::Relaxed) => {
            Err(samekey::journal::JournalErrorKind::Full)
        }
        _ => Ok(()),
    };
    let parts = world.parts_on(Hooked::new(world.memory.reopen(), hook));
    let client = Client::with_parts("shop", parts).build().unwrap();
    let operation = run(pay(&client, "a").begin()).unwrap();
    assert!(!run(operation.send()).unwrap().is_recorded());
    anyone_can_finish(&world);
}

#[test]
fn an_end_that_took_hold_although_it_is_said_to_have_failed_stays() {
    let world = World::new();
    let (client, lies) = lying(&world);
    let operation = run(pay(&client, "a").begin()).unwrap();
    lies.store(true, Ordering::Relaxed);
    assert!(run(operation.send()).unwrap().is_success());
    assert_eq!(world.entries()[0].progress.phase, Phase::Succeeded);
}

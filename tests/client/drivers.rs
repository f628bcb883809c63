//! One driver at a time: within a process, between processes, and after one of them dies.

use super::support::{Hooked, Slow, TokioClock, URL, World, answer, lost, pay, poll_until, run};
use samekey::journal::{Journal, LEASE};
use samekey::seam::BoxFuture;
use samekey::testing::LoadedDice;
use samekey::{Client, ErrorKind, MemoryJournal, Parts, Phase, Policy, Provenance, Reason, Update};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// A process on the journal whose server takes five seconds for every answer.
fn slow_client(world: &World, journal: MemoryJournal) -> Client {
    let parts = Parts {
        journal: Arc::new(journal),
        transport: Arc::new(Slow(world.server.clone(), Duration::from_secs(5))),
        clock: Arc::new(TokioClock::start()),
        dice: Arc::new(LoadedDice::new(3)),
    };
    Client::with_parts("shop", parts).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn i5_two_sends_at_once_on_one_handle_are_one_request() {
    let world = World::new();
    let client = slow_client(&world, world.memory.reopen());
    let operation = pay(&client, "a").begin().await.unwrap();
    let (one, two) = tokio::join!(operation.send(), operation.send());
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!((one.key(), one.status()), (two.key(), two.status()));
    assert_eq!(one.body(), two.body());
    assert_eq!(world.sent(), 1);
}

#[tokio::test(start_paused = true)]
async fn i5_two_handles_at_once_are_one_request() {
    let world = World::new();
    let client = slow_client(&world, world.memory.reopen());
    let body = json!({});
    let (one, two) = tokio::join!(client.post("a", URL, &body), client.post("a", URL, &body));
    assert_eq!(one.unwrap().key(), two.unwrap().key());
    assert_eq!(world.sent(), 1);
    // The twin: two intents are two.
    let (one, two) = tokio::join!(client.post("b", URL, &body), client.post("c", URL, &body));
    assert_ne!(one.unwrap().key(), two.unwrap().key());
    assert_eq!(world.sent(), 3);
}

#[tokio::test(start_paused = true)]
async fn i14_whoever_waits_for_a_flight_shares_its_bad_end_and_does_not_start_over() {
    let world = World::new();
    let client = slow_client(&world, world.memory.reopen());
    (0..6).for_each(|_| world.server.fail(lost()));
    let operation = pay(&client, "a").begin().await.unwrap();
    let (one, two, three) = tokio::join!(operation.send(), operation.send(), operation.send());
    for end in [one, two, three] {
        let kind = end.unwrap_err().kind();
        assert_eq!(kind, ErrorKind::Attention(Reason::Exhausted));
    }
    assert_eq!(world.sent(), 6, "one policy's worth of attempts");
}

#[tokio::test(start_paused = true)]
async fn i5_a_flight_that_is_dropped_is_taken_on_by_whoever_waits() {
    let world = World::new();
    let client = slow_client(&world, world.memory.reopen());
    let operation = pay(&client, "a").begin().await.unwrap();
    let patience = tokio::time::timeout(Duration::from_secs(1), operation.send());
    let (gone, stays) = tokio::join!(patience, operation.send());
    assert!(gone.is_err(), "the first gave up waiting");
    assert!(stays.unwrap().is_success());
    assert_eq!((world.sent(), world.keys().len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn e37_of_two_processes_one_sends_and_the_other_waits_for_the_outcome() {
    let world = World::new();
    let (one, two) = (world.memory.reopen(), world.memory.reopen());
    let (one, two) = (slow_client(&world, one), slow_client(&world, two));
    let first = pay(&one, "a").begin().await.unwrap();
    let second = pay(&two, "a").begin().await.unwrap();
    assert_eq!(first.key(), second.key());
    let mut updates = second.updates();
    let (driven, joined) = tokio::join!(first.send(), second.send());
    assert_eq!(driven.unwrap().provenance(), Provenance::Fresh);
    let joined = joined.unwrap();
    assert_eq!(joined.provenance(), Provenance::Recovered);
    assert_eq!(joined.status(), 201);
    assert_eq!(updates.next().await, Some(Update::Joined));
    assert_eq!(world.sent(), 1);
}

#[tokio::test(start_paused = true)]
async fn e37_a_driver_that_is_killed_is_replaced_within_seconds_under_the_same_key() {
    let world = World::new();
    let journal = world.memory.reopen();
    let owner = journal.owner();
    let first = slow_client(&world, journal);
    let second = slow_client(&world, world.memory.reopen());
    let doomed = pay(&first, "a").begin().await.unwrap();
    let heir = pay(&second, "a").begin().await.unwrap();
    let memory = world.memory.clone();
    let kill = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        memory.kill(owner);
    };
    let started = tokio::time::Instant::now();
    // The first never gets further than its request.
    let hang = tokio::time::timeout(Duration::from_secs(3), doomed.send());
    let (_, outcome, _) = tokio::join!(kill, heir.send(), hang);
    assert!(outcome.unwrap().is_success());
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!((world.sent(), world.keys().len()), (2, 1));
    assert_eq!(world.entries()[0].progress.crashes, 1);
}

#[tokio::test(start_paused = true)]
async fn e37_twin_a_driver_that_lives_is_not_replaced() {
    let world = World::new();
    let first = slow_client(&world, world.memory.reopen());
    let second = slow_client(&world, world.memory.reopen());
    let held = pay(&first, "a").begin().await.unwrap();
    let waits = pay(&second, "a").begin().await.unwrap();
    let error = waits.send().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::HeldElsewhere);
    assert!(error.is_unresolved());
    assert_eq!(world.sent(), 0);
    // Let go, it is anyone's at once.
    drop(held);
    assert!(waits.send().await.unwrap().is_success());
}

#[tokio::test(start_paused = true)]
async fn e37_what_was_begun_and_is_released_is_anyones_at_once() {
    let world = World::new();
    let first = slow_client(&world, world.memory.reopen());
    let second = slow_client(&world, world.memory.reopen());
    let held = pay(&first, "a").begin().await.unwrap();
    let waits = pay(&second, "a").begin().await.unwrap();
    assert_eq!(held.release().await.unwrap(), Phase::Ready);
    let outcome = waits.send().await.unwrap();
    assert_eq!((outcome.is_success(), outcome.attempts()), (true, 1));
    let late = held.send().await.unwrap();
    assert_eq!(late.provenance(), Provenance::Recovered);
    assert_eq!(held.release().await.unwrap(), Phase::Succeeded);
    assert_eq!(world.sent(), 1);
}

#[tokio::test(start_paused = true)]
async fn e37_what_is_being_sent_is_not_released() {
    let world = World::new();
    let first = slow_client(&world, world.memory.reopen());
    let second = slow_client(&world, world.memory.reopen());
    let driven = pay(&first, "a").begin().await.unwrap();
    let waits = pay(&second, "a").begin().await.unwrap();
    let release = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        driven.release().await.unwrap();
    };
    let (outcome, (), joined) = tokio::join!(driven.send(), release, waits.send());
    assert!(outcome.unwrap().is_success());
    assert_eq!(joined.unwrap().provenance(), Provenance::Recovered);
    assert_eq!(world.sent(), 1);
}

/// A transport during whose first request something else happens.
struct Meanwhile {
    server: samekey::testing::ScriptedTransport,
    event: std::sync::Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl samekey::transport::Transport for Meanwhile {
    fn send(
        &self,
        permit: samekey::machine::Permit,
    ) -> BoxFuture<'_, Result<samekey::Response, samekey::Failure>> {
        let answer = self.server.send(permit);
        if let Some(event) = self.event.lock().unwrap().take() {
            event();
        }
        answer
    }

    fn probe(
        &self,
        probe: samekey::machine::Probe,
    ) -> BoxFuture<'_, Result<samekey::Response, samekey::Failure>> {
        self.server.probe(probe)
    }
}

/// A process that is stopped while its first request is under way, during which `event` happens.
fn stopped_client(world: &World, event: impl FnOnce() + Send + 'static) -> Client {
    let journal = world.memory.reopen();
    let owner = journal.owner();
    let memory = world.memory.clone();
    let mut parts = world.parts_on(journal);
    parts.transport = Arc::new(Meanwhile {
        server: world.server.clone(),
        event: std::sync::Mutex::new(Some(Box::new(move || {
            memory.silence(owner);
            event();
            memory.revive(owner);
        }))),
    });
    Client::with_parts("shop", parts).build().unwrap()
}

/// Another process, for use inside `event`.
fn other(world: &World, attempts: u32) -> Client {
    let policy = Policy::new().max_attempts(attempts);
    world.builder().policy(policy).build().unwrap()
}

#[test]
fn i12_a_late_answer_does_not_overwrite_what_a_successor_settled() {
    let world = World::new();
    let heir = other(&world, 6);
    // The stopped process gets this one, late; its successor the next.
    world.server.answer(answer(201, &[], "late"));
    world.server.answer(answer(201, &[], "first"));
    let client = stopped_client(&world, move || {
        let taken = run(heir.unfinished()).unwrap().remove(0);
        assert_eq!(run(taken.resume()).unwrap().text(), Some("first"));
    });
    let operation = run(pay(&client, "a").begin()).unwrap();
    let outcome = run(operation.send()).unwrap();
    assert_eq!(outcome.text(), Some("first"), "the first final word stands");
    assert_eq!((world.sent(), world.keys().len()), (2, 1));
}

#[test]
fn i12_a_late_success_does_settle_what_is_open_or_needs_attention() {
    let world = World::new();
    let heir = other(&world, 1);
    world.server.answer(answer(201, &[], "late"));
    world.server.fail(lost());
    let client = stopped_client(&world, move || {
        let taken = run(heir.unfinished()).unwrap().remove(0);
        assert!(run(taken.resume()).unwrap_err().is_unresolved());
    });
    let operation = run(pay(&client, "a").begin()).unwrap();
    let outcome = run(operation.send()).unwrap();
    assert_eq!(outcome.text(), Some("late"));
    let entry = &world.entries()[0];
    assert_eq!(entry.progress.phase, Phase::Succeeded);
    assert!(
        entry.progress.attempts >= 2,
        "nobody's attempt is lost count of"
    );
}

#[test]
fn i8_a_late_refusal_does_not_speak_for_the_attempt_of_a_successor() {
    let world = World::new();
    let heir = other(&world, 1);
    world.server.answer(answer(403, &[], "late"));
    world.server.fail(lost());
    let client = stopped_client(&world, move || {
        let taken = run(heir.unfinished()).unwrap().remove(0);
        assert!(run(taken.resume()).unwrap_err().is_unresolved());
    });
    let operation = run(pay(&client, "a").begin()).unwrap();
    let error = run(operation.send()).unwrap_err();
    assert!(error.is_unresolved(), "{error}");
    assert_eq!(
        world.entries()[0].progress.phase,
        Phase::Attention(Reason::Exhausted)
    );
}

#[test]
fn i8_twin_a_refusal_settles_what_only_a_cancel_touched() {
    let world = World::new();
    let user = world.client();
    world.server.answer(answer(403, &[], "no"));
    let client = stopped_client(&world, move || {
        let found = run(user.unfinished()).unwrap().remove(0);
        let phase = run(found.cancel()).unwrap();
        assert_eq!(phase, Phase::Attention(Reason::Cancelled));
    });
    let operation = run(pay(&client, "a").begin()).unwrap();
    let outcome = run(operation.send()).unwrap();
    assert_eq!((outcome.phase(), outcome.status()), (Phase::Rejected, 403));
}

#[test]
fn t12_a_cancel_wins_over_a_driver() {
    let world = World::new();
    let user = world.client();
    world.server.fail(lost());
    let client = stopped_client(&world, move || {
        let found = run(user.unfinished()).unwrap().remove(0);
        run(found.cancel()).unwrap();
    });
    let operation = run(pay(&client, "a").begin()).unwrap();
    let error = run(operation.send()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Attention(Reason::Cancelled));
    assert_eq!(world.sent(), 1, "no further attempt");
}

#[test]
fn t12_a_cancel_by_another_handle_wins_over_the_one_that_began_it() {
    let world = World::new();
    let client = world.client();
    let operation = run(pay(&client, "a").begin()).unwrap();
    let found = run(client.get(operation.reference())).unwrap();
    run(found.cancel()).unwrap();
    assert!(run(operation.send()).is_err());
    // Another process's cancel is seen as well, by whoever looks again.
    let operation = run(pay(&client, "b").begin()).unwrap();
    let support = world.client();
    let found = run(support.get(operation.reference())).unwrap();
    run(found.cancel()).unwrap();
    world.clock.advance(Duration::from_secs(2));
    assert!(run(operation.send()).is_err());
    assert_eq!(world.sent(), 0);
}

#[test]
fn i5_a_receipt_that_others_made_void_is_not_used() {
    let world = World::new();
    let journal = world.memory.reopen();
    let owner = journal.owner();
    let client = Client::with_parts("shop", world.parts_on(journal));
    let client = client.build().unwrap();
    let operation = run(pay(&client, "a").begin()).unwrap();
    // Stopped before it could send; another process did it instead.
    world.clock.advance(LEASE);
    world.memory.silence(owner);
    let heir = world.client();
    run(run(heir.unfinished()).unwrap().remove(0).resume()).unwrap();
    world.memory.revive(owner);
    let outcome = run(operation.send()).unwrap();
    assert_eq!(outcome.provenance(), Provenance::Recovered);
    assert_eq!(world.sent(), 1, "what has ended is not sent again");
}

#[test]
fn e36_five_crashes_over_one_entry_ask_for_a_person() {
    let world = World::new();
    let client = world.client();
    let operation = run(pay(&client, "a").begin()).unwrap();
    let key = operation.key();
    // Dies without a word: nothing of its end is written.
    std::mem::forget(operation);
    world.memory.kill(world.entries()[0].progress.owner);
    std::mem::forget(client);
    for crash in 1..=9 {
        let parts = world.parts_on(Hooked::pausing(world.memory.reopen()));
        let client = Client::with_parts("shop", parts).build().unwrap();
        let left = run(client.unfinished()).unwrap();
        let Some(operation) = left.into_iter().next() else {
            assert_eq!(crash, 6, "it was tried until the fifth crash");
            break;
        };
        assert_eq!(operation.key(), key);
        world.server.fail(lost());
        let sent = world.sent();
        poll_until(operation.resume(), || {
            let phase = world.entries()[0].progress.phase;
            world.sent() > sent || matches!(phase, Phase::Attention(_))
        });
        let owner = world.entries()[0].progress.owner;
        world.memory.kill(owner);
        std::mem::forget((operation, client));
    }
    let entry = &world.entries()[0];
    assert_eq!(entry.progress.phase, Phase::Attention(Reason::Crashes));
    // A person may try again.
    let client = world.client();
    let operation = run(client.attention()).unwrap().remove(0);
    let outcome = run(operation.resume());
    assert!(outcome.is_ok() || outcome.is_err_and(|error| error.is_unresolved()));
    assert_eq!(world.keys().len(), 1);
}

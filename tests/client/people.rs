//! What people do: stop it, settle it, look it up, forget it, find it by its reference.

use super::support::{HOUR, URL, World, answer, lost, pay, run};
use samekey::journal::Select;
use samekey::{ErrorKind, Finding, Operation, Phase, Policy, Provenance, Reason};
use serde_json::json;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

/// An operation whose outcome is unknown.
fn unknown(world: &World) -> (samekey::Client, Operation) {
    let policy = Policy::new().max_attempts(1);
    let client = world.builder().policy(policy).build().unwrap();
    world.server.fail(lost());
    let operation = run(pay(&client, "a").begin()).unwrap();
    run(operation.send()).unwrap_err();
    (client, operation)
}

#[test]
fn i13_a_cancel_before_anything_was_sent_abandons_it_for_good() {
    let world = World::new();
    let client = world.client();
    let operation = run(pay(&client, "a").begin()).unwrap();
    assert_eq!(run(operation.cancel()).unwrap(), Phase::Abandoned);
    let error = run(operation.send()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ended(Phase::Abandoned));
    assert!(error.nothing_was_sent() && !error.is_unresolved());
    assert!(run(client.unfinished()).unwrap().is_empty());
    assert_eq!(
        run(operation.cancel()).unwrap_err().kind(),
        ErrorKind::Ended(Phase::Abandoned)
    );
    drop((operation, client));
    let client = world.client();
    assert!(run(client.post("a", URL, &json!({"amount": 100}))).is_err());
    assert_eq!(world.sent(), 0);
}

#[test]
fn i13_a_cancel_of_what_may_have_been_applied_needs_attention_and_wins_over_every_resume() {
    let world = World::new();
    let (client, operation) = unknown(&world);
    let cancelled = Phase::Attention(Reason::Cancelled);
    assert_eq!(run(operation.cancel()).unwrap(), cancelled);
    for _ in 0..2 {
        let error = run(operation.resume()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Attention(Reason::Cancelled));
        assert!(error.is_unresolved());
    }
    assert!(run(client.unfinished()).unwrap().is_empty());
    assert_eq!(run(client.attention()).unwrap().len(), 1);
    drop((operation, client));
    let client = world.client();
    let error = run(pay(&client, "a").begin());
    let error = run(error.unwrap().resume()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Attention(Reason::Cancelled));
    assert_eq!(world.sent(), 1);
}

#[test]
fn i13_a_cancel_by_the_handle_that_began_it_sees_what_another_handle_sent() {
    let world = World::new();
    let policy = Policy::new().max_attempts(1);
    let client = world.builder().policy(policy).build().unwrap();
    let first = run(pay(&client, "a").begin()).unwrap();
    world.server.fail(lost());
    let second = run(pay(&client, "a").begin()).unwrap();
    assert!(run(second.send()).unwrap_err().is_unresolved());
    let phase = run(first.cancel()).unwrap();
    assert_eq!(
        phase,
        Phase::Attention(Reason::Cancelled),
        "it may have happened"
    );
}

#[test]
fn i13_a_cancel_by_a_process_that_was_replaced_sees_what_its_successor_sent() {
    let world = World::new();
    let journal = world.memory.reopen();
    let owner = samekey::journal::Journal::owner(&journal);
    let parts = world.parts_on(journal);
    let stopped = samekey::Client::with_parts("shop", parts).build().unwrap();
    let operation = run(pay(&stopped, "a").begin()).unwrap();
    world.memory.silence(owner);
    let policy = Policy::new().max_attempts(1);
    let other = world.builder().policy(policy).build().unwrap();
    world.server.fail(lost());
    let taken = run(other.unfinished()).unwrap().remove(0);
    assert!(run(taken.resume()).unwrap_err().is_unresolved());
    world.memory.revive(owner);
    let phase = run(operation.cancel()).unwrap();
    assert_eq!(phase, Phase::Attention(Reason::Cancelled));
}

#[test]
fn i12_settling_by_hand_closes_it_with_a_note_and_only_once() {
    for happened in [true, false] {
        let world = World::new();
        let (_client, operation) = unknown(&world);
        let phase = run(operation.settle(happened, "asked the bank")).unwrap();
        let expected = if happened {
            Phase::Succeeded
        } else {
            Phase::Rejected
        };
        assert_eq!(phase, expected);
        let outcome = run(operation.send()).unwrap();
        assert_eq!(outcome.is_success(), happened);
        assert_eq!(outcome.provenance(), Provenance::ByHand);
        assert_eq!(outcome.note(), Some("asked the bank"));
        let error = run(operation.settle(!happened, "no, wait")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Ended(expected));
        assert!(run(operation.abandon("no")).is_err());
        assert_eq!(world.sent(), 1);
    }
}

#[test]
fn what_was_settled_by_hand_is_kept_from_that_day_on() {
    let world = World::new();
    let (client, operation) = unknown(&world);
    world.clock.advance(60 * DAY);
    run(operation.settle(true, "found it at last")).unwrap();
    let outcome = operation.outcome().unwrap().unwrap();
    assert!(outcome.answered_at().since(super::support::START) >= 60 * DAY);
    assert_eq!(run(client.reap()).unwrap().entries, 0);
    world.clock.advance(31 * DAY);
    assert_eq!(run(client.reap()).unwrap().entries, 1);
}

#[test]
fn i21_what_is_open_or_needs_attention_is_never_reaped() {
    let world = World::new();
    let (client, _operation) = unknown(&world);
    let _open = run(pay(&client, "open").begin()).unwrap();
    world.clock.advance(1000 * DAY);
    assert_eq!(run(client.reap()).unwrap().entries, 0);
    assert_eq!(run(client.list(Select::All)).unwrap().len(), 2);
}

#[test]
fn a_look_up_settles_it_or_leaves_it() {
    let world = World::new();
    let (_client, operation) = unknown(&world);
    let still = run(operation.look_up(|_| async { Finding::StillUnknown })).unwrap();
    assert!(matches!(still, Phase::Attention(_)));
    let key = operation.key();
    let phase = run(operation.look_up(|asked| {
        assert_eq!(asked, key);
        async { Finding::Happened("order 7".into()) }
    }));
    assert_eq!(phase.unwrap(), Phase::Succeeded);
    assert_eq!(run(operation.send()).unwrap().note(), Some("order 7"));
}

#[test]
fn abandoning_closes_with_a_note() {
    let world = World::new();
    let (client, operation) = unknown(&world);
    assert_eq!(run(operation.abandon("a test")).unwrap(), Phase::Abandoned);
    assert!(run(client.attention()).unwrap().is_empty());
    let error = run(operation.resume()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ended(Phase::Abandoned));
    assert!(!error.nothing_was_sent(), "an attempt did leave");
}

#[test]
fn i13_only_what_is_settled_may_be_forgotten() {
    let world = World::new();
    let (client, operation) = unknown(&world);
    let error = run(operation.forget()).unwrap_err();
    assert!(
        error.is_unresolved() && error.to_string().contains("settle"),
        "{error}"
    );
    run(operation.settle(true, "seen")).unwrap();
    run(operation.forget()).unwrap();
    assert!(run(client.find(operation.reference())).unwrap().is_empty());
    let error = run(operation.refresh()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn an_operation_is_found_by_the_reference_that_a_customer_reads_aloud() {
    let world = World::new();
    let client = world.client();
    let operation = run(pay(&client, "a").begin()).unwrap();
    run(operation.send()).unwrap();
    let spoken = operation
        .reference()
        .to_string()
        .to_lowercase()
        .replace('-', " ");
    let found = run(client.get(spoken.parse().unwrap())).unwrap();
    assert_eq!(found.key(), operation.key());
    assert_eq!(found.outcome().unwrap().unwrap().status(), 201);
    // Two keys with one reference: both are shown, and nobody chooses silently.
    for (intent, key) in [("b", "0123456789ab-one"), ("c", "0123456789ab-two")] {
        run(pay(&client, intent).adopt_key(key).begin()).unwrap();
    }
    let reference = samekey::Key::adopt("0123456789ab-one").unwrap().reference();
    assert_eq!(run(client.find(reference)).unwrap().len(), 2);
    let error = run(client.get(reference)).unwrap_err();
    assert!(error.to_string().contains('2'), "{error}");
}

#[test]
fn lists_hold_what_they_say_oldest_first() {
    let world = World::new();
    let client = world
        .builder()
        .policy(Policy::new().max_attempts(1))
        .build()
        .unwrap();
    let begin = |intent: &str| run(pay(&client, intent).begin()).unwrap();
    let done = begin("done");
    run(done.send()).unwrap();
    world.clock.advance(HOUR);
    let _ready = begin("ready");
    let exhausted = begin("exhausted");
    world.server.fail(lost());
    run(exhausted.send()).unwrap_err();
    let odd = begin("odd");
    world.server.answer(answer(304, &[], ""));
    run(odd.send()).unwrap_err();
    let names = |operations: Vec<Operation>| -> Vec<String> {
        operations.iter().map(|o| o.intent().to_string()).collect()
    };
    let unfinished = run(client.unfinished()).unwrap();
    assert_eq!(names(unfinished), ["ready", "exhausted"]);
    assert_eq!(
        names(run(client.attention()).unwrap()),
        ["exhausted", "odd"]
    );
    assert_eq!(names(run(client.list(Select::Settled)).unwrap()), ["done"]);
    assert_eq!(run(client.list(Select::All)).unwrap().len(), 4);
}

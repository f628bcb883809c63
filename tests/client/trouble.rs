//! Journals in trouble: damaged, full, poisoned, tampered with, or of another configuration.

use super::support::{Call, Hooked, URL, World, answer, lost, pay, run};
use samekey::journal::{JournalErrorKind, Write};
use samekey::profile::Profile;
use samekey::{Client, ErrorKind, Phase, Policy};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A client whose journal refuses the writes that `refuse` picks.
fn client_refusing(
    world: &World,
    kind: JournalErrorKind,
    refuse: impl Fn(&Write) -> bool + Send + Sync + 'static,
) -> Client {
    let hook = move |call: Call<'_>| match call {
        Call::Record(write) if refuse(write) => Err(kind),
        _ => Ok(()),
    };
    let parts = world.parts_on(Hooked::new(world.memory.reopen(), hook));
    Client::with_parts("shop", parts).build().unwrap()
}

#[test]
fn e38_a_full_journal_still_hands_out_the_outcome_and_says_that_it_is_not_written() {
    for kind in [JournalErrorKind::Full, JournalErrorKind::Poisoned] {
        let world = World::new();
        let client = client_refusing(&world, kind, |write| write.progress.phase.is_settled());
        world.server.answer(answer(201, &[], "paid"));
        let operation = run(pay(&client, "a").begin()).unwrap();
        let outcome = run(operation.send()).unwrap();
        assert!(outcome.is_success() && !outcome.is_recorded());
        assert_eq!(outcome.text(), Some("paid"));
        // The next run asks the server again, under the same key.
        drop((operation, client));
        let client = world.client();
        let left = run(client.unfinished()).unwrap().remove(0);
        let outcome = run(left.resume()).unwrap();
        assert!(outcome.is_recorded());
        assert_eq!((world.sent(), world.keys().len()), (2, 1));
    }
}

#[test]
fn e38_twin_a_journal_that_works_says_that_it_is_written() {
    let world = World::new();
    let client = client_refusing(&world, JournalErrorKind::Full, |_| false);
    let outcome = run(client.post("a", URL, &json!({}))).unwrap();
    assert!(outcome.is_recorded());
}

#[test]
fn i11_a_journal_that_fails_between_two_attempts_stops_the_sending() {
    let world = World::new();
    let broken = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&broken);
    let kind = JournalErrorKind::Poisoned;
    let client = client_refusing(&world, kind, move |_| switch.load(Ordering::Relaxed));
    world.server.fail(lost());
    let operation = run(pay(&client, "a").begin()).unwrap();
    let error = run(operation.send()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Journal(kind));
    assert!(error.is_unresolved() && !error.nothing_was_sent());
    assert_eq!(world.sent(), 1);
    let error = run(operation.send()).unwrap_err();
    assert!(error.is_unresolved(), "still unknown: {error}");
    assert_eq!(world.sent(), 1, "no permit from a poisoned journal");
    broken.store(false, Ordering::Relaxed);
    assert!(run(operation.send()).unwrap().is_success());
    assert_eq!(world.keys().len(), 1);
}

#[test]
fn a_driver_whose_note_failed_lets_go_of_what_the_journal_has() {
    let world = World::new();
    let broken = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&broken);
    let kind = JournalErrorKind::Full;
    // Only the one note fails: the release that follows goes through.
    let client = client_refusing(&world, kind, move |_| switch.swap(false, Ordering::Relaxed));
    world.server.fail(lost());
    let operation = run(pay(&client, "a").begin()).unwrap();
    assert_eq!(
        run(operation.send()).unwrap_err().kind(),
        ErrorKind::Journal(kind)
    );
    let other = world.client();
    let left = run(other.unfinished()).unwrap().remove(0);
    assert!(
        run(left.resume()).unwrap().is_success(),
        "while the first process lives"
    );
    assert_eq!(world.keys().len(), 1);
}

#[test]
fn e39_a_damaged_entry_is_listed_refuses_loudly_and_keeps_its_intent() {
    let world = World::new();
    let client = world.client();
    let operation = run(pay(&client, "a").begin()).unwrap();
    let reference = operation.reference();
    drop(operation);
    let other = run(pay(&client, "b").begin()).unwrap();
    drop(other);
    assert!(world.memory.damage(1));
    let listed = run(client.unfinished()).unwrap();
    assert_eq!(listed.len(), 2, "one stuck entry does not hide the others");
    let damaged = listed.iter().find(|o| o.damage().is_some()).unwrap();
    assert_eq!(damaged.reference(), reference);
    let calls = [
        run(damaged.resume()).unwrap_err(),
        run(damaged.resume_with("x")).unwrap_err(),
        run(damaged.cancel()).unwrap_err(),
        run(damaged.settle(true, "x")).unwrap_err(),
        run(damaged.abandon("x")).unwrap_err(),
        run(damaged.forget()).unwrap_err(),
    ];
    for error in calls {
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert!(
            error.is_unresolved() && !error.nothing_was_sent(),
            "{error}"
        );
        assert_eq!(error.reference(), Some(reference));
    }
    // The same action does not get a second key.
    let error = run(pay(&client, "a").begin()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    assert_eq!(error.reference(), Some(reference));
    assert!(
        error.is_unresolved() && !error.nothing_was_sent(),
        "{error}"
    );
    assert_eq!(world.sent(), 0);
    let sound = listed.iter().find(|o| o.damage().is_none()).unwrap();
    assert!(run(sound.resume()).unwrap().is_success());
}

#[test]
fn i10_an_entry_that_is_damaged_after_it_was_listed_is_not_sent() {
    let world = World::new();
    let client = world.client();
    let operation = run(pay(&client, "a").begin()).unwrap();
    world.memory.damage(1);
    world.clock.advance(std::time::Duration::from_secs(2));
    let error = run(operation.send()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Journal(JournalErrorKind::Corrupt));
    assert_eq!(world.sent(), 0);
}

#[test]
fn i15_an_origin_that_is_no_longer_allowed_is_not_sent_to() {
    let world = World::new();
    let client = world
        .builder()
        .policy(Policy::new().max_attempts(1))
        .build()
        .unwrap();
    world.server.fail(lost());
    assert!(run(client.post("a", URL, &json!({}))).is_err());
    drop(client);
    let strict = |origin: &str| world.builder().allow_origin(origin).build().unwrap();
    let client = strict("https://other.example");
    let left = run(client.unfinished()).unwrap().remove(0);
    let error = run(left.resume()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OriginNotAllowed);
    assert!(
        error.is_unresolved(),
        "what left before may have been applied"
    );
    assert!(error.to_string().contains("allow it"), "{error}");
    assert_eq!(world.sent(), 1);
    let error = run(client.post("b", URL, &json!({}))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OriginNotAllowed);
    assert!(error.nothing_was_sent() && !error.is_unresolved());
    // The control.
    drop((left, client));
    let client = strict("HTTPS://API.example.com:443");
    let left = run(client.unfinished()).unwrap().remove(0);
    assert!(run(left.resume()).unwrap().is_success());
}

#[test]
fn a_profile_that_the_next_run_does_not_know_stops_the_resume_with_its_name() {
    let world = World::new();
    let own = || Profile::builder("acme").build().unwrap();
    let policy = || Policy::new().max_attempts(1);
    let client = world.builder().profile(own()).policy(policy());
    let client = client.build().unwrap();
    world.server.fail(lost());
    assert!(run(client.post("a", URL, &json!({}))).is_err());
    drop(client);
    let client = world.client();
    let left = run(client.unfinished()).unwrap().remove(0);
    let error = run(left.resume()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfiguration);
    assert!(error.to_string().contains("\"acme\""), "{error}");
    assert!(error.is_unresolved(), "{error}");
    assert_eq!(world.sent(), 1);
    drop((left, client));
    // Known by name, though it is not the default any more.
    let client = world.builder().profile(Profile::default()).profile(own());
    let client = client.build().unwrap();
    let left = run(client.unfinished()).unwrap().remove(0);
    assert!(run(left.resume()).unwrap().is_success());
}

#[test]
fn e45_a_changed_default_does_not_change_how_the_key_is_written() {
    let world = World::new();
    let policy = Policy::new().max_attempts(1);
    let client = world.builder().policy(policy).build().unwrap();
    world.server.fail(lost());
    let error = run(client.post("a", URL, &json!({}))).unwrap_err();
    assert!(error.is_unresolved());
    drop(client);
    let quoted = world.builder().profile(Profile::ietf_draft());
    let client = quoted.build().unwrap();
    run(client.post("a", URL, &json!({}))).unwrap();
    assert_eq!(world.keys().len(), 1);
    // The twin: a new operation is quoted.
    run(client.post("b", URL, &json!({}))).unwrap();
    assert!(world.keys().iter().any(|key| key.starts_with('"')));
}

#[test]
fn e36_a_process_that_dies_between_any_two_writes_leaves_one_key() {
    // The n-th write and every one after it never happen: the disk is gone, then the process.
    for survivors in 0..6 {
        let world = World::new();
        let left = Arc::new(std::sync::atomic::AtomicUsize::new(survivors));
        let kind = JournalErrorKind::Unavailable;
        let client = client_refusing(&world, kind, move |_| {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                .is_err()
        });
        world.server.fail(lost());
        world.server.answer(answer(500, &[], ""));
        let _ = run(async { pay(&client, "a").begin().await?.send().await });
        drop(client);
        let client = world.client();
        let operation = run(pay(&client, "a").begin()).unwrap();
        assert!(run(operation.send()).unwrap().is_success());
        assert_eq!(world.keys().len(), 1, "after {survivors} writes");
        assert_eq!(world.entries().len(), 1);
        assert_eq!(world.entries()[0].progress.phase, Phase::Succeeded);
    }
}

/// Seed 361 of the simulation.
#[test]
fn a_refusal_that_the_journal_could_not_take_is_not_told_as_final() {
    let world = World::new();
    let kind = JournalErrorKind::Full;
    let client = client_refusing(&world, kind, |write| write.progress.phase.is_settled());
    world.server.answer(answer(402, &[], "no"));
    let operation = run(pay(&client, "a").begin()).unwrap();
    let error = run(operation.send()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Journal(kind));
    assert!(!error.nothing_was_sent());
    // The entry is open still, and whoever takes it up may well succeed.
    world.server.answer(answer(201, &[], "paid"));
    let other = world.client();
    let left = run(other.unfinished()).unwrap().remove(0);
    assert!(run(left.resume()).unwrap().is_success());
}

/// Seed 359 of the simulation.
#[test]
fn a_driver_that_steps_aside_does_not_say_that_nothing_was_sent_if_its_successor_sent() {
    let world = World::new();
    let successor = Client::with_parts("shop", world.parts())
        .policy(Policy::new().max_attempts(1))
        .build()
        .unwrap();
    let (memory, server) = (world.memory.clone(), world.server.clone());
    let journal = world.memory.reopen();
    let me = samekey::journal::Journal::owner(&journal);
    let once = AtomicBool::new(true);
    // Just before the first driver notes that nobody listened, it looks frozen and is replaced.
    let hook = move |call: Call<'_>| {
        if matches!(call, Call::Record(_)) && once.swap(false, Ordering::Relaxed) {
            memory.silence(me);
            server.fail(lost());
            let taken = run(successor.unfinished()).unwrap().remove(0);
            assert!(run(taken.resume()).unwrap_err().is_unresolved());
        }
        Ok(())
    };
    let parts = world.parts_on(Hooked::new(journal, hook));
    let client = Client::with_parts("shop", parts).build().unwrap();
    world.server.fail(super::support::unreachable());
    let operation = run(pay(&client, "a").begin()).unwrap();
    let error = run(operation.send()).unwrap_err();
    assert!(!error.nothing_was_sent(), "{error}");
    assert_eq!(world.sent(), 2);
}

/// Seed 8 of the simulation.
#[test]
fn a_wall_clock_set_back_between_two_runs_of_one_program_does_not_make_the_key_younger() {
    let minutes = |n: u64| std::time::Duration::from_secs(60 * n);
    for (back, sent) in [(minutes(0), 2), (minutes(50), 1)] {
        let world = World::new();
        let client = world.client();
        world
            .server
            .answer(answer(503, &[("retry-after", "600")], ""));
        let operation = run(pay(&client, "a").window(minutes(60)).begin()).unwrap();
        assert!(run(operation.send()).is_err(), "it is parked");
        let wall = super::support::START;
        if back.is_zero() {
            // The twin: ten minutes later there is time enough.
            world.clock.advance(minutes(11));
        } else {
            world.clock.advance(minutes(65));
            world.clock.set_wall((wall + minutes(65)).before(back));
        }
        let _ = run(operation.resume());
        assert_eq!(world.sent(), sent, "set back by {back:?}");
    }
}

#[test]
fn what_could_not_be_released_is_let_go_with_its_handle() {
    let world = World::new();
    let full = AtomicBool::new(true);
    let refuse = move |_: &Write| full.swap(false, Ordering::Relaxed);
    let client = client_refusing(&world, JournalErrorKind::Full, refuse);
    let operation = run(pay(&client, "a").begin()).unwrap();
    let error = run(operation.release()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Journal(JournalErrorKind::Full));
    let owner = || world.entries()[0].progress.owner;
    assert_ne!(owner(), samekey::entry::Owner::NONE);
    drop(operation);
    assert_eq!(
        owner(),
        samekey::entry::Owner::NONE,
        "it keeps everybody else out"
    );
}

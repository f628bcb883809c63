//! I19: a future that is dropped at any await point leaves everything as it should be.

use super::support::{
    Hooked, Pausing, PausingClock, World, answer, lost, pay, poll_then_drop, poll_until, run,
    unreachable,
};
use samekey::entry::Entry;
use samekey::{Asked, Body, Client, Headers, Operation, Parts, Phase, Policy, Reason};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

type Dropped<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A client with an await point at every call of every part.
fn pausing(world: &World) -> Client {
    let parts = Parts {
        journal: Arc::new(Hooked::pausing(world.memory.reopen())),
        transport: Arc::new(Pausing(world.server.clone())),
        clock: Arc::new(PausingClock(world.clock.clone())),
        ..world.parts()
    };
    Client::with_parts("shop", parts)
        .policy(Policy::new().max_attempts(6))
        .credentials(|_: Asked| async {
            super::support::pause().await;
            Ok(Headers::bearer("t")?)
        })
        .build()
        .unwrap()
}

/// The parts of I1 to I13 that can be seen from outside, at any time.
fn check(world: &World, context: &str) {
    let requests = world.requests();
    let posts: Vec<_> = requests
        .iter()
        .filter(|seen| seen.method == "POST")
        .collect();
    assert!(world.keys().len() <= 1, "I2 {context}");
    let bodies: BTreeSet<_> = posts.iter().map(|seen| &seen.body).collect();
    assert!(bodies.len() <= 1, "I3 {context}");
    let entries = world.entries();
    assert!(entries.len() <= 1, "I18 {context}");
    if !posts.is_empty() {
        let key = entries[0].key().as_str();
        assert_eq!(
            posts[0].header("idempotency-key"),
            Some(key),
            "I1 {context}"
        );
        let progress = &entries[0].progress;
        if progress.phase.is_open() {
            assert!(progress.maybe_applied, "I8 {context}: {progress:?}");
        }
        assert_ne!(progress.phase, Phase::Abandoned, "I13 {context}");
    }
}

/// Drops `work` after 0, 1, 2, ... polls, each in a world of its own, and then goes on: in the same
/// process or in the next one. Returns how many await points there were.
fn at_every_point(
    prepare: impl Fn(&World) -> (Client, Option<Operation>),
    work: impl for<'a> Fn(&'a Client, Option<&'a Operation>) -> Dropped<'a>,
    afterwards: impl Fn(&World, &Client, &str),
) -> usize {
    for polls in 0..1000 {
        let mut finished = false;
        for restart in [false, true] {
            let context = format!("dropped after {polls} polls, restart: {restart}");
            let world = World::new();
            let (client, operation) = prepare(&world);
            finished = poll_then_drop(work(&client, operation.as_ref()), polls).is_some();
            check(&world, &context);
            if restart {
                drop((operation, client));
                let next = world.client();
                check(&world, &context);
                afterwards(&world, &next, &context);
            } else {
                afterwards(&world, &client, &context);
                drop((operation, client));
            }
        }
        if finished {
            return polls;
        }
    }
    panic!("it never ends");
}

/// Whatever was left is finished: one key, one effect.
fn one_effect(world: &World, client: &Client, context: &str) {
    let operation = run(pay(client, "a").begin()).unwrap();
    let outcome = run(operation.send());
    let outcome = outcome.unwrap_or_else(|error| panic!("{context}: {error:?}"));
    assert!(outcome.is_success(), "{context}");
    check(world, context);
    assert_eq!(world.keys().len(), 1, "{context}");
    let entry: &Entry = &world.entries()[0];
    assert_eq!(entry.progress.phase, Phase::Succeeded, "{context}");
    assert!(run(client.unfinished()).unwrap().is_empty(), "{context}");
}

/// A lost answer, a busy server, then success.
fn rough(world: &World) {
    world.server.fail(unreachable());
    world.server.fail(lost());
    world
        .server
        .answer(answer(503, &[("retry-after", "2")], ""));
    world
        .server
        .answer(answer(409, &[("retry-after", "1")], ""));
}

#[test]
fn i19_begin_dropped_anywhere_leaves_no_entry_or_a_whole_one() {
    let points = at_every_point(
        |world| (pausing(world), None),
        |client, _| Box::pin(async { drop(pay(client, "a").begin().await.unwrap()) }),
        one_effect,
    );
    assert!(points >= 2, "{points}");
}

#[test]
fn i19_send_dropped_anywhere_can_be_resumed_and_has_one_effect() {
    let points = at_every_point(
        |world| {
            rough(world);
            let client = pausing(world);
            let operation = run(pay(&client, "a").begin()).unwrap();
            (client, Some(operation))
        },
        |_, operation| Box::pin(async move { drop(operation.unwrap().send().await.unwrap()) }),
        one_effect,
    );
    assert!(points >= 36, "{points}");
}

#[test]
fn i19_a_whole_call_dropped_anywhere_can_be_made_again() {
    let points = at_every_point(
        |world| {
            rough(world);
            (pausing(world), None)
        },
        |client, _| {
            Box::pin(async {
                let json = serde_json::json!({"amount": 100});
                drop(client.post("a", super::support::URL, &json).await.unwrap());
            })
        },
        one_effect,
    );
    assert!(points >= 36, "{points}");
}

#[test]
fn i19_resume_dropped_anywhere_can_be_resumed_again() {
    let points = at_every_point(
        |world| {
            world.server.fail(lost());
            let once = world.builder().policy(Policy::new().max_attempts(1));
            let once = once.build().unwrap();
            run(async { pay(&once, "a").begin().await?.send().await }).unwrap_err();
            drop(once);
            rough(world);
            let client = pausing(world);
            let operation = run(client.unfinished()).unwrap().remove(0);
            (client, Some(operation))
        },
        |_, operation| Box::pin(async move { drop(operation.unwrap().resume().await.unwrap()) }),
        one_effect,
    );
    assert!(points >= 30, "{points}");
}

#[test]
fn i19_resume_with_dropped_anywhere_needs_the_body_again_and_nothing_else() {
    let body: &'static [u8] = br#"{"amount":100}"#;
    let points = at_every_point(
        |world| {
            world.server.fail(lost());
            let once = world.builder().policy(Policy::new().max_attempts(1));
            let once = once.body(Body::FingerprintOnly).build().unwrap();
            run(async { pay(&once, "a").begin().await?.send().await }).unwrap_err();
            drop(once);
            rough(world);
            let client = pausing(world);
            let operation = run(client.unfinished()).unwrap().remove(0);
            (client, Some(operation))
        },
        |_, operation| {
            Box::pin(async move { drop(operation.unwrap().resume_with(body).await.unwrap()) })
        },
        one_effect,
    );
    assert!(points >= 30, "{points}");
}

#[test]
fn i19_a_poll_dropped_anywhere_goes_on_and_posts_once() {
    let job = &[("location", "/jobs/7"), ("retry-after", "2")];
    let points = at_every_point(
        |world| {
            world.server.answer(answer(202, job, ""));
            world.server.answer(answer(202, job, ""));
            world.server.fail(unreachable());
            let client = pausing(world);
            let operation = run(pay(&client, "a").begin()).unwrap();
            (client, Some(operation))
        },
        |_, operation| Box::pin(async move { drop(operation.unwrap().send().await.unwrap()) }),
        one_effect,
    );
    assert!(points >= 20, "{points}");
}

#[test]
fn i19_settle_dropped_anywhere_is_done_or_not_and_never_half() {
    let points = at_every_point(
        |world| {
            world.server.fail(lost());
            let once = world.builder().policy(Policy::new().max_attempts(1));
            let once = once.build().unwrap();
            run(async { pay(&once, "a").begin().await?.send().await }).unwrap_err();
            drop(once);
            let client = pausing(world);
            let operation = run(client.unfinished()).unwrap().remove(0);
            (client, Some(operation))
        },
        |_, operation| Box::pin(async move { drop(operation.unwrap().settle(true, "seen").await) }),
        |world, client, context| {
            let settled = world.entries()[0].progress.phase.is_settled();
            let sent = world.sent();
            one_effect(world, client, context);
            if settled {
                assert_eq!(world.sent(), sent, "I12 {context}");
            }
        },
    );
    assert!(points >= 4, "{points}");
}

/// Cancels until it is cancelled; after that nothing is ever sent.
fn stays_cancelled(world: &World, client: &Client, context: &str) {
    let Some(operation) = run(client.list(samekey::journal::Select::All))
        .unwrap()
        .pop()
    else {
        return;
    };
    if !operation.phase().is_settled() {
        drop(run(operation.cancel()));
    }
    let sent = world.sent();
    let phase = world.entries()[0].progress.phase;
    if phase == Phase::Succeeded {
        return;
    }
    assert!(run(operation.resume()).is_err(), "{context}");
    assert_eq!(world.sent(), sent, "{context}");
    check(world, context);
    let stopped = [Phase::Abandoned, Phase::Attention(Reason::Cancelled)];
    assert!(stopped.contains(&phase), "{context}: {phase:?}");
}

#[test]
fn i19_cancel_dropped_anywhere_can_be_asked_again_and_then_nothing_is_sent() {
    for sent_before in [false, true] {
        let points = at_every_point(
            |world| {
                let client = pausing(world);
                let operation = run(pay(&client, "a").begin()).unwrap();
                if sent_before {
                    world.server.fail(lost());
                    poll_until(operation.send(), || world.sent() == 1);
                }
                (client, Some(operation))
            },
            |_, operation| Box::pin(async move { drop(operation.unwrap().cancel().await) }),
            stays_cancelled,
        );
        assert!(points >= 4, "{points}");
    }
}

#[test]
fn i19_send_dropped_anywhere_then_cancelled_stays_cancelled() {
    let points = at_every_point(
        |world| {
            rough(world);
            let client = pausing(world);
            let operation = run(pay(&client, "a").begin()).unwrap();
            (client, Some(operation))
        },
        |_, operation| Box::pin(async move { drop(operation.unwrap().send().await.unwrap()) }),
        stays_cancelled,
    );
    assert!(points >= 36, "{points}");
}

#[test]
fn i19_an_answer_that_was_here_when_the_caller_left_is_not_lost() {
    let mut recorded = 0;
    for polls in 0.. {
        let world = World::new();
        let client = pausing(&world);
        let operation = run(pay(&client, "a").begin()).unwrap();
        let done = poll_then_drop(operation.send(), polls).is_some();
        recorded += usize::from(world.entries()[0].progress.phase.is_settled());
        if done {
            break;
        }
    }
    // Written by the drop itself where the write had been asked for, and seen where it was done.
    assert!(recorded >= 2, "{recorded}");
}

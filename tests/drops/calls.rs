//! A future polled 0, 1, 2, … times and then dropped, for every asynchronous call.

use super::world::{Store, URL, World, pause, poll_then_drop, run};
use samekey::entry::{Entry, Owner};
use samekey::journal::Select;
use samekey::{Body, Client, Finding, Key, Operation, Phase, Policy, Reason};
use serde_json::json;
use std::collections::BTreeSet;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;

const BODY: &str = r#"{"amount":100}"#;

type Work<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// One call, and what must be true after it was dropped anywhere.
struct Call {
    name: &'static str,
    /// How often it is polled on a journal in memory, counted; SQLite takes no less. A smaller number
    /// would mean that there are points which nobody tries any more.
    least: usize,
    prepare: fn(&World<'_>) -> (Client, Option<Operation>),
    work: for<'a> fn(&'a Client, Option<&'a Operation>, &'a str) -> Work<'a>,
    after: fn(&World<'_>, &Client, &str),
}

/// Who goes on after the drop.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    /// The same client.
    Same,
    /// The next process.
    Successor,
    /// Another process, while the first one lives: nothing may be left that keeps it out.
    Rival,
}

const CALLS: &[Call] = &[
    Call {
        name: "begin",
        least: 2,
        prepare: |world| (world.pausing(), None),
        work: |client, _, intent| {
            Box::pin(async move { drop(request(client, intent).begin().await.unwrap()) })
        },
        after: pays,
    },
    Call {
        name: "send",
        least: 29,
        prepare: begun,
        work: |_, operation, _| {
            Box::pin(async move { drop(operation.unwrap().send().await.unwrap()) })
        },
        after: pays,
    },
    Call {
        name: "client.post",
        least: 30,
        prepare: |world| {
            world.rough();
            (world.pausing(), None)
        },
        work: |client, _, intent| {
            Box::pin(async move {
                drop(
                    client
                        .post(intent, URL, &json!({"amount": 100}))
                        .await
                        .unwrap(),
                );
            })
        },
        after: pays,
    },
    Call {
        name: "resume",
        least: 32,
        prepare: |world| {
            let prepared = doubtful(world);
            world.rough();
            prepared
        },
        work: |_, operation, _| {
            Box::pin(async move { drop(operation.unwrap().resume().await.unwrap()) })
        },
        after: pays,
    },
    Call {
        name: "resume_with",
        least: 32,
        prepare: |world| {
            let prepared = doubtful_with(world, Body::FingerprintOnly);
            world.rough();
            prepared
        },
        work: |_, operation, _| {
            Box::pin(async move { drop(operation.unwrap().resume_with(BODY).await.unwrap()) })
        },
        after: pays,
    },
    Call {
        name: "cancel",
        least: 4,
        prepare: begun,
        work: |_, operation, _| Box::pin(async move { drop(operation.unwrap().cancel().await) }),
        after: stops,
    },
    Call {
        name: "cancel in doubt",
        least: 4,
        prepare: doubtful,
        work: |_, operation, _| Box::pin(async move { drop(operation.unwrap().cancel().await) }),
        after: stops,
    },
    Call {
        name: "abandon",
        least: 4,
        prepare: doubtful,
        work: |_, operation, _| {
            Box::pin(async move { drop(operation.unwrap().abandon("no").await) })
        },
        after: stops,
    },
    Call {
        name: "settle",
        least: 4,
        prepare: doubtful,
        work: |_, operation, _| {
            Box::pin(async move { drop(operation.unwrap().settle(true, "seen").await) })
        },
        after: pays,
    },
    Call {
        name: "look_up",
        least: 5,
        prepare: doubtful,
        work: |_, operation, _| {
            Box::pin(async move { drop(operation.unwrap().look_up(look).await) })
        },
        after: pays,
    },
    Call {
        name: "refresh",
        least: 3,
        prepare: doubtful,
        work: |_, operation, _| Box::pin(async move { drop(operation.unwrap().refresh().await) }),
        after: pays,
    },
    Call {
        name: "unfinished",
        least: 3,
        prepare: doubtful,
        work: |client, _, _| Box::pin(async move { drop(client.unfinished().await.unwrap()) }),
        after: pays,
    },
    Call {
        name: "attention",
        least: 3,
        prepare: doubtful,
        work: |client, _, _| Box::pin(async move { drop(client.attention().await.unwrap()) }),
        after: pays,
    },
    Call {
        name: "list",
        least: 3,
        prepare: doubtful,
        work: |client, _, _| Box::pin(async move { drop(client.list(Select::All).await.unwrap()) }),
        after: pays,
    },
    Call {
        name: "find",
        least: 3,
        prepare: doubtful,
        work: |client, operation, _| {
            Box::pin(async move {
                let reference = operation.unwrap().reference();
                drop(client.find(reference).await.unwrap());
            })
        },
        after: pays,
    },
    Call {
        name: "get",
        least: 3,
        prepare: doubtful,
        work: |client, operation, _| {
            Box::pin(async move {
                drop(client.get(operation.unwrap().reference()).await.unwrap());
            })
        },
        after: pays,
    },
    Call {
        name: "repeat",
        least: 4,
        prepare: settled,
        work: |client, operation, _| {
            Box::pin(async move {
                let reference = operation.unwrap().reference();
                drop(client.repeat(reference).begin().await.unwrap());
            })
        },
        after: repeats,
    },
    Call {
        name: "forget",
        least: 3,
        prepare: settled,
        work: |_, operation, _| Box::pin(async move { drop(operation.unwrap().forget().await) }),
        after: sends_no_more,
    },
    Call {
        name: "reap",
        least: 3,
        prepare: settled,
        work: |client, _, _| Box::pin(async move { assert!(client.reap().await.is_ok()) }),
        after: sends_no_more,
    },
];

fn request(client: &Client, intent: &str) -> samekey::OperationBuilder {
    let request = client.operation(intent).post(URL);
    request.json(&json!({"amount": 100}))
}

async fn look(_: Key) -> Finding {
    pause().await;
    Finding::Happened("seen".into())
}

fn begun(world: &World<'_>) -> (Client, Option<Operation>) {
    world.rough();
    let client = world.pausing();
    let operation = run(world.pay(&client).begin()).unwrap();
    (client, Some(operation))
}

/// Sent once; the answer was lost.
fn doubtful(world: &World<'_>) -> (Client, Option<Operation>) {
    doubtful_with(world, Body::Stored)
}

fn doubtful_with(world: &World<'_>, keep: Body) -> (Client, Option<Operation>) {
    world.lose_one();
    let once = world.client_with(|builder| builder.policy(Policy::new().max_attempts(1)));
    let operation = run(world.pay(&once).keep(keep).begin()).unwrap();
    assert!(run(operation.send()).unwrap_err().is_unresolved());
    let reference = operation.reference();
    drop((operation, once));
    let client = world.pausing();
    let operation = run(client.get(reference)).unwrap();
    (client, Some(operation))
}

fn settled(world: &World<'_>) -> (Client, Option<Operation>) {
    let client = world.pausing();
    let operation = run(world.pay(&client).begin()).unwrap();
    assert!(run(operation.send()).unwrap().is_success());
    (client, Some(operation))
}

/// What can be seen from outside, at any time.
fn check(world: &World<'_>, generations: usize, context: &str) {
    let posts = world.posts();
    let keys: BTreeSet<_> = posts
        .iter()
        .map(|seen| seen.header("idempotency-key"))
        .collect();
    assert!(keys.len() <= generations, "I2 {context}: {keys:?}");
    let bodies: BTreeSet<_> = posts.iter().map(|seen| &seen.body).collect();
    assert!(bodies.len() <= 1, "I3 {context}");
    let entries = world.entries();
    assert!(entries.len() <= generations, "I18 {context}");
    for key in keys.iter().flatten() {
        let known = |entry: &Entry| entry.key().as_str() == *key;
        // What was forgotten on purpose leaves a tombstone and no entry.
        assert!(
            entries.iter().any(known) || entries.is_empty(),
            "I1 {context}"
        );
    }
    if let ([entry], true) = (entries.as_slice(), world.reached()) {
        let progress = &entry.progress;
        if progress.phase.is_open() {
            assert!(progress.maybe_applied, "I8 {context}: {progress:?}");
        }
    }
}

/// Whatever was left is finished: one key, one effect, and no request more than it takes.
fn pays(world: &World<'_>, client: &Client, context: &str) {
    let over = world
        .entries()
        .first()
        .is_some_and(|entry| entry.progress.phase.is_settled());
    let before = world.posts().len();
    let operation = run(world.pay(client).begin()).unwrap();
    let outcome = run(operation.send());
    let outcome = outcome.unwrap_or_else(|error| panic!("{context}: {error:?}"));
    assert!(outcome.is_success(), "{context}");
    check(world, 1, context);
    let posts = world.posts().len();
    // A lost answer first; then the four troubles, the success, and once more what a drop lost.
    assert!((1..=7).contains(&posts), "{context}: {posts} requests");
    if over {
        assert_eq!(posts, before, "I12 {context}");
    }
    assert_eq!(
        world.entries()[0].progress.phase,
        Phase::Succeeded,
        "{context}"
    );
}

/// Stopped, at the latest when asked again; after that nothing is ever sent.
fn stops(world: &World<'_>, client: &Client, context: &str) {
    let reference = world.entries()[0].reference();
    let operation = run(client.get(reference)).unwrap();
    if !operation.phase().is_settled() {
        drop(run(operation.cancel()));
    }
    let sent = world.posts().len();
    assert!(run(operation.resume()).is_err(), "{context}");
    assert_eq!(world.posts().len(), sent, "{context}");
    let phase = world.entries()[0].progress.phase;
    let stopped = [Phase::Abandoned, Phase::Attention(Reason::Cancelled)];
    assert!(stopped.contains(&phase), "{context}: {phase:?}");
}

/// The repeat is begun or not; asked for again it is one more generation, not two.
fn repeats(world: &World<'_>, client: &Client, context: &str) {
    let first = world.entries()[0].reference();
    let repeat = run(client.repeat(first).begin()).unwrap();
    assert!(run(repeat.send()).unwrap().is_success(), "{context}");
    check(world, 2, context);
    assert_eq!(world.posts().len(), 2, "{context}");
    assert_eq!(world.entries().len(), 2, "{context}");
}

/// A settled operation stays so, as an entry or as a tombstone.
fn sends_no_more(world: &World<'_>, client: &Client, context: &str) {
    if let Ok(operation) = run(world.pay(client).begin()) {
        assert!(run(operation.send()).unwrap().is_success(), "{context}");
    }
    assert_eq!(world.posts().len(), 1, "{context}");
}

/// Drops one call after so many polls; says whether it had ended by then.
fn drop_after(world: &World<'_>, call: &Call, polls: usize, then: Then) -> bool {
    let context = format!("{} dropped after {polls} polls, then {then:?}", call.name);
    let (client, operation) = (call.prepare)(world);
    let work = (call.work)(&client, operation.as_ref(), &world.intent);
    let ended = poll_then_drop(work, polls).is_some();
    let generations = if call.name == "repeat" { 2 } else { 1 };
    match then {
        Then::Same => {
            (call.after)(world, &client, &context);
        }
        Then::Successor => {
            drop((operation, client));
            let next = world.successor();
            check(world, generations, &context);
            (call.after)(world, &next, &context);
        }
        Then::Rival => {
            drop(operation);
            world.store.catch_up();
            check(world, generations, &context);
            (call.after)(world, &world.rival(), &context);
        }
    }
    check(world, generations, &context);
    ended
}

/// Drops a call at every point; returns how many there were.
fn at_every_point(store: &Store, call: &Call, thens: &[Then]) -> usize {
    for polls in 0..1000 {
        let mut ended = false;
        for (number, then) in thens.iter().enumerate() {
            let world = World::new(store, polls * thens.len() + number);
            ended = drop_after(&world, call, polls, *then);
        }
        if ended {
            return polls;
        }
    }
    panic!("{} never ends", call.name);
}

#[test]
fn i19_every_call_dropped_anywhere_leaves_nothing_lost_and_nobody_kept_out() {
    let mut hollow = Vec::new();
    for call in CALLS {
        let store = Store::memory();
        let thens = [Then::Same, Then::Successor, Then::Rival];
        let points = at_every_point(&store, call, &thens);
        println!("{}: {points} points", call.name);
        if points < call.least {
            hollow.push(format!("{}: {points} of {}", call.name, call.least));
        }
    }
    assert!(hollow.is_empty(), "too few await points: {hollow:?}");
}

#[test]
fn i19_on_sqlite_every_call_dropped_anywhere_leaves_nothing_lost_and_nobody_kept_out() {
    for call in CALLS {
        let store = Store::sqlite();
        let mut points = 0;
        // Each point once: who goes on takes turns.
        for polls in 0..1000 {
            let world = World::new(&store, polls);
            let then = [Then::Rival, Then::Successor, Then::Same][polls % 3];
            if drop_after(&world, call, polls, then) {
                break;
            }
            points += 1;
        }
        println!("{}: {points} points", call.name);
        assert!(points >= call.least, "{}: {points} points", call.name);
    }
}

/// However slow the writer is: what a drop has started is written behind it, before what comes later.
#[test]
fn on_sqlite_what_a_drop_has_started_is_written_in_order() {
    let store = Store::sqlite();
    let world = World::new(&store, 0);
    let client = world.pausing();
    let mine = run(world.pay(&client).begin()).unwrap();
    let turn = store.hold_up();
    drop(mine);
    // Looking waits for no write, so it is no way to wait for one.
    run(client.reap()).unwrap();
    let owner = || world.entries()[0].progress.owner;
    assert_eq!(owner(), store.owner());
    drop(turn);
    store.catch_up();
    assert_eq!(owner(), Owner::NONE);
    pays(
        &world,
        &world.rival(),
        "let go while the writer was held up",
    );
}

/// Found here: the claim was written, nobody drove it, and nobody else could.
#[test]
fn a_claim_whose_caller_left_before_it_was_answered_keeps_nobody_out() {
    let store = Store::memory();
    let world = World::new(&store, 0);
    let (client, operation) = doubtful(&world);
    let revision = || world.entries()[0].progress.revision;
    let before = revision();
    let left = (1..10).find(|polls| {
        assert!(poll_then_drop(operation.as_ref().unwrap().resume(), *polls).is_none());
        revision() > before
    });
    assert!(left.is_some() && world.posts().len() == 1, "{left:?}");
    pays(&world, &world.rival(), "the claim was left");
    drop(client);
}

/// The twin: where a write does not start when it is first polled, a drop leaves its lease behind.
#[test]
fn a_lease_that_a_drop_leaves_behind_is_noticed() {
    let send = CALLS.iter().find(|call| call.name == "send").unwrap();
    let noticed = (0..40).any(|polls| {
        let store = Store::memory();
        let mut world = World::new(&store, polls);
        world.lazy = true;
        catch_unwind(AssertUnwindSafe(|| {
            drop_after(&world, send, polls, Then::Rival)
        }))
        .is_err()
    });
    assert!(noticed);
}

/// The twin: whoever begins anew instead of going on is noticed by the wire.
#[test]
fn a_second_key_after_a_drop_is_noticed() {
    let store = Store::memory();
    let world = World::new(&store, 0);
    let (client, operation) = begun(&world);
    poll_then_drop(operation.as_ref().unwrap().send(), 8);
    let anew = run(request(&client, "another name").begin()).unwrap();
    run(anew.send()).unwrap();
    let noticed = catch_unwind(AssertUnwindSafe(|| check(&world, 1, "begun anew")));
    assert!(noticed.is_err());
}

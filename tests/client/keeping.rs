//! What the journal keeps of bodies and answers: plain, sealed, or only a fingerprint.

use super::support::{Hooked, URL, World, answer, lost, pay, run};
use samekey::entry::{Entry, Kept, Owner};
use samekey::journal::{
    Begun, Journal, JournalError, Listing, Liveness, Query, Reaped, Receipt, Retention, Write,
};
use samekey::profile::Profile;
use samekey::seam::BoxFuture;
use samekey::{
    Body, Client, ClientBuilder, Content, ErrorKind, Grade, Key, MemoryJournal, Policy, Reference,
    Scope, SealingKey,
};
use std::sync::Arc;

const BODY: &[u8] = br#"{"amount":100}"#;

/// A client that gives up after one attempt, so that a lost answer leaves the entry open.
fn once(world: &World) -> ClientBuilder {
    world.builder().policy(Policy::new().max_attempts(1))
}

fn sealed(world: &World, keys: &[u8]) -> Client {
    let builder = once(world).body(Body::Sealed);
    keys.iter()
        .fold(builder, |b, key| b.seal_with(SealingKey::new([*key; 32])))
        .build()
        .unwrap()
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack
        .windows(needle.len())
        .any(|window| window == needle)
}

/// All bytes that the journal holds of bodies and answers.
fn kept(world: &World) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in world.entries() {
        let answer = entry.progress.answer.map(|answer| answer.body);
        for kept in [Some(entry.frozen.body.clone()), answer]
            .into_iter()
            .flatten()
        {
            match kept {
                Kept::Plain(plain) => bytes.extend_from_slice(&plain),
                Kept::Sealed(sealed) => bytes.extend(sealed),
                _ => {}
            }
        }
    }
    bytes
}

#[test]
fn i3_fingerprint_only_resumes_with_the_same_body_and_refuses_another() {
    let world = World::new();
    let client = once(&world).body(Body::FingerprintOnly).build().unwrap();
    world.server.fail(lost());
    let operation = run(pay(&client, "a").begin()).unwrap();
    assert!(run(operation.send()).unwrap_err().is_unresolved());
    assert!(kept(&world).is_empty());
    drop((operation, client));
    let client = once(&world).build().unwrap();
    let left = run(client.unfinished()).unwrap().remove(0);
    let error = run(left.resume()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BodyNeeded);
    assert!(error.is_unresolved());
    assert!(
        error.to_string().contains("resume it with the body"),
        "{error}"
    );
    let error = run(left.resume_with(br#"{"amount":900}"#)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BodyMismatch);
    assert!(
        error.is_unresolved(),
        "the first attempt may have been applied"
    );
    assert_eq!(world.sent(), 1, "nothing was sent");
    world.server.answer(answer(201, &[], "paid"));
    let outcome = run(left.resume_with(BODY)).unwrap();
    assert_eq!(outcome.text(), Some("paid"));
    assert_eq!(*run(left.resume()).unwrap().content(), Content::NotKept);
    let requests = world.requests();
    assert_eq!(requests[0], requests[1]);
    assert!(kept(&world).is_empty(), "nor is the answer kept");
}

#[test]
fn fingerprint_only_is_resumed_by_a_caller_who_begins_again() {
    let world = World::new();
    let client = || once(&world).body(Body::FingerprintOnly);
    let first = client().profile(Profile::square()).build().unwrap();
    world.server.fail(lost());
    let operation = run(pay(&first, "a").begin()).unwrap();
    run(operation.send()).unwrap_err();
    drop((operation, first));
    let second = client().profile(Profile::square()).build().unwrap();
    let operation = run(pay(&second, "a").begin()).unwrap();
    run(operation.send()).unwrap();
    let requests = world.requests();
    assert_eq!(requests[0].body, requests[1].body, "with the key inside");
}

#[test]
fn stored_is_the_default_and_survives_without_anyones_help() {
    let world = World::new();
    let client = once(&world).build().unwrap();
    world.server.fail(lost());
    run(async { pay(&client, "a").begin().await?.send().await }).unwrap_err();
    assert!(contains(&kept(&world), BODY));
    drop(client);
    let client = world.client();
    let left = run(client.unfinished()).unwrap().remove(0);
    assert!(run(left.resume()).unwrap().is_success());
    assert_eq!(world.requests()[1].body, BODY);
}

#[test]
fn sealed_bodies_and_answers_are_unreadable_in_the_journal_and_readable_with_the_key() {
    let world = World::new();
    let client = sealed(&world, &[1]);
    world.server.fail(lost());
    run(async { pay(&client, "a").begin().await?.send().await }).unwrap_err();
    assert!(!contains(&kept(&world), b"amount"));
    drop(client);
    let client = sealed(&world, &[1]);
    world.server.answer(answer(201, &[], "the secret receipt"));
    let left = run(client.unfinished()).unwrap().remove(0);
    run(left.resume()).unwrap();
    assert_eq!(world.requests()[1].body, BODY);
    assert!(!contains(&kept(&world), b"secret"));
    drop((left, client));
    let client = sealed(&world, &[1]);
    let found = run(pay(&client, "a").begin()).unwrap();
    assert_eq!(
        run(found.send()).unwrap().text(),
        Some("the secret receipt")
    );
    assert_eq!(world.sent(), 2);
}

#[test]
fn a_wrong_sealing_key_is_locked_and_never_damaged_or_dropped() {
    let world = World::new();
    let client = sealed(&world, &[1]);
    world.server.fail(lost());
    run(async { pay(&client, "a").begin().await?.send().await }).unwrap_err();
    run(async { pay(&client, "done").begin().await?.send().await }).unwrap();
    drop(client);
    for keys in [&[2][..], &[]] {
        let client = match keys {
            [] => once(&world).build().unwrap(),
            keys => sealed(&world, keys),
        };
        let left = run(client.unfinished()).unwrap().remove(0);
        let error = run(left.resume()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
        assert_eq!(error.reference(), Some(left.reference()));
        assert!(error.is_unresolved() && !error.nothing_was_sent());
        let done = run(client.list(samekey::journal::Select::Settled)).unwrap();
        let error = run(done[0].send()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
        assert_eq!(error.reference(), Some(done[0].reference()));
        assert!(!error.nothing_was_sent(), "it was sent, and answered");
        assert_eq!(world.sent(), 2);
    }
    let client = sealed(&world, &[1]);
    let left = run(client.unfinished()).unwrap().remove(0);
    assert!(run(left.resume()).unwrap().is_success());
}

#[test]
fn sealing_keys_rotate_the_first_seals_and_all_of_them_open() {
    let world = World::new();
    let old = sealed(&world, &[1]);
    world.server.fail(lost());
    run(async { pay(&old, "a").begin().await?.send().await }).unwrap_err();
    drop(old);
    let both = sealed(&world, &[2, 1]);
    let left = run(both.unfinished()).unwrap().remove(0);
    run(left.resume()).unwrap();
    run(async { pay(&both, "b").begin().await?.send().await }).unwrap();
    drop((left, both));
    // What was sealed since needs only the new key.
    let new = sealed(&world, &[2]);
    assert_eq!(
        run(run(pay(&new, "b").begin()).unwrap().send())
            .unwrap()
            .status(),
        201
    );
    assert_eq!(
        run(run(pay(&new, "a").begin()).unwrap().send())
            .unwrap()
            .status(),
        201
    );
    assert_eq!(world.sent(), 3);
}

/// A journal in which somebody with access to the file swapped two sealed bodies.
struct Swapped(MemoryJournal);

impl Swapped {
    fn swap(&self, mut entry: Entry) -> Entry {
        let all = run(self.0.list(Query::default())).unwrap().entries;
        let other = all.iter().find(|other| other.slot != entry.slot).unwrap();
        let mut frozen = (*entry.frozen).clone();
        frozen.body = other.frozen.body.clone();
        frozen.body_digest = other.frozen.body_digest;
        entry.frozen = Arc::new(frozen);
        entry
    }
}

impl Journal for Swapped {
    fn grade(&self) -> Grade {
        self.0.grade()
    }
    fn owner(&self) -> Owner {
        self.0.owner()
    }
    fn begin(&self, entry: Entry) -> BoxFuture<'_, Result<Begun, JournalError>> {
        self.0.begin(entry)
    }
    fn record(&self, write: Write) -> BoxFuture<'_, Result<Receipt, JournalError>> {
        self.0.record(write)
    }
    fn load(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<Option<Entry>, JournalError>> {
        Box::pin(async move {
            let entry = self.0.load(slot, key).await?;
            Ok(entry.map(|entry| self.swap(entry)))
        })
    }
    fn list(&self, query: Query) -> BoxFuture<'_, Result<Listing, JournalError>> {
        Box::pin(async move {
            let mut listing = self.0.list(query).await?;
            listing.entries = listing.entries.into_iter().map(|e| self.swap(e)).collect();
            Ok(listing)
        })
    }
    fn find(
        &self,
        reference: Reference,
        scope: Option<Scope>,
    ) -> BoxFuture<'_, Result<Listing, JournalError>> {
        self.0.find(reference, scope)
    }
    fn liveness(&self, owner: Owner) -> BoxFuture<'_, Result<Liveness, JournalError>> {
        self.0.liveness(owner)
    }
    fn forget(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<(), JournalError>> {
        self.0.forget(slot, key)
    }
    fn reap(&self, retention: Retention) -> BoxFuture<'_, Result<Reaped, JournalError>> {
        self.0.reap(retention)
    }
}

/// Resumes the first of two entries whose bodies were swapped behind the client's back.
fn resume_swapped(world: &World, mode: Body) -> Result<samekey::Outcome, samekey::Error> {
    let keyed = |builder: ClientBuilder| {
        let builder = builder.body(mode).policy(Policy::new().max_attempts(1));
        builder.seal_with(SealingKey::new([1; 32])).build().unwrap()
    };
    let client = keyed(world.builder());
    for (intent, amount) in [("a", 1), ("b", 900)] {
        let json = serde_json::json!({"amount": amount});
        let operation = client.operation(intent).post(URL).json(&json);
        drop(run(operation.begin()).unwrap());
    }
    drop(client);
    let parts = world.parts_on(Swapped(world.memory.reopen()));
    let client = keyed(Client::with_parts("shop", parts));
    let left = run(client.unfinished()).unwrap().remove(0);
    run(left.resume())
}

#[test]
fn a_sealed_body_that_was_moved_to_another_entry_does_not_open() {
    let world = World::new();
    let error = resume_swapped(&world, Body::Sealed).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(error.to_string().contains("altered"), "{error}");
    assert_eq!(world.sent(), 0);
}

#[test]
fn a_sealed_body_twin_the_swap_is_real_where_nothing_is_sealed() {
    // Here only the store's digest over the whole entry would notice; this store has none.
    let world = World::new();
    assert!(resume_swapped(&world, Body::Stored).is_ok());
    assert_eq!(world.requests()[0].body, br#"{"amount":900}"#);
}

#[test]
fn a_repeat_keeps_as_little_as_the_operation_it_repeats() {
    let world = World::new();
    let key = SealingKey::new([1; 32]);
    let client = world.builder().seal_with(key).build().unwrap();
    let first = run(pay(&client, "a").keep(Body::Sealed).begin()).unwrap();
    run(first.send()).unwrap();
    run(client.repeat(first.reference()).begin()).unwrap();
    assert!(!contains(&kept(&world), b"amount"));
}

#[test]
fn debug_of_a_builder_shows_neither_body_nor_query() {
    let world = World::new();
    let parts = world.parts_on(Hooked::pausing(world.memory.reopen()));
    let client = Client::with_parts("shop", parts).build().unwrap();
    let operation = client
        .operation("a")
        .post("https://api.example.com/x?token=hunter2")
        .body("hunter2", "text/plain");
    let text = format!("{operation:?}");
    assert!(!text.contains("hunter2"), "{text}");
    assert!(!text.contains("104, 117"), "not as numbers either: {text}");
    assert!(text.contains("https://api.example.com/x"), "{text}");
}

//! Begin is the commitment: one intent, one key, durable before the first byte.

use super::support::{Call, HOUR, Hooked, URL, World, answer, lost, pay, run};
use samekey::entry::{Entry, Owner, Phase};
use samekey::journal::{
    Begun, Journal, JournalError, Listing, Liveness, Query, Reaped, Receipt, Retention, Write,
};
use samekey::machine::{Permit, Probe};
use samekey::seam::BoxFuture;
use samekey::transport::Transport;
use samekey::{
    Client, ErrorKind, Failure, Grade, Key, MemoryJournal, Profile, Reason, Reference, Response,
    Scope,
};
use serde_json::json;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Looks into the journal's memory, past the client's handle, whenever a request leaves.
struct Monitor {
    inner: samekey::testing::ScriptedTransport,
    memory: MemoryJournal,
    not_durable: Arc<AtomicUsize>,
    seen: Arc<AtomicUsize>,
}

impl Transport for Monitor {
    fn send(&self, permit: Permit) -> BoxFuture<'_, Result<Response, Failure>> {
        let found = run(self.memory.find(permit.reference(), None)).unwrap();
        let durable = found.entries.iter().any(|entry| {
            entry.frozen.url.as_ref() == permit.url() && entry.frozen.method == permit.method()
        });
        self.seen.fetch_add(1, Ordering::Relaxed);
        self.not_durable
            .fetch_add(usize::from(!durable), Ordering::Relaxed);
        self.inner.send(permit)
    }

    fn probe(&self, probe: Probe) -> BoxFuture<'_, Result<Response, Failure>> {
        self.inner.probe(probe)
    }
}

/// A store that says yes first and writes later.
struct Hasty {
    inner: MemoryJournal,
    owed: Mutex<Vec<Entry>>,
}

impl Journal for Hasty {
    fn grade(&self) -> Grade {
        Grade::Device
    }
    fn owner(&self) -> Owner {
        self.inner.owner()
    }
    fn begin(&self, mut entry: Entry) -> BoxFuture<'_, Result<Begun, JournalError>> {
        entry.slot = 1;
        let receipt = Receipt::new(entry.key().clone(), 1, 1, Grade::Device);
        self.owed.lock().unwrap().push(entry);
        Box::pin(async move { Ok(Begun::Created(receipt)) })
    }
    fn record(&self, write: Write) -> BoxFuture<'_, Result<Receipt, JournalError>> {
        for entry in self.owed.lock().unwrap().drain(..) {
            run(self.inner.begin(entry)).unwrap();
        }
        self.inner.record(write)
    }
    fn load(&self, _: u64, _: Key) -> BoxFuture<'_, Result<Option<Entry>, JournalError>> {
        let owed = self.owed.lock().unwrap().first().cloned();
        Box::pin(async move { Ok(owed) })
    }
    fn list(&self, query: Query) -> BoxFuture<'_, Result<Listing, JournalError>> {
        self.inner.list(query)
    }
    fn find(
        &self,
        reference: Reference,
        scope: Option<Scope>,
    ) -> BoxFuture<'_, Result<Listing, JournalError>> {
        self.inner.find(reference, scope)
    }
    fn liveness(&self, owner: Owner) -> BoxFuture<'_, Result<Liveness, JournalError>> {
        self.inner.liveness(owner)
    }
    fn forget(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<(), JournalError>> {
        self.inner.forget(slot, key)
    }
    fn reap(&self, retention: Retention) -> BoxFuture<'_, Result<Reaped, JournalError>> {
        self.inner.reap(retention)
    }
}

/// How many requests left, and how many of them before their entry was written.
fn sends_before_durable(world: &World, journal: impl Journal + 'static) -> (usize, usize) {
    let (seen, not_durable) = (Arc::default(), Arc::default());
    let mut parts = world.parts_on(journal);
    parts.transport = Arc::new(Monitor {
        inner: world.server.clone(),
        memory: world.memory.clone(),
        not_durable: Arc::clone(&not_durable),
        seen: Arc::clone(&seen),
    });
    let client = Client::with_parts("shop", parts).build().unwrap();
    world.server.fail(lost());
    let outcome = run(async { pay(&client, "invoice/42").begin().await?.send().await });
    assert!(outcome.unwrap().is_success());
    (
        seen.load(Ordering::Relaxed),
        not_durable.load(Ordering::Relaxed),
    )
}

#[test]
fn i1_every_request_finds_its_entry_written_when_it_leaves() {
    let world = World::new();
    assert_eq!(sends_before_durable(&world, world.memory.reopen()), (2, 0));
}

#[test]
fn i1_twin_a_store_that_acknowledges_before_it_writes_is_caught() {
    let world = World::new();
    let hasty = Hasty {
        inner: world.memory.reopen(),
        owed: Mutex::default(),
    };
    assert_eq!(sends_before_durable(&world, hasty), (2, 1));
}

#[test]
fn i1_begin_alone_sends_nothing_and_shows_the_reference() {
    let world = World::new();
    let client = world.client();
    let operation = run(pay(&client, "invoice/42").begin()).unwrap();
    assert_eq!(operation.phase(), Phase::Ready);
    assert_eq!(world.sent(), 0);
    assert_eq!(world.entries().len(), 1);
    assert_eq!(world.entries()[0].reference(), operation.reference());
}

#[test]
fn i18_the_same_intent_joins_while_open_and_after_the_end() {
    let world = World::new();
    let client = world.client();
    let first = run(pay(&client, "invoice/42").begin()).unwrap();
    let second = run(pay(&client, "invoice/42").begin()).unwrap();
    assert_eq!(first.key(), second.key());
    let outcome = run(second.send()).unwrap();
    // Neither a third begin nor the first handle sends what has ended.
    let third = run(pay(&client, "invoice/42").begin()).unwrap();
    for operation in [&first, &second, &third] {
        assert_eq!(operation.key(), *outcome.key());
        assert_eq!(run(operation.send()).unwrap().status(), 201);
    }
    assert_eq!(world.sent(), 1);
    assert_eq!(world.entries().len(), 1);
}

#[test]
fn i18_twin_another_intent_is_another_action() {
    let world = World::new();
    let client = world.client();
    run(client.post("invoice/42", URL, &json!({"amount": 100}))).unwrap();
    run(client.post("invoice/43", URL, &json!({"amount": 100}))).unwrap();
    assert_eq!(world.keys().len(), 2);
}

#[test]
fn e24_another_amount_under_the_same_intent_is_refused_before_anything_is_sent() {
    for finished in [false, true] {
        let world = World::new();
        let client = world.client();
        let first = run(pay(&client, "invoice/42").begin()).unwrap();
        if finished {
            run(first.send()).unwrap();
        }
        let sent = world.sent();
        let error = run(client.post("invoice/42", URL, &json!({"amount": 900}))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FingerprintMismatch);
        assert_eq!(error.reference(), Some(first.reference()));
        let text = error.to_string();
        let old = first.entry().frozen.fingerprint.to_string();
        assert!(text.contains(&old), "{text}");
        let shown = text.split_whitespace();
        let digests = shown.filter(|word| {
            let word = word.trim_end_matches('.').trim_end_matches(',');
            word.len() == 16 && word.bytes().all(|b| b.is_ascii_hexdigit())
        });
        assert_eq!(digests.count(), 2, "both fingerprints: {text}");
        assert!(text.contains("repeat"), "{text}");
        assert_eq!(world.sent(), sent, "nothing is sent for the second");
        assert_eq!(world.entries().len(), 1);
    }
}

#[test]
fn i16_another_principal_has_an_operation_of_its_own_and_does_not_see_the_first() {
    let world = World::new();
    let anna = world.builder().principal("anna").build().unwrap();
    let ben = world.builder().principal("ben").build().unwrap();
    let hers = run(pay(&anna, "cart").begin()).unwrap();
    let his = run(pay(&ben, "cart").begin()).unwrap();
    assert_ne!(hers.key(), his.key());
    let found = run(ben.unfinished()).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].key(), his.key());
    assert!(run(ben.find(hers.reference())).unwrap().is_empty());
    let error = run(ben.get(hers.reference())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    // A control: its own owner finds it.
    assert_eq!(run(anna.get(hers.reference())).unwrap().key(), hers.key());
    let error = run(ben.repeat(hers.reference()).begin()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn i16_a_resume_for_another_principal_is_refused_even_if_the_store_does_not_filter() {
    let world = World::new();
    let anna = world.builder().principal("anna").build().unwrap();
    world.server.fail(lost());
    let hers = run(pay(&anna, "cart").begin()).unwrap();
    run(hers.send()).unwrap();
    let sent = world.sent();
    let second = run(pay(&anna, "cart/2").begin()).unwrap();
    let reference = second.reference();
    drop((hers, second, anna));
    let parts = world.parts_on(Hooked::blind(world.memory.reopen()));
    let ben = Client::with_parts("shop", parts)
        .principal("ben")
        .build()
        .unwrap();
    let hers = run(ben.get(reference)).unwrap();
    let error = run(hers.resume()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OtherScope);
    assert_eq!(error.reference(), Some(reference));
    assert_eq!(world.sent(), sent, "nothing was sent");
}

#[test]
fn adopted_keys_go_out_byte_for_byte() {
    let world = World::new();
    let client = world.client();
    let inbound = "Order-7_fromUpstream";
    let operation = run(pay(&client, "a").adopt_key(inbound).begin()).unwrap();
    run(operation.send()).unwrap();
    assert_eq!(world.keys().into_iter().collect::<Vec<_>>(), [inbound]);
    // Again, with the same key: joined. With another: refused, the older reference is named.
    let again = run(pay(&client, "a").adopt_key(inbound).begin()).unwrap();
    assert_eq!(again.key().as_str(), inbound);
    let error = run(pay(&client, "a").adopt_key("another").begin()).unwrap_err();
    assert_eq!(error.reference(), Some(operation.reference()));
    assert_eq!(world.sent(), 1);
}

#[test]
fn e43_keys_that_could_not_stand_in_a_header_are_refused() {
    let world = World::new();
    let client = world.client();
    for bad in [
        "", " a", "a ", "a b", "a\rb", "a\nb", "a\0b", "a\tb", "a\u{7f}", "ä",
    ] {
        let error = run(pay(&client, "a").adopt_key(bad).begin()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{bad:?}");
        assert!(error.nothing_was_sent());
    }
    assert!(world.entries().is_empty());
}

#[test]
fn e47_a_key_over_the_providers_limit_is_refused_and_never_shortened() {
    let world = World::new();
    let client = world.builder().profile(Profile::adyen()).build().unwrap();
    let fits = "k".repeat(64);
    let error = run(pay(&client, "a").adopt_key(&"k".repeat(65)).begin()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    assert!(error.to_string().contains("65"), "{error}");
    assert!(error.nothing_was_sent());
    assert!(world.entries().is_empty());
    let operation = run(pay(&client, "a").adopt_key(&fits).begin()).unwrap();
    assert_eq!(operation.key().as_str(), fits);
}

#[test]
fn e57_a_body_with_the_time_in_it_is_frozen_and_joins_by_what_identifies_it() {
    let world = World::new();
    let client = world.client();
    let begin = |client: &Client, at: u64| {
        let body = json!({"amount": 100, "at": at});
        client
            .operation("cart")
            .post(URL)
            .json(&body)
            .fingerprint_over(&json!({"amount": 100}))
    };
    world.server.fail(lost());
    world.server.answer(answer(503, &[], ""));
    let first = run(begin(&client, 1).begin()).unwrap();
    let second = run(begin(&client, 2).begin()).unwrap();
    assert_eq!(first.key(), second.key());
    run(second.send()).unwrap();
    let bodies = world.requests().into_iter().map(|seen| seen.body);
    let bodies: std::collections::BTreeSet<_> = bodies.collect();
    assert_eq!(bodies.len(), 1);
    assert!(String::from_utf8_lossy(bodies.first().unwrap()).contains("\"at\":1"));
    // The twin: without saying what identifies it, the second is another request.
    let plain = |at: u64| {
        client
            .operation("cart/plain")
            .post(URL)
            .json(&json!({"at": at}))
    };
    run(plain(1).begin()).unwrap();
    let error = run(plain(2).begin()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FingerprintMismatch);
}

#[test]
fn e57_maps_in_any_order_freeze_the_same_bytes() {
    let world = World::new();
    let client = world.client();
    let names: Vec<String> = (0..64).map(|n| format!("member-{n}")).collect();
    let mut key = None;
    for _ in 0..8 {
        // Every HashMap has an order of its own.
        let map: HashMap<&str, HashMap<&str, u8>> = names
            .iter()
            .map(|name| (name.as_str(), HashMap::from([("a", 1), ("b", 2), ("c", 3)])))
            .collect();
        let operation = client.operation("cart").post(URL).json(&map);
        let operation = run(operation.begin()).unwrap();
        assert_eq!(operation.key(), *key.get_or_insert(operation.key()));
    }
    assert_eq!(world.entries().len(), 1);
}

#[test]
fn e49_the_key_stands_in_its_header_only_and_never_in_a_url_or_debug_text() {
    let world = World::new();
    let client = world.client();
    let operation = run(pay(&client, "cart").begin()).unwrap();
    let key = operation.key();
    let outcome = run(operation.send()).unwrap();
    let seen = &world.requests()[0];
    assert_eq!(seen.header("idempotency-key"), Some(key.as_str()));
    assert!(!seen.url.contains(key.as_str()));
    assert!(!String::from_utf8_lossy(&seen.body).contains(key.as_str()));
    let texts = [
        format!("{operation:?}"),
        format!("{outcome:?}"),
        format!("{key:?}"),
        format!("{:?}", operation.entry()),
        format!("{client:?}"),
        format!("{:?}", pay(&client, "other").adopt_key(key.as_str())),
    ];
    for text in texts {
        assert!(!text.contains(key.as_str()), "{text}");
    }
}

#[test]
fn a_window_that_passed_before_the_first_send_begins_anew_since_nothing_was_sent() {
    let world = World::new();
    let client = world.client();
    let operation = run(pay(&client, "cart").begin()).unwrap();
    world.clock.advance(25 * HOUR);
    assert!(run(operation.send()).unwrap().is_success());
    let start = operation.entry().progress.window_start;
    assert!(
        start > operation.entry().frozen.begun_at,
        "re-armed, durably"
    );
    assert_eq!(world.keys().len(), 1);
}

#[test]
fn e11_twin_once_something_may_have_been_sent_the_window_stays_closed() {
    let world = World::new();
    let client = world.client();
    world.server.fail(lost());
    let operation = run(pay(&client, "cart").begin()).unwrap();
    drop(super::support::poll_then_drop(operation.send(), 0));
    let policy = samekey::Policy::new().max_attempts(1);
    let once = world.builder().policy(policy).build().unwrap();
    drop((operation, client));
    let operation = run(pay(&once, "cart").begin()).unwrap();
    let error = run(operation.send()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Attention(Reason::Exhausted));
    world.clock.advance(25 * HOUR);
    let error = run(operation.send()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Attention(Reason::WindowClosed));
    assert!(error.is_unresolved());
    assert_eq!(world.sent(), 1);
}

#[test]
fn i11_no_begin_no_send() {
    let world = World::new();
    let refuse = |call: Call<'_>| match call {
        Call::Begin => Err(samekey::journal::JournalErrorKind::Busy),
        _ => Ok(()),
    };
    let parts = world.parts_on(Hooked::new(world.memory.reopen(), refuse));
    let client = Client::with_parts("shop", parts).build().unwrap();
    let error = run(client.post("cart", URL, &json!({}))).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Journal(_)));
    assert!(error.nothing_was_sent() && !error.is_unresolved());
    assert_eq!(world.sent(), 0);
}

#[test]
fn a_window_shorter_than_the_policy_is_refused_for_the_operation_too() {
    let world = World::new();
    let client = world.client();
    let short = pay(&client, "cart").window(Duration::from_secs(60));
    let error = run(short.begin()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    assert!(error.to_string().contains("give_up_after"), "{error}");
    // Also where the profile of the operation says so.
    let policy = samekey::Policy::new().give_up_after(2 * HOUR);
    let client = world.builder().policy(policy).build().unwrap();
    run(pay(&client, "day").begin()).unwrap();
    let hour = pay(&client, "hour").profile(Profile::mollie());
    let error = run(hour.begin()).unwrap_err();
    assert!(error.to_string().contains("give_up_after"), "{error}");
}

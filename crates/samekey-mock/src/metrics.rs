//! What an operator watches: counts per tenant and event, and the alerts that follow from them.

use crate::clock::Millis;
use crate::engine::Swept;
use crate::ledger::{Event, Ledger};
use crate::store::{Delivery, State};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

/// Counters since the start of this node.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<Counts>);

#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Counts {
    by_tenant: BTreeMap<String, BTreeMap<String, u64>>,
    reaped: u64,
    largest_reap: usize,
    swept_freed: usize,
    swept_review: usize,
}

/// Something that a person should look at now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Alert {
    /// A short name to page by.
    pub name: &'static str,
    /// What was seen.
    pub says: String,
}

impl Metrics {
    fn lock(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self, tenant: &str, event: Event) {
        let mut counts = self.lock();
        if !counts.by_tenant.contains_key(tenant) {
            counts.by_tenant.insert(tenant.to_owned(), BTreeMap::new());
        }
        if let Some(row) = counts.by_tenant.get_mut(tenant) {
            *row.entry(word(event)).or_default() += 1;
        }
    }

    pub(crate) fn reaped(&self, size: usize) {
        let mut counts = self.lock();
        counts.reaped += size as u64;
        counts.largest_reap = counts.largest_reap.max(size);
    }

    pub(crate) fn swept(&self, swept: Swept) {
        let mut counts = self.lock();
        counts.swept_freed += swept.freed;
        counts.swept_review += swept.review;
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().clone()
    }
}

fn word(event: Event) -> String {
    serde_json::to_value(event)
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// Gauges that are read off the ledger.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Gauges {
    keys: usize,
    in_flight: usize,
    stale_locks: usize,
    review: usize,
    effects: usize,
    duplicate_effects: usize,
    reruns_after_expiry: usize,
    outbox_pending: usize,
    dead_letters: usize,
    store_down: bool,
}

pub(crate) fn gauges(ledger: &Ledger, lock_limit: Millis, now: Millis, store_down: bool) -> Gauges {
    let state = |s: State| ledger.keys().iter().filter(move |k| k.state == Some(s));
    let delivery = |d: Delivery| ledger.outbox().iter().filter(|m| m.delivery == d).count();
    Gauges {
        keys: ledger.keys().iter().filter(|k| k.state.is_some()).count(),
        in_flight: state(State::InFlight).count(),
        stale_locks: state(State::InFlight)
            .filter(|k| k.locked_at.is_some_and(|at| now - at >= lock_limit))
            .count(),
        review: state(State::Review).count(),
        effects: ledger.effects().len(),
        duplicate_effects: ledger.duplicates().len(),
        reruns_after_expiry: ledger.reruns().len(),
        outbox_pending: delivery(Delivery::Pending),
        dead_letters: delivery(Delivery::Dead),
        store_down,
    }
}

/// The alerts, the worst first.
pub(crate) fn alerts(gauges: &Gauges, counts: &Counts) -> Vec<Alert> {
    let total = |event: Event| -> u64 {
        counts
            .by_tenant
            .values()
            .filter_map(|row| row.get(&word(event)))
            .sum()
    };
    let rows = [
        (
            "duplicate-effects",
            gauges.duplicate_effects as u64,
            "effects that happened twice within the life of their key",
        ),
        (
            "store-down",
            u64::from(gauges.store_down),
            "the key store is down and every write is refused",
        ),
        (
            "unprotected",
            total(Event::Unprotected),
            "requests that ran without any key",
        ),
        (
            "dead-letters",
            gauges.dead_letters as u64,
            "messages that never reached the payment processor",
        ),
        (
            "keys-in-review",
            gauges.review as u64,
            "keys that wait for a person",
        ),
        (
            "stale-locks",
            gauges.stale_locks as u64,
            "keys in flight for longer than the limit",
        ),
        (
            "reruns-after-expiry",
            gauges.reruns_after_expiry as u64,
            "retries that came after their key was forgotten and ran again",
        ),
        (
            "mismatches",
            total(Event::Mismatch),
            "requests that reused a key with another body (a client has a bug)",
        ),
        (
            "key-limit",
            total(Event::Limited),
            "requests refused because a tenant has too many keys",
        ),
    ];
    let firing = rows.into_iter().filter(|(_, count, _)| *count > 0);
    firing
        .map(|(name, count, says)| Alert {
            name,
            says: format!("{says}: {count}"),
        })
        .collect()
}

/// The text that scrapers read.
pub(crate) fn exposition(gauges: &Gauges, counts: &Counts) -> String {
    let mut out = String::from("# TYPE samekey_mock_events_total counter\n");
    for (tenant, row) in &counts.by_tenant {
        for (event, count) in row {
            let _ = writeln!(
                out,
                "samekey_mock_events_total{{tenant={tenant:?},event={event:?}}} {count}"
            );
        }
    }
    let numbers = [
        ("keys", gauges.keys),
        ("in_flight", gauges.in_flight),
        ("stale_locks", gauges.stale_locks),
        ("review", gauges.review),
        ("effects", gauges.effects),
        ("duplicate_effects", gauges.duplicate_effects),
        ("reruns_after_expiry", gauges.reruns_after_expiry),
        ("outbox_pending", gauges.outbox_pending),
        ("dead_letters", gauges.dead_letters),
        ("store_down", usize::from(gauges.store_down)),
        ("largest_reap", counts.largest_reap),
    ];
    for (name, value) in numbers {
        let _ = writeln!(
            out,
            "# TYPE samekey_mock_{name} gauge\nsamekey_mock_{name} {value}"
        );
    }
    let _ = writeln!(
        out,
        "# TYPE samekey_mock_reaped_total counter\nsamekey_mock_reaped_total {}",
        counts.reaped
    );
    out
}

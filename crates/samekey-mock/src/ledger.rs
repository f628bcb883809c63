//! What really happened: every effect, every request, every key. Append-only, for tests and people.

use crate::clock::Millis;
use crate::reference;
use crate::store::{Charge, Effect, Message, Record, Slot, State};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;

/// One step in the life of a request, in the order in which it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "`about` says what each means")]
pub enum Event {
    Arrived,
    Reserved,
    Held,
    Effect,
    Stored,
    Released,
    Replayed,
    InFlight,
    Mismatch,
    Review,
    Expired,
    KeyMissing,
    KeyInvalid,
    Malformed,
    TooOld,
    Limited,
    StoreDown,
    Unprotected,
    Fenced,
    Crashed,
    Redirected,
    Gateway,
    Forgotten,
    Answered,
    Dropped,
}

impl Event {
    /// Every event.
    pub const ALL: &'static [Self] = &[
        Self::Arrived,
        Self::Reserved,
        Self::Held,
        Self::Effect,
        Self::Stored,
        Self::Released,
        Self::Replayed,
        Self::InFlight,
        Self::Mismatch,
        Self::Review,
        Self::Expired,
        Self::KeyMissing,
        Self::KeyInvalid,
        Self::Malformed,
        Self::TooOld,
        Self::Limited,
        Self::StoreDown,
        Self::Unprotected,
        Self::Fenced,
        Self::Crashed,
        Self::Redirected,
        Self::Gateway,
        Self::Forgotten,
        Self::Answered,
        Self::Dropped,
    ];

    /// What it means, in a few words.
    pub fn about(self) -> &'static str {
        match self {
            Self::Arrived => "the request was read",
            Self::Reserved => "the key was reserved for this request",
            Self::Held => "the worker waits with the reservation in hand",
            Self::Effect => "something happened in the world",
            Self::Stored => "the answer was stored under the key",
            Self::Released => "the key was freed for a retry",
            Self::Replayed => "the stored answer was sent again",
            Self::InFlight => "409: another request with this key is at work",
            Self::Mismatch => "the key belongs to another body",
            Self::Review => "a person must look at this key",
            Self::Expired => "the key's life is over",
            Self::KeyMissing => "there was no key",
            Self::KeyInvalid => "the key was not acceptable",
            Self::Malformed => "the body could not be read",
            Self::TooOld => "the request was too old",
            Self::Limited => "429: too many keys",
            Self::StoreDown => "503: keys could not be checked",
            Self::Unprotected => "it ran without any key",
            Self::Fenced => "the worker had lost its reservation; its work was taken back",
            Self::Crashed => "the worker died",
            Self::Redirected => "the request was sent elsewhere",
            Self::Gateway => "something in between answered",
            Self::Forgotten => "the key was forgotten too early",
            Self::Answered => "the answer was handed to the network",
            Self::Dropped => "the client never got the answer",
        }
    }
}

/// One request as it arrived.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Request {
    /// Its number at this node, from 1.
    pub id: u64,
    /// When it arrived.
    pub at: Millis,
    /// The node that took it.
    pub node: String,
    /// `1.1` or `2`.
    pub http: &'static str,
    /// The tenant, from the credential.
    pub tenant: String,
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The key, where there was a readable one.
    pub key: Option<String>,
    /// The reference of that key.
    pub reference: Option<String>,
    /// All headers as they came; the credential is left out.
    pub headers: Vec<(String, String)>,
    /// Digest of the body's bytes.
    pub body_sha256: String,
    /// Length of the body.
    pub body_len: usize,
    /// The faults that befell it.
    pub faults: Vec<String>,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// The status that was sent, or that would have been had the answer not been lost.
    pub status: Option<u16>,
    /// The effect it caused.
    pub effect: Option<u64>,
}

impl Request {
    /// Whether this happened to it.
    pub fn had(&self, event: Event) -> bool {
        self.events.contains(&event)
    }

    /// Whether the exchange is over.
    pub fn is_over(&self) -> bool {
        self.had(Event::Answered) || self.had(Event::Dropped)
    }

    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.as_str())
    }
}

/// One key with its counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KeyRow {
    /// Scope and key.
    #[serde(flatten)]
    pub slot: Slot,
    /// The short reference.
    pub reference: Option<String>,
    /// Where it stands; none where the store has forgotten it.
    pub state: Option<State>,
    /// When it was created, while the store knows.
    pub created: Option<Millis>,
    /// When its present or last worker took it, while the store knows.
    pub locked_at: Option<Millis>,
    /// The published end of its life, while the store knows.
    pub expires: Option<Millis>,
    /// How often something happened under it.
    pub effects: usize,
    /// Requests that carried it.
    pub requests: usize,
    /// Repeats answered from the store.
    pub replays: usize,
    /// Repeats told to come back.
    pub in_flight: usize,
    /// Requests with another body.
    pub mismatches: usize,
    /// Answers that were lost.
    pub dropped: usize,
}

/// All of it at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Ledger {
    effects: Vec<Effect>,
    requests: Vec<Request>,
    keys: Vec<KeyRow>,
    outbox: Vec<Message>,
    charges: Vec<Charge>,
    /// The published life of a key, in milliseconds.
    ttl: Millis,
    /// Requests that were forgotten because the ledger's limit was reached.
    forgotten_requests: u64,
}

impl Ledger {
    /// Every effect, oldest first.
    pub fn effects(&self) -> &[Effect] {
        &self.effects
    }

    /// Every request, oldest first.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Every key ever seen.
    pub fn keys(&self) -> &[KeyRow] {
        &self.keys
    }

    /// The outbox.
    pub fn outbox(&self) -> &[Message] {
        &self.outbox
    }

    /// What the payment processor booked.
    pub fn charges(&self) -> &[Charge] {
        &self.charges
    }

    /// How often something happened under this key, whoever sent it.
    pub fn effects_of(&self, key: &str) -> usize {
        self.effects.iter().filter(|e| e.slot.key == key).count()
    }

    /// The same for one tenant.
    pub fn effects_of_tenant(&self, tenant: &str, key: &str) -> usize {
        let of = |e: &&Effect| e.slot.tenant == tenant && e.slot.key == key;
        self.effects.iter().filter(of).count()
    }

    /// The requests that carried this key, oldest first.
    pub fn requests_of(&self, key: &str) -> Vec<&Request> {
        self.requests
            .iter()
            .filter(|r| r.key.as_deref() == Some(key))
            .collect()
    }

    /// How many requests had this happen to them.
    pub fn count(&self, event: Event) -> usize {
        self.requests.iter().filter(|r| r.had(event)).count()
    }

    /// Effects that should not be there: a second one within the published life of its key.
    pub fn duplicates(&self) -> Vec<&Effect> {
        self.repeats(|first, again| again.at - first.at < self.ttl)
    }

    /// Second effects after the published life of their key was over.
    pub fn reruns(&self) -> Vec<&Effect> {
        self.repeats(|first, again| again.at - first.at >= self.ttl)
    }

    fn repeats(&self, counts: impl Fn(&Effect, &Effect) -> bool) -> Vec<&Effect> {
        let mut last: BTreeMap<&Slot, &Effect> = BTreeMap::new();
        let mut found = Vec::new();
        for effect in &self.effects {
            let before = last.insert(&effect.slot, effect);
            if before.is_some_and(|first| counts(first, effect)) {
                found.push(effect);
            }
        }
        found
    }
}

/// The rows of the store that go into a ledger.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) keys: Vec<Record>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) outbox: Vec<Message>,
    pub(crate) charges: Vec<Charge>,
}

/// The requests of this node, and a bell that rings at every change.
#[derive(Debug)]
pub(crate) struct Log {
    rows: Mutex<LogRows>,
    bell: watch::Sender<u64>,
    limit: usize,
}

#[derive(Debug, Default)]
struct LogRows {
    rows: VecDeque<Request>,
    dropped: u64,
}

impl Log {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            rows: Mutex::default(),
            bell: watch::Sender::new(0),
            limit: limit.max(1),
        }
    }

    pub(crate) fn ring(&self) {
        self.bell.send_modify(|n| *n += 1);
    }

    pub(crate) fn listen(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }

    /// Appends a request and gives it its number.
    pub(crate) fn open(&self, mut request: Request) -> u64 {
        let id = {
            let mut log = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
            let id = log.dropped + log.rows.len() as u64 + 1;
            request.id = id;
            log.rows.push_back(request);
            if log.rows.len() > self.limit {
                log.rows.pop_front();
                log.dropped += 1;
            }
            id
        };
        self.ring();
        id
    }

    /// Changes a request that is still remembered.
    pub(crate) fn change(&self, id: u64, change: impl FnOnce(&mut Request)) {
        {
            let mut log = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
            let at = id
                .checked_sub(log.dropped + 1)
                .and_then(|n| usize::try_from(n).ok());
            if let Some(request) = at.and_then(|at| log.rows.get_mut(at)) {
                change(request);
            }
        }
        self.ring();
    }

    pub(crate) fn note(&self, id: u64, event: Event) {
        self.change(id, |request| request.events.push(event));
    }

    pub(crate) fn snapshot(&self, rows: Rows, ttl: Millis) -> Ledger {
        let log = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let requests: Vec<Request> = log.rows.iter().cloned().collect();
        Ledger {
            keys: key_rows(&rows, &requests),
            effects: rows.effects,
            requests,
            outbox: rows.outbox,
            charges: rows.charges,
            ttl,
            forgotten_requests: log.dropped,
        }
    }
}

fn key_rows(rows: &Rows, requests: &[Request]) -> Vec<KeyRow> {
    let mut order: Vec<KeyRow> = Vec::new();
    let mut places: BTreeMap<Slot, usize> = BTreeMap::new();
    let mut place = |slot: Slot, order: &mut Vec<KeyRow>| {
        *places.entry(slot.clone()).or_insert_with(|| {
            order.push(KeyRow {
                reference: reference::of_key(&slot.key),
                slot,
                state: None,
                created: None,
                locked_at: None,
                expires: None,
                effects: 0,
                requests: 0,
                replays: 0,
                in_flight: 0,
                mismatches: 0,
                dropped: 0,
            });
            order.len() - 1
        })
    };
    for record in &rows.keys {
        let at = place(record.slot.clone(), &mut order);
        let row = &mut order[at];
        row.state = Some(record.state);
        row.created = Some(record.created);
        row.locked_at = Some(record.locked_at);
        row.expires = Some(record.expires);
    }
    for effect in &rows.effects {
        let at = place(effect.slot.clone(), &mut order);
        order[at].effects += 1;
    }
    for request in requests {
        let Some(key) = request.key.clone() else {
            continue;
        };
        let operation = crate::routes::operation(&request.method, &request.path);
        let slot = Slot {
            tenant: request.tenant.clone(),
            operation,
            key,
        };
        let at = place(slot, &mut order);
        let row = &mut order[at];
        row.requests += 1;
        row.replays += usize::from(request.had(Event::Replayed));
        row.in_flight += usize::from(request.had(Event::InFlight));
        row.mismatches += usize::from(request.had(Event::Mismatch));
        row.dropped += usize::from(request.had(Event::Dropped));
    }
    order
}

//! The suite that every journal must pass.
//!
//! For authors of stores: describe how yours is opened as a [`Stage`], and run [`all`]. Each rule is
//! also a function of its own, so that a test can show that it catches what it is there to catch.
//!
//! ```
//! use samekey::journal::conformance::{self, Stage};
//! use samekey::journal::{Journal, JournalError, MemoryJournal};
//! use samekey::seam::BoxFuture;
//! use std::sync::Arc;
//!
//! struct InMemory(MemoryJournal);
//!
//! impl Stage for InMemory {
//!     fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Journal>, JournalError>> {
//!         Box::pin(async { Ok(Arc::new(self.0.reopen()) as Arc<dyn Journal>) })
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! conformance::all(|| InMemory(MemoryJournal::new())).await.unwrap();
//! # }
//! ```

mod rules;

pub use rules::*;

use super::{Begun, Expected, Flush, Journal, JournalError, Receipt, Write};
use crate::entry::{Answer, Entry, Frozen, Kept, Owner, Phase, Progress, Scope, WindowSource};
use crate::fingerprint::Fingerprint;
use crate::key::Key;
use crate::message::{Headers, Method};
use crate::retry::classify::{Complete, Replayed};
use crate::seam::{BoxFuture, MaybeSend, MaybeSync};
use crate::time::Timestamp;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

/// One store under test, empty at first.
pub trait Stage: MaybeSend + MaybeSync {
    /// Opens the store: the same content each time, and a new owner each time.
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Journal>, JournalError>>;

    /// Alters what is stored of an entry, behind the store's back. Returns whether it could.
    fn damage(&self, slot: u64) -> BoxFuture<'_, bool> {
        let _ = slot;
        Box::pin(std::future::ready(false))
    }
}

/// A rule that a store broke, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The name of the rule, which is the name of its function.
    pub rule: &'static str,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

impl std::error::Error for Broken {}

impl From<JournalError> for Broken {
    fn from(error: JournalError) -> Broken {
        Broken {
            rule: "",
            what: format!("the store failed: {error}"),
        }
    }
}

/// One rule of the suite.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    check: for<'a> fn(&'a dyn Stage) -> BoxFuture<'a, Result<(), Broken>>,
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rule({})", self.name)
    }
}

impl Rule {
    /// Checks an empty store.
    ///
    /// # Errors
    /// What the store did wrong.
    pub async fn check(&self, stage: &dyn Stage) -> Result<(), Broken> {
        (self.check)(stage).await.map_err(|broken| Broken {
            rule: self.name,
            ..broken
        })
    }
}

macro_rules! rules {
    ($($name:ident),* $(,)?) => {
        /// Every rule, in the order in which they are best read.
        pub const RULES: &[Rule] = &[$(Rule {
            name: stringify!($name),
            check: |stage| Box::pin($name(stage)),
        }),*];
    };
}

rules![
    every_byte_comes_back,
    an_intent_begins_once,
    generations_are_apart,
    scopes_are_apart,
    many_begin_at_once,
    a_dropped_begin_is_whole_or_nothing,
    a_dropped_begin_is_let_go,
    revisions_grow,
    a_stale_write_changes_nothing,
    of_two_writes_one_wins,
    a_write_over_anothers_claim_changes_nothing,
    what_is_begun_is_listed,
    every_phase_is_listed_in_its_group,
    lists_are_filtered_and_paged,
    reopening_finds_everything,
    a_reference_finds_its_entries,
    what_is_damaged_is_shown,
    forgetting_leaves_a_tombstone,
    only_the_settled_is_forgotten,
    reaping_spares_what_is_not_over,
    reaping_ends_with_the_tombstone,
    owners_live_and_die,
];

/// Runs every rule, each on a new store.
///
/// # Errors
/// All rules that were broken, and how.
pub async fn all<S: Stage>(make: impl Fn() -> S) -> Result<(), Vec<Broken>> {
    let mut broken = Vec::new();
    for rule in RULES {
        let stage = make();
        broken.extend(rule.check(&stage).await.err());
    }
    if broken.is_empty() {
        Ok(())
    } else {
        Err(broken)
    }
}

fn broken(what: impl Into<String>) -> Broken {
    Broken {
        rule: "",
        what: what.into(),
    }
}

fn ensure(holds: bool, otherwise: &str) -> Result<(), Broken> {
    if holds {
        Ok(())
    } else {
        Err(broken(otherwise))
    }
}

/// When the entries of the suite are begun.
const BEGUN: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// An entry as a client would begin it, with a key of its own. For tests of stores.
#[must_use]
pub fn sample(owner: Owner, principal: &str, intent: &str, generation: u32) -> Entry {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    // Spread, so that references differ as those of random keys do.
    let mixed = u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    let key = Key::from_random(mixed.to_be_bytes());
    let mut headers = Headers::new();
    let _ = headers.push("content-type", "application/json");
    let body = format!("{{\"intent\":\"{intent}\",\"number\":{number}}}").into_bytes();
    let url = "https://api.example.com/payments";
    let frozen = Frozen {
        key_line: Some(("Idempotency-Key".into(), key.as_str().into())),
        key,
        scope: Scope::from_stored(&format!("conformance/{principal}")),
        intent: intent.into(),
        generation,
        method: Method::Post,
        url: url.into(),
        fingerprint: Fingerprint::of(Method::Post, url, &headers, &body),
        headers,
        body: Kept::Plain(body.into()),
        body_digest: [7; 32],
        profile: "default".into(),
        begun_at: BEGUN,
        complete: Complete::default(),
    };
    let window = Duration::from_secs(86_400);
    Entry {
        slot: 0,
        frozen: Arc::new(frozen),
        progress: Progress::ready(owner, BEGUN, window, WindowSource::Assumed),
    }
}

/// The write that moves `entry` to `phase`.
#[must_use]
pub fn step(entry: &Entry, phase: Phase) -> Write {
    let mut progress = entry.progress.clone();
    progress.phase = phase;
    progress.revision += 1;
    progress.seen_at = entry.progress.seen_at + Duration::from_secs(1);
    if phase.is_settled() {
        progress.answer = Some(Answer {
            status: 201,
            headers: Headers::new(),
            body: Kept::Plain(b"{\"id\":1}"[..].into()),
            replayed: Replayed::No,
            at: progress.seen_at,
        });
    }
    Write {
        slot: entry.slot,
        key: entry.key().clone(),
        expected: Expected::of(&entry.progress),
        progress,
        flush: Flush::Full,
    }
}

/// Begins `entry`, which must be new, and returns it with its slot.
async fn begin(journal: &dyn Journal, mut entry: Entry) -> Result<Entry, Broken> {
    match journal.begin(entry.clone()).await? {
        Begun::Created(receipt) => {
            entry.slot = receipt.slot();
            Ok(entry)
        }
        other => Err(broken(format!("a new intent was not created: {other:?}"))),
    }
}

/// Moves `entry` on to `phase`.
async fn advance(
    journal: &dyn Journal,
    entry: &mut Entry,
    phase: Phase,
) -> Result<Receipt, Broken> {
    let write = step(entry, phase);
    entry.progress = write.progress.clone();
    Ok(journal.record(write).await?)
}

/// Waits for all of them at once.
async fn join<T>(futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut waiting: Vec<_> = futures.into_iter().map(|f| (Some(f), None)).collect();
    poll_fn(move |context| {
        let mut pending = false;
        for (future, done) in &mut waiting {
            if let Some(running) = future {
                match running.as_mut().poll(context) {
                    Poll::Ready(value) => (*future, *done) = (None, Some(value)),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending {
            return Poll::Pending;
        }
        Poll::Ready(
            waiting
                .iter_mut()
                .filter_map(|(_, done)| done.take())
                .collect(),
        )
    })
    .await
}

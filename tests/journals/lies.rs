//! Stores that lie: each breaks one rule, and the rule of that name must say so.

use crate::Memory;
use samekey::entry::{Entry, Expected, Frozen, Grade, Kept, Owner, Scope};
use samekey::journal::conformance::{self, RULES, Stage};
use samekey::journal::{
    Begun, Journal, JournalError, JournalErrorKind, Listing, Liveness, MemoryJournal, Query,
    Reaped, Receipt, Retention, Select, Write,
};
use samekey::seam::BoxFuture;
use samekey::{Key, Reference};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    None,
    CutsBodies,
    LooksThenInserts,
    ForgetsGenerations,
    ForgetsScopes,
    SharesSlots,
    BeginsByHalves,
    HoldsWhatNobodyTook,
    StandsStill,
    TakesStaleWrites,
    WritesTwice,
    ComparesNumbersOnly,
    HidesTheLast,
    ListsOpenAsSettled,
    IgnoresLimits,
    ForgetsOnReopen,
    FindsTooMuch,
    DropsTheDamaged,
    LeavesNoTombstone,
    ForgetsTheOpen,
    ReapsTheOpen,
    KeepsTombstones,
    NeverDies,
}

const CAUGHT_BY: &[(Lie, &str)] = &[
    (Lie::CutsBodies, "every_byte_comes_back"),
    (Lie::LooksThenInserts, "an_intent_begins_once"),
    (Lie::ForgetsGenerations, "generations_are_apart"),
    (Lie::ForgetsScopes, "scopes_are_apart"),
    (Lie::SharesSlots, "many_begin_at_once"),
    (Lie::BeginsByHalves, "a_dropped_begin_is_whole_or_nothing"),
    (Lie::HoldsWhatNobodyTook, "a_dropped_begin_is_let_go"),
    (Lie::StandsStill, "revisions_grow"),
    (Lie::TakesStaleWrites, "a_stale_write_changes_nothing"),
    (Lie::WritesTwice, "of_two_writes_one_wins"),
    (
        Lie::ComparesNumbersOnly,
        "a_write_over_anothers_claim_changes_nothing",
    ),
    (Lie::HidesTheLast, "what_is_begun_is_listed"),
    (
        Lie::ListsOpenAsSettled,
        "every_phase_is_listed_in_its_group",
    ),
    (Lie::IgnoresLimits, "lists_are_filtered_and_paged"),
    (Lie::ForgetsOnReopen, "reopening_finds_everything"),
    (Lie::FindsTooMuch, "a_reference_finds_its_entries"),
    (Lie::DropsTheDamaged, "what_is_damaged_is_shown"),
    (Lie::LeavesNoTombstone, "forgetting_leaves_a_tombstone"),
    (Lie::ForgetsTheOpen, "only_the_settled_is_forgotten"),
    (Lie::ReapsTheOpen, "reaping_spares_what_is_not_over"),
    (Lie::KeepsTombstones, "reaping_ends_with_the_tombstone"),
    (Lie::NeverDies, "owners_live_and_die"),
];

#[tokio::test]
async fn each_rule_catches_the_store_that_breaks_it() {
    for (lie, rule) in CAUGHT_BY {
        let broken = conformance::all(|| Liar::new(*lie)).await.unwrap_err();
        let named = broken.iter().any(|broken| broken.rule == *rule);
        assert!(named, "{lie:?} is not caught by {rule}, only by {broken:?}");
    }
}

#[tokio::test]
async fn the_same_store_passes_when_it_tells_the_truth() {
    assert_eq!(conformance::all(|| Liar::new(Lie::None)).await, Ok(()));
}

#[test]
fn every_rule_has_its_liar() {
    for rule in RULES {
        let has = CAUGHT_BY.iter().any(|(_, caught)| *caught == rule.name);
        assert!(has, "{} was never shown to fail", rule.name);
    }
}

struct Liar {
    lie: Lie,
    memory: Memory,
    state: Arc<State>,
}

type Name = (Scope, Box<str>, u32);

#[derive(Default)]
struct State {
    seen: Mutex<HashMap<Name, Entry>>,
    count: AtomicU32,
    reaped: AtomicBool,
}

impl Liar {
    fn new(lie: Lie) -> Liar {
        Liar {
            lie,
            memory: Memory(MemoryJournal::new()),
            state: Arc::default(),
        }
    }
}

impl Stage for Liar {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Journal>, JournalError>> {
        let memory = match self.lie {
            Lie::ForgetsOnReopen => MemoryJournal::new(),
            _ => self.memory.0.reopen(),
        };
        let journal = Lying {
            lie: self.lie,
            memory,
            state: Arc::clone(&self.state),
        };
        Box::pin(async { Ok(Arc::new(journal) as Arc<dyn Journal>) })
    }

    fn damage(&self, slot: u64) -> BoxFuture<'_, bool> {
        self.memory.damage(slot)
    }
}

struct Lying {
    lie: Lie,
    memory: MemoryJournal,
    state: Arc<State>,
}

fn refrozen(mut entry: Entry, change: impl FnOnce(&mut Frozen)) -> Entry {
    let mut frozen = Frozen::clone(&entry.frozen);
    change(&mut frozen);
    entry.frozen = Arc::new(frozen);
    entry
}

impl Lying {
    /// Slips past the uniqueness of the honest store.
    fn afresh(&self, entry: Entry) -> Entry {
        let number = self.state.count.fetch_add(1, Ordering::Relaxed);
        refrozen(entry, |frozen| frozen.generation += 1_000 + number)
    }

    async fn look_then_insert(&self, entry: Entry) -> Result<Begun, JournalError> {
        let frozen = &entry.frozen;
        let name = (
            frozen.scope.clone(),
            frozen.intent.clone(),
            frozen.generation,
        );
        if let Some(found) = self.state.seen.lock().unwrap().get(&name) {
            return Ok(Begun::Exists(Box::new(found.clone())));
        }
        tokio::task::yield_now().await;
        self.state.seen.lock().unwrap().insert(name, entry.clone());
        self.memory.begin(self.afresh(entry)).await
    }

    async fn begin_falsely(&self, entry: Entry) -> Result<Begun, JournalError> {
        match self.lie {
            Lie::LooksThenInserts => self.look_then_insert(entry).await,
            Lie::ForgetsGenerations => {
                self.memory
                    .begin(refrozen(entry, |frozen| frozen.generation = 0))
                    .await
            }
            Lie::ForgetsScopes => {
                let scope = Scope::from_stored("everyone");
                self.memory
                    .begin(refrozen(entry, |frozen| frozen.scope = scope))
                    .await
            }
            Lie::CutsBodies => {
                let cut = |frozen: &mut Frozen| {
                    if let Kept::Plain(bytes) = &mut frozen.body {
                        *bytes = bytes[..bytes.len().min(65_536)].into();
                    }
                };
                self.memory.begin(refrozen(entry, cut)).await
            }
            Lie::BeginsByHalves => {
                let half = refrozen(entry.clone(), |frozen| frozen.body = Kept::Lost);
                self.memory.begin(half).await?;
                tokio::task::yield_now().await;
                self.memory.begin(entry).await
            }
            Lie::HoldsWhatNobodyTook => {
                let begun = self.memory.begin(entry).await;
                tokio::task::yield_now().await;
                begun
            }
            Lie::SharesSlots => Ok(match self.memory.begin(entry).await? {
                Begun::Created(r) => Begun::Created(Receipt::new(
                    r.key().clone(),
                    r.slot() / 2,
                    r.revision(),
                    r.grade(),
                )),
                other => other,
            }),
            Lie::LeavesNoTombstone => match self.memory.begin(entry.clone()).await? {
                Begun::Tombstone(_) => self.memory.begin(self.afresh(entry)).await,
                begun => Ok(begun),
            },
            _ => self.memory.begin(entry).await,
        }
    }

    async fn record_falsely(&self, mut write: Write) -> Result<Receipt, JournalError> {
        match self.lie {
            Lie::StandsStill => {
                let r = self.memory.record(write).await?;
                Ok(Receipt::new(
                    r.key().clone(),
                    r.slot(),
                    r.revision() - 1,
                    r.grade(),
                ))
            }
            Lie::TakesStaleWrites | Lie::WritesTwice => {
                let found = self.memory.load(write.slot, write.key.clone()).await?;
                if let Some(entry) = found {
                    write.expected = Expected::of(&entry.progress);
                    write.progress.revision = write.expected.revision + 1;
                }
                self.memory.record(write).await
            }
            Lie::ComparesNumbersOnly => {
                let found = self.memory.load(write.slot, write.key.clone()).await?;
                let revision = write.expected.revision;
                if let Some(entry) = found.filter(|found| found.progress.revision == revision) {
                    write.expected = Expected::of(&entry.progress);
                }
                self.memory.record(write).await
            }
            _ => self.memory.record(write).await,
        }
    }

    async fn list_falsely(&self, mut query: Query) -> Result<Listing, JournalError> {
        if self.lie == Lie::IgnoresLimits {
            query.limit = 0;
        }
        if self.lie == Lie::ListsOpenAsSettled && query.select == Select::Settled {
            query.select = Select::All;
        }
        let mut listing = self.memory.list(query).await?;
        match self.lie {
            Lie::HidesTheLast => drop(listing.entries.pop()),
            Lie::DropsTheDamaged => listing.damaged.clear(),
            Lie::ReapsTheOpen if self.state.reaped.load(Ordering::Relaxed) => {
                listing
                    .entries
                    .retain(|entry| !entry.progress.phase.is_open());
            }
            _ => {}
        }
        Ok(listing)
    }
}

impl Journal for Lying {
    fn grade(&self) -> Grade {
        match self.lie {
            Lie::ForgetsOnReopen => Grade::Process,
            _ => self.memory.grade(),
        }
    }

    fn owner(&self) -> Owner {
        self.memory.owner()
    }

    fn begin(&self, entry: Entry) -> BoxFuture<'_, Result<Begun, JournalError>> {
        Box::pin(self.begin_falsely(entry))
    }

    fn record(&self, write: Write) -> BoxFuture<'_, Result<Receipt, JournalError>> {
        Box::pin(self.record_falsely(write))
    }

    fn load(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<Option<Entry>, JournalError>> {
        self.memory.load(slot, key)
    }

    fn list(&self, query: Query) -> BoxFuture<'_, Result<Listing, JournalError>> {
        Box::pin(self.list_falsely(query))
    }

    fn find(
        &self,
        reference: Reference,
        scope: Option<Scope>,
    ) -> BoxFuture<'_, Result<Listing, JournalError>> {
        match self.lie {
            Lie::FindsTooMuch => self.memory.list(Query::default()),
            _ => self.memory.find(reference, scope),
        }
    }

    fn liveness(&self, owner: Owner) -> BoxFuture<'_, Result<Liveness, JournalError>> {
        match self.lie {
            Lie::NeverDies => Box::pin(async { Ok(Liveness::Alive) }),
            _ => self.memory.liveness(owner),
        }
    }

    fn forget(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            match self.memory.forget(slot, key).await {
                Err(error)
                    if self.lie == Lie::ForgetsTheOpen
                        && error.kind() == JournalErrorKind::NotSettled =>
                {
                    Ok(())
                }
                answer => answer,
            }
        })
    }

    fn reap(&self, mut retention: Retention) -> BoxFuture<'_, Result<Reaped, JournalError>> {
        self.state.reaped.store(true, Ordering::Relaxed);
        if self.lie == Lie::KeepsTombstones {
            retention.tombstones = std::time::Duration::MAX;
        }
        self.memory.reap(retention)
    }
}

//! What a server must keep: keys with their answers, the shop's rows, the outbox, the processor's
//! charges. Two stores keep it: memory, for tests and simulation, and SQLite.

mod memory;
#[cfg(feature = "server")]
mod sqlite;
#[cfg(feature = "server")]
mod writer;

pub use memory::MemoryStore;
#[cfg(feature = "server")]
pub use sqlite::SqliteStore;
#[cfg(feature = "server")]
pub use writer::Writer;

use crate::answer::Answer;
use crate::clock::Millis;
use serde::{Deserialize, Serialize};

/// Why a store could not do its work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store does not answer.
    #[error("the key store is down")]
    Down,
    /// The work was given up on purpose and must leave no trace.
    #[error("rolled back: {0}")]
    Rollback(&'static str),
    /// The store failed.
    #[error("the key store failed: {0}")]
    Failed(String),
}

/// Shorthand for what stores return.
pub type Res<T> = Result<T, StoreError>;

/// The full scope of a key: who, which operation, which key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Slot {
    /// The tenant, from the credential.
    pub tenant: String,
    /// Method and route, `POST /orders`.
    pub operation: String,
    /// The key as the client sent it.
    pub key: String,
}

/// Where a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// A worker holds it.
    InFlight,
    /// Finished: the answer is stored.
    Done,
    /// A stale lock with an effect behind it: a person must look.
    Review,
}

/// What is kept for one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Scope and key.
    #[serde(flatten)]
    pub slot: Slot,
    /// Digest of the first request.
    pub fingerprint: String,
    /// Where it stands.
    pub state: State,
    /// When the present worker took it.
    pub locked_at: Millis,
    /// Which worker holds or held it.
    pub owner: u64,
    /// The stored answer of a finished key.
    pub answer: Option<Answer>,
    /// When the key was first seen in this life.
    pub created: Millis,
    /// When its answer was stored.
    pub completed: Option<Millis>,
    /// The published end of its life.
    pub expires: Millis,
}

/// Something that happened in the world, at most once per key if the contract is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Its number in the ledger, from 1.
    pub id: u64,
    /// Scope and key that caused it.
    #[serde(flatten)]
    pub slot: Slot,
    /// `order`, `payment`, `refund`, `export`, ...
    pub kind: String,
    /// Money or quantity.
    pub amount: i64,
    /// When.
    pub at: Millis,
}

/// Where an outbox message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// Waiting for the worker.
    Pending,
    /// The processor has it and its id is recorded.
    Done,
    /// Given up after the last try.
    Dead,
}

/// A promise to call the payment processor, written with the effect it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its number.
    pub id: u64,
    /// The effect it belongs to.
    pub effect: u64,
    /// The key to carry downstream.
    pub key: String,
    /// `charge` or `refund`.
    pub kind: String,
    /// Money.
    pub amount: i64,
    /// Where it stands.
    pub delivery: Delivery,
    /// Tries so far.
    pub tries: u32,
    /// Not before this time.
    pub due: Millis,
    /// What the processor called it, once known.
    pub provider_id: Option<String>,
}

/// One row at the payment processor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    /// Its number.
    pub id: u64,
    /// The key it came with.
    pub key: String,
    /// `charge` or `refund`.
    pub kind: String,
    /// Money.
    pub amount: i64,
}

/// The keys: all that the engine needs.
pub trait Keys {
    /// Inserts unless the slot is taken, in one step; gives back who is there already.
    fn insert_if_absent(&mut self, record: &Record) -> Res<Option<Record>>;
    /// Reads a slot.
    fn find(&mut self, slot: &Slot) -> Res<Option<Record>>;
    /// Writes a slot, whoever had it.
    fn put(&mut self, record: &Record) -> Res<()>;
    /// Writes a slot if this owner still holds it in flight.
    fn put_if_owner(&mut self, record: &Record, owner: u64) -> Res<bool>;
    /// Empties a slot.
    fn remove(&mut self, slot: &Slot) -> Res<()>;
    /// Forgets every key.
    fn forget_all(&mut self) -> Res<()>;
    /// Removes up to `limit` finished keys whose published life ended before this time; with
    /// `any_state` also those in flight.
    fn remove_expired(&mut self, before: Millis, limit: usize, any_state: bool) -> Res<usize>;
    /// Keys in flight whose lock is older than this time.
    fn stale(&mut self, before: Millis) -> Res<Vec<Record>>;
    /// How many keys a tenant has.
    fn count(&mut self, tenant: &str) -> Res<u64>;
    /// Keys that start with one of these texts, of one tenant or of all.
    fn with_prefix(&mut self, tenant: Option<&str>, prefixes: &[String]) -> Res<Vec<Record>>;
    /// All keys, oldest first.
    fn all_keys(&mut self) -> Res<Vec<Record>>;
    /// How many effects a key has had since this time.
    fn effects_since(&mut self, slot: &Slot, since: Millis) -> Res<u64>;
}

/// The shop's rows, its outbox and the processor's charges.
pub trait Shop {
    /// Appends an effect and gives it its number.
    fn add_effect(&mut self, effect: &Effect) -> Res<u64>;
    /// All effects, oldest first.
    fn effects(&mut self) -> Res<Vec<Effect>>;
    /// An object of the shop by its id: (tenant, state as JSON).
    fn object(&mut self, id: &str) -> Res<Option<(String, String)>>;
    /// Writes an object of the shop.
    fn put_object(&mut self, id: &str, tenant: &str, state: &str) -> Res<()>;
    /// Takes one piece from stock: true if there was one. Unlisted items never run out.
    fn take_stock(&mut self, item: &str) -> Res<bool>;
    /// Sets the stock of an item.
    fn set_stock(&mut self, item: &str, left: u64) -> Res<()>;
    /// Appends to the outbox.
    fn add_message(&mut self, message: &Message) -> Res<u64>;
    /// Pending messages due by this time.
    fn due_messages(&mut self, now: Millis) -> Res<Vec<Message>>;
    /// Writes a message back.
    fn put_message(&mut self, message: &Message) -> Res<()>;
    /// The whole outbox.
    fn messages(&mut self) -> Res<Vec<Message>>;
    /// The processor's side: books once per key and kind, and says under which id.
    fn book(&mut self, charge: &Charge) -> Res<u64>;
    /// All rows of the processor.
    fn charges(&mut self) -> Res<Vec<Charge>>;
}

/// Transactions, nested as deep as needed.
pub trait Transact {
    /// Opens a transaction, or a savepoint within one.
    fn begin(&mut self) -> Res<()>;
    /// Keeps what was done since the matching `begin`.
    fn keep(&mut self) -> Res<()>;
    /// Takes back what was done since the matching `begin`.
    fn undo(&mut self) -> Res<()>;
}

/// All of it.
pub trait Store: Keys + Shop + Transact + Send {}

impl<S: Keys + Shop + Transact + Send> Store for S {}

/// The two ways a key with these leading hex digits may be spelt: with a dash after eight, or plain.
pub fn spellings(hex12: &str) -> Vec<String> {
    let dashed = hex12
        .get(..8)
        .zip(hex12.get(8..))
        .map(|(a, b)| format!("{a}-{b}"));
    dashed.into_iter().chain([hex12.to_owned()]).collect()
}

#[cfg(test)]
#[cfg(feature = "server")]
mod tests;

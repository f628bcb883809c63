//! The durable home of entries.
//!
//! A [`Journal`] is dumb on purpose: it stores, finds and refuses stale writes. What an entry means
//! is decided by the [`machine`](crate::machine). A store is right when it passes the
//! [`conformance`] suite, not when its own tests pass.

#[cfg(all(feature = "browser", target_arch = "wasm32"))]
mod browser;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod memory;
#[cfg(feature = "page")]
pub(crate) mod row;
#[cfg(all(feature = "sqlite", not(target_arch = "wasm32")))]
mod sqlite;

pub use stores::*;

/// The journals of this build.
pub mod stores {
    #[cfg(all(feature = "browser", target_arch = "wasm32"))]
    pub use super::browser::BrowserJournal;
    pub use super::memory::MemoryJournal;
    #[cfg(all(feature = "sqlite", not(target_arch = "wasm32")))]
    pub use super::sqlite::*;
}

use crate::entry::{DecodeError, Entry, Grade, Owner, Phase, Progress, Scope};
pub use crate::entry::{Expected, Flush, Liveness, Receipt};
use crate::key::{Key, Reference};
use crate::message::filled;
use crate::seam::{BoxFuture, MaybeSend, MaybeSync};
use crate::text::decimal;
use crate::time::Timestamp;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Where entries live. Every method is one atomic step.
pub trait Journal: MaybeSend + MaybeSync {
    /// What an acknowledged write survives.
    fn grade(&self) -> Grade;

    /// Who writes through this handle: new with every open.
    fn owner(&self) -> Owner;

    /// Writes a new entry, unless its (scope, intent, generation) is taken.
    ///
    /// Uniqueness is the store's constraint, not a look before an insert: of two simultaneous calls
    /// one creates and the other is told what exists. Acknowledged only when durable to the grade.
    ///
    /// A future that is dropped before it answered leaves all of the entry or nothing, and what it
    /// leaves is let go ([`machine::release`](crate::machine::release)): nobody would drive it.
    fn begin(&self, entry: Entry) -> BoxFuture<'_, Result<Begun, JournalError>>;

    /// Replaces an entry's progress, if its revision, owner and epoch are still what `write` expects.
    ///
    /// The stored revision becomes `write.progress.revision`, which is the expected one plus one. A
    /// revision alone would not do: of two drivers that write the same number one is refused, and what
    /// that one writes next must not replace the other's.
    ///
    /// # Errors
    /// [`JournalErrorKind::Stale`] if somebody else wrote in between; nothing is changed then.
    fn record(&self, write: Write) -> BoxFuture<'_, Result<Receipt, JournalError>>;

    /// The entry as it stands now; `None` if it was reaped.
    fn load(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<Option<Entry>, JournalError>>;

    /// Entries by phase, oldest first.
    fn list(&self, query: Query) -> BoxFuture<'_, Result<Listing, JournalError>>;

    /// Every entry with this reference, tombstones apart.
    fn find(
        &self,
        reference: Reference,
        scope: Option<Scope>,
    ) -> BoxFuture<'_, Result<Listing, JournalError>>;

    /// Whether an owner still lives.
    fn liveness(&self, owner: Owner) -> BoxFuture<'_, Result<Liveness, JournalError>>;

    /// Turns a settled entry into its tombstone now.
    ///
    /// # Errors
    /// [`JournalErrorKind::NotSettled`] if it is open or needs attention.
    fn forget(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<(), JournalError>>;

    /// Turns entries that were settled long ago into tombstones, and drops old tombstones; a small
    /// batch at a time.
    fn reap(&self, retention: Retention) -> BoxFuture<'_, Result<Reaped, JournalError>>;
}

/// What became of a [`Journal::begin`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is written.
    Created(Receipt),
    /// This (scope, intent, generation) is here already.
    Exists(Box<Entry>),
    /// It was here, ended, and was reaped.
    Tombstone(Tombstone),
    /// It is here, but cannot be read: nobody can say how far it got.
    Damaged(Damaged),
}

/// What is left of a reaped entry: enough to refuse doing it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// For whom it was.
    pub scope: Scope,
    /// The caller's name of the action.
    pub intent: Box<str>,
    /// Which repeat of it.
    pub generation: u32,
    /// The key it used.
    pub key: Key,
    /// How it ended.
    pub phase: Phase,
    /// When it ended.
    pub ended_at: Timestamp,
}

impl Tombstone {
    /// What would be left of `entry`; `None` unless it is settled.
    #[must_use]
    pub fn of(entry: &Entry) -> Option<Tombstone> {
        let Entry {
            frozen, progress, ..
        } = entry;
        progress.phase.is_settled().then(|| Tombstone {
            scope: frozen.scope.clone(),
            intent: frozen.intent.clone(),
            generation: frozen.generation,
            key: frozen.key.clone(),
            phase: progress.phase,
            ended_at: progress.ended_at(),
        })
    }
}

/// A new progress for an entry.
#[derive(Clone, Debug)]
pub struct Write {
    /// The store's handle of the entry.
    pub slot: u64,
    /// Its key.
    pub key: Key,
    /// What is replaced.
    pub expected: Expected,
    /// What replaces it.
    pub progress: Progress,
    /// How hard.
    pub flush: Flush,
}

/// Which entries to list.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Only this scope's.
    pub scope: Option<Scope>,
    /// Only those in such a phase.
    pub select: Select,
    /// Only those begun at or after this time.
    pub since: Option<Timestamp>,
    /// At most so many; 0 for all.
    pub limit: u32,
    /// Only those with a higher slot: to page on.
    pub after: u64,
}

/// Phases by group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Select {
    /// Everything.
    #[default]
    All,
    /// Open, or exhausted: what resuming may still finish.
    Unfinished,
    /// What a person has to look at.
    Attention,
    /// What ended.
    Settled,
}

impl Select {
    /// Whether entries in `phase` are meant.
    #[must_use]
    pub fn matches(self, phase: Phase) -> bool {
        match self {
            Select::All => true,
            Select::Unfinished => phase.is_unfinished(),
            Select::Attention => matches!(phase, Phase::Attention(_)),
            Select::Settled => phase.is_settled(),
        }
    }
}

/// What a search brought.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Entries that are there but cannot be read. They are never dropped and never driven.
    pub damaged: Vec<Damaged>,
}

/// An entry that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// The store's handle.
    pub slot: u64,
    /// The key, if the store has it apart from the entry.
    pub key: Option<Key>,
    /// What is wrong.
    pub error: DecodeError,
}

/// How long an owner may be silent before its entries are taken over.
pub const LEASE: Duration = Duration::from_secs(30);

/// How long ended entries are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The time now.
    pub now: Timestamp,
    /// How long a settled entry stays whole.
    pub settled: Duration,
    /// How long its tombstone stays after that.
    pub tombstones: Duration,
    /// At most so many at a time.
    pub batch: u32,
}

impl Retention {
    /// Whether an entry that ended then has been kept whole for long enough.
    #[must_use]
    pub fn entry_is_over(&self, ended_at: Timestamp) -> bool {
        self.now >= ended_at + self.settled
    }

    /// Whether the tombstone of an entry that ended then has been kept for long enough.
    #[must_use]
    pub fn tombstone_is_over(&self, ended_at: Timestamp) -> bool {
        self.now >= ended_at + self.settled + self.tombstones
    }
}

/// What a [`Journal::reap`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Entries that became tombstones.
    pub entries: u32,
    /// Tombstones that were dropped.
    pub tombstones: u32,
}

/// A journal that could not do what was asked.
///
/// Clones share their source: a commit that fails for many callers fails each of them.
#[derive(Clone, thiserror::Error)]
#[error("{message}")]
pub struct JournalError {
    kind: JournalErrorKind,
    message: Box<str>,
    #[source]
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl fmt::Debug for JournalError {
    /// By hand, as every error that can be another's source: what is derived comes with a page's
    /// download whether anybody looks at it or not.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JournalError({}: {})", self.kind.name(), self.message)
    }
}

impl JournalError {
    /// An error that says what happened, then what to do.
    #[must_use]
    pub fn new(kind: JournalErrorKind, message: impl Into<Box<str>>) -> JournalError {
        JournalError {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// The same, with what caused it.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// For stores: the write named a revision that is no longer the latest, or an entry that is
    /// not there.
    #[must_use]
    pub fn stale(key: &Key) -> JournalError {
        JournalError::new(
            JournalErrorKind::Stale,
            format!(
                "somebody else wrote {} in between; load it again and go on from there",
                key.reference()
            ),
        )
    }

    /// For stores: an entry that is open or needs attention was to be forgotten.
    #[must_use]
    pub fn not_settled(key: &Key) -> JournalError {
        JournalError::new(JournalErrorKind::NotSettled, not_settled(key))
    }

    /// For stores: the entry in `slot` is there but cannot be read.
    #[must_use]
    pub fn unreadable(slot: u64, error: DecodeError) -> JournalError {
        let (kind, message) = unreadable(slot, error);
        JournalError::new(kind, message).caused_by(error)
    }

    /// What kind of trouble it is.
    #[must_use]
    pub fn kind(&self) -> JournalErrorKind {
        self.kind
    }
}

/// What [`JournalError::unreadable`] says.
pub(crate) fn unreadable(slot: u64, error: DecodeError) -> (JournalErrorKind, String) {
    let kind = match error {
        DecodeError::TooNew(_) => JournalErrorKind::TooNew,
        _ => JournalErrorKind::Corrupt,
    };
    let message = filled(
        "entry % cannot be read: %; nothing is sent for it. Keep the journal and find out from the \
         server what became of it",
        &[&decimal(slot), &error.text()],
    );
    (kind, message)
}

/// What [`JournalError::not_settled`] says.
pub(crate) fn not_settled(key: &Key) -> String {
    filled(
        "% has not ended, so it cannot be forgotten; finish or settle it first",
        &[&key.reference().text()],
    )
}

/// What kind of trouble a journal is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JournalErrorKind {
    /// It cannot be opened, read or written.
    Unavailable,
    /// It, or its folder, is read-only.
    ReadOnly,
    /// The disk or quota is full.
    Full,
    /// Others held it for too long.
    Busy,
    /// Its content was altered, or is missing.
    Corrupt,
    /// A newer samekey wrote it.
    TooNew,
    /// It is some other program's file.
    Foreign,
    /// It is only being made, or was never written to: there is nothing to look at yet.
    Blank,
    /// Others than its owner may read it.
    Exposed,
    /// A sync failed: nothing is certain until it is opened again.
    Poisoned,
    /// Somebody else wrote first.
    Stale,
    /// Only what is settled may be forgotten.
    NotSettled,
    /// It is open in another tab.
    OpenElsewhere,
}

impl JournalErrorKind {
    /// Its name, in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            JournalErrorKind::Unavailable => "unavailable",
            JournalErrorKind::ReadOnly => "read-only",
            JournalErrorKind::Full => "full",
            JournalErrorKind::Busy => "busy",
            JournalErrorKind::Corrupt => "corrupt",
            JournalErrorKind::TooNew => "too-new",
            JournalErrorKind::Foreign => "foreign",
            JournalErrorKind::Blank => "blank",
            JournalErrorKind::Exposed => "exposed",
            JournalErrorKind::Poisoned => "poisoned",
            JournalErrorKind::Stale => "stale",
            JournalErrorKind::NotSettled => "not-settled",
            JournalErrorKind::OpenElsewhere => "open-elsewhere",
        }
    }
}

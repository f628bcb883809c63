//! What a store of the page keeps of one entry, tombstones included.

use crate::entry::{DecodeError, Entry, Frozen, Kept, Progress};
use crate::journal::Tombstone;
use crate::key::Key;
use crate::message::Headers;
use std::sync::Arc;

/// Divides the parts of a name; neither a scope nor an intent can hold it.
const DIVIDER: char = '\0';

/// The name that is unique: scope, intent and generation.
pub(super) fn name_of(frozen: &Frozen) -> String {
    let Frozen {
        scope,
        intent,
        generation,
        ..
    } = frozen;
    format!("{scope}{DIVIDER}{intent}{DIVIDER}{generation}")
}

/// The scope within a name.
pub(super) fn scope_in(name: &str) -> &str {
    name.split(DIVIDER).next().unwrap_or_default()
}

/// Both halves of an entry, and whether only its tombstone is left.
///
/// A tombstone is the entry without what was sent and answered: one encoding for both.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) frozen: Vec<u8>,
    pub(super) progress: Vec<u8>,
    pub(super) gone: bool,
}

impl Row {
    pub(super) fn of(entry: &Entry) -> Row {
        Row {
            frozen: entry.frozen.encode(),
            progress: entry.progress.encode(entry.key()),
            gone: false,
        }
    }

    pub(super) fn entry(&self, slot: u64, key: &Key) -> Result<Entry, DecodeError> {
        let frozen = Frozen::decode(&self.frozen)?;
        if frozen.key != *key {
            return Err(DecodeError::Content("key"));
        }
        Ok(Entry {
            slot,
            progress: Progress::decode(&self.progress, key)?,
            frozen: Arc::new(frozen),
        })
    }

    /// What is left of a settled entry; `None` if it is not settled.
    pub(super) fn buried(entry: &Entry) -> Option<Row> {
        Tombstone::of(entry)?;
        let mut frozen = Frozen::clone(&entry.frozen);
        frozen.body = Kept::NotKept;
        frozen.headers = Headers::new();
        frozen.url = "".into();
        let mut progress = entry.progress.clone();
        if let Some(answer) = &mut progress.answer {
            answer.body = Kept::NotKept;
            answer.headers = Headers::new();
        }
        progress.recent.clear();
        Some(Row {
            frozen: frozen.encode(),
            progress: progress.encode(&frozen.key),
            gone: true,
        })
    }
}

//! What a store of the page keeps of one entry, tombstones included.

use crate::entry::{DecodeError, Entry, Frozen, Kept, Progress};
use crate::journal::{Damaged, JournalError};
use crate::key::{Key, Reference};
use crate::message::Headers;
use std::sync::Arc;
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen]
extern "C" {
    /// A row as the store hands it out.
    pub(super) type Row;
    #[wasm_bindgen(method, getter)]
    pub(super) fn slot(this: &Row) -> f64;
    #[wasm_bindgen(method, getter)]
    fn name(this: &Row) -> String;
    #[wasm_bindgen(method, getter)]
    pub(super) fn key(this: &Row) -> String;
    #[wasm_bindgen(method, getter)]
    fn frozen(this: &Row) -> Vec<u8>;
    #[wasm_bindgen(method, getter)]
    fn progress(this: &Row) -> Vec<u8>;
    #[wasm_bindgen(method, getter)]
    pub(super) fn revision(this: &Row) -> f64;
    #[wasm_bindgen(method, getter)]
    pub(super) fn gone(this: &Row) -> bool;
}

/// The name that is unique: scope, intent and generation. Neither of the first can hold what divides
/// them.
pub(super) fn name_of(frozen: &Frozen) -> String {
    let generation = frozen.generation.to_string();
    [frozen.scope.as_str(), &frozen.intent, &generation].join("\0")
}

impl Row {
    /// The entry, if every part of the row fits the others.
    pub(super) fn entry(&self) -> Result<Entry, DecodeError> {
        let frozen = Frozen::decode(&self.frozen())?;
        let progress = Progress::decode(&self.progress(), &frozen.key)?;
        if frozen.key.as_str() != self.key() || name_of(&frozen) != self.name() {
            return Err(DecodeError::Content("name"));
        }
        if progress.revision as f64 != self.revision() {
            return Err(DecodeError::Content("revision"));
        }
        Ok(Entry {
            slot: self.slot() as u64,
            progress,
            frozen: Arc::new(frozen),
        })
    }

    pub(super) fn whole(&self) -> Result<Entry, JournalError> {
        self.entry()
            .map_err(|error| JournalError::unreadable(self.slot() as u64, error))
    }

    pub(super) fn damaged(&self, error: DecodeError) -> Damaged {
        Damaged {
            slot: self.slot() as u64,
            key: Key::adopt(&self.key()).ok(),
            error,
        }
    }

    pub(super) fn reference(&self) -> Option<Reference> {
        let key = Key::adopt(&self.key()).ok();
        key.map(|key| key.reference())
    }
}

/// Both halves of a settled entry without what was sent and answered: one encoding serves for the
/// entry and for its tombstone. `None` if it is not settled.
pub(super) fn buried(entry: &Entry) -> Option<(Vec<u8>, Vec<u8>)> {
    if !entry.progress.phase.is_settled() {
        return None;
    }
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
    progress.revision += 1;
    Some((frozen.encode(), progress.encode(&frozen.key)))
}

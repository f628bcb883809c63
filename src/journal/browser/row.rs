//! What a store of the page keeps of one entry, tombstones included.

use crate::entry::{DecodeError, Entry, Frozen, Kept, Progress};
use crate::journal::{Damaged, JournalError};
use crate::key::{Key, Reference};
use crate::message::Headers;
use crate::seam::border::Values;
use std::sync::Arc;

/// A row as the store hands it out.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) slot: u64,
    name: &'a str,
    pub(super) key: &'a str,
    frozen: &'a [u8],
    progress: &'a [u8],
    pub(super) revision: f64,
    pub(super) gone: bool,
}

/// The name that is unique: scope, intent and generation. Neither of the first can hold what divides
/// them.
pub(super) fn name_of(frozen: &Frozen) -> String {
    let generation = frozen.generation.to_string();
    [frozen.scope.as_str(), &frozen.intent, &generation].join("\0")
}

impl<'a> Row<'a> {
    /// The next row of these values.
    pub(super) fn read(values: &mut Values<'a>) -> Row<'a> {
        Row {
            slot: values.number() as u64,
            name: values.text(),
            key: values.text(),
            frozen: values.bytes(),
            progress: values.bytes(),
            revision: values.number(),
            gone: values.flag(),
        }
    }

    /// The entry, if every part of the row fits the others.
    pub(super) fn entry(&self) -> Result<Box<Entry>, DecodeError> {
        let frozen = Frozen::decode(self.frozen)?;
        let progress = Progress::decode(self.progress, &frozen.key)?;
        if frozen.key.as_str() != self.key || name_of(&frozen) != self.name {
            return Err(DecodeError::Content("name"));
        }
        if progress.revision as f64 != self.revision {
            return Err(DecodeError::Content("revision"));
        }
        Ok(Box::new(Entry {
            slot: self.slot,
            progress,
            frozen: Arc::new(frozen),
        }))
    }

    pub(super) fn whole(&self) -> Result<Box<Entry>, JournalError> {
        self.entry()
            .map_err(|error| JournalError::unreadable(self.slot, error))
    }

    pub(super) fn damaged(&self, error: DecodeError) -> Damaged {
        Damaged {
            slot: self.slot,
            key: Key::adopt(self.key).ok(),
            error,
        }
    }

    pub(super) fn reference(&self) -> Option<Reference> {
        let key = Key::adopt(self.key).ok();
        key.map(|key| key.reference())
    }
}

/// Both halves of a settled entry without what was sent and answered: one encoding serves for the
/// entry and for its tombstone. `None` if it is not settled.
pub(super) fn buried(entry: &mut Entry) -> Option<(Vec<u8>, Vec<u8>)> {
    let progress = &mut entry.progress;
    if !progress.phase.is_settled() {
        return None;
    }
    // Just read: nobody shares it.
    let frozen = Arc::get_mut(&mut entry.frozen)?;
    frozen.body = Kept::NotKept;
    frozen.headers = Headers::new();
    frozen.url = "".into();
    if let Some(answer) = &mut progress.answer {
        answer.body = Kept::NotKept;
        answer.headers = Headers::new();
    }
    progress.recent.clear();
    progress.revision += 1;
    Some((frozen.encode(), progress.encode(&frozen.key)))
}

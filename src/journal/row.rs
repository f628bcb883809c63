//! What a store of the page keeps of one entry, tombstones included, and what it is asked to do. The values
//! are in the order in which `browser/store.js` takes them.

use crate::entry::{DecodeError, Entry, Expected, Flush, Frozen, Kept, Progress};
use crate::journal::{Damaged, Retention};
use crate::key::{Key, Reference};
use crate::machine;
use crate::message::Headers;
use crate::seam::values::{Pack, Values};
use crate::text::decimal;
use std::sync::Arc;

/// A row as the store hands it out.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    pub(crate) slot: u64,
    name: &'a str,
    pub(crate) key: &'a str,
    frozen: &'a [u8],
    progress: &'a [u8],
    pub(crate) revision: f64,
    pub(crate) gone: bool,
}

/// The name that is unique: scope, intent and generation. Neither of the first can hold what divides
/// them.
pub(crate) fn name_of(frozen: &Frozen) -> String {
    let generation = decimal(frozen.generation);
    let scope = frozen.scope.as_str();
    [scope, "\0", &frozen.intent, "\0", &generation].concat()
}

impl<'a> Row<'a> {
    /// The next row of these values.
    pub(crate) fn read(values: &mut Values<'a>) -> Row<'a> {
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
    pub(crate) fn entry(&self) -> Result<Box<Entry>, DecodeError> {
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

    pub(crate) fn damaged(&self, error: DecodeError) -> Damaged {
        Damaged {
            slot: self.slot,
            key: Key::adopt(self.key).ok(),
            error,
        }
    }

    pub(crate) fn reference(&self) -> Option<Reference> {
        let key = Key::adopt(self.key).ok();
        key.map(|key| key.reference())
    }
}

/// Get or create. The store also hears what to write if nobody waits for its answer.
pub(crate) fn add(asked: &mut Pack, entry: &Entry) {
    let (key, progress) = (entry.key(), &entry.progress);
    asked.text(&name_of(&entry.frozen));
    asked.text(key.as_str());
    asked.bytes(&entry.frozen.encode());
    asked.bytes(&progress.encode(key));
    asked.flag(progress.phase.is_unfinished());
    asked.bytes(&machine::release(progress, true).encode(key));
    asked.bytes(&Expected::of(progress).encode());
}

/// Replaces a progress, if nobody else did.
pub(crate) fn swap(
    asked: &mut Pack,
    (slot, key): (u64, &Key),
    expected: &Expected,
    progress: &Progress,
    flush: Flush,
) {
    let bytes = progress.encode(key);
    let open = progress.phase.is_unfinished();
    let row = (slot, key.as_str());
    swapping(asked, row, expected, (None, &bytes), (open, false, flush));
}

fn swapping(
    asked: &mut Pack,
    (slot, key): (u64, &str),
    expected: &Expected,
    (frozen, progress): (Option<&[u8]>, &[u8]),
    (open, gone, flush): (bool, bool, Flush),
) {
    asked.number(slot as f64);
    asked.text(key);
    asked.number(expected.revision as f64);
    asked.bytes(&expected.encode());
    asked.optional_bytes(frozen);
    asked.bytes(progress);
    asked.flag(open);
    asked.flag(gone);
    asked.flag(flush == Flush::Full);
}

/// Puts a tombstone in the place of a settled entry; says whether it is settled. Of both halves only what
/// was sent and answered goes: one encoding serves for the entry and for its tombstone.
pub(crate) fn bury(asked: &mut Pack, entry: &mut Entry, flush: Flush) -> bool {
    let ours = Expected::of(&entry.progress);
    let progress = &mut entry.progress;
    // Just read: nobody shares it.
    let frozen = Arc::get_mut(&mut entry.frozen).filter(|_| progress.phase.is_settled());
    let Some(frozen) = frozen else {
        return false;
    };
    frozen.body = Kept::NotKept;
    frozen.headers = Headers::new();
    frozen.url = "".into();
    if let Some(answer) = &mut progress.answer {
        answer.body = Kept::NotKept;
        answer.headers = Headers::new();
    }
    progress.recent.clear();
    progress.revision += 1;
    let row = (entry.slot, frozen.key.as_str());
    let bytes = progress.encode(&frozen.key);
    let content = (Some(&*frozen.encode()), &*bytes);
    swapping(asked, row, &ours, content, (false, true, flush));
    true
}

/// What is due of a row.
pub(crate) enum Due {
    /// Nothing yet; what cannot be read is kept as it is.
    Nothing,
    /// A tombstone takes its place: this swap.
    Tombstone,
    /// It goes.
    Removal,
}

pub(crate) fn reap(asked: &mut Pack, row: &Row<'_>, retention: &Retention) -> Due {
    let Ok(mut entry) = row.entry() else {
        return Due::Nothing;
    };
    let ended = entry.progress.ended_at();
    if row.gone {
        return match retention.tombstone_is_over(ended) {
            true => Due::Removal,
            false => Due::Nothing,
        };
    }
    match retention.entry_is_over(ended) && bury(asked, &mut entry, Flush::Normal) {
        true => Due::Tombstone,
        false => Due::Nothing,
    }
}

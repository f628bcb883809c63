//! The journals of a page: IndexedDB, and localStorage for those who choose it.

mod indexed_db;
mod local_storage;
mod locks;
pub(crate) mod page;
mod row;

pub use indexed_db::IndexedDbJournal;
pub use local_storage::LocalStorageJournal;

use super::{JournalError, JournalErrorKind};
use crate::entry::Owner;
use std::cell::RefCell;
use std::collections::HashMap;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::DomException;

/// What the browser said, as the journal's own error.
fn refused(what: &str, error: &JsValue) -> JournalError {
    let exception = error.dyn_ref::<DomException>();
    let name = exception.map(DomException::name).unwrap_or_default();
    let kind = match name.as_str() {
        "QuotaExceededError" => JournalErrorKind::Full,
        "VersionError" => JournalErrorKind::TooNew,
        _ => JournalErrorKind::Unavailable,
    };
    let advice = match kind {
        JournalErrorKind::Full => "the browser's storage is full; free some, then try again",
        JournalErrorKind::TooNew => "a newer samekey wrote it; reload the page to get that release",
        _ => "allow this site to store data, or leave private browsing, then try again",
    };
    JournalError::new(kind, format!("{what}: {}; {advice}", page::text_of(error)))
}

thread_local! {
    /// The owners that this page made, and whether they still live. What a page knows of itself
    /// needs no question to the browser, whose answer would lag behind.
    static OWN: RefCell<HashMap<u128, bool>> = RefCell::default();
}

/// One open handle of this page; when it is dropped, its owner is dead.
struct Life(Owner);

impl Life {
    fn begin() -> Result<Life, JournalError> {
        let mut bytes = [0; 16];
        page::fill_random(&mut bytes).map_err(|error| refused("no randomness", &error))?;
        let owner = u128::from_le_bytes(bytes);
        OWN.with_borrow_mut(|own| own.insert(owner, true));
        Ok(Life(Owner(owner)))
    }

    /// Whether an owner of this page lives; `None` if it is not this page's.
    fn of(owner: Owner) -> Option<bool> {
        OWN.with_borrow(|own| own.get(&owner.0).copied())
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        OWN.with_borrow_mut(|own| own.insert(self.0.0, false));
    }
}

//! The suite that every journal must pass, run from a page.
#![allow(
    clippy::arc_with_non_send_sync,
    reason = "journals are held as they are natively; a page has one thread"
)]

use samekey::journal::conformance::{RULES, Stage};
use samekey::journal::{BrowserJournal, Journal, JournalError};
use samekey::seam::BoxFuture;
use std::sync::Arc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

/// One empty store, under a name of its own.
struct Page {
    local: bool,
    name: String,
    damage: js_sys::Function,
}

impl Stage for Page {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Journal>, JournalError>> {
        Box::pin(async {
            let journal = if self.local {
                BrowserJournal::local_storage(&self.name).await?
            } else {
                BrowserJournal::indexed_db(&self.name).await?
            };
            Ok(Arc::new(journal) as Arc<dyn Journal>)
        })
    }

    fn damage(&self, slot: u64) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let asked = self.damage.call2(
                &JsValue::UNDEFINED,
                &self.name.as_str().into(),
                &(slot as f64).into(),
            );
            let done = JsFuture::from(js_sys::Promise::from(asked.unwrap_or_default())).await;
            done.is_ok_and(|done| done.is_truthy())
        })
    }
}

/// Runs every rule on a store of its own; the answer has one line per rule.
#[wasm_bindgen]
pub async fn conformance(local: bool, run: String, damage: js_sys::Function) -> String {
    let mut report = Vec::new();
    for rule in RULES {
        let stage = Page {
            local,
            name: format!("{run}-{}", rule.name),
            damage: damage.clone(),
        };
        report.push(match rule.check(&stage).await {
            Ok(()) => format!("ok {}", rule.name),
            Err(broken) => format!("not ok {broken}"),
        });
    }
    report.join("\n")
}

//! What is parked is taken up again when it is due, as long as the client lives.

use super::{Client, Inner};
use crate::key::Key;
use crate::operation::Operation;
use crate::platform;
use crate::seam::Map;
use crate::time::Timestamp;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};

/// Resumes `operation` at `until`, if the client still lives then. Where nothing can be run in the
/// background, the next start does it.
pub(super) fn later(operation: &Operation, until: Timestamp) {
    let inner = &operation.client.0;
    let key = operation.key();
    if parked(inner).insert(key.clone(), ()).is_some() {
        return;
    }
    let wait = until.since(inner.clock.now().wall);
    let sleep = {
        let clock = Arc::clone(&inner.clock);
        move || clock.sleep(wait.min(super::drive::LONGEST_SLEEP))
    };
    let (entry, body) = {
        let state = operation.state();
        (state.entry.clone(), state.body.clone())
    };
    let client = Arc::downgrade(inner);
    platform::spawn(Box::pin(async move {
        loop {
            sleep().await;
            let Some(inner) = Weak::<Inner>::upgrade(&client) else {
                return;
            };
            if inner.clock.now().wall < until {
                continue;
            }
            parked(&inner).remove(&key);
            let operation = Operation::found(Client(inner), entry);
            // The journal may not keep it; this process still has it.
            operation.state().body = body;
            // Whatever comes of it is in the journal, and told to those who listen there.
            let _ = operation.send().await;
            return;
        }
    }));
}

/// The operations that this client will take up again by itself.
fn parked(inner: &Inner) -> MutexGuard<'_, Map<Key, ()>> {
    inner.parked.lock().unwrap_or_else(PoisonError::into_inner)
}

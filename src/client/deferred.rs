//! What is parked is taken up again when it is due, as long as the client lives.

use super::{Client, Inner};
use crate::entry::Entry;
use crate::operation::Operation;
use crate::platform;
use crate::time::Timestamp;
use std::sync::{Arc, Weak};

/// Resumes `entry` at `until`, if the client still lives then. Where nothing can be run in the
/// background, the next start does it.
pub(super) fn later(client: &Client, entry: &Entry, until: Timestamp) {
    let wait = until.since(client.0.clock.now().wall);
    let sleep = {
        let clock = Arc::clone(&client.0.clock);
        move || clock.sleep(wait.min(super::drive::LONGEST_SLEEP))
    };
    let (client, entry) = (Arc::downgrade(&client.0), entry.clone());
    platform::spawn(Box::pin(async move {
        loop {
            sleep().await;
            let Some(inner) = Weak::<Inner>::upgrade(&client) else {
                return;
            };
            if inner.clock.now().wall >= until {
                // Whatever comes of it is in the journal, and told to those who listen there.
                let _ = Operation::found(Client(inner), entry).resume().await;
                return;
            }
        }
    }));
}

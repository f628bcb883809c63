//! The connections, and how to be rid of them.

use super::body::Outgoing;
use super::dial::Dialler;
use super::setup::Settings;
use hyper_util::client::legacy::Client;
use std::sync::{Mutex, PoisonError};

/// What sends, and keeps connections.
pub(super) type Http = Client<Dialler, Outgoing>;

/// A client that can be replaced: there is no other way to send the next request on a
/// connection that was not there before.
pub(super) struct Pool {
    settings: Settings,
    current: Mutex<Generation>,
}

/// A client, and how many there were before it.
#[derive(Clone)]
pub(super) struct Generation {
    pub(super) client: Http,
    number: u64,
}

impl Pool {
    pub(super) fn new(settings: Settings) -> Pool {
        let client = settings.http();
        Pool {
            settings,
            current: Mutex::new(Generation { client, number: 0 }),
        }
    }

    pub(super) fn current(&self) -> Generation {
        self.current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Lets go of every connection of the generation that `used` belongs to, once: of a thousand
    /// attempts that all met a dead connection, the first one renews. Attempts under way go on.
    pub(super) fn renew(&self, used: &Generation) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.number == used.number {
            current.client = self.settings.http();
            current.number += 1;
        }
    }
}

//! The connections, and how to be rid of them.

use super::setup::{Settings, SetupError};
use std::sync::{Mutex, PoisonError};

/// A reqwest client that can be replaced: there is no other way to send the next request on a
/// connection that was not there before.
pub(super) struct Pool {
    settings: Settings,
    current: Mutex<Generation>,
}

/// A client, and how many there were before it.
#[derive(Clone)]
pub(super) struct Generation {
    pub(super) client: reqwest::Client,
    number: u64,
}

impl Pool {
    pub(super) fn new(settings: Settings) -> Result<Pool, SetupError> {
        let client = settings.client()?;
        Ok(Pool {
            settings,
            current: Mutex::new(Generation { client, number: 0 }),
        })
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
        if current.number == used.number
            && let Ok(client) = self.settings.client()
        {
            current.client = client;
            current.number += 1;
        }
    }
}

//! One driver per operation within a process: the second caller waits for the first.

use crate::key::Key;
use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

/// The operations that this client is driving right now, and those it holds ready.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    flying: Mutex<HashMap<Key, Arc<Landing>>>,
    /// Begun here and neither sent nor touched by another handle since.
    held: Mutex<HashSet<Key>>,
}

/// Holds an operation's place; dropping it lets the waiting ones go on.
#[derive(Debug)]
pub(crate) struct Flight<'a> {
    flights: &'a Flights,
    key: Key,
}

#[derive(Debug, Default)]
struct Landing(Mutex<(bool, Vec<Waker>)>);

impl Flights {
    /// Takes the place of `key`, waiting until it is free; also says whether it had to wait.
    pub(crate) async fn enter(&self, key: &Key) -> (Flight<'_>, bool) {
        let mut waited = false;
        loop {
            match self.try_enter(key) {
                Ok(flight) => return (flight, waited),
                Err(landing) => landing.wait().await,
            }
            waited = true;
        }
    }

    /// Notes that what was begun under `key` is held ready by its handle.
    pub(crate) fn hold(&self, key: &Key) {
        lock(&self.held).insert(key.clone());
    }

    /// Ends that; says whether it was so until now.
    pub(crate) fn end_hold(&self, key: &Key) -> bool {
        lock(&self.held).remove(key)
    }

    fn try_enter(&self, key: &Key) -> Result<Flight<'_>, Arc<Landing>> {
        let mut flying = lock(&self.flying);
        if let Some(landing) = flying.get(key) {
            return Err(Arc::clone(landing));
        }
        flying.insert(key.clone(), Arc::default());
        Ok(Flight {
            flights: self,
            key: key.clone(),
        })
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let landing = lock(&self.flights.flying).remove(&self.key);
        if let Some(landing) = landing {
            let wakers = {
                let mut state = lock(&landing.0);
                state.0 = true;
                std::mem::take(&mut state.1)
            };
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

impl Landing {
    async fn wait(&self) {
        poll_fn(|cx| {
            let mut state = lock(&self.0);
            if state.0 {
                return Poll::Ready(());
            }
            state.1.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// A panic elsewhere leaves these plain values whole: go on with them.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! One driver per operation within a process: the second caller waits for the first.

use crate::entry::Owner;
use crate::key::Key;
use crate::seam::Map;
use crate::time::Timestamp;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

/// The operations that this client is driving right now, and those it holds ready.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    flying: Mutex<Map<Key, Arc<Landing>>>,
    /// Begun here and neither sent nor touched by another handle since.
    held: Mutex<Map<Key, ()>>,
    ages: Mutex<Ages>,
}

/// How old each unsettled key was when it was first driven here.
#[derive(Debug, Default)]
pub(crate) struct Ages(Map<Key, Age>);

/// The age of a key at one moment of the monotonic clock.
#[derive(Clone, Copy, Debug)]
struct Age {
    window_start: Timestamp,
    at: Duration,
    age: Duration,
}

/// Holds an operation's place; dropping it lets the waiting ones go on.
#[derive(Debug)]
pub(crate) struct Flight<'a> {
    flights: &'a Flights,
    key: Key,
}

#[derive(Debug, Default)]
struct Landing(Mutex<(bool, Vec<Waker>)>);

/// Clients that share an owner share what it is driving: to the journal they are one.
static SHARED: Mutex<Vec<(Owner, Weak<Flights>)>> = Mutex::new(Vec::new());

impl Flights {
    /// The flights of `owner`, whichever of its clients asks.
    pub(crate) fn of(owner: Owner) -> Arc<Flights> {
        let mut shared = lock(&SHARED);
        shared.retain(|(_, flights)| flights.strong_count() > 0);
        let known = shared.iter().find(|(known, _)| *known == owner);
        if let Some(flights) = known.and_then(|(_, flights)| flights.upgrade()) {
            return flights;
        }
        let flights = Arc::default();
        shared.push((owner, Arc::downgrade(&flights)));
        flights
    }

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
        lock(&self.held).insert(key.clone(), ());
    }

    /// See [`Ages::age`].
    pub(crate) fn age(
        &self,
        key: &Key,
        window_start: Timestamp,
        seen: Duration,
        at: Duration,
    ) -> Duration {
        lock(&self.ages).age(key, window_start, seen, at)
    }

    /// What is settled is not sent any more.
    pub(crate) fn forget_age(&self, key: &Key) {
        lock(&self.ages).forget(key);
    }

    /// Ends that; says whether it was so until now.
    pub(crate) fn end_hold(&self, key: &Key) -> bool {
        lock(&self.held).remove(key).is_some()
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

impl Ages {
    /// The least age of `key` in its window: what the wall clock says, or what this process has
    /// counted since it first drove it. A wall clock that was set back between two starts stands
    /// still in the journal; within this process time goes on all the same.
    pub(crate) fn age(
        &mut self,
        key: &Key,
        window_start: Timestamp,
        seen: Duration,
        at: Duration,
    ) -> Duration {
        let known = self
            .0
            .get(key)
            .filter(|known| known.window_start == window_start);
        let counted = known.map_or(Duration::ZERO, |known| {
            known.age + at.saturating_sub(known.at)
        });
        let age = seen.max(counted);
        self.0.insert(
            key.clone(),
            Age {
                window_start,
                at,
                age,
            },
        );
        age
    }

    pub(crate) fn forget(&mut self, key: &Key) {
        self.0.remove(key);
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
            if !state.1.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.1.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

/// A panic elsewhere leaves these plain values whole: go on with them.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

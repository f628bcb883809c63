//! One driver per operation within a process: the second caller waits for the first.

use crate::entry::Owner;
use crate::key::Key;
use crate::seam::Map;
use crate::time::Timestamp;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

/// The operations that this client is driving right now, and those it holds ready.
#[derive(Debug, Default)]
pub(crate) struct Flights(Mutex<Map<Key, Seat>>);

/// What is known here of one key. One that says nothing is not kept.
#[derive(Debug, Default)]
struct Seat {
    /// Somebody drives it.
    taken: bool,
    /// Where others wait for that to end.
    landing: Option<Arc<Landing>>,
    /// Begun here and neither sent nor touched by another handle since.
    held: bool,
    age: Option<Age>,
}

/// How old each unsettled key was when it was first driven here: a page's.
#[cfg(feature = "page")]
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
    held: AtomicBool,
    /// Taken along, and given back unless the operation is settled then.
    age: Mutex<Option<Age>>,
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
        self.with(key, |seat| seat.held = true);
    }

    /// Ends that.
    pub(crate) fn end_hold(&self, key: &Key) {
        self.with(key, |seat| seat.held = false);
    }

    fn try_enter(&self, key: &Key) -> Result<Flight<'_>, Arc<Landing>> {
        let (held, age) = self.with(key, |seat| {
            if seat.taken {
                return Err(Arc::clone(seat.landing.get_or_insert_default()));
            }
            seat.taken = true;
            Ok((std::mem::take(&mut seat.held), seat.age.take()))
        })?;
        Ok(Flight {
            flights: self,
            key: key.clone(),
            held: AtomicBool::new(held),
            age: Mutex::new(age),
        })
    }

    fn with<T>(&self, key: &Key, change: impl FnOnce(&mut Seat) -> T) -> T {
        let mut seats = lock(&self.0);
        if let Some(seat) = seats.get_mut(key) {
            let changed = change(seat);
            if seat.is_empty() {
                seats.remove(key);
            }
            return changed;
        }
        let mut seat = Seat::default();
        let changed = change(&mut seat);
        if !seat.is_empty() {
            seats.insert(key.clone(), seat);
        }
        changed
    }
}

impl Seat {
    fn is_empty(&self) -> bool {
        !self.taken && !self.held && self.age.is_none()
    }
}

impl Age {
    /// The least age of a key in its window: what the wall clock says, or what this process has
    /// counted since it first drove it. A wall clock that was set back between two starts stands
    /// still in the journal; within this process time goes on all the same.
    fn next(known: Option<Age>, window_start: Timestamp, seen: Duration, at: Duration) -> Age {
        let known = known.filter(|known| known.window_start == window_start);
        let counted = known.map_or(Duration::ZERO, |known| {
            known.age + at.saturating_sub(known.at)
        });
        let age = seen.max(counted);
        Age {
            window_start,
            at,
            age,
        }
    }
}

#[cfg(feature = "page")]
impl Ages {
    /// The least age of `key` in its window.
    pub(crate) fn age(
        &mut self,
        key: &Key,
        window_start: Timestamp,
        seen: Duration,
        at: Duration,
    ) -> Duration {
        let next = Age::next(self.0.get_mut(key).copied(), window_start, seen, at);
        self.0.insert(key.clone(), next);
        next.age
    }

    pub(crate) fn forget(&mut self, key: &Key) {
        self.0.remove(key);
    }
}

impl Flight<'_> {
    /// Whether it was held ready, untouched, until this flight began. Said once.
    pub(crate) fn take_held(&self) -> bool {
        self.held.swap(false, Ordering::Relaxed)
    }

    /// The least age of the key in its window, as [`Age::next`] has it.
    pub(crate) fn age(&self, window_start: Timestamp, seen: Duration, at: Duration) -> Duration {
        let mut known = lock(&self.age);
        let next = Age::next(*known, window_start, seen, at);
        *known = Some(next);
        next.age
    }

    /// What is settled is not sent any more: its age is forgotten.
    pub(crate) fn settle(&self) {
        *lock(&self.age) = None;
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let age = lock(&self.age).take();
        let landing = self.flights.with(&self.key, |seat| {
            seat.taken = false;
            seat.age = age;
            seat.landing.take()
        });
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

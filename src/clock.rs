//! Time and chance, as traits: tests and simulations bring their own.

use crate::seam::{BoxFuture, MaybeSend, MaybeSync};
use crate::time::Now;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Tells the time and lets it pass.
pub trait Clock: MaybeSend + MaybeSync {
    /// Both clocks, looked at together.
    fn now(&self) -> Now;

    /// The monotonic clock alone, for who need not know the time of day.
    fn monotonic(&self) -> Duration {
        self.now().monotonic
    }

    /// Resolves when `duration` has passed.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// A clock whose wall time never falls behind what its monotonic time proves to have passed.
///
/// A wall clock that is set back between two runs of one program would make a key look younger than
/// it is, and let it be sent after the server may have forgotten it.
pub(crate) struct Steady {
    clock: Arc<dyn Clock>,
    furthest: Mutex<Furthest>,
}

/// The furthest that both clocks have been seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Furthest(Now);

impl Furthest {
    /// `now`, with a wall time that is not behind what must have passed.
    pub(crate) fn steady(&mut self, mut now: Now) -> Now {
        let passed = now.monotonic.saturating_sub(self.0.monotonic);
        now.wall = now.wall.max(self.0.wall + passed);
        self.0 = now;
        now
    }
}

impl Steady {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Steady {
        let furthest = Mutex::new(Furthest(clock.now()));
        Steady { clock, furthest }
    }
}

impl Clock for Steady {
    fn now(&self) -> Now {
        let mut furthest = self.furthest.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        if crate::planted::is(27) {
            return now;
        }
        furthest.steady(now)
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.clock.sleep(duration)
    }
}

/// Where chance comes from.
pub trait Dice: MaybeSend + MaybeSync {
    /// A number for jitter.
    fn roll(&self) -> u64;

    /// Bytes for a key: 128 bits from the operating system, never from a generator in the program,
    /// which a fork or a cloned machine would repeat.
    fn key_bytes(&self) -> [u8; 16];
}

/// Both, shared.
pub(crate) type ClockAndDice = (Arc<dyn Clock>, Arc<dyn Dice>);

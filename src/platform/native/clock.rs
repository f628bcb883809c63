//! The system's clocks.

use crate::clock::Clock;
use crate::seam::BoxFuture;
use crate::time::{Now, Timestamp, millis};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

/// The clocks of the operating system, and tokio's sleep.
///
/// All `SystemClock`s of a process count their monotonic time from the same moment.
///
/// ```
/// use samekey::clock::Clock;
/// use samekey::platform::native::SystemClock;
///
/// let earlier = SystemClock.now();
/// assert!(SystemClock.now().monotonic >= earlier.monotonic);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where time enters the crate"
    )]
    fn now(&self) -> Now {
        let since_1970 = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Now {
            wall: Timestamp::from_millis(millis(since_1970)),
            monotonic: self.monotonic(),
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is where time enters the crate"
    )]
    fn monotonic(&self) -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

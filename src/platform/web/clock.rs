//! The page's clocks.

use super::page;
use crate::clock::Clock;
use crate::seam::BoxFuture;
use crate::seam::border::Pack;
use crate::time::{Now, Timestamp, millis};
use std::time::Duration;

/// `Date.now()`, `performance.now()` and `setTimeout`.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageClock;

impl Clock for PageClock {
    fn now(&self) -> Now {
        Now {
            // Both are whole enough, and positive.
            wall: Timestamp::from_millis(page::wall_millis() as u64),
            monotonic: Duration::from_micros((page::monotonic_millis() * 1000.0) as u64),
        }
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let mut sleep = Pack::of("sleep");
        sleep.number(millis(duration) as f64);
        let passed = page::start(&sleep);
        Box::pin(async move { drop(passed.await) })
    }
}

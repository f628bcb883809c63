//! The page's clocks.

use crate::clock::Clock;
use crate::journal::browser::page::{global, method};
use crate::seam::BoxFuture;
use crate::time::{Now, Timestamp};
use std::time::Duration;

/// `Date.now()`, `performance.now()` and `setTimeout`.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageClock;

impl Clock for PageClock {
    fn now(&self) -> Now {
        let performance = global("performance");
        let passed = method(&performance, "now")
            .and_then(|now| now.call0(&performance))
            .ok()
            .and_then(|millis| millis.as_f64());
        Now {
            // Both are whole enough, and positive.
            wall: Timestamp::from_millis(js_sys::Date::now() as u64),
            monotonic: Duration::from_micros((passed.unwrap_or(0.0) * 1000.0) as u64),
        }
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(gloo_timers::future::sleep(duration))
    }
}

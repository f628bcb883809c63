//! Time, in milliseconds since 1970, on a clock that a test or a fault can push.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub type Millis = i64;

/// The wall clock of one mock, with an offset that faults move.
#[derive(Debug, Default)]
pub struct Clock {
    offset: AtomicI64,
}

impl Clock {
    /// The time this mock believes in.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the mock reads time"
    )]
    pub fn now(&self) -> Millis {
        let real = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| {
                i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
            });
        real.saturating_add(self.offset.load(Ordering::Relaxed))
    }

    /// Moves the clock by this many milliseconds, forward or back.
    pub fn jump(&self, by: Millis) {
        self.offset.fetch_add(by, Ordering::Relaxed);
    }
}

/// The time as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`. Fractions are cut off.
pub fn http_date(at: Millis) -> String {
    let at = u64::try_from(at).unwrap_or(0);
    httpdate::fmt_http_date(UNIX_EPOCH + std::time::Duration::from_secs(at / 1000))
}

/// Reads an HTTP date.
pub fn parse_http_date(text: &str) -> Option<Millis> {
    let at = httpdate::parse_http_date(text).ok()?;
    i64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

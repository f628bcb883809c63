//! Points in time as plain values. Nothing here reads a clock.

use crate::text::decimal;
use std::time::Duration;

/// Wall-clock time: milliseconds since 1970-01-01T00:00:00Z.
///
/// ```
/// use samekey::Timestamp;
/// use std::time::Duration;
///
/// let begun = Timestamp::from_millis(1_000);
/// assert_eq!((begun + Duration::from_secs(2)).as_millis(), 3_000);
/// assert_eq!(begun.since(Timestamp::from_millis(4_000)), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The latest time that can be written down.
    pub const MAX: Timestamp = Timestamp(u64::MAX);

    /// A time from milliseconds since 1970.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Timestamp(millis)
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    #[must_use]
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// This time moved back, stopping at 1970.
    #[must_use]
    pub fn before(self, by: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(millis(by)))
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Timestamp;

    /// Saturates at [`Timestamp::MAX`] instead of wrapping.
    fn add(self, by: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(millis(by)))
    }
}

/// Whole milliseconds of a duration, saturating.
pub(crate) fn millis(duration: Duration) -> u64 {
    counted::<1_000_000>(duration)
}

/// The nanoseconds of a duration, saturating.
pub(crate) fn nanos(duration: Duration) -> u64 {
    counted::<1>(duration)
}

/// A duration counted in units of so many nanoseconds, saturating. In 64 bits: a page downloads
/// what 128 would take.
#[inline(never)]
fn counted<const UNIT: u32>(duration: Duration) -> u64 {
    let per_second = u64::from(1_000_000_000 / UNIT);
    let seconds = duration.as_secs();
    if seconds > u64::MAX / per_second {
        return u64::MAX;
    }
    (seconds * per_second).saturating_add((duration.subsec_nanos() / UNIT).into())
}

/// A duration as people say it.
pub(crate) fn spoken(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        [&decimal(duration.as_secs()), " s"].concat()
    } else {
        [&decimal(millis(duration)), " ms"].concat()
    }
}

/// One look at both clocks of a machine.
///
/// The wall clock survives a restart but may jump; the monotonic clock never jumps back but starts
/// anew with the process and may stand still while a laptop sleeps. Whatever guards safety asks
/// both and believes the one that says more time has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// What the wall clock says.
    pub wall: Timestamp,
    /// Time since some fixed point of this process.
    pub monotonic: Duration,
}

impl Now {
    /// Time passed since `earlier`, by whichever clock says more.
    #[must_use]
    pub fn since(self, earlier: Now) -> Duration {
        let monotonic = self.monotonic.saturating_sub(earlier.monotonic);
        self.wall.since(earlier.wall).max(monotonic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counting_in_64_bits_is_counting_in_128_where_it_fits(seconds: u64, nano in 0u32..1_000_000_000, shift in 0u32..64) {
            let duration = Duration::new(seconds >> shift, nano);
            let wide = |count: u128| u64::try_from(count).unwrap_or(u64::MAX);
            prop_assert_eq!(millis(duration), wide(duration.as_millis()));
            prop_assert_eq!(nanos(duration), wide(duration.as_nanos()));
        }
    }

    #[test]
    fn every_count_of_milliseconds_comes_back() {
        for count in [
            0,
            1,
            999,
            1_000,
            u64::MAX / 1_000 * 1_000,
            u64::MAX - 1,
            u64::MAX,
        ] {
            assert_eq!(millis(Duration::from_millis(count)), count);
        }
    }
}

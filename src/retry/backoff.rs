//! How long to wait before a retry when the server does not say.
//!
//! The limit doubles from retry to retry up to a cap, and the wait is drawn evenly between a small
//! floor and that limit. Without the draw, every client that a hiccup threw off comes back at the
//! same moment and makes the next one; a draw that is floored *afterwards* has the same fault for
//! the first retries, where most of them end.

use super::Policy;
use crate::time::nanos;
use std::time::Duration;

/// After this many doublings every limit has reached any cap; asking further is a waste.
const FAR: u32 = 65;

/// Waits are never longer than this, whatever a policy says.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// The wait before retry number `retry`, counted from 1; `roll` is a die with 2^64 sides.
///
/// ```
/// use samekey::retry::{Policy, backoff::delay};
///
/// let policy = Policy::new();
/// let table: Vec<_> = (1..=8)
///     .map(|retry| [0, u64::MAX / 2, u64::MAX].map(|roll| delay(&policy, retry, roll).as_millis()))
///     .collect();
/// assert_eq!(table, [
///     // lowest, middle and highest roll, in milliseconds
///     [100, 300, 500],
///     [100, 550, 1_000],
///     [100, 1_050, 2_000],
///     [100, 2_050, 4_000],
///     [100, 4_050, 8_000],
///     [100, 8_050, 16_000],
///     [100, 10_050, 20_000],
///     [100, 10_050, 20_000],
/// ]);
/// ```
#[must_use]
pub fn delay(policy: &Policy, retry: u32, roll: u64) -> Duration {
    let limit = limit(policy, retry);
    let floor = policy.floor.min(limit);
    let roll = if crate::planted::is(20) { 0 } else { roll };
    floor + share(limit - floor, roll)
}

/// The growing upper end of the draw.
///
/// In whole numbers: a page downloads it, and nothing else there needs any others. A test holds it
/// against the schedule of a library.
fn limit(policy: &Policy, retry: u32) -> Duration {
    let cap = policy.cap.min(LONGEST);
    let (mut limit, cap) = (nanos(policy.base.min(cap)), nanos(cap));
    let factor = u64::from(policy.factor.max(1));
    for _ in 1..retry.min(FAR) {
        limit = if limit > cap / factor {
            cap
        } else {
            limit * factor
        };
    }
    Duration::from_nanos(limit)
}

/// The part of `whole` that a roll stands for: none of it at 0, all of it at the highest.
pub(super) fn share(whole: Duration, roll: u64) -> Duration {
    // A die with 2^32 sides is fine enough, and no product leaves 64 bits.
    let (nanos, sides) = (nanos(whole), (roll >> 32) + 1);
    let (high, low) = (nanos >> 32, nanos & 0xffff_ffff);
    Duration::from_nanos(high * sides + ((low * sides) >> 32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use backon::{BackoffBuilder, ExponentialBuilder};
    use proptest::prelude::*;

    /// Rolls spread over the whole die.
    fn rolls() -> impl Iterator<Item = u64> {
        (0..=200).map(|i| u64::MAX / 200 * i)
    }

    #[test]
    fn every_retry_is_spread_the_first_one_included() {
        let policy = Policy::new();
        for retry in [1, 2, 3, 7, 50] {
            let mut waits: Vec<_> = rolls().map(|roll| delay(&policy, retry, roll)).collect();
            waits.dedup();
            assert!(
                waits.len() > 190,
                "retry {retry}: {} different waits",
                waits.len()
            );
            let most = limit(&policy, retry);
            let below = waits
                .iter()
                .filter(|w| **w < most / 2 + policy.floor / 2)
                .count();
            assert!(
                (80..120).contains(&below),
                "retry {retry}: {below} in the lower half"
            );
        }
    }

    #[test]
    fn a_draw_floored_afterwards_would_fail_the_test_of_spread() {
        let policy = Policy::new();
        let mut waits: Vec<_> = rolls()
            .map(|roll| share(policy.base, roll).max(policy.base))
            .collect();
        waits.dedup();
        assert_eq!(waits.len(), 1);
    }

    #[test]
    fn far_retries_cost_no_more_than_near_ones() {
        let wait = delay(&Policy::new(), u32::MAX, u64::MAX);
        assert_eq!(wait, Duration::from_secs(20));
    }

    #[test]
    fn no_policy_makes_anyone_wait_for_more_than_a_year() {
        let years = Duration::from_secs(100_000_000);
        let policy = Policy::new().base(years).cap(years);
        let wait = delay(&policy, 1, u64::MAX);
        assert_eq!(wait, Duration::from_secs(31_536_000));
    }

    proptest! {
        #[test]
        fn no_wait_leaves_its_bounds_and_nothing_overflows(
            base: u64, cap: u64, floor: u64, factor: u32, retry: u32, roll: u64,
        ) {
            let policy = Policy::new().factor(factor)
                .base(Duration::from_secs(base)).cap(Duration::from_secs(cap)).floor(Duration::from_secs(floor));
            let wait = delay(&policy, retry, roll);
            prop_assert!(wait <= policy.cap);
            prop_assert!(wait <= LONGEST);
            prop_assert!(wait >= policy.floor.min(limit(&policy, retry)));
        }

        #[test]
        fn the_schedule_is_that_of_backon_without_its_blur(
            base in 1u64..100_000, cap in 1u64..10_000_000, factor in 2u16..20, retry in 1u32..70,
        ) {
            let (base, cap) = (Duration::from_millis(base.min(cap)), Duration::from_millis(cap));
            let ours = limit(&Policy::new().base(base).cap(cap).factor(factor.into()), retry);
            let theirs = ExponentialBuilder::new()
                .with_min_delay(base)
                .with_max_delay(cap)
                .with_factor(f32::from(factor))
                .without_max_times()
                .build()
                .nth(retry as usize - 1)
                .map_or(cap, |limit| limit.clamp(base, cap));
            prop_assert!(ours.abs_diff(theirs) <= ours / 10_000, "{:?} {:?}", ours, theirs);
        }

        #[test]
        fn limits_never_shrink(base in 1u64..5_000, cap in 1u64..100_000, factor in 1u32..10, retry in 1u32..100) {
            let policy = Policy::new().factor(factor)
                .base(Duration::from_millis(base)).cap(Duration::from_millis(cap));
            prop_assert!(limit(&policy, retry) <= limit(&policy, retry + 1));
        }
    }
}

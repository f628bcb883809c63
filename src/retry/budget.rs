//! A budget of retries per host.
//!
//! A limit of attempts per operation does not protect a server that is down for everybody: six
//! attempts each make six times the load, just when it can bear the least. A budget counts over
//! all operations instead. Retries may add a fifth to the load of first attempts, and a small
//! reserve lets quiet programs retry at all. When the budget is spent, an operation waits its turn
//! or is handed back as not known yet; it is never reported as failed.

use std::time::Duration;

/// Seconds over which first attempts and retries are counted against each other.
const SECONDS: usize = 10;
/// First attempts that pay for one retry.
const PER_RETRY: u64 = 5;
/// Retries allowed per second whatever the traffic.
const RESERVE: u64 = 10;

/// How many retries one host may still be sent.
///
/// Ten slots of one second, so its size never changes. Time is an argument: any clock that does
/// not jump back serves, and one that does is held at its latest moment.
///
/// ```
/// use samekey::retry::budget::Budget;
/// use std::time::Duration;
///
/// let mut budget = Budget::new();
/// let now = Duration::from_secs(1);
/// assert_eq!(budget.level(), 100);
/// (0..50).for_each(|_| budget.deposit(now));
/// assert_eq!(budget.level(), 110);
/// assert!((0..110).all(|_| budget.withdraw(now)));
/// assert!(!budget.withdraw(now));
/// // What was drawn is forgotten after ten seconds.
/// assert!(budget.withdraw(now + Duration::from_secs(10)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Budget {
    slots: [Slot; SECONDS],
    second: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    firsts: u64,
    retries: u64,
}

impl Budget {
    /// A budget with its reserve and nothing else.
    #[must_use]
    pub fn new() -> Self {
        Budget::default()
    }

    /// Notes a first attempt.
    pub fn deposit(&mut self, now: Duration) {
        let slot = self.slot(now);
        slot.firsts = slot.firsts.saturating_add(1);
    }

    /// Takes one retry out, if there is one.
    #[must_use = "without leave nothing may be sent"]
    pub fn withdraw(&mut self, now: Duration) -> bool {
        self.slot(now);
        if self.level() == 0 {
            return false;
        }
        let slot = self.slot(now);
        slot.retries = slot.retries.saturating_add(1);
        true
    }

    /// How many retries are left, as of the last deposit or withdrawal.
    #[must_use]
    pub fn level(&self) -> u64 {
        let (mut firsts, mut retries) = (0u64, 0u64);
        for slot in &self.slots {
            firsts = firsts.saturating_add(slot.firsts);
            retries = retries.saturating_add(slot.retries);
        }
        (firsts / PER_RETRY + RESERVE * SECONDS as u64).saturating_sub(retries)
    }

    /// The slot of this second, after those that have passed out of sight are cleared.
    fn slot(&mut self, now: Duration) -> &mut Slot {
        let now = now.as_secs().max(self.second);
        for second in (self.second..now).rev().take(SECONDS) {
            self.slots[at(second + 1)] = Slot::default();
        }
        self.second = now;
        &mut self.slots[at(now)]
    }
}

fn at(second: u64) -> usize {
    (second % SECONDS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_quiet_program_may_retry_and_a_storm_may_not() {
        let mut budget = Budget::new();
        let now = Duration::from_secs(1_000);
        assert!(budget.withdraw(now), "the reserve");
        (0..10_000).for_each(|_| budget.deposit(now));
        let granted = (0..10_000).filter(|_| budget.withdraw(now)).count();
        assert_eq!(
            granted,
            2_000 + 99,
            "a fifth of the traffic and the rest of the reserve"
        );
        assert_eq!(budget.level(), 0);
    }

    #[test]
    fn the_reserve_is_ten_a_second_over_time() {
        let mut budget = Budget::new();
        let granted = (0..60_000)
            .filter(|i| budget.withdraw(Duration::from_millis(*i)))
            .count();
        assert!((600..=700).contains(&granted), "{granted}");
    }

    #[test]
    fn a_clock_that_jumps_back_gives_nothing_away() {
        let mut budget = Budget::new();
        let late = Duration::from_secs(100);
        let drawn = (0..1_000).filter(|_| budget.withdraw(late)).count();
        assert_eq!(drawn, 100);
        assert!(!budget.withdraw(Duration::ZERO));
        assert!(!budget.withdraw(Duration::from_secs(101)));
    }

    proptest! {
        #[test]
        fn retries_never_exceed_a_fifth_and_the_reserve(steps in proptest::collection::vec((any::<bool>(), 0u64..700), 1..600)) {
            let mut budget = Budget::new();
            let mut now = Duration::ZERO;
            let (mut firsts, mut granted) = (0u64, 0u64);
            for (first, pause) in steps {
                now += Duration::from_millis(pause);
                if first {
                    budget.deposit(now);
                    firsts += 1;
                } else if budget.withdraw(now) {
                    granted += 1;
                }
                let spans = now.as_secs() / SECONDS as u64 + 2;
                prop_assert!(granted <= firsts / PER_RETRY + 1 + spans * RESERVE * SECONDS as u64);
            }
        }

        #[test]
        fn no_time_makes_it_panic(times: Vec<u64>) {
            let mut budget = Budget::new();
            for t in times {
                let before = budget.level();
                let granted = budget.withdraw(Duration::from_secs(t));
                prop_assert!(granted || before <= budget.level());
                budget.deposit(Duration::from_secs(t));
            }
        }
    }
}

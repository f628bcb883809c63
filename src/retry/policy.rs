//! The limits of retrying.

use crate::message::filled;
use crate::time::spoken;
use std::time::Duration;

/// Longer than this, a duration is a mistake and not a wish.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// How often and how long to try.
///
/// A policy takes any value without complaint; the client's `build()` looks at all of it at once
/// and names every rule that is broken.
///
/// ```
/// use samekey::retry::Policy;
/// use std::time::Duration;
///
/// let policy = Policy::new().max_attempts(4).give_up_after(Duration::from_secs(45));
/// assert_eq!(policy.attempts(), 4);
/// assert!(policy.check(Duration::from_secs(24 * 3600)).is_ok());
///
/// let wrong = Policy::new().max_attempts(0).base(Duration::from_secs(60));
/// let problems = wrong.check(Duration::from_secs(24 * 3600)).unwrap_err();
/// assert_eq!(problems.all().len(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Policy {
    pub(crate) max_attempts: u32,
    pub(crate) base: Duration,
    pub(crate) factor: u32,
    pub(crate) cap: Duration,
    pub(crate) floor: Duration,
    pub(crate) attempt_timeout: Duration,
    pub(crate) give_up_after: Duration,
    pub(crate) defer_above: Duration,
}

impl Policy {
    /// The defaults, each explained at its setter.
    pub const fn new() -> Self {
        Policy {
            max_attempts: 6,
            base: Duration::from_millis(500),
            factor: 2,
            cap: Duration::from_secs(20),
            floor: Duration::from_millis(100),
            attempt_timeout: Duration::from_secs(10),
            give_up_after: Duration::from_secs(120),
            defer_above: Duration::from_secs(30),
        }
    }

    /// How many attempts an operation gets, the first included. Default 6: the waits between them
    /// then add up to at most half a minute, which outlasts a restart of the server.
    ///
    /// A server that says it is still working on the key is asked again without using one up.
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// The longest wait before the first retry. Default 500 ms: longer than most hiccups, short
    /// enough that nobody at a screen notices.
    pub const fn base(mut self, base: Duration) -> Self {
        self.base = base;
        self
    }

    /// By how much the wait grows from retry to retry. Default 2.
    pub const fn factor(mut self, factor: u32) -> Self {
        self.factor = factor;
        self
    }

    /// Where the wait stops growing. Default 20 s: beyond it the person waiting has left.
    pub const fn cap(mut self, cap: Duration) -> Self {
        self.cap = cap;
        self
    }

    /// The shortest wait of the schedule. Default 100 ms: full jitter alone may draw a wait of
    /// nothing. The draw is made *between* the floor and the growing limit; flooring it afterwards
    /// would make every short draw the same, and the spread would be gone.
    pub const fn floor(mut self, floor: Duration) -> Self {
        self.floor = floor;
        self
    }

    /// How long one attempt may take. Default 10 s: most servers have given up on a request by
    /// then, and a second attempt under the same key costs nothing.
    pub const fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = timeout;
        self
    }

    /// How long `send()` keeps at it before it hands back what is not known yet. Default 120 s:
    /// a server's lock on a crashed request has usually expired by then. The entry stays open;
    /// resuming goes on under the same key.
    pub const fn give_up_after(mut self, total: Duration) -> Self {
        self.give_up_after = total;
        self
    }

    /// A wait that the server asks for and that is longer than this is not sat out: the operation
    /// is deferred until then, durably. Default 30 s: a longer silence looks like a hang.
    pub const fn defer_above(mut self, wait: Duration) -> Self {
        self.defer_above = wait;
        self
    }

    /// See [`Policy::max_attempts`].
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.max_attempts
    }

    /// See [`Policy::base`].
    #[must_use]
    pub const fn base_delay(&self) -> Duration {
        self.base
    }

    /// See [`Policy::factor`].
    #[must_use]
    pub const fn growth(&self) -> u32 {
        self.factor
    }

    /// See [`Policy::cap`].
    #[must_use]
    pub const fn longest_delay(&self) -> Duration {
        self.cap
    }

    /// See [`Policy::floor`].
    #[must_use]
    pub const fn shortest_delay(&self) -> Duration {
        self.floor
    }

    /// See [`Policy::attempt_timeout`].
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.attempt_timeout
    }

    /// See [`Policy::give_up_after`].
    #[must_use]
    pub const fn total(&self) -> Duration {
        self.give_up_after
    }

    /// See [`Policy::defer_above`].
    #[must_use]
    pub const fn longest_foreground_wait(&self) -> Duration {
        self.defer_above
    }

    /// Whether the policy makes sense for a server that remembers keys for `window`.
    ///
    /// # Errors
    /// Every rule that it breaks, not only the first.
    pub fn check(&self, window: Duration) -> Result<(), InvalidPolicy> {
        let problems = self.problems(window);
        if problems.is_empty() {
            Ok(())
        } else {
            Err(InvalidPolicy(problems))
        }
    }

    /// Every rule that is broken, each with what to do about it.
    pub(crate) fn problems(&self, window: Duration) -> Vec<String> {
        let mut problems = Vec::new();
        if self.max_attempts == 0 {
            let none =
                "max_attempts is 0, so nothing would ever be sent; use 1 to send without retrying";
            problems.push(none.into());
        }
        if self.factor == 0 {
            let none =
                "factor is 0, so waits would shrink to nothing; use 1 for even waits, 2 to double";
            problems.push(none.into());
        }
        let mut fits = |short: &str, less: Duration, long: &str, more: Duration, advice: &str| {
            if less > more {
                let (less, more) = (spoken(less), spoken(more));
                problems.push(filled(
                    "% (%) is longer than % (%)%",
                    &[short, &less, long, &more, advice],
                ));
            }
        };
        let (base, cap, floor) = (self.base, self.cap, self.floor);
        let (timeout, total) = (self.attempt_timeout, self.give_up_after);
        fits("base", base, "cap", cap, "; raise cap or lower base");
        let no_room = ", which leaves jitter no room; lower floor";
        fits("floor", floor, "base", base, no_room);
        let one = "; one attempt must fit";
        fits("attempt_timeout", timeout, "give_up_after", total, one);
        let mut sane = |name: &str, value: Duration, least: Duration| {
            if value < least {
                problems.push(filled("% is zero; give it some time", &[name]));
            }
            if value > YEAR {
                problems.push(filled(
                    "% is longer than a year; that is hardly meant",
                    &[name],
                ));
            }
        };
        let some = Duration::from_nanos(1);
        sane("base", base, some);
        sane("cap", cap, Duration::ZERO);
        sane("attempt_timeout", timeout, some);
        sane("give_up_after", total, some);
        sane("defer_above", self.defer_above, Duration::ZERO);
        let usable = window.saturating_sub(self.attempt_timeout.max(window / 24));
        if self.give_up_after > usable {
            problems.push(filled(
                "give_up_after (%) exceeds the % in which the server surely remembers the key; \
                 lower it, or state a longer window if the server promises one",
                &[&spoken(self.give_up_after), &spoken(usable)],
            ));
        }
        problems
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy::new()
    }
}

/// Every rule that a policy breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct InvalidPolicy(pub(crate) Vec<String>);

impl InvalidPolicy {
    /// One sentence per broken rule.
    #[must_use]
    pub fn all(&self) -> &[String] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[test]
    fn the_defaults_break_no_rule() {
        assert_eq!(Policy::new().problems(DAY), Vec::<String>::new());
        assert_eq!(Policy::default(), Policy::new());
    }

    #[test]
    fn every_broken_rule_is_named_at_once() {
        let worst = Policy::new()
            .max_attempts(0)
            .factor(0)
            .base(Duration::from_secs(30))
            .floor(Duration::from_secs(40))
            .attempt_timeout(Duration::ZERO)
            .give_up_after(YEAR * 2)
            .defer_above(Duration::MAX);
        let problems = worst.check(DAY).unwrap_err();
        for word in [
            "max_attempts",
            "factor",
            "cap",
            "floor",
            "attempt_timeout is zero",
            "year",
            "remembers",
            "defer_above",
        ] {
            assert!(problems.to_string().contains(word), "{word}: {problems}");
        }
        assert_eq!(problems.all().len(), 8, "{problems}");
    }

    #[test]
    fn an_attempt_must_fit_into_the_total_and_the_total_into_the_window() {
        let policy = Policy::new().attempt_timeout(Duration::from_secs(121));
        assert_eq!(policy.problems(DAY).len(), 1);
        let hour = Duration::from_secs(3600);
        let total = |minutes: u64| Policy::new().give_up_after(Duration::from_secs(minutes * 60));
        assert_eq!(total(57).problems(hour), Vec::<String>::new());
        assert_eq!(total(58).problems(hour).len(), 1);
        assert_eq!(Policy::new().problems(Duration::ZERO).len(), 1);
    }

    #[test]
    fn every_limit_may_be_reached_and_not_passed() {
        let (second, year) = (Duration::from_secs(1), Duration::from_secs(31_536_000));
        let new = Policy::new;
        let pairs = [
            (new().cap(year), new().cap(year + second)),
            (new().defer_above(year), new().defer_above(year + second)),
            (new().base(20 * second), new().base(21 * second)),
            (new().floor(second / 2), new().floor(second)),
            (
                new().attempt_timeout(120 * second),
                new().attempt_timeout(121 * second),
            ),
        ];
        for (fits, beyond) in pairs {
            assert_eq!(fits.problems(DAY), Vec::<String>::new());
            assert_eq!(beyond.problems(DAY).len(), 1, "{beyond:?}");
        }
        let hour = Duration::from_secs(3600);
        let total = |seconds| new().give_up_after(second * seconds).problems(hour).len();
        assert_eq!((total(3450), total(3451)), (0, 1));
    }

    #[test]
    fn whoever_wants_every_wait_parked_may_say_so() {
        let policy = Policy::new().defer_above(Duration::ZERO);
        assert_eq!(policy.problems(DAY), Vec::<String>::new());
        assert_eq!(Policy::new().base(Duration::ZERO).problems(DAY).len(), 2);
    }

    #[test]
    fn what_is_set_can_be_read() {
        let seconds = Duration::from_secs;
        let policy = Policy::new()
            .max_attempts(9)
            .base(seconds(2))
            .factor(3)
            .cap(seconds(4))
            .floor(seconds(5))
            .attempt_timeout(seconds(6))
            .give_up_after(seconds(7))
            .defer_above(seconds(8));
        assert_eq!((policy.attempts(), policy.growth()), (9, 3));
        let read = [
            policy.base_delay(),
            policy.longest_delay(),
            policy.shortest_delay(),
            policy.timeout(),
            policy.total(),
            policy.longest_foreground_wait(),
        ];
        assert_eq!(read, [2, 4, 5, 6, 7, 8].map(seconds));
    }

    proptest! {
        #[test]
        fn no_policy_makes_the_check_panic(n: [u64; 7], attempts: u32, factor: u32) {
            let [a, b, c, d, e, f, window] = n.map(Duration::from_millis);
            let _ = Policy::new().max_attempts(attempts).factor(factor).base(a).cap(b).floor(c)
                .attempt_timeout(d).give_up_after(e).defer_above(f).problems(window);
        }
    }
}

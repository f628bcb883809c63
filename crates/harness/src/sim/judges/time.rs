//! I7 inside the window · I14 retry discipline · I20 no clock can break safety: all rules hold whatever
//! the clocks say, and I7 is excused only where nobody could know better.

use super::super::monitor::Monitor;
use super::{Hint, Sending, Writing, says};

/// A clock that was set back since the begin excuses those that were started later: the age of the key
/// is then known only as far as the journal last saw the time.
pub(super) fn i07_inside_the_window(it: &Sending<'_>) -> Option<String> {
    let config = &it.world.config;
    let limit = config.window.saturating_sub(config.timeout);
    let (by, first) = it.watch.first_left_by?;
    let ticks = it.clock.monotonic.saturating_sub(first.monotonic);
    let old_by_ticks = by == it.packet.process && ticks.as_millis() > u128::from(limit);
    let held = it.watch.reserved;
    let old = held.is_some_and(|at| it.world.now - at > limit);
    let late = old && (old_by_ticks || !it.world.was_set_back(it.watch));
    says(it.left && late, "it was sent after the window")
}

impl Monitor {
    /// What the server did: once per key. `excused` where a clock was set back.
    pub(super) fn i07_effects(&mut self, key: &str, deed: usize, excused: bool) {
        let effects = self.keys.get(key).map_or(0, |watch| watch.effects);
        if effects > 1 && !excused && !key.is_empty() {
            self.broken("I7", deed, "it happened twice under one key");
        }
    }
}

/// By whoever heard it, and by everybody once it is noted. Programs that were started before and after a
/// clock was set back do not agree on the time: one whose clock is ahead takes the entry up when the wait is
/// over for it, and who comes after it finds no entry that is parked.
pub(super) fn i14_not_sooner_than_asked(it: &Sending<'_>) -> Option<String> {
    let Hint {
        by,
        at,
        seconds,
        noted,
        since,
    } = it.watch.hint?;
    let me = it.packet.process;
    let known = by == me || (noted && !it.was_stopped());
    let early = it.clock.since(at).as_millis() + 1 < u128::from(seconds) * 1000;
    let since = since.min(it.world.processes[me].started_at);
    let set_back = it.world.hosts[it.watch.host].set_back_at;
    says(
        known && early && set_back.is_none_or(|at| at < since),
        "it was sent sooner than the server asked",
    )
}

/// By whomever, unless the power took the note back or a driver could not even let go.
pub(super) fn i14_one_request_per_attempt(it: &Sending<'_>) -> Option<String> {
    let again = it.watch.numbers.contains(&it.permit.attempt());
    says(it.left && again, "two requests left under one attempt")
}

/// An attempt that was noted and then surely did not leave may be taken back, no other.
pub(super) fn i14_attempts_are_not_uncounted(it: &Writing<'_>) -> Option<String> {
    let let_go = it.after.owner.0 == 0 && !it.after.maybe_applied;
    says(
        it.after.attempts < it.before.attempts && !let_go,
        "attempts were uncounted",
    )
}

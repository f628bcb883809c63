//! How long the server can be trusted to remember the key.

use crate::entry::{Progress, WindowSource};
use crate::message::Response;
use crate::planted;
use crate::profile::Profile;
use crate::retry::Policy;
use crate::time::{Now, Timestamp};
use std::time::Duration;

/// How far two clocks that are both roughly right may disagree.
const CLOCK_DOUBT: Duration = Duration::from_secs(2);

/// The age of a key, by whichever clock says more.
///
/// A wall clock that was set back cannot make a key younger: what the journal saw last is a floor,
/// and within a run the monotonic clock counts on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    opened: Now,
    age_when_opened: Duration,
}

impl Window {
    pub(super) fn open(progress: &Progress, now: &Now) -> Window {
        let age = now.wall.max(progress.seen_at).since(progress.window_start);
        Window {
            opened: *now,
            age_when_opened: age,
        }
    }

    fn age(&self, progress: &Progress, now: &Now) -> Duration {
        let by_wall = now.wall.max(progress.seen_at).since(progress.window_start);
        if planted::is(27) {
            return now.wall.since(progress.window_start);
        }
        let passed = now.monotonic.saturating_sub(self.opened.monotonic);
        by_wall.max(self.age_when_opened.saturating_add(passed))
    }

    /// How long an attempt may still begin; `None` once that is over.
    pub(super) fn left(&self, progress: &Progress, policy: &Policy, now: &Now) -> Option<Duration> {
        let margin = margin(progress.window, policy);
        if planted::is(8) {
            return Some(progress.window);
        }
        let usable = progress.window.checked_sub(margin)?;
        usable
            .checked_sub(self.age(progress, now))
            .filter(|left| !left.is_zero())
    }

    pub(super) fn is_closed(&self, progress: &Progress, policy: &Policy, now: &Now) -> bool {
        self.left(progress, policy, now).is_none()
    }

    pub(super) fn closes_within(
        &self,
        wait: Duration,
        progress: &Progress,
        policy: &Policy,
        now: &Now,
    ) -> bool {
        self.left(progress, policy, now)
            .is_none_or(|left| left <= wait)
    }

    /// Believes a server that states when it will forget the key: always when that is sooner than
    /// thought, and when it is later only where nothing better than an assumption stood against it.
    pub(super) fn heed_server(
        &self,
        progress: &mut Progress,
        profile: &Profile,
        response: &Response,
        now: Timestamp,
    ) {
        let Some(left) = profile.remembered_for(&response.headers, now) else {
            return;
        };
        let window = (now + left).since(progress.window_start);
        if window < progress.window || progress.window_source == WindowSource::Assumed {
            progress.window = window;
            progress.window_source = WindowSource::Server;
        }
    }
}

/// What is kept free at the window's end: an attempt must be over, and clocks may differ.
pub(crate) fn margin(window: Duration, policy: &Policy) -> Duration {
    (policy.attempt_timeout + CLOCK_DOUBT).max(window / 24)
}

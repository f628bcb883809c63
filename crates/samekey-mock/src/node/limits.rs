//! How many keys a tenant may create, and how often it may ask for one.

use crate::clock::Millis;
use crate::settings::Limit;
use std::collections::HashMap;

/// Counts per tenant in fixed windows.
#[derive(Debug, Default)]
pub(super) struct Limits {
    counts: HashMap<(String, &'static str), (Millis, u64)>,
}

/// What is left of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) quota: u64,
    pub(super) window: u64,
    pub(super) left: u64,
    /// Seconds until the window starts anew.
    pub(super) reset: u64,
}

impl Limits {
    /// What a tenant has left, without taking any.
    pub(super) fn look(&self, tenant: &str, what: &'static str, limit: Limit, now: Millis) -> Left {
        let window = Millis::try_from(limit.window.as_millis())
            .unwrap_or(Millis::MAX)
            .max(1);
        let used = match self.counts.get(&(tenant.to_owned(), what)) {
            Some((start, used)) if (0..window).contains(&(now - start)) => (*start, *used),
            _ => (now, 0),
        };
        let reset = (used.0 + window - now).unsigned_abs().div_ceil(1000);
        Left {
            quota: limit.quota,
            window: limit.window.as_secs(),
            left: limit.quota.saturating_sub(used.1),
            reset,
        }
    }

    /// Returns one.
    pub(super) fn give_back(&mut self, tenant: &str, what: &'static str) {
        if let Some(count) = self.counts.get_mut(&(tenant.to_owned(), what)) {
            count.1 = count.1.saturating_sub(1);
        }
    }

    /// Takes one.
    pub(super) fn take(&mut self, tenant: &str, what: &'static str, limit: Limit, now: Millis) {
        let window = Millis::try_from(limit.window.as_millis())
            .unwrap_or(Millis::MAX)
            .max(1);
        let count = self
            .counts
            .entry((tenant.to_owned(), what))
            .or_insert((now, 0));
        if !(0..window).contains(&(now - count.0)) {
            *count = (now, 0);
        }
        count.1 += 1;
    }
}

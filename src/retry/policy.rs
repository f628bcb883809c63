//! The limits of retrying.

use std::time::Duration;

/// How often and how long to try. Validated by the client's `build()`.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
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

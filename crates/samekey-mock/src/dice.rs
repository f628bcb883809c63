//! Repeatable chance: the same seed gives the same faults.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A small generator (splitmix64): no quality beyond that of a test is needed.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    /// Dice that repeat for the same seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// True with this probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        let unit = (self.roll() >> 11) as f64 / (1_u64 << 53) as f64;
        unit < probability
    }

    /// A number between both ends, ends included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        match high.checked_sub(low) {
            None | Some(0) => low,
            Some(span) => low + self.roll() % span.saturating_add(1),
        }
    }
}

/// A number that no other process is likely to have: names nodes and workers.
pub(crate) fn unlikely_number() -> u64 {
    RandomState::new().build_hasher().finish()
}

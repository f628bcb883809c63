//! The system's randomness.

use crate::clock::Dice;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// Randomness from the operating system, asked anew for every key: no generator in the program
/// whose state a fork or a cloned machine could repeat.
///
/// ```
/// use samekey::clock::Dice;
/// use samekey::platform::native::OsDice;
///
/// assert_ne!(OsDice.key_bytes(), OsDice.key_bytes());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct OsDice;

impl Dice for OsDice {
    fn roll(&self) -> u64 {
        // Jitter only has to differ: the standard library's secret of this thread, which counts up, will
        // do. The system would be asked for every answer, and hardly one is followed by a wait.
        RandomState::new().build_hasher().finish()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is where randomness enters the crate"
    )]
    fn key_bytes(&self) -> [u8; 16] {
        #[cfg(feature = "planted")]
        if crate::planted::is(26) {
            return repeated();
        }
        uuid::Uuid::new_v4().into_bytes()
    }
}

/// A generator in the program, as every fork of it goes on with: a bug of the harness.
#[cfg(feature = "planted")]
fn repeated() -> [u8; 16] {
    use std::sync::atomic::{AtomicU64, Ordering};
    static DRAWN: AtomicU64 = AtomicU64::new(1);
    let number = u128::from(DRAWN.fetch_add(1, Ordering::Relaxed));
    number
        .wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
        .to_le_bytes()
}

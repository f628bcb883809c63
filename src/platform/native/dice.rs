//! The system's randomness.

use crate::clock::Dice;

/// Randomness from the operating system, asked anew for every draw: no generator in the program
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
        // Bytes 6 and 8 of a version 4 UUID carry the version and the variant.
        let [a, b, c, d, e, f, _, g, _, h, ..] = self.key_bytes();
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is where randomness enters the crate"
    )]
    fn key_bytes(&self) -> [u8; 16] {
        uuid::Uuid::new_v4().into_bytes()
    }
}

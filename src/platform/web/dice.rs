//! The browser's randomness.

use super::page::random;
use crate::clock::Dice;

/// `crypto.getRandomValues`, asked anew for every draw.
#[derive(Clone, Copy, Debug)]
pub struct PageDice(());

impl PageDice {
    /// The page's dice; `None` where the browser has no randomness to give.
    #[must_use]
    pub fn new() -> Option<PageDice> {
        random().map(|_| PageDice(()))
    }
}

impl Dice for PageDice {
    fn roll(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.key_bytes();
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    fn key_bytes(&self) -> [u8; 16] {
        let bytes = random()
            .and_then(|bytes| bytes.try_into().ok())
            .unwrap_or_default();
        // It answered when the dice were made, and has no way to stop answering. A key of zeros
        // would be shared by everyone, so it must never be used.
        assert!(bytes != [0; 16], "the browser no longer gives randomness");
        bytes
    }
}

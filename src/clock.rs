//! Time and chance, as traits: tests and simulations bring their own.

use crate::seam::{BoxFuture, MaybeSend, MaybeSync};
use crate::time::Now;
use std::sync::Arc;
use std::time::Duration;

/// Tells the time and lets it pass.
pub trait Clock: MaybeSend + MaybeSync {
    /// Both clocks, looked at together.
    fn now(&self) -> Now;

    /// Resolves when `duration` has passed.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// Where chance comes from.
pub trait Dice: MaybeSend + MaybeSync {
    /// A number for jitter.
    fn roll(&self) -> u64;

    /// Bytes for a key: 128 bits from the operating system, never from a generator in the program,
    /// which a fork or a cloned machine would repeat.
    fn key_bytes(&self) -> [u8; 16];
}

/// Both, shared.
pub(crate) type ClockAndDice = (Arc<dyn Clock>, Arc<dyn Dice>);

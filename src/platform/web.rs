//! Pages: `fetch`, the browser's clocks and its randomness.
#![allow(
    clippy::arc_with_non_send_sync,
    reason = "the client holds its parts as it does natively; a page has one thread"
)]

mod clock;
mod defaults;
mod dice;
mod fetch;
mod page;

pub use crate::seam::border;
pub use clock::PageClock;
pub(crate) use defaults::{default_clock_and_dice, default_journal, default_transport, spawn};
pub use dice::PageDice;
pub use fetch::{Cookies, FetchTransport};

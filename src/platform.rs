//! Everything that differs between a program and a page.
//!
//! A build without a platform (no default features) has no defaults: its client is built with
//! [`Client::with_parts`](crate::Client::with_parts).

#[cfg(feature = "page")]
pub mod page;

#[cfg(all(feature = "native", not(target_arch = "wasm32")))]
pub mod native;

#[cfg(all(feature = "native", not(target_arch = "wasm32")))]
pub(crate) use native::{default_clock_and_dice, default_journal, default_transport, spawn};

#[cfg(all(feature = "browser", target_arch = "wasm32"))]
pub mod web;

#[cfg(all(feature = "browser", target_arch = "wasm32"))]
pub(crate) use web::{default_clock_and_dice, default_journal, default_transport, spawn};

#[cfg(not(any(
    all(feature = "native", not(target_arch = "wasm32")),
    all(feature = "browser", target_arch = "wasm32")
)))]
mod bare;
#[cfg(not(any(
    all(feature = "native", not(target_arch = "wasm32")),
    all(feature = "browser", target_arch = "wasm32")
)))]
pub(crate) use bare::{default_clock_and_dice, default_journal, default_transport, spawn};

//! The bindings under the npm package: plain values in, plain values out. What people use, options and
//! their defaults, errors and outcomes, is made of them in `pkg/src`.
#![cfg(target_arch = "wasm32")]
#![forbid(unsafe_code)]

mod client;
#[cfg(feature = "conformance")]
pub mod conformance;
mod given;
mod operation;
mod told;

pub use client::RawClient;
pub use operation::RawOperation;

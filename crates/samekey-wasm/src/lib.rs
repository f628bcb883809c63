//! The bindings under the npm package: plain values in, plain values out. The shapes that people
//! use are made of them in `pkg/src`.
#![cfg(target_arch = "wasm32")]

mod client;
#[cfg(feature = "conformance")]
pub mod conformance;
mod operation;
mod options;
mod shape;

pub use client::RawClient;
pub use operation::RawOperation;

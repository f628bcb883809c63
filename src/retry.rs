//! Retrying: when, how often, and what an attempt's end means. Everything here is pure.

pub mod backoff;
pub mod budget;
pub mod classify;
mod policy;
pub mod retry_after;

pub use policy::{InvalidPolicy, Policy};

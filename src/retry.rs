//! Retrying: when, how often, and what an attempt's end means. Everything here is pure.
//!
//! Sending again is safe only because the key goes along, so none of this ever leads to a new key.
//! Four questions, one module each:
//!
//! | question | module |
//! |---|---|
//! | What does this answer, or the lack of one, mean? | [`classify`] |
//! | How long does the server want us to wait? | [`retry_after`] |
//! | How long do we wait when it does not say? | [`backoff`] |
//! | May anybody retry at all just now? | [`budget`] |
//!
//! [`Policy`] sets the limits. Clock readings and rolls of the dice are arguments, so every figure
//! can be computed by hand and every test runs in no time.

pub mod backoff;
pub mod budget;
pub mod classify;
mod policy;
pub mod retry_after;

pub use policy::{InvalidPolicy, Policy};

//! The heart.

mod permit;

pub use permit::{Permit, Probe};

//! The server: connections, and the faults that befall them.

mod body;
mod control;
mod cors;
mod serve;
mod wire;

pub(crate) use serve::{accept, housekeeping};

//! The program as its users meet it: real processes, real sockets, a real journal.

#![expect(clippy::unwrap_used, reason = "clippy knows tests, not their helpers")]

mod answers;
mod bodies;
mod commands;
mod documents;
mod examples;
mod identity;
mod interrupts;
mod kills;
mod support;
mod terminal;

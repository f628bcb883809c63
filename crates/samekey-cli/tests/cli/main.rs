//! The program as its users meet it: real processes, real sockets, a real journal.

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

//! The client from outside: what is promised to those who call it, on a journal in memory.
#![cfg(all(feature = "native", feature = "json", feature = "sealing"))]
#![expect(clippy::unwrap_used, reason = "clippy knows tests, not their helpers")]

mod client {
    mod support;

    mod begin;
    mod credentials;
    mod deferred;
    mod drivers;
    mod dropped;
    mod keeping;
    mod people;
    mod polls;
    mod redirects;
    mod refusals;
    mod repeats;
    mod send;
    mod trouble;
}

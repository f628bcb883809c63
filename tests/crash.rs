//! A process that dies at every named point and is started again: one effect and one key each time.
//!
//! The dying process is this test binary, run as a child with the real journal and the real
//! transport. At points inside the client it aborts itself, through a journal and a transport that
//! are wrapped from outside; the library has no switch for it. At points on the wire it is killed
//! from outside, at a moment that a proxy or the server's ledger has shown. Nothing waits for time.
//!
//! Whether it went well is the judge's word, who knows the bytes on the wire and the server's ledger
//! and nothing of samekey. That the judge is worth something is shown by a journal with a planted
//! mistake, which acknowledges before it writes: the same crashes must then be found guilty.
#![cfg(all(feature = "native", feature = "sqlite", feature = "json"))]
#![expect(clippy::unwrap_used, reason = "clippy knows tests, not their helpers")]

mod crash {
    mod child;
    mod judge;
    mod parts;
    mod process;
    mod proxy;
    mod world;

    mod points;
}

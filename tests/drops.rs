//! I19: every asynchronous call dropped at every await point, on memory and on SQLite; and runtimes
//! that are shut down with many operations in flight.
#![cfg(all(feature = "native", feature = "sqlite", feature = "json"))]
#![expect(clippy::unwrap_used, reason = "clippy knows tests, not their helpers")]

mod drops {
    mod calls;
    mod storms;
    mod world;
}

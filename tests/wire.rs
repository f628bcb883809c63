//! What really goes over the wire, against servers that misbehave byte by byte.
//!
//! Tests are named after the rows of the contract: `t..` transport events, `a..` answers, `e..`
//! edge cases. Every claim that nothing was sent is compared with what the server read.
#![cfg(feature = "native")]
#![expect(clippy::unwrap_used, reason = "clippy knows tests, not their helpers")]

mod wire {
    mod attempt;
    mod server;

    mod answers;
    mod client;
    mod connect;
    mod http2;
    mod redirects;
    mod resets;
    mod tls;
    mod window;
}

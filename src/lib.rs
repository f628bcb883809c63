//! One action, one key, on every try.
#![forbid(unsafe_code)]

pub mod clock;
pub mod entry;
mod fingerprint;
pub mod journal;
mod json;
mod key;
pub mod machine;
mod message;
pub mod platform;
pub mod profile;
pub mod retry;
pub mod seam;
mod time;
pub mod transport;

pub use fingerprint::Fingerprint;
pub use key::{InvalidKey, InvalidReference, Key, Reference};
pub use message::{
    Content, Failure, FailureKind, Headers, InvalidMessage, Method, Origin, Response, Sent,
};
pub use time::{Now, Timestamp};

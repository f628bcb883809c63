//! One action, one key, on every try.
#![forbid(unsafe_code)]

mod fingerprint;
mod key;
mod message;
pub mod profile;
pub mod retry;
pub mod seam;
mod time;

pub use fingerprint::Fingerprint;
pub use key::{InvalidKey, InvalidReference, Key, Reference};
pub use message::{
    Content, Failure, FailureKind, Headers, InvalidMessage, Method, Origin, Response, Sent,
};
pub use time::{Now, Timestamp};

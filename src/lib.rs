//! One action, one key, on every try.
#![forbid(unsafe_code)]

#[cfg(feature = "blocking")]
pub mod blocking;
mod client;
pub mod clock;
pub mod entry;
mod error;
mod fingerprint;
pub mod journal;
mod json;
mod key;
pub mod machine;
mod message;
mod operation;
mod outcome;
pub mod platform;
pub mod profile;
pub mod retry;
mod seal;
pub mod seam;
pub mod testing;
mod time;
mod trace;
pub mod transport;
mod update;

pub use client::{Asked, Client, ClientBuilder, Credentials, CredentialsError, Parts};
pub use entry::{Grade, Phase, Scope};
pub use error::{Error, ErrorKind};
pub use fingerprint::Fingerprint;
pub use journal::stores::*;
pub use key::{InvalidKey, InvalidReference, Key, Reference};
pub use message::{
    Content, Failure, FailureKind, Headers, InvalidMessage, Method, Origin, Response, Sent,
};
pub use operation::{Finding, Operation, OperationBuilder};
pub use outcome::{Outcome, Provenance};
pub use profile::Profile;
pub use retry::Policy;
pub use retry::classify::Reason;
pub use seal::Body;
#[cfg(feature = "sealing")]
pub use seal::SealingKey;
pub use time::{Now, Timestamp};
pub use update::{Update, Updates};

//! The server half of the idempotency-key contract, with every fault: a mock server for those who
//! write clients, and a specimen for those who write servers.
//!
//! ```no_run
//! # async fn example() -> Result<(), samekey_mock::StartError> {
//! use samekey_mock::{Fault, Mock};
//!
//! let mock = Mock::builder().fault(Fault::DropAfterCommit.times(1)).start().await?;
//! // ... send POST {mock.url()}/orders twice with one key: the first answer is lost ...
//! assert_eq!(mock.ledger().effects_of("7d3f92ab-1c4e-4b1d-9a55-0d2f6f1f2a3b"), 1);
//! # Ok(())
//! # }
//! ```
//!
//! The rules are in [`engine`], free of sockets and clocks; [`store`] keeps what they need; [`faults`]
//! is what can go wrong; [`naughty`] breaks the rules one by one; [`ledger`] tells what happened.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "server"),
    allow(dead_code, reason = "the server is their only reader")
)]

pub mod answer;
#[cfg(feature = "server")]
mod business;
pub mod clock;
#[cfg(feature = "server")]
mod dice;
pub mod engine;
#[cfg(feature = "server")]
pub mod faults;
#[cfg(feature = "server")]
pub mod fingerprint;
#[cfg(feature = "server")]
mod gate;
#[cfg(feature = "server")]
mod http;
#[cfg(feature = "server")]
pub mod ledger;
#[cfg(feature = "server")]
mod metrics;
#[cfg(feature = "server")]
mod mock;
pub mod naughty;
#[cfg(feature = "server")]
mod node;
#[cfg(feature = "server")]
mod page;
mod profile;
#[cfg(feature = "server")]
mod program;
#[cfg(feature = "server")]
pub mod reference;
#[cfg(feature = "server")]
mod routes;
pub mod settings;
pub mod store;

#[cfg(feature = "server")]
pub use business::LAST_ITEM;
#[cfg(feature = "server")]
pub use faults::{Fault, Hint, Rule};
#[cfg(feature = "server")]
pub use ledger::{Event, Ledger};
#[cfg(feature = "server")]
pub use metrics::Alert;
#[cfg(feature = "server")]
pub use mock::{Builder, Mock, StartError};
pub use naughty::{Check, Naughty};
#[cfg(feature = "server")]
pub use node::Reconciliation;
pub use profile::Profile;
#[cfg(feature = "server")]
pub use program::{Args, run, serve};
#[cfg(feature = "server")]
pub use routes::Coverage;
pub use settings::Settings;

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

pub mod answer;
mod business;
pub mod clock;
mod dice;
pub mod engine;
pub mod faults;
pub mod fingerprint;
mod gate;
mod http;
pub mod ledger;
mod metrics;
mod mock;
pub mod naughty;
mod node;
mod page;
mod profile;
mod program;
pub mod reference;
mod routes;
pub mod settings;
pub mod store;

pub use business::LAST_ITEM;
pub use faults::{Fault, Hint, Rule};
pub use ledger::{Event, Ledger};
pub use metrics::Alert;
pub use mock::{Builder, Mock, StartError};
pub use naughty::{Check, Naughty};
pub use node::Reconciliation;
pub use profile::Profile;
pub use program::{Args, run, serve};
pub use routes::Coverage;
pub use settings::Settings;

//! Native programs: the system clock, the system's randomness, the data folder and HTTP.

mod clock;
mod defaults;
mod dice;
mod folder;
mod http;

pub use clock::SystemClock;
pub(crate) use defaults::{default_clock_and_dice, default_journal, default_transport, spawn};
pub use dice::OsDice;
pub use folder::{NoDataFolder, default_journal_path};
pub use http::{HttpTransport, HttpTransportBuilder, SetupError};

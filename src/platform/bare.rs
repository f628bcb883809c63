//! No platform: every part has to be brought along.

use crate::clock::ClockAndDice;
use crate::error::{Error, ErrorKind};
use crate::journal::Journal;
use crate::seam::BoxFuture;
use crate::transport::Transport;
use std::sync::Arc;

fn missing<T>(part: &str) -> Result<T, Error> {
    Err(Error::new(
        ErrorKind::InvalidConfiguration,
        format!("this build has no {part} of its own; bring one along with `Client::with_parts`"),
    ))
}

pub(crate) fn default_journal(_application: &str) -> Result<Arc<dyn Journal>, Error> {
    missing("journal")
}

pub(crate) fn default_transport() -> Result<Arc<dyn Transport>, Error> {
    missing("transport")
}

pub(crate) fn default_clock_and_dice() -> Result<ClockAndDice, Error> {
    missing("clock")
}

/// There is no background here: what is parked waits for the next start.
pub(crate) fn spawn(_work: BoxFuture<'static, ()>) {}

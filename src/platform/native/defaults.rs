//! What a native client uses when it is told nothing else.

use super::{HttpTransport, OsDice, SystemClock};
use crate::clock::ClockAndDice;
use crate::error::{Error, ErrorKind};
use crate::journal::Journal;
use crate::seam::BoxFuture;
use crate::transport::Transport;
use std::sync::Arc;

#[cfg(feature = "sqlite")]
pub(crate) fn default_journal(application: &str) -> Result<Arc<dyn Journal>, Error> {
    let path = super::default_journal_path(application)
        .map_err(|error| Error::new(ErrorKind::InvalidConfiguration, error.to_string()))?;
    super::folder::make_data_folder(&path);
    Ok(Arc::new(crate::journal::SqliteJournal::open(path)?))
}

#[cfg(not(feature = "sqlite"))]
pub(crate) fn default_journal(_application: &str) -> Result<Arc<dyn Journal>, Error> {
    Err(Error::new(
        ErrorKind::InvalidConfiguration,
        "this build has no journal of its own; enable the feature `sqlite` or give one with `journal`",
    ))
}

pub(crate) fn default_transport() -> Result<Arc<dyn Transport>, Error> {
    match HttpTransport::new() {
        Ok(transport) => Ok(Arc::new(transport)),
        Err(error) => {
            let message = format!("the HTTP transport cannot be set up: {error}");
            Err(Error::new(ErrorKind::InvalidConfiguration, message).caused_by(error))
        }
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "a build without a platform has none to give"
)]
pub(crate) fn default_clock_and_dice() -> Result<ClockAndDice, Error> {
    Ok((Arc::new(SystemClock), Arc::new(OsDice)))
}

/// Runs `work` in the background, if there is a runtime to run it.
pub(crate) fn spawn(work: BoxFuture<'static, ()>) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(work);
    }
}

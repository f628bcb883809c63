//! What a page's client uses when it is told nothing else.

use super::{FetchTransport, PageClock, PageDice};
use crate::clock::ClockAndDice;
use crate::error::{Error, ErrorKind};
use crate::journal::Journal;
use crate::seam::{BoxFuture, border};
use crate::transport::Transport;
use std::sync::Arc;

/// A page's journal is opened by waiting for it, which a builder cannot.
pub(crate) fn default_journal(_application: &str) -> Result<Arc<dyn Journal>, Error> {
    Err(Error::new(
        ErrorKind::InvalidConfiguration,
        "a page opens its journal first: give `BrowserJournal::indexed_db(name).await?` to `journal`",
    ))
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "a build without a platform has none to give"
)]
pub(crate) fn default_transport() -> Result<Arc<dyn Transport>, Error> {
    Ok(Arc::new(FetchTransport::new()))
}

pub(crate) fn default_clock_and_dice() -> Result<ClockAndDice, Error> {
    let dice = PageDice::new().ok_or_else(|| {
        let message = "this browser has no `crypto.getRandomValues`, so no key can be minted";
        Error::new(ErrorKind::InvalidConfiguration, message)
    })?;
    Ok((Arc::new(PageClock), Arc::new(dice)))
}

/// Runs `work` in the background, as long as the page lives.
pub(crate) fn spawn(work: BoxFuture<'static, ()>) {
    border::spawn(work);
}

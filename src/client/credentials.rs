//! Who asks: proven anew at each attempt, kept nowhere.

use crate::entry::Scope;
use crate::message::{Headers, Origin};
use crate::seam::{BoxFuture, MaybeSend, MaybeSync};
use std::future::Future;

/// What credentials are asked for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Asked {
    /// Where they will be sent.
    pub origin: Origin,
    /// For whom. The answer must prove the same principal on every attempt: servers keep keys
    /// apart by account, so another account's retry would be a new action.
    pub scope: Scope,
    /// Whether the server refused the last ones, so that a cached token will not do.
    pub refresh: bool,
}

/// What a credentials callback may fail with. Its text must not hold secrets.
pub type CredentialsError = Box<dyn std::error::Error + Send + Sync>;

/// Where credentials come from: asked at every attempt, never written down.
///
/// Any closure that takes [`Asked`] and returns a future of [`Headers`] is one, and so is a fixed
/// set of [`Headers`].
///
/// ```
/// use samekey::{Asked, Client, Headers};
/// # let parts = samekey::testing::parts();
/// let client = Client::with_parts("shop", parts)
///     .credentials(|asked: Asked| async move {
///         let token = if asked.refresh { "a-new-token" } else { "the-usual-token" };
///         Ok(Headers::bearer(token)?)
///     })
///     .build()?;
/// # Ok::<(), samekey::Error>(())
/// ```
pub trait Credentials: MaybeSend + MaybeSync {
    /// The header lines that prove who asks.
    fn headers(&self, asked: Asked) -> BoxFuture<'_, Result<Headers, CredentialsError>>;

    /// Whether asking again can give other lines than before.
    fn can_refresh(&self) -> bool {
        true
    }
}

impl<F, Answer> Credentials for F
where
    F: Fn(Asked) -> Answer + MaybeSend + MaybeSync,
    Answer: Future<Output = Result<Headers, CredentialsError>> + MaybeSend + 'static,
{
    fn headers(&self, asked: Asked) -> BoxFuture<'_, Result<Headers, CredentialsError>> {
        Box::pin(self(asked))
    }
}

impl Credentials for Headers {
    fn headers(&self, _: Asked) -> BoxFuture<'_, Result<Headers, CredentialsError>> {
        let lines = self.clone();
        Box::pin(async move { Ok(lines) })
    }

    fn can_refresh(&self) -> bool {
        false
    }
}

//! How a request leaves and what comes back.

use crate::machine::{Permit, Probe};
use crate::message::Response;
pub use crate::message::{Failure, FailureKind, Sent};
use crate::seam::{BoxFuture, MaybeSend, MaybeSync};

/// Carries requests to a server.
///
/// A transport takes a [`Permit`] and nothing else, so it cannot send what is not durable. It sends
/// once: no retries and no redirects of its own. It says [`Sent::No`] only with proof.
pub trait Transport: MaybeSend + MaybeSync {
    /// Sends the request that the permit holds.
    fn send(&self, permit: Permit) -> BoxFuture<'_, Result<Response, Failure>>;

    /// Asks for a result with a GET, without key and body.
    fn probe(&self, probe: Probe) -> BoxFuture<'_, Result<Response, Failure>>;
}

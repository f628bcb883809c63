//! HTTP by the page's own `fetch`: one request per permit, nothing of its own accord.

use super::page;
use crate::machine::{Permit, Probe};
use crate::message::{Failure, Response};
use crate::platform::page::answered;
use crate::seam::BoxFuture;
use crate::seam::border::{Pack, Values};
use crate::time::millis;
use crate::transport::Transport;
use std::time::Duration;

/// Which requests carry the site's cookies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cookies {
    /// Those to the page's own origin.
    #[default]
    SameOrigin,
    /// All; the server must name the page's origin in its CORS headers and allow credentials.
    Include,
    /// None.
    Omit,
}

/// Sends by `fetch`. Redirects are not followed, and each attempt is aborted when its time is over.
/// Nothing is tried while the browser is sure to be offline.
///
/// The browser itself sends a request again when a reused connection drops before any answer: same
/// key, same bytes, and no script hears of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct FetchTransport {
    cookies: Cookies,
}

impl FetchTransport {
    /// A transport with the defaults.
    #[must_use]
    pub fn new() -> FetchTransport {
        FetchTransport::default()
    }

    /// Which requests carry the site's cookies. Default: those to the page's own origin.
    #[must_use]
    pub fn cookies(mut self, cookies: Cookies) -> FetchTransport {
        self.cookies = cookies;
        self
    }

    fn credentials(&self) -> &'static str {
        match self.cookies {
            Cookies::SameOrigin => "same-origin",
            Cookies::Include => "include",
            Cookies::Omit => "omit",
        }
    }
}

impl Transport for FetchTransport {
    fn send(&self, permit: Permit) -> BoxFuture<'_, Result<Response, Failure>> {
        let (body, mut headers) = (Some(&**permit.body()), permit.headers());
        let until = permit.not_after().as_micros() as f64 / 1000.0;
        let method = permit.method().as_str();
        self.exchange(
            method,
            permit.url(),
            body,
            permit.timeout(),
            until,
            &mut headers,
        )
    }

    fn probe(&self, probe: Probe) -> BoxFuture<'_, Result<Response, Failure>> {
        let mut headers = probe.headers();
        self.exchange(
            "GET",
            probe.url(),
            None,
            probe.timeout(),
            f64::INFINITY,
            &mut headers,
        )
    }
}

impl FetchTransport {
    fn exchange(
        &self,
        method: &str,
        url: &str,
        body: Option<&[u8]>,
        timeout: Duration,
        not_after: f64,
        headers: &mut dyn Iterator<Item = (&str, &str)>,
    ) -> BoxFuture<'static, Result<Response, Failure>> {
        let mut asked = Pack::of("exchange");
        asked.text(method);
        asked.text(url);
        match body {
            Some(body) => asked.bytes(body),
            None => asked.nothing(),
        }
        asked.text(self.credentials());
        asked.number(millis(timeout) as f64);
        asked.number(not_after);
        for (name, value) in headers {
            asked.text(name);
            asked.text(value);
        }
        let exchanged = page::start(&asked);
        Box::pin(async move {
            let answer = exchanged.await;
            let mut values = Values::new(&answer);
            values.flag();
            answered(&mut values)
        })
    }
}

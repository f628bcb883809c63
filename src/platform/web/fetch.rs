//! HTTP by the page's own `fetch`: one request per permit, nothing of its own accord.

use super::page::{self, Exchanged, Work};
use crate::machine::{Permit, Probe};
use crate::message::{Content, Failure, FailureKind, Headers, Response, Sent};
use crate::seam::BoxFuture;
use crate::time::millis;
use crate::transport::Transport;
use wasm_bindgen::JsCast;

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
        answered(page::exchange(
            permit.method().as_str(),
            permit.url(),
            &joined(&mut permit.headers()),
            Some(permit.body()),
            self.credentials(),
            millis(permit.timeout()) as f64,
            permit.not_after().as_micros() as f64 / 1000.0,
        ))
    }

    fn probe(&self, probe: Probe) -> BoxFuture<'_, Result<Response, Failure>> {
        answered(page::exchange(
            "GET",
            probe.url(),
            &joined(&mut probe.headers()),
            None,
            self.credentials(),
            millis(probe.timeout()) as f64,
            f64::INFINITY,
        ))
    }
}

/// Header lines for the border: neither a name nor a value can hold what divides them.
fn joined(lines: &mut dyn Iterator<Item = (&str, &str)>) -> String {
    let mut text = String::new();
    for (name, value) in lines {
        for part in [name, "\n", value, "\n"] {
            text.push_str(part);
        }
    }
    text
}

fn answered(work: Work) -> BoxFuture<'static, Result<Response, Failure>> {
    let exchanged = page::finished(work);
    Box::pin(async move {
        let answer: Exchanged = exchanged.await.unchecked_into();
        if let Some(failure) = answer.failure() {
            return Err(failed(failure, &answer));
        }
        let mut headers = Headers::new();
        let lines = answer.lines();
        let mut parts = lines.split('\n');
        while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
            // Nothing that came through the browser is refused.
            let _ = headers.push(name, value);
        }
        Ok(Response {
            status: answer.status(),
            headers,
            content: match answer.body() {
                Some(body) => Content::Whole(body),
                None if answer.large() == Some(true) => Content::TooLarge,
                None => Content::Lost,
            },
        })
    })
}

fn failed(failure: u32, answer: &Exchanged) -> Failure {
    let (kind, sent, why) = match failure {
        1 => (
            FailureKind::WindowClosed,
            Sent::No,
            "the window closed before the request could leave",
        ),
        2 => (
            FailureKind::Timeout,
            Sent::Maybe,
            "no answer in the time of an attempt",
        ),
        4 => (
            FailureKind::OpaqueRedirect,
            Sent::Maybe,
            "the server redirects, and the browser does not say where to",
        ),
        // It does not say why: a network error, or a server that does not allow this page (CORS).
        _ => {
            let why = ["the browser reports no more than: ", &answer.detail()].concat();
            return Failure::new(FailureKind::Fetch, Sent::Maybe, why);
        }
    };
    Failure::new(kind, sent, why)
}

//! HTTP by the page's own `fetch`: one request per permit, nothing of its own accord.

use super::PageClock;
use super::online::online;
use crate::clock::Clock;
use crate::journal::browser::page::{method, set, text_of, wait};
use crate::machine::{Permit, Probe};
use crate::message::{Content, Failure, FailureKind, Headers, Response, Sent};
use crate::seam::BoxFuture;
use crate::time::millis;
use crate::transport::Transport;
use gloo_timers::callback::Timeout;
use js_sys::{ArrayBuffer, Object, Uint8Array};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{AbortController, ResponseType};

/// The largest answer that is read.
const MOST: usize = 1024 * 1024;
/// What requests that may outlive the page can carry together; the browser refuses above 64 KiB.
const KEEPALIVE: usize = 60 * 1024;

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
///
/// The browser itself sends a request again when a reused connection drops before any answer: same
/// key, same bytes, and no script hears of it.
#[derive(Clone, Debug, Default)]
pub struct FetchTransport {
    cookies: Cookies,
    outliving: Rc<Cell<usize>>,
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

    async fn attempt(&self, permit: Permit) -> Result<Response, Failure> {
        online().await;
        if PageClock.now().monotonic > permit.not_after() {
            let why = "the window closed before the request could leave";
            return Err(Failure::new(FailureKind::WindowClosed, Sent::No, why));
        }
        let body = permit.body();
        let options = self.options(permit.method().as_str(), permit.headers());
        if !body.is_empty() {
            set(&options, "body", &Uint8Array::from(&body[..]));
        }
        let _space = Space::take(&self.outliving, body.len());
        if _space.is_some() {
            set(&options, "keepalive", &true.into());
        }
        exchange(permit.url(), &options, permit.timeout()).await
    }

    async fn ask(&self, probe: Probe) -> Result<Response, Failure> {
        online().await;
        let options = self.options("GET", probe.headers());
        set(&options, "cache", &"no-store".into());
        exchange(probe.url(), &options, probe.timeout()).await
    }

    fn options<'a>(&self, verb: &str, lines: impl Iterator<Item = (&'a str, &'a str)>) -> Object {
        let headers = Object::new();
        for (name, value) in lines {
            set(&headers, name, &value.into());
        }
        let cookies = match self.cookies {
            Cookies::SameOrigin => "same-origin",
            Cookies::Include => "include",
            Cookies::Omit => "omit",
        };
        let options = Object::new();
        set(&options, "method", &verb.into());
        set(&options, "headers", &headers);
        set(&options, "redirect", &"manual".into());
        set(&options, "credentials", &cookies.into());
        options
    }
}

impl Transport for FetchTransport {
    fn send(&self, permit: Permit) -> BoxFuture<'_, Result<Response, Failure>> {
        Box::pin(self.attempt(permit))
    }

    fn probe(&self, probe: Probe) -> BoxFuture<'_, Result<Response, Failure>> {
        Box::pin(self.ask(probe))
    }
}

/// A share of what may outlive the page.
struct Space(Rc<Cell<usize>>, usize);

impl Space {
    fn take(used: &Rc<Cell<usize>>, bytes: usize) -> Option<Space> {
        let sum = used.get() + bytes;
        (sum <= KEEPALIVE).then(|| {
            used.set(sum);
            Space(Rc::clone(used), bytes)
        })
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        self.0.set(self.0.get() - self.1);
    }
}

/// Ends the request when it takes too long, or when nobody waits for it any more.
struct Leash {
    controller: AbortController,
    _timer: Timeout,
}

impl Leash {
    fn new(limit: Duration) -> Result<Leash, JsValue> {
        let controller = AbortController::new()?;
        let late = controller.clone();
        let limit = u32::try_from(millis(limit)).unwrap_or(i32::MAX as u32);
        let timer = Timeout::new(limit.min(i32::MAX as u32), move || late.abort());
        Ok(Leash {
            controller,
            _timer: timer,
        })
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.controller.abort();
    }
}

async fn exchange(url: &str, options: &Object, limit: Duration) -> Result<Response, Failure> {
    let unsendable =
        |error: JsValue| Failure::new(FailureKind::Unsendable, Sent::No, text_of(&error));
    let leash = Leash::new(limit).map_err(unsendable)?;
    set(options, "signal", &leash.controller.signal());
    let fetch = method(&js_sys::global(), "fetch").map_err(unsendable)?;
    let answer = match fetch.call2(&js_sys::global(), &url.into(), options) {
        Ok(promise) => wait(promise).await,
        Err(error) => Err(error),
    };
    let answer: web_sys::Response = match answer {
        Ok(answer) => answer.unchecked_into(),
        Err(_) if leash.controller.signal().aborted() => {
            let why = "no answer in the time of an attempt";
            return Err(Failure::new(FailureKind::Timeout, Sent::Maybe, why));
        }
        // It does not say why: a network error, or a server that does not allow this page (CORS).
        Err(error) => {
            let why = format!("the browser reports no more than: {}", text_of(&error));
            return Err(Failure::new(FailureKind::Fetch, Sent::Maybe, why));
        }
    };
    if answer.type_() == ResponseType::Opaqueredirect {
        let why = "the server redirects, and the browser does not say where to";
        return Err(Failure::new(FailureKind::OpaqueRedirect, Sent::Maybe, why));
    }
    Ok(Response {
        status: answer.status(),
        headers: readable(&answer),
        content: read(&answer).await,
    })
}

/// The lines that the browser lets a page see.
fn readable(answer: &web_sys::Response) -> Headers {
    let mut headers = Headers::new();
    let lines = js_sys::Array::from(&answer.headers());
    for line in lines.iter() {
        let line: js_sys::Array = line.unchecked_into();
        if let (Some(name), Some(value)) = (line.get(0).as_string(), line.get(1).as_string()) {
            // Nothing that came through the browser is refused.
            let _ = headers.push(&name, &value);
        }
    }
    headers
}

/// The status is known: whatever happens to the body, it is an answer.
async fn read(answer: &web_sys::Response) -> Content {
    let announced = answer.headers().get("content-length").ok().flatten();
    let announced = announced.and_then(|text| text.parse::<usize>().ok());
    if announced.is_some_and(|length| length > MOST) {
        return Content::TooLarge;
    }
    let buffer = match answer.array_buffer() {
        Ok(promise) => wait(promise.into()).await,
        Err(error) => Err(error),
    };
    let Ok(buffer) = buffer else {
        return Content::Lost;
    };
    let bytes = Uint8Array::new(&buffer.unchecked_into::<ArrayBuffer>());
    if bytes.length() as usize > MOST {
        return Content::TooLarge;
    }
    Content::Whole(bytes.to_vec())
}

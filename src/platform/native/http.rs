//! HTTP by hyper: one request per permit, nothing of its own accord.

mod body;
mod dial;
mod failure;
mod pool;
mod setup;
mod trace;

pub use setup::{HttpTransportBuilder, SetupError};

use crate::machine::{Permit, Probe};
use crate::message::{Content, Failure, FailureKind, Headers, Method, Origin, Response, Sent};
use crate::seam::BoxFuture;
use crate::transport::Transport;
use ::http::{HeaderMap, HeaderName, HeaderValue, Request, Uri, header};
use body::{Guard, GuardedBody, Outgoing};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper_util::client::proxy::matcher::Matcher;
use pool::Pool;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use trace::{Leash, Trace};

/// Headers that describe the connection or the framing: the transport writes them itself. A
/// caller's own would let one request look like two.
const OURS: [&str; 9] = [
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Lines that every request has, if the operation brings none of that name.
const OUR_OWN: [(HeaderName, HeaderValue); 2] = [
    (header::ACCEPT, HeaderValue::from_static("*/*")),
    (header::USER_AGENT, WHO),
];

/// Who asks, as servers and proxies see it.
const WHO: HeaderValue = HeaderValue::from_static(concat!("samekey/", env!("CARGO_PKG_VERSION")));

/// No attempt takes longer, whatever it is allowed: a sum of times must not overflow.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(24 * 60 * 60);

/// 421: this connection leads to the wrong server, another may not.
const MISDIRECTED: u16 = 421;

/// Sends over HTTP/1.1 and HTTP/2, with the platform's idea of which certificates to trust.
///
/// It sends once: redirects, retries, cookies, decompression and `Expect` are off. The one thing
/// that cannot be turned off is that a request which never left its queue, because the pooled
/// connection was found dead first, goes out on the next connection: same key, same bytes.
///
/// Proxies are taken from `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, unless
/// [`HttpTransportBuilder::no_proxy`] is called.
///
/// Cloning is cheap and shares the connections.
///
/// ```
/// use samekey::platform::native::HttpTransport;
/// use std::time::Duration;
///
/// let transport = HttpTransport::builder()
///     .connect_timeout(Duration::from_secs(2))
///     .max_response_bytes(64 * 1024)
///     .build()?;
/// # let _ = transport;
/// # Ok::<(), samekey::platform::native::SetupError>(())
/// ```
#[derive(Clone)]
pub struct HttpTransport {
    pool: Arc<Pool>,
    guard: Arc<Guard>,
    places: Arc<Places>,
    max_response_bytes: usize,
}

impl HttpTransport {
    /// A transport with the defaults of its [builder](HttpTransport::builder).
    ///
    /// # Errors
    /// When TLS cannot be set up on this platform.
    pub fn new() -> Result<HttpTransport, SetupError> {
        HttpTransport::builder().build()
    }

    /// A transport to be configured.
    #[must_use]
    pub fn builder() -> HttpTransportBuilder {
        HttpTransportBuilder::default()
    }

    async fn attempt(&self, permit: Permit) -> Result<Response, Failure> {
        let place = self.places.of(permit.url())?;
        let (request, trace) = self.prepared(&permit, &place)?;
        #[cfg(feature = "planted")]
        if crate::planted::is(25) {
            let (again, seen) = self.prepared(&permit, &place)?;
            let _ = self.exchange(again, permit.timeout(), &seen, &place).await;
        }
        self.exchange(request, permit.timeout(), &trace, &place)
            .await
    }

    fn prepared(
        &self,
        permit: &Permit,
        place: &Place,
    ) -> Result<(Request<Outgoing>, Arc<Trace>), Failure> {
        let trace = Arc::new(Trace::default());
        let body = GuardedBody::new(
            permit.body(),
            Arc::clone(&trace),
            Arc::clone(&self.guard),
            permit.not_after(),
        );
        if body.is_late() {
            return Err(failure::window_closed(Sent::No));
        }
        let (method, body) = (http_method(permit.method()), Outgoing::Action(body));
        Ok((request(method, place, permit.headers(), body)?, trace))
    }

    async fn ask(&self, probe: Probe) -> Result<Response, Failure> {
        let place = self.places.of(probe.url())?;
        let (method, body) = (::http::Method::GET, Outgoing::Question);
        let request = request(method, &place, probe.headers(), body)?;
        let trace = Trace::of_question(&self.guard.connections);
        self.exchange(request, probe.timeout(), &trace, &place)
            .await
    }

    async fn exchange(
        &self,
        request: Request<Outgoing>,
        timeout: Duration,
        trace: &Trace,
        place: &Place,
    ) -> Result<Response, Failure> {
        let deadline = Instant::now() + timeout.min(LONGEST_ATTEMPT);
        let used = self.pool.current();
        let _leash = Leash(trace);
        let head = used.client.request(request);
        let answer = match timeout_at(deadline, head).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                let failure = failure::explain(&error, trace, &self.guard.connections, place);
                if failure.kind == FailureKind::StaleConnection {
                    self.pool.renew(&used);
                }
                return Err(failure);
            }
            Err(_) => return Err(failure::timed_out(trace, &self.guard.connections, place)),
        };
        let (status, headers) = (answer.status().as_u16(), readable(answer.headers()));
        if status == MISDIRECTED {
            self.pool.renew(&used);
        }
        // The status is known: whatever happens to the body, it is an answer.
        let content = timeout_at(deadline, read(answer.into_body(), self.max_response_bytes))
            .await
            .unwrap_or(Content::Lost);
        Ok(Response {
            status,
            headers,
            content,
        })
    }
}

impl Transport for HttpTransport {
    fn send(&self, permit: Permit) -> BoxFuture<'_, Result<Response, Failure>> {
        Box::pin(self.attempt(permit))
    }

    fn probe(&self, probe: Probe) -> BoxFuture<'_, Result<Response, Failure>> {
        Box::pin(self.ask(probe))
    }
}

impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTransport")
            .field("max_response_bytes", &self.max_response_bytes)
            .finish_non_exhaustive()
    }
}

/// Where a request goes: as it is sent, and as it may be shown.
struct Place {
    text: Box<str>,
    uri: Uri,
    origin: Origin,
    shown_to_proxy: Option<HeaderValue>,
}

impl Place {
    fn of(text: &str, proxies: Option<&Matcher>) -> Result<Place, Failure> {
        let origin = Origin::of(text).map_err(|why| unsendable(why.to_string()))?;
        let cannot = |why: &dyn fmt::Display| unsendable(format!("the URL cannot be sent: {why}"));
        // What a browser makes of it: steps like `..` taken, and what no URL may hold encoded.
        let url = url::Url::parse(text).map_err(|why| cannot(&why))?;
        let uri: Uri = url.as_str().parse().map_err(|why| cannot(&why))?;
        Ok(Place {
            text: text.into(),
            shown_to_proxy: proxies.and_then(|proxies| dial::shown_to_proxy(proxies, &uri)),
            uri,
            origin,
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.origin.fmt(f)
    }
}

/// The place that was last sent to: mostly the next one too, and a URL takes long to read.
struct Places {
    proxies: Option<Arc<Matcher>>,
    last: Mutex<Option<Arc<Place>>>,
}

impl Places {
    fn new(proxies: Option<Arc<Matcher>>) -> Places {
        Places {
            proxies,
            last: Mutex::default(),
        }
    }

    fn of(&self, text: &str) -> Result<Arc<Place>, Failure> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some(place) if *place.text == *text => Ok(Arc::clone(place)),
            _ => {
                let place = Place::of(text, self.proxies.as_deref())?;
                Ok(Arc::clone(last.insert(Arc::new(place))))
            }
        }
    }
}

fn unsendable(why: impl Into<Box<str>>) -> Failure {
    Failure::new(FailureKind::Unsendable, Sent::No, why)
}

fn http_method(method: Method) -> ::http::Method {
    match method {
        Method::Post => ::http::Method::POST,
        Method::Patch => ::http::Method::PATCH,
        Method::Put => ::http::Method::PUT,
        Method::Delete => ::http::Method::DELETE,
    }
}

/// A request. Every header value of the operation is marked sensitive: any may be a credential.
fn request<'a>(
    method: ::http::Method,
    place: &Place,
    headers: impl Iterator<Item = (&'a str, &'a str)>,
    body: Outgoing,
) -> Result<Request<Outgoing>, Failure> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = place.uri.clone();
    let lines = request.headers_mut();
    for (name, value) in headers {
        if OURS.contains(&name) {
            return Err(unsendable(format!(
                "the header {name} is written by samekey itself; remove it from the operation"
            )));
        }
        let line = HeaderName::from_bytes(name.as_bytes()).ok();
        let line = line.zip(HeaderValue::from_str(value).ok());
        let Some((name, mut value)) = line else {
            return Err(unsendable(format!(
                "the value of the header {name} cannot be sent; use visible ASCII"
            )));
        };
        value.set_sensitive(true);
        lines.append(name, value);
    }
    for (name, value) in OUR_OWN {
        if !lines.contains_key(&name) {
            lines.insert(name, value);
        }
    }
    if let Some(shown) = &place.shown_to_proxy
        && !lines.contains_key(header::PROXY_AUTHORIZATION)
    {
        lines.insert(header::PROXY_AUTHORIZATION, shown.clone());
    }
    Ok(request)
}

/// The answer's header lines. Bytes that are no UTF-8 are replaced: none of them has a meaning here.
fn readable(lines: &HeaderMap) -> Headers {
    let bytes = lines
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len());
    let mut headers = Headers::with_room(lines.len(), bytes.sum());
    for (name, value) in lines {
        // Nothing that came through the parser is refused; if it were, it would be no header.
        let _ = match str::from_utf8(value.as_bytes()) {
            Ok(value) => headers.push(name.as_str(), value),
            Err(_) => headers.push(name.as_str(), &String::from_utf8_lossy(value.as_bytes())),
        };
    }
    headers
}

async fn read(mut answer: Incoming, most: usize) -> Content {
    let announced = answer.size_hint().exact().unwrap_or(0);
    if announced > most as u64 {
        return Content::TooLarge;
    }
    let mut bytes = Vec::with_capacity(usize::try_from(announced).unwrap_or(0));
    loop {
        let frame = poll_fn(|context| Pin::new(&mut answer).poll_frame(context));
        match frame.await.map(|frame| frame.map(Frame::into_data)) {
            Some(Ok(Ok(chunk))) if bytes.len() + chunk.len() > most => return Content::TooLarge,
            Some(Ok(Ok(chunk))) => bytes.extend_from_slice(&chunk),
            // Trailers say nothing here.
            Some(Ok(Err(_))) => {}
            None => return Content::Whole(bytes),
            Some(Err(_)) => return Content::Lost,
        }
    }
}

#[cfg(test)]
mod tests;

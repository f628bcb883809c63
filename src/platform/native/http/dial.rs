//! How a connection is made: directly, or through the proxy that the environment names.

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::dns::{GaiAddrs, GaiFuture, GaiResolver, Name};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use rustls::ClientConfig;
use std::error::Error;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tower_service::Service;

/// How often the system asks whether the other end of a quiet connection is still there, and how long it
/// waits for what was sent to be acknowledged.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_RETRIES: u32 = 3;
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

type Broken = Box<dyn Error + Send + Sync>;
type Tcp = HttpConnector<Resolver>;

/// Makes connections. Cloned for every request, so there is not much to it.
#[derive(Clone)]
pub(super) struct Dialler(Arc<Inner>);

struct Inner {
    server: HttpsConnector<Tcp>,
    /// Nothing but HTTP/1.1 is spoken to a proxy.
    proxy: HttpsConnector<Tcp>,
    tls: Arc<ClientConfig>,
    proxies: Option<Arc<Matcher>>,
    patience: Duration,
}

impl Dialler {
    pub(super) fn new(
        tls: Arc<ClientConfig>,
        proxies: Option<Arc<Matcher>>,
        patience: Duration,
    ) -> Dialler {
        let mut tcp = HttpConnector::new_with_resolver(Resolver(GaiResolver::new()));
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(patience));
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE));
        tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
        let mut plain = ClientConfig::clone(&tls);
        plain.alpn_protocols.clear();
        Dialler(Arc::new(Inner {
            server: (tcp.clone(), Arc::clone(&tls)).into(),
            proxy: (tcp, plain).into(),
            tls,
            proxies,
            patience,
        }))
    }
}

impl Inner {
    async fn dial(&self, to: http::Uri) -> Result<Line, Broken> {
        let proxy = self.proxies.as_ref().and_then(|all| all.intercept(&to));
        match proxy {
            None => Ok(Line::over(self.server.clone().call(to).await?, false)),
            Some(proxy) => {
                let dialled = self.dial_through(&proxy, to).await;
                dialled.map_err(|error| Box::new(AtProxy(error)) as Broken)
            }
        }
    }

    async fn dial_through(&self, proxy: &Intercept, to: http::Uri) -> Result<Line, Broken> {
        if !matches!(proxy.uri().scheme_str(), Some("http" | "https")) {
            return Err(Box::new(UnknownProxy));
        }
        if to.scheme() != Some(&http::uri::Scheme::HTTPS) {
            let carrier = self.proxy.clone().call(proxy.uri().clone()).await?;
            return Ok(Line::over(carrier, true));
        }
        let who = http::HeaderMap::from_iter([(http::header::USER_AGENT, super::WHO)]);
        let tunnel = Tunnel::new(proxy.uri().clone(), self.proxy.clone());
        let mut tunnel = tunnel.with_headers(who);
        if let Some(credentials) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(credentials.clone());
        }
        let mut through = HttpsConnector::from((tunnel, Arc::clone(&self.tls)));
        Ok(Line::over(through.call(to).await?, false))
    }
}

/// What a request for `to` must show a proxy that it passes in the open. In a tunnel it is shown before.
pub(super) fn shown_to_proxy(proxies: &Matcher, to: &http::Uri) -> Option<http::HeaderValue> {
    let is_open = to.scheme() == Some(&http::uri::Scheme::HTTP);
    let proxy = proxies.intercept(to).filter(|_| is_open);
    proxy.as_ref().and_then(Intercept::basic_auth).cloned()
}

impl Service<http::Uri> for Dialler {
    type Response = Line;
    type Error = Broken;
    type Future = Pin<Box<dyn Future<Output = Result<Line, Broken>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: http::Uri) -> Self::Future {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            let dialled = tokio::time::timeout(inner.patience, inner.dial(to)).await;
            dialled.unwrap_or_else(|_| Err(Box::new(TooLong)))
        })
    }
}

/// Making the connection took too long.
#[derive(Debug, thiserror::Error)]
#[error("the connection was not made in time")]
pub(super) struct TooLong;

/// The connection was to go through a proxy, which may have refused it. Its address is not told: it may hold
/// credentials.
#[derive(Debug, thiserror::Error)]
#[error("the way through the proxy failed")]
pub(super) struct AtProxy(#[source] Broken);

/// The environment names a proxy that speaks something else than HTTP.
#[derive(Debug, thiserror::Error)]
#[error("the environment names a proxy that does not speak HTTP")]
pub(super) struct UnknownProxy;

/// The system knows no address for a name.
#[derive(Debug, thiserror::Error)]
#[error("the name has no address")]
pub(super) struct NoAddress(#[source] io::Error);

/// The system's own, whose failures can be told from others.
#[derive(Clone)]
struct Resolver(GaiResolver);

struct Resolving(GaiFuture);

impl Service<Name> for Resolver {
    type Response = GaiAddrs;
    type Error = NoAddress;
    type Future = Resolving;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), NoAddress>> {
        self.0.poll_ready(context).map_err(NoAddress)
    }

    fn call(&mut self, name: Name) -> Resolving {
        Resolving(self.0.call(name))
    }
}

impl Future for Resolving {
    type Output = Result<GaiAddrs, NoAddress>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ready!(Pin::new(&mut self.0).poll(context)).map_err(NoAddress))
    }
}

/// What a connection runs over.
trait Carrier: Read + Write + Connection + Send + Unpin {}

impl<T: Read + Write + Connection + Send + Unpin> Carrier for T {}

/// One connection.
pub(super) struct Line {
    carrier: Box<dyn Carrier>,
    /// Whether a proxy reads the requests, and has to be told where they go.
    is_read_by_proxy: bool,
}

impl Line {
    fn over(carrier: impl Carrier + 'static, is_read_by_proxy: bool) -> Line {
        Line {
            carrier: Box::new(carrier),
            is_read_by_proxy,
        }
    }
}

impl Connection for Line {
    fn connected(&self) -> Connected {
        self.carrier.connected().proxy(self.is_read_by_proxy)
    }
}

impl Read for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.carrier).poll_read(context, into)
    }
}

impl Write for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.carrier).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.carrier).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.carrier).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.carrier.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.carrier).poll_write_vectored(context, parts)
    }
}

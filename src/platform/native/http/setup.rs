//! How a transport is set up.

use super::body::Guard;
use super::dial::Dialler;
use super::pool::{Http, Pool};
use super::trace::Connections;
use super::{HttpTransport, Places};
use crate::clock::Clock;
use crate::platform::native::SystemClock;
use hyper_util::client::legacy;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::Verifier;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A transport that cannot be set up, and why.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct SetupError {
    what: Box<str>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl SetupError {
    fn new(what: &str, source: impl Into<Box<dyn Error + Send + Sync>>) -> SetupError {
        SetupError {
            what: what.into(),
            source: Some(source.into()),
        }
    }
}

/// Sets up an [`HttpTransport`].
#[derive(Clone)]
pub struct HttpTransportBuilder {
    roots: Vec<Root>,
    connect_timeout: Duration,
    idle_timeout: Duration,
    max_idle_per_host: usize,
    max_response_bytes: usize,
    prior_knowledge: bool,
    proxies: bool,
    clock: Arc<dyn Clock>,
}

#[derive(Clone)]
enum Root {
    Der(Vec<u8>),
    Pem(Vec<u8>),
}

impl Default for HttpTransportBuilder {
    fn default() -> Self {
        HttpTransportBuilder {
            roots: Vec::new(),
            connect_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(50),
            max_idle_per_host: 1024,
            max_response_bytes: 1024 * 1024,
            prior_knowledge: false,
            proxies: true,
            clock: Arc::new(SystemClock),
        }
    }
}

impl HttpTransportBuilder {
    /// Trusts this certificate besides the platform's, in DER.
    #[must_use]
    pub fn root_certificate_der(mut self, der: impl Into<Vec<u8>>) -> Self {
        self.roots.push(Root::Der(der.into()));
        self
    }

    /// Trusts every certificate of this PEM text besides the platform's.
    #[must_use]
    pub fn root_certificates_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.roots.push(Root::Pem(pem.into()));
        self
    }

    /// How long making a connection may take. Default: 5 s, half of an attempt's time, so that an
    /// address that does not answer is told apart from a server that is slow.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long a connection is kept without use. Default: 50 s, less than the 60 s after which
    /// common load balancers drop it without a word.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// How many connections per host are kept without use; 0 turns keeping off. Default: 1024, so that
    /// hundreds of operations at once do not each open one anew.
    #[must_use]
    pub fn max_idle_per_host(mut self, most: usize) -> Self {
        self.max_idle_per_host = most;
        self
    }

    /// The largest answer that is read. Default: 1 MiB, since answers are kept in the journal. A
    /// larger one keeps its status and becomes [`Content::TooLarge`](crate::Content::TooLarge).
    #[must_use]
    pub fn max_response_bytes(mut self, most: usize) -> Self {
        self.max_response_bytes = most;
        self
    }

    /// Speaks HTTP/2 without asking first, also without TLS. Default: off, TLS negotiates it.
    #[must_use]
    pub fn http2_prior_knowledge(mut self) -> Self {
        self.prior_knowledge = true;
        self
    }

    /// Ignores the proxies that the environment names. Default: they are used.
    #[must_use]
    pub fn no_proxy(mut self) -> Self {
        self.proxies = false;
        self
    }

    /// The clock by which a permit's end is checked. It must be the one that the client uses.
    /// Default: [`SystemClock`].
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the transport up.
    ///
    /// # Errors
    /// When a certificate makes no sense, or TLS cannot be set up on this platform.
    pub fn build(self) -> Result<HttpTransport, SetupError> {
        let proxies = self.proxies.then(Matcher::from_env);
        self.build_with(proxies)
    }

    pub(super) fn build_with(self, proxies: Option<Matcher>) -> Result<HttpTransport, SetupError> {
        let tls = Arc::new(self.tls()?);
        let proxies = proxies.map(Arc::new);
        Ok(HttpTransport {
            pool: Arc::new(Pool::new(Settings {
                tls,
                connect_timeout: self.connect_timeout,
                idle_timeout: self.idle_timeout,
                max_idle_per_host: self.max_idle_per_host,
                prior_knowledge: self.prior_knowledge,
                proxies: proxies.clone(),
            })),
            guard: Arc::new(Guard {
                connections: Connections::default(),
                clock: self.clock,
            }),
            places: Arc::new(Places::new(proxies)),
            max_response_bytes: self.max_response_bytes,
        })
    }

    /// TLS with its own provider: a library must neither install one for the whole process nor
    /// depend on somebody having done so.
    fn tls(&self) -> Result<ClientConfig, SetupError> {
        let unusable = |error| SetupError::new("TLS could not be set up", error);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let mut tls = match self.verifier(provider)? {
            Some(verifier) => versions
                .dangerous()
                .with_custom_certificate_verifier(verifier)
                .with_no_client_auth(),
            // A system without any root certificate can still speak plain HTTP to its own mock
            // server; every TLS handshake fails with an unknown issuer.
            None => versions
                .with_root_certificates(rustls::RootCertStore::empty())
                .with_no_client_auth(),
        };
        tls.alpn_protocols = if self.prior_knowledge {
            vec![b"h2".to_vec()]
        } else {
            vec![b"h2".to_vec(), b"http/1.1".to_vec()]
        };
        Ok(tls)
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<Option<Arc<Verifier>>, SetupError> {
        let mut roots = Vec::new();
        for root in &self.roots {
            match root {
                Root::Der(der) => roots.push(CertificateDer::from(der.clone())),
                Root::Pem(pem) => {
                    let before = roots.len();
                    for certificate in CertificateDer::pem_slice_iter(pem) {
                        roots.push(certificate.map_err(|error| {
                            SetupError::new("a root certificate is not valid PEM", error)
                        })?);
                    }
                    if roots.len() == before {
                        return Err(SetupError {
                            what: "the PEM text for root certificates holds no certificate".into(),
                            source: None,
                        });
                    }
                }
            }
        }
        let extra = !roots.is_empty();
        match Verifier::new_with_extra_roots(roots, provider) {
            Ok(verifier) => Ok(Some(Arc::new(verifier))),
            Err(error) if extra => Err(SetupError::new("a root certificate is not valid", error)),
            Err(_) => Ok(None),
        }
    }
}

/// All that a pool of connections is made from.
pub(super) struct Settings {
    tls: Arc<ClientConfig>,
    connect_timeout: Duration,
    idle_timeout: Duration,
    max_idle_per_host: usize,
    prior_knowledge: bool,
    proxies: Option<Arc<Matcher>>,
}

impl Settings {
    pub(super) fn http(&self) -> Http {
        let (tls, proxies) = (Arc::clone(&self.tls), self.proxies.clone());
        legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(self.idle_timeout)
            .pool_max_idle_per_host(self.max_idle_per_host)
            .http2_only(self.prior_knowledge)
            // A dead HTTP/2 connection stays in the pool and would swallow every attempt: find out
            // within the default 10 s of the first.
            .http2_keep_alive_interval(Duration::from_secs(5))
            .http2_keep_alive_timeout(Duration::from_secs(4))
            .build(Dialler::new(tls, proxies, self.connect_timeout))
    }
}

impl fmt::Debug for HttpTransportBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTransportBuilder")
            .field("roots", &self.roots.len())
            .field("connect_timeout", &self.connect_timeout)
            .field("idle_timeout", &self.idle_timeout)
            .field("max_idle_per_host", &self.max_idle_per_host)
            .field("max_response_bytes", &self.max_response_bytes)
            .field("prior_knowledge", &self.prior_knowledge)
            .field("proxies", &self.proxies)
            .finish_non_exhaustive()
    }
}

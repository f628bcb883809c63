//! TLS that fails, before and after the handshake.

use super::attempt::{BODY, Draft, Wire, free_of_secrets, plain, send};
use super::server::Server;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use samekey::platform::native::HttpTransportBuilder;
use samekey::{Failure, FailureKind, Response, Sent};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Authority { issuer }
    }

    fn der(&self) -> Vec<u8> {
        self.issuer.der().to_vec()
    }

    fn leaf(&self, name: &str, expired: bool) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        if expired {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2020, 2, 1);
        }
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity {
            certificate: certificate.der().clone(),
            key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        }
    }
}

struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

fn config(identity: Identity, wants_client: Option<&Authority>) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match wants_client {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(authority.der().into()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                .build()
                .unwrap();
            builder.with_client_cert_verifier(verifier)
        }
    };
    builder
        .with_single_cert(vec![identity.certificate], identity.key)
        .unwrap()
}

/// A TLS server that answers every request with 200, and what it could decrypt.
struct TlsServer {
    server: Server,
    decrypted: Arc<Mutex<Vec<u8>>>,
}

impl TlsServer {
    async fn start(config: ServerConfig) -> TlsServer {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let decrypted = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&decrypted);
        let server = Server::start(move |_, conn| {
            let (acceptor, record) = (acceptor.clone(), Arc::clone(&record));
            async move {
                let Ok(mut tls) = acceptor.accept(conn.into_stream()).await else {
                    return None;
                };
                let mut buffer = [0; 4096];
                while let Ok(n @ 1..) = tls.read(&mut buffer).await {
                    record.lock().unwrap().extend_from_slice(&buffer[..n]);
                    let complete = !Wire::read(&[record.lock().unwrap().clone()])
                        .all()
                        .is_empty();
                    if complete {
                        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                        let _ = tls.write_all(answer).await;
                    }
                }
                None
            }
        })
        .await;
        TlsServer { server, decrypted }
    }

    /// One attempt; its end, and the application's bytes that the server could read.
    async fn tell(self, builder: HttpTransportBuilder) -> (Result<Response, Failure>, Vec<u8>) {
        let transport = builder.build().unwrap();
        let draft = Draft::default();
        let result = send(&transport, &self.server.https("/pay?token=hunter2"), &draft).await;
        drop(transport);
        let raw = self.server.finish().await;
        let decrypted = self.decrypted.lock().unwrap().clone();
        if let Err(failure) = &result {
            free_of_secrets(failure).unwrap();
            if failure.sent == Sent::No {
                assert!(decrypted.is_empty(), "{failure:?}, yet bytes arrived");
            }
        }
        assert!(!raw.concat().windows(BODY.len()).any(|part| part == BODY));
        (result, decrypted)
    }
}

fn assert_refused(result: Result<Response, Failure>, why: &str) {
    let failure = result.expect_err("no answer");
    assert_eq!(
        (failure.kind, failure.sent),
        (FailureKind::Tls, Sent::No),
        "{failure:?}"
    );
    assert!(failure.detail.contains(why), "{failure}");
}

#[tokio::test]
async fn t02_a_trusted_certificate_lets_the_request_through() {
    let authority = Authority::new();
    let pem = authority.issuer.pem();
    for builder in [
        plain().root_certificate_der(authority.der()),
        plain().root_certificates_pem(pem),
    ] {
        let server = TlsServer::start(config(authority.leaf("localhost", false), None)).await;
        let (result, decrypted) = server.tell(builder).await;
        assert_eq!(result.unwrap().content.bytes(), Some(&b"ok"[..]));
        let wire = Wire::read(&[decrypted]);
        assert_eq!(wire.all().len(), 1);
        assert_eq!(wire.all()[0].body, BODY);
    }
    // Nothing was installed for the whole process, and nothing needed it.
    assert!(rustls::crypto::CryptoProvider::get_default().is_none());
}

#[tokio::test]
async fn t02_an_unknown_issuer() {
    let server = TlsServer::start(config(Authority::new().leaf("localhost", false), None)).await;
    let (result, decrypted) = server.tell(plain()).await;
    assert_refused(result, "UnknownIssuer");
    assert!(decrypted.is_empty());
}

#[tokio::test]
async fn t02_an_expired_certificate() {
    let authority = Authority::new();
    let server = TlsServer::start(config(authority.leaf("localhost", true), None)).await;
    let (result, _) = server
        .tell(plain().root_certificate_der(authority.der()))
        .await;
    assert_refused(result, "expired");
}

#[tokio::test]
async fn t02_a_certificate_for_another_name() {
    let authority = Authority::new();
    let server = TlsServer::start(config(authority.leaf("other.example", false), None)).await;
    let (result, _) = server
        .tell(plain().root_certificate_der(authority.der()))
        .await;
    assert_refused(result, "not valid for name");
}

#[tokio::test]
async fn t02_a_server_that_does_not_speak_tls() {
    let server = Server::start(|_, mut conn| async move {
        conn.read(1).await;
        conn.write("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
            .await;
        Some(conn)
    })
    .await;
    let transport = plain().build().unwrap();
    let result = send(&transport, &server.https("/"), &Draft::default()).await;
    assert_refused(result, "no secure connection");
    drop(transport);
    let raw = server.finish().await.concat();
    assert!(!raw.windows(BODY.len()).any(|part| part == BODY));
}

#[tokio::test]
async fn t02_an_alert_after_the_handshake_is_maybe() {
    // In TLS 1.3 the client is done before the server has looked at its certificate: the request
    // may be on its way when the alert comes.
    let authority = Authority::new();
    let identity = authority.leaf("localhost", false);
    let server = TlsServer::start(config(identity, Some(&authority))).await;
    let (result, _) = server
        .tell(plain().root_certificate_der(authority.der()))
        .await;
    let failure = result.unwrap_err();
    assert_eq!(failure.sent, Sent::Maybe, "{failure:?}");
    assert_eq!(failure.kind, FailureKind::Tls, "{failure:?}");
}

#[test]
fn t02_roots_that_make_no_sense_are_refused_at_once() {
    for builder in [
        plain().root_certificate_der(*b"nonsense"),
        plain().root_certificates_pem("no certificate here"),
    ] {
        let error = builder.build().unwrap_err();
        assert!(error.to_string().contains("certificate"), "{error}");
    }
}

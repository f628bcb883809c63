//! What the peers share: the HTTP client, set up as samekey sets up its own.

use std::time::Duration;

/// A reqwest client with the settings of samekey's transport.
pub fn client() -> Result<reqwest::Client, String> {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    // Nothing here speaks TLS: samekey's roots would be read and never used.
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| format!("no TLS: {e}"))?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent("samekey-bench-peers")
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .connect_timeout(Duration::from_secs(5))
        .pool_idle_timeout(Duration::from_secs(50))
        .pool_max_idle_per_host(1024)
        .build()
        .map_err(|e| format!("no HTTP client: {e}"))
}

/// The key that goes with one request: fresh, as samekey's is, and kept nowhere.
pub fn key() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Reads an answer to its end. Anything but success fails the bench.
pub async fn finish(answer: reqwest::Response) -> Result<(), String> {
    let status = answer.status();
    let body = answer.bytes().await.map_err(|e| e.to_string())?;
    if status.is_success() && !body.is_empty() {
        Ok(())
    } else {
        Err(format!("the server says {status}"))
    }
}

/// The arguments: where to send, and where files may be put.
pub fn arguments() -> Result<(String, std::path::PathBuf), String> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next(), arguments.next()) {
        (Some(url), Some(folder)) => Ok((url, folder.into())),
        _ => Err("takes a URL and a folder".into()),
    }
}

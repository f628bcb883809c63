//! Bare hyper: one POST by the client below reqwest, which is also below samekey. What reqwest costs shows beside
//! the bare one, what samekey costs beside this.

use http::{Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use samekey_bench_gauge as gauge;
use samekey_bench_peers::{arguments, key};
use std::time::Duration;

fn main() -> Result<(), String> {
    let (url, _) = arguments()?;
    let url: Uri = url.parse().map_err(|e| format!("{url}: {e}"))?;
    let runtime = gauge::runtime()?;
    let client: Client<_, Full<bytes::Bytes>> = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(50))
        .pool_max_idle_per_host(1024)
        .build(connector());
    let body = gauge::body();
    let one = move |_| {
        let request = Request::post(url.clone())
            .header("content-type", "application/json")
            .header("accept", "*/*")
            .header("user-agent", "samekey-bench-peers")
            .header("idempotency-key", key())
            .body(Full::from(body.clone()));
        let client = client.clone();
        async move {
            let request = request.map_err(|e| e.to_string())?;
            let answer = client.request(request).await.map_err(|e| e.to_string())?;
            let status = answer.status();
            let body = answer.into_body().collect().await;
            let body = body.map_err(|e| e.to_string())?.to_bytes();
            if status.is_success() && !body.is_empty() {
                Ok(())
            } else {
                Err(format!("the server says {status}"))
            }
        }
    };
    gauge::serve(&runtime, one, gauge::unknown)
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector
}

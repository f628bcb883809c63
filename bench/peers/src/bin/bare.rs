//! Bare reqwest: one POST, nothing kept.

use samekey_bench_gauge as gauge;
use samekey_bench_peers::{arguments, client, finish, key};

fn main() -> Result<(), String> {
    let (url, _) = arguments()?;
    let runtime = gauge::runtime()?;
    let client = runtime.block_on(async { client() })?;
    let body = gauge::body();
    let one = move |_| {
        let request = client
            .post(&url)
            .header("content-type", "application/json")
            .header("idempotency-key", key())
            .body(body.clone());
        async move { finish(request.send().await.map_err(|e| e.to_string())?).await }
    };
    gauge::serve(&runtime, one, gauge::unknown)
}

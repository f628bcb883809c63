//! reqwest-middleware with reqwest-retry: retries, and nothing kept.

use reqwest_middleware::ClientBuilder;
use reqwest_retry::{RetryTransientMiddleware, policies::ExponentialBackoff};
use samekey_bench_gauge as gauge;
use samekey_bench_peers::{arguments, client, finish, key};

fn main() -> Result<(), String> {
    let (url, _) = arguments()?;
    let runtime = gauge::runtime()?;
    let client = runtime.block_on(async { client() })?;
    let policy = ExponentialBackoff::builder().build_with_max_retries(5);
    let client = ClientBuilder::new(client)
        .with(RetryTransientMiddleware::new_with_policy(policy))
        .build();
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

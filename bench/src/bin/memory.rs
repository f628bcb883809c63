//! How much memory one pending operation takes: `memory FOLDER COUNT`.
//!
//! Pending means: begun, durable, and waiting for an answer that does not come. What the HTTP client
//! needs for a connection is not counted, as it is the same without samekey.
#![forbid(unsafe_code)]

use samekey::machine::{Permit, Probe};
use samekey::platform::native::{OsDice, SystemClock};
use samekey::seam::BoxFuture;
use samekey::transport::Transport;
use samekey::{Client, Failure, Parts, Response, SqliteJournal};
use samekey_bench_gauge as gauge;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

#[global_allocator]
static HEAP: gauge::Counted = gauge::Counted;

/// Takes requests and never answers.
#[derive(Default)]
struct Silent {
    wanted: AtomicU64,
    arrived: Notify,
}

impl Transport for Silent {
    fn send(&self, permit: Permit) -> BoxFuture<'_, Result<Response, Failure>> {
        Box::pin(async move {
            if self.wanted.fetch_sub(1, Ordering::SeqCst) == 1 {
                self.arrived.notify_one();
            }
            std::future::pending::<()>().await;
            drop(permit);
            unreachable!("nothing ends what is pending")
        })
    }

    fn probe(&self, _: Probe) -> BoxFuture<'_, Result<Response, Failure>> {
        Box::pin(std::future::pending())
    }
}

async fn hang(client: &Client, server: &Silent, names: &str, count: u64) {
    server.wanted.store(count, Ordering::SeqCst);
    for number in 0..count {
        let intent = format!("{names}/{number}");
        let operation = client
            .operation(&intent)
            .post("http://127.0.0.1:8480/payments");
        let operation = operation.body(gauge::body(), "application/json");
        tokio::spawn(async move {
            if let Ok(operation) = operation.begin().await {
                let _ = operation.send().await;
            }
        });
    }
    server.arrived.notified().await;
}

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, count] = arguments.as_slice() else {
        return Err("takes a folder and a count".into());
    };
    let count: u64 = count.parse().map_err(|e| format!("{count}: {e}"))?;
    let path = Path::new(folder).join("orders.samekey");
    let server = Arc::new(Silent::default());
    let parts = Parts {
        journal: Arc::new(SqliteJournal::open(path).map_err(|e| e.to_string())?),
        transport: Arc::clone(&server) as _,
        clock: Arc::new(SystemClock),
        dice: Arc::new(OsDice),
    };
    let client = Client::with_parts("bench", parts)
        .build()
        .map_err(|e| e.to_string())?;
    gauge::runtime()?.block_on(async {
        hang(&client, &server, "warm", 100).await;
        let before = gauge::live_bytes();
        hang(&client, &server, "counted", count).await;
        let after = gauge::live_bytes();
        let each = (after - before) as f64 / count as f64;
        let beyond = each - gauge::body().len() as f64;
        println!("{{\"bytes_per_pending\":{beyond}}}");
        // What hangs would be let go one by one.
        std::process::exit(0)
    })
}

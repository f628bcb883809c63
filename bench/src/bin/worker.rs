//! The processes of the bench that hold samekey: `worker ROLE URL FOLDER`.
//!
//! | role | an operation is |
//! |---|---|
//! | `send` | a crash-safe POST: begin, send, outcome |
//! | `journal` | begin and finish of an entry, without a server |
//! | `floor` | 4120 bytes written over and synced: what the disk asks for one durable step |
//! | `stock` | none; makes and looks at journals of a given size, see `stock.rs` |
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "a bench looks at the real clock and draws real keys"
)]

#[path = "worker/journal.rs"]
mod journal;
#[path = "worker/stock.rs"]
mod stock;

use samekey::{Client, SqliteJournal};
use samekey_bench_gauge as gauge;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [role, url, folder] = arguments.as_slice() else {
        return Err("takes a role, a URL and a folder".into());
    };
    let folder = Path::new(folder);
    match role.as_str() {
        "send" => send(url, &folder.join("orders.samekey")),
        "journal" => journal::serve(&folder.join("orders.samekey")),
        "floor" => floor(&folder.join("floor")),
        "stock" => stock::serve(url, folder),
        _ => Err(format!("there is no role `{role}`")),
    }
}

/// The client as a user has it: every setting is the default.
fn client(journal: &Path) -> Result<Client, String> {
    let journal = SqliteJournal::open(journal).map_err(|e| e.to_string())?;
    Client::builder("bench")
        .journal(journal)
        .build()
        .map_err(|e| e.to_string())
}

/// A name that no earlier run has used: journals outlive runs.
fn fresh() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("{:x}", now.unwrap_or_default().as_nanos())
}

async fn pay(client: Client, intent: String, url: Arc<str>, body: Vec<u8>) -> Result<(), String> {
    let operation = client
        .operation(&intent)
        .post(&url)
        .body(body, "application/json")
        .begin()
        .await
        .map_err(|e| e.to_string())?;
    let outcome = operation.send().await.map_err(|e| e.to_string())?;
    if outcome.is_success() && outcome.attempts() == 1 {
        Ok(())
    } else {
        Err(format!(
            "{} after {} attempts",
            outcome.status(),
            outcome.attempts()
        ))
    }
}

fn send(url: &str, journal: &Path) -> Result<(), String> {
    let runtime = gauge::runtime()?;
    let client = runtime.block_on(async { client(journal) })?;
    let (body, run, url) = (gauge::body(), fresh(), Arc::<str>::from(url));
    let one = move |number: u64| {
        let intent = format!("{run}/{number}");
        pay(client.clone(), intent, Arc::clone(&url), body.clone())
    };
    gauge::serve(&runtime, one, gauge::unknown)
}

/// One frame of a log, written where blocks are allocated already.
const FRAME: usize = 4120;

fn floor(path: &Path) -> Result<(), String> {
    let broken = |e: std::io::Error| format!("{}: {e}", path.display());
    let mut open = OpenOptions::new();
    let file = open.create(true).truncate(false).write(true).open(path);
    let mut file = file.map_err(broken)?;
    file.write_all(&vec![7; 256 * FRAME]).map_err(broken)?;
    file.sync_all().map_err(broken)?;
    let file: Arc<Mutex<File>> = Arc::new(Mutex::new(file));
    let runtime = gauge::runtime()?;
    let one = move |number: u64| {
        let file = Arc::clone(&file);
        async move {
            // On the caller's own thread: no hop is part of the floor.
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            let at = SeekFrom::Start(number % 256 * FRAME as u64);
            file.seek(at)
                .and_then(|_| file.write_all(&[number as u8; FRAME]))
                .and_then(|()| file.sync_data())
                .map_err(|e| e.to_string())
        }
    };
    gauge::serve(&runtime, one, gauge::unknown)
}

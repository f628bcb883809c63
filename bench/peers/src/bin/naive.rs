//! The journal that most would write first: one connection behind a mutex, one commit per write.
//!
//! With `journal` as its third argument the journal is measured alone, else around a POST.

use rusqlite::{Connection, params};
use samekey_bench_gauge as gauge;
use samekey_bench_peers::{arguments, client, finish, key};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone)]
struct Naive(Arc<Mutex<Connection>>);

impl Naive {
    fn open(path: &std::path::Path) -> rusqlite::Result<Naive> {
        let connection = Connection::open(path)?;
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch(
            "CREATE TABLE ops (id INTEGER PRIMARY KEY, key TEXT, intent TEXT UNIQUE, state INTEGER,
                 request BLOB, answer BLOB);
             CREATE INDEX open ON ops (state) WHERE state = 0;",
        )?;
        Ok(Naive(Arc::new(Mutex::new(connection))))
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, String> {
        let connection = Arc::clone(&self.0);
        let work = move || work(&connection.lock().unwrap_or_else(PoisonError::into_inner));
        tokio::task::spawn_blocking(work)
            .await
            .map_err(|e| e.to_string())?
            .map_err(|e| e.to_string())
    }

    async fn begin(&self, number: u64, key: String, body: Vec<u8>) -> Result<i64, String> {
        self.with(move |connection| {
            connection
                .prepare_cached(
                    "INSERT INTO ops (key, intent, state, request) VALUES (?1, ?2, 0, ?3)",
                )?
                .execute(params![key, format!("bench/{number}"), body])?;
            Ok(connection.last_insert_rowid())
        })
        .await
    }

    async fn finish(&self, id: i64) -> Result<(), String> {
        self.with(move |connection| {
            connection
                .prepare_cached("UPDATE ops SET state = 1, answer = ?2 WHERE id = ?1")?
                .execute(params![id, b"{\"status\":\"succeeded\"}"])?;
            Ok(())
        })
        .await
    }
}

fn main() -> Result<(), String> {
    let (url, folder) = arguments()?;
    let alone = std::env::args().nth(3).as_deref() == Some("journal");
    let runtime = gauge::runtime()?;
    let client = runtime.block_on(async { client() })?;
    let journal = Naive::open(&folder.join("naive.db")).map_err(|e| e.to_string())?;
    let body = gauge::body();
    let one = move |number| {
        let (journal, client) = (journal.clone(), client.clone());
        let (key, body, url) = (key(), body.clone(), url.clone());
        async move {
            let id = journal.begin(number, key.clone(), body.clone()).await?;
            if !alone {
                let request = client
                    .post(url)
                    .header("content-type", "application/json")
                    .header("idempotency-key", key)
                    .body(body);
                finish(request.send().await.map_err(|e| e.to_string())?).await?;
            }
            journal.finish(id).await
        }
    };
    gauge::serve(&runtime, one, gauge::unknown)
}

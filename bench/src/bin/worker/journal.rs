//! The journal alone: the writes of a crash-safe POST without the POST.

use samekey::entry::{Entry, Expected, Flush, Frozen, Owner, Progress};
use samekey::journal::{Begun, Journal, MemoryJournal, Select, Write};
use samekey::machine::{Permit, Probe};
use samekey::platform::native::{OsDice, SystemClock};
use samekey::seam::BoxFuture;
use samekey::transport::Transport;
use samekey::{Client, Failure, Headers, Key, Parts, Response, SqliteJournal};
use samekey_bench_gauge as gauge;
use std::path::Path;
use std::sync::Arc;

/// Answers as the mock server does, without leaving the process.
struct AtOnce;

fn paid() -> BoxFuture<'static, Result<Response, Failure>> {
    Box::pin(async {
        let mut headers = Headers::new();
        let _ = headers.push("content-type", "application/json");
        let _ = headers.push("date", "Tue, 01 Sep 2026 00:00:00 GMT");
        Ok(Response::new(201, headers, r#"{"status":"succeeded"}"#))
    })
}

impl Transport for AtOnce {
    fn send(&self, _: Permit) -> BoxFuture<'_, Result<Response, Failure>> {
        paid()
    }

    fn probe(&self, _: Probe) -> BoxFuture<'_, Result<Response, Failure>> {
        paid()
    }
}

/// What a client writes for one POST: taken from a real one, then told under other names.
pub(crate) struct Pattern {
    begun: Entry,
    settled: Progress,
    dice: OsDice,
    run: String,
}

impl Pattern {
    pub(crate) async fn of(url: &str) -> Result<Pattern, String> {
        let said = |e: samekey::Error| e.to_string();
        let parts = Parts {
            journal: Arc::new(MemoryJournal::new()),
            transport: Arc::new(AtOnce),
            clock: Arc::new(SystemClock),
            dice: Arc::new(OsDice),
        };
        let client = Client::with_parts("bench", parts).build().map_err(said)?;
        let operation = client
            .operation("pattern")
            .post(url)
            .body(gauge::body(), "application/json");
        let operation = operation.begin().await.map_err(said)?;
        let begun = operation.entry();
        operation.send().await.map_err(said)?;
        let settled = client.list(Select::Settled).await.map_err(said)?;
        let settled = settled.first().ok_or("nothing was settled")?.entry();
        Ok(Pattern {
            begun,
            settled: settled.progress,
            dice: OsDice,
            run: super::fresh(),
        })
    }

    fn entry(&self, number: u64, owner: Owner) -> Entry {
        let frozen = Frozen {
            key: Key::from_random(samekey::clock::Dice::key_bytes(&self.dice)),
            intent: format!("{}/{number}", self.run).into(),
            ..Frozen::clone(&self.begun.frozen)
        };
        Entry {
            slot: 0,
            frozen: Arc::new(frozen),
            progress: Progress {
                owner,
                ..self.begun.progress.clone()
            },
        }
    }

    pub(crate) async fn begin(
        &self,
        journal: &SqliteJournal,
        number: u64,
    ) -> Result<(u64, Key), String> {
        let entry = self.entry(number, journal.owner());
        let key = entry.key().clone();
        match journal.begin(entry).await {
            Ok(Begun::Created(receipt)) => Ok((receipt.slot(), key)),
            Ok(other) => Err(format!("not created: {other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(crate) async fn succeed(
        &self,
        journal: &SqliteJournal,
        (slot, key): (u64, Key),
    ) -> Result<(), String> {
        let write = Write {
            slot,
            key,
            expected: Expected {
                owner: journal.owner(),
                ..Expected::of(&self.begun.progress)
            },
            progress: Progress {
                owner: journal.owner(),
                ..self.settled.clone()
            },
            flush: Flush::Normal,
        };
        journal
            .record(write)
            .await
            .map_err(|e| e.to_string())
            .map(drop)
    }
}

/// Where requests would go.
pub(crate) const URL: &str = "http://127.0.0.1:8480/payments";

pub(crate) fn serve(path: &Path) -> Result<(), String> {
    let runtime = gauge::runtime()?;
    let pattern = Arc::new(runtime.block_on(Pattern::of(URL))?);
    let journal = SqliteJournal::open(path).map_err(|e| e.to_string())?;
    let one = move |number| {
        let (pattern, journal) = (Arc::clone(&pattern), journal.clone());
        async move {
            let begun = pattern.begin(&journal, number).await?;
            pattern.succeed(&journal, begun).await
        }
    };
    gauge::serve(&runtime, one, gauge::unknown)
}

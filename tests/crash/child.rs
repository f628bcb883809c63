//! The program that dies: it goes on with what it finds, then does what it was started for.

use super::parts::{DyingJournal, DyingTransport, HastyJournal, Point};
use super::process::{ready, tell};
use samekey::journal::Journal;
use samekey::platform::native::{HttpTransport, OsDice, SystemClock};
use samekey::{Client, Error, Operation, Parts, Policy, SqliteJournal};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

pub(super) const URL: &str = "SAMEKEY_CRASH_URL";
pub(super) const JOURNAL: &str = "SAMEKEY_CRASH_JOURNAL";
pub(super) const POINT: &str = "SAMEKEY_CRASH_POINT";
pub(super) const HASTY: &str = "SAMEKEY_CRASH_HASTY";

/// So much that it does not fit into one packet: there is a time between head and body.
const PADDING: usize = 128 * 1024;

#[tokio::test]
#[ignore = "the other tests run it, as a process of its own"]
async fn pay() {
    let Ok(url) = std::env::var(URL) else { return };
    let point = Point::named(&std::env::var(POINT).unwrap());
    let inner = SqliteJournal::open(std::env::var(JOURNAL).unwrap()).unwrap();
    let journal: Arc<dyn Journal> = match std::env::var_os(HASTY) {
        Some(_) => Arc::new(DyingJournal {
            inner: HastyJournal::new(inner),
            point,
        }),
        None => Arc::new(DyingJournal { inner, point }),
    };
    ready();
    let recover = client(&journal, point, true);
    for operation in recover.unfinished().await.unwrap() {
        tell(&format!("key {}", operation.key().as_str()));
        let recovered = operation.resume().await.map(|outcome| outcome.status());
        tell(&format!(
            "recovered {:?}",
            recovered.map_err(|error| error.kind())
        ));
    }
    match run(&client(&journal, point, false), &url).await {
        Ok((operation, status)) => {
            let provenance = operation.outcome().unwrap().unwrap().provenance();
            tell(&format!("outcome {status} {provenance}"));
        }
        Err(error) => tell(&format!("outcome {:?}: {error}", error.kind())),
    }
}

fn client(journal: &Arc<dyn Journal>, point: Point, recovering: bool) -> Client {
    let parts = Parts {
        journal: Arc::clone(journal),
        transport: Arc::new(DyingTransport {
            inner: HttpTransport::new().unwrap(),
            point,
            recovering,
        }),
        clock: Arc::new(SystemClock),
        dice: Arc::new(OsDice),
    };
    let policy = Policy::new()
        .base(Duration::from_millis(50))
        .floor(Duration::from_millis(10));
    Client::with_parts("crash", parts)
        .policy(policy)
        .build()
        .unwrap()
}

async fn run(client: &Client, url: &str) -> Result<(Operation, u16), Error> {
    let operation = client
        .operation("cart/9/checkout")
        .post(&format!("{url}/payments"))
        .json(&json!({ "amount": 4200, "note": "x".repeat(PADDING) }))
        .begin()
        .await?;
    tell(&format!("key {}", operation.key().as_str()));
    let status = operation.send().await?.status();
    Ok((operation, status))
}

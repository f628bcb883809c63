//! A flow of several steps, each with its own intent and so its own key.
//!
//! ```sh
//! cargo run --example flow
//! ```
//!
//! An order is created, paid for and reported, and any step may be the last one that the process
//! lives to see. The remedy is to write the flow as a plain function and to run all of it again:
//! a step that is done hands out its outcome from the journal and sends nothing, a step that was
//! interrupted goes on under its key, and the first one that was never begun is begun.
//!
//! Three things make that work. Every call that changes something is a step: one call left without
//! a key is one call that happens twice. Every intent is named after the order and the step, not
//! after the time or the try. And a later step is built from what an earlier one answered, which is
//! in the journal too.

use samekey::platform::native::HttpTransport;
use samekey::{Client, Outcome, SqliteJournal};
use samekey_mock::{Fault, Mock};
use serde_json::{Value, json};
use std::path::Path;

type Error = Box<dyn std::error::Error>;

/// The whole flow. `last` is the step after which this run dies, so that there is something to see.
async fn fulfil(client: &Client, url: &str, order: &str, last: usize) -> Result<(), Error> {
    let step = async |name: &str, path: &str, body: Value| -> Result<Value, Error> {
        let intent = format!("order/{order}/{name}");
        let outcome = client.post(&intent, &format!("{url}{path}"), &body).await?;
        show(name, &outcome);
        if !outcome.is_success() {
            return Err(format!("{name} was refused with {}", outcome.status()).into());
        }
        Ok(outcome.json()?)
    };

    let created = step("create", "/orders", json!({ "item": "teapot" })).await?;
    if last == 1 {
        return Err("the process dies here".into());
    }
    // Built from the first step's answer: the same on every run, because the answer is kept.
    let payment = json!({ "order": created["id"], "amount": 2500 });
    step("pay", "/payments", payment).await?;
    if last == 2 {
        return Err("the process dies here".into());
    }
    // The server takes this one with 202 and works on it; samekey asks until it is done.
    step("report", "/exports", json!({ "order": created["id"] })).await?;
    Ok(())
}

fn show(name: &str, outcome: &Outcome) {
    let (reference, provenance) = (outcome.reference(), outcome.provenance());
    println!("  {name:<7} {} {reference} {provenance}", outcome.status());
}

/// A client as a newly started process would have it.
fn start(journal: &Path) -> Result<Client, Error> {
    Ok(Client::builder("fulfilment")
        .journal(SqliteJournal::open(journal)?)
        .transport(HttpTransport::builder().no_proxy().build()?) // the server is on this machine
        .build()?)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    // Every step's first answer is lost, after the server has acted.
    let lost = |route: &str| Fault::DropAfterCommit.on_route(route).times(1);
    let server = Mock::builder()
        .fault(lost("/orders"))
        .fault(lost("/payments"))
        .fault(lost("/exports"))
        .settings(|settings| settings.export_time = std::time::Duration::from_millis(500))
        .start()
        .await?;
    let folder = tempfile::tempdir()?;
    let journal = folder.path().join("fulfilment.samekey");

    for run in 1..=3 {
        println!("run {run}");
        let client = start(&journal)?;
        match fulfil(&client, &server.url(), "17", run).await {
            Ok(()) => println!("  done"),
            Err(why) => println!("  {why}"),
        }
    }

    let ledger = server.ledger();
    let kinds: Vec<&str> = ledger
        .effects()
        .iter()
        .map(|effect| effect.kind.as_str())
        .collect();
    println!("the server's ledger: {}", kinds.join(", "));
    if kinds != ["order", "payment", "export"] || ledger.keys().len() != 3 {
        return Err("each step was to happen once, under a key of its own".into());
    }
    Ok(())
}

//! A command-line program that may be stopped at any moment and run again.
//!
//! ```sh
//! cargo run --example cli_resume             # press Ctrl-C while it waits, then run it again
//! cargo run --example cli_resume -- order-2  # another order
//! cargo run --example cli_resume -- --journal FILE --url http://127.0.0.1:8080 order-3
//! ```
//!
//! There is no handler for Ctrl-C in here, and none is needed: the order and its key were in the
//! journal before anything was sent. The next run finds the order open and goes on with it, under
//! the same key; the run after that finds it paid and sends nothing.
//!
//! Without `--url` the program brings its own server, which keeps its payments in a file beside the
//! journal, listens on the same port at every start, and is slow to answer.

use samekey::platform::native::{HttpTransport, default_journal_path};
use samekey::{Client, Error, Operation, SqliteJournal};
use samekey_mock::settings::Stale;
use samekey_mock::{Fault, Mock};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const APPLICATION: &str = "samekey-example";
/// How slow the server is: long enough for a hand to reach Ctrl-C.
const SLOW: u64 = 4_000;

#[derive(Default)]
struct Arguments {
    journal: Option<PathBuf>,
    url: Option<String>,
    order: Option<String>,
}

impl Arguments {
    fn read() -> Result<Arguments, String> {
        let mut arguments = Arguments::default();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--journal" => arguments.journal = Some(value()?.into()),
                "--url" => arguments.url = Some(value()?),
                option if option.starts_with('-') => return Err(format!("no option {option}")),
                order => arguments.order = Some(order.to_owned()),
            }
        }
        Ok(arguments)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let arguments = Arguments::read()?;
    let order = arguments.order.unwrap_or_else(|| "order-1".to_owned());
    let client =
        Client::builder(APPLICATION).transport(HttpTransport::builder().no_proxy().build()?); // the server is on this machine
    let (client, journal) = match arguments.journal {
        Some(file) => (client.journal(SqliteJournal::open(&file)?), file),
        None => (client, default_journal_path(APPLICATION)?),
    };
    let client = client.build()?;
    println!("journal: {}", journal.display());
    let server = match arguments.url {
        Some(_) => None,
        None => Some(own_server(&journal).await?),
    };
    let url = arguments
        .url
        .or(server.as_ref().map(Mock::url))
        .unwrap_or_default();

    for operation in client.unfinished().await? {
        println!(
            "{} was interrupted: going on under {}",
            operation.intent(),
            operation.reference()
        );
        report(&operation, operation.resume().await);
    }

    let operation = client
        .operation(&order)
        .post(&format!("{url}/payments"))
        .json(&json!({ "amount": 100 }))
        .begin()
        .await?;
    println!("{order}: your reference is {}", operation.reference());
    if let (Some(server), false) = (&server, operation.phase().is_settled()) {
        server.fault(Fault::DelayAnswer(SLOW).once());
        println!("the server takes its time: press Ctrl-C now and run this again, or wait");
    }
    Ok(report(&operation, operation.send().await))
}

/// Tells how it ended, with the exit codes that scripts can tell apart.
fn report(operation: &Operation, result: Result<samekey::Outcome, Error>) -> ExitCode {
    let intent = operation.intent();
    match result {
        Ok(outcome) if outcome.is_success() => {
            println!("{intent}: paid ({})", outcome.provenance());
            ExitCode::SUCCESS
        }
        Ok(outcome) => {
            println!("{intent}: refused with {}", outcome.status());
            ExitCode::from(3)
        }
        Err(error) if error.is_unresolved() => {
            println!(
                "{intent}: not known yet. Run this again; to ask, say {}",
                operation.reference()
            );
            eprintln!("{error}");
            ExitCode::from(4)
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A server that survives its own end as well: payments in a file, and always the same port.
async fn own_server(journal: &Path) -> Result<Mock, Box<dyn std::error::Error>> {
    let (file, port) = (
        journal.with_extension("server"),
        journal.with_extension("port"),
    );
    let known = std::fs::read_to_string(&port)
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let server = Mock::builder()
        .file(file)
        .stale(Duration::from_secs(1), Stale::Reclaim)
        .port(known.unwrap_or(0))
        .start()
        .await?;
    std::fs::write(port, server.address().port().to_string())?;
    Ok(server)
}

//! A service: one client shared by all handlers, hundreds of operations at once.
//!
//! ```sh
//! cargo run --example service
//! ```
//!
//! Orders come in with their callers' keys, and the service pays for them at another service. It
//! shows what is easily got wrong there:
//!
//! - **One `Client`** for all handlers. It is cheap to clone; its journal commits what waits
//!   together, so a hundred simultaneous begins cost a few syncs and not a hundred.
//! - **The inbound key goes on downstream** by an explicit `adopt_key`. A caller who retries reaches
//!   the same operation, and the same key reaches the payment service. Without that call no key from
//!   outside is ever used.
//! - **Shutdown** means to stop taking orders, to give the running ones a moment, and then simply to
//!   drop them: what is open stays in the journal.
//! - **Recovery at start** goes on with those, each on its own: one that is stuck must not stop the
//!   others, nor the service from taking new orders.

use samekey::clock::Dice;
use samekey::platform::native::{HttpTransport, OsDice};
use samekey::{Client, Error, Key, SqliteJournal};
use samekey_mock::{Event, Fault, Mock};
use serde_json::json;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;
use tokio::task::JoinSet;

const ORDERS: usize = 300;

/// What a caller sent us: a key of its own making, in `Idempotency-Key`, and the order.
#[derive(Clone)]
struct Inbound {
    key: String,
    order: usize,
}

/// The service's state, as a handler gets it.
#[derive(Clone)]
struct Service {
    client: Client,
    payments: String,
}

impl Service {
    fn start(journal: &Path, payments: &str) -> Result<Service, Box<dyn std::error::Error>> {
        let client = Client::builder("order-service")
            .journal(SqliteJournal::open(journal)?)
            .transport(HttpTransport::builder().no_proxy().build()?) // they are on this machine
            .allow_origin(payments)
            .build()?;
        Ok(Service {
            client,
            payments: payments.to_owned(),
        })
    }

    /// One request's handler. Its intent contains the caller's key: the same caller retrying is the
    /// same action, and two callers are two.
    async fn handle(&self, inbound: Inbound) -> Result<u16, Error> {
        let operation = self
            .client
            .operation(&format!("pay/{}", inbound.key))
            .post(&format!("{}/payments", self.payments))
            .json(&json!({ "amount": 100 + inbound.order }))
            .adopt_key(&inbound.key)
            .begin()
            .await?;
        Ok(operation.send().await?.status())
    }

    /// Goes on with what the last run left open; how many came to an end, and how many did not.
    async fn recover(&self) -> Result<(usize, usize), Error> {
        let mut tasks = JoinSet::new();
        for operation in self.client.unfinished().await? {
            tasks.spawn(async move {
                let result = operation.resume().await;
                result.inspect_err(|error| eprintln!("{}: {error}", operation.reference()))
            });
        }
        let ended = tasks.join_all().await;
        let good = ended.iter().filter(|result| result.is_ok()).count();
        Ok((good, ended.len() - good))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The payment service loses every tenth answer after acting.
    let payments = Mock::builder()
        .seed(17)
        .fault(Fault::DropAfterCommit.rate(0.1))
        .start()
        .await?;
    let folder = tempfile::tempdir()?;
    let journal = folder.path().join("orders.samekey");
    let inbound = orders(0..ORDERS);

    let service = Service::start(&journal, &payments.url())?;
    let paid = serve(&service, &inbound).await;
    println!(
        "{ORDERS} orders at once, each delivered twice: {paid} of {} calls answered",
        2 * ORDERS
    );

    // The payment service stops answering, more orders come in, and we are told to stop.
    payments.clear_faults();
    payments.hold();
    let late = orders(ORDERS..ORDERS + 50);
    let running = spawn(&service, &late);
    payments
        .wait_for(|ledger| ledger.count(Event::Held) == late.len())
        .await;
    let open = shut_down(running).await;
    println!("shutdown: {open} orders are still open, and stay in the journal");
    drop(service);
    payments.release();

    // The next start.
    let service = Service::start(&journal, &payments.url())?;
    let (good, stuck) = service.recover().await?;
    println!("next start: {good} finished under their old keys, {stuck} stuck");

    let ledger = payments.ledger();
    let keys: BTreeSet<&str> = inbound
        .iter()
        .chain(&late)
        .map(|order| &*order.key)
        .collect();
    let sent: BTreeSet<&str> = ledger.keys().iter().map(|row| &*row.slot.key).collect();
    let (requests, effects) = (ledger.requests().len(), ledger.effects().len());
    println!(
        "the payment service: {requests} requests, {} keys, {effects} payments",
        sent.len()
    );
    let once = keys.iter().all(|key| ledger.effects_of(key) == 1);
    if !once || sent != keys || paid != 2 * ORDERS || (good, stuck) != (late.len(), 0) {
        return Err("every order was to be paid once, under its caller's key".into());
    }
    Ok(())
}

fn orders(numbers: Range<usize>) -> Vec<Inbound> {
    let new_key = || Key::from_random(OsDice.key_bytes()).as_str().to_owned();
    numbers
        .map(|order| Inbound {
            key: new_key(),
            order,
        })
        .collect()
}

/// Gives the running handlers a moment, then drops them; how many that were.
async fn shut_down(mut running: JoinSet<Result<u16, Error>>) -> usize {
    let all = async { while running.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(Duration::from_millis(200), all).await;
    let open = running.len();
    running.shutdown().await;
    open
}

/// Every order twice: callers retry, too.
async fn serve(service: &Service, orders: &[Inbound]) -> usize {
    let (mut first, second) = (spawn(service, orders), spawn(service, orders));
    let mut results = second.join_all().await;
    while let Some(result) = first.join_next().await {
        results.extend(result);
    }
    for error in results.iter().filter_map(|result| result.as_ref().err()) {
        eprintln!("{error}");
    }
    results
        .iter()
        .filter(|result| matches!(result, Ok(201)))
        .count()
}

fn spawn(service: &Service, orders: &[Inbound]) -> JoinSet<Result<u16, Error>> {
    let mut tasks = JoinSet::new();
    for order in orders.iter().cloned() {
        let service = service.clone();
        tasks.spawn(async move { service.handle(order).await });
    }
    tasks
}

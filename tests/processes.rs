//! Several processes on one journal: one drives, the others wait, and a dead one is taken over.
//!
//! The processes are this test binary, run as children with the default parts of a client. They tell
//! what they do on standard output, and go on when told to on standard input; nothing waits for time.
#![cfg(all(feature = "native", feature = "sqlite", feature = "json"))]
#![expect(clippy::unwrap_used, reason = "clippy knows tests, not their helpers")]

#[path = "crash/process.rs"]
mod process;

use process::{LIMIT, Process, ready, tell};
use samekey::{Client, Error, Policy, SqliteJournal, Update};
use samekey_mock::{Event, Ledger, Mock};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const URL: &str = "SAMEKEY_PROCESSES_URL";
const JOURNAL: &str = "SAMEKEY_PROCESSES_JOURNAL";
const NAME: &str = "SAMEKEY_PROCESSES_NAME";

/// A child: opens the journal, says so, and waits for the word to go.
fn prepared() -> Option<(Client, String, String)> {
    let url = std::env::var(URL).ok()?;
    let journal = SqliteJournal::open(std::env::var(JOURNAL).unwrap()).unwrap();
    let policy = Policy::new()
        .base(Duration::from_millis(50))
        .floor(Duration::from_millis(10));
    let client = Client::builder("processes")
        .journal(journal)
        .policy(policy)
        .build()
        .unwrap();
    ready();
    Some((client, url, std::env::var(NAME).unwrap()))
}

async fn pay(client: &Client, url: &str, intent: &str) -> Result<u16, Error> {
    let operation = client
        .operation(intent)
        .post(&format!("{url}/payments"))
        .json(&json!({ "amount": 100 }))
        .begin()
        .await?;
    tell(&format!("key {}", operation.key().as_str()));
    let mut updates = operation.updates();
    let sending = operation.send();
    tokio::pin!(sending);
    loop {
        tokio::select! {
            biased;
            Some(update) = updates.next() => if update == Update::Joined { tell("joined") },
            outcome = &mut sending => return Ok(outcome?.status()),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the other tests run it, as a process of its own"]
async fn one_payment() {
    let Some((client, url, intent)) = prepared() else {
        return;
    };
    match pay(&client, &url, &intent).await {
        Ok(status) => tell(&format!("outcome {status}")),
        Err(error) => tell(&format!("outcome {:?}: {error}", error.kind())),
    }
}

/// Four payments at a time, again and again, until the parent says that it is enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the other tests run it, as a process of its own"]
async fn many_payments() {
    static ENOUGH: AtomicBool = AtomicBool::new(false);
    let Some((client, url, name)) = prepared() else {
        return;
    };
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_line(&mut String::new());
        ENOUGH.store(true, Ordering::Relaxed);
    });
    let mut lanes = tokio::task::JoinSet::new();
    for lane in 0..4 {
        let (client, url, name) = (client.clone(), url.clone(), name.clone());
        lanes.spawn(async move {
            for number in 0.. {
                if ENOUGH.load(Ordering::Relaxed) {
                    return;
                }
                let intent = format!("{name}/{lane}/{number}");
                match pay(&client, &url, &intent).await {
                    Ok(201) => tell(&format!("paid {intent}")),
                    other => tell(&format!("trouble {intent} {other:?}")),
                }
            }
        });
    }
    lanes.join_all().await;
}

#[test]
#[ignore = "the other tests run it, as a process of its own"]
fn a_client_with_the_default_journal() {
    if std::env::var_os(NAME).is_some() {
        let _client = Client::builder("newcomer").build().unwrap();
        let path = samekey::platform::native::default_journal_path("newcomer").unwrap();
        tell(&format!("journal {}", path.display()));
    }
}

/// A server, and a journal for all.
struct World {
    server: Mock,
    folder: TempDir,
}

impl World {
    async fn new() -> World {
        World {
            server: Mock::builder().start().await.unwrap(),
            folder: TempDir::new().unwrap(),
        }
    }

    fn start(&self, test: &str, name: &str) -> Process {
        let journal = self.folder.path().join("journal.samekey");
        let (url, journal) = (self.server.url(), journal.to_str().unwrap());
        Process::start(test, &[(URL, &url), (JOURNAL, journal), (NAME, name)])
    }

    async fn server_has(&self, condition: impl Fn(&Ledger) -> bool) {
        let waiting = tokio::time::timeout(LIMIT, self.server.wait_for(condition));
        waiting.await.expect("the server never got there");
    }
}

fn keys(ledger: &Ledger) -> BTreeSet<&str> {
    ledger
        .requests()
        .iter()
        .map(|request| request.key.as_deref().unwrap_or("(none)"))
        .collect()
}

#[tokio::test]
async fn a_new_account_without_a_folder_for_data_gets_one() {
    let home = TempDir::new().unwrap();
    let data = home.path().join("not/there/yet");
    let variables = [
        (NAME, "newcomer"),
        ("HOME", home.path().to_str().unwrap()),
        ("XDG_DATA_HOME", data.to_str().unwrap()),
    ];
    let mut process = Process::start("a_client_with_the_default_journal", &variables);
    let journal = PathBuf::from(process.hear("journal").await);
    assert!(
        journal.starts_with(home.path()) && journal.is_file(),
        "{journal:?}"
    );
}

#[tokio::test]
async fn e37_while_one_process_drives_the_other_waits_and_hears_the_outcome() {
    let world = World::new().await;
    world.server.hold();
    let mut first = world.start("one_payment", "cart/9");
    first.go().await;
    world
        .server_has(|ledger| ledger.count(Event::Held) == 1)
        .await;
    let mut second = world.start("one_payment", "cart/9");
    second.go().await;
    second.hear("joined").await;
    world.server.release();
    assert_eq!(first.hear("outcome").await, "201");
    assert_eq!(second.hear("outcome").await, "201");
    let ledger = world.server.ledger();
    assert_eq!((ledger.requests().len(), ledger.effects().len()), (1, 1));
}

#[tokio::test]
async fn e37_when_the_driver_is_killed_the_waiting_process_finishes_under_the_same_key() {
    let world = World::new().await;
    world.server.hold();
    let mut first = world.start("one_payment", "cart/9");
    first.go().await;
    world
        .server_has(|ledger| ledger.count(Event::Held) == 1)
        .await;
    let mut second = world.start("one_payment", "cart/9");
    second.go().await;
    second.hear("joined").await;
    first.kill().await;
    // The second takes over: its request meets the first one's, which the server still works on.
    world
        .server_has(|ledger| ledger.count(Event::InFlight) > 0)
        .await;
    world.server.release();
    assert_eq!(second.hear("outcome").await, "201");
    let ledger = world.server.ledger();
    assert_eq!(
        (keys(&ledger).len(), ledger.effects().len()),
        (1, 1),
        "{ledger:#?}"
    );
    let told = first
        .told
        .iter()
        .chain(&second.told)
        .filter_map(|told| told.strip_prefix("key "));
    assert!(told.into_iter().all(|key| keys(&ledger).contains(key)));
}

#[tokio::test]
async fn eight_processes_that_start_the_same_intent_at_once_have_one_key_and_one_effect() {
    let world = World::new().await;
    let mut all: Vec<Process> = (0..8)
        .map(|_| world.start("one_payment", "cart/9"))
        .collect();
    for process in &mut all {
        process.hear("ready").await;
    }
    for process in &mut all {
        process.go().await;
    }
    let mut told = BTreeSet::new();
    for process in &mut all {
        told.insert(process.hear("key").await);
        assert_eq!(process.hear("outcome").await, "201");
    }
    let ledger = world.server.ledger();
    assert_eq!(
        told.iter().map(String::as_str).collect::<BTreeSet<_>>(),
        keys(&ledger)
    );
    assert_eq!((told.len(), ledger.effects().len()), (1, 1), "{ledger:#?}");
    assert_eq!(
        ledger.requests().len(),
        1,
        "one drives, and the others wait for it"
    );
}

#[tokio::test]
async fn of_eight_busy_processes_on_one_journal_none_starves() {
    /// How many payments the slowest must manage.
    const EACH: usize = 20;
    let world = World::new().await;
    let names: Vec<String> = (0..8).map(|n| format!("process-{n}")).collect();
    let mut all: Vec<_> = names
        .iter()
        .map(|name| world.start("many_payments", name))
        .collect();
    for process in &mut all {
        process.hear("ready").await;
    }
    for process in &mut all {
        process.go().await;
    }
    // One after the other, while all of them go on: the last one asked has had the most time, so
    // a process that starves would have to be overtaken by all the others many times.
    for process in &mut all {
        for _ in 0..EACH {
            process.hear("paid").await;
        }
    }
    for process in &mut all {
        process.go().await;
    }
    let mut paid = Vec::new();
    for process in &mut all {
        assert!(process.end().await.success());
        let trouble: Vec<_> = process
            .told
            .iter()
            .filter(|t| t.starts_with("trouble"))
            .collect();
        assert!(trouble.is_empty(), "{trouble:?}");
        paid.push(
            process
                .told
                .iter()
                .filter(|told| told.starts_with("paid"))
                .count(),
        );
    }
    let (least, most) = (*paid.iter().min().unwrap(), *paid.iter().max().unwrap());
    assert!(least * 10 >= most, "some starve: {paid:?}");
    let ledger = world.server.ledger();
    let total: usize = paid.iter().sum();
    assert_eq!(
        (keys(&ledger).len(), ledger.effects().len()),
        (total, total)
    );
    assert!(ledger.duplicates().is_empty());
}

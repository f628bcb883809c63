//! Runtimes that are shut down at any moment, with many operations in flight on one SQLite file.

use samekey::platform::native::HttpTransport;
use samekey::{Client, Policy, SqliteJournal};
use samekey_mock::{Fault, Ledger, Mock};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// Operations that every start of the program adds.
const CROWD: u64 = 8;
/// Starts that are cut short.
const STORMS: u64 = 8;
/// Longer than anything here can take; only a test that hangs gets to see it.
const LIMIT: Duration = Duration::from_secs(120);

/// What a program calls an action of its own.
type Naming = fn(action: u64, start: u64) -> String;

/// A server that loses answers, on a runtime of its own, and a program that is started again and
/// again.
struct Sea {
    runtime: Runtime,
    server: Mock,
    folder: TempDir,
    naming: Naming,
    /// The actions that somebody was told the end of.
    done: Arc<Mutex<BTreeSet<u64>>>,
    dice: u64,
}

impl Sea {
    fn new(seed: u64, naming: Naming) -> Sea {
        let runtime = Runtime::new().unwrap();
        let builder = Mock::builder().seed(seed);
        let builder = builder
            .fault(Fault::DropAfterCommit.rate(0.2))
            .fault(Fault::DropBeforeCommit.rate(0.1));
        let server = runtime.block_on(builder.start()).unwrap();
        Sea {
            runtime,
            server,
            folder: TempDir::new().unwrap(),
            naming,
            done: Arc::default(),
            dice: seed,
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005);
        self.dice = self.dice.wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % end
    }

    fn client(&self) -> Client {
        let policy = Policy::new()
            .max_attempts(12)
            .base(Duration::from_millis(20))
            .floor(Duration::from_millis(5))
            .cap(Duration::from_millis(200));
        let journal = SqliteJournal::open(self.folder.path().join("j")).unwrap();
        let http = HttpTransport::builder().no_proxy().build().unwrap();
        let builder = Client::builder("storm").policy(policy);
        builder.journal(journal).transport(http).build().unwrap()
    }

    /// Starts the program: every action that nobody was told the end of, and some new ones.
    fn start(&self, program: &Runtime, start: u64, actions: u64) -> JoinSet<()> {
        let _inside = program.enter();
        let (client, mut tasks) = (self.client(), JoinSet::new());
        for action in 0..actions {
            if self.done.lock().unwrap().contains(&action) {
                continue;
            }
            let (client, done) = (client.clone(), Arc::clone(&self.done));
            let (intent, url) = (
                (self.naming)(action, start),
                format!("{}/payments", self.server.url()),
            );
            tasks.spawn(async move {
                let amount = json!({ "amount": 1000 + action });
                if let Ok(outcome) = client.post(&intent, &url, &amount).await {
                    assert!(outcome.is_success());
                    done.lock().unwrap().insert(action);
                }
            });
        }
        tasks
    }

    /// Shuts the program down once so many more requests have come.
    fn storm(&mut self, start: u64) {
        let program = Runtime::new().unwrap();
        let before = self.server.ledger().requests().len();
        let tasks = self.start(&program, start, CROWD * (start + 1));
        let more = usize::try_from(self.below(CROWD)).unwrap();
        let came = self
            .server
            .wait_for(|ledger| ledger.requests().len() >= before + more);
        self.runtime
            .block_on(async { tokio::time::timeout(LIMIT, came).await })
            .expect("the requests never came");
        // What is in flight is dropped by the runtime or, before it, by whoever waits for it.
        if start.is_multiple_of(2) {
            drop(tasks);
        } else {
            std::mem::forget(tasks);
        }
        match start % 3 {
            0 => drop(program),
            1 => program.shutdown_background(),
            _ => program.shutdown_timeout(Duration::from_secs(1)),
        }
    }

    /// In calm weather everything comes to its end.
    fn drain(&self) -> Ledger {
        self.server.clear_faults();
        let actions = CROWD * STORMS;
        for start in STORMS..STORMS + 10 {
            let program = Runtime::new().unwrap();
            let tasks = self.start(&program, start, actions);
            program
                .block_on(async { tokio::time::timeout(LIMIT, tasks.join_all()).await })
                .expect("it never comes to an end");
            if self.done.lock().unwrap().len() as u64 == actions {
                let left = program.block_on(async { self.client().unfinished().await });
                assert_eq!(left.unwrap().len(), 0, "something is left open");
                return self.server.ledger();
            }
        }
        panic!("only {:?} came to an end", self.done.lock().unwrap());
    }
}

/// What the server saw, against one key and one effect for each action.
fn judge(ledger: &Ledger) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut keys: BTreeMap<&str, BTreeSet<_>> = BTreeMap::new();
    for request in ledger.requests() {
        let of_body = keys.entry(&request.body_sha256).or_default();
        of_body.insert(request.key.as_deref());
    }
    wrong.extend(
        keys.values()
            .filter(|keys| keys.len() > 1)
            .map(|keys| format!("two keys: {keys:?}")),
    );
    for action in 0..CROWD * STORMS {
        let amount = i64::try_from(1000 + action).unwrap();
        let effects = ledger
            .effects()
            .iter()
            .filter(|effect| effect.amount == amount);
        match effects.count() {
            1 => {}
            other => wrong.push(format!("action {action} has {other} effects")),
        }
    }
    wrong
}

fn weather(seed: u64, naming: Naming) -> (Sea, Ledger) {
    let mut sea = Sea::new(seed, naming);
    (0..STORMS).for_each(|start| sea.storm(start));
    let ledger = sea.drain();
    (sea, ledger)
}

#[test]
fn i19_runtimes_shut_down_in_the_middle_leave_one_key_and_one_effect() {
    for seed in 1..=3 {
        let (_sea, ledger) = weather(seed, |action, _| format!("invoice/{action}/pay"));
        let requests = ledger.requests().len();
        println!(
            "seed {seed}: {requests} requests, {} effects",
            ledger.effects().len()
        );
        let actions = usize::try_from(CROWD * STORMS).unwrap();
        assert!(
            requests > actions,
            "seed {seed}: no attempt was ever cut off"
        );
        assert_eq!(judge(&ledger), Vec::<String>::new(), "seed {seed}");
    }
}

/// The twin: a program that names its actions anew with every start pays twice, and that is seen.
#[test]
fn a_program_that_forgets_its_names_in_a_storm_is_noticed() {
    let mut sea = Sea::new(1, |action, start| format!("invoice/{action}/pay/{start}"));
    (0..STORMS).for_each(|start| sea.storm(start));
    sea.server.clear_faults();
    // Its own journal is full of what it forgot, so it is not asked whether anything is left.
    let program = Runtime::new().unwrap();
    let tasks = sea.start(&program, STORMS, CROWD * STORMS);
    program
        .block_on(async { tokio::time::timeout(LIMIT, tasks.join_all()).await })
        .expect("it never comes to an end");
    let wrong = judge(&sea.server.ledger());
    assert!(
        wrong.iter().any(|what| what.starts_with("two keys")),
        "{wrong:?}"
    );
    assert!(
        wrong.iter().any(|what| what.ends_with("2 effects")),
        "{wrong:?}"
    );
}

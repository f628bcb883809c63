//! `kill -9` at random moments, eight senders on one journal; then everything is resumed.
//!
//! The judge reads the server's ledger and knows nothing of samekey: one key and one effect for
//! each intent. The twin at the end, a client that mints a key for each attempt, must fail it.
//!
//! `ROUNDS` sets the number of kills (24 unless given, 200 for the full size), `SEED` the moments.
#![cfg(unix)]

use crate::support::{Desk, PATIENCE, Ran, finish};
use samekey::Phase;
use samekey::journal::{Journal, Query, SqliteJournal};
use samekey_mock::{Fault, Ledger, Mock};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Child;

const SENDERS: usize = 8;
const FULL: usize = 200;
/// With three answers in ten lost, six attempts in a row fail once in a thousand times.
const ENDURE: [&str; 2] = ["--max-attempts", "20"];
/// What a kill may find.
const PHASES: [&str; 5] = ["before", "ready", "waiting", "sending", "ended"];

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} must be a number")),
        Err(_) => default,
    }
}

/// Luck that can be had again.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

async fn unruly_server(seed: u64) -> Mock {
    Mock::builder()
        .seed(seed)
        .delay(50, 500)
        .fault(Fault::DropAfterCommit.rate(0.3))
        .start()
        .await
        .unwrap()
}

/// What a ledger says about each intent.
#[derive(Debug, Default)]
struct Judged {
    keys: BTreeSet<String>,
    effects: usize,
}

/// The intent travels in the query, where only the judge looks for it.
fn judge(ledger: &Ledger) -> BTreeMap<String, Judged> {
    let mut judged: BTreeMap<String, Judged> = BTreeMap::new();
    for request in ledger.requests() {
        let intent = request.path.split("intent=").nth(1).unwrap().to_owned();
        let of = judged.entry(intent).or_default();
        of.keys.extend(request.key.clone());
    }
    for of in judged.values_mut() {
        of.effects = of.keys.iter().map(|key| ledger.effects_of(key)).sum();
    }
    judged
}

fn guilty(judged: &BTreeMap<String, Judged>) -> Vec<&String> {
    let bad = |of: &Judged| of.keys.len() != 1 || of.effects != 1;
    judged
        .iter()
        .filter(|(_, of)| bad(of))
        .map(|(intent, _)| intent)
        .collect()
}

struct Scene {
    desk: Desk,
    url: String,
    rounds: usize,
    kills: AtomicUsize,
    begun: AtomicUsize,
}

impl Scene {
    fn args(&self, intent: &str) -> Vec<String> {
        let url = format!("{}/orders?intent={intent}", self.url);
        let args = ["send", "POST", &url, "--json", "{}", "--intent", intent];
        let args = args.into_iter().chain(ENDURE);
        args.map(str::to_owned).collect()
    }

    fn spawn(&self, intent: &str) -> Child {
        let args = self.args(intent);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.desk.command(&args).spawn().unwrap()
    }

    async fn send(&self, intent: &str) -> Ran {
        let args = self.args(intent);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        finish(self.desk.command(&args)).await
    }

    /// What the journal knows of an intent.
    async fn phase(&self, intent: &str) -> &'static str {
        let Ok(journal) = SqliteJournal::open_read_only(self.desk.journal()) else {
            return "before";
        };
        let listing = journal.list(Query::default()).await.unwrap();
        assert!(listing.damaged.is_empty());
        let mut entries = listing.entries.into_iter();
        let entry = entries.find(|entry| *entry.frozen.intent == *intent);
        match entry.map(|entry| entry.progress.phase) {
            None => "before",
            Some(Phase::Ready) => "ready",
            Some(Phase::Sending) => "sending",
            Some(Phase::Waiting) => "waiting",
            Some(Phase::Succeeded) => "ended",
            Some(other) => panic!("{intent}: {other}"),
        }
    }
}

/// Waits for a moment of this kind; `false` if the process ended before it came.
async fn moment(child: &mut Child, kind: u64, dice: &mut Dice) -> bool {
    let (line, within) = match kind {
        0 => ("", 120),
        1 => ("reference ", 400),
        2 => ("; next in ", 150),
        3 => ("attempt 2 leaves", 250),
        _ => ("succeeded ", 1),
    };
    if !line.is_empty() {
        let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        loop {
            match stderr.next_line().await {
                Ok(Some(said)) if said.contains(line) => break,
                Ok(Some(_)) => {}
                _ => return false,
            }
        }
        // Nobody reads on; the pipe must not break, for that would end the process in its own way.
        tokio::spawn(async move { while let Ok(Some(_)) = stderr.next_line().await {} });
    }
    tokio::time::sleep(Duration::from_millis(dice.below(within))).await;
    true
}

/// One of the senders: begins intents and kills their processes, until there were enough kills.
async fn sender(scene: Arc<Scene>, seed: u64) -> Vec<(String, Option<&'static str>)> {
    let mut dice = Dice(seed);
    let mut told = Vec::new();
    while scene.kills.load(Ordering::SeqCst) < scene.rounds {
        let intent = format!("order-{}", scene.begun.fetch_add(1, Ordering::SeqCst));
        let mut child = scene.spawn(&intent);
        let kind = dice.below(5);
        let came = moment(&mut child, kind, &mut dice).await;
        if came {
            let _ = child.start_kill();
        }
        let status = child.wait().await.unwrap();
        let killed = status.signal() == Some(9);
        assert!(killed || status.success(), "{intent}: {status}");
        let phase = match killed {
            true => Some(scene.phase(&intent).await),
            false => None,
        };
        scene.kills.fetch_add(usize::from(killed), Ordering::SeqCst);
        told.push((intent, phase));
    }
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_moment_every_intent_has_one_key_and_one_effect() {
    let rounds = usize::try_from(number("ROUNDS", 24)).unwrap();
    let seed = number("SEED", 7);
    let mock = unruly_server(seed).await;
    let scene = Arc::new(Scene {
        desk: Desk::new(),
        url: mock.url(),
        rounds,
        kills: AtomicUsize::new(0),
        begun: AtomicUsize::new(0),
    });
    let senders: Vec<_> = (0..SENDERS)
        .map(|i| tokio::spawn(sender(Arc::clone(&scene), seed * 1000 + i as u64)))
        .collect();
    let mut told = Vec::new();
    for sender in senders {
        told.extend(
            tokio::time::timeout(PATIENCE * 4, sender)
                .await
                .unwrap()
                .unwrap(),
        );
    }
    let mut phases: BTreeMap<&str, usize> = PHASES.map(|phase| (phase, 0)).into();
    for phase in told.iter().filter_map(|(_, phase)| *phase) {
        *phases.entry(phase).or_default() += 1;
    }
    let kills: usize = phases.values().sum();
    println!("figure kills {kills} kills");
    for (phase, count) in &phases {
        println!("figure kills_{phase} {count} kills");
    }
    assert!(kills >= rounds);
    if rounds >= FULL {
        assert!(phases.values().all(|count| *count >= 10), "{phases:?}");
    }
    resume_everything(&scene, &told).await;
    let ledger = mock.ledger();
    let judged = judge(&ledger);
    println!("figure kills_intents {} intents", judged.len());
    assert_eq!(judged.len(), told.len(), "every intent reached the server");
    assert_eq!(guilty(&judged), Vec::<&String>::new(), "{judged:#?}");
    assert_eq!(
        ledger.effects().len(),
        told.len(),
        "no key twice, and no effect of a stranger"
    );
    let list = scene
        .desk
        .run(&["list", "--state", "unfinished"])
        .await
        .expect(0);
    assert_eq!(list.stdout, "", "nothing is open");
    scene.desk.run(&["doctor"]).await.expect(0);
}

/// What a user does after a power cut: resume, and ask again for what is not even in the journal.
async fn resume_everything(scene: &Scene, told: &[(String, Option<&'static str>)]) {
    let resume = [&["resume", "--all", "--at-once", "8"], &ENDURE[..]].concat();
    let ran = scene.desk.run(&resume).await.expect(0);
    let open = told.iter().filter(|(_, phase)| phase.is_some()).count();
    println!(
        "{open} killed; {}",
        ran.stderr.lines().last().unwrap_or_default()
    );
    for (intent, phase) in told {
        // Asked again after a kill, an intent is joined or answered, and never sent under a new key.
        if phase.is_some() {
            scene.send(intent).await.expect(0);
        }
    }
}

/// What most clients do: a key for each attempt.
async fn naive(address: &str, intent: &str, keys: &mut Dice) {
    for _ in 0..6 {
        let key = format!(
            "{:016x}-{:016x}",
            keys.below(u64::MAX),
            keys.below(u64::MAX)
        );
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "POST /orders?intent={intent} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-type: application/json\r\nidempotency-key: {key}\r\ncontent-length: 2\r\n\r\n{{}}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        if answer.starts_with(b"HTTP/1.1 201") {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_judge_convicts_a_client_that_mints_a_key_for_each_attempt() {
    let mock = Mock::builder()
        .seed(7)
        .fault(Fault::DropAfterCommit.rate(0.3))
        .start()
        .await
        .unwrap();
    let address = mock.address().to_string();
    let mut keys = Dice(1);
    for i in 0..40 {
        naive(&address, &format!("order-{i}"), &mut keys).await;
    }
    let judged = judge(&mock.ledger());
    assert_eq!(judged.len(), 40);
    let guilty = guilty(&judged);
    println!("figure naive_duplicates {} intents", guilty.len());
    assert!(
        !guilty.is_empty(),
        "the judge must see what samekey prevents"
    );
    assert!(judged.values().any(|of| of.effects > 1));
}

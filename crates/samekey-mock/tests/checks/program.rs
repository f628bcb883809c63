//! The mock as a program: its options, two of them on one file, and what a kill leaves behind.

use crate::client::{Ask, key};
use crate::proof::{Found, same};
use samekey_mock::Naughty;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

struct Program {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
    at: SocketAddr,
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_samekey-mock"));
    command
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

impl Program {
    async fn start(args: &[&str]) -> Self {
        let mut child = command(&[&["--port", "0"], args].concat()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = output.next_line().await.unwrap().expect("a banner");
        let at = first
            .rsplit('/')
            .next()
            .unwrap()
            .parse()
            .expect("the address in the first line");
        Self { child, output, at }
    }

    async fn on_file(file: &Path, args: &[&str]) -> Self {
        Self::start(&[&["--file", file.to_str().unwrap()], args].concat()).await
    }

    async fn ledger(&self) -> Value {
        Ask::get(self.at, "/_mock/ledger").send().await.json()
    }

    /// Asks until it is so; every question is a round trip, so nothing spins without rest.
    async fn until(&self, holds: impl Fn(&Value) -> bool) {
        while !holds(&self.ledger().await) {}
    }

    /// SIGKILL, and nothing of it is left.
    async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

fn effects_of(ledger: &Value, key: &str) -> usize {
    let rows = ledger["effects"].as_array().unwrap();
    rows.iter().filter(|e| e["key"] == key).count()
}

fn count(ledger: &Value, event: &str) -> usize {
    let rows = ledger["requests"].as_array().unwrap();
    let had = |r: &&Value| r["events"].as_array().unwrap().iter().any(|e| e == event);
    rows.iter().filter(had).count()
}

#[tokio::test]
async fn the_port_is_printed_and_written_for_scripts_and_a_signal_stops_it_gently() {
    let folder = tempfile::tempdir().unwrap();
    let port_file = folder.path().join("port.txt");
    let mut program = Program::start(&["--port-file", port_file.to_str().unwrap()]).await;
    assert!(program.at.ip().is_loopback());
    assert_eq!(Ask::order(program.at, &key(1)).send().await.status, 201);
    let mut banner = String::new();
    while let Some(line) = program.output.next_line().await.unwrap() {
        banner.push_str(&line);
        if line.contains("audit") {
            break;
        }
    }
    assert!(banner.contains("/_mock/ledger") && banner.contains("every state-changing route"));
    let pid = program.child.id().unwrap().to_string();
    std::process::Command::new("kill")
        .args(["-TERM", &pid])
        .status()
        .unwrap();
    assert!(program.child.wait().await.unwrap().success());
    let port = std::fs::read_to_string(port_file).unwrap();
    assert_eq!(port.trim(), program.at.port().to_string());
    let last = program.output.next_line().await.unwrap().unwrap();
    assert!(last.starts_with("stopping; 1 effects"), "{last}");
}

#[tokio::test]
async fn the_options_do_what_the_help_says() {
    let help = command(&["--help"]).output().await.unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for word in [
        "Examples:",
        "--fault-rate",
        "--let-strangers-in",
        "drop-after-commit",
        "--instant",
    ] {
        assert!(help.contains(word), "{word}");
    }
    let list = command(&["--list"]).output().await.unwrap();
    assert!(
        String::from_utf8(list.stdout)
            .unwrap()
            .contains("no-body-check")
    );
    let wrong = command(&["--fault", "nonsense"]).output().await.unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        String::from_utf8(wrong.stderr)
            .unwrap()
            .contains("drop-after-commit")
    );
    let args = [
        "--profile",
        "stripe",
        "--fault",
        "status:418*1",
        "--naughty",
        "uncovered-route",
    ];
    let mut program = Program::start(&args).await;
    let post = Ask::order(program.at, &key(1)).path("/payments").json("{}");
    assert_eq!(
        (post.send().await.status, post.send().await.status),
        (418, 200)
    );
    let mut warned = false;
    while let Some(line) = program.output.next_line().await.unwrap() {
        warned |= line.contains("WARNING") && line.contains("POST /refunds");
        if warned {
            break;
        }
    }
    assert!(warned, "the audit at start names the uncovered route");
}

#[tokio::test]
async fn a_port_that_is_taken_is_said_plainly() {
    let program = Program::start(&[]).await;
    let port = program.at.port().to_string();
    let mut second = command(&["--port", &port]).spawn().unwrap();
    assert!(!second.wait().await.unwrap().success());
    let mut why = String::new();
    second
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut why)
        .await
        .unwrap();
    assert!(why.contains("cannot listen on 127.0.0.1"), "{why}");
}

#[tokio::test]
async fn m05_two_processes_on_one_file_have_one_effect() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let nodes = [
        Program::on_file(&file, &[]).await,
        Program::on_file(&file, &[]).await,
    ];
    let asks = (0..64).map(|n| Ask::order(nodes[n % 2].at, &key(1)));
    let sent: Vec<_> = asks
        .map(|ask| tokio::spawn(async move { ask.send().await }))
        .collect();
    let mut bodies = BTreeSet::new();
    for reply in sent {
        let reply = reply.await.unwrap();
        assert_eq!(reply.status, 201);
        bodies.insert(reply.body);
    }
    assert_eq!(bodies.len(), 1);
    for node in &nodes {
        assert_eq!(effects_of(&node.ledger().await, &key(1)), 1);
    }
}

/// A worker is killed in the middle of its work; after the restart the retry finishes it.
async fn killed_in_the_middle(file: &Path, habit: Option<Naughty>) -> Found {
    let habit: Vec<&str> = habit.iter().flat_map(|n| ["--naughty", n.name()]).collect();
    let options = [&["--lock", "60", "--reclaim"], habit.as_slice()].concat();
    let program = Program::on_file(file, &options).await;
    let slow = Ask::order(program.at, &key(1)).fault("slow-work:3600000");
    let cut = tokio::spawn(async move { slow.try_send().await });
    program.until(|ledger| count(ledger, "held") == 1).await;
    program.kill().await;
    same(cut.await.unwrap(), None, "the answer of a killed server")?;
    let program = Program::on_file(file, &options).await;
    let ask = Ask::order(program.at, &key(1));
    same(
        ask.send().await.status,
        409,
        "while the dead worker's lock is fresh",
    )?;
    Ask::new(program.at, "POST", "/_mock/clock")
        .json(r#"{"seconds":61}"#)
        .send()
        .await;
    same(ask.send().await.status, 201, "after it is stale")?;
    same(effects_of(&program.ledger().await, &key(1)), 1, "effects")
}

#[tokio::test]
async fn m13_m18_sigkill_in_the_middle_of_the_work_leaves_one_effect() {
    let folder = tempfile::tempdir().unwrap();
    killed_in_the_middle(&folder.path().join("honest.db"), None)
        .await
        .unwrap();
    let naughty = Some(Naughty::EffectWithoutAnswer);
    let found = killed_in_the_middle(&folder.path().join("naughty.db"), naughty).await;
    assert_eq!(found, Err("effects: 2 is not 1".into()));
}

const PER_ROUND: u32 = 40;

/// Sends payments and kills the server after so many answers, whatever the others are doing then.
async fn killed_after(file: &Path, round: u32, answers: u32) -> BTreeSet<String> {
    let seed = round.to_string();
    let faults = [
        "--fault",
        "slow-work:2%20",
        "--fault",
        "drop-after-commit%20",
        "--seed",
        &seed,
    ];
    let program = Program::on_file(file, &faults).await;
    let at = program.at;
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let mut workers = tokio::task::JoinSet::new();
    for n in 0..PER_ROUND {
        let (tell, key) = (tell.clone(), key(round * PER_ROUND + n));
        workers.spawn(async move {
            // A lost answer is asked for again, under the same key, as a client would.
            for _ in 0..3 {
                if payment(at, &key).try_once().await == Some(201) {
                    let _ = tell.send(key);
                    return;
                }
            }
        });
    }
    drop(tell);
    let mut answered = BTreeSet::new();
    for _ in 0..=answers {
        answered.extend(told.recv().await);
    }
    program.kill().await;
    while workers.join_next().await.is_some() {}
    while let Some(key) = told.recv().await {
        answered.insert(key);
    }
    answered
}

#[tokio::test]
async fn m13_m18_m29_sigkill_at_any_moment_keeps_every_answered_key_at_one_effect() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let mut answered = BTreeSet::new();
    for round in 0..12 {
        answered.extend(killed_after(&file, round, round * 3).await);
    }
    let all = || (0..12 * PER_ROUND).map(key);
    let program = Program::on_file(&file, &[]).await;
    Ask::new(program.at, "POST", "/_mock/clock")
        .json(r#"{"seconds":3600}"#)
        .send()
        .await;
    Ask::new(program.at, "POST", "/_mock/sweep").send().await;
    let ledger = program.ledger().await;
    for key in all() {
        let effects = effects_of(&ledger, &key);
        let wanted = if answered.contains(&key) {
            1..=1
        } else {
            0..=1
        };
        assert!(wanted.contains(&effects), "{key} has {effects} effects");
    }
    assert!(answered.len() > 50, "{} answers", answered.len());
    let flying = |k: &&Value| k["state"] == "in-flight" || k["state"] == "review";
    assert_eq!(
        ledger["keys"]
            .as_array()
            .unwrap()
            .iter()
            .filter(flying)
            .count(),
        0
    );
    // What was left unanswered can be asked again: then it is there once, too.
    for key in all().filter(|key| !answered.contains(key)) {
        assert_eq!(payment(program.at, &key).send().await.status, 201);
    }
    let ledger = program.ledger().await;
    assert!(all().all(|key| effects_of(&ledger, &key) == 1));
}

fn payment(at: SocketAddr, key: &str) -> Ask {
    Ask::order(at, key)
        .path("/payments")
        .json(r#"{"amount":5}"#)
}

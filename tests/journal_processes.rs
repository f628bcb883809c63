//! Several processes on one journal, killed, starved of disk or betrayed by it.
//!
//! The test binary starts itself again as a child: `child` does nothing unless it is told its part
//! by the environment. Children say what they did on lines that begin with `@`.
#![cfg(all(unix, feature = "sqlite", feature = "conformance"))]
#![expect(clippy::unwrap_used, reason = "clippy knows tests, not their helpers")]

mod journal_processes {
    pub(crate) mod children;
    mod disks;
    mod syncs;
}

use samekey::entry::{Entry, Phase};
use samekey::journal::conformance::{sample, step};
use samekey::journal::{Begun, Flush, Journal, JournalError, Query, Select, SqliteJournal};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const PART: &str = "SAMEKEY_TEST_PART";

/// A process of its own on a journal.
pub(crate) struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    stdin: Option<ChildStdin>,
}

impl Process {
    pub(crate) fn start(part: &str, path: &Path) -> Process {
        let test = std::env::current_exe().unwrap();
        Process::run(Command::new(test), part, path)
    }

    /// The same under `strace` with these options; `None`, and loud, where there is none.
    pub(crate) fn traced(options: &[&str], part: &str, path: &Path) -> Option<Process> {
        if Command::new("strace").arg("-V").output().is_err() {
            eprintln!("SKIPPED: no strace here, so nobody counts or breaks syncs");
            return None;
        }
        let mut command = Command::new("strace");
        command.args(["-f", "-qq"]).args(options);
        command.arg(std::env::current_exe().unwrap());
        Some(Process::run(command, part, path))
    }

    fn run(mut command: Command, part: &str, path: &Path) -> Process {
        let mut child = command
            .args(["child", "--exact", "--nocapture", "--test-threads=1"])
            .env(PART, format!("{part}\n{}", path.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Process {
            lines: BufReader::new(child.stdout.take().unwrap()).lines(),
            stdin: child.stdin.take(),
            child,
        }
    }

    /// The next thing it says; `None` when it is gone.
    pub(crate) fn hear(&mut self) -> Option<String> {
        self.lines.by_ref().map_while(Result::ok).find_map(|line| {
            // The harness prints the test's name before the first line, without a line's end.
            line.split_once('@').map(|(_, said)| said.to_owned())
        })
    }

    pub(crate) fn hear_all(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.hear()).collect()
    }

    /// Lets a child go on that waits.
    pub(crate) fn release(&mut self) {
        self.stdin.take();
    }

    /// As hard as it can be, and it is gone when this returns.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn finish(mut self) {
        self.release();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn say(text: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "@{text}").unwrap();
    out.flush().unwrap();
}

/// Until the parent lets go, or is gone.
pub(crate) fn wait_for_release() {
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
}

#[tokio::test]
async fn child() {
    let Ok(told) = std::env::var(PART) else {
        return;
    };
    let (part, path) = told.split_once('\n').unwrap();
    journal_processes::children::play(part, Path::new(path)).await;
}

pub(crate) async fn begin(journal: &SqliteJournal, intent: &str) -> Result<Entry, JournalError> {
    let mut entry = sample(journal.owner(), "ann", intent, 0);
    match journal.begin(entry.clone()).await? {
        Begun::Created(receipt) => entry.slot = receipt.slot(),
        Begun::Exists(found) => entry = *found,
        Begun::Tombstone(_) => panic!("{intent} was reaped"),
    }
    Ok(entry)
}

pub(crate) async fn finish(
    journal: &SqliteJournal,
    entry: &mut Entry,
    flush: Flush,
) -> Result<(), JournalError> {
    let mut write = step(entry, Phase::Succeeded);
    write.flush = flush;
    entry.progress = write.progress.clone();
    journal.record(write).await.map(|_| ())
}

pub(crate) async fn intents(journal: &SqliteJournal, select: Select) -> Vec<String> {
    let query = Query {
        select,
        ..Query::default()
    };
    let listing = journal.list(query).await.unwrap();
    assert!(listing.damaged.is_empty(), "{:?}", listing.damaged);
    let intents = listing.entries.iter().map(|e| e.frozen.intent.to_string());
    intents.collect()
}

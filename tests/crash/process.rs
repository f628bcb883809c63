//! This test binary again, as a child process that tells what it does on standard output.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Longer than anything here can take on a busy machine: a test that hangs must end.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

/// Marks the lines that a child means for us; the test harness writes others.
const MARK: &str = "@ ";

/// Says something to the parent. In a line of its own, whatever the harness has begun to write.
pub(crate) fn tell(what: &str) {
    println!("\n{MARK}{what}");
}

/// For children: says that everything is prepared, and waits for the word to go.
pub(crate) fn ready() {
    tell("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// A running child, killed at the latest when this is dropped.
pub(crate) struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    stdin: ChildStdin,
    pub(crate) told: Vec<String>,
}

impl Process {
    /// Runs the test `name`, which must be an ignored one, with these variables.
    pub(crate) fn start(name: &str, variables: &[(&str, &str)]) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                name,
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .envs(variables.iter().copied())
            .env("NO_PROXY", "127.0.0.1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (stdout, stdin) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        let lines = BufReader::new(stdout).lines();
        Process {
            child,
            lines,
            stdin,
            told: Vec::new(),
        }
    }

    /// What the child tells next; `None` when it has ended.
    pub(crate) async fn next(&mut self) -> Option<String> {
        let told = tokio::time::timeout(LIMIT, async {
            loop {
                let line = self.lines.next_line().await.unwrap()?;
                if let Some((_, told)) = line.split_once(MARK) {
                    return Some(told.to_owned());
                }
            }
        });
        let told = told.await.expect("the child is silent for too long")?;
        self.told.push(told.clone());
        Some(told)
    }

    /// Waits until the child tells something that begins like this, and returns the rest.
    pub(crate) async fn hear(&mut self, beginning: &str) -> String {
        while let Some(told) = self.next().await {
            if let Some(rest) = told.strip_prefix(beginning) {
                return rest.trim().to_owned();
            }
        }
        panic!(
            "the child ended without saying {beginning:?}: {:?}",
            self.told
        );
    }

    /// Gives the word to go.
    pub(crate) async fn go(&mut self) {
        self.stdin.write_all(b"\n").await.unwrap();
    }

    /// SIGKILL: nothing in the process is asked, flushed or closed.
    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Waits until the child has ended by itself.
    pub(crate) async fn end(&mut self) -> ExitStatus {
        while self.next().await.is_some() {}
        let ended = tokio::time::timeout(LIMIT, self.child.wait()).await;
        ended.expect("the child does not end").unwrap()
    }
}

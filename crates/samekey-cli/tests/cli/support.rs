//! A desk to work at: a folder of its own, the program, and servers that behave as told.

use samekey_mock::{Fault, Mock};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

/// Longer than anything here takes: a run that hangs fails instead of blocking the rest.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_samekey");

/// Where one test works.
pub(crate) struct Desk {
    folder: TempDir,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The one document of `--format json`.
    pub(crate) fn document(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Ran {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// The reference that was printed.
    pub(crate) fn reference(&self) -> String {
        let lines = self.stderr.lines().map(str::trim);
        let mut said = lines.filter_map(|line| line.strip_prefix("reference "));
        said.next()
            .unwrap_or_else(|| panic!("no reference: {self:#?}"))
            .to_owned()
    }
}

impl Desk {
    pub(crate) fn new() -> Desk {
        Desk {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.path(".local/share/samekey/samekey.samekey")
    }

    /// The program with nothing of the user's own around it.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        self.prepare(&mut command);
        command.args(args);
        command
    }

    pub(crate) fn prepare(&self, command: &mut Command) {
        let folder = self.folder.path();
        for (name, _) in std::env::vars() {
            if name.starts_with("SAMEKEY_") || name.starts_with("XDG_") || name == "NO_COLOR" {
                command.env_remove(name);
            }
        }
        command
            .env("HOME", folder)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
    }

    pub(crate) fn configure(&self, text: &str) {
        let path = self.path(".config/samekey/config.toml");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) async fn run(&self, args: &[&str]) -> Ran {
        finish(self.command(args)).await
    }

    pub(crate) async fn run_with(&self, args: &[&str], variables: &[(&str, &str)]) -> Ran {
        let mut command = self.command(args);
        command.envs(variables.iter().copied());
        finish(command).await
    }

    /// Sends an order of which the answer gets lost: its outcome is not known.
    pub(crate) async fn leave_open(&self, mock: &Mock, intent: &str) -> String {
        mock.fault(Fault::DropAfterCommit.times(1));
        let url = format!("{}/orders", mock.url());
        let args = ["send", "POST", &url, "--json", "{}", "--intent", intent];
        let ran = self
            .run(&[&args[..], &["--max-attempts", "1"]].concat())
            .await;
        ran.expect(4).reference()
    }

    /// Whether any file of the journal holds these bytes.
    pub(crate) fn holds(&self, needle: &str) -> bool {
        let journal = self.journal();
        let files = std::fs::read_dir(journal.parent().unwrap()).unwrap();
        files.map(|file| file.unwrap().path()).any(|path| {
            let bytes = std::fs::read(path).unwrap_or_default();
            let mut parts = bytes.windows(needle.len());
            parts.any(|part| part == needle.as_bytes())
        })
    }
}

pub(crate) async fn finish(mut command: Command) -> Ran {
    let child = command.spawn().unwrap();
    finish_child(child).await
}

pub(crate) async fn finish_child(child: Child) -> Ran {
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output())
        .await
        .expect("the program hangs")
        .unwrap();
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Sends a signal by its name to a process of ours.
pub(crate) async fn signal(child: &Child, name: &str) {
    let pid = child.id().expect("it still runs").to_string();
    let kill = Command::new("kill").args([name, &pid]).status().await;
    assert!(kill.unwrap().success());
}

pub(crate) async fn mock() -> Mock {
    Mock::builder().start().await.unwrap()
}

/// A server that reads requests and answers each as `answer` says; an empty answer hangs up.
pub(crate) async fn scripted(
    mut answer: impl FnMut(usize, &str) -> String + Send + 'static,
) -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let mut number = 0;
        while let Ok((mut stream, _)) = listener.accept().await {
            let Some(request) = read_request(&mut stream).await else {
                continue;
            };
            number += 1;
            let answer = answer(number, &request);
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    (url, server)
}

/// An answer with these header lines, each ended by CR LF.
pub(crate) fn answer(status: u16, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.split("content-length: ").nth(1);
            let length = length.and_then(|rest| rest.split("\r\n").next()?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        match stream.read(&mut part).await {
            Ok(0) | Err(_) => return None,
            Ok(n) => bytes.extend_from_slice(&part[..n]),
        }
    }
}

//! The real mock as a process: started, killed, and started again on the same file and port.

use super::tools::{Process, Res, because, sibling};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Everything between a client and a server that goes wrong by itself now and then, in percent.
pub(super) const FAULTS: &[&str] = &[
    "drop-before-commit%4",
    "drop-after-commit%7",
    "reset-before-head%3",
    "cut-head:1%2",
    "cut-head:37%2",
    "cut-body:0%2",
    "cut-body:11%3",
    "delay:1..60%25",
    "slow-work:80%8",
    "delay-answer:60%8",
    "delay-answer:700%2",
    "in-flight%2",
    "status:503%3",
    "status-after-commit:502%2",
    "handler-error%2",
    "duplicate%3",
];

/// A running mock.
#[derive(Debug)]
pub(super) struct Server {
    program: PathBuf,
    file: PathBuf,
    address: SocketAddr,
    process: Process,
}

impl Server {
    /// Starts it on a free port, which it keeps from then on.
    pub(super) fn start(file: &Path, faults: &[&str], seed: u64) -> Res<Server> {
        let program = sibling("samekey-mock")?;
        let (process, address) = launch(&program, file, 0, faults, seed)?;
        Ok(Server {
            program,
            file: file.to_owned(),
            address,
            process,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// `kill -9`, and the same server again.
    pub(super) fn restart(&mut self, faults: &[&str], seed: u64) -> Res<()> {
        self.process.kill();
        let port = self.address.port();
        let (process, address) = launch(&self.program, &self.file, port, faults, seed)?;
        (self.process, self.address) = (process, address);
        Ok(())
    }

    /// Every effect by the amount that names its action, with the moments at which it happened.
    pub(super) fn effects(&self) -> Res<BTreeMap<u64, Vec<u64>>> {
        let ledger = get(self.address, "/_mock/ledger?last=0")?;
        let rows = ledger["effects"].as_array();
        let mut effects: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for row in rows.ok_or("the ledger has no effects")? {
            let amount = row["amount"].as_u64().ok_or("an effect without amount")?;
            let at = row["at"].as_u64().ok_or("an effect without a time")?;
            effects.entry(amount).or_default().push(at);
        }
        Ok(effects)
    }
}

fn launch(
    program: &Path,
    file: &Path,
    port: u16,
    faults: &[&str],
    seed: u64,
) -> Res<(Process, SocketAddr)> {
    let mut command = Command::new(program);
    command
        .arg("--file")
        .arg(file)
        .args(["--port", &port.to_string(), "--seed", &seed.to_string()])
        // A worker that was killed in the middle holds its lock for a second, not for minutes.
        .args(["--lock", "1", "--reclaim"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    for fault in faults {
        command.args(["--fault", fault]);
    }
    let mut process = Process::start(&mut command)?;
    let output = process.child().stdout.take();
    let mut lines = BufReader::new(output.ok_or("the mock has no output")?);
    let mut banner = String::new();
    lines
        .read_line(&mut banner)
        .map_err(because("the mock says nothing"))?;
    // It goes on printing; somebody has to listen.
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    let address = banner.trim().rsplit("http://").next();
    let address = address.and_then(|text| text.parse().ok());
    Ok((
        process,
        address.ok_or(format!("the mock did not start: `{banner}`"))?,
    ))
}

/// The judge's own way to the server: no client of ours is between.
fn get(address: SocketAddr, path: &str) -> Res<serde_json::Value> {
    let failed = "the ledger cannot be read";
    let mut stream = TcpStream::connect(address).map_err(because(failed))?;
    stream
        .set_read_timeout(Some(Duration::from_secs(120)))
        .map_err(because(failed))?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: mock\r\nconnection: close\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .map_err(because(failed))?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(because(failed))?;
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let body = &answer[head.ok_or(failed)? + 4..];
    serde_json::from_slice(body).map_err(because(failed))
}

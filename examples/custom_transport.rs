//! A transport of one's own: plain HTTP/1.1 over a socket of the standard library.
//!
//! ```sh
//! cargo run --example custom_transport
//! ```
//!
//! A transport owes three things. It sends what the [`Permit`] holds and nothing else; it sends
//! once, because retrying is not its business; and it says [`Sent::No`] only when it can prove that
//! no byte of the request left. All the rest (keys, the journal, waiting, doubt) stays with samekey,
//! as the lost answer in this example shows.

use samekey::machine::{Permit, Probe};
use samekey::seam::BoxFuture;
use samekey::transport::Transport;
use samekey::{Client, Failure, FailureKind, Headers, Origin, Response, Sent, SqliteJournal};
use samekey_mock::{Fault, Mock};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Speaks to `http://host:port` and closes the connection after every answer.
struct PlainHttp;

impl Transport for PlainHttp {
    fn send(&self, permit: Permit) -> BoxFuture<'_, Result<Response, Failure>> {
        let request = Request {
            line: permit.method().to_string(),
            url: permit.url().to_owned(),
            headers: lines(permit.headers()),
            body: permit.body().to_vec(),
            timeout: permit.timeout(),
        };
        Box::pin(request.on_a_thread())
    }

    fn probe(&self, probe: Probe) -> BoxFuture<'_, Result<Response, Failure>> {
        let request = Request {
            line: "GET".to_owned(),
            url: probe.url().to_owned(),
            headers: lines(probe.headers()),
            body: Vec::new(),
            timeout: probe.timeout(),
        };
        Box::pin(request.on_a_thread())
    }
}

struct Request {
    line: String,
    url: String,
    headers: String,
    body: Vec<u8>,
    timeout: Duration,
}

fn lines<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    headers
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect()
}

impl Request {
    async fn on_a_thread(self) -> Result<Response, Failure> {
        let work = tokio::task::spawn_blocking(move || self.exchange());
        work.await
            .unwrap_or_else(|_| Err(lost("the sending thread died")))
    }

    fn exchange(self) -> Result<Response, Failure> {
        let not_sent = |kind, why: String| Failure::new(kind, Sent::No, why);
        let origin = Origin::of(&self.url)
            .map_err(|invalid| not_sent(FailureKind::Unsendable, invalid.to_string()))?;
        let origin = origin.to_string();
        let host = origin.strip_prefix("http://").unwrap_or(&origin);
        let path = self.url.strip_prefix(&origin).unwrap_or("/");
        // Up to here and no further it is proven that nothing was sent.
        let mut stream = TcpStream::connect(host)
            .map_err(|why| not_sent(FailureKind::Connect, format!("cannot connect: {why}")))?;
        let head = format!(
            "{} {path} HTTP/1.1\r\nhost: {host}\r\n{}content-length: {}\r\nconnection: close\r\n\r\n",
            self.line,
            self.headers,
            self.body.len(),
        );
        let mut answer = Vec::new();
        stream
            .set_read_timeout(Some(self.timeout))
            .and_then(|()| stream.write_all(head.as_bytes()))
            .and_then(|()| stream.write_all(&self.body))
            .and_then(|()| stream.read_to_end(&mut answer))
            .map_err(|why| lost(&why.to_string()))?;
        read(&answer).ok_or_else(|| lost("the answer is not whole"))
    }
}

/// It may have been sent: the careful word, and the default.
fn lost(why: &str) -> Failure {
    Failure::new(FailureKind::Reset, Sent::Maybe, why)
}

/// A whole answer with a stated length, or nothing.
fn read(answer: &[u8]) -> Option<Response> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = str::from_utf8(&answer[..end]).ok()?;
    let body = &answer[end + 4..];
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let mut headers = Headers::new();
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        headers.push(name, value.trim()).ok()?;
    }
    let length: usize = headers.get("content-length")?.parse().ok()?;
    (length == body.len()).then(|| Response::new(status, headers, body))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let server = Mock::builder()
        .fault(Fault::DropAfterCommit.once())
        .start()
        .await?;
    let folder = tempfile::tempdir()?;
    let client = Client::builder("own-transport")
        .journal(SqliteJournal::open(folder.path().join("journal.samekey"))?)
        .transport(PlainHttp)
        .build()?;

    let url = format!("{}/payments", server.url());
    let outcome = client
        .post("invoice/42/pay", &url, &json!({ "amount": 100 }))
        .await?;
    let ledger = server.ledger();
    let (requests, effects) = (ledger.requests().len(), ledger.effects().len());
    println!(
        "{} after {} attempts under {}, {}; the server saw {requests} requests and acted {effects} time",
        outcome.status(),
        outcome.attempts(),
        outcome.reference(),
        outcome.provenance(),
    );
    if (outcome.status(), requests, effects) != (201, 2, 1) {
        return Err("the first answer was to be lost, and the second to be a replay".into());
    }
    Ok(())
}

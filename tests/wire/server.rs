//! A server that does what a test's script says, one byte at a time, and writes down what it read.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

/// Holds a script up until the test opens it.
#[derive(Clone)]
pub(super) struct Gate(Arc<Semaphore>);

impl Gate {
    pub(super) fn new() -> Gate {
        Gate(Arc::new(Semaphore::new(0)))
    }

    pub(super) fn open(&self) {
        self.0.close();
    }

    pub(super) async fn wait(&self) {
        let _ = self.0.acquire().await;
    }
}

/// What one connection brought.
#[derive(Clone, Default)]
pub(super) struct Record(Arc<Mutex<Vec<u8>>>);

impl Record {
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }

    fn add(&self, bytes: &[u8]) {
        self.0.lock().unwrap().extend_from_slice(bytes);
    }
}

/// One connection, as its script sees it.
pub(super) struct Conn {
    stream: TcpStream,
    record: Record,
    used: usize,
}

impl Conn {
    async fn more(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        match self.stream.read(&mut buffer).await {
            Ok(0) | Err(_) => false,
            Ok(n) => {
                self.record.add(&buffer[..n]);
                true
            }
        }
    }

    fn unused(&self) -> Vec<u8> {
        self.record.bytes()[self.used..].to_vec()
    }

    /// Reads at least `n` bytes that no step has read yet.
    pub(super) async fn read(&mut self, n: usize) -> Vec<u8> {
        while self.unused().len() < n {
            assert!(self.more().await, "the client closed before {n} bytes");
        }
        let bytes = self.unused()[..n].to_vec();
        self.used += n;
        bytes
    }

    /// Reads the head of a request.
    pub(super) async fn read_head(&mut self) -> String {
        let end = loop {
            if let Some(at) = head_end(&self.unused()) {
                break at;
            }
            assert!(self.more().await, "the client closed within the head");
        };
        String::from_utf8(self.read(end).await).unwrap()
    }

    /// Reads a whole request.
    pub(super) async fn read_request(&mut self) -> Request {
        let head = self.read_head().await;
        let body = self.read(content_length(&head)).await;
        Request { head, body }
    }

    /// Reads a whole request, unless the client closes first.
    pub(super) async fn try_read_request(&mut self) -> Option<Request> {
        while self.unused().is_empty() {
            if !self.more().await {
                return None;
            }
        }
        Some(self.read_request().await)
    }

    pub(super) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        // The client may have hung up: that is for the test to judge.
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    /// An answer with a body, after which the connection stays open.
    pub(super) async fn answer(&mut self, status: &str, headers: &str, body: &str) {
        let length = body.len();
        self.write(format!(
            "HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}"
        ))
        .await;
    }

    /// Closes the sending half and reads on.
    pub(super) async fn fin(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// Closes with a reset.
    pub(super) async fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }

    /// Reads until the client closes.
    pub(super) async fn drain(&mut self) {
        while self.more().await {}
    }

    /// The connection itself, for a protocol of its own.
    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }
}

/// A request as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    pub(super) fn header(&self, name: &str) -> Vec<&str> {
        header(&self.head, name)
    }
}

fn header<'a>(head: &'a str, name: &str) -> Vec<&'a str> {
    head.lines()
        .skip(1)
        .filter_map(|line| line.split_once(": "))
        .filter(|(n, _)| n.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
        .collect()
}

fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .map(|at| at + 4)
}

fn content_length(head: &str) -> usize {
    header(head, "content-length")
        .first()
        .map_or(0, |text| text.parse().unwrap())
}

/// The complete HTTP/1 requests in what a connection brought, and how many bytes are left over.
pub(super) fn requests(mut bytes: &[u8]) -> (Vec<Request>, usize) {
    let mut found = Vec::new();
    if bytes.starts_with(b"PRI * HTTP/2.0") {
        return (found, bytes.len());
    }
    while let Some(at) = head_end(bytes) {
        let head = String::from_utf8_lossy(&bytes[..at]).into_owned();
        let end = at + content_length(&head);
        if bytes.len() < end {
            break;
        }
        let body = bytes[at..end].to_vec();
        found.push(Request { head, body });
        bytes = &bytes[end..];
    }
    (found, bytes.len())
}

/// A listening server.
pub(super) struct Server {
    address: SocketAddr,
    records: Arc<Mutex<Vec<Record>>>,
    listening: JoinHandle<()>,
    stop: Gate,
}

impl Server {
    /// Runs `script` with the number of the connection, from 0. After its end the connection is
    /// read until the client closes it, unless the script has taken it away.
    pub(super) async fn start<F, S>(script: F) -> Server
    where
        F: Fn(usize, Conn) -> S + Send + 'static,
        S: Future<Output = Option<Conn>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let records = Arc::new(Mutex::new(Vec::<Record>::new()));
        let (known, stop) = (Arc::clone(&records), Gate::new());
        let stopped = stop.clone();
        let listening = tokio::spawn(async move {
            let mut scripts = JoinSet::new();
            loop {
                let stream = tokio::select! {
                    accepted = listener.accept() => accepted.unwrap().0,
                    () = stopped.wait() => break,
                };
                let record = Record::default();
                let number = {
                    let mut records = known.lock().unwrap();
                    records.push(record.clone());
                    records.len() - 1
                };
                let running = script(
                    number,
                    Conn {
                        stream,
                        record,
                        used: 0,
                    },
                );
                scripts.spawn(async move {
                    if let Some(mut conn) = running.await {
                        conn.drain().await;
                    }
                });
            }
            while let Some(done) = scripts.join_next().await {
                done.unwrap();
            }
        });
        Server {
            address,
            records,
            listening,
            stop,
        }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn https(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.address.port())
    }

    pub(super) fn connections(&self) -> usize {
        self.records.lock().unwrap().len()
    }

    /// Waits until every connection is closed by the client, then tells what each brought. The
    /// transport must be gone by now, or its idle connections would keep this waiting.
    pub(super) async fn finish(self) -> Vec<Vec<u8>> {
        self.stop.open();
        self.listening.await.unwrap();
        let records = self.records.lock().unwrap();
        records.iter().map(Record::bytes).collect()
    }
}

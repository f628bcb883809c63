//! A client that shows the wire as it is: plain sockets, no retries, no pool.

use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status_line: String,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.as_str())
    }

    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let named = self
            .headers
            .iter()
            .filter(|(n, _)| n.eq_ignore_ascii_case(name));
        named.map(|(_, v)| v.as_str()).collect()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    pub(crate) fn replayed(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }
}

/// What came over the wire before it ended, and how it ended.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) bytes: Vec<u8>,
    pub(crate) end: Option<std::io::ErrorKind>,
}

/// A request under construction.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    to: SocketAddr,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Ask {
    pub(crate) fn new(to: SocketAddr, method: &str, path: &str) -> Self {
        Self {
            to,
            method: method.into(),
            path: path.into(),
            headers: vec![],
            body: String::new(),
        }
        .header("authorization", "Bearer acme")
    }

    /// A new order under a key.
    pub(crate) fn order(to: SocketAddr, key: &str) -> Self {
        Self::new(to, "POST", "/orders")
            .key(key)
            .json(r#"{"item":"tea","quantity":2}"#)
    }

    pub(crate) fn get(to: SocketAddr, path: &str) -> Self {
        Self::new(to, "GET", path)
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.without("idempotency-key")
            .header("idempotency-key", key)
    }

    pub(crate) fn tenant(self, tenant: &str) -> Self {
        self.without("authorization")
            .header("authorization", &format!("Bearer {tenant}"))
    }

    pub(crate) fn fault(self, fault: &str) -> Self {
        self.header("mock-fault", fault)
    }

    pub(crate) fn path(mut self, path: &str) -> Self {
        self.path = path.into();
        self
    }

    pub(crate) fn json(mut self, body: &str) -> Self {
        self = self
            .without("content-type")
            .header("content-type", "application/json");
        self.body = body.into();
        self
    }

    pub(crate) fn body(mut self, body: &str) -> Self {
        self.body = body.into();
        self
    }

    /// Sends and reads until the other side ends.
    pub(crate) async fn raw(&self) -> Raw {
        self.exchange(false).await.expect("the mock listens")
    }

    /// The status, if the server lived long enough to give one.
    pub(crate) async fn try_once(&self) -> Option<u16> {
        Some(parse(&self.exchange(false).await.ok()?.bytes)?.status)
    }

    /// Sends and reads one whole answer, for servers that leave the connection open.
    pub(crate) async fn send_once(&self) -> Reply {
        let raw = self.exchange(true).await.expect("the server listens");
        parse(&raw.bytes).expect("an answer")
    }

    /// Sends, and leaves the reading to the caller.
    pub(crate) async fn open(&self) -> TcpStream {
        self.write().await.expect("the mock listens")
    }

    async fn write(&self) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.to).await?;
        let mut text = format!(
            "{} {} HTTP/1.1\r\nhost: {}\r\n",
            self.method, self.path, self.to
        );
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!(
            "content-length: {}\r\nconnection: close\r\n\r\n{}",
            self.body.len(),
            self.body
        ));
        stream.write_all(text.as_bytes()).await?;
        Ok(stream)
    }

    async fn exchange(&self, until_complete: bool) -> std::io::Result<Raw> {
        let mut stream = self.write().await?;
        let mut bytes = Vec::new();
        let end = loop {
            match stream.read_buf(&mut bytes).await {
                Ok(0) => break None,
                Ok(_) if until_complete && parse(&bytes).is_some() => break None,
                Ok(_) => {}
                Err(error) => break Some(error.kind()),
            }
        };
        Ok(Raw { bytes, end })
    }

    /// Sends and reads the answer; none where it was lost on the way.
    pub(crate) async fn try_send(&self) -> Option<Reply> {
        parse(&self.raw().await.bytes)
    }

    pub(crate) async fn send(&self) -> Reply {
        self.try_send().await.expect("an answer")
    }
}

/// Reads a complete answer.
pub(crate) fn parse(bytes: &[u8]) -> Option<Reply> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status_line = lines.next()?.to_owned();
    let status = status_line.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(n, v)| (n.to_ascii_lowercase(), v.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(n, _)| n == "content-length");
    let expected = length
        .and_then(|(_, v)| v.parse::<usize>().ok())
        .unwrap_or(0);
    (body.len() == expected).then(|| Reply {
        status_line,
        status,
        headers,
        body: body.to_owned(),
    })
}

/// A key that differs from test to test and from call to call.
pub(crate) fn key(n: u32) -> String {
    format!("{n:08x}-5a3e-4b1d-9a55-0d2f6f1f2a3b")
}

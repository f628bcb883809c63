//! Stands between client and server, counts the keys on the wire, and can stop in mid-request.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Where the proxy stops, for the requests to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Never,
    /// The head has gone to the server; the body has not.
    AfterHead,
    /// Half of the answer has gone to the client.
    InAnswer,
}

/// Every request line that reached the wire, whole or not: its key.
type Keys = Arc<Mutex<Vec<Option<String>>>>;

pub(super) struct Proxy {
    address: SocketAddr,
    keys: Keys,
    stop: watch::Sender<Stop>,
    stopped: watch::Receiver<u32>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub(super) async fn start(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (keys, (stop, wanted)) = (Keys::default(), watch::channel(Stop::Never));
        let (reached, stopped) = watch::channel(0);
        let (noted, reached) = (Arc::clone(&keys), Arc::new(reached));
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let line = Line {
                    client,
                    keys: Arc::clone(&noted),
                    wanted: wanted.clone(),
                    reached: Arc::clone(&reached),
                };
                // A line that ends badly does so because somebody was killed or a fault said so.
                tokio::spawn(async move { line.carry(server).await });
            }
        });
        Proxy {
            address,
            keys,
            stop,
            stopped,
            task,
        }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The keys of all requests so far, in the order of their arrival.
    pub(super) fn keys(&self) -> Vec<Option<String>> {
        self.keys.lock().unwrap().clone()
    }

    pub(super) fn stop(&self, at: Stop) {
        self.stop.send(at).unwrap();
    }

    /// Waits until a request has got where it was to stop.
    pub(super) async fn until_stopped(&mut self) {
        self.stopped.wait_for(|count| *count > 0).await.unwrap();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One connection of the client's.
struct Line {
    client: TcpStream,
    keys: Keys,
    wanted: watch::Receiver<Stop>,
    reached: Arc<watch::Sender<u32>>,
}

impl Line {
    async fn carry(mut self, server: SocketAddr) -> Option<()> {
        let mut upstream = TcpStream::connect(server).await.ok()?;
        loop {
            let (head, rest) = read_head(&mut self.client).await?;
            self.keys
                .lock()
                .unwrap()
                .push(header(&head, "idempotency-key"));
            upstream.write_all(&head).await.ok()?;
            if *self.wanted.borrow() == Stop::AfterHead {
                return self.wait_for_the_end().await;
            }
            pass_body(&head, rest, &mut self.client, &mut upstream).await?;
            let (head, rest) = read_head(&mut upstream).await?;
            if *self.wanted.borrow() == Stop::InAnswer {
                self.client.write_all(&head[..head.len() / 2]).await.ok()?;
                return self.wait_for_the_end().await;
            }
            self.client.write_all(&head).await.ok()?;
            pass_body(&head, rest, &mut upstream, &mut self.client).await?;
        }
    }

    /// Reads nothing more and answers nothing more, until the client is gone.
    async fn wait_for_the_end(mut self) -> Option<()> {
        self.reached.send_modify(|count| *count += 1);
        let wanted = *self.wanted.borrow();
        self.wanted.wait_for(|now| *now != wanted).await.ok()?;
        self.client.shutdown().await.ok()
    }
}

/// Everything up to the empty line, and what came along behind it.
async fn read_head(from: &mut TcpStream) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = bytes.split_off(at + 4);
            return Some((bytes, rest));
        }
        if from.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// Passes on as many bytes as the head announces, of which `rest` are here already.
async fn pass_body(
    head: &[u8],
    rest: Vec<u8>,
    from: &mut TcpStream,
    to: &mut TcpStream,
) -> Option<()> {
    let length: u64 = header(head, "content-length").map_or(Some(0), |text| text.parse().ok())?;
    to.write_all(&rest).await.ok()?;
    let missing = length.checked_sub(rest.len() as u64)?;
    let passed = tokio::io::copy(&mut from.take(missing), to).await.ok()?;
    (passed == missing).then_some(())
}

fn header(head: &[u8], name: &str) -> Option<String> {
    let text = str::from_utf8(head).ok()?;
    let mut lines = text.split("\r\n").filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(n, _)| n.eq_ignore_ascii_case(name))?;
    Some(value.trim().to_owned())
}

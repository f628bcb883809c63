//! The witness on the wire: it passes bytes on, remembers every request, and now and then cuts one off
//! at an exact byte.

use super::tools::{Res, because, wall};
use super::worker::number_in;
use crate::sim::rng::Rng;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// A request as it was seen; `whole` unless it broke off.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) at: u64,
    pub(super) key: Option<String>,
    pub(super) number: Option<u64>,
    pub(super) body: Vec<u8>,
    pub(super) whole: bool,
}

/// Stands between clients and one server.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    sent: Mutex<Vec<Sent>>,
    rng: Mutex<Rng>,
    /// How many connections in ten thousand are cut off somewhere in a request.
    cuts: Mutex<u32>,
}

impl Wire {
    pub(super) fn start(server: SocketAddr, cuts: u32, seed: u64) -> Res<Wire> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(because("no port is free"))?;
        let address = listener
            .local_addr()
            .map_err(because("a port without address"))?;
        let shared = Arc::new(Shared {
            server,
            sent: Mutex::default(),
            rng: Mutex::new(Rng::new(seed)),
            cuts: Mutex::new(cuts),
        });
        let line = Arc::downgrade(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Some(shared) = line.upgrade() else { return };
                std::thread::spawn(move || carry(&client, &shared));
            }
        });
        Ok(Wire { address, shared })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on nothing is cut off any more.
    pub(super) fn calm(&self) {
        *lock(&self.shared.cuts) = 0;
    }

    pub(super) fn sent(&self) -> Vec<Sent> {
        lock(&self.shared.sent).clone()
    }

    /// The numbers of the requests so far.
    pub(super) fn numbers(&self) -> Vec<u64> {
        let sent = lock(&self.shared.sent);
        sent.iter().filter_map(|sent| sent.number).collect()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // The last handle wakes the listener, which then sees that nobody is left.
        if Arc::strong_count(&self.shared) == 1 {
            let address = self.address;
            std::thread::spawn(move || TcpStream::connect(address));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One connection. It ends badly when somebody was killed, or a fault said so.
fn carry(client: &TcpStream, shared: &Shared) -> Option<()> {
    let server = TcpStream::connect(shared.server).ok()?;
    let (mut from, mut to) = (server.try_clone().ok()?, client.try_clone().ok()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
    let mut left = {
        let (mut rng, cuts) = (lock(&shared.rng), *lock(&shared.cuts));
        rng.chance(cuts).then(|| rng.below(6_000))
    };
    let mut reader = Reader::default();
    let mut buffer = [0; 16 << 10];
    let mut client = client;
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        let mut count = count as u64;
        if let Some(left) = &mut left {
            count = count.min(*left);
            *left -= count;
        }
        let bytes = &buffer[..usize::try_from(count).unwrap_or(0)];
        // Remembered before the server sees it: no effect is without a witness.
        lock(&shared.sent).extend(reader.take(bytes));
        if (&server).write_all(bytes).is_err() || left == Some(0) {
            break;
        }
    }
    lock(&shared.sent).extend(reader.rest());
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
    Some(())
}

/// Makes requests out of bytes.
#[derive(Default)]
struct Reader(Vec<u8>);

impl Reader {
    /// The requests that these bytes complete.
    fn take(&mut self, bytes: &[u8]) -> Vec<Sent> {
        self.0.extend_from_slice(bytes);
        let mut found = Vec::new();
        while let Some((sent, used)) = request(&self.0).filter(|(sent, _)| sent.whole) {
            self.0.drain(..used);
            found.push(sent);
        }
        found
    }

    /// What broke off.
    fn rest(&mut self) -> Option<Sent> {
        let (sent, _) = request(&self.0)?;
        self.0.clear();
        Some(sent)
    }
}

fn request(bytes: &[u8]) -> Option<(Sent, usize)> {
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..head]);
    let header = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(n, _)| n.eq_ignore_ascii_case(name))?;
        Some(found.1.trim().to_owned())
    };
    let length = header("content-length").and_then(|text| text.parse().ok());
    let end = (head + length.unwrap_or(0)).min(bytes.len());
    let body = bytes[head..end].to_vec();
    let sent = Sent {
        at: wall(),
        key: header("idempotency-key"),
        number: number_in(&body),
        whole: body.len() == length.unwrap_or(0),
        body,
    };
    Some((sent, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[u8] = b"POST /orders HTTP/1.1\r\nIdempotency-Key: k1\r\nContent-Length: 14\r\n\r\n\
        {\"quantity\":7}POST /orders HTTP/1.1\r\nidempotency-key: k2\r\ncontent-length: 14\r\n\r\n{\"qu";

    #[test]
    fn requests_are_told_apart_however_the_bytes_arrive() {
        for size in [1, 7, TWO.len()] {
            let mut reader = Reader::default();
            let whole: Vec<Sent> = TWO
                .chunks(size)
                .flat_map(|some| reader.take(some))
                .collect();
            assert_eq!(whole.len(), 1);
            assert_eq!(whole[0].key.as_deref(), Some("k1"));
            assert_eq!(whole[0].number, Some(7));
            let rest = reader.rest().unwrap();
            assert!(!rest.whole && rest.key.as_deref() == Some("k2"));
            assert_eq!(rest.body, b"{\"qu");
        }
    }
}

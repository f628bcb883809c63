//! For tests of programs that use samekey: a transport that answers from a script, a clock that is
//! moved by hand, and dice that are loaded.
//!
//! ```
//! use samekey::testing::{ScriptedTransport, parts_with};
//! use samekey::{Client, Failure, FailureKind, Headers, Response, Sent};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), samekey::Error> {
//! // The answer to the first attempt is lost; the second is answered.
//! let transport = ScriptedTransport::new();
//! transport.fail(Failure::new(FailureKind::Reset, Sent::Maybe, "the connection broke"));
//! transport.answer(Response::new(201, Headers::new(), "paid"));
//! let client = Client::with_parts("shop", parts_with(transport.clone())).build()?;
//!
//! let outcome = client.operation("cart/9").post("https://api.example.com/orders").begin().await?.send().await?;
//! assert!(outcome.is_success());
//! let sent = transport.requests();
//! assert_eq!(sent.len(), 2);
//! assert_eq!(sent[0].header("idempotency-key"), sent[1].header("idempotency-key"));
//! # Ok(()) }
//! ```

use crate::client::{Client, Parts};
use crate::clock::{Clock, Dice};
use crate::journal::MemoryJournal;
use crate::machine::{Permit, Probe};
use crate::message::{Failure, Headers, Response};
use crate::seam::BoxFuture;
use crate::time::{Now, Timestamp};
use crate::transport::Transport;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A request as it reached a [`ScriptedTransport`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The method.
    pub method: String,
    /// The URL.
    pub url: String,
    /// The header lines, credentials included.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Seen {
    /// The first value of a header, whose name is given in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let line = self
            .headers
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name));
        line.map(|(_, value)| value.as_str())
    }
}

/// Answers from a script, in order; when the script is over, with 201. Clones share the script.
#[derive(Clone, Debug, Default)]
pub struct ScriptedTransport(Arc<Mutex<Script>>);

#[derive(Debug, Default)]
struct Script {
    answers: VecDeque<Result<Response, Failure>>,
    seen: Vec<Seen>,
}

impl ScriptedTransport {
    /// An empty script.
    #[must_use]
    pub fn new() -> Self {
        ScriptedTransport::default()
    }

    /// The next answer.
    pub fn answer(&self, response: Response) {
        self.script().answers.push_back(Ok(response));
    }

    /// The next failure.
    pub fn fail(&self, failure: Failure) {
        self.script().answers.push_back(Err(failure));
    }

    /// What was sent so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Seen> {
        self.script().seen.clone()
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, seen: Seen) -> Result<Response, Failure> {
        let mut script = self.script();
        script.seen.push(seen);
        let next = script.answers.pop_front();
        next.unwrap_or_else(|| Ok(Response::new(201, Headers::new(), "")))
    }
}

fn lines<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(String, String)> {
    headers
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

impl Transport for ScriptedTransport {
    fn send(&self, permit: Permit) -> BoxFuture<'_, Result<Response, Failure>> {
        let answer = self.take(Seen {
            method: permit.method().to_string(),
            url: permit.url().to_owned(),
            headers: lines(permit.headers()),
            body: permit.body().to_vec(),
        });
        Box::pin(async move { answer })
    }

    fn probe(&self, probe: Probe) -> BoxFuture<'_, Result<Response, Failure>> {
        let answer = self.take(Seen {
            method: "GET".to_owned(),
            url: probe.url().to_owned(),
            headers: lines(probe.headers()),
            body: Vec::new(),
        });
        Box::pin(async move { answer })
    }
}

/// A clock that jumps to the end of every sleep, and otherwise moves only when told to. Clones
/// share the time.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<Now>>);

impl ManualClock {
    /// A clock that stands at `wall`.
    #[must_use]
    pub fn at(wall: Timestamp) -> Self {
        ManualClock(Arc::new(Mutex::new(Now {
            wall,
            monotonic: Duration::ZERO,
        })))
    }

    /// Lets time pass on both clocks.
    pub fn advance(&self, by: Duration) {
        let mut now = self.time();
        now.wall = now.wall + by;
        now.monotonic += by;
    }

    /// Sets the wall clock, as a user or a time server may at any moment.
    pub fn set_wall(&self, wall: Timestamp) {
        self.time().wall = wall;
    }

    fn time(&self) -> MutexGuard<'_, Now> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Now {
        *self.time()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let clock = self.clone();
        Box::pin(async move { clock.advance(duration) })
    }
}

/// Dice that count up: every run is alike.
#[derive(Debug, Default)]
pub struct LoadedDice(AtomicU64);

impl LoadedDice {
    /// Dice whose sequence is chosen by `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        LoadedDice(AtomicU64::new(seed))
    }
}

impl Dice for LoadedDice {
    fn roll(&self) -> u64 {
        // SplitMix64: a counter whose bits are well stirred.
        let mut z = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn key_bytes(&self) -> [u8; 16] {
        let halves = [self.roll().to_le_bytes(), self.roll().to_le_bytes()];
        std::array::from_fn(|i| halves[i / 8][i % 8])
    }
}

/// Parts for a client that keeps nothing and waits for nothing: memory, a script that answers 201,
/// a clock that jumps, loaded dice.
#[must_use]
pub fn parts() -> Parts {
    parts_with(ScriptedTransport::new())
}

/// The same with a transport of one's own.
#[must_use]
pub fn parts_with(transport: impl Transport + 'static) -> Parts {
    Parts {
        journal: Arc::new(MemoryJournal::new()),
        transport: Arc::new(transport),
        clock: Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000))),
        dice: Arc::new(LoadedDice::new(1)),
    }
}

/// A client of such [`parts`].
#[must_use]
pub fn client() -> Client {
    Client::with_parts("testing", parts())
        .build()
        .expect("the defaults are valid")
}

//! A small world for one test: memory, a script, a clock that is moved by hand, loaded dice.

use samekey::clock::Clock;
use samekey::entry::{Entry, Owner};
use samekey::journal::{
    Begun, Journal, JournalError, JournalErrorKind, Listing, Liveness, Query, Reaped, Receipt,
    Retention, Write,
};
use samekey::machine::{Permit, Probe};
use samekey::seam::BoxFuture;
use samekey::testing::{LoadedDice, ManualClock, ScriptedTransport, Seen};
use samekey::transport::Transport;
use samekey::{
    Client, ClientBuilder, Failure, FailureKind, Grade, Headers, Key, MemoryJournal, Now,
    OperationBuilder, Parts, Reference, Response, Scope, Sent, Timestamp,
};
use serde_json::json;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub(crate) const URL: &str = "https://api.example.com/payments";
pub(crate) const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// What outlives a client: the journal's memory, the server's script, the time.
pub(crate) struct World {
    pub(crate) memory: MemoryJournal,
    pub(crate) server: ScriptedTransport,
    pub(crate) clock: ManualClock,
    dice: Arc<LoadedDice>,
}

impl World {
    pub(crate) fn new() -> World {
        World {
            memory: MemoryJournal::new(),
            server: ScriptedTransport::new(),
            clock: ManualClock::at(START),
            dice: Arc::new(LoadedDice::new(1)),
        }
    }

    /// The parts of one more process on this journal. Dropping the client kills the process.
    pub(crate) fn parts(&self) -> Parts {
        self.parts_on(self.memory.reopen())
    }

    pub(crate) fn parts_on(&self, journal: impl Journal + 'static) -> Parts {
        Parts {
            journal: Arc::new(journal),
            transport: Arc::new(self.server.clone()),
            clock: Arc::new(self.clock.clone()),
            dice: Arc::<LoadedDice>::clone(&self.dice),
        }
    }

    pub(crate) fn builder(&self) -> ClientBuilder {
        Client::with_parts("shop", self.parts())
    }

    pub(crate) fn client(&self) -> Client {
        self.builder().build().unwrap()
    }

    pub(crate) fn requests(&self) -> Vec<Seen> {
        self.server.requests()
    }

    pub(crate) fn sent(&self) -> usize {
        self.requests().len()
    }

    /// The keys that the server has seen in the header of the default profile.
    pub(crate) fn keys(&self) -> BTreeSet<String> {
        let requests = self.requests();
        let keys = requests
            .iter()
            .filter(|seen| seen.method != "GET")
            .map(|seen| seen.header("idempotency-key").unwrap_or("none").to_owned());
        keys.collect()
    }

    /// Every entry of the journal, whoever it belongs to.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        run(self.memory.list(Query::default())).unwrap().entries
    }
}

/// The payment that most tests are about.
pub(crate) fn pay(client: &Client, intent: &str) -> OperationBuilder {
    client
        .operation(intent)
        .post(URL)
        .json(&json!({"amount": 100}))
}

pub(crate) fn headers(lines: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in lines {
        headers.push(name, value).unwrap();
    }
    headers
}

pub(crate) fn answer(status: u16, lines: &[(&str, &str)], body: &str) -> Response {
    Response::new(status, headers(lines), body)
}

/// The request may have been applied, and no answer came.
pub(crate) fn lost() -> Failure {
    Failure::new(FailureKind::Reset, Sent::Maybe, "the connection broke")
}

/// Nobody listened: surely not sent.
pub(crate) fn unreachable() -> Failure {
    Failure::new(FailureKind::Connect, Sent::No, "nobody listens there")
}

/// Runs what waits for nothing outside this thread.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    for _ in 0..100_000 {
        if let Poll::Ready(value) = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            return value;
        }
    }
    panic!("it never ends");
}

/// Polls so many times, then drops.
pub(crate) fn poll_then_drop<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = Box::pin(future);
    let mut context = Context::from_waker(Waker::noop());
    (0..times).find_map(|_| match future.as_mut().poll(&mut context) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    })
}

/// Polls until the condition holds, then drops.
pub(crate) fn poll_until<T>(future: impl Future<Output = T>, done: impl Fn() -> bool) {
    let mut future = Box::pin(future);
    let mut context = Context::from_waker(Waker::noop());
    while !done() {
        let polled = future.as_mut().poll(&mut context);
        assert!(polled.is_pending(), "it ended before that");
    }
}

/// One await point.
pub(crate) async fn pause() {
    let mut paused = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// What a [`Hooked`] journal was asked.
pub(crate) enum Call<'a> {
    Begin,
    Record(&'a Write),
    Read,
}

type Hook = Box<dyn Fn(Call<'_>) -> Result<(), JournalErrorKind> + Send + Sync>;

/// A journal in memory that asks the test before it does anything, and may pause around it.
pub(crate) struct Hooked {
    inner: MemoryJournal,
    hook: Hook,
    pauses: bool,
    blind: bool,
    /// The next write is neither made nor answered for.
    pub(crate) stuck: Arc<AtomicBool>,
    /// The next write is made, and said to have failed.
    pub(crate) lies: Arc<AtomicBool>,
}

impl Hooked {
    pub(crate) fn new(
        inner: MemoryJournal,
        hook: impl Fn(Call<'_>) -> Result<(), JournalErrorKind> + Send + Sync + 'static,
    ) -> Hooked {
        Hooked {
            inner,
            hook: Box::new(hook),
            pauses: false,
            blind: false,
            stuck: Arc::default(),
            lies: Arc::default(),
        }
    }

    /// An await point before and after every call.
    pub(crate) fn pausing(inner: MemoryJournal) -> Hooked {
        Hooked {
            pauses: true,
            ..Hooked::new(inner, |_| Ok(()))
        }
    }

    /// A store that forgets to look at scopes.
    pub(crate) fn blind(inner: MemoryJournal) -> Hooked {
        Hooked {
            blind: true,
            ..Hooked::new(inner, |_| Ok(()))
        }
    }

    fn ask(&self, call: Call<'_>) -> Result<(), JournalError> {
        (self.hook)(call).map_err(|kind| JournalError::new(kind, "the test said no; say yes"))
    }

    /// Makes the write, and says what came of it, or else something other.
    fn say<'a, T: Send + 'a>(
        &'a self,
        written: BoxFuture<'a, Result<T, JournalError>>,
    ) -> BoxFuture<'a, Result<T, JournalError>> {
        if !self.lies.swap(false, Ordering::Relaxed) {
            return written;
        }
        Box::pin(async move {
            written.await?;
            let kind = JournalErrorKind::Unavailable;
            Err(JournalError::new(kind, "nobody knows; look again"))
        })
    }

    async fn pause(&self) {
        if self.pauses {
            pause().await;
        }
    }

    fn around<'a, T: Send + 'a>(
        &'a self,
        asked: Result<(), JournalError>,
        work: BoxFuture<'a, Result<T, JournalError>>,
    ) -> BoxFuture<'a, Result<T, JournalError>> {
        Box::pin(async move {
            self.pause().await;
            asked?;
            let done = work.await;
            self.pause().await;
            done
        })
    }
}

impl Journal for Hooked {
    fn grade(&self) -> Grade {
        self.inner.grade()
    }

    fn owner(&self) -> Owner {
        self.inner.owner()
    }

    fn begin(&self, entry: Entry) -> BoxFuture<'_, Result<Begun, JournalError>> {
        let asked = self.ask(Call::Begin);
        let begun = self.say(self.inner.begin(entry));
        self.around(asked, begun)
    }

    fn record(&self, write: Write) -> BoxFuture<'_, Result<Receipt, JournalError>> {
        if self.stuck.swap(false, Ordering::Relaxed) {
            return Box::pin(std::future::pending());
        }
        let asked = self.ask(Call::Record(&write));
        let written = self.say(self.inner.record(write));
        self.around(asked, written)
    }

    fn load(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<Option<Entry>, JournalError>> {
        self.around(self.ask(Call::Read), self.inner.load(slot, key))
    }

    fn list(&self, mut query: Query) -> BoxFuture<'_, Result<Listing, JournalError>> {
        query.scope = query.scope.filter(|_| !self.blind);
        self.around(self.ask(Call::Read), self.inner.list(query))
    }

    fn find(
        &self,
        reference: Reference,
        scope: Option<Scope>,
    ) -> BoxFuture<'_, Result<Listing, JournalError>> {
        let scope = scope.filter(|_| !self.blind);
        self.around(self.ask(Call::Read), self.inner.find(reference, scope))
    }

    fn liveness(&self, owner: Owner) -> BoxFuture<'_, Result<Liveness, JournalError>> {
        self.around(Ok(()), self.inner.liveness(owner))
    }

    fn forget(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<(), JournalError>> {
        self.around(Ok(()), self.inner.forget(slot, key))
    }

    fn reap(&self, retention: Retention) -> BoxFuture<'_, Result<Reaped, JournalError>> {
        self.around(Ok(()), self.inner.reap(retention))
    }
}

/// A transport with an await point before the request leaves and one after the answer is here.
pub(crate) struct Pausing(pub(crate) ScriptedTransport);

impl Transport for Pausing {
    fn send(&self, permit: Permit) -> BoxFuture<'_, Result<Response, Failure>> {
        Box::pin(async move {
            pause().await;
            let answer = self.0.send(permit).await;
            pause().await;
            answer
        })
    }

    fn probe(&self, probe: Probe) -> BoxFuture<'_, Result<Response, Failure>> {
        Box::pin(async move {
            pause().await;
            let answer = self.0.probe(probe).await;
            pause().await;
            answer
        })
    }
}

/// A clock whose sleeps are await points.
pub(crate) struct PausingClock(pub(crate) ManualClock);

impl Clock for PausingClock {
    fn now(&self) -> Now {
        self.0.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let clock = self.0.clone();
        Box::pin(async move {
            pause().await;
            clock.sleep(duration).await;
        })
    }
}

/// Tokio's paused time as a clock: many tasks wait, and time jumps to whoever is next.
pub(crate) struct TokioClock(tokio::time::Instant);

impl TokioClock {
    pub(crate) fn start() -> TokioClock {
        TokioClock(tokio::time::Instant::now())
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Now {
        let monotonic = self.0.elapsed();
        Now {
            wall: START + monotonic,
            monotonic,
        }
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// A server that takes its time: the request is there at once, the answer comes later.
pub(crate) struct Slow(pub(crate) ScriptedTransport, pub(crate) Duration);

impl Transport for Slow {
    fn send(&self, permit: Permit) -> BoxFuture<'_, Result<Response, Failure>> {
        let answer = self.0.send(permit);
        Box::pin(async move {
            tokio::time::sleep(self.1).await;
            answer.await
        })
    }

    fn probe(&self, probe: Probe) -> BoxFuture<'_, Result<Response, Failure>> {
        self.0.probe(probe)
    }
}

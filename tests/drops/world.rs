//! A store that outlives its processes, a scripted server, and await points at every call of a part.

use samekey::clock::Clock;
use samekey::entry::{Entry, Owner};
use samekey::journal::{
    Begun, Journal, JournalError, Listing, Liveness, Query, Reaped, Receipt, Retention,
    SqliteJournal, Write,
};
use samekey::machine::{Permit, Probe};
use samekey::seam::BoxFuture;
use samekey::testing::{LoadedDice, ManualClock, ScriptedTransport, Seen};
use samekey::transport::Transport;
use samekey::{
    Asked, Client, ClientBuilder, Failure, FailureKind, Grade, Headers, Key, MemoryJournal, Now,
    OperationBuilder, Parts, Reference, Response, Scope, Sent, Timestamp,
};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const URL: &str = "https://api.example.com/payments";
/// Longer than anything here can take; only a test that hangs gets to see it.
const LIMIT: Duration = Duration::from_secs(60);

/// Where entries live.
pub(crate) enum Store {
    Memory(MemoryJournal),
    Sqlite {
        folder: TempDir,
        open: RefCell<Option<Arc<SqliteJournal>>>,
    },
}

impl Store {
    pub(crate) fn memory() -> Store {
        Store::Memory(MemoryJournal::new())
    }

    pub(crate) fn sqlite() -> Store {
        Store::Sqlite {
            folder: TempDir::new().unwrap(),
            open: RefCell::default(),
        }
    }

    /// The journal as the process of today sees it.
    fn journal(&self) -> Arc<dyn Journal> {
        match self {
            Store::Memory(memory) => Arc::new(memory.reopen()),
            Store::Sqlite { open, .. } => {
                let mut open = open.borrow_mut();
                let journal = open.get_or_insert_with(|| Arc::new(self.another_sqlite()));
                Arc::<SqliteJournal>::clone(journal)
            }
        }
    }

    /// The journal as one more process sees it at the same time.
    fn another(&self) -> Arc<dyn Journal> {
        match self {
            Store::Memory(memory) => Arc::new(memory.reopen()),
            Store::Sqlite { .. } => Arc::new(self.another_sqlite()),
        }
    }

    fn another_sqlite(&self) -> SqliteJournal {
        match self {
            Store::Sqlite { folder, .. } => SqliteJournal::open(folder.path().join("j")).unwrap(),
            Store::Memory(_) => unreachable!("asked of memory"),
        }
    }

    pub(crate) fn owner(&self) -> Owner {
        self.journal().owner()
    }

    /// Waits until what a drop has started is written: it waits for nobody, and another process that
    /// asks sooner is rightly told that the operation is held.
    ///
    /// Writes are made in order, and forgetting what is not there is one too. A begin that nobody
    /// waits for is let go when it is written, behind what was asked for meanwhile: hence twice.
    pub(crate) fn catch_up(&self) {
        for _ in 0..2 {
            let nothing = Key::from_random([0; 16]);
            run(self.journal().forget(0, nothing)).unwrap();
        }
    }

    /// Keeps everybody from writing to a SQLite journal until what is returned is dropped.
    pub(crate) fn hold_up(&self) -> std::fs::File {
        let Store::Sqlite { folder, .. } = self else {
            unreachable!("asked of memory")
        };
        let turn = std::fs::File::open(folder.path().join("j-lock")).unwrap();
        turn.lock().unwrap();
        turn
    }

    /// The process is gone; the next look is that of a new one.
    fn end_process(&self) {
        if let Store::Sqlite { open, .. } = self {
            open.take();
        }
    }
}

/// One operation's world. Stores are shared from one to the next, the rest is its own.
pub(crate) struct World<'a> {
    pub(crate) store: &'a Store,
    pub(crate) intent: String,
    pub(crate) server: ScriptedTransport,
    clock: ManualClock,
    seed: u64,
    pub(crate) lazy: bool,
    /// Which request surely did not arrive.
    unsent: Cell<Option<usize>>,
}

impl<'a> World<'a> {
    pub(crate) fn new(store: &'a Store, number: usize) -> World<'a> {
        World {
            store,
            intent: format!("invoice/{number}/pay"),
            server: ScriptedTransport::new(),
            clock: ManualClock::at(Timestamp::from_millis(1_800_000_000_000)),
            seed: number as u64 * 1_000_003,
            lazy: false,
            unsent: Cell::default(),
        }
    }

    fn parts(&self, journal: Arc<dyn Journal>, seed: u64) -> Parts {
        Parts {
            journal,
            transport: Arc::new(self.server.clone()),
            clock: Arc::new(self.clock.clone()),
            dice: Arc::new(LoadedDice::new(self.seed + seed)),
        }
    }

    /// A client with an await point around every call of every part.
    pub(crate) fn pausing(&self) -> Client {
        let plain = self.parts(self.store.journal(), 1);
        let parts = Parts {
            journal: Arc::new(Pausing(plain.journal, self.lazy)),
            transport: Arc::new(Pausing(plain.transport, false)),
            clock: Arc::new(PausingClock(self.clock.clone())),
            dice: plain.dice,
        };
        let client = Client::with_parts("shop", parts).credentials(|_: Asked| async {
            pause().await;
            Ok(Headers::bearer("t")?)
        });
        client.build().unwrap()
    }

    /// A client of today's process without pauses.
    pub(crate) fn client_with(
        &self,
        change: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Client {
        let builder = Client::with_parts("shop", self.parts(self.store.journal(), 4));
        change(builder).build().unwrap()
    }

    /// Another process, while the first one lives on.
    pub(crate) fn rival(&self) -> Client {
        let parts = self.parts(self.store.another(), 2);
        Client::with_parts("shop", parts).build().unwrap()
    }

    /// The next process, after the end of the first.
    pub(crate) fn successor(&self) -> Client {
        self.store.end_process();
        let parts = self.parts(self.store.journal(), 3);
        Client::with_parts("shop", parts).build().unwrap()
    }

    pub(crate) fn pay(&self, client: &Client) -> OperationBuilder {
        let request = client.operation(&self.intent).post(URL);
        request.json(&json!({"amount": 100}))
    }

    /// What reached the server, questions apart.
    pub(crate) fn posts(&self) -> Vec<Seen> {
        let mut requests = self.server.requests();
        requests.retain(|seen| seen.method == "POST");
        requests
    }

    /// Whether any request may have arrived.
    pub(crate) fn reached(&self) -> bool {
        let posts = self.posts().len();
        posts > usize::from(self.unsent.get().is_some_and(|unsent| unsent < posts))
    }

    /// The entries of this world's operation, whoever holds them.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let all = run(self.store.journal().list(Query::default())).unwrap();
        let mut entries = all.entries;
        entries.retain(|entry| *entry.frozen.intent == *self.intent);
        entries
    }

    /// No answer, an unreachable host, a busy server, a key in flight; then success.
    pub(crate) fn rough(&self) {
        let lost = Failure::new(FailureKind::Reset, Sent::Maybe, "the connection broke");
        let unsent = Failure::new(FailureKind::Connect, Sent::No, "nobody listens there");
        self.unsent.set(Some(self.posts().len()));
        self.server.fail(unsent);
        self.server.fail(lost);
        for status in [503, 409] {
            let mut headers = Headers::new();
            headers.push("retry-after", "2").unwrap();
            self.server.answer(Response::new(status, headers, ""));
        }
    }

    /// The next answer is lost on its way.
    pub(crate) fn lose_one(&self) {
        let lost = Failure::new(FailureKind::Reset, Sent::Maybe, "the connection broke");
        self.server.fail(lost);
    }
}

/// Rings when a future is to be polled again.
struct Bell(std::sync::Mutex<Sender<()>>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // Nobody listens any more once the future is done.
        let _ = self.0.lock().unwrap().send(());
    }
}

fn bell() -> (Waker, Receiver<()>) {
    let (ring, rung) = channel();
    (Arc::new(Bell(ring.into())).into(), rung)
}

/// Polls so many times, each when it was asked for, then drops.
pub(crate) fn poll_then_drop<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = Box::pin(future);
    let (waker, rung) = bell();
    for poll in 0..times {
        if poll > 0 {
            rung.recv_timeout(LIMIT).expect("nobody woke it");
            while rung.try_recv().is_ok() {}
        }
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(value);
        }
    }
    None
}

pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    poll_then_drop(future, usize::MAX).unwrap()
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

/// A part with an await point before and after every call.
///
/// A lazy journal starts no write when it is first polled: the twin, which must be noticed.
struct Pausing<T: ?Sized>(Arc<T>, bool);

fn around<'a, T: Send + 'a>(work: BoxFuture<'a, T>) -> BoxFuture<'a, T> {
    Box::pin(async move {
        pause().await;
        let done = work.await;
        pause().await;
        done
    })
}

type Done<'a, T> = BoxFuture<'a, Result<T, JournalError>>;

impl Journal for Pausing<dyn Journal> {
    fn grade(&self) -> Grade {
        self.0.grade()
    }

    fn owner(&self) -> Owner {
        self.0.owner()
    }

    // What a store leaves of a begin that was dropped is the store's to see to, so nothing comes
    // between its answer and the caller.
    fn begin(&self, entry: Entry) -> Done<'_, Begun> {
        Box::pin(async move {
            pause().await;
            self.0.begin(entry).await
        })
    }

    // A write starts when it is first polled: whoever is dropped relies on it.
    fn record(&self, write: Write) -> Done<'_, Receipt> {
        let lazy = self.1;
        Box::pin(async move {
            if lazy {
                pause().await;
            }
            let done = self.0.record(write).await;
            pause().await;
            done
        })
    }

    fn load(&self, slot: u64, key: Key) -> Done<'_, Option<Entry>> {
        around(self.0.load(slot, key))
    }

    fn list(&self, query: Query) -> Done<'_, Listing> {
        around(self.0.list(query))
    }

    fn find(&self, reference: Reference, scope: Option<Scope>) -> Done<'_, Listing> {
        around(self.0.find(reference, scope))
    }

    fn liveness(&self, owner: Owner) -> Done<'_, Liveness> {
        around(self.0.liveness(owner))
    }

    fn forget(&self, slot: u64, key: Key) -> Done<'_, ()> {
        around(self.0.forget(slot, key))
    }

    fn reap(&self, retention: Retention) -> Done<'_, Reaped> {
        around(self.0.reap(retention))
    }
}

impl Transport for Pausing<dyn Transport> {
    fn send(&self, permit: Permit) -> BoxFuture<'_, Result<Response, Failure>> {
        // The request leaves with the first poll after the pause, not before it.
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
            self.0.probe(probe).await
        })
    }
}

struct PausingClock(ManualClock);

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

//! The small parts, one case each: timed by `cargo bench`, counted by `cargo xtask bench --instructions`.

use samekey::entry::{Entry, Expected, Flush, Frozen, Grade, Progress, Receipt};
use samekey::journal::{Begun, Journal, MemoryJournal, SqliteJournal, Write};
use samekey::machine::{Decision, Event, Machine, Task, Tick};
use samekey::retry::classify::{self, Context};
use samekey::testing::{ScriptedTransport, parts_with};
use samekey::{Client, Fingerprint, Headers, Key, Policy, Profile, Response, Timestamp};
use std::future::Future;
use std::hint::black_box;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as Poller, Poll, Wake, Waker};
use std::thread::Thread;

/// One small part: how to get ready for it, and then how to do it once.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) ready: fn(&Path) -> Box<dyn FnMut()>,
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "machine_step",
        ready: machine_step,
    },
    Case {
        name: "classify_success",
        ready: |_| classified(201),
    },
    Case {
        name: "classify_busy",
        ready: |_| classified(503),
    },
    Case {
        name: "fingerprint",
        ready: fingerprint,
    },
    Case {
        name: "frozen_encode",
        ready: |_| {
            let frozen = settled().frozen;
            Box::new(move || drop(black_box(frozen.encode())))
        },
    },
    Case {
        name: "frozen_decode",
        ready: |_| {
            let bytes = settled().frozen.encode();
            Box::new(move || drop(black_box(Frozen::decode(&bytes))))
        },
    },
    Case {
        name: "progress_encode",
        ready: |_| {
            let entry = settled();
            Box::new(move || drop(black_box(entry.progress.encode(entry.key()))))
        },
    },
    Case {
        name: "progress_decode",
        ready: |_| {
            let entry = settled();
            let bytes = entry.progress.encode(entry.key());
            Box::new(move || drop(black_box(Progress::decode(&bytes, entry.key()))))
        },
    },
    Case {
        name: "operation",
        ready: operation,
    },
    Case {
        name: "begin_memory",
        ready: |_| begin(Arc::new(MemoryJournal::new())),
    },
    Case {
        name: "begin_sqlite",
        ready: |folder| begin(sqlite(folder)),
    },
    Case {
        name: "begin_and_finish_sqlite",
        ready: |folder| begin_and_finish(sqlite(folder)),
    },
];

const URL: &str = "https://api.example.com/payments";

fn body() -> Vec<u8> {
    vec![b'x'; 600]
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on this thread, without a runtime whose own work would be counted.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Poller::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn client() -> Client {
    let server = ScriptedTransport::new();
    Client::with_parts("bench", parts_with(server))
        .build()
        .expect("a client")
}

fn run(client: &Client, intent: &str) -> [Entry; 2] {
    let request = client.operation(intent).post(URL);
    let operation = wait(request.body(body(), "application/json").begin()).expect("begun");
    let begun = operation.entry();
    assert!(wait(operation.send()).expect("sent").is_success());
    [begun, operation.entry()]
}

fn settled() -> Entry {
    let [_, settled] = run(&client(), "pattern");
    settled
}

fn begun() -> Entry {
    let [begun, _] = run(&client(), "pattern");
    begun
}

/// A whole life: may be sent, was answered, is recorded.
fn machine_step(_: &Path) -> Box<dyn FnMut()> {
    let (entry, body) = (begun(), Arc::<[u8]>::from(body()));
    Box::new(move || {
        let tick = Tick::at_seconds(entry.frozen.begun_at.as_millis() / 1000 + 1);
        let mut machine = Machine::new(Task {
            entry: entry.clone(),
            body: Arc::clone(&body),
            profile: Profile::default(),
            policy: Policy::new(),
            flush_all: false,
            surely_unsent: true,
        });
        let receipt = |revision| Receipt::new(entry.key().clone(), 1, revision, Grade::Device);
        let sent = machine.step(Event::Drive(receipt(1)), tick);
        assert!(matches!(sent, Decision::Send(_)));
        let paid = Response::new(201, Headers::new(), "paid");
        let noted = machine.step(Event::Answered(paid), tick);
        assert!(matches!(noted, Decision::Record { .. }));
        let done = machine.step(Event::Recorded(receipt(2)), tick);
        assert!(matches!(done, Decision::Finish(_)));
    })
}

fn classified(status: u16) -> Box<dyn FnMut()> {
    let mut headers = Headers::new();
    let lines = [("content-type", "application/json"), ("retry-after", "7")];
    for (name, value) in lines {
        headers.push(name, value).expect("a header");
    }
    let response = Response::new(status, headers, r#"{"status":"succeeded"}"#);
    let profile = Profile::default();
    Box::new(move || {
        let context = Context {
            profile: &profile,
            url: URL,
            attempt: 1,
            in_doubt: false,
            used: &[],
            now: Timestamp::from_millis(1_000_000),
        };
        drop(black_box(classify::answer(black_box(&response), &context)));
    })
}

fn fingerprint(_: &Path) -> Box<dyn FnMut()> {
    let entry = begun();
    let body = body();
    Box::new(move || {
        let frozen = &entry.frozen;
        let (method, url) = (frozen.method, &frozen.url);
        black_box(Fingerprint::of(method, url, &frozen.headers, &body));
    })
}

/// The client's whole work, with a journal in memory and a server that answers at once.
fn operation(_: &Path) -> Box<dyn FnMut()> {
    let client = client();
    let mut number = 0;
    Box::new(move || {
        number += 1;
        run(&client, &format!("cart/{number}"));
    })
}

fn sqlite(folder: &Path) -> Arc<dyn Journal> {
    let path = folder.join("parts.samekey");
    Arc::new(SqliteJournal::open(path).expect("a journal"))
}

/// The same entry under names and keys that differ, and do not differ from run to run.
fn named(pattern: &Entry, number: u64, journal: &dyn Journal) -> Entry {
    let mut random = [7; 16];
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    random[..8].copy_from_slice(&spread.to_le_bytes());
    let mut entry = pattern.clone();
    entry.frozen = Arc::new(Frozen {
        key: Key::from_random(random),
        intent: format!("cart/{number:08}").into(),
        ..Frozen::clone(&pattern.frozen)
    });
    entry.progress.owner = journal.owner();
    entry
}

fn begin_one(journal: &dyn Journal, entry: Entry) -> Receipt {
    match wait(journal.begin(entry)).expect("begun") {
        Begun::Created(receipt) => receipt,
        other => panic!("{other:?}"),
    }
}

/// How many entries are left open first: with others under way every write takes the way over the writer's
/// thread. Alone it would take one or the other, depending on how quick the disk was the last time.
const UNDER_WAY: u64 = 3;

fn leave_open(journal: &dyn Journal, pattern: &Entry) -> u64 {
    for number in 1..=UNDER_WAY {
        begin_one(journal, named(pattern, number, journal));
    }
    UNDER_WAY
}

fn begin(journal: Arc<dyn Journal>) -> Box<dyn FnMut()> {
    let pattern = begun();
    let mut number = leave_open(&*journal, &pattern);
    Box::new(move || {
        number += 1;
        begin_one(&*journal, named(&pattern, number, &*journal));
    })
}

fn begin_and_finish(journal: Arc<dyn Journal>) -> Box<dyn FnMut()> {
    let [pattern, settled] = run(&client(), "pattern");
    let mut number = leave_open(&*journal, &pattern);
    Box::new(move || {
        number += 1;
        let entry = named(&pattern, number, &*journal);
        let (key, expected) = (entry.key().clone(), Expected::of(&entry.progress));
        let receipt = begin_one(&*journal, entry);
        let mut progress = settled.progress.clone();
        progress.owner = journal.owner();
        let write = Write {
            slot: receipt.slot(),
            key,
            expected,
            progress,
            flush: Flush::Normal,
        };
        wait(journal.record(write)).expect("recorded");
    })
}

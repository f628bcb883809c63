//! The machine alone: no journal, no network, no time but what the test says.

mod complete;
mod doubt;
mod flow;
mod limits;
mod takeover;
mod window_guard;

use super::*;
use crate::entry::{Entry, Grade, Scope, WindowSource};
use crate::fingerprint::Fingerprint;
use crate::key::Key;
use crate::message::{FailureKind, Headers, Method, Sent};

const DAY: Duration = Duration::from_secs(86_400);

/// An operation, a machine and a world in which every write succeeds at once.
struct Scenario {
    machine: Machine,
    now: Now,
    written: Vec<(Progress, Flush)>,
}

/// What the machine wants of the world, writes apart.
#[derive(Debug, PartialEq)]
enum Wants {
    Send {
        attempt: u32,
        url: String,
        timeout: Duration,
    },
    Probe(String),
    Sleep {
        wait: Duration,
        charge: bool,
    },
    Reauthorise,
    Finish(End),
}

fn entry(profile: &Profile) -> Entry {
    let key = Key::from_random([1; 16]);
    let frozen = Frozen {
        key,
        scope: Scope::new("shop", None).unwrap(),
        intent: "cart/9".into(),
        generation: 0,
        method: Method::Post,
        url: "https://api.example.com/orders".into(),
        headers: Headers::new(),
        key_line: Some(("Idempotency-Key".into(), "k".into())),
        body: Kept::Plain(b"{}"[..].into()),
        body_digest: [0; 32],
        fingerprint: Fingerprint::from_bytes([0; 32]),
        profile: profile.name().into(),
        begun_at: start().wall,
        complete: Complete::default(),
    };
    let progress = Progress::ready(
        Owner(1),
        start().wall,
        profile.window(),
        WindowSource::Profile,
    );
    Entry {
        slot: 1,
        frozen: Arc::new(frozen),
        progress,
    }
}

fn start() -> Now {
    Now {
        wall: Timestamp::from_millis(1_800_000_000_000),
        monotonic: Duration::from_secs(50),
    }
}

fn receipt(entry: &Entry) -> Receipt {
    Receipt::new(
        entry.key().clone(),
        1,
        entry.progress.revision,
        Grade::Device,
    )
}

fn headers(pairs: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in pairs {
        headers.push(name, value).unwrap();
    }
    headers
}

fn answer(status: u16, pairs: &[(&str, &str)]) -> Event {
    Event::Answered(Response::new(status, headers(pairs), "{}"))
}

fn lost() -> Event {
    Event::Failed(Failure::new(
        FailureKind::Reset,
        Sent::Maybe,
        "the connection broke",
    ))
}

fn refused_connection() -> Event {
    Event::Failed(Failure::new(
        FailureKind::Connect,
        Sent::No,
        "nobody listens",
    ))
}

impl Scenario {
    /// An operation that this process has just begun.
    fn begun(profile: Profile, policy: Policy) -> Scenario {
        Scenario::of(entry(&profile), profile, policy, true)
    }

    fn plain() -> Scenario {
        Scenario::begun(Profile::default(), Policy::new())
    }

    fn of(entry: Entry, profile: Profile, policy: Policy, surely_unsent: bool) -> Scenario {
        let task = Task {
            entry,
            body: Arc::from(&b"{}"[..]),
            profile,
            policy,
            flush_all: false,
            surely_unsent,
        };
        Scenario {
            machine: Machine::new(task),
            now: start(),
            written: Vec::new(),
        }
    }

    fn drive(&mut self) -> Wants {
        let entry = Entry {
            slot: 1,
            frozen: Arc::clone(&self.machine.frozen),
            progress: self.machine.progress.clone(),
        };
        self.tell(Event::Drive(receipt(&entry)))
    }

    /// Tells the machine what happened, and writes what it wants written.
    fn tell(&mut self, event: Event) -> Wants {
        let tick = Tick {
            now: self.now,
            roll: 7,
        };
        let mut decision = self.machine.step(event, tick);
        loop {
            decision = match decision {
                Decision::Record { progress, flush } => {
                    let expected = self
                        .written
                        .last()
                        .map_or(progress.revision - 1, |w| w.0.revision);
                    assert_eq!(
                        progress.revision,
                        expected + 1,
                        "every write is the next revision"
                    );
                    let key = self.machine.frozen.key.clone();
                    let receipt = Receipt::new(key, 1, progress.revision, Grade::Device);
                    self.written.push((*progress, flush));
                    self.machine.step(Event::Recorded(receipt), tick)
                }
                Decision::Send(permit) => {
                    return Wants::Send {
                        attempt: permit.attempt(),
                        url: permit.url().to_owned(),
                        timeout: permit.timeout(),
                    };
                }
                Decision::Probe(probe) => return Wants::Probe(probe.url().to_owned()),
                Decision::Sleep { wait, charge } => return Wants::Sleep { wait, charge },
                Decision::Reauthorise => return Wants::Reauthorise,
                Decision::Finish(end) => return Wants::Finish(end),
            };
        }
    }

    /// The same, sleeping out every wait on the way.
    fn tell_and_wait(&mut self, event: Event) -> Wants {
        let mut wants = self.tell(event);
        while let Wants::Sleep { wait, .. } = wants {
            self.pass(wait);
            wants = self.tell(Event::Woke { may_retry: true });
        }
        wants
    }

    fn pass(&mut self, time: Duration) {
        self.now.wall = self.now.wall + time;
        self.now.monotonic += time;
    }

    fn phase(&self) -> Phase {
        self.machine.progress.phase
    }

    fn last_written(&self) -> &(Progress, Flush) {
        self.written.last().expect("something was written")
    }
}

#[track_caller]
fn assert_sends(wants: &Wants, number: u32) {
    assert!(
        matches!(wants, Wants::Send { attempt, .. } if *attempt == number),
        "wanted attempt {number}, got {wants:?}"
    );
}

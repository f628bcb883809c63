//! One attempt: a permit from the machine, a transport, and a judge of its claims.

use super::server::{Request, Server, requests};
use samekey::clock::{Clock, Dice};
use samekey::entry::{Entry, Frozen, Grade, Kept, Owner, Progress, Receipt, Scope, WindowSource};
use samekey::machine::{Decision, Event, Machine, Permit, Probe, Task, Tick};
use samekey::platform::native::{HttpTransport, HttpTransportBuilder, OsDice, SystemClock};
use samekey::profile::Profile;
use samekey::retry::Policy;
use samekey::retry::classify::Complete;
use samekey::transport::Transport;
use samekey::{Failure, Fingerprint, Headers, Key, Method, Response, Sent};
use std::time::Duration;

pub(super) const BODY: &[u8] = br#"{"amount":1250}"#;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A request in the making.
pub(super) struct Draft {
    pub(super) key: Key,
    pub(super) method: Method,
    pub(super) headers: Headers,
    pub(super) body: Vec<u8>,
    pub(super) timeout: Duration,
}

impl Default for Draft {
    fn default() -> Self {
        Draft {
            key: Key::from_random(OsDice.key_bytes()),
            method: Method::Post,
            headers: Headers::new(),
            body: BODY.to_vec(),
            timeout: Duration::from_secs(60),
        }
    }
}

impl Draft {
    pub(super) fn with_body(body: impl Into<Vec<u8>>) -> Draft {
        Draft {
            body: body.into(),
            ..Draft::default()
        }
    }

    /// For tests of a time limit, against a server that never answers.
    pub(super) fn impatient() -> Draft {
        Draft {
            timeout: Duration::from_secs(1),
            ..Draft::default()
        }
    }

    pub(super) fn header(mut self, name: &str, value: &str) -> Draft {
        self.headers.push(name, value).unwrap();
        self
    }

    pub(super) fn machine(&self, url: &str) -> (Machine, Decision) {
        let now = SystemClock.now();
        let frozen = Frozen {
            key: self.key.clone(),
            scope: Scope::new("wire", None).unwrap(),
            intent: "wire/1".into(),
            generation: 0,
            method: self.method,
            url: url.into(),
            headers: self.headers.clone(),
            key_line: Some(("idempotency-key".into(), self.key.as_str().into())),
            body: Kept::Plain(self.body.clone().into()),
            body_digest: [0; 32],
            fingerprint: Fingerprint::from_bytes([0; 32]),
            profile: "default".into(),
            begun_at: now.wall,
            complete: Complete::default(),
        };
        let mut machine = Machine::new(Task {
            entry: Entry {
                slot: 1,
                frozen: frozen.into(),
                progress: Progress::ready(Owner(1), now.wall, DAY, WindowSource::Assumed),
            },
            body: self.body.clone().into(),
            profile: Profile::default(),
            policy: Policy::new().attempt_timeout(self.timeout),
            flush_all: false,
            surely_unsent: true,
        });
        let receipt = Receipt::new(self.key.clone(), 1, 1, Grade::None);
        let decision = machine.step(Event::Drive(receipt), tick());
        (machine, decision)
    }

    pub(super) fn permit(&self, url: &str) -> Permit {
        match self.machine(url).1 {
            Decision::Send(permit) => permit,
            other => panic!("no permit: {other:?}"),
        }
    }

    /// The probe that follows a 303 to `location`.
    pub(super) fn probe(&self, url: &str, location: &str) -> Probe {
        let (mut machine, _) = self.machine(url);
        let mut headers = Headers::new();
        headers.push("location", location).unwrap();
        let mut decision = machine.step(Event::Answered(Response::new(303, headers, "")), tick());
        loop {
            decision = match decision {
                Decision::Probe(probe) => return probe,
                Decision::Record { progress, .. } => {
                    let receipt = Receipt::new(self.key.clone(), 1, progress.revision, Grade::None);
                    machine.step(Event::Recorded(receipt), tick())
                }
                Decision::Sleep { .. } => machine.step(Event::Woke { may_retry: true }, tick()),
                other => panic!("no probe: {other:?}"),
            };
        }
    }
}

fn tick() -> Tick {
    Tick {
        now: SystemClock.now(),
        roll: 7,
    }
}

/// A transport that talks to the test's server and to nobody else.
pub(super) fn plain() -> HttpTransportBuilder {
    HttpTransport::builder().no_proxy()
}

pub(super) async fn send(
    transport: &HttpTransport,
    url: &str,
    draft: &Draft,
) -> Result<Response, Failure> {
    transport.send(draft.permit(url)).await
}

/// One attempt with a transport of its own, and everything that the server read.
pub(super) struct Told {
    pub(super) result: Result<Response, Failure>,
    pub(super) wire: Wire,
}

impl Told {
    pub(super) fn response(&self) -> &Response {
        self.result.as_ref().expect("an answer")
    }

    pub(super) fn failure(&self) -> &Failure {
        self.result.as_ref().expect_err("no answer")
    }
}

pub(super) async fn tell(server: Server, draft: &Draft) -> Told {
    let transport = plain().build().unwrap();
    let result = send(&transport, &server.url("/pay?token=hunter2"), draft).await;
    drop(transport);
    let wire = Wire::read(&server.finish().await);
    wire.judge(&result, draft).unwrap();
    Told { result, wire }
}

/// What a server read, connection by connection.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) requests: Vec<Vec<Request>>,
    pub(super) rest: Vec<usize>,
}

impl Wire {
    pub(super) fn read(connections: &[Vec<u8>]) -> Wire {
        let (requests, rest) = connections.iter().map(|bytes| requests(bytes)).unzip();
        Wire { requests, rest }
    }

    pub(super) fn all(&self) -> Vec<&Request> {
        self.requests.iter().flatten().collect()
    }

    /// Compares what a transport claims with what the server read.
    pub(super) fn judge(
        &self,
        result: &Result<Response, Failure>,
        draft: &Draft,
    ) -> Result<(), String> {
        for request in self.all() {
            if request.body != draft.body {
                return Err(format!("another body: {request:?}"));
            }
            if request.header("idempotency-key") != [draft.key.as_str()] {
                return Err(format!("another key: {request:?}"));
            }
        }
        if self.all().len() > 1 {
            return Err(format!("sent {} times", self.all().len()));
        }
        match result {
            Err(failure) => {
                let complete = self.all().len();
                if failure.sent == Sent::No && complete > 0 {
                    return Err(format!("{failure:?}, yet the server read a request"));
                }
                free_of_secrets(failure)
            }
            Ok(_) if self.all().is_empty() => Err("an answer without a request".into()),
            Ok(_) => Ok(()),
        }
    }
}

/// Queries, bodies and keys stay out of what people read.
pub(super) fn free_of_secrets(failure: &Failure) -> Result<(), String> {
    for secret in ["hunter2", "token", "amount", "1250"] {
        if failure.detail.contains(secret) {
            return Err(format!("{failure:?} tells {secret}"));
        }
    }
    Ok(())
}

#[test]
fn the_judge_notices_a_transport_that_lies() {
    use samekey::FailureKind;
    let draft = Draft::default();
    let key = draft.key.as_str();
    let length = BODY.len();
    let mut whole =
        format!("POST / HTTP/1.1\r\nidempotency-key: {key}\r\ncontent-length: {length}\r\n\r\n")
            .into_bytes();
    whole.extend_from_slice(BODY);
    let claim = |sent| Err(Failure::new(FailureKind::Connect, sent, "no connection"));
    let judge = |bytes: &[u8], sent| Wire::read(&[bytes.to_vec()]).judge(&claim(sent), &draft);

    assert!(judge(&whole, Sent::No).is_err(), "it was sent");
    assert!(judge(&whole, Sent::Maybe).is_ok());
    let cut = &whole[..whole.len() - 1];
    assert!(judge(cut, Sent::No).is_ok(), "a cut request is none");
    assert!(judge(&whole.repeat(2), Sent::Maybe).is_err(), "sent twice");
    let other = String::from_utf8_lossy(&whole).replace("1250", "9999");
    assert!(judge(other.as_bytes(), Sent::Maybe).is_err(), "other body");
    let other = String::from_utf8_lossy(&whole).replace(key, "another");
    assert!(judge(other.as_bytes(), Sent::Maybe).is_err(), "other key");
    let silent = Ok(Response::new(200, Headers::new(), ""));
    assert!(Wire::read(&[]).judge(&silent, &draft).is_err(), "made up");
    let tells = Failure::new(FailureKind::Reset, Sent::Maybe, "token=hunter2");
    assert!(Wire::read(&[]).judge(&Err(tells), &draft).is_err());
}

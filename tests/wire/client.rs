//! The same rows through a whole client: what follows each event, and one key on every request.

use super::attempt::{BODY, Wire, plain};
use super::server::{Conn, Gate, Request, Server};
use samekey::clock::Clock;
use samekey::platform::native::{HttpTransportBuilder, OsDice, SystemClock};
use samekey::seam::BoxFuture;
use samekey::{
    Client, Content, Error, ErrorKind, MemoryJournal, Now, Outcome, Parts, Phase, Policy, Reason,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A clock that skips every wait.
#[derive(Default)]
struct Skipping(Mutex<Duration>);

impl Clock for Skipping {
    fn now(&self) -> Now {
        let (now, skipped) = (SystemClock.now(), *self.0.lock().unwrap());
        Now {
            wall: now.wall + skipped,
            monotonic: now.monotonic + skipped,
        }
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        *self.0.lock().unwrap() += duration;
        Box::pin(tokio::task::yield_now())
    }
}

pub(super) struct Ran {
    pub(super) result: Result<Outcome, Error>,
    phase: Phase,
    wire: Wire,
}

impl Ran {
    fn outcome(&self) -> &Outcome {
        self.result.as_ref().unwrap()
    }

    fn reason(&self) -> Option<Reason> {
        match self.result.as_ref().map_err(Error::kind) {
            Err(ErrorKind::Attention(reason)) => Some(reason),
            _ => None,
        }
    }

    fn lines(&self) -> Vec<&str> {
        self.wire
            .all()
            .iter()
            .map(|request| request.line())
            .collect()
    }
}

/// One key, one body, and no claim that nothing was sent when something was.
fn judge(wire: &Wire, key: &str, nothing_was_sent: bool) -> Result<(), String> {
    for request in wire.all() {
        let keyless = request.line().starts_with("GET ") && request.body.is_empty();
        let keys = request.header("idempotency-key");
        if keyless && !keys.is_empty() {
            return Err(format!("a key on a GET: {request:?}"));
        }
        if !keyless && (keys != [key] || request.body != BODY) {
            return Err(format!("not the same request: {request:?}"));
        }
    }
    if nothing_was_sent && !wire.all().is_empty() {
        return Err("claims that nothing was sent".into());
    }
    Ok(())
}

pub(super) async fn run_with(server: Server, url: &str, builder: HttpTransportBuilder) -> Ran {
    run_within(Duration::from_secs(30), server, url, builder).await
}

async fn run_within(
    attempt: Duration,
    server: Server,
    url: &str,
    builder: HttpTransportBuilder,
) -> Ran {
    let clock = Arc::new(Skipping::default());
    let transport = builder.clock(clock.clone()).build().unwrap();
    let parts = Parts {
        journal: Arc::new(MemoryJournal::new()),
        transport: Arc::new(transport),
        clock,
        dice: Arc::new(OsDice),
    };
    let client = Client::with_parts("wire", parts)
        .policy(Policy::new().attempt_timeout(attempt))
        .build()
        .unwrap();
    let operation = client
        .operation("invoice/42/pay")
        .post(url)
        .body(BODY, "application/json")
        .begin()
        .await
        .unwrap();
    let result = operation.send().await;
    let (phase, key) = (operation.phase(), operation.key());
    drop((operation, client));
    let wire = Wire::read(&server.finish().await);
    // An answer is proof enough that something was sent; what is said of it then has its own test.
    let answered = !wire.all().is_empty() && matches!(phase, Phase::Attention(_));
    let unsent = result.as_ref().is_err_and(Error::nothing_was_sent);
    judge(&wire, key.as_str(), unsent && !answered).unwrap();
    Ran {
        result,
        phase,
        wire,
    }
}

async fn run(server: Server) -> Ran {
    let url = server.url("/pay");
    run_with(server, &url, plain()).await
}

const JSON: &str = "content-type: application/json\r\n";

async fn paid(conn: &mut Conn) {
    conn.answer("201 Created", JSON, r#"{"paid":true}"#).await;
}

/// What the first connection does; the ones after it are served well.
async fn at_first(first: fn(Conn) -> BoxFuture<'static, Option<Conn>>) -> Server {
    Server::start(move |number, mut conn| async move {
        if number == 0 {
            return first(conn).await;
        }
        while conn.try_read_request().await.is_some() {
            paid(&mut conn).await;
        }
        Some(conn)
    })
    .await
}

fn assert_paid_after(ran: &Ran, attempts: u32, sent: usize) {
    assert_eq!(ran.outcome().status(), 201);
    assert_eq!(ran.outcome().body(), Some(&br#"{"paid":true}"#[..]));
    assert_eq!(ran.outcome().attempts(), attempts);
    assert_eq!(ran.phase, Phase::Succeeded);
    assert_eq!(ran.wire.all().len(), sent);
}

#[tokio::test]
async fn t01_nobody_listens_and_nothing_was_sent() {
    let server = Server::start(|_, conn| async move { Some(conn) }).await;
    let url = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}/pay", listener.local_addr().unwrap())
    };
    let ran = run_with(server, &url, plain()).await;
    let error = ran.result.unwrap_err();
    assert!(error.nothing_was_sent(), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::NotApplied);
}

#[tokio::test]
async fn t02_no_tls_is_final_and_nothing_was_sent() {
    let server = Server::start(|_, mut conn| async move {
        conn.read(1).await;
        conn.write("this is not TLS at all").await;
        Some(conn)
    })
    .await;
    let url = server.https("/pay");
    let ran = run_with(server, &url, plain()).await;
    assert_eq!(ran.phase, Phase::Rejected);
    assert_eq!(ran.wire.requests.len(), 1, "no silent loop");
}

#[tokio::test]
async fn t05_a_reset_is_tried_again_under_the_same_key() {
    let server = at_first(|mut conn| {
        Box::pin(async move {
            conn.read_request().await;
            conn.reset().await;
            None
        })
    })
    .await;
    assert_paid_after(&run(server).await, 2, 2);
}

#[tokio::test]
async fn t07_a_broken_head_is_tried_again() {
    for head in ["HTTP/1.1 201 Crea", "garbage\r\n\r\n"] {
        let served = head;
        let server = Server::start(move |number, mut conn| async move {
            while conn.try_read_request().await.is_some() {
                if number == 0 {
                    conn.write(served).await;
                    conn.fin().await;
                    break;
                }
                paid(&mut conn).await;
            }
            Some(conn)
        })
        .await;
        assert_paid_after(&run(server).await, 2, 2);
    }
}

#[tokio::test]
async fn t08_an_error_without_its_body_keeps_its_status() {
    let server = at_first(|mut conn| {
        Box::pin(async move {
            conn.read_request().await;
            conn.write("HTTP/1.1 503 Busy\r\ncontent-length: 50\r\n\r\npart")
                .await;
            conn.fin().await;
            Some(conn)
        })
    })
    .await;
    assert_paid_after(&run(server).await, 2, 2);
}

#[tokio::test]
async fn a06_e29_e30_a_success_cut_short_is_asked_for_again() {
    let server = at_first(|mut conn| {
        Box::pin(async move {
            conn.read_request().await;
            conn.write("HTTP/1.1 201 Created\r\ncontent-length: 100\r\n\r\n{\"pa")
                .await;
            conn.fin().await;
            Some(conn)
        })
    })
    .await;
    assert_paid_after(&run(server).await, 2, 2);
}

#[tokio::test]
async fn a06_a_success_that_is_always_cut_short_is_a_success_with_a_lost_body() {
    let server = Server::start(|_, mut conn| async move {
        conn.read_request().await;
        conn.write("HTTP/1.1 201 Created\r\ncontent-length: 100\r\n\r\n{\"pa")
            .await;
        conn.fin().await;
        Some(conn)
    })
    .await;
    let ran = run(server).await;
    assert_eq!(ran.phase, Phase::Succeeded);
    assert_eq!(ran.outcome().content(), &Content::Lost);
}

#[tokio::test]
async fn t12_a_server_that_never_answers_is_asked_again() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |number, mut conn| {
        let gate = held.clone();
        async move {
            conn.read_request().await;
            if number == 0 {
                gate.wait().await;
            } else {
                paid(&mut conn).await;
                gate.open();
            }
            Some(conn)
        }
    })
    .await;
    let url = server.url("/pay");
    let ran = run_within(Duration::from_secs(2), server, &url, plain()).await;
    assert_paid_after(&ran, 2, 2);
}

#[tokio::test]
async fn e32_interim_answers_and_then_the_answer() {
    let server = at_first(|mut conn| {
        Box::pin(async move {
            conn.read_request().await;
            conn.write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n")
                .await;
            paid(&mut conn).await;
            Some(conn)
        })
    })
    .await;
    assert_paid_after(&run(server).await, 1, 1);
}

async fn always(status: &'static str, headers: String) -> Server {
    Server::start(move |_, mut conn| {
        let headers = headers.clone();
        async move {
            while conn.try_read_request().await.is_some() {
                conn.answer(status, &headers, "").await;
            }
            Some(conn)
        }
    })
    .await
}

#[tokio::test]
async fn a11_e42_a_302_is_neither_followed_nor_a_success() {
    for status in ["301 Moved", "302 Found"] {
        let ran = run(always(status, "location: /elsewhere\r\n".into()).await).await;
        assert_eq!(ran.lines(), ["POST /pay HTTP/1.1"]);
        assert_ne!(ran.phase, Phase::Succeeded);
    }
}

#[tokio::test]
async fn a12_e42_a_303_is_followed_by_a_get_without_key_and_body() {
    let server = Server::start(|_, mut conn| async move {
        while let Some(request) = conn.try_read_request().await {
            if request.line().starts_with("POST") {
                conn.answer("303 See Other", "location: /orders/7\r\n", "")
                    .await;
            } else {
                conn.answer("200 OK", JSON, r#"{"order":7}"#).await;
            }
        }
        Some(conn)
    })
    .await;
    let ran = run(server).await;
    assert_eq!(
        ran.lines(),
        ["POST /pay HTTP/1.1", "GET /orders/7 HTTP/1.1"]
    );
    assert_eq!(ran.outcome().body(), Some(&br#"{"order":7}"#[..]));
}

#[tokio::test]
async fn a13_e40_a_307_within_the_origin_keeps_method_body_and_key() {
    let server = Server::start(|_, mut conn| async move {
        while let Some(request) = conn.try_read_request().await {
            if request.line().contains("/new") {
                paid(&mut conn).await;
            } else {
                conn.answer("307 Temporary", "location: /new\r\n", "").await;
            }
        }
        Some(conn)
    })
    .await;
    let ran = run(server).await;
    assert_eq!(ran.lines(), ["POST /pay HTTP/1.1", "POST /new HTTP/1.1"]);
    assert_eq!(ran.phase, Phase::Succeeded);
}

#[tokio::test]
async fn e40_a_308_loop_ends() {
    let ran = run(always("308 Permanent", "location: /pay\r\n".into()).await).await;
    assert!(ran.result.is_err() || ran.phase == Phase::Rejected);
    assert_eq!(ran.wire.all().len(), 6, "the request and five hops");
}

#[tokio::test]
async fn a14_e41_another_origin_never_sees_the_key() {
    for status in ["307 Temporary", "308 Permanent", "303 See Other"] {
        let other = Server::start(|_, conn| async move { Some(conn) }).await;
        let ran = run(always(status, format!("location: {}\r\n", other.url("/"))).await).await;
        assert_eq!(ran.wire.all().len(), 1, "{status}");
        assert_eq!(other.connections(), 0, "{status}");
        assert_ne!(ran.phase, Phase::Succeeded);
        if status != "303 See Other" {
            assert_eq!(ran.reason(), Some(Reason::CrossOriginRedirect));
        }
    }
}

#[tokio::test]
#[ignore = "the client says of a request that was answered with a redirect that nothing was sent"]
async fn a14_a_request_that_was_answered_was_sent() {
    let elsewhere = "location: http://other.invalid/\r\n";
    let ran = run(always("307 Temporary", elsewhere.into()).await).await;
    assert_eq!(ran.wire.all().len(), 1);
    assert!(!ran.result.unwrap_err().nothing_was_sent());
}

#[tokio::test]
async fn a30_a_misdirected_request_goes_out_once_more_on_another_connection() {
    let server = at_first(|mut conn| {
        Box::pin(async move {
            while conn.try_read_request().await.is_some() {
                conn.answer("421 Misdirected", "", "").await;
            }
            Some(conn)
        })
    })
    .await;
    let ran = run(server).await;
    assert_paid_after(&ran, 2, 2);
    assert_eq!(ran.wire.requests.len(), 2, "two connections");
}

#[test]
fn the_judge_notices_a_client_that_lies() {
    let request = |line: &str, key: &str, body: &[u8]| Request {
        head: format!("{line}\r\nidempotency-key: {key}\r\n\r\n"),
        body: body.to_vec(),
    };
    let wire = |requests| Wire {
        requests: vec![requests],
        rest: vec![0],
    };
    let post = || request("POST / HTTP/1.1", "k", BODY);
    assert!(judge(&wire(vec![post(), post()]), "k", false).is_ok());
    assert!(
        judge(&wire(vec![post()]), "k", true).is_err(),
        "it was sent"
    );
    assert!(judge(&wire(vec![post()]), "other", false).is_err());
    let changed = request("POST / HTTP/1.1", "k", b"{}");
    assert!(judge(&wire(vec![post(), changed]), "k", false).is_err());
    let get = request("GET / HTTP/1.1", "k", b"");
    assert!(judge(&wire(vec![get]), "k", false).is_err(), "a keyed GET");
}

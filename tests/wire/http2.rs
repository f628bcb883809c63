//! HTTP/2, frame by frame: when a server says that it did not take a request.

use super::attempt::{Draft, free_of_secrets, plain, send};
use super::server::{Conn, Gate, Server};
use samekey::transport::Transport;
use samekey::{Content, Failure, FailureKind, Response, Sent};

const PREFACE: usize = 24;
const END_STREAM: u8 = 1;
const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

fn data(stream: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    frame(0, flags, stream, payload)
}

/// `:status 200`, from the static table.
fn ok(stream: u32) -> Vec<u8> {
    frame(1, 4, stream, &[0x88])
}

fn rst(stream: u32, reason: u32) -> Vec<u8> {
    frame(3, 0, stream, &reason.to_be_bytes())
}

fn settings(pairs: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (name, value) in pairs {
        payload.extend(name.to_be_bytes());
        payload.extend(value.to_be_bytes());
    }
    frame(4, 0, 0, &payload)
}

fn goaway(last: u32, reason: u32) -> Vec<u8> {
    let payload = [last.to_be_bytes(), reason.to_be_bytes()].concat();
    frame(7, 0, 0, &[&payload[..], b"token=hunter2"].concat())
}

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
}

impl Frame {
    fn ends_a_request(&self) -> bool {
        self.stream != 0 && self.kind <= 1 && self.flags & END_STREAM != 0
    }
}

async fn greet(conn: &mut Conn, pairs: &[(u16, u32)]) {
    conn.write(settings(pairs)).await;
    conn.read(PREFACE).await;
}

async fn next(conn: &mut Conn) -> Frame {
    let head = conn.read(9).await;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    conn.read(length as usize).await;
    Frame {
        kind: head[3],
        flags: head[4],
        stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
    }
}

/// Reads until a request is complete; its stream.
async fn request(conn: &mut Conn) -> u32 {
    loop {
        let frame = next(conn).await;
        if frame.ends_a_request() {
            return frame.stream;
        }
    }
}

/// The streams on which a whole request was read.
fn complete(bytes: &[u8]) -> Vec<u32> {
    let mut rest = bytes.get(PREFACE..).unwrap_or_default();
    let mut streams = Vec::new();
    while let Some(head) = rest.get(..9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let frame = Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
        };
        if frame.ends_a_request() {
            streams.push(frame.stream);
        }
        rest = rest.get(9 + length..).unwrap_or_default();
    }
    streams
}

/// A server that reads a whole request on stream 1, writes `reply`, and closes if told to.
async fn replying(reply: Vec<u8>, close: bool) -> Server {
    Server::start(move |_, mut conn| {
        let reply = reply.clone();
        async move {
            greet(&mut conn, &[]).await;
            request(&mut conn).await;
            conn.write(reply).await;
            if close {
                conn.fin().await;
            }
            Some(conn)
        }
    })
    .await
}

async fn told(reply: Vec<u8>, close: bool) -> Result<Response, Failure> {
    for body in [&b""[..], super::attempt::BODY] {
        let result = told_about(reply.clone(), close, body).await;
        if !body.is_empty() {
            return result;
        }
        let again = told_about(reply.clone(), close, body).await;
        let kind = |r: &Result<Response, Failure>| r.as_ref().map_err(|f| (f.kind, f.sent)).err();
        assert_eq!(kind(&result), kind(&again), "an empty body is no exception");
    }
    unreachable!()
}

async fn told_about(reply: Vec<u8>, close: bool, body: &[u8]) -> Result<Response, Failure> {
    let server = replying(reply, close).await;
    let transport = plain().http2_prior_knowledge().build().unwrap();
    let draft = Draft::with_body(body);
    let result = send(&transport, &server.url("/pay?token=hunter2"), &draft).await;
    drop(transport);
    let connections = server.finish().await;
    assert_eq!(connections.len(), 1, "sent once, on one connection");
    assert_eq!(complete(&connections[0]), [1]);
    if let Err(failure) = &result {
        free_of_secrets(failure).unwrap();
    }
    result
}

fn assert_failed(result: Result<Response, Failure>, kind: FailureKind, sent: Sent) {
    let failure = result.expect_err("no answer");
    assert_eq!((failure.kind, failure.sent), (kind, sent), "{failure:?}");
}

#[tokio::test]
async fn t09_e35_goaway_below_our_stream_is_the_servers_word_that_it_was_not_taken() {
    for reason in [NO_ERROR, INTERNAL_ERROR] {
        let result = told(goaway(0, reason), false).await;
        assert_failed(result, FailureKind::Refused, Sent::No);
        let result = told(goaway(0, reason), true).await;
        assert_failed(result, FailureKind::Refused, Sent::No);
    }
}

#[tokio::test]
async fn t10_a_refused_stream_was_not_taken() {
    let result = told(rst(1, REFUSED_STREAM), false).await;
    assert_failed(result, FailureKind::Refused, Sent::No);
}

#[tokio::test]
async fn t11_other_resets_and_closes_are_maybe() {
    for reason in [NO_ERROR, INTERNAL_ERROR, CANCEL] {
        let failure = told(rst(1, reason), false).await.unwrap_err();
        assert_eq!(failure.sent, Sent::Maybe, "{failure:?}");
    }
    let failure = told(Vec::new(), true).await.unwrap_err();
    assert_eq!(
        (failure.kind, failure.sent),
        (FailureKind::Reset, Sent::Maybe)
    );
}

#[tokio::test]
async fn t11_e35_goaway_at_or_above_our_stream_is_maybe() {
    for last in [1, 3, u32::MAX >> 1] {
        for reason in [NO_ERROR, INTERNAL_ERROR] {
            let failure = told(goaway(last, reason), true).await.unwrap_err();
            assert_eq!(failure.sent, Sent::Maybe, "{last} {failure:?}");
        }
    }
}

#[tokio::test]
async fn e35_goaway_above_our_stream_still_lets_the_answer_through() {
    let reply = [goaway(1, NO_ERROR), ok(1), data(1, END_STREAM, b"done")].concat();
    let answer = told(reply, false).await.unwrap();
    assert_eq!(
        (answer.status, answer.content),
        (200, Content::Whole(b"done".to_vec()))
    );
}

#[tokio::test]
async fn t08_a_stream_reset_after_the_head_leaves_the_status() {
    let reply = [ok(1), data(1, 0, b"do"), rst(1, INTERNAL_ERROR)].concat();
    let answer = told(reply, false).await.unwrap();
    assert_eq!((answer.status, answer.content), (200, Content::Lost));
}

#[tokio::test]
async fn t07_frames_that_make_no_sense() {
    let result = told(frame(1, 4, 1, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), false).await;
    assert_failed(result, FailureKind::BadHead, Sent::Maybe);
}

#[tokio::test]
async fn t09_t10_t11_e35_a_client_sends_again_under_the_same_key() {
    for reply in [
        goaway(0, NO_ERROR),
        rst(1, REFUSED_STREAM),
        goaway(1, NO_ERROR),
        Vec::new(),
    ] {
        let server = Server::start(move |number, mut conn| {
            let reply = reply.clone();
            async move {
                greet(&mut conn, &[]).await;
                if number == 0 {
                    request(&mut conn).await;
                    conn.write(reply).await;
                    // A refused stream leaves its connection usable, but this server is going away.
                    conn.fin().await;
                } else {
                    let stream = request(&mut conn).await;
                    conn.write([ok(stream), data(stream, END_STREAM, b"{}")].concat())
                        .await;
                }
                Some(conn)
            }
        })
        .await;
        let url = server.url("/pay");
        let ran = super::client::run_with(server, &url, plain().http2_prior_knowledge()).await;
        let outcome = ran.result.unwrap();
        // A retry that comes before the close is noticed costs one attempt more.
        assert_eq!(outcome.status(), 200);
        assert!((2..=3).contains(&outcome.attempts()));
    }
}

#[tokio::test]
async fn t03_a_request_that_waits_for_a_free_stream_is_not_sent() {
    let (busy, gate) = (Gate::new(), Gate::new());
    let (tell_busy, held) = (busy.clone(), gate.clone());
    let server = Server::start(move |_, mut conn| {
        let (busy, gate) = (tell_busy.clone(), held.clone());
        async move {
            const MAX_CONCURRENT_STREAMS: u16 = 3;
            greet(&mut conn, &[(MAX_CONCURRENT_STREAMS, 1)]).await;
            let (mut acknowledged, mut complete) = (false, false);
            while !(acknowledged && complete) {
                let frame = next(&mut conn).await;
                acknowledged |= frame.kind == 4 && frame.flags == 1;
                complete |= frame.ends_a_request();
            }
            busy.open();
            gate.wait().await;
            Some(conn)
        }
    })
    .await;
    let transport = plain().http2_prior_knowledge().build().unwrap();
    let first = tokio::spawn({
        let (transport, permit) = (transport.clone(), Draft::default().permit(&server.url("/")));
        async move { transport.send(permit).await }
    });
    busy.wait().await;
    let (url, draft) = (server.url("/"), Draft::impatient());
    // The second has been promised the next stream; the third is still in the queue behind it.
    let (second, third) = tokio::join!(
        send(&transport, &url, &draft),
        send(&transport, &url, &draft)
    );
    assert_failed(second, FailureKind::Timeout, Sent::Maybe);
    assert_failed(third, FailureKind::Queued, Sent::No);
    first.abort();
    drop(transport);
    gate.open();
    let connections = server.finish().await;
    assert_eq!(complete(&connections[0]), [1]);
}

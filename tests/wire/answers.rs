//! Answers, whole and in pieces.

use super::attempt::{BODY, Draft, Told, Wire, plain, send, tell};
use super::server::{Conn, Gate, Server};
use samekey::{Content, Headers, Method};

/// Reads a request, writes `answer` and closes.
async fn answering(answer: impl AsRef<[u8]>) -> Server {
    let answer = answer.as_ref().to_vec();
    Server::start(move |_, mut conn| {
        let answer = answer.clone();
        async move {
            conn.read_request().await;
            conn.write(answer).await;
            conn.fin().await;
            Some(conn)
        }
    })
    .await
}

async fn told(answer: impl AsRef<[u8]>) -> Told {
    tell(answering(answer).await, &Draft::default()).await
}

#[tokio::test]
async fn the_request_is_exactly_what_the_permit_holds() {
    let draft = Draft::default()
        .header("content-type", "application/json")
        .header("x-note", "one")
        .header("x-note", "two");
    let told = tell(
        answering("HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n").await,
        &draft,
    )
    .await;
    assert_eq!(told.response().status, 201);
    let [request] = told.wire.all()[..] else {
        panic!("{:?}", told.wire)
    };
    assert_eq!(request.line(), "POST /pay?token=hunter2 HTTP/1.1");
    assert_eq!(request.body, BODY);
    assert_eq!(request.header("idempotency-key"), [draft.key.as_str()]);
    assert_eq!(request.header("content-length"), [BODY.len().to_string()]);
    assert_eq!(request.header("x-note"), ["one", "two"]);
    let agent = concat!("samekey/", env!("CARGO_PKG_VERSION"));
    assert_eq!(request.header("user-agent"), [agent]);
    for absent in [
        "transfer-encoding",
        "expect",
        "accept-encoding",
        "referer",
        "cookie",
    ] {
        assert!(request.header(absent).is_empty(), "{absent}");
    }
}

#[tokio::test]
async fn an_empty_body_says_that_it_is_empty() {
    for method in [Method::Post, Method::Put, Method::Patch, Method::Delete] {
        let draft = Draft {
            method,
            ..Draft::with_body("")
        };
        let told = tell(answering("HTTP/1.1 204 No Content\r\n\r\n").await, &draft).await;
        assert_eq!(told.response().content, Content::Whole(Vec::new()));
        let [request] = told.wire.all()[..] else {
            panic!("{:?}", told.wire)
        };
        assert!(request.header("transfer-encoding").is_empty());
        if method != Method::Delete {
            assert_eq!(request.header("content-length"), ["0"], "{method}");
        }
    }
}

#[tokio::test]
async fn t08_a_body_lost_after_the_head_leaves_the_status() {
    for status in ["200 OK", "422 Unprocessable", "500 Internal"] {
        let told = told(format!(
            "HTTP/1.1 {status}\r\ncontent-length: 100\r\n\r\npart"
        ))
        .await;
        assert_eq!(told.response().status.to_string(), status[..3]);
        assert_eq!(told.response().content, Content::Lost);
    }
}

#[tokio::test]
async fn t08_a_body_that_does_not_come_in_time_leaves_the_status() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |_, mut conn| {
        let gate = held.clone();
        async move {
            conn.read_request().await;
            conn.write("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n")
                .await;
            gate.wait().await;
            Some(conn)
        }
    })
    .await;
    let draft = Draft::impatient();
    let transport = plain().build().unwrap();
    let answer = send(&transport, &server.url("/"), &draft).await.unwrap();
    assert_eq!((answer.status, answer.content), (200, Content::Lost));
    gate.open();
    drop(transport);
    assert_eq!(Wire::read(&server.finish().await).all().len(), 1);
}

#[tokio::test]
async fn a06_e29_a_success_cut_short_is_no_whole_success() {
    let told = told(format!(
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{}",
        "x".repeat(40)
    ))
    .await;
    assert!(told.response().is_success());
    assert_eq!(told.response().content, Content::Lost);
}

#[tokio::test]
async fn e30_chunks_without_the_last_one() {
    let told = told("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n").await;
    assert_eq!(told.response().content, Content::Lost);
}

#[tokio::test]
async fn e30_compressed_bytes_are_left_as_they_are() {
    let cut =
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\n\x1f\x8b\x08\x00";
    let told = told(cut).await;
    assert_eq!(
        told.response().content,
        Content::Whole(b"\x1f\x8b\x08\x00".to_vec())
    );
    assert_eq!(
        told.response().headers.get("content-encoding"),
        Some("gzip")
    );
}

#[tokio::test]
async fn e30_an_answer_over_the_cap() {
    let announced = "HTTP/1.1 200 OK\r\ncontent-length: 2000000\r\n\r\n".to_owned();
    let chunked = format!(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{}",
        format!("400\r\n{}\r\n", "x".repeat(1024)).repeat(1025)
    );
    let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(1024 * 1024 + 1));
    for answer in [announced, chunked, endless] {
        let told = told(&answer).await;
        assert_eq!(told.response().status, 200);
        assert_eq!(told.response().content, Content::TooLarge);
    }
    let fits = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(1024 * 1024));
    let told = told(fits).await;
    assert_eq!(
        told.response().content.bytes().map(<[u8]>::len),
        Some(1024 * 1024)
    );
}

#[tokio::test]
async fn e31_read_until_close_is_complete_by_rule() {
    let told = told("HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{\"cut\":").await;
    assert_eq!(
        told.response().content,
        Content::Whole(b"{\"cut\":".to_vec())
    );
}

#[tokio::test]
async fn e32_interim_answers_are_not_the_answer() {
    let hint = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    let told = told(format!(
        "HTTP/1.1 100 Continue\r\n\r\n{hint}{hint}HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\nok"
    ))
    .await;
    assert_eq!(told.response().status, 201);
    assert_eq!(told.response().content, Content::Whole(b"ok".to_vec()));
}

#[tokio::test]
async fn e34_an_answer_that_comes_while_the_body_is_still_being_written() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |_, mut conn: Conn| {
        let gate = held.clone();
        async move {
            conn.read_head().await;
            conn.answer("413 Content Too Large", "connection: close\r\n", "no")
                .await;
            gate.wait().await;
            conn.reset().await;
            None
        }
    })
    .await;
    // More than the socket's buffers hold: the client is stuck in the middle of its body.
    let draft = Draft::with_body(vec![b'x'; 64 * 1024 * 1024]);
    let transport = plain().build().unwrap();
    let answer = send(&transport, &server.url("/"), &draft).await.unwrap();
    assert_eq!(answer.status, 413);
    assert_eq!(answer.content, Content::Whole(b"no".to_vec()));
    gate.open();
    drop(transport);
    let wire = Wire::read(&server.finish().await);
    assert!(wire.all().is_empty(), "the body was never read");
}

#[tokio::test]
async fn a30_after_a_misdirected_request_the_next_one_has_another_connection() {
    let server = Server::start(|number, mut conn| async move {
        while conn.try_read_request().await.is_some() {
            let status = if number == 0 {
                "421 Misdirected"
            } else {
                "200 OK"
            };
            conn.answer(status, "", "").await;
        }
        Some(conn)
    })
    .await;
    let transport = plain().build().unwrap();
    let draft = Draft::default();
    let url = server.url("/");
    assert_eq!(send(&transport, &url, &draft).await.unwrap().status, 421);
    for _ in 0..5 {
        tokio::task::yield_now().await;
        assert_eq!(send(&transport, &url, &draft).await.unwrap().status, 200);
    }
    drop(transport);
    let wire = Wire::read(&server.finish().await);
    assert_eq!(wire.requests[0].len(), 1);
}

#[tokio::test]
async fn header_lines_arrive_in_order_and_odd_bytes_do_no_harm() {
    let told =
        told(b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nx-odd: caf\xe9\r\ncontent-length: 0\r\n\r\n")
            .await;
    let headers: &Headers = &told.response().headers;
    assert_eq!(headers.get_all("x-a").collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(headers.get("x-odd"), Some("caf\u{fffd}"));
}

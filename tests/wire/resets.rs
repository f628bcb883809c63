//! Connections that end before an answer: always maybe.

use super::attempt::{Draft, Wire, plain, send, tell};
use super::server::{Gate, Server};
use samekey::transport::Transport;
use samekey::{FailureKind, Sent};

#[tokio::test]
async fn t04_a_reset_within_the_head() {
    let server = Server::start(|_, mut conn| async move {
        conn.read(20).await;
        conn.reset().await;
        None
    })
    .await;
    // A head that does not fit into the socket's buffers.
    let draft = Draft::default().header("x-padding", &"p".repeat(16 * 1024 * 1024));
    let told = tell(server, &draft).await;
    let failure = told.failure();
    assert_eq!(failure.sent, Sent::Maybe);
    assert!(
        matches!(failure.kind, FailureKind::Write | FailureKind::Reset),
        "{failure:?}"
    );
    assert!(told.wire.all().is_empty());
}

#[tokio::test]
async fn t05_a_reset_after_the_request() {
    let server = Server::start(|_, mut conn| async move {
        conn.read_request().await;
        conn.reset().await;
        None
    })
    .await;
    let told = tell(server, &Draft::default()).await;
    assert_eq!(told.failure().kind, FailureKind::Reset);
    assert_eq!(told.failure().sent, Sent::Maybe);
    assert_eq!(told.wire.all().len(), 1);
}

#[tokio::test]
async fn t05_a_close_after_the_request() {
    let server = Server::start(|_, mut conn| async move {
        conn.read_request().await;
        conn.fin().await;
        Some(conn)
    })
    .await;
    let told = tell(server, &Draft::default()).await;
    assert_eq!(told.failure().kind, FailureKind::Reset);
    assert_eq!(told.failure().sent, Sent::Maybe);
    assert_eq!(told.wire.all().len(), 1);
}

#[tokio::test]
async fn t06_a_reused_connection_resets_and_the_next_attempt_has_a_fresh_one() {
    let server = Server::start(|_, mut conn| async move {
        conn.read_request().await;
        conn.answer("200 OK", "", "").await;
        // Only a connection that is used again is worth a reset.
        if conn.try_read_request().await.is_some() {
            conn.reset().await;
            return None;
        }
        Some(conn)
    })
    .await;
    let transport = plain().build().unwrap();
    let mut tries = 0;
    // Until the pool has its connection back, a request goes out on a fresh one.
    let (draft, failure) = loop {
        let draft = Draft::default();
        match send(&transport, &server.url("/"), &draft).await {
            Ok(_) => tries += 1,
            Err(failure) => break (draft, failure),
        }
        assert!(tries < 1000, "never reused");
        tokio::task::yield_now().await;
    };
    assert_eq!(failure.kind, FailureKind::StaleConnection);
    assert_eq!(failure.sent, Sent::Maybe);
    let before = server.connections();
    send(&transport, &server.url("/"), &draft).await.unwrap();
    assert_eq!(server.connections(), before + 1, "a fresh connection");
    drop(transport);
    let wire = Wire::read(&server.finish().await);
    let same = |r: &&super::server::Request| r.header("idempotency-key") == [draft.key.as_str()];
    assert_eq!(wire.all().into_iter().filter(same).count(), 2, "once each");
}

#[tokio::test]
async fn t07_a_head_that_breaks_off() {
    for cut in [
        "HTTP/1.1 20",
        "HTTP/1.1 200 OK\r\ncontent-le",
        "HTTP/1.1 200 OK\r\n",
    ] {
        let server = Server::start(move |_, mut conn| async move {
            conn.read_request().await;
            conn.write(cut).await;
            conn.fin().await;
            Some(conn)
        })
        .await;
        let told = tell(server, &Draft::default()).await;
        assert_eq!(told.failure().sent, Sent::Maybe, "{cut:?}");
        assert!(
            matches!(
                told.failure().kind,
                FailureKind::Reset | FailureKind::BadHead
            ),
            "{:?}",
            told.failure()
        );
    }
}

#[tokio::test]
async fn t07_a_head_that_makes_no_sense() {
    for nonsense in [
        "NONSENSE\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "\u{16}\u{3}\u{1} \r\n\r\n",
    ] {
        let server = Server::start(move |_, mut conn| async move {
            conn.read_request().await;
            conn.write(nonsense).await;
            Some(conn)
        })
        .await;
        let told = tell(server, &Draft::default()).await;
        assert_eq!(told.failure().kind, FailureKind::BadHead, "{nonsense:?}");
        assert_eq!(told.failure().sent, Sent::Maybe);
    }
}

#[tokio::test]
async fn t12_no_answer_in_time() {
    for body in [super::attempt::BODY.to_vec(), Vec::new()] {
        let gate = Gate::new();
        let held = gate.clone();
        let server = Server::start(move |_, mut conn| {
            let gate = held.clone();
            async move {
                conn.read_request().await;
                gate.wait().await;
                Some(conn)
            }
        })
        .await;
        let draft = Draft {
            body,
            ..Draft::impatient()
        };
        let transport = plain().build().unwrap();
        let result = send(&transport, &server.url("/"), &draft).await;
        let failure = result.as_ref().unwrap_err();
        assert_eq!(
            (failure.kind, failure.sent),
            (FailureKind::Timeout, Sent::Maybe)
        );
        gate.open();
        drop(transport);
        let wire = Wire::read(&server.finish().await);
        wire.judge(&result, &draft).unwrap();
        assert_eq!(wire.all().len(), 1);
    }
}

#[tokio::test]
async fn t12_an_attempt_that_the_caller_drops_is_not_sent_again() {
    let (read, gate) = (Gate::new(), Gate::new());
    let (tell_read, held) = (read.clone(), gate.clone());
    let server = Server::start(move |_, mut conn| {
        let (read, gate) = (tell_read.clone(), held.clone());
        async move {
            conn.read_request().await;
            read.open();
            gate.wait().await;
            Some(conn)
        }
    })
    .await;
    let transport = plain().build().unwrap();
    let draft = Draft::default();
    tokio::select! {
        result = transport.send(draft.permit(&server.url("/"))) => panic!("{result:?}"),
        () = read.wait() => (),
    }
    gate.open();
    drop(transport);
    let wire = Wire::read(&server.finish().await);
    assert_eq!(wire.all().len(), 1);
}

#[tokio::test]
async fn e32_a_hundred_and_then_a_reset() {
    let server = Server::start(|_, mut conn| async move {
        conn.read_request().await;
        conn.write("HTTP/1.1 100 Continue\r\n\r\n").await;
        conn.fin().await;
        Some(conn)
    })
    .await;
    let told = tell(server, &Draft::default()).await;
    assert_eq!(told.failure().kind, FailureKind::Reset);
    assert_eq!(told.failure().sent, Sent::Maybe);
}

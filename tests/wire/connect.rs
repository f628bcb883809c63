//! Attempts that never met a connection.

use super::attempt::{BODY, Draft, Wire, plain, send, tell};
use super::server::{Gate, Server};
use samekey::{FailureKind, Sent};
use std::time::Duration;
use tokio::net::TcpListener;

#[tokio::test]
async fn t01_a_port_where_nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "http://{}/pay?token=hunter2",
        listener.local_addr().unwrap()
    );
    drop(listener);
    let transport = plain().build().unwrap();
    let failure = send(&transport, &url, &Draft::default()).await.unwrap_err();
    assert_eq!(
        (failure.kind, failure.sent),
        (FailureKind::Connect, Sent::No)
    );
    assert!(failure.detail.contains("connection refused"), "{failure}");
    super::attempt::free_of_secrets(&failure).unwrap();
}

#[tokio::test]
async fn t01_a_name_without_an_address() {
    let transport = plain().build().unwrap();
    let url = "http://no-such-host.invalid/pay?token=hunter2";
    let failure = send(&transport, url, &Draft::default()).await.unwrap_err();
    assert_eq!(
        (failure.kind, failure.sent),
        (FailureKind::Connect, Sent::No)
    );
    super::attempt::free_of_secrets(&failure).unwrap();
}

/// A server that takes the connection and stays silent within the TLS handshake: as far as a
/// request is concerned, there is no connection.
async fn silent(gate: &Gate) -> Server {
    let gate = gate.clone();
    Server::start(move |_, conn| {
        let gate = gate.clone();
        async move {
            gate.wait().await;
            Some(conn)
        }
    })
    .await
}

#[tokio::test]
async fn t01_a_connection_that_takes_too_long() {
    let gate = Gate::new();
    let server = silent(&gate).await;
    let transport = plain()
        .connect_timeout(Duration::from_millis(200))
        .build()
        .unwrap();
    let draft = Draft::default();
    let result = send(&transport, &server.https("/"), &draft).await;
    let failure = result.as_ref().unwrap_err();
    assert_eq!(
        (failure.kind, failure.sent),
        (FailureKind::Connect, Sent::No)
    );
    assert!(failure.detail.contains("too long"), "{failure}");
    drop(transport);
    gate.open();
    let bytes = server.finish().await;
    Wire::read(&bytes).judge(&result, &draft).unwrap();
    assert!(!contains(&bytes.concat(), BODY));
}

#[tokio::test]
async fn t03_an_attempt_that_ends_while_it_is_dialling() {
    let gate = Gate::new();
    let server = silent(&gate).await;
    let transport = plain()
        .connect_timeout(Duration::from_secs(600))
        .build()
        .unwrap();
    for draft in [
        Draft::impatient(),
        Draft {
            body: Vec::new(),
            ..Draft::impatient()
        },
    ] {
        let failure = send(&transport, &server.https("/"), &draft)
            .await
            .unwrap_err();
        assert_eq!(
            (failure.kind, failure.sent),
            (FailureKind::Connect, Sent::No)
        );
    }
    drop(transport);
    gate.open();
    assert!(!contains(&server.finish().await.concat(), BODY));
}

#[tokio::test]
async fn t03_an_idle_connection_that_closed_is_replaced_before_anything_is_sent() {
    // Whether the pool has noticed the close is a matter of timing; the count never is.
    for _ in 0..20 {
        let server = Server::start(|_, mut conn| async move {
            conn.read_request().await;
            conn.answer("200 OK", "", "").await;
            conn.fin().await;
            Some(conn)
        })
        .await;
        let transport = plain().build().unwrap();
        let first = Draft::default();
        send(&transport, &server.url("/"), &first).await.unwrap();
        let second = Draft::default();
        let result = send(&transport, &server.url("/"), &second).await;
        drop(transport);
        let mut wire = Wire::read(&server.finish().await);
        wire.requests[0].remove(0);
        wire.judge(&result, &second).unwrap();
        assert_eq!(wire.all().len(), 1, "{result:?}");
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_written_is_not_sent() {
    for draft in [
        Draft::default().header("content-length", "3"),
        Draft::default().header("transfer-encoding", "chunked"),
        Draft::default().header("expect", "100-continue"),
    ] {
        let server = Server::start(|_, conn| async move { Some(conn) }).await;
        let told = tell(server, &draft).await;
        assert_eq!(told.failure().kind, FailureKind::Unsendable);
        assert_eq!(told.failure().sent, Sent::No);
        assert!(told.wire.requests.is_empty());
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

//! The faults that only HTTP/2 has, seen by a client that speaks it without TLS.

use crate::client::key;
use crate::proof::quiet;
use bytes::Bytes;
use h2::Reason;
use samekey_mock::Mock;
use tokio::net::TcpStream;

struct Seen {
    status: Option<u16>,
    stream: Option<h2::Error>,
    connection: Option<h2::Error>,
}

async fn post(mock: &Mock, key: &str, fault: Option<&str>) -> Seen {
    let socket = TcpStream::connect(mock.address()).await.unwrap();
    let (client, connection) = h2::client::handshake(socket).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    let mut request = hyper::Request::post(format!("{}/orders", mock.url()))
        .header("idempotency-key", key)
        .header("authorization", "Bearer acme")
        .header("content-type", "application/json");
    if let Some(fault) = fault {
        request = request.header("mock-fault", fault);
    }
    let (answer, mut body) = client
        .send_request(request.body(()).unwrap(), false)
        .unwrap();
    body.send_data(Bytes::from_static(b"{\"item\":\"tea\"}"), true)
        .unwrap();
    let answer = answer.await;
    drop((client, body));
    let (status, stream) = match answer {
        Ok(answer) => (Some(answer.status().as_u16()), None),
        Err(error) => (None, Some(error)),
    };
    let connection = connection.await.unwrap().err();
    Seen {
        status,
        stream,
        connection,
    }
}

#[tokio::test]
async fn m31_http2_works_without_faults() {
    let mock = quiet().start().await.unwrap();
    assert_eq!(post(&mock, &key(1), None).await.status, Some(201));
    assert_eq!(mock.ledger().requests()[0].http, "2");
}

#[tokio::test]
async fn m31_refused_stream_is_surely_not_processed() {
    let mock = quiet().start().await.unwrap();
    let seen = post(&mock, &key(1), Some("refused-stream")).await;
    let error = seen.stream.unwrap();
    assert_eq!(
        (error.reason(), error.is_remote()),
        (Some(Reason::REFUSED_STREAM), true)
    );
    assert_eq!(mock.ledger().effects().len(), 0);
}

#[tokio::test]
async fn m31_goaway_below_the_stream_is_surely_not_processed() {
    let mock = quiet().start().await.unwrap();
    let seen = post(&mock, &key(1), Some("goaway")).await;
    let error = seen.stream.unwrap();
    assert!(error.is_go_away() && error.is_remote(), "{error:?}");
    assert_eq!(mock.ledger().effects().len(), 0);
}

#[tokio::test]
async fn m31_goaway_above_the_stream_leaves_it_open_what_happened() {
    let mock = quiet().start().await.unwrap();
    let seen = post(&mock, &key(1), Some("goaway-after-commit")).await;
    let error = seen.stream.unwrap();
    assert!(
        !error.is_go_away(),
        "the stream was below the mark: {error:?}"
    );
    assert_eq!(mock.ledger().effects().len(), 1);
    assert_eq!(post(&mock, &key(1), None).await.status, Some(201));
    assert_eq!(mock.ledger().effects().len(), 1);
    let _ = seen.connection;
}

#[tokio::test]
async fn m31_a_dropped_answer_resets_the_stream_only() {
    let mock = quiet().start().await.unwrap();
    let seen = post(&mock, &key(1), Some("drop-after-commit")).await;
    let error = seen.stream.unwrap();
    assert!(
        error.is_reset() && error.reason() != Some(Reason::REFUSED_STREAM),
        "{error:?}"
    );
    assert_eq!(mock.ledger().effects().len(), 1);
}

//! Redirects are answers: the transport follows none.

use super::attempt::{Draft, Wire, plain, send, tell};
use super::server::Server;
use samekey::transport::Transport;

async fn redirecting(status: &'static str, location: String) -> Server {
    Server::start(move |_, mut conn| {
        let location = format!("location: {location}\r\n");
        async move {
            while conn.try_read_request().await.is_some() {
                conn.answer(status, &location, "").await;
            }
            Some(conn)
        }
    })
    .await
}

#[tokio::test]
async fn a11_a12_a13_e40_e42_no_redirect_is_followed_on_its_own() {
    for status in [
        "301 Moved",
        "302 Found",
        "303 See Other",
        "307 Temporary",
        "308 Permanent",
    ] {
        let server = redirecting(status, "/elsewhere".into()).await;
        let told = tell(server, &Draft::default()).await;
        assert_eq!(told.response().status.to_string(), status[..3]);
        assert_eq!(told.response().headers.get("location"), Some("/elsewhere"));
        let [request] = told.wire.all()[..] else {
            panic!("{:?}", told.wire)
        };
        assert_eq!(request.line(), "POST /pay?token=hunter2 HTTP/1.1");
    }
}

#[tokio::test]
async fn a14_e41_another_origin_never_hears_of_it() {
    for status in [
        "301 Moved",
        "302 Found",
        "303 See Other",
        "307 Temporary",
        "308 Permanent",
    ] {
        let other = Server::start(|_, conn| async move { Some(conn) }).await;
        let server = redirecting(status, other.url("/stolen")).await;
        let draft = Draft::default().header("authorization", "Bearer hunter2");
        let told = tell(server, &draft).await;
        assert_eq!(told.response().status.to_string(), status[..3]);
        assert_eq!(other.connections(), 0);
    }
}

#[tokio::test]
async fn a12_e42_a_probe_is_a_get_without_key_and_body() {
    let server = Server::start(|_, mut conn| async move {
        conn.read_request().await;
        conn.answer("200 OK", "", "done").await;
        Some(conn)
    })
    .await;
    let transport = plain().build().unwrap();
    let probe = Draft::default().probe(&server.url("/pay"), "/orders/7?full=1");
    let answer = transport.probe(probe).await.unwrap();
    assert_eq!(answer.content.bytes(), Some(&b"done"[..]));
    drop(transport);
    let wire = Wire::read(&server.finish().await);
    let [request] = wire.all()[..] else {
        panic!("{wire:?}")
    };
    assert_eq!(request.line(), "GET /orders/7?full=1 HTTP/1.1");
    assert!(request.header("idempotency-key").is_empty());
    assert!(request.header("content-length").is_empty());
    assert!(request.body.is_empty());
}

#[tokio::test]
async fn a13_e40_the_same_request_to_the_new_url() {
    let server = Server::start(|_, mut conn| async move {
        while let Some(request) = conn.try_read_request().await {
            if request.line().contains("/new") {
                conn.answer("201 Created", "", "").await;
            } else {
                conn.answer("307 Temporary", "location: /new\r\n", "").await;
            }
        }
        Some(conn)
    })
    .await;
    let transport = plain().build().unwrap();
    let draft = Draft::default();
    assert_eq!(
        send(&transport, &server.url("/old"), &draft)
            .await
            .unwrap()
            .status,
        307
    );
    assert_eq!(
        send(&transport, &server.url("/new"), &draft)
            .await
            .unwrap()
            .status,
        201
    );
    drop(transport);
    let wire = Wire::read(&server.finish().await);
    let [old, new] = wire.all()[..] else {
        panic!("{wire:?}")
    };
    assert_eq!(old.body, new.body);
    assert_eq!(old.header("idempotency-key"), new.header("idempotency-key"));
}

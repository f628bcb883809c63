//! Requests that go through a proxy: the environment of a test cannot be steered, the transport can.

use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const ANSWER: &str = "HTTP/1.1 201 Created\r\ncontent-length: 4\r\n\r\npaid";

/// A proxy that answers each connection with these texts in turn, one for each head that it reads, and keeps
/// what it read. After the last it reads once more.
async fn proxy(answers: &[&str]) -> (String, tokio::task::JoinHandle<Vec<u8>>) {
    let answers: Vec<String> = answers.iter().map(|&answer| answer.into()).collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let seen = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut seen = Vec::new();
        for answer in answers {
            read_head(&mut stream, &mut seen).await;
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        let mut rest = [0; 1024];
        let length = stream.read(&mut rest).await.unwrap_or(0);
        seen.extend_from_slice(&rest[..length]);
        seen
    });
    (address, seen)
}

async fn read_head(stream: &mut TcpStream, seen: &mut Vec<u8>) {
    let from = seen.len();
    while !seen[from..].ends_with(b"\r\n\r\n") {
        seen.push(stream.read_u8().await.unwrap());
    }
}

fn transport(proxies: Matcher) -> HttpTransport {
    HttpTransport::builder().build_with(Some(proxies)).unwrap()
}

async fn send(transport: &HttpTransport, url: &str) -> Result<Response, Failure> {
    let place = transport.places.of(url)?;
    let trace = Arc::new(Trace::default());
    let (guard, bytes): (_, Arc<[u8]>) = (Arc::clone(&transport.guard), b"pay!".as_slice().into());
    let body = GuardedBody::new(&bytes, Arc::clone(&trace), guard, Duration::MAX);
    let (method, lines) = (::http::Method::POST, [("x-from", "test")]);
    let request = request(method, &place, lines.into_iter(), Outgoing::Action(body))?;
    let patience = Duration::from_secs(20);
    transport.exchange(request, patience, &trace, &place).await
}

async fn ask(transport: &HttpTransport, url: &str) -> Result<Response, Failure> {
    let place = transport.places.of(url)?;
    let (method, lines) = (::http::Method::GET, [("x-from", "test")]);
    let request = request(method, &place, lines.into_iter(), Outgoing::Question)?;
    let (trace, patience) = (Trace::default(), Duration::from_secs(20));
    transport.exchange(request, patience, &trace, &place).await
}

fn text(seen: &[u8]) -> String {
    String::from_utf8_lossy(seen).to_lowercase()
}

#[tokio::test]
async fn a_proxy_that_reads_requests_is_told_where_they_go_and_who_asks() {
    let (address, seen) = proxy(&[ANSWER]).await;
    let proxies = Matcher::builder()
        .http(format!("http://me:secret@{address}"))
        .build();
    let transport = transport(proxies);
    let answer = send(&transport, "http://shop.example:8080/pay?x=1").await;
    assert_eq!(answer.unwrap().status, 201);
    drop(transport);
    let seen = text(&seen.await.unwrap());
    let first = "post http://shop.example:8080/pay?x=1 http/1.1\r\n";
    assert!(seen.starts_with(first), "{seen}");
    assert!(seen.contains("host: shop.example:8080\r\n"), "{seen}");
    assert!(seen.contains("content-length: 4\r\n"), "{seen}");
    assert!(seen.ends_with("\r\n\r\npay!"), "{seen}");
    assert!(seen.contains("x-from: test\r\n"), "{seen}");
    let shown = "proxy-authorization: basic bwu6c2vjcmv0\r\n";
    assert!(seen.contains(shown), "{seen}");
}

#[tokio::test]
async fn what_is_secret_goes_through_a_tunnel_and_the_proxy_reads_none_of_it() {
    let (address, seen) = proxy(&["HTTP/1.1 200 OK\r\n\r\n"]).await;
    let proxies = Matcher::builder()
        .https(format!("http://me:secret@{address}"))
        .build();
    let failure = send(&transport(proxies), "https://shop.example/pay").await;
    assert_eq!(failure.unwrap_err().sent, Sent::No, "the handshake failed");
    let seen = seen.await.unwrap();
    let end = seen.windows(4).position(|at| at == b"\r\n\r\n").unwrap() + 4;
    let head = text(&seen[..end]);
    assert!(head.starts_with("connect shop.example:443 http/1.1\r\n"));
    let shown = "proxy-authorization: basic bwu6c2vjcmv0\r\n";
    assert!(head.contains(shown), "{head}");
    assert!(head.contains("user-agent: samekey/"), "{head}");
    assert!(!head.contains("x-from"), "{head}");
    assert_eq!(seen[end], 0x16, "a handshake and nothing before it");
}

#[tokio::test]
async fn t01_a_proxy_that_refuses_lets_nothing_out_and_its_credentials_are_not_told() {
    for refusal in [
        "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
        "HTTP/1.1 502 Bad Gateway\r\n\r\n",
        "what?\r\n\r\n",
    ] {
        let (address, seen) = proxy(&[refusal]).await;
        let proxies = Matcher::builder()
            .https(format!("http://me:secret@{address}"))
            .build();
        let failure = send(&transport(proxies), "https://shop.example/pay").await;
        let failure = failure.unwrap_err();
        assert_eq!(failure.sent, Sent::No, "{refusal}");
        assert_eq!(failure.kind, FailureKind::Connect, "{refusal}");
        let told = format!("{failure:?}");
        assert!(told.contains("through the proxy: it was not let"), "{told}");
        assert!(!told.contains("secret") && !told.contains("bWU6"), "{told}");
        seen.await.unwrap();
    }
}

#[tokio::test]
async fn t01_a_proxy_where_nobody_listens_is_not_taken_for_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = listener.local_addr().unwrap();
    drop(listener);
    let proxies = Matcher::builder().all(format!("http://{nobody}")).build();
    let transport = transport(proxies);
    for url in ["http://shop.example/pay", "https://shop.example/pay"] {
        let failure = send(&transport, url).await.unwrap_err();
        assert_eq!(failure.sent, Sent::No, "{url}");
        let told = format!("{failure:?}");
        assert!(
            told.contains("through the proxy: connection refused"),
            "{told}"
        );
    }
}

#[tokio::test]
async fn a_proxy_that_does_not_speak_http_is_named_as_the_reason() {
    let proxies = Matcher::builder().all("socks5://127.0.0.1:1").build();
    let failure = ask(&transport(proxies), "http://shop.example/pay").await;
    let failure = failure.unwrap_err();
    assert_eq!(failure.sent, Sent::No);
    let told = format!("{failure:?}");
    assert!(told.contains("does not speak HTTP"), "{told}");
}

#[tokio::test]
async fn a_host_that_is_exempt_is_asked_directly() {
    let (address, seen) = proxy(&[ANSWER]).await;
    let proxies = Matcher::builder()
        .all("http://127.0.0.1:1")
        .no("127.0.0.1")
        .build();
    let answer = ask(&transport(proxies), &format!("http://{address}/pay")).await;
    assert_eq!(answer.unwrap().status, 201);
    let seen = text(&seen.await.unwrap());
    assert!(seen.starts_with("get /pay http/1.1\r\n"), "{seen}");
    assert!(!seen.contains("proxy-authorization"), "{seen}");
}

#[tokio::test]
async fn lines_are_sent_as_they_are_written_and_what_is_missing_is_added() {
    let (address, seen) = proxy(&[ANSWER]).await;
    let transport = transport(Matcher::builder().build());
    let place = transport
        .places
        .of(&format!("http://{address}?c=<d>#e"))
        .unwrap();
    let lines = [("user-agent", "shop/1")];
    let method = ::http::Method::GET;
    let request = request(method, &place, lines.into_iter(), Outgoing::Question).unwrap();
    let (trace, patience) = (Trace::default(), Duration::from_secs(20));
    let answer = transport.exchange(request, patience, &trace, &place).await;
    assert_eq!(answer.unwrap().status, 201);
    drop(transport);
    let seen = text(&seen.await.unwrap());
    let first = "get /?c=%3cd%3e http/1.1\r\n";
    assert!(seen.starts_with(first), "{seen}");
    assert!(seen.contains("user-agent: shop/1\r\n"), "{seen}");
    assert!(seen.contains("accept: */*\r\n"), "{seen}");
    assert!(!seen.contains("samekey/"), "{seen}");
}

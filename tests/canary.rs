//! I9: secrets are planted everywhere they may pass, and then looked for everywhere they must not be.
//!
//! Looked through: `Debug` and `Display` of what the crate hands out, whole chains of errors, spans
//! and events down to TRACE, and every byte of every file beside the journal.
#![cfg(all(
    feature = "native",
    feature = "sqlite",
    feature = "json",
    feature = "sealing",
    feature = "tracing"
))]
#![expect(clippy::unwrap_used, reason = "clippy knows tests, not their helpers")]

use samekey::platform::native::HttpTransport;
use samekey::{Asked, Body, Client, CredentialsError, Headers, Policy, SealingKey, SqliteJournal};
use serde_json::json;
use std::error::Error as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;
use tracing_subscriber::fmt::MakeWriter;

/// All that was logged by this program.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

#[derive(Clone)]
struct Logbook;

impl Write for Logbook {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Logbook {
    type Writer = Logbook;

    fn make_writer(&self) -> Logbook {
        Logbook
    }
}

fn log_everything() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(Logbook)
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
}

/// Answers each connection with the next of these; an empty one is a broken connection.
fn serve(answers: Vec<String>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for answer in answers {
            let Ok((mut stream, _)) = listener.accept() else {
                return;
            };
            read_request(&mut stream);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

fn read_request(stream: &mut TcpStream) {
    let mut read = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&read).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return;
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(n) => read.extend_from_slice(&buffer[..n]),
        }
    }
}

fn answer(status: &str, secret: &str) -> String {
    let body = format!(r#"{{"answer":"{secret}-answer"}}"#);
    format!(
        "HTTP/1.1 {status}\r\nset-cookie: session={secret}-cookie\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// What was found to look through, each with its name.
#[derive(Default)]
struct Haystack(Vec<(String, String)>);

impl Haystack {
    fn text(&mut self, name: &str, text: impl Into<String>) {
        self.0.push((name.into(), text.into()));
    }

    fn error(&mut self, name: &str, error: &samekey::Error) {
        self.text(name, format!("{error} {error:?} {error:#?}"));
        let mut source = error.source();
        while let Some(cause) = source {
            self.text(name, format!("{cause} {cause:?}"));
            source = cause.source();
        }
    }

    fn files(&mut self, folder: &Path) {
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let bytes = std::fs::read(&path).unwrap();
            self.text(&name, String::from_utf8_lossy(&bytes));
        }
    }

    fn log(&mut self) {
        let log = LOG.lock().unwrap();
        self.text("log", String::from_utf8_lossy(&log));
    }

    /// Where the needle is: as it is, in hex, or as a list of numbers.
    fn with(&self, needle: &str) -> Vec<&str> {
        let bytes = needle.as_bytes();
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
        let needles = [needle.to_owned(), hex, numbers.join(", ")];
        let holds = |hay: &str| needles.iter().any(|needle| hay.contains(needle));
        let found = self.0.iter().filter(|(_, hay)| holds(hay));
        found.map(|(name, _)| name.as_str()).collect()
    }
}

fn policy() -> Policy {
    Policy::new()
        .base(Duration::from_millis(2))
        .floor(Duration::from_millis(1))
        .max_attempts(3)
}

fn transport() -> HttpTransport {
    HttpTransport::builder().no_proxy().build().unwrap()
}

/// One life of a journal, with secrets passing everywhere, and all traces that it left.
async fn live(secret: &'static str, mode: Body) -> Haystack {
    log_everything();
    let mut hay = Haystack::default();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.samekey");
    let server = serve(vec![
        String::new(),
        answer("500 Oh", secret),
        answer("201 Created", secret),
        answer("402 No", secret),
        String::new(),
        String::new(),
        String::new(),
    ]);
    let url = format!("http://{server}/pay?sig={secret}-query");
    let client = Client::builder("shop")
        .journal(SqliteJournal::open(&path).unwrap())
        .transport(transport())
        .policy(policy())
        .body(mode)
        .seal_with(SealingKey::new(sealing_key(secret)))
        .credentials(move |_: Asked| async move {
            let mut headers = Headers::bearer(&format!("{secret}-token"))?;
            headers.push("x-api-key", &format!("{secret}-line"))?;
            Ok::<_, CredentialsError>(headers)
        })
        .build()
        .unwrap();
    hay.text("client", format!("{client:?}"));
    for intent in ["paid", "declined", "unknown"] {
        let body = json!({"card": format!("{secret}-body")});
        let builder = client.operation(intent).post(&url).json(&body);
        hay.text("builder", format!("{builder:?}"));
        let operation = builder.begin().await.unwrap();
        let mut updates = operation.updates();
        let result = operation.send().await;
        hay.text(
            "operation",
            format!("{operation:?} {:?}", operation.entry()),
        );
        match &result {
            Ok(outcome) => hay.text("outcome", format!("{outcome:?} {:?}", outcome.headers())),
            Err(error) => hay.error("error", error),
        }
        assert_eq!(result.is_ok(), intent != "unknown", "{intent}: {result:?}");
        drop(operation);
        while let Some(update) = updates.next().await {
            hay.text("update", format!("{update:?}"));
        }
    }
    hay.files(folder.path());
    drop(client);
    after_the_restart(&mut hay, secret, mode, &path).await;
    hay.files(folder.path());
    hay.log();
    hay
}

/// Errors of the second run: no key, no server, no credentials.
async fn after_the_restart(hay: &mut Haystack, secret: &'static str, mode: Body, path: &Path) {
    let client = Client::builder("shop")
        .journal(SqliteJournal::open(path).unwrap())
        .transport(transport())
        .policy(policy())
        .body(mode)
        .seal_with(SealingKey::new([7; 32]))
        .credentials(|_: Asked| async { Err::<Headers, CredentialsError>("no vault".into()) })
        .build()
        .unwrap();
    for operation in client.unfinished().await.unwrap() {
        hay.text("found", format!("{operation:?} {:?}", operation.entry()));
        hay.error("resumed", &operation.resume().await.unwrap_err());
    }
    let nobody = serve(Vec::new());
    let url = format!("http://{nobody}/pay?sig={secret}-query");
    let body = json!({"card": format!("{secret}-body")});
    let refused = client.post("refused", &url, &body).await;
    hay.error("refused", &refused.unwrap_err());
    let bad = client
        .operation("bad")
        .post(&format!(
            "http://me:{secret}-token@{nobody}/?sig={secret}-query"
        ))
        .header("authorization", &format!("{secret}-token"))
        .header("x-api-key", &format!("{secret}-line\r\n"))
        .begin()
        .await;
    hay.error("bad request", &bad.unwrap_err());
}

/// 32 bytes that can be read.
fn sealing_key(secret: &str) -> [u8; 32] {
    let text = format!("{secret}-sealing-key-of-32-bytes-and-more");
    std::array::from_fn(|i| text.as_bytes()[i])
}

#[tokio::test]
async fn i9_sealed_no_secret_is_written_printed_or_logged() {
    let hay = live("canary7Sealed", Body::Sealed).await;
    assert!(hay.0.len() > 20, "{} things looked through", hay.0.len());
    for part in [
        "token",
        "line",
        "cookie",
        "body",
        "answer",
        "sealing-key-of-32",
    ] {
        let found = hay.with(&format!("canary7Sealed-{part}"));
        assert_eq!(found, Vec::<&str>::new(), "{part}");
    }
    // The journal has to know the URL; nothing else may tell its query.
    let found = hay.with("canary7Sealed-query");
    assert!(
        found.iter().all(|name| name.starts_with("shop.samekey")),
        "{found:?}"
    );
}

#[tokio::test]
async fn i9_stored_keeps_bodies_in_the_journal_and_no_credential_anywhere() {
    let hay = live("canary7Stored", Body::Stored).await;
    for part in ["token", "line", "cookie"] {
        let found = hay.with(&format!("canary7Stored-{part}"));
        assert_eq!(found, Vec::<&str>::new(), "{part}");
    }
    // The twin of the sealed run: the same search finds what is kept in plain text, in the
    // journal's files and nowhere else.
    for part in ["body", "answer"] {
        let found = hay.with(&format!("canary7Stored-{part}"));
        assert!(!found.is_empty(), "{part}");
        assert!(
            found.iter().all(|name| name.starts_with("shop.samekey")),
            "{part}: {found:?}"
        );
    }
}

#[tokio::test]
async fn i9_twin_a_secret_planted_in_a_kept_header_an_intent_or_a_log_is_found() {
    log_everything();
    let folder = tempfile::tempdir().unwrap();
    let client = Client::builder("shop")
        .journal(SqliteJournal::open(folder.path().join("shop.samekey")).unwrap())
        .transport(transport())
        .keep_header("x-shop")
        .build()
        .unwrap();
    let operation = client
        .operation("canary7Planted-intent")
        .post("http://127.0.0.1:9/")
        .header("x-shop", "canary7Planted-header")
        .begin()
        .await
        .unwrap();
    tracing::trace!(secret = "canary7Planted-log");
    let mut hay = Haystack::default();
    hay.files(folder.path());
    hay.text("operation", format!("{operation:?}"));
    hay.text("numbers", format!("{:?}", b"canary7Planted-bytes"));
    hay.log();
    let in_files = hay.with("canary7Planted-header");
    assert!(!in_files.is_empty());
    assert!(in_files.iter().all(|name| name.starts_with("shop.samekey")));
    assert!(hay.with("canary7Planted-intent").contains(&"operation"));
    assert_eq!(hay.with("canary7Planted-log"), ["log"]);
    assert_eq!(hay.with("canary7Planted-bytes"), ["numbers"]);
}

#[tokio::test]
async fn e49_the_key_is_logged_as_its_reference_only() {
    log_everything();
    let folder = tempfile::tempdir().unwrap();
    let server = serve(vec![String::new(), answer("201 Created", "x")]);
    let client = Client::builder("shop")
        .journal(SqliteJournal::open(folder.path().join("shop.samekey")).unwrap())
        .transport(transport())
        .policy(policy())
        .build()
        .unwrap();
    let operation = client.operation("a").post(&format!("http://{server}/pay"));
    let operation = operation.begin().await.unwrap();
    operation.send().await.unwrap();
    let mut hay = Haystack::default();
    hay.log();
    assert!(hay.with(operation.key().as_str()).is_empty());
    let reference = operation.reference().to_string();
    assert_eq!(hay.with(&reference), ["log"], "and by that it is found");
}

/// Only to say that the type can cross threads, as a shared client must.
#[test]
fn a_client_and_its_operations_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Arc<Client>>();
    shared::<samekey::Operation>();
    shared::<samekey::Outcome>();
    shared::<samekey::Error>();
    shared::<samekey::Updates>();
}

//! Several handles on one operation in one process: what one has settled, another cannot undo.

#![cfg(feature = "json")]
#![expect(clippy::unwrap_used, reason = "clippy knows tests, not their helpers")]

use samekey::testing::{ScriptedTransport, parts_with};
use samekey::{Client, Error, Operation, Phase};

fn shop() -> (Client, ScriptedTransport) {
    let server = ScriptedTransport::new();
    let client = Client::with_parts("shop", parts_with(server.clone()));
    (client.build().unwrap(), server)
}

async fn begin(client: &Client) -> Result<Operation, Error> {
    let request = client
        .operation("cart/9")
        .post("https://api.example.com/orders");
    request.begin().await
}

/// The handle that began it learns that another one finished it, and is dropped.
async fn settled_by_another(learn: impl AsyncFnOnce(&Operation)) {
    let (client, server) = shop();
    let first = begin(&client).await.unwrap();
    begin(&client).await.unwrap().send().await.unwrap();
    learn(&first).await;
    drop(first);
    let later = begin(&client).await.unwrap();
    assert_eq!(later.phase(), Phase::Succeeded);
    assert!(later.send().await.unwrap().is_success());
    assert_eq!(
        server.requests().len(),
        1,
        "what has ended is not sent again"
    );
}

#[tokio::test]
async fn i12_a_handle_that_was_overtaken_undoes_nothing_when_dropped() {
    settled_by_another(async |_| {}).await;
}

#[tokio::test]
async fn i12_a_handle_that_looked_again_undoes_nothing_when_dropped() {
    settled_by_another(async |first| {
        assert_eq!(first.refresh().await.unwrap(), Phase::Succeeded);
    })
    .await;
}

#[tokio::test]
async fn i12_a_handle_that_was_sent_too_undoes_nothing_when_dropped() {
    settled_by_another(async |first| assert!(first.send().await.unwrap().is_success())).await;
}

#[tokio::test]
async fn a_handle_that_was_never_sent_leaves_its_operation_to_anyone() {
    let (client, server) = shop();
    let reference = begin(&client).await.unwrap().reference();
    let later = begin(&client).await.unwrap();
    assert_eq!(
        (later.reference(), later.phase()),
        (reference, Phase::Ready)
    );
    assert!(later.send().await.unwrap().is_success());
    assert_eq!(server.requests().len(), 1);
}

/// Hundreds of callers, each action asked for twice, on the real journal.
#[cfg(all(feature = "native", feature = "sqlite"))]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn i12_of_many_actions_that_are_asked_for_twice_none_is_left_open() {
    let server = samekey_mock::Mock::builder().start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let journal = samekey::SqliteJournal::open(folder.path().join("journal.samekey")).unwrap();
    let http = samekey::platform::native::HttpTransport::builder()
        .no_proxy()
        .build()
        .unwrap();
    let client = Client::builder("shop")
        .journal(journal)
        .transport(http)
        .build()
        .unwrap();
    let mut callers = tokio::task::JoinSet::new();
    for number in 0..200 {
        let (client, url) = (client.clone(), format!("{}/payments", server.url()));
        let intent = format!("cart/{}", number % 100);
        let body = serde_json::json!({ "amount": 100 });
        callers.spawn(async move { client.post(&intent, &url, &body).await.unwrap().status() });
    }
    assert!(
        callers
            .join_all()
            .await
            .into_iter()
            .all(|status| status == 201)
    );
    let open = client.unfinished().await.unwrap();
    assert_eq!(open.len(), 0, "{:?}", open.first().map(Operation::entry));
    let ledger = server.ledger();
    assert_eq!(
        (ledger.requests().len(), ledger.effects().len()),
        (100, 100)
    );
}

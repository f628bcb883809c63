//! Fifty requests of every kind, so that there is something to see.

use crate::client::{Ask, key};
use samekey_mock::{Event, Mock, Naughty};
use std::net::SocketAddr;

/// Keys whose references look like those of real life.
fn real(n: u32) -> String {
    let mixed = n.wrapping_mul(2_654_435_761);
    format!(
        "{mixed:08x}-{:04x}-4b1d-9a55-0d2f6f1f2a3b",
        mixed.rotate_left(7) & 0xFFFF
    )
}

fn payment(at: SocketAddr, n: u32) -> Ask {
    Ask::order(at, &real(n))
        .path("/payments")
        .json(r#"{"amount":4900,"currency":"EUR"}"#)
}

/// Sends fifty requests: fresh ones, replays, 409, 422, lost answers, and one broken promise.
pub(crate) async fn fifty(mock: &Mock) {
    let at = mock.address();
    for n in 1..=18 {
        Ask::order(at, &real(n))
            .tenant(["acme", "globex"][n as usize % 2])
            .send()
            .await;
    }
    for n in 1..=8 {
        Ask::order(at, &real(n))
            .tenant(["acme", "globex"][n as usize % 2])
            .send()
            .await;
    }
    Ask::order(at, &key(1))
        .without("idempotency-key")
        .send()
        .await;
    Ask::order(at, &key(1))
        .key("no spaces, please")
        .send()
        .await;
    payment(at, 30).fault("handler-error").send().await;
    payment(at, 30).send().await;
    // The last promise is broken on purpose: the ledger must show the second effect.
    mock.naughty(Naughty::NoBodyCheck, false);
    payment(at, 31).fault("early-eviction").send().await;
    payment(at, 31).send().await;
    for (n, fault) in (40..).zip(["drop-before-commit", "reset-before-head", "cut-body:10"]) {
        payment(at, n).fault(fault).try_send().await;
        payment(at, n).send().await;
        payment(at, n).send().await;
    }
    payment(at, 50).send().await;
    payment(at, 50).json(r#"{"amount":9900}"#).send().await;
    in_flight(mock).await;
    payment(at, 60).fault("drop-after-commit").try_send().await;
    payment(at, 60)
        .fault("status-after-commit:502")
        .send()
        .await;
    payment(at, 60).send().await;
}

async fn in_flight(mock: &Mock) {
    let ask = payment(mock.address(), 55);
    mock.hold();
    let first = tokio::spawn({
        let ask = ask.clone();
        async move { ask.send().await }
    });
    mock.wait_for(|l| l.count(Event::Held) == 1).await;
    ask.send().await;
    ask.send().await;
    mock.release();
    first.await.expect("the first finishes");
    ask.send().await;
}

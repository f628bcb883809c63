//! The window's end is checked again when the body is about to leave.

use super::attempt::{BODY, Draft, Wire, plain, send};
use super::server::Server;
use samekey::clock::Clock;
use samekey::platform::native::SystemClock;
use samekey::seam::BoxFuture;
use samekey::{FailureKind, Now, Sent};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A clock that jumps past every window after it was asked a few times.
struct Jumps {
    asked: AtomicU32,
    honest: u32,
}

impl Clock for Jumps {
    fn now(&self) -> Now {
        let now = SystemClock.now();
        if self.asked.fetch_add(1, Ordering::SeqCst) < self.honest {
            return now;
        }
        Now {
            monotonic: now.monotonic + Duration::from_secs(48 * 60 * 60),
            ..now
        }
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        SystemClock.sleep(duration)
    }
}

async fn late_after(honest: u32, body: &[u8]) -> (Sent, Wire) {
    let server = Server::start(|_, conn| async move { Some(conn) }).await;
    let clock = Jumps {
        asked: AtomicU32::new(0),
        honest,
    };
    let transport = plain().clock(Arc::new(clock)).build().unwrap();
    let draft = Draft::with_body(body);
    let result = send(&transport, &server.url("/"), &draft).await;
    drop(transport);
    let wire = Wire::read(&server.finish().await);
    wire.judge(&result, &draft).unwrap();
    let failure = result.unwrap_err();
    assert_eq!(failure.kind, FailureKind::WindowClosed, "{failure:?}");
    (failure.sent, wire)
}

#[tokio::test]
async fn a_window_that_is_over_opens_no_connection() {
    let (sent, wire) = late_after(0, BODY).await;
    assert_eq!(sent, Sent::No);
    assert!(wire.requests.is_empty());
}

#[tokio::test]
async fn a_window_that_ends_while_dialling_sends_nothing() {
    for body in [BODY, b""] {
        let (sent, wire) = late_after(1, body).await;
        assert_eq!(sent, Sent::No);
        assert!(wire.all().is_empty());
        assert_eq!(wire.rest, [0], "not one byte");
    }
}

#[tokio::test]
async fn a_window_that_ends_between_head_and_body_is_maybe() {
    let (sent, wire) = late_after(2, BODY).await;
    assert_eq!(sent, Sent::Maybe);
    assert!(wire.all().is_empty());
}

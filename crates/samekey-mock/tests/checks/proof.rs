//! A check is worth something only if it fails when the promise is broken.

use samekey_mock::{Builder, Mock, Naughty};
use std::time::Duration;

/// What a check found.
pub(crate) type Found = Result<(), String>;

/// A mock that is only moved by the test: its own reaper and sweeper sleep.
pub(crate) fn quiet() -> Builder {
    Mock::builder().settings(|s| s.housekeeping = Duration::from_secs(86_400))
}

/// Says what is wrong unless it holds.
pub(crate) fn ensure(holds: bool, what: impl Into<String>) -> Found {
    if holds { Ok(()) } else { Err(what.into()) }
}

/// Says what is wrong unless both are equal.
#[expect(
    clippy::needless_pass_by_value,
    reason = "reads like an assertion at its many callers"
)]
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(left: T, right: T, what: &str) -> Found {
    ensure(left == right, format!("{what}: {left:?} is not {right:?}"))
}

/// The check passes on an honest server and fails on one with any of these habits.
pub(crate) async fn proven(check: impl AsyncFn(Builder) -> Found, habits: &[Naughty]) {
    if let Err(why) = check(quiet()).await {
        panic!("an honest server failed: {why}");
    }
    for habit in habits {
        let found = check(quiet().naughty(*habit)).await;
        match found {
            Ok(()) => panic!("the check does not notice `{habit}`"),
            // Shown on request: a check must notice for the right reason.
            Err(why) => eprintln!("{habit}: {why}"),
        }
    }
}

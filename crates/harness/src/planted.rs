//! The planted bugs: each must be noticed by a gate that is named beforehand.

use std::sync::atomic::{AtomicU8, Ordering};

static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// One bug, and who must notice it.
#[derive(Clone, Copy, Debug)]
pub struct Bug {
    /// Its number.
    pub number: u8,
    /// What is wrong.
    pub what: &'static str,
    /// Which rules of the simulation it breaks.
    pub rules: &'static [&'static str],
}

macro_rules! bugs {
    ($($number:literal $what:literal [$($rule:literal)*],)*) => {
        /// All of them.
        pub const BUGS: &[Bug] = &[$(Bug { number: $number, what: $what, rules: &[$($rule),*] },)*];
    };
}

bugs! {
    1 "a key is minted per attempt" ["I1" "I2"],
    2 "the journal is written after the send" ["I1"],
    3 "a commit is not synced" ["I1" "I4" "I12"],
    4 "the result of a sync is ignored" ["I1"],
    5 "the body is made again on resume" ["I3"],
    6 "a stale driver goes on" ["I12" "I5" "I8"],
    7 "a lost lease is taken back" ["I5" "I12"],
    8 "retries go on past the window" ["I7"],
    9 "the window counts from the last attempt" ["I7"],
    10 "a timeout is a failure" ["I8"],
    11 "a refusal after doubt is a failure" ["I8"],
    12 "409 is a success" ["I6" "I12"],
    13 "half an answer is a success" ["I6"],
    14 "an outcome is told before it is written" ["I12" "I8"],
    15 "what ended is sent again" ["I12"],
    16 "other programs' entries are left alone" ["liveness"],
    17 "an altered entry is skipped in silence" ["I10"],
    18 "an altered entry is made anew" ["I2"],
    19 "Retry-After is read as milliseconds" ["I14"],
    20 "waits have no jitter" ["spread"],
    21 "redirects to other origins are followed" ["I15"],
    22 "an operation is resumed for another account" ["I16"],
    23 "credentials are journalled" ["I9"],
    24 "an intent is looked up and then inserted" ["I2"],
    25 "the transport sends twice by itself" ["I14"],
    26 "two programs draw the same keys" ["I17"],
    27 "the wall clock is believed" ["I7"],
    28 "the server acts before it reserves the key" ["I7" "I2"],
    29 "the server looks keys up without the tenant" ["tenants"],
    30 "the server stores and replays a 500" ["errors"],
}

/// Lets one bug out, here and in the library.
///
/// # Errors
/// If this build cannot contain it.
pub fn plant(number: u8) -> Result<(), String> {
    if number != 0 && !cfg!(feature = "planted") {
        return Err("this build has no planted bugs; build with the feature `planted`".into());
    }
    CHOSEN.store(number, Ordering::Relaxed);
    #[cfg(feature = "planted")]
    samekey::planted::plant(number);
    Ok(())
}

/// Makes frequent what is rare in life, where this build can.
pub(crate) fn hurry() {
    #[cfg(feature = "planted")]
    samekey::planted::hurry();
}

pub(crate) fn is(number: u8) -> bool {
    CHOSEN.load(Ordering::Relaxed) == number
}

//! Bugs on purpose, for the tests of the tests. Internal: no part of the public interface.
//!
//! Under the feature `planted`, which a release build refuses, a harness chooses one bug by its
//! number and a gate must notice it. In every other build nothing here can be switched on.

#[cfg(all(feature = "planted", not(debug_assertions)))]
compile_error!(
    "the feature `planted` puts bugs into the library on purpose; it is not for releases"
);

#[cfg(feature = "planted")]
static CHOSEN: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Lets the bug of this number out; 0 for none.
#[cfg(feature = "planted")]
pub fn plant(number: u8) {
    CHOSEN.store(number, std::sync::atomic::Ordering::Relaxed);
}

#[cfg(feature = "planted")]
static HURRIES: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// No bug: what is rare in life is frequent from now on, as whoever is tortured lives for seconds.
#[cfg(feature = "planted")]
pub fn hurry() {
    HURRIES.store(true, std::sync::atomic::Ordering::Relaxed);
}

/// Whether what is rare in life is to be frequent.
#[cfg(all(feature = "planted", feature = "sqlite"))]
pub(crate) fn hurries() -> bool {
    HURRIES.load(std::sync::atomic::Ordering::Relaxed)
}

/// Whether what is rare in life is to be frequent: never, in this build.
#[cfg(all(not(feature = "planted"), feature = "sqlite"))]
pub(crate) const fn hurries() -> bool {
    false
}

/// Whether the bug of this number is out.
#[cfg(feature = "planted")]
pub(crate) fn is(number: u8) -> bool {
    CHOSEN.load(std::sync::atomic::Ordering::Relaxed) == number
}

/// Whether the bug of this number is out: never, in this build.
#[cfg(not(feature = "planted"))]
pub(crate) const fn is(_: u8) -> bool {
    false
}

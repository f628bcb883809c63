//! Which branches an input has reached, where the compiler was told to count them.
//!
//! `cargo xtask fuzz` builds with LLVM's inline counters: a byte for every edge, which the program itself
//! adds to. The hook that announces them is the one place here where `unsafe` is needed. In any other
//! build there are no counters, and nothing is guided by them.

use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Where the counters lie. One program has one table, however many parts it was compiled in.
static FIRST: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Called by what the compiler puts in front of `main`.
#[expect(unsafe_code, reason = "the name is the compiler's")]
#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_8bit_counters_init(first: *mut u8, end: *mut u8) {
    FIRST.store(first, Relaxed);
    COUNT.store(end.addr().saturating_sub(first.addr()), Relaxed);
}

/// The counters, eight at a time: most are nought, and are passed over quickly. The few at the ends that
/// do not fill a word are left out.
fn counters() -> &'static [AtomicU64] {
    let (first, count) = (FIRST.load(Relaxed), COUNT.load(Relaxed));
    let before = first.align_offset(size_of::<AtomicU64>());
    if first.is_null() || before >= count {
        return &[];
    }
    let words = (count - before) / size_of::<AtomicU64>();
    // SAFETY: the linker laid out `count` bytes from `first` on, they live as long as the program, any
    // bytes make a number, and this thread is the only one that runs what is counted.
    #[expect(unsafe_code, reason = "nobody else knows where the counters are")]
    unsafe {
        std::slice::from_raw_parts(first.add(before).cast::<AtomicU64>(), words)
    }
}

/// Whether this build counts.
#[must_use]
pub fn is_measured() -> bool {
    !counters().is_empty()
}

/// What all inputs of a campaign have reached together.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    /// For every edge the magnitudes in which it was counted, a bit each.
    seen: Vec<[u8; 8]>,
}

impl Reached {
    /// Before an input: nothing was reached.
    pub(crate) fn reset() {
        let counted = |word: &&AtomicU64| word.load(Relaxed) != 0;
        let counted = counters().iter().filter(counted);
        counted.for_each(|word| word.store(0, Relaxed));
    }

    /// After it: whether it reached an edge that none had before, or one much more often.
    pub(crate) fn add(&mut self) -> bool {
        let counters = counters();
        self.seen.resize(counters.len(), [0; 8]);
        let mut new = false;
        for (seen, word) in self.seen.iter_mut().zip(counters) {
            let word = word.load(Relaxed);
            if word == 0 {
                continue;
            }
            for (seen, count) in seen.iter_mut().zip(word.to_ne_bytes()) {
                let magnitude = magnitude(count);
                new |= magnitude & !*seen != 0;
                *seen |= magnitude;
            }
        }
        new
    }

    /// How many edges were reached.
    pub(crate) fn edges(&self) -> usize {
        self.seen
            .iter()
            .flatten()
            .filter(|seen| **seen != 0)
            .count()
    }
}

/// One bit for how often, roughly: a loop that ran nine times and not eight shows nothing new.
fn magnitude(count: u8) -> u8 {
    match count {
        0 => 0,
        1 => 1,
        2 => 2,
        3 => 4,
        4..=7 => 8,
        8..=15 => 16,
        16..=31 => 32,
        32..=127 => 64,
        128.. => 128,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_has_one_magnitude_and_none_shrinks() {
        assert_eq!(magnitude(0), 0);
        for count in 1..=u8::MAX {
            assert_eq!(magnitude(count).count_ones(), 1);
            assert!(magnitude(count) >= magnitude(count - 1));
        }
    }
}

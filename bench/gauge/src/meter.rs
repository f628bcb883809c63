//! The process's own CPU time, and how often it asked the disk to be quick about it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

static SYNCS: AtomicU64 = AtomicU64::new(0);

/// How often this process has called `fsync` or `fdatasync` so far, SQLite's calls included.
#[must_use]
pub fn syncs() -> u64 {
    SYNCS.load(Ordering::Relaxed)
}

/// Stands in front of the C library's: whatever is linked into this program calls it.
///
/// # Safety
/// As the system call: any number is allowed as a descriptor.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fsync(descriptor: libc::c_int) -> libc::c_int {
    SYNCS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the system call itself, which checks its one argument.
    unsafe { libc::syscall(libc::SYS_fsync, descriptor) as libc::c_int }
}

/// See [`fsync`].
///
/// # Safety
/// As the system call: any number is allowed as a descriptor.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fdatasync(descriptor: libc::c_int) -> libc::c_int {
    SYNCS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the system call itself, which checks its one argument.
    unsafe { libc::syscall(libc::SYS_fdatasync, descriptor) as libc::c_int }
}

/// CPU time that this process has used so far, in user and kernel mode.
#[must_use]
pub fn cpu() -> Duration {
    // SAFETY: all zeros are a valid `rusage`, and the call fills in the one it is handed.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let time = |t: libc::timeval| {
        Duration::from_secs(t.tv_sec as u64) + Duration::from_micros(t.tv_usec as u64)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

static LIVE: AtomicI64 = AtomicI64::new(0);

/// Bytes that are allocated by Rust code right now, in a program whose allocator is [`Counted`].
#[must_use]
pub fn live_bytes() -> i64 {
    LIVE.load(Ordering::Relaxed)
}

/// The system's allocator, with a count of the bytes that are in use.
#[derive(Debug)]
pub struct Counted;

fn add(bytes: usize) {
    LIVE.fetch_add(bytes as i64, Ordering::Relaxed);
}

fn remove(bytes: usize) {
    LIVE.fetch_sub(bytes as i64, Ordering::Relaxed);
}

// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's own promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        remove(layout.size());
        // SAFETY: the caller's own promise.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's own promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        remove(layout.size());
        add(size);
        // SAFETY: the caller's own promise.
        unsafe { System.realloc(memory, layout, size) }
    }
}

//! A heap for worlds, which allocate by the hundred million, each world on one thread.
//!
//! A quarter of a run was spent in the system's heap. Here a freed block goes on a list of its size,
//! of the thread that freed it, and comes from there the next time; nothing is given back.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;

const STEP: usize = 16;
const LARGEST: usize = 8 * 1024;
const CHUNK: usize = 256 * 1024;

/// The heap; for the program of the simulation alone.
#[derive(Debug)]
pub struct Heap;

struct Lists {
    free: [Cell<*mut u8>; LARGEST / STEP],
    /// The rest of the latest chunk.
    next: Cell<*mut u8>,
    left: Cell<usize>,
}

thread_local! {
    static LISTS: Lists = const {
        Lists {
            free: [const { Cell::new(null_mut()) }; LARGEST / STEP],
            next: Cell::new(null_mut()),
            left: Cell::new(0),
        }
    };
}

/// Which list serves this layout, if any.
fn class(layout: Layout) -> Option<usize> {
    let fits = layout.size() > 0 && layout.size() <= LARGEST && layout.align() <= STEP;
    fits.then(|| (layout.size() - 1) / STEP)
}

impl Lists {
    fn take(&self, class: usize) -> *mut u8 {
        let first = self.free[class].get();
        if !first.is_null() {
            // SAFETY: a block on a list was freed, is at least STEP long and aligned to it, and its
            // first word was set to the next block by `give`.
            self.free[class].set(unsafe { first.cast::<*mut u8>().read() });
            return first;
        }
        let size = (class + 1) * STEP;
        if self.left.get() < size {
            let Ok(layout) = Layout::from_size_align(CHUNK, STEP) else {
                return null_mut();
            };
            // SAFETY: the layout is not empty.
            let chunk = unsafe { System.alloc(layout) };
            if chunk.is_null() {
                return chunk;
            }
            self.next.set(chunk);
            self.left.set(CHUNK);
        }
        let block = self.next.get();
        // SAFETY: at least `size` bytes of the chunk are left, so this stays within it or at its end.
        self.next.set(unsafe { block.add(size) });
        self.left.set(self.left.get() - size);
        block
    }

    fn give(&self, class: usize, block: *mut u8) {
        // SAFETY: the block came from `take` for this class: long and aligned enough for a pointer,
        // and its owner has given it up.
        unsafe { block.cast::<*mut u8>().write(self.free[class].get()) };
        self.free[class].set(block);
    }
}

// SAFETY: blocks of a class come from `take`, are as long and as aligned as the class says, and are
// handed out once until `give`; everything else is the system's. The lists have no destructor, so
// they can be used as long as their thread runs.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match class(layout) {
            Some(class) => LISTS.with(|lists| lists.take(class)),
            // SAFETY: the caller keeps the contract of `alloc`.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match class(layout) {
            Some(class) => LISTS.with(|lists| lists.give(class, block)),
            // SAFETY: it came from `System` with this layout.
            None => unsafe { System.dealloc(block, layout) },
        }
    }
}

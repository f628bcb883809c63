//! The bindings under the npm package: one function of bytes. What people use, options and their defaults,
//! errors and outcomes, is made of it in `pkg/src`.
#![cfg(target_arch = "wasm32")]
#![forbid(unsafe_code)]

#[global_allocator]
static HEAP: lol_alloc::LockedAllocator<lol_alloc::FreeListAllocator> =
    lol_alloc::LockedAllocator::new(lol_alloc::FreeListAllocator::new());

#[cfg(feature = "conformance")]
pub mod conformance;

use wasm_bindgen::prelude::wasm_bindgen;

/// What the package asks, and the answer: see [`samekey::platform::page`].
#[wasm_bindgen]
#[must_use]
pub fn call(given: &[u8]) -> Vec<u8> {
    samekey::platform::page::call(given)
}

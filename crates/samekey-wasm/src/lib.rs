//! The bindings under the npm package: plain values in, plain values out. What people use, options and
//! their defaults, errors and outcomes, is made of them in `pkg/src`.
#![cfg(target_arch = "wasm32")]
#![forbid(unsafe_code)]

#[global_allocator]
static HEAP: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(not(feature = "conformance"))]
mod given;
#[cfg(not(feature = "conformance"))]
pub mod raw;
#[cfg(not(feature = "conformance"))]
mod told;

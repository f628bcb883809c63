//! Everything that differs between a program and a page.

#[cfg(all(feature = "native", not(target_arch = "wasm32")))]
pub mod native;

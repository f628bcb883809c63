//! Proof: what is promised is tried under every fault that can be made, and the tests are tried by
//! planted bugs.

pub mod heap;
pub mod planted;
pub mod sim;
#[cfg(all(feature = "torture", target_os = "linux"))]
pub mod torture;

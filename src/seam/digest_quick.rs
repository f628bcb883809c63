//! SHA-256 as quick as the processor can.

use sha2::Digest;

/// A digest in the making.
pub(crate) struct Hash(sha2::Sha256);

impl Hash {
    pub(crate) fn new() -> Hash {
        Hash(sha2::Sha256::new())
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

//! SHA-256: natively from `sha2`; in a page written out as the standard has it, for that is a third of the
//! download. A test holds the two against each other.

pub(crate) use super::Hash;

/// The digest of these bytes.
pub(crate) fn digest(bytes: &[u8]) -> [u8; 32] {
    let mut hash = Hash::new();
    hash.update(bytes);
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::digest_small as small;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_make_the_same_of_the_same_bytes(parts: Vec<Vec<u8>>, long in 0usize..300) {
            let (mut small, mut large) = (small::Hash::new(), Hash::new());
            for part in parts.iter().chain([&vec![7; long]]) {
                small.update(part);
                large.update(part);
            }
            prop_assert_eq!(small.finish(), large.finish());
        }
    }

    #[test]
    fn every_length_around_a_block_is_padded_right() {
        for length in 0..200 {
            let bytes = vec![b'a'; length];
            let mut small = small::Hash::new();
            small.update(&bytes);
            assert_eq!(small.finish(), digest(&bytes), "{length}");
        }
    }
}

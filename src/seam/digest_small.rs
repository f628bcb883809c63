//! SHA-256 in as little code as it takes (FIPS 180-4).

pub(crate) struct Hash {
    state: [u32; 8],
    round: [u32; 64],
    block: [u8; 64],
    length: u64,
}

impl Hash {
    /// Its constants are the fractions of roots of the first primes: square roots for the state, cube
    /// roots for the rounds. To work them out takes less room than to list them.
    pub(crate) fn new() -> Hash {
        let mut hash = Hash {
            state: [0; 8],
            round: [0; 64],
            block: [0; 64],
            length: 0,
        };
        let (mut prime, mut found) = (1u32, 0);
        while found < 64 {
            prime += 1;
            if (2..prime).all(|factor| prime % factor != 0) {
                let number = f64::from(prime);
                if let Some(word) = hash.state.get_mut(found) {
                    *word = fraction(number.sqrt());
                }
                hash.round[found] = fraction(cube_root(number));
                found += 1;
            }
        }
        hash
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.add(*byte);
        }
    }

    pub(crate) fn finish(mut self) -> [u8; 32] {
        let bits = self.length * 8;
        self.add(0x80);
        while self.length % 64 != 56 {
            self.add(0);
        }
        for byte in (0..8).rev() {
            self.add((bits >> (byte * 8)) as u8);
        }
        std::array::from_fn(|at| (self.state[at / 4] >> (24 - at % 4 * 8)) as u8)
    }

    fn add(&mut self, byte: u8) {
        self.block[(self.length % 64) as usize] = byte;
        self.length += 1;
        if self.length.is_multiple_of(64) {
            self.compress();
        }
    }

    fn compress(&mut self) {
        let mut words = [0u32; 64];
        let mut state = self.state;
        for at in 0..64 {
            words[at] = if at < 16 {
                let bytes = &self.block[at * 4..];
                bytes[..4]
                    .iter()
                    .fold(0, |word, byte| word << 8 | u32::from(*byte))
            } else {
                let (early, late) = (words[at - 15], words[at - 2]);
                let s0 = early.rotate_right(7) ^ early.rotate_right(18) ^ (early >> 3);
                let s1 = late.rotate_right(17) ^ late.rotate_right(19) ^ (late >> 10);
                words[at - 16]
                    .wrapping_add(s0)
                    .wrapping_add(words[at - 7])
                    .wrapping_add(s1)
            };
            let [a, b, c, d, e, f, g, h] = state;
            let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let one = h
                .wrapping_add(s1)
                .wrapping_add((e & f) ^ (!e & g))
                .wrapping_add(self.round[at])
                .wrapping_add(words[at]);
            let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let two = s0.wrapping_add((a & b) ^ (a & c) ^ (b & c));
            state = [one.wrapping_add(two), a, b, c, d.wrapping_add(one), e, f, g];
        }
        for (word, more) in self.state.iter_mut().zip(&state) {
            *word = word.wrapping_add(*more);
        }
    }
}

/// By Newton's steps, until they make no difference.
fn cube_root(number: f64) -> f64 {
    let mut root = number;
    for _ in 0..32 {
        root -= (root * root * root - number) / (3.0 * root * root);
    }
    root
}

/// The first 32 bits behind the point.
fn fraction(number: f64) -> u32 {
    (number * 4_294_967_296.0) as u64 as u32
}

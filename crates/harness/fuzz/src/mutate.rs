//! Where inputs come from: seeds, cut, joined, flipped and sprinkled with words.

/// Inputs longer than this teach nothing that shorter ones do not.
const LONGEST: usize = 4096;

/// Bytes that parsers trip over.
const BYTES: &[u8] = &[
    0, 1, 2, 0x7f, 0x80, 0xff, b'\n', b' ', b'"', b'\\', b'{', b'}', b'[', b']', b',', b':', b'-',
    b'0', b'9',
];

/// Seeds, and dice that are loaded.
pub(crate) struct Pool {
    dice: u64,
    words: &'static [&'static str],
    inputs: Vec<Vec<u8>>,
    seeds: usize,
    /// The seeds come first, as they are.
    untouched: usize,
}

impl Pool {
    pub(crate) fn new(seed: u64, words: &'static [&'static str], mut inputs: Vec<Vec<u8>>) -> Pool {
        if inputs.is_empty() {
            inputs.push(Vec::new());
        }
        Pool {
            dice: seed,
            words,
            seeds: inputs.len(),
            inputs,
            untouched: 0,
        }
    }

    pub(crate) fn add(&mut self, input: Vec<u8>) {
        self.inputs.push(input);
    }

    pub(crate) fn next_input(&mut self) -> Vec<u8> {
        if self.untouched < self.seeds {
            self.untouched += 1;
            return self.inputs[self.untouched - 1].clone();
        }
        // Every other one is a small change of a seed: what was added since is mostly rubbish, and
        // the seeds would drown in it.
        let (among, changes) = if self.below(2) == 0 {
            (self.seeds, 1)
        } else {
            (self.inputs.len(), 1 + self.below(5))
        };
        let from = self.below(among);
        let mut input = self.inputs[from].clone();
        for _ in 0..changes {
            self.change(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.below(input.len() + 1);
        let end = (at + 1 + self.below(16)).min(input.len());
        match self.below(9) {
            0 if at < input.len() => input[at] ^= 1 << self.below(8),
            1 if at < input.len() => input[at] = BYTES[self.below(BYTES.len())],
            2 => input.insert(at, BYTES[self.below(BYTES.len())]),
            3 if at < end => drop(input.drain(at..end)),
            4 if at < end => {
                let again = input[at..end].to_vec();
                input.splice(at..at, again);
            }
            5 | 6 if !self.words.is_empty() => {
                let word = self.words[self.below(self.words.len())];
                input.splice(at..at, word.bytes());
            }
            7 => {
                // The beginning of one and the end of another.
                let other = self.below(self.inputs.len());
                let other = self.inputs[other].clone();
                let from = self.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            8 if at < input.len() && input[at].is_ascii_digit() => {
                input[at] = b'0' + u8::try_from(self.below(10)).unwrap_or(0);
            }
            _ => input.push(self.roll() as u8),
        }
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll() % end.max(1) as u64).unwrap_or(0)
    }

    /// SplitMix64.
    fn roll(&mut self) -> u64 {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.dice;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

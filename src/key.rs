//! The key that every attempt of an action carries, and the reference that people read aloud.

use crate::seam::digest::digest;
use crate::text::{decimal, filled, hex};
use std::fmt;
use std::sync::Arc;

/// The longest key that any store or profile takes.
const MAX_KEY: usize = 255;

/// The idempotency key of one action: minted once, sent unchanged on every attempt.
///
/// Its text is compared byte for byte by servers, so it is never re-cased or re-formatted. `Debug`
/// shows the [`Reference`] only; whoever needs the whole key asks for it with [`Key::as_str`].
///
/// ```
/// use samekey::Key;
/// let key = Key::from_random([7; 16]);
/// assert_eq!(key.as_str(), "07070707-0707-4707-8707-070707070707");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// A UUIDv4 from 16 bytes of the operating system's randomness.
    #[must_use]
    pub fn from_random(bytes: [u8; 16]) -> Key {
        let (mut text, mut end) = ([b'-'; 36], 0);
        for (at, byte) in bytes.into_iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                end += 1;
            }
            // The version, and the variant of the versions there are.
            let byte = match at {
                6 => byte & 0x0f | 0x40,
                8 => byte & 0x3f | 0x80,
                _ => byte,
            };
            for digit in [byte >> 4, byte & 15] {
                text[end] = hex(digit) as u8;
                end += 1;
            }
        }
        Key(str::from_utf8(&text).unwrap_or_default().into())
    }

    /// Takes over a key that somebody else minted, byte for byte.
    ///
    /// # Errors
    /// Refuses what cannot stand in a header: anything but visible ASCII, and more than 255
    /// characters. A profile may refuse more.
    pub fn adopt(text: &str) -> Result<Key, InvalidKey> {
        if text.is_empty() {
            return Err(InvalidKey("the key is empty".into()));
        }
        if !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(InvalidKey(
                "the key holds something else than visible ASCII without spaces, which cannot be sent"
                    .into(),
            ));
        }
        if text.len() > MAX_KEY {
            return Err(InvalidKey(filled(
                "the key has % characters; no server takes more than 255",
                &[&decimal(text.len() as u64)],
            )));
        }
        Ok(Key(text.into()))
    }

    /// The whole key, as it goes over the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is a UUID in its usual form.
    pub(crate) fn is_uuid(&self) -> bool {
        let fits = |(at, byte): (usize, u8)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        };
        self.0.len() == 36 && self.0.bytes().enumerate().all(fits)
    }

    /// What to show to people.
    #[must_use]
    pub fn reference(&self) -> Reference {
        Reference::of(self)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.reference())
    }
}

/// A key that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidKey(pub(crate) String);

/// Digits of a check character: Crockford's letters less `Z`, so that their number is a prime.
const CHECK: &[u8; 31] = b"0123456789ABCDEFGHJKMNPQRSTVWXY";
const DIGITS: usize = 12;

/// The key as a person reads it aloud: `7D3F-92AB-1C4E-7`.
///
/// Twelve hex digits of the key, so anyone with a column of keys finds it by prefix, and a check
/// character that catches every single slip and every two swapped digits. A key that was adopted
/// and does not begin with twelve hex digits is referred to by its SHA-256 instead.
///
/// ```
/// use samekey::{Key, Reference};
/// let reference = Key::from_random([0xab; 16]).reference();
/// assert_eq!(reference.to_string(), "ABAB-ABAB-ABAB-G");
/// assert_eq!("abab abab abab g".parse::<Reference>()?, reference);
/// assert!("ABAB-ABAB-ABBA-G".parse::<Reference>().is_err());
/// # Ok::<(), samekey::InvalidReference>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference([u8; DIGITS]);

impl Reference {
    fn of(key: &Key) -> Reference {
        let mut digits = [0; DIGITS];
        let mut found = key.as_str().bytes().filter(|b| *b != b'-').map(hex_value);
        for digit in &mut digits {
            match found.next() {
                Some(Some(value)) => *digit = value,
                _ => return Reference::of_foreign(key),
            }
        }
        Reference(digits)
    }

    fn of_foreign(key: &Key) -> Reference {
        let hash = digest(key.as_str().as_bytes());
        Reference(std::array::from_fn(|i| {
            if i % 2 == 0 {
                hash[i / 2] >> 4
            } else {
                hash[i / 2] & 15
            }
        }))
    }

    /// The twelve hex digits, in lower case and without dashes.
    #[must_use]
    pub fn digits(&self) -> String {
        self.0.iter().map(|digit| hex(*digit)).collect()
    }

    /// The twelve digits as a number.
    #[cfg(feature = "sqlite")]
    pub(crate) fn number(&self) -> u64 {
        self.0.iter().fold(0, |n, d| n << 4 | u64::from(*d))
    }

    /// What a UUID key with this reference begins with, dashes included: `7d3f92ab-1c4e`.
    #[must_use]
    pub fn key_prefix(&self) -> String {
        let mut prefix = self.digits();
        prefix.insert(8, '-');
        prefix
    }

    /// As people read it.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (at, digit) in self.0.iter().enumerate() {
            text.push(hex(*digit).to_ascii_uppercase());
            if at % 4 == 3 {
                text.push('-');
            }
        }
        text.push(self.check());
        text
    }

    fn check(&self) -> char {
        let sum: usize = self
            .0
            .iter()
            .zip(1..)
            .map(|(d, weight)| usize::from(*d) * weight)
            .sum();
        char::from(CHECK[sum % CHECK.len()])
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text())
    }
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Reference {
    type Err = InvalidReference;

    /// Reads what a person typed: any case, spaces and dashes anywhere, O for 0, I and L for 1.
    fn from_str(text: &str) -> Result<Self, InvalidReference> {
        let mut typed = Vec::with_capacity(DIGITS + 1);
        for c in text.chars() {
            match c.to_ascii_uppercase() {
                '-' | '_' | '.' | ' ' | '\t'..='\r' => {}
                // Spaces and dashes of all kinds.
                '\u{85}' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{206f}' | '\u{3000}' => {}
                'O' => typed.push(b'0'),
                'I' | 'L' => typed.push(b'1'),
                c if c.is_ascii_alphanumeric() => typed.push(c as u8),
                other => return Err(InvalidReference::Character(other)),
            }
        }
        if typed.len() != DIGITS + 1 {
            return Err(InvalidReference::Length(typed.len()));
        }
        let mut digits = [0; DIGITS];
        for (digit, byte) in digits.iter_mut().zip(&typed) {
            *digit = hex_value(*byte).ok_or(InvalidReference::Character(char::from(*byte)))?;
        }
        let reference = Reference(digits);
        if reference.check() == char::from(typed[DIGITS]) {
            Ok(reference)
        } else {
            Err(InvalidReference::Check)
        }
    }
}

fn hex_value(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|v| u8::try_from(v).ok())
}

/// A text that is not a reference, and what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
#[non_exhaustive]
pub enum InvalidReference {
    /// A character that no reference holds.
    Character(char),
    /// Too short or too long.
    Length(usize),
    /// The check character does not fit: a slip of the pen.
    Check,
}

impl InvalidReference {
    /// What is wrong, for people.
    pub(crate) fn text(self) -> String {
        let (template, filler) = match self {
            InvalidReference::Character(c) => (
                "the character % does not occur in a reference; one looks like 7D3F-92AB-1C4E-7",
                c.into(),
            ),
            InvalidReference::Length(length) => (
                "a reference has 13 letters and digits, this has %; one looks like 7D3F-92AB-1C4E-7",
                decimal(length as u64),
            ),
            InvalidReference::Check => (
                "the last character does not fit the rest: one of them was misread or two were swapped",
                String::new(),
            ),
        };
        filled(template, &[&filler])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_minted_key_is_written_as_every_uuid_is(bytes: [u8; 16]) {
            let uuid = uuid::Builder::from_random_bytes(bytes).into_uuid();
            let key = Key::from_random(bytes);
            prop_assert_eq!(key.as_str(), uuid.hyphenated().to_string());
        }
    }

    #[test]
    fn a_minted_key_is_a_uuid_of_version_4() {
        let key = Key::from_random([0xff; 16]);
        assert_eq!(key.as_str(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }

    #[test]
    fn e43_e44_a_key_that_cannot_stand_in_a_header_is_refused() {
        for bad in [
            "", "a\rb", "a\nb", "a\0b", "a\tb", "a\u{7f}", " a", "a ", "ключ", "é",
        ] {
            assert!(Key::adopt(bad).is_err(), "{bad:?}");
        }
        assert!(Key::adopt(&"k".repeat(256)).is_err());
        assert!(Key::adopt("order-42:capture").is_ok());
    }

    #[test]
    fn e46_an_adopted_key_keeps_its_case() {
        assert_eq!(Key::adopt("7D3f92aB").unwrap().as_str(), "7D3f92aB");
    }

    #[test]
    fn e49_debug_of_a_key_shows_only_its_reference() {
        let key = Key::from_random([0x5a; 16]);
        let shown = format!("{key:?}");
        assert!(!shown.contains(key.as_str()));
        assert!(shown.contains(&key.reference().to_string()));
    }

    #[test]
    fn the_documented_example_checks_out() {
        let key = Key::adopt("7d3f92ab-1c4e-4c1f-9d55-aabbccddeeff").unwrap();
        assert_eq!(key.reference().to_string(), "7D3F-92AB-1C4E-7");
        assert_eq!(key.reference().key_prefix(), "7d3f92ab-1c4e");
        assert!(key.as_str().starts_with(&key.reference().key_prefix()));
    }

    #[test]
    fn a_foreign_key_has_a_stable_reference_too() {
        let a = Key::adopt("order-42").unwrap().reference();
        assert_eq!(a, Key::adopt("order-42").unwrap().reference());
        assert_ne!(a, Key::adopt("order-43").unwrap().reference());
    }

    #[test]
    fn what_is_no_reference_says_what_is_wrong() {
        assert_eq!(
            "7D3F".parse::<Reference>(),
            Err(InvalidReference::Length(4))
        );
        assert_eq!(
            "7D3F-92AB-1C4G-7".parse::<Reference>(),
            Err(InvalidReference::Character('G'))
        );
        assert_eq!(
            "7D3F*92AB-1C4E-7".parse::<Reference>(),
            Err(InvalidReference::Character('*'))
        );
        assert_eq!(
            "7D3F-92AB-1C4E-8".parse::<Reference>(),
            Err(InvalidReference::Check)
        );
    }

    proptest! {
        #[test]
        fn every_reference_is_read_back_however_it_is_typed(bytes: [u8; 16]) {
            let reference = Key::from_random(bytes).reference();
            let text = reference.to_string();
            prop_assert_eq!(text.parse::<Reference>().unwrap(), reference);
            let sloppy = text.to_lowercase().replace('-', "  ").replace('0', "o").replace('1', "l");
            prop_assert_eq!(sloppy.parse::<Reference>().unwrap(), reference);
        }

        #[test]
        fn every_single_slip_and_every_swap_is_caught(bytes: [u8; 16], at in 0..12usize, other in 0..12usize, put in 0..16u32) {
            let reference = Key::from_random(bytes).reference();
            let check = reference.check();
            let mut slip = reference.digits().to_ascii_uppercase().into_bytes();
            let original = slip.clone();
            slip[at] = char::from_digit(put, 16).unwrap().to_ascii_uppercase() as u8;
            let mut swap = original.clone();
            swap.swap(at, other);
            for wrong in [slip, swap] {
                if wrong != original {
                    let text = format!("{}{check}", String::from_utf8(wrong).unwrap());
                    prop_assert_eq!(text.parse::<Reference>(), Err(InvalidReference::Check));
                }
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,40}") {
            let _ = text.parse::<Reference>();
        }
    }
}

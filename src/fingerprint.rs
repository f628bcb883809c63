//! The digest that shows whether two requests are the same one.

use crate::message::{Headers, Method};
use crate::seam::digest::Hash;
use std::fmt;

/// SHA-256 over what a request is: method, URL, kept headers and body.
///
/// Under one key there is one fingerprint. A second request with another fingerprint is refused
/// before anything is sent, whatever the server would make of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a request, taken over its exact body bytes.
    #[must_use]
    pub fn of(method: Method, url: &str, headers: &Headers, body: &[u8]) -> Fingerprint {
        let mut hash = Hash::new();
        let mut part = |bytes: &[u8]| {
            // Each part is preceded by its length, so that no two requests run together alike.
            hash.update(&(bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        part(method.as_str().as_bytes());
        part(url.as_bytes());
        part(&(headers.len() as u64).to_le_bytes());
        for (name, value) in headers.iter() {
            part(name.as_bytes());
            part(value.as_bytes());
        }
        part(body);
        Fingerprint(hash.finish())
    }

    /// A fingerprint read back from a journal.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Fingerprint {
        Fingerprint(bytes)
    }

    /// Its 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Fingerprint {
    /// The first eight bytes in hex: enough to see that two differ.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for byte in &self.0[..8] {
            for digit in [byte / 16, byte % 16] {
                text.extend(char::from_digit(digit.into(), 16));
            }
        }
        text
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str, header: &str, body: &[u8]) -> Fingerprint {
        let mut headers = Headers::new();
        headers.push("content-type", header).unwrap();
        Fingerprint::of(Method::Post, url, &headers, body)
    }

    #[test]
    fn every_part_of_a_request_counts() {
        let base = of("http://a/", "text/plain", b"1");
        assert_eq!(base, of("http://a/", "text/plain", b"1"));
        assert_ne!(base, of("http://a/?q", "text/plain", b"1"));
        assert_ne!(base, of("http://a/", "application/json", b"1"));
        assert_ne!(base, of("http://a/", "text/plain", b"2"));
        assert_ne!(
            Fingerprint::of(Method::Post, "http://a/", &Headers::new(), b""),
            Fingerprint::of(Method::Patch, "http://a/", &Headers::new(), b"")
        );
    }

    #[test]
    fn bytes_cannot_wander_from_one_part_to_the_next() {
        assert_ne!(of("http://a/b", "c", b"d"), of("http://a/", "bc", b"d"));
        assert_ne!(of("http://a/", "bc", b"d"), of("http://a/", "b", b"cd"));
    }
}

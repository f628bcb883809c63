//! Same key, same request: a digest of method, route, query and body.
//!
//! JSON bodies are compared by meaning (canonical form of RFC 8785), all others byte for byte.
//! Where the canonical form would lose something that matters to money it does not follow:
//! integers beyond 2^53 keep their digits instead of being rounded to a double.

mod json;

pub use json::JsonFault;

use sha2::{Digest, Sha256};

/// What identifies a request under its key.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// `POST`, `PATCH`, ...
    pub method: &'a str,
    /// The route as the server knows it, without query.
    pub route: &'a str,
    /// The query, without the question mark.
    pub query: &'a str,
    /// The request's content type, where it has one.
    pub content_type: Option<&'a str>,
    /// The body as it came.
    pub body: &'a [u8],
}

/// The digest, as 64 hex digits.
///
/// # Errors
/// A body that says it is JSON and is not, or is ambiguous: a member twice, a lone surrogate.
pub fn fingerprint(parts: Parts<'_>) -> Result<String, JsonFault> {
    let mut hash = Sha256::new();
    for part in [parts.method, parts.route, parts.query] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    if is_json(parts.content_type) && !parts.body.is_empty() {
        hash.update(b"json");
        hash.update(canonical(parts.body)?.as_bytes());
    } else {
        hash.update(b"raw");
        hash.update(parts.body);
    }
    Ok(hex(&hash.finalize()))
}

/// The canonical text of a JSON document.
///
/// # Errors
/// Text that is not JSON, or is ambiguous.
pub fn canonical(body: &[u8]) -> Result<String, JsonFault> {
    json::canonical(body)
}

/// SHA-256 of bytes, as 64 hex digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Whether a content type means JSON, parameters aside.
pub fn is_json(content_type: Option<&str>) -> bool {
    let essence = content_type
        .unwrap_or("")
        .split(';')
        .next()
        .unwrap_or("")
        .trim();
    let essence = essence.to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

fn hex(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from_digit(u32::from(n), 16).unwrap_or('0');
    bytes
        .iter()
        .flat_map(|b| [digit(b >> 4), digit(b & 15)])
        .collect()
}

#[cfg(test)]
mod tests;

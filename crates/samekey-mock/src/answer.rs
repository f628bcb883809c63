//! One HTTP answer as the mock stores and sends it.

use serde::{Deserialize, Serialize};

/// Where the documentation of a problem would be found; the draft defines no types of its own.
pub const PROBLEMS: &str = "https://samekey.invalid/problems/";

/// Status, headers and body of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Headers in order; a name may appear more than once.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Answer {
    /// An answer without headers or body.
    pub fn new(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: String::new(),
        }
    }

    /// An answer that carries JSON.
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::new(status)
            .header("content-type", "application/json")
            .body(body.to_string())
    }

    /// An error in the form of RFC 9457; `kind` becomes the last part of its type.
    pub fn problem(status: u16, kind: &str, title: &str, detail: &str) -> Self {
        let body = serde_json::json!({
            "type": format!("{PROBLEMS}{kind}"),
            "title": title,
            "status": status,
            "detail": detail,
        });
        Self::new(status)
            .header("content-type", "application/problem+json")
            .header("link", &format!("<{PROBLEMS}{kind}>; rel=\"describedby\""))
            .body(body.to_string())
    }

    /// Adds a header line.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }

    /// The first value of a header.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.as_str())
    }

    /// Takes every line of a header away.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self
    }
}

//! The core's own small HTTP vocabulary: what is sent, what comes back, and what goes wrong.
//!
//! The `http` and `url` crates would cost a checkout page more than the whole rest of samekey, so
//! the core does without them; the native transport converts at its edge.

use crate::text::decimal;
pub(crate) use crate::text::{
    around, around_last, before, filled, is_among, number, parts, place_in, place_of, quoted,
};
use std::fmt;
use std::sync::Arc;

/// The request methods that samekey sends.
///
/// GET and HEAD are absent on purpose: they have no effect to protect and need no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Method {
    /// `POST`
    Post,
    /// `PATCH`
    Patch,
    /// `PUT`; idempotent by HTTP itself, so a key is sent only on request.
    Put,
    /// `DELETE`; idempotent by HTTP itself, so a key is sent only on request.
    Delete,
}

impl Method {
    /// The method as it stands on the request line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Post => "POST",
            Method::Patch => "PATCH",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
        }
    }

    /// Reads a method, whatever its case.
    ///
    /// # Errors
    /// Says why GET, HEAD and unknown methods are refused.
    pub fn parse(text: &str) -> Result<Method, InvalidMessage> {
        match text.to_ascii_uppercase().as_str() {
            "POST" => Ok(Method::Post),
            "PATCH" => Ok(Method::Patch),
            "PUT" => Ok(Method::Put),
            "DELETE" => Ok(Method::Delete),
            safe @ ("GET" | "HEAD") => Err(InvalidMessage(filled(
                "% changes nothing on the server and needs no key; send it with any HTTP client",
                &[safe],
            ))),
            other => Err(InvalidMessage(filled(
                "the method % is not one of POST, PATCH, PUT, DELETE",
                &[&quoted(other)],
            ))),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A method, URL or header that cannot be sent, and why.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidMessage(pub(crate) String);

impl fmt::Debug for InvalidMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InvalidMessage({self})")
    }
}

/// Header lines in the order they came; names in lower case.
///
/// Cheap to clone: an answer's lines go to the journal, to the caller and to the machine. `Debug` shows
/// names only: values may be secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Option<Arc<Lines>>);

/// Names and values in one piece: there are many of them.
#[derive(Clone, Default, PartialEq, Eq)]
struct Lines {
    text: String,
    /// How long each name is, and its value.
    lengths: Vec<(usize, usize)>,
}

impl Lines {
    fn with_room(lines: usize, bytes: usize) -> Lines {
        Lines {
            text: String::with_capacity(bytes),
            lengths: Vec::with_capacity(lines),
        }
    }

    /// Adds a line, its name in lower case.
    fn push(&mut self, name: &str, value: &str) {
        let start = self.text.len();
        self.text.reserve(name.len() + value.len());
        self.text.push_str(name);
        if let Some(name) = self.text.get_mut(start..) {
            name.make_ascii_lowercase();
        }
        self.text.push_str(value);
        self.lengths.push((name.len(), value.len()));
    }
}

impl Headers {
    /// No headers.
    #[must_use]
    pub fn new() -> Self {
        Headers::default()
    }

    /// No headers yet, but room for so many, and so many bytes: a list that grows is copied each time.
    #[cfg(feature = "native")]
    pub(crate) fn with_room(lines: usize, bytes: usize) -> Headers {
        Headers((lines > 0).then(|| Arc::new(Lines::with_room(lines, bytes))))
    }

    /// The one line `Authorization: Bearer TOKEN`.
    ///
    /// # Errors
    /// If the token cannot stand in a header.
    pub fn bearer(token: &str) -> Result<Self, InvalidMessage> {
        let mut headers = Headers::new();
        headers.push("authorization", &["Bearer ", token].concat())?;
        Ok(headers)
    }

    /// Adds a line.
    ///
    /// # Errors
    /// Refuses a name that is not an HTTP token and a value with control characters: CR or LF in a
    /// value would let it write header lines of its own.
    pub fn push(&mut self, name: &str, value: &str) -> Result<(), InvalidMessage> {
        let token = |b: u8| {
            matches!(b, b'a'..=b'z' | b'-' | b'A'..=b'Z' | b'0'..=b'9' | b'!' | b'#'..=b'\'' | b'*'
                | b'+' | b'.' | b'^'..=b'`' | b'|' | b'~')
        };
        if name.is_empty() || !name.bytes().all(token) {
            return Err(InvalidMessage(filled(
                "% is not a header name; use letters, digits and dashes",
                &[&quoted(name)],
            )));
        }
        // Every byte is looked at, several at a time: nearly no value holds one.
        let control = |b: u8| ((b < 0x20) & (b != b'\t')) | (b == 0x7f);
        if value.bytes().fold(false, |found, b| found | control(b)) {
            return Err(InvalidMessage(filled(
                "the value of header % holds a control character (CR, LF or NUL); remove it",
                &[name],
            )));
        }
        let lines = Arc::make_mut(self.0.get_or_insert_default());
        lines.push(name, value.trim_ascii());
        Ok(())
    }

    /// The first value of `name`, which is given in lower case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(n, _)| *n == name).map(|(_, v)| v)
    }

    /// The same, whatever the case of `name`.
    pub(crate) fn get_any_case(&self, name: &str) -> Option<&str> {
        let mut lines = self.iter();
        let named = lines.find(|(n, _)| n.eq_ignore_ascii_case(name));
        named.map(|(_, v)| v)
    }

    /// Every value of `name`, which is given in lower case.
    pub fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.iter().filter(move |(n, _)| *n == name).map(|(_, v)| v)
    }

    /// All lines.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        let (mut rest, lengths) = match &self.0 {
            Some(lines) => (&*lines.text, &*lines.lengths),
            None => ("", &[][..]),
        };
        lengths.iter().map(move |&(name, value)| {
            let (name, after) = rest.split_at(name);
            let (value, after) = after.split_at(value);
            rest = after;
            (name, value)
        })
    }

    /// How many lines there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |lines| lines.lengths.len())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Only the lines whose name passes.
    #[must_use]
    pub fn filtered(&self, keep: impl Fn(&str) -> bool) -> Headers {
        self.chosen(&keep)
    }

    /// Once, whoever chooses.
    fn chosen(&self, keep: &dyn Fn(&str) -> bool) -> Headers {
        let Some(first) = self.iter().position(|(name, _)| !keep(name)) else {
            return self.clone();
        };
        let bytes = self.0.as_ref().map_or(0, |lines| lines.text.len());
        let mut kept = Lines::with_room(self.len(), bytes);
        for (at, (name, value)) in self.iter().enumerate() {
            if at < first || (at > first && keep(name)) {
                kept.push(name, value);
            }
        }
        // None at all is one and the same, however it came about.
        Headers(Some(Arc::new(kept)).filter(|kept| !kept.lengths.is_empty()))
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.iter().map(|(name, _)| name))
            .finish()
    }
}

/// Scheme, host and port: where a request goes.
///
/// ```
/// use samekey::Origin;
/// let origin = Origin::of("https://api.example.com/payments?x=1")?;
/// assert_eq!(origin.to_string(), "https://api.example.com");
/// assert_eq!(origin, Origin::of("HTTPS://API.example.com:443/")?);
/// # Ok::<(), samekey::InvalidMessage>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    https: bool,
    host: Box<str>,
    port: u16,
}

impl Origin {
    /// The origin of an absolute `http` or `https` URL.
    ///
    /// # Errors
    /// Refuses what cannot be sent, and credentials inside the URL: they would end up in the
    /// journal.
    pub fn of(url: &str) -> Result<Origin, InvalidMessage> {
        let refuse = |why: &str| InvalidMessage([&quoted(without_query(url)), " ", why].concat());
        if let Some(at) = url.bytes().position(|b| !b.is_ascii_graphic()) {
            let mut bad = url.get(at..).unwrap_or_default().chars();
            let bad: String = bad.next().into_iter().collect();
            return Err(refuse(&filled(
                "holds %; percent-encode it",
                &[&quoted(&bad)],
            )));
        }
        let parts = place_of(url, "://").and_then(|at| Some((url.get(..at)?, url.get(at + 3..)?)));
        let Some((scheme, rest)) = parts else {
            return Err(refuse("is not an absolute URL; write https://host/path"));
        };
        let https = scheme.eq_ignore_ascii_case("https");
        if !https && !scheme.eq_ignore_ascii_case("http") {
            return Err(refuse("is neither http nor https"));
        }
        let authority = before(rest, b"/?#");
        if authority.bytes().any(|b| b == b'@') {
            return Err(InvalidMessage(
                "the URL carries credentials before its host; give them to the credentials callback \
                 instead, the journal must not hold them"
                    .into(),
            ));
        }
        let (host, port) = split_port(authority);
        if host.is_empty() || host == "[]" {
            return Err(refuse("has no host"));
        }
        let port = match port {
            None => {
                if https {
                    443
                } else {
                    80
                }
            }
            Some(text) => match number(text).map(u16::try_from) {
                Some(Ok(port)) => port,
                _ => return Err(refuse("has an invalid port")),
            },
        };
        let mut host: Box<str> = host.into();
        host.make_ascii_lowercase();
        Ok(Origin { https, host, port })
    }

    fn scheme(&self) -> &'static str {
        if self.https { "https" } else { "http" }
    }

    /// As people write it.
    pub(crate) fn text(&self) -> String {
        let port = match (self.https, self.port) {
            (true, 443) | (false, 80) => String::new(),
            (_, port) => [":", &decimal(port)].concat(),
        };
        [self.scheme(), "://", &self.host, &port].concat()
    }

    /// Whether it is `https`.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.https
    }

    /// The host, in lower case.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

fn split_port(authority: &str) -> (&str, Option<&str>) {
    match around_last(authority, b':') {
        // Within brackets a colon is the host's own.
        Some((host, port)) if !port.bytes().any(|b| b == b']') => (host, Some(port)),
        _ => (authority, None),
    }
}

/// A URL as it may be shown: the query can hold what is nobody's business.
pub(crate) fn without_query(url: &str) -> &str {
    before(url, b"?#")
}

/// Resolves a `Location` against the URL that answered with it.
///
/// # Errors
/// Refuses a location that is no URL that could be sent to.
pub(crate) fn resolve(base: &str, location: &str) -> Result<String, InvalidMessage> {
    let origin = Origin::of(base)?;
    let location = before(location, b"#");
    let absolute = if place_of(location, "://").is_some() {
        location.to_owned()
    } else if let Some(rest) = location.strip_prefix("//") {
        [origin.scheme(), "://", rest].concat()
    } else if location.starts_with('/') {
        [&origin.text(), location].concat()
    } else {
        let path = without_query(base);
        match around_last(path, b'/') {
            _ if location.starts_with('?') || location.is_empty() => [path, location].concat(),
            // The slashes before the host do not count.
            Some((folder, _)) if place_of(folder, "://").is_some() => {
                [folder, "/", location].concat()
            }
            _ => [path, "/", location].concat(),
        }
    };
    Origin::of(&absolute)?;
    Ok(absolute)
}

/// The body of an answer, as far as it is known.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// All of it arrived.
    Whole(Vec<u8>),
    /// The connection broke before its end: a status without a body.
    Lost,
    /// It was larger than the client's cap and was not read to the end.
    TooLarge,
    /// It arrived and was handed out, but the journal does not keep it.
    NotKept,
}

impl Content {
    /// The bytes, if all of them are here.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Content::Whole(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Content::Whole(bytes) => write!(f, "Whole({} bytes)", bytes.len()),
            Content::Lost => f.write_str("Lost"),
            Content::TooLarge => f.write_str("TooLarge"),
            Content::NotKept => f.write_str("NotKept"),
        }
    }
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The header lines.
    pub headers: Headers,
    /// The body.
    pub content: Content,
}

impl Response {
    /// An answer with a whole body.
    #[must_use]
    pub fn new(status: u16, headers: Headers, body: impl Into<Vec<u8>>) -> Self {
        Response {
            status,
            headers,
            content: Content::Whole(body.into()),
        }
    }

    /// Whether the status is 2xx.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Whether a request that failed can have reached the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Not one byte of it was processed; proven, not guessed.
    No,
    /// It may have been.
    Maybe,
}

/// How an attempt ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// No address, nobody listening, no route, or no connection in time.
    Connect,
    /// The certificate or the protocol of TLS was refused.
    Tls,
    /// It was still queued for a connection when it was given up.
    Queued,
    /// The window would have closed before the body left.
    WindowClosed,
    /// Sending broke off.
    Write,
    /// The connection ended before an answer.
    Reset,
    /// The same, on a connection that had been idle in the pool.
    StaleConnection,
    /// The answer's head was cut off or made no sense.
    BadHead,
    /// The attempt took longer than its limit.
    Timeout,
    /// The server said that it did not process the request (GOAWAY, REFUSED_STREAM).
    Refused,
    /// A browser's `fetch` rejected; it does not say why.
    Fetch,
    /// A browser reported a redirect without letting it be seen.
    OpaqueRedirect,
    /// The transport could not build the request.
    Unsendable,
}

/// An attempt that brought no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Failure {
    /// What happened.
    pub kind: FailureKind,
    /// Whether the request can have reached the server.
    pub sent: Sent,
    /// A sentence for people, free of URLs' queries, bodies and credentials.
    pub detail: Box<str>,
}

impl Failure {
    /// A failure with its sentence.
    #[must_use]
    pub fn new(kind: FailureKind, sent: Sent, detail: impl Into<Box<str>>) -> Self {
        Failure {
            kind,
            sent,
            detail: detail.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e43_control_characters_never_enter_a_header_value() {
        for bad in ["a\rb", "a\nb", "a\0b", "a\u{7f}b", "\r\nx: y"] {
            assert!(Headers::new().push("x-note", bad).is_err(), "{bad:?}");
        }
        for bad in ["", "a b", "a:b", "a\n", "ä"] {
            assert!(Headers::new().push(bad, "v").is_err(), "{bad:?}");
        }
        assert!(Headers::new().push("X-Note", "plain, with spaces").is_ok());
    }

    #[test]
    fn get_and_head_are_refused_with_the_reason() {
        for safe in ["GET", "head"] {
            assert!(
                Method::parse(safe)
                    .unwrap_err()
                    .to_string()
                    .contains("needs no key")
            );
        }
        assert!(Method::parse("TRACE").is_err());
        assert_eq!(Method::parse("post"), Ok(Method::Post));
    }

    #[test]
    fn urls_that_cannot_be_sent_are_refused_and_credentials_are_not_repeated() {
        for bad in [
            "",
            "/orders",
            "ftp://a/b",
            "https://",
            "http://a b/",
            "https://a:99999/",
            "http:///x",
            "https://ä/",
        ] {
            assert!(Origin::of(bad).is_err(), "{bad:?}");
        }
        let error = Origin::of("https://user:hunter2@a.example/")
            .unwrap_err()
            .to_string();
        assert!(!error.contains("hunter2"), "{error}");
        let error = Origin::of("nothing?token=hunter2").unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn origins_ignore_case_and_the_usual_port() {
        assert_eq!(
            Origin::of("http://[::1]:8080/a").unwrap().to_string(),
            "http://[::1]:8080"
        );
        assert_eq!(
            Origin::of("http://A:80").unwrap(),
            Origin::of("http://a/b?c").unwrap()
        );
        assert_ne!(
            Origin::of("http://a").unwrap(),
            Origin::of("https://a").unwrap()
        );
    }

    #[test]
    fn locations_resolve_against_the_url_that_answered() {
        let base = "https://a.example/v1/orders?x=1";
        for (location, want) in [
            ("/v2/o", "https://a.example/v2/o"),
            ("jobs/7", "https://a.example/v1/jobs/7"),
            ("?page=2", "https://a.example/v1/orders?page=2"),
            ("//b.example/x", "https://b.example/x"),
            ("http://c.example/y#part", "http://c.example/y"),
        ] {
            assert_eq!(resolve(base, location).unwrap(), want);
        }
        assert_eq!(
            resolve("https://a.example", "x").unwrap(),
            "https://a.example/x"
        );
        assert!(resolve(base, "javascript://alert(1)").is_err());
    }
}

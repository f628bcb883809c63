//! Just enough JSON to read an error code and to add one member.
//!
//! A JSON library would double the size of the browser build for the sake of three lookups, so the
//! core scans the text where it lies. The scanner is total: it never panics, never recurses deeper
//! than [`DEEPEST`], and whatever it cannot read it reports as absent.

use crate::text::{around, before, hex, number, parts};

/// How deeply values may nest before the scanner gives up on them.
const DEEPEST: usize = 96;

/// A scalar found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scalar {
    /// Whether it is a string.
    pub(crate) quoted: bool,
    /// As it was written; of a string, with its escapes resolved.
    pub(crate) text: String,
}

/// The scalar at `path`, such as `error.code` or `errors[0].reason`.
///
/// Of a member given twice the last one counts, as in nearly every parser. What follows a broken
/// place is not seen; what stands before it is.
pub(crate) fn find(text: &[u8], path: &str) -> Option<Scalar> {
    let mut at = Scanner::new(text).at;
    for step in parts(path, b'.') {
        let (name, index) = around(step, b'[').unwrap_or((step, ""));
        if !name.is_empty() {
            at = Scanner { text, at }.member(name)?;
        }
        if !index.is_empty() {
            let index = number(before(index, b"]"))?;
            at = Scanner { text, at }.element(index)?;
        }
    }
    Scanner { text, at }.scalar()
}

/// The string at `path`.
pub(crate) fn text(body: &[u8], path: &str) -> Option<String> {
    find(body, path)
        .filter(|found| found.quoted)
        .map(|found| found.text)
}

/// Whether `text` is surely not JSON. Nesting too deep to follow gets the benefit of the doubt.
pub(crate) fn is_broken(text: &[u8]) -> bool {
    let mut scanner = Scanner::new(text);
    match scanner.skip(0) {
        Ok(()) => {
            scanner.space();
            scanner.at != text.len() || std::str::from_utf8(text).is_err()
        }
        Err(Stop::Broken) => true,
        Err(Stop::TooDeep) => false,
    }
}

/// Why a member could not be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAdded {
    /// The text is no JSON object, or too deep to be sure.
    NotAnObject,
    /// The object has a member of that name.
    Exists,
}

/// `text` with one more member at its front and every other byte as it was.
pub(crate) fn with_member(text: &[u8], name: &str, value: &str) -> Result<Vec<u8>, NotAdded> {
    let mut scanner = Scanner::new(text);
    let open = scanner.at;
    let whole = scanner.skip(0).is_ok() && {
        scanner.space();
        scanner.at == text.len()
    };
    if !whole || text.get(open) != Some(&b'{') || std::str::from_utf8(text).is_err() {
        return Err(NotAdded::NotAnObject);
    }
    let object = Scanner { text, at: open };
    if object.clone().member(name).is_some() {
        return Err(NotAdded::Exists);
    }
    let mut inside = Scanner { text, at: open + 1 };
    inside.space();
    let comma = if inside.peek() == Some(b'}') { "" } else { "," };
    let added = [&quoted(name), ":", &quoted(value), comma].concat();
    let mut out = Vec::with_capacity(text.len() + added.len());
    out.extend_from_slice(&text[..=open]);
    out.extend_from_slice(added.as_bytes());
    out.extend_from_slice(&text[open + 1..]);
    Ok(out)
}

/// `text` as a JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c < ' ' => {
                out.push_str("\\u00");
                out.push(hex(c as u8 >> 4));
                out.push(hex(c as u8 & 15));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

enum Stop {
    Broken,
    TooDeep,
}

#[derive(Clone)]
struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// At the first value, past a byte order mark and white space.
    fn new(text: &'a [u8]) -> Self {
        let at = if text.starts_with(b"\xef\xbb\xbf") {
            3
        } else {
            0
        };
        let mut scanner = Scanner { text, at };
        scanner.space();
        scanner
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Where the last member called `name` has its value.
    fn member(mut self, name: &str) -> Option<usize> {
        let mut found = None;
        if !self.eat(b'{') {
            return None;
        }
        loop {
            self.space();
            let start = self.at;
            if self.string().is_err() {
                return found;
            }
            let same = unquoted(&self.text[start..self.at]) == name;
            self.space();
            if !self.eat(b':') {
                return found;
            }
            self.space();
            if same {
                found = Some(self.at);
            }
            if self.skip(1).is_err() {
                return found;
            }
            self.space();
            if !self.eat(b',') {
                return found;
            }
        }
    }

    /// Where element `index` of an array stands.
    fn element(mut self, index: u64) -> Option<usize> {
        if !self.eat(b'[') {
            return None;
        }
        for _ in 0..index {
            self.space();
            self.skip(1).ok()?;
            self.space();
            if !self.eat(b',') {
                return None;
            }
        }
        self.space();
        (self.peek()? != b']').then_some(self.at)
    }

    fn scalar(mut self) -> Option<Scalar> {
        let start = self.at;
        let first = self.peek()?;
        if matches!(first, b'{' | b'[') || self.skip(0).is_err() {
            return None;
        }
        let found = &self.text[start..self.at];
        let quoted = first == b'"';
        let text = if quoted {
            unquoted(found)
        } else {
            str::from_utf8(found).ok()?.into()
        };
        (first != b'n').then_some(Scalar { quoted, text })
    }

    /// Past one value.
    fn skip(&mut self, depth: usize) -> Result<(), Stop> {
        if depth > DEEPEST {
            return Err(Stop::TooDeep);
        }
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'{') => self.items(depth, b'}', true),
            Some(b'[') => self.items(depth, b']', false),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            _ => self.number(),
        }
    }

    fn items(&mut self, depth: usize, close: u8, named: bool) -> Result<(), Stop> {
        self.at += 1;
        self.space();
        if self.eat(close) {
            return Ok(());
        }
        loop {
            self.space();
            if named {
                self.string()?;
                self.space();
                if !self.eat(b':') {
                    return Err(Stop::Broken);
                }
                self.space();
            }
            self.skip(depth + 1)?;
            self.space();
            if self.eat(close) {
                return Ok(());
            }
            if !self.eat(b',') {
                return Err(Stop::Broken);
            }
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Stop> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(())
        } else {
            Err(Stop::Broken)
        }
    }

    fn string(&mut self) -> Result<(), Stop> {
        if !self.eat(b'"') {
            return Err(Stop::Broken);
        }
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'"' => return Ok(()),
                0..0x20 => return Err(Stop::Broken),
                b'\\' => match self.peek() {
                    Some(b'u') => {
                        self.at += 1;
                        for _ in 0..4 {
                            if !self.peek().is_some_and(|b| b.is_ascii_hexdigit()) {
                                return Err(Stop::Broken);
                            }
                            self.at += 1;
                        }
                    }
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
                    _ => return Err(Stop::Broken),
                },
                _ => {}
            }
        }
        Err(Stop::Broken)
    }

    fn digits(&mut self) -> Result<(), Stop> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start {
            Ok(())
        } else {
            Err(Stop::Broken)
        }
    }

    fn number(&mut self) -> Result<(), Stop> {
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _sign = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        Ok(())
    }
}

/// A scanned string without its quotes and escapes; what no character can be becomes U+FFFD, and so does all of a
/// string that is not UTF-8.
fn unquoted(string: &[u8]) -> String {
    let inner = string
        .get(1..string.len().saturating_sub(1))
        .unwrap_or_default();
    let inner = str::from_utf8(inner).unwrap_or("\u{fffd}");
    let (mut text, mut chars, mut high) = (String::new(), inner.chars(), None::<u32>);
    while let Some(c) = chars.next() {
        let mut code = u32::from(c);
        if c == '\\' {
            code = match chars.next().unwrap_or(c) {
                'b' => 8,
                'f' => 12,
                'n' => 10,
                'r' => 13,
                't' => 9,
                'u' => {
                    let digits = chars.by_ref().take(4);
                    digits.fold(0, |code, c| code * 16 + c.to_digit(16).unwrap_or(0))
                }
                other => u32::from(other),
            };
        }
        // Two halves make a character; one alone makes none.
        match (high.take(), code) {
            (Some(first), 0xdc00..0xe000) => {
                code = 0x10000 + ((first - 0xd800) << 10) + (code - 0xdc00);
            }
            (Some(_), _) => text.push('\u{fffd}'),
            _ => {}
        }
        if (0xd800..0xdc00).contains(&code) {
            high = Some(code);
        } else {
            text.push(char::from_u32(code).unwrap_or('\u{fffd}'));
        }
    }
    if high.is_some() {
        text.push('\u{fffd}');
    }
    text
}

#[cfg(test)]
mod tests;

//! A strict JSON reader that writes the canonical form as it goes.
//!
//! A general parser will not do: it keeps the last of two equal members and rounds large integers,
//! and both would let two different payments share a fingerprint.

use std::fmt::Write as _;

const DEPTH: usize = 128;
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Why a JSON body has no fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonFault {
    /// Not JSON at this byte.
    #[error("the body is not JSON (byte {0})")]
    Syntax(usize),
    /// The same member name twice in one object.
    #[error("the member `{0}` appears twice")]
    Twice(String),
    /// Half of a surrogate pair.
    #[error("a lone surrogate stands in a string (byte {0})")]
    LoneSurrogate(usize),
    /// A number beyond what a double can hold.
    #[error("a number is out of range (byte {0})")]
    Range(usize),
    /// Nested too deeply to be read safely.
    #[error("the body is nested deeper than {DEPTH} levels")]
    Depth,
}

type Result<T> = std::result::Result<T, JsonFault>;

pub(super) fn canonical(body: &[u8]) -> Result<String> {
    let text = std::str::from_utf8(body).map_err(|e| JsonFault::Syntax(e.valid_up_to()))?;
    let mut reader = Reader { text, at: 0 };
    let mut out = String::with_capacity(text.len());
    reader.value(&mut out, 0)?;
    reader.space();
    if reader.at == text.len() {
        Ok(out)
    } else {
        Err(JsonFault::Syntax(reader.at))
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn fault<T>(&self) -> Result<T> {
        Err(JsonFault::Syntax(self.at))
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        self.fault()
    }

    fn value(&mut self, out: &mut String, depth: usize) -> Result<()> {
        if depth > DEPTH {
            return Err(JsonFault::Depth);
        }
        self.space();
        match self.peek() {
            Some(b'{') => self.object(out, depth),
            Some(b'[') => self.array(out, depth),
            Some(b'"') => {
                let text = self.string()?;
                write_string(&text, out);
                Ok(())
            }
            Some(b'-' | b'0'..=b'9') => self.number(out),
            _ => {
                let rest = self.text.get(self.at..).unwrap_or("");
                let word = ["true", "false", "null"]
                    .into_iter()
                    .find(|w| rest.starts_with(w));
                let Some(word) = word else {
                    return self.fault();
                };
                self.at += word.len();
                out.push_str(word);
                Ok(())
            }
        }
    }

    fn array(&mut self, out: &mut String, depth: usize) -> Result<()> {
        self.expect(b'[')?;
        out.push('[');
        self.space();
        if self.peek() != Some(b']') {
            loop {
                self.value(out, depth + 1)?;
                self.space();
                if self.peek() != Some(b',') {
                    break;
                }
                self.at += 1;
                out.push(',');
            }
        }
        self.expect(b']')?;
        out.push(']');
        Ok(())
    }

    fn object(&mut self, out: &mut String, depth: usize) -> Result<()> {
        self.expect(b'{')?;
        let mut members: Vec<(Vec<u16>, String, String)> = Vec::new();
        self.space();
        if self.peek() != Some(b'}') {
            loop {
                self.space();
                let name = self.string()?;
                self.space();
                self.expect(b':')?;
                let mut value = String::new();
                self.value(&mut value, depth + 1)?;
                members.push((name.encode_utf16().collect(), name, value));
                self.space();
                if self.peek() != Some(b',') {
                    break;
                }
                self.at += 1;
            }
        }
        self.expect(b'}')?;
        // Names are ordered by UTF-16 units, which differs from the order of their UTF-8 bytes.
        members.sort_by(|a, b| a.0.cmp(&b.0));
        if let Some(pair) = members.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(JsonFault::Twice(pair[0].1.clone()));
        }
        out.push('{');
        for (i, (_, name, value)) in members.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            write_string(name, out);
            out.push(':');
            out.push_str(value);
        }
        out.push('}');
        Ok(())
    }

    fn string(&mut self) -> Result<String> {
        self.expect(b'"')?;
        let mut text = String::new();
        loop {
            let Some(next) = self
                .text
                .get(self.at..)
                .and_then(|rest| rest.chars().next())
            else {
                return self.fault();
            };
            match next {
                '"' => {
                    self.at += 1;
                    return Ok(text);
                }
                '\\' => text.push(self.escape()?),
                c if c < ' ' => return self.fault(),
                c => {
                    self.at += c.len_utf8();
                    text.push(c);
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        let start = self.at;
        self.at += 1;
        let Some(kind) = self.peek() else {
            return self.fault();
        };
        self.at += 1;
        Ok(match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.unit()?;
                let mut units = vec![first];
                if (0xD800..0xDC00).contains(&first) && self.text[self.at..].starts_with("\\u") {
                    self.at += 2;
                    units.push(self.unit()?);
                }
                let mut decoded = char::decode_utf16(units);
                match (decoded.next(), decoded.next()) {
                    (Some(Ok(c)), None) => c,
                    _ => return Err(JsonFault::LoneSurrogate(start)),
                }
            }
            _ => return Err(JsonFault::Syntax(start)),
        })
    }

    fn unit(&mut self) -> Result<u16> {
        let digits = self.text.get(self.at..self.at + 4).filter(|d| {
            // `from_str_radix` would take a sign.
            d.bytes().all(|b| b.is_ascii_hexdigit())
        });
        let Some(unit) = digits.and_then(|d| u16::from_str_radix(d, 16).ok()) else {
            return self.fault();
        };
        self.at += 4;
        Ok(unit)
    }

    fn digits(&mut self) -> Result<()> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start {
            self.fault()
        } else {
            Ok(())
        }
    }

    fn number(&mut self, out: &mut String) -> Result<()> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        let mut integer = true;
        if self.peek() == Some(b'.') {
            integer = false;
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            integer = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let literal = &self.text[start..self.at];
        let value: f64 = literal.parse().map_err(|_| JsonFault::Syntax(start))?;
        if !value.is_finite() {
            return Err(JsonFault::Range(start));
        }
        if integer && value.abs() >= EXACT && format!("{value:.0}") != literal {
            out.push_str(literal);
        } else {
            write_number(value, out);
        }
        Ok(())
    }
}

/// A number as ECMAScript prints it.
fn write_number(value: f64, out: &mut String) {
    if value == 0.0 {
        out.push('0');
        return;
    }
    if value < 0.0 {
        out.push('-');
    }
    // Rust's `{:e}` gives the shortest digits that read back as the same double: `d.ddde-7`.
    let shortest = format!("{:e}", value.abs());
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let point = exponent + 1;
    let cut = |n: i32| usize::try_from(n).unwrap_or(0);
    if (count..=21).contains(&point) {
        out.push_str(&digits);
        out.extend(std::iter::repeat_n('0', cut(point - count)));
    } else if (1..=21).contains(&point) {
        let (whole, part) = digits.split_at(cut(point));
        let _ = write!(out, "{whole}.{part}");
    } else if (-5..=0).contains(&point) {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', cut(-point)));
        out.push_str(&digits);
    } else {
        let (first, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{first}{dot}{rest}e{sign}{}", exponent.abs());
    }
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

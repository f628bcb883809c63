//! Texts taken apart and put together, with no more machinery than a page should download.

/// A text of somebody else's, to be named in a message: control characters do not get into it.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        quoted.push(if c.is_control() { '\u{fffd}' } else { c });
    }
    quoted.push('"');
    quoted
}

/// A number as people write it, without the machinery that formats everything else.
pub(crate) fn decimal(number: impl Into<u64>) -> String {
    written(number.into())
}

fn written(mut number: u64) -> String {
    let mut text = String::new();
    loop {
        text.insert(0, char::from(b'0' + (number % 10) as u8));
        number /= 10;
        if number == 0 {
            return text;
        }
    }
}

/// A digit below 16 in lower case.
pub(crate) fn hex(digit: u8) -> char {
    char::from(b"0123456789abcdef"[usize::from(digit & 15)])
}

/// A text in which each `%` stands for the next of the fillers.
pub(crate) fn filled(template: &str, fillers: &[&str]) -> String {
    let mut fillers = fillers.iter();
    let (mut text, mut rest) = (String::new(), template);
    while let Some((before, after)) = around(rest, b'%') {
        text.push_str(before);
        text.push_str(fillers.next().copied().unwrap_or_default());
        rest = after;
    }
    text.push_str(rest);
    text
}

/// A text of digits and nothing else, saturating.
pub(crate) fn number(text: &str) -> Option<u64> {
    let mut number = None;
    for byte in text.bytes() {
        if !byte.is_ascii_digit() {
            return None;
        }
        let before = number.unwrap_or(0);
        number = Some(if before >= u64::MAX / 10 {
            u64::MAX
        } else {
            before * 10 + u64::from(byte - b'0')
        });
    }
    number
}

/// The parts of a text between marks.
pub(crate) fn parts(text: &str, mark: u8) -> Parts<'_> {
    Parts {
        rest: Some(text),
        mark,
    }
}

pub(crate) fn place_in(bytes: &[u8], part: &str) -> Option<usize> {
    let mut places = bytes.windows(part.len().max(1));
    places.position(|window| window == part.as_bytes())
}

/// Whether a word stands in a list of words with a space between each two.
pub(crate) fn is_among(list: &str, word: &str) -> bool {
    parts(list, b' ').any(|known| known == word)
}

/// Where `part` begins in `text`. The standard library's search is quicker, and larger than all else
/// that a page downloads of this file.
pub(crate) fn place_of(text: &str, part: &str) -> Option<usize> {
    place_in(text.as_bytes(), part)
}

/// What stands before the first of these marks.
#[expect(
    clippy::manual_contains,
    reason = "the library's search is made for long lists, and a page would download it"
)]
pub(crate) fn before<'a>(text: &'a str, marks: &[u8]) -> &'a str {
    let end = text
        .bytes()
        .position(|byte| marks.iter().any(|mark| *mark == byte));
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

/// What stands before the first `mark`, and after it.
pub(crate) fn around(text: &str, mark: u8) -> Option<(&str, &str)> {
    let at = text.bytes().position(|byte| byte == mark)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// What stands before the last `mark`, and after it.
pub(crate) fn around_last(text: &str, mark: u8) -> Option<(&str, &str)> {
    let at = text.bytes().rposition(|byte| byte == mark)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

pub(crate) struct Parts<'a> {
    rest: Option<&'a str>,
    mark: u8,
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.rest?;
        let (part, after) = match around(rest, self.mark) {
            Some((part, after)) => (part, Some(after)),
            None => (rest, None),
        };
        self.rest = after;
        Some(part)
    }
}

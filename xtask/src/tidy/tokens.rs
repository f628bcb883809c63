//! Rust text as tokens: enough to tell code from comments and strings, and no more.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name or keyword.
    Name,
    /// A string, character or number.
    Literal,
    /// A lifetime.
    Lifetime,
    /// A single sign.
    Sign,
}

/// One token and the line it begins on, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) kind: Kind,
    pub(crate) line: usize,
}

/// The tokens of `source`, without comments and white space.
pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        let (kind, length) = if first.is_whitespace() {
            (None, first.len_utf8())
        } else if rest.starts_with("//") {
            (None, rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            (None, block_comment(rest))
        } else if let Some(length) = string(rest) {
            (Some(Kind::Literal), length)
        } else if first == '\'' {
            let (kind, length) = quote(rest);
            (Some(kind), length)
        } else if first.is_alphabetic() || first == '_' {
            (Some(Kind::Name), word(rest))
        } else if first.is_ascii_digit() {
            (Some(Kind::Literal), number(rest))
        } else {
            (Some(Kind::Sign), first.len_utf8())
        };
        let text = &rest[..length];
        if let Some(kind) = kind {
            found.push(Token { text, kind, line });
        }
        line += text.matches('\n').count();
        at += length;
    }
    found
}

fn word(rest: &str) -> usize {
    let start = if rest.starts_with("r#") { 2 } else { 0 };
    rest[start..]
        .find(|c: char| !(c.is_alphanumeric() || c == '_'))
        .map_or(rest.len(), |i| i + start)
}

fn number(rest: &str) -> usize {
    let whole = word(rest);
    let after = rest[whole..].strip_prefix('.').unwrap_or_default();
    if after.starts_with(|c: char| c.is_ascii_digit()) {
        whole + 1 + word(after)
    } else {
        whole
    }
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// The length of the string that `rest` begins with, its prefix included.
fn string(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "b", "c", "r"]
        .iter()
        .find(|p| rest.starts_with(**p))
        .map_or(0, |p| p.len());
    let body = &rest[prefix..];
    if rest[..prefix].ends_with('r') {
        let hashes = body.len() - body.trim_start_matches('#').len();
        let inner = body[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        let close = inner.find(&end).map_or(inner.len(), |i| i + end.len());
        return Some(prefix + hashes + 1 + close);
    }
    let inner = body.strip_prefix('"')?;
    Some(prefix + 1 + until(inner, '"'))
}

/// The length up to and with the closing `end`, past escapes.
fn until(inner: &str, end: char) -> usize {
    let mut escaped = false;
    for (at, c) in inner.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == end {
            return at + 1;
        }
    }
    inner.len()
}

/// A character or a lifetime: what follows the first character after the quote decides.
fn quote(rest: &str) -> (Kind, usize) {
    let inner = &rest[1..];
    let mut chars = inner.chars();
    let first = chars.next();
    if first == Some('\\') || chars.next() == Some('\'') {
        (Kind::Literal, 1 + until(inner, '\''))
    } else {
        (Kind::Lifetime, 1 + word(inner))
    }
}

/// The place just after the bracket that closes the one at `open`.
pub(crate) fn after_closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if token.kind == Kind::Sign {
            match token.text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return at + 1;
                    }
                }
                _ => {}
            }
        }
    }
    tokens.len()
}

/// Whether the tokens from `at` on are these.
pub(crate) fn starts(tokens: &[Token<'_>], at: usize, texts: &[&str]) -> bool {
    tokens
        .get(at..at + texts.len())
        .is_some_and(|here| here.iter().zip(texts).all(|(t, text)| t.text == *text))
}

/// The tokens that are built into the crate: items under `#[cfg(test)]` are left out.
pub(crate) fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        if starts(tokens, at, &["#", "[", "cfg", "(", "test", ")", "]"])
            || starts(tokens, at, &["#", "[", "cfg", "(", "all", "(", "test", ","])
        {
            at = after_item(tokens, at);
        } else {
            kept.push(tokens[at]);
            at += 1;
        }
    }
    kept
}

/// The place after the item at `at`, its attributes included.
fn after_item(tokens: &[Token<'_>], mut at: usize) -> usize {
    while starts(tokens, at, &["#", "["]) {
        at = after_closing(tokens, at + 1);
    }
    while at < tokens.len() {
        match tokens[at].text {
            ";" => return at + 1,
            "{" => return after_closing(tokens, at),
            "(" | "[" => at = after_closing(tokens, at),
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        tokens(source).iter().map(|t| t.text).collect()
    }

    #[test]
    fn comments_fall_away_and_strings_stay_whole() {
        let source =
            "a // b\n/* c /* d */ e */ \"f // g\" r#\"h \" i\"# 'j' '\\'' 'k b'l' 1.5..2 r#fn";
        assert_eq!(
            texts(source),
            [
                "a",
                "\"f // g\"",
                "r#\"h \" i\"#",
                "'j'",
                "'\\''",
                "'k",
                "b",
                "'l'",
                "1.5",
                ".",
                ".",
                "2",
                "r#fn"
            ]
        );
    }

    #[test]
    fn lines_are_counted_through_comments_and_strings() {
        let found = tokens("/*\n*/ \"x\ny\"\nlast");
        assert_eq!(found.last().map(|t| t.line), Some(4));
    }

    #[test]
    fn unfinished_text_ends_where_the_file_ends() {
        for cut in ["\"abc", "/* abc", "r#\"abc", "'\\", "'", "b\"", "{ ( ["] {
            let _ = without_tests(&tokens(cut));
        }
    }

    #[test]
    fn only_what_is_test_alone_is_left_out() {
        let source = "one #[cfg(test)] #[x] mod t { two } #[cfg(test)] mod u; three \
                      #[cfg(all(test, feature = \"x\"))] fn f() { four } \
                      #[cfg(any(test, feature = \"y\"))] five";
        let kept = without_tests(&tokens(source))
            .iter()
            .map(|t| t.text)
            .collect::<Vec<_>>()
            .join(" ");
        assert_eq!(
            kept,
            "one three # [ cfg ( any ( test , feature = \"y\" ) ) ] five"
        );
    }
}

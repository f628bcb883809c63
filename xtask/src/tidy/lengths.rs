//! Files and functions that grew long: a signal to look at, not a failure.

use super::tokens::{Kind, Token, after_closing, starts, tokens, without_tests};
use super::{File, Finding};
use std::collections::BTreeSet;

const FILE: usize = 500;
const FUNCTION: usize = 70;

/// Names what is longer than it should be, tests apart.
pub(crate) fn signals(files: &[File]) -> Vec<Finding> {
    files
        .iter()
        .filter(|f| f.is_rust() && !f.is_test())
        .flat_map(signals_of)
        .collect()
}

fn signals_of(file: &File) -> Vec<Finding> {
    let all = tokens(&file.text);
    let code = without_tests(&all);
    let mut found = Vec::new();
    let total = file.text.lines().count() - lines_of_tests(&all, &code);
    if total > FILE {
        found.push(file.finding(
            1,
            format!("{total} lines without tests; {FILE} is a good limit"),
        ));
    }
    for at in 0..code.len() {
        let name = code.get(at + 1).filter(|t| t.kind == Kind::Name);
        let (true, Some(name)) = (starts(&code, at, &["fn"]), name) else {
            continue;
        };
        if let Some(lines) = function(&code, at).filter(|lines| *lines > FUNCTION) {
            found.push(file.finding(
                code[at].line,
                format!(
                    "`{}` has {lines} lines; {FUNCTION} is a good limit",
                    name.text
                ),
            ));
        }
    }
    found
}

/// Lines from `fn` to the brace that ends the body; `None` for a signature alone.
fn function(code: &[Token<'_>], at: usize) -> Option<usize> {
    let mut next = at;
    loop {
        match code.get(next)?.text {
            ";" => return None,
            "{" => break,
            "(" | "[" => next = after_closing(code, next),
            _ => next += 1,
        }
    }
    let end = after_closing(code, next) - 1;
    Some(code[end].line - code[at].line + 1)
}

/// Lines between the first and last token of each run that is in `all` and not in `code`.
fn lines_of_tests(all: &[Token<'_>], code: &[Token<'_>]) -> usize {
    let mut kept = code.iter().peekable();
    let mut lines = BTreeSet::new();
    let mut last = None;
    for token in all {
        if kept.next_if(|k| std::ptr::eq(k.text, token.text)).is_some() {
            last = None;
        } else {
            lines.extend(last.unwrap_or(token.line)..=token.line);
            last = Some(token.line);
        }
    }
    lines.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<String> {
        let file = File::new("src/x.rs", text);
        signals(&[file])
            .into_iter()
            .map(|f| f.to_string())
            .collect()
    }

    #[test]
    fn a_long_file_is_named_but_its_tests_do_not_count() {
        let code = "const A: u8 = 1;\n".repeat(500);
        let tests = format!(
            "#[cfg(test)]\nmod tests {{\n{}}}\n",
            "\n// x\nfn t() {}\n".repeat(200)
        );
        assert_eq!(said(&format!("{code}{tests}")), [""; 0]);
        let over = format!("const B: u8 = 1;\n{code}{tests}");
        assert_eq!(
            said(&over),
            ["src/x.rs:1: 501 lines without tests; 500 is a good limit"]
        );
    }

    #[test]
    fn a_long_function_is_named() {
        let body = |n: usize| format!("fn long(a: [u8; 2])\n{{\n{}}}\n", "go();\n".repeat(n));
        assert_eq!(said(&body(67)), [""; 0]);
        assert_eq!(
            said(&format!("trait T {{ fn short(); }}\n{}", body(68))),
            ["src/x.rs:2: `long` has 71 lines; 70 is a good limit"]
        );
    }
}

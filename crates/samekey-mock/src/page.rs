//! The page for people: static files, compiled in.

use crate::answer::Answer;

/// The file at this path.
pub(crate) fn asset(path: &str) -> Option<Answer> {
    let (kind, text) = match path {
        "/" | "/index.html" => ("text/html; charset=utf-8", include_str!("page/index.html")),
        "/_mock/page.css" => ("text/css", include_str!("page/page.css")),
        "/_mock/page.js" => ("text/javascript", include_str!("page/page.js")),
        _ => return None,
    };
    let answer = Answer::new(200).header("content-type", kind).body(text);
    Some(answer.header("content-security-policy", "default-src 'self'"))
}

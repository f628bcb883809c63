//! What callers were told: lines that a worker adds to a file, each with one write.

use super::tools::{Res, appended, because, wall};
use samekey::{Error, Outcome};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

/// One thing that a caller was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// It is durable now, under this key.
    Begun(String),
    /// The server's final word.
    Outcome(Answer),
    /// Not known yet.
    Unresolved(String),
    /// Certain: nothing left this machine.
    Nothing(String),
    /// It did not happen, though something may have been sent.
    Failed(String),
    /// Closed by the caller before anything was sent.
    Abandoned,
    /// Settled by the caller's own word.
    Settled,
}

/// A final answer as the caller saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) recorded: bool,
    /// The body, escaped; `-` where it was not whole.
    pub(super) body: String,
}

/// One line.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) at: u64,
    pub(super) number: u64,
    pub(super) said: Said,
}

/// Bytes as a line holds them.
pub(super) fn escaped(body: Option<&[u8]>) -> String {
    body.map_or_else(|| "-".into(), |bytes| bytes.escape_ascii().to_string())
}

/// The worker's end.
pub(super) struct Teller(Mutex<File>);

impl Teller {
    pub(super) fn new(path: &Path) -> Res<Teller> {
        appended(path).map(|file| Teller(Mutex::new(file)))
    }

    fn line(&self, number: u64, word: &str, rest: &str) {
        let line = format!("{} {number} {word} {rest}\n", wall());
        let written = self
            .0
            .lock()
            .map(|mut file| file.write_all(line.as_bytes()));
        if !matches!(written, Ok(Ok(()))) {
            // What the judge does not hear of, it cannot judge.
            std::process::abort();
        }
    }

    pub(super) fn begun(&self, number: u64, key: &str) {
        self.line(number, "begun", key);
    }

    pub(super) fn word(&self, number: u64, word: &str) {
        self.line(number, word, "-");
    }

    /// The journal would not have it, and nothing was begun.
    pub(super) fn refused(&self, number: u64, error: &Error) {
        self.line(number, "refused", &format!("{:?}", error.kind()));
    }

    pub(super) fn result(&self, number: u64, result: &Result<Outcome, Error>) {
        match result {
            Ok(outcome) if outcome.note().is_some() => self.word(number, "settled"),
            Ok(outcome) => {
                let recorded = u8::from(outcome.is_recorded());
                let body = escaped(outcome.body());
                let rest = format!("{} {recorded} {body}", outcome.status());
                self.line(number, "outcome", &rest);
            }
            Err(error) => {
                let word = if error.is_unresolved() {
                    "unresolved"
                } else if error.nothing_was_sent() {
                    "nothing"
                } else {
                    "failed"
                };
                self.line(number, word, &format!("{:?}", error.kind()));
            }
        }
    }
}

/// Reads what was told. A line counts only if it was received whole.
pub(super) fn read(path: &Path) -> Res<Vec<Told>> {
    match fs::read(path) {
        Ok(bytes) => Ok(parse(&bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(because("cannot read what was told")(error)),
    }
}

/// How many things were told so far.
pub(super) fn count(path: &Path) -> usize {
    let bytes = fs::read(path).unwrap_or_default();
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

fn parse(bytes: &[u8]) -> Vec<Told> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[..whole]);
    text.lines().filter_map(line).collect()
}

fn line(text: &str) -> Option<Told> {
    let mut words = text.splitn(4, ' ');
    let at = words.next()?.parse().ok()?;
    let number = words.next()?.parse().ok()?;
    let word = words.next()?;
    let rest = words.next()?.to_owned();
    let said = match word {
        "begun" => Said::Begun(rest),
        "outcome" => {
            let mut parts = rest.splitn(3, ' ');
            Said::Outcome(Answer {
                status: parts.next()?.parse().ok()?,
                recorded: parts.next()? == "1",
                body: parts.next()?.to_owned(),
            })
        }
        "unresolved" => Said::Unresolved(rest),
        "nothing" => Said::Nothing(rest),
        "failed" => Said::Failed(rest),
        "abandoned" => Said::Abandoned,
        "settled" => Said::Settled,
        _ => return None,
    };
    Some(Told { at, number, said })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_only_when_it_was_received_whole() {
        let told = parse(b"1 7 begun abc\n2 7 outcome 201 1 {\"a\": 1}\n3 7 unres");
        assert_eq!(told.len(), 2);
        assert_eq!(told[0].said, Said::Begun("abc".into()));
        let answer = Answer {
            status: 201,
            recorded: true,
            body: "{\"a\": 1}".into(),
        };
        assert_eq!(told[1].said, Said::Outcome(answer));
        assert!(parse(b"1 7 begun ab").is_empty());
    }
}

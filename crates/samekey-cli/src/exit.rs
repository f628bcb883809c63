//! How a run ended, as a number for scripts and as a text for people.

use samekey::journal::JournalError;
use samekey::{Error, ErrorKind, Outcome, Reference};

/// The exit codes. Of several the worst counts, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// It succeeded.
    Fine,
    /// The server's final word: it was refused, and nothing happened.
    Rejected,
    /// Not known yet, parked, or not sent yet: the reference was printed.
    Unknown,
    /// The command cannot be carried out as it was typed.
    Usage,
    /// The journal cannot be used.
    Journal,
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Fine => 0,
            Exit::Usage => 2,
            Exit::Rejected => 3,
            Exit::Unknown => 4,
            Exit::Journal => 5,
        }
    }

    pub(crate) fn of(outcome: &Outcome) -> Exit {
        if outcome.is_success() {
            Exit::Fine
        } else {
            Exit::Rejected
        }
    }
}

/// What went wrong, then what to do.
#[derive(Debug)]
pub(crate) struct Trouble {
    exit: Exit,
    kind: String,
    what: String,
    todo: Option<String>,
    reference: Option<Reference>,
    nothing_was_sent: Option<bool>,
}

impl Trouble {
    pub(crate) fn new(exit: Exit, kind: &str, what: impl Into<String>) -> Trouble {
        Trouble {
            exit,
            kind: kind.into(),
            what: what.into(),
            todo: None,
            reference: None,
            nothing_was_sent: None,
        }
    }

    pub(crate) fn usage(what: impl Into<String>) -> Trouble {
        Trouble::new(Exit::Usage, "usage", what)
    }

    /// What to do about it.
    pub(crate) fn todo(mut self, todo: impl Into<String>) -> Trouble {
        self.todo = Some(todo.into());
        self
    }

    pub(crate) fn about(mut self, reference: Reference) -> Trouble {
        self.reference = Some(reference);
        self
    }

    /// The same in other words: the library names its methods, the shell has options.
    pub(crate) fn reworded(mut self, what: impl Into<String>) -> Trouble {
        self.what = what.into();
        self
    }

    pub(crate) fn nothing_was_sent(mut self) -> Trouble {
        self.nothing_was_sent = Some(true);
        self
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    pub(crate) fn advice(&self) -> Option<&str> {
        self.todo.as_deref()
    }

    pub(crate) fn reference(&self) -> Option<Reference> {
        self.reference
    }

    /// As the documents of `--format json` carry it.
    pub(crate) fn document(&self) -> serde_json::Value {
        serde_json::json!({
            "kind": self.kind,
            "exit_code": self.exit.code(),
            "message": self.what,
            "do": self.todo,
            "reference": self.reference.map(|r| r.to_string()),
            "nothing_was_sent": self.nothing_was_sent,
        })
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        let exit = match error.kind() {
            ErrorKind::Journal(_) | ErrorKind::Damaged => Exit::Journal,
            ErrorKind::Attention(_)
            | ErrorKind::Deferred(_)
            | ErrorKind::NotApplied
            | ErrorKind::HeldElsewhere => Exit::Unknown,
            _ => Exit::Usage,
        };
        let text = error.to_string();
        let what = match error.reference() {
            Some(reference) => text
                .strip_suffix(&format!(" (reference {reference})"))
                .unwrap_or(&text),
            None => &text,
        };
        Trouble {
            exit,
            kind: name(error.kind()),
            what: what.to_owned(),
            todo: None,
            reference: error.reference(),
            nothing_was_sent: Some(error.nothing_was_sent()),
        }
    }
}

impl From<JournalError> for Trouble {
    fn from(error: JournalError) -> Trouble {
        Error::from(error).into()
    }
}

/// `Attention(WindowClosed)` as `attention-window-closed`: what a value is called in JSON.
pub(crate) fn kebab(debug: &str) -> String {
    let mut kebab = String::new();
    for c in debug.chars().filter(char::is_ascii_alphabetic) {
        if c.is_ascii_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(c.to_ascii_lowercase());
    }
    kebab
}

fn name(kind: ErrorKind) -> String {
    match kind {
        // A time or a phase is no part of a name.
        ErrorKind::Deferred(_) => "deferred".into(),
        ErrorKind::Ended(_) => "ended".into(),
        _ => kebab(&format!("{kind:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use samekey::Reason;

    #[test]
    fn names_for_json_come_from_the_library() {
        let attention = ErrorKind::Attention(Reason::WindowClosed);
        assert_eq!(name(attention), "attention-window-closed");
        assert_eq!(name(ErrorKind::NotApplied), "not-applied");
        let deferred = ErrorKind::Deferred(samekey::Timestamp::from_millis(1));
        assert_eq!(name(deferred), "deferred");
    }

    #[test]
    fn the_worst_exit_counts() {
        let all = [Exit::Rejected, Exit::Journal, Exit::Fine, Exit::Unknown];
        assert_eq!(all.into_iter().max(), Some(Exit::Journal));
    }
}

//! What is said, and where: results on stdout, everything else on stderr.

use crate::cli::Format;
use crate::exit::Trouble;
use console::{Style, Term};
use serde::Serialize;
use std::io::{IsTerminal, Write};

/// The voice of one run.
#[derive(Clone, Debug)]
pub(crate) struct Out {
    format: Format,
    quiet: bool,
    live: bool,
}

impl Out {
    pub(crate) fn new(format: Format, quiet: bool) -> Out {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
        console::set_colors_enabled(stdout.is_terminal() && !plain && !dumb);
        console::set_colors_enabled_stderr(stderr.is_terminal() && !plain && !dumb);
        Out {
            format,
            quiet,
            live: stderr.is_terminal() && !dumb && format == Format::Text && !quiet,
        }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether things may move on the screen.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// A line for people, on stderr.
    pub(crate) fn note(&self, line: &str) {
        if !self.quiet && !self.is_json() {
            err(line);
        }
    }

    /// A line that is said even to those who want quiet, on stderr.
    pub(crate) fn warn(&self, line: &str) {
        if !self.is_json() {
            err(line);
        }
    }

    /// Something that happened, for programs: a line of JSON on stderr.
    pub(crate) fn event(&self, event: &serde_json::Value) {
        if self.is_json() && !self.quiet {
            err(&event.to_string());
        }
    }

    /// A line of the result, on stdout. A reader that left is no fault of ours.
    pub(crate) fn line(&self, line: &str) {
        let _ = writeln!(std::io::stdout(), "{line}");
    }

    /// The result for programs: one document on stdout.
    pub(crate) fn document(&self, document: &impl Serialize) {
        match serde_json::to_string(document) {
            Ok(text) => self.line(&text),
            Err(error) => err(&format!("samekey: the result cannot be written: {error}")),
        }
    }

    /// Bytes as they are, on stdout; a terminal gets the line end that may be missing.
    pub(crate) fn bytes(&self, bytes: &[u8]) {
        let mut stdout = std::io::stdout();
        let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
        if written.is_ok() && stdout.is_terminal() && bytes.last().is_some_and(|b| *b != b'\n') {
            let _ = stdout.write_all(b"\n");
        }
    }

    /// What went wrong, then what to do.
    pub(crate) fn trouble(&self, trouble: &Trouble) {
        if self.is_json() {
            self.document(&serde_json::json!({ "error": trouble.document() }));
            return;
        }
        err(&self.trouble_text(trouble));
    }

    pub(crate) fn trouble_text(&self, trouble: &Trouble) -> String {
        let mut text = format!("{} {}", bad("samekey:"), trouble.what());
        if let Some(reference) = trouble.reference() {
            text.push_str(&format!("\n  reference {}", strong(&reference.to_string())));
        }
        if let Some(todo) = trouble.advice() {
            text.push_str(&format!("\n  {todo}"));
        }
        text
    }
}

fn err(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Columns of the terminal on stdout; 100 where there is none.
pub(crate) fn width() -> usize {
    match Term::stdout().size_checked() {
        Some((_, columns)) => usize::from(columns),
        None => 100,
    }
}

pub(crate) fn strong(text: &str) -> String {
    Style::new().for_stderr().bold().apply_to(text).to_string()
}

pub(crate) fn bad(text: &str) -> String {
    Style::new().for_stderr().red().apply_to(text).to_string()
}

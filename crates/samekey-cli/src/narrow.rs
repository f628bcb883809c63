//! A terminal that says it is a little narrower than it is.
//!
//! What moves is drawn on the whole width of a line. A terminal echoes Ctrl-C as `^C`, and on a full
//! line that begins another one: the line above could not be cleared any more, and a countdown would
//! stand there for ever. With some columns left free the echo stays on the line, and goes with it.

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, TermLike};
use std::io::{self, Write};

/// Columns for the echo.
const FREE: u16 = 4;

#[derive(Debug)]
struct Narrow(Term);

/// Where to draw what moves: on stderr, or nowhere.
pub(crate) fn target(live: bool) -> ProgressDrawTarget {
    if live {
        ProgressDrawTarget::term_like(Box::new(Narrow(Term::buffered_stderr())))
    } else {
        ProgressDrawTarget::hidden()
    }
}

/// What fits beside the `taken` columns of a moving line. A number that is cut must not look whole.
pub(crate) fn fit(text: &str, taken: usize) -> String {
    let columns = usize::from(Narrow(Term::stderr()).width());
    console::truncate_str(text, columns.saturating_sub(taken), "…").into_owned()
}

/// A line that stays, above the one that moves.
pub(crate) fn stay(bar: &ProgressBar, line: &str) {
    // Its own `println` fills lines up to the width that it is told, and begins none.
    bar.suspend(|| {
        let _ = writeln!(io::stderr(), "{line}");
    });
}

impl TermLike for Narrow {
    fn width(&self) -> u16 {
        self.0.size().1.saturating_sub(FREE)
    }

    fn height(&self) -> u16 {
        self.0.size().0
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_up(n)
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_down(n)
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_right(n)
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_left(n)
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.0.write_line(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.write_str(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}

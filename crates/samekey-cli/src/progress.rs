//! What is shown while one operation is driven: a countdown on a terminal, lines in a pipe.

use crate::interrupt::Interrupt;
use crate::narrow;
use crate::out::Out;
use crate::when::{monotonic, short};
use indicatif::{ProgressBar, ProgressStyle};
use samekey::{Error, Operation, Outcome, Update, Updates};
use serde_json::json;
use std::pin::pin;
use std::time::Duration;

/// How often a countdown moves.
const TICK: Duration = Duration::from_millis(100);

/// How driving an operation ended.
pub(crate) enum Drive {
    /// The library came to an end.
    Done(Result<Outcome, Error>),
    /// The user stopped it.
    Stopped {
        /// Whether this run sent anything.
        sent: bool,
    },
}

/// Drives an operation and shows how it goes.
///
/// `body`: given again, for an operation whose body the journal does not keep.
pub(crate) async fn drive(
    operation: &Operation,
    body: Option<Vec<u8>>,
    most: u32,
    interrupt: &mut Interrupt,
    out: &Out,
) -> Drive {
    let mut view = View::new(most, out);
    let mut updates = operation.updates();
    let mut ticks = tokio::time::interval(TICK);
    let drive = {
        let mut send = pin!(async {
            match body {
                Some(body) => operation.resume_with(body).await,
                None => operation.send().await,
            }
        });
        loop {
            tokio::select! {
                biased;
                () = interrupt.asked() => break Drive::Stopped { sent: view.sent },
                Some(update) = updates.next() => view.show(update),
                result = &mut send => {
                    drain(&mut updates, &mut view).await;
                    break Drive::Done(result);
                }
                _ = ticks.tick(), if out.is_live() => view.tick(),
            }
        }
    };
    view.clear();
    drive
}

/// Shows what was said before the end came.
async fn drain(updates: &mut Updates, view: &mut View<'_>) {
    loop {
        tokio::select! {
            biased;
            update = updates.next() => match update {
                Some(update) => view.show(update),
                None => return,
            },
            () = std::future::ready(()) => return,
        }
    }
}

struct View<'a> {
    out: &'a Out,
    bar: ProgressBar,
    most: u32,
    sent: bool,
    joined: bool,
    polling: Option<Duration>,
    state: State,
}

/// What the moving line says.
enum State {
    Idle,
    Sending {
        attempt: u32,
        since: Duration,
    },
    Waiting {
        attempt: u32,
        until: Duration,
        reason: Box<str>,
    },
    Polling {
        since: Duration,
    },
    Joined {
        since: Duration,
    },
}

impl View<'_> {
    fn new(most: u32, out: &Out) -> View<'_> {
        let bar = ProgressBar::with_draw_target(None, narrow::target(out.is_live()));
        if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {wide_msg}") {
            bar.set_style(style);
        }
        View {
            out,
            bar,
            most,
            sent: false,
            joined: false,
            polling: None,
            state: State::Idle,
        }
    }

    /// Something happened: a line that stays, or the moving line changes.
    fn show(&mut self, update: Update) {
        let now = monotonic();
        match update {
            Update::Sending { attempt } => {
                self.sent = true;
                self.state = State::Sending {
                    attempt,
                    since: now,
                };
                self.event(&json!({ "event": "sending", "attempt": attempt }));
                self.line(&format!("attempt {attempt} leaves"));
            }
            Update::Waiting {
                attempt,
                wait,
                reason,
            } => {
                self.event(&json!({
                    "event": "waiting",
                    "attempt": attempt,
                    "wait_ms": u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                    "reason": reason,
                }));
                if self.out.is_live() {
                    // The countdown goes; how the attempt ended stays.
                    narrow::stay(&self.bar, &format!("  attempt {attempt}: {reason}"));
                }
                self.line(&format!(
                    "attempt {attempt}: {reason}; next in {}",
                    short(wait)
                ));
                self.state = State::Waiting {
                    attempt,
                    until: now + wait,
                    reason,
                };
            }
            Update::Polling => {
                let first = self.polling.is_none();
                let since = *self.polling.get_or_insert(now);
                self.state = State::Polling { since };
                if !first {
                    return;
                }
                self.event(&json!({ "event": "polling" }));
                self.line("the server accepted it and works on it; its result is asked for");
            }
            Update::Joined if !self.joined => {
                self.joined = true;
                self.state = State::Joined { since: now };
                self.event(&json!({ "event": "joined" }));
                self.line("another process works on it; waiting for its outcome");
            }
            // How it ended is said by whoever asked for it.
            _ => {}
        }
        self.tick();
    }

    /// In a pipe every step is a line.
    fn line(&self, line: &str) {
        if !self.out.is_live() {
            self.out.note(line);
        }
    }

    /// An attempt's number, with the limit as long as that makes sense: earlier runs count too.
    fn numbered(&self, attempt: u32) -> String {
        if attempt <= self.most {
            format!("attempt {attempt} of {}", self.most)
        } else {
            format!("attempt {attempt}")
        }
    }

    fn event(&self, event: &serde_json::Value) {
        self.out.event(event);
    }

    fn tick(&mut self) {
        if !self.out.is_live() {
            return;
        }
        let now = monotonic();
        let message = match &self.state {
            State::Idle => String::new(),
            State::Sending { attempt, since } => format!(
                "{}: waiting for the answer, {}",
                self.numbered(*attempt),
                short(now.saturating_sub(*since))
            ),
            State::Waiting {
                attempt,
                until,
                reason,
            } => format!(
                "{} in {}: {reason}",
                self.numbered(attempt + 1),
                short(until.saturating_sub(now)),
            ),
            State::Polling { since } => format!(
                "accepted; the server works on it, {}",
                short(now.saturating_sub(*since))
            ),
            State::Joined { since } => format!(
                "another process works on it; waiting for its outcome, {}",
                short(now.saturating_sub(*since))
            ),
        };
        self.bar.set_message(narrow::fit(&message, 2));
        self.bar.tick();
    }

    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

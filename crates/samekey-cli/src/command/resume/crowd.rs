//! Several operations at the same time, with one bar for all of them.

use crate::command::send::explain;
use crate::credentials::EnvCredentials;
use crate::describe;
use crate::exit::{Exit, Trouble};
use crate::house::House;
use crate::interrupt::Interrupt;
use crate::narrow;
use crate::out::Out;
use indicatif::{ProgressBar, ProgressStyle};
use samekey::{Error, Operation, Origin, Outcome};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinSet;

const TEMPLATE: &str = "{spinner:.cyan} [{bar:24}] {pos} of {len} done  {wide_msg}";

/// How one of them ended.
type Ended = (Operation, Result<Outcome, Error>);

/// There is nothing to resume.
pub(super) fn nothing(house: &House, out: &Out) -> Result<Exit, Trouble> {
    if out.is_json() {
        let counts = Counts::default().document();
        out.document(&json!({ "results": [], "counts": counts, "stopped_before": 0 }));
    }
    let path = house.journal_path().display();
    out.note(&format!("nothing to resume in {path}"));
    Ok(Exit::Fine)
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    succeeded: usize,
    rejected: usize,
    unknown: usize,
    failed: usize,
}

impl Counts {
    fn document(self) -> Value {
        json!({
            "succeeded": self.succeeded,
            "rejected": self.rejected,
            "unknown": self.unknown,
            "failed": self.failed,
        })
    }

    fn text(self) -> String {
        let parts = [
            (self.succeeded, "succeeded"),
            (self.rejected, "rejected"),
            (self.unknown, "not known yet"),
            (self.failed, "failed"),
        ];
        let said: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        said.join(", ")
    }

    fn add(&mut self, exit: Exit) {
        match exit {
            Exit::Fine => self.succeeded += 1,
            Exit::Rejected => self.rejected += 1,
            Exit::Unknown => self.unknown += 1,
            Exit::Usage | Exit::Journal => self.failed += 1,
        }
    }
}

/// The run over all of them.
struct Crowd<'a> {
    house: &'a House,
    out: &'a Out,
    bar: ProgressBar,
    counts: Counts,
    worst: Exit,
    results: Vec<Value>,
}

/// Resumes them, at most `at_once` at the same time.
pub(super) async fn run(
    operations: Vec<Operation>,
    at_once: usize,
    credentials: &EnvCredentials,
    interrupt: &mut Interrupt,
    house: &House,
    out: &Out,
) -> Result<Exit, Trouble> {
    let all = operations.len();
    let mut crowd = Crowd {
        house,
        out,
        bar: bar(all, out),
        counts: Counts::default(),
        worst: Exit::Fine,
        results: Vec::new(),
    };
    let mut waiting = operations.into_iter();
    let mut working: JoinSet<Ended> = JoinSet::new();
    let stopped = loop {
        while working.len() < at_once {
            let Some(operation) = waiting.next() else {
                break;
            };
            match lacks_credentials(&operation, credentials) {
                Some(trouble) => crowd.note(&operation, &trouble),
                None => {
                    working.spawn(async move {
                        let result = operation.resume().await;
                        (operation, result)
                    });
                }
            }
        }
        crowd.bar.set_message(crowd.message(working.len()));
        tokio::select! {
            biased;
            () = interrupt.asked() => break true,
            ended = working.join_next() => match ended {
                Some(Ok((operation, result))) => crowd.ended(&operation, result),
                Some(Err(died)) => out.warn(&format!("a task died: {died}")),
                None => break false,
            },
        }
    };
    // Those that were under way are let go and stay resumable.
    working.shutdown().await;
    crowd.bar.finish_and_clear();
    crowd.conclude(stopped, all)
}

fn lacks_credentials(operation: &Operation, credentials: &EnvCredentials) -> Option<Trouble> {
    let origin = Origin::of(&operation.entry().frozen.url).ok()?;
    let trouble = credentials.check(&origin).err()?;
    Some(trouble.about(operation.reference()))
}

fn bar(all: usize, out: &Out) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(u64::try_from(all).ok(), narrow::target(out.is_live()));
    if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
        bar.set_style(style.progress_chars("=> "));
    }
    if out.is_live() {
        bar.enable_steady_tick(Duration::from_millis(100));
    }
    bar
}

impl Crowd<'_> {
    fn message(&self, working: usize) -> String {
        match (working, self.counts.text().as_str()) {
            (0, counts) => counts.to_owned(),
            (n, "") => format!("{n} at work"),
            (n, counts) => format!("{n} at work; {counts}"),
        }
    }

    fn ended(&mut self, operation: &Operation, result: Result<Outcome, Error>) {
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(error) => return self.note(operation, &explain(error, operation, self.house)),
        };
        let exit = Exit::of(&outcome);
        let status = match outcome.status() {
            0 => "without an answer".to_owned(),
            status => status.to_string(),
        };
        let reference = outcome.reference();
        self.line(
            &format!(
                "{reference} {} {status}, {}",
                outcome.phase(),
                operation.intent()
            ),
            exit != Exit::Fine,
        );
        self.results
            .push(describe::outcome(&outcome, &operation.intent()));
        self.count(exit);
    }

    /// It did not come to an end.
    fn note(&mut self, operation: &Operation, trouble: &Trouble) {
        let text = format!(
            "{} {}: {}",
            operation.reference(),
            match trouble.exit() {
                Exit::Unknown => "not known yet",
                _ => "not resumed",
            },
            trouble.what()
        );
        let advice = trouble.advice().map(|todo| format!("\n    {todo}"));
        self.line(&format!("{text}{}", advice.unwrap_or_default()), true);
        self.results.push(json!({
            "reference": operation.reference().to_string(),
            "intent": operation.intent(),
            "phase": operation.phase().name(),
            "error": trouble.document(),
        }));
        // It is still open, whatever stood in the way: that is what a script has to know.
        self.count(match trouble.exit() {
            Exit::Usage => Exit::Unknown,
            exit => exit,
        });
    }

    fn count(&mut self, exit: Exit) {
        self.counts.add(exit);
        self.worst = self.worst.max(exit);
        self.bar.inc(1);
    }

    fn line(&self, line: &str, matters: bool) {
        if self.out.is_live() {
            narrow::stay(&self.bar, line);
        } else if matters {
            self.out.warn(line);
        } else {
            self.out.note(line);
        }
    }

    fn conclude(self, stopped: bool, all: usize) -> Result<Exit, Trouble> {
        let Counts {
            succeeded,
            rejected,
            unknown,
            failed,
        } = self.counts;
        let left = all - (succeeded + rejected + unknown + failed);
        if self.out.is_json() {
            self.out.document(&json!({
                "results": self.results,
                "counts": self.counts.document(),
                "stopped_before": left,
            }));
        }
        if stopped && !self.out.is_json() {
            let resume = self.house.hint("resume --all");
            self.out.warn(&format!(
                "stopped; {left} of {all} are not finished and not known yet. Go on with: {resume}"
            ));
        }
        self.out.note(&format!(
            "{all} resumed: {}",
            match self.counts.text() {
                text if text.is_empty() => "none came to an end".to_owned(),
                text => text,
            }
        ));
        Ok(if stopped && left > 0 {
            self.worst.max(Exit::Unknown)
        } else {
            self.worst
        })
    }
}

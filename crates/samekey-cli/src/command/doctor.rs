//! `samekey doctor`: is the journal well, in plain words. Only reads.

use crate::cli::Common;
use crate::config::Config;
use crate::describe;
use crate::exit::{Exit, Trouble};
use crate::house::House;
use crate::out::Out;
use crate::when::{now, short};
use console::Style;
use samekey::entry::Liveness;
use samekey::journal::{JournalErrorKind, Query, SqliteJournal};
use samekey::{Phase, Timestamp};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  samekey doctor
  samekey doctor --journal orders.samekey
  samekey doctor --format json

The journal is opened for reading only, and nothing is changed or repaired.
Exit code 5 if something is wrong, 0 if all is well or there is no journal yet.";

/// Less room than this is worth a word.
const LITTLE_SPACE: u64 = 64 << 20;
/// Windows that close within this time are worth a word.
const SOON: Duration = Duration::from_secs(3600);

/// Check the journal and the configuration, and say what is wrong
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Doctor {}

/// How well something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// Worth a look; not wrong.
    Look,
    Bad,
}

#[derive(Debug, Serialize)]
struct Found {
    state: State,
    text: String,
    #[serde(rename = "do")]
    todo: Option<String>,
}

#[derive(Debug, Default)]
struct Report(Vec<Found>);

impl Report {
    fn note(&mut self, state: State, text: impl Into<String>) {
        self.advise(state, text, None);
    }

    fn advise(&mut self, state: State, text: impl Into<String>, todo: Option<String>) {
        let text = text.into();
        self.0.push(Found { state, text, todo });
    }
}

pub(crate) async fn run(_: &Doctor, common: Common, out: &Out) -> Result<Exit, Trouble> {
    let mut report = Report::default();
    configuration(&mut report, common.config.as_deref());
    match House::new(common) {
        Ok(house) => journal(&mut report, &house).await,
        Err(trouble) => report.advise(
            State::Bad,
            trouble.what(),
            trouble.advice().map(ToOwned::to_owned),
        ),
    }
    let bad = report.0.iter().any(|found| found.state == State::Bad);
    if out.is_json() {
        out.document(&serde_json::json!({ "healthy": !bad, "findings": report.0 }));
    } else {
        print(&report, out);
    }
    Ok(if bad { Exit::Journal } else { Exit::Fine })
}

fn print(report: &Report, out: &Out) {
    for found in &report.0 {
        if out.is_quiet() && found.state == State::Ok {
            continue;
        }
        let (mark, style) = match found.state {
            State::Ok => ("ok  ", Style::new().green()),
            State::Look => ("look", Style::new().yellow()),
            State::Bad => ("BAD ", Style::new().red().bold()),
        };
        out.line(&format!("{}  {}", style.apply_to(mark), found.text));
        if let Some(todo) = &found.todo {
            out.line(&format!("      {todo}"));
        }
    }
}

fn configuration(report: &mut Report, named: Option<&Path>) {
    let path = match named {
        Some(path) => Some(path.to_owned()),
        None => Config::default_path(),
    };
    let Some(path) = path else {
        report.note(State::Look, "there is no folder for a configuration file");
        return;
    };
    let shown = path.display();
    match Config::load(named) {
        Ok(config) if path.exists() => report.note(
            State::Ok,
            format!("configuration {shown}, {} host(s)", config.host.len()),
        ),
        Ok(_) => report.note(
            State::Ok,
            format!("no configuration file at {shown}; none is needed"),
        ),
        // Opening the house says what is wrong with it.
        Err(_) => {}
    }
}

async fn journal(report: &mut Report, house: &House) {
    let path = house.journal_path();
    if !path.exists() {
        report.note(
            State::Ok,
            format!(
                "no journal at {} yet: nothing was sent from here",
                path.display()
            ),
        );
        return;
    }
    let journal = match SqliteJournal::open_read_only(path) {
        Ok(journal) => journal,
        Err(error) if error.kind() == JournalErrorKind::Blank => {
            report.note(State::Ok, error.to_string());
            return;
        }
        Err(error) => {
            report.advise(State::Bad, error.to_string(), Some(keep_it(path)));
            return;
        }
    };
    match journal.check().await {
        Ok(checked) => {
            for finding in checked.findings() {
                let state = if finding.is_good {
                    State::Ok
                } else {
                    State::Bad
                };
                report.note(state, finding.text.clone());
            }
            if !checked.is_healthy() {
                report.advise(State::Bad, "the journal is not well", Some(keep_it(path)));
            }
        }
        Err(error) => report.advise(State::Bad, error.to_string(), Some(keep_it(path))),
    }
    space(report, path);
    if let Err(trouble) = operations(report, &journal, house).await {
        report.note(State::Bad, trouble.what());
    }
}

fn keep_it(path: &Path) -> String {
    format!(
        "keep {} and the files beside it as they are; find out from the servers what became of the \
         operations",
        path.display()
    )
}

#[cfg(unix)]
fn space(report: &mut Report, path: &Path) {
    match rustix::fs::statvfs(path) {
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let text = format!("{} MiB are free on the disk", free >> 20);
            if free < LITTLE_SPACE {
                let todo = "make room: without it new operations are refused before they are sent";
                report.advise(State::Look, text, Some(todo.into()));
            } else {
                report.note(State::Ok, text);
            }
        }
        Err(error) => report.note(State::Look, format!("the free space is not known: {error}")),
    }
}

#[cfg(not(unix))]
fn space(report: &mut Report, _: &Path) {
    let _ = LITTLE_SPACE;
    report.note(
        State::Look,
        "the free space is not looked at on this system",
    );
}

/// What the entries need, and whether their drivers live.
#[derive(Default)]
struct Needs {
    settled: usize,
    alive: usize,
    left: usize,
    silent: usize,
    attention: usize,
    closing: usize,
    first_closing: Option<Timestamp>,
}

async fn operations(
    report: &mut Report,
    journal: &SqliteJournal,
    house: &House,
) -> Result<(), Trouble> {
    let mut open = Vec::new();
    let mut needs = Needs::default();
    let query = Query {
        scope: house.visible()?,
        ..Query::default()
    };
    house
        .each(journal, query, |listing| {
            for entry in listing.entries {
                match entry.progress.phase {
                    phase if phase.is_settled() => needs.settled += 1,
                    Phase::Attention(_) => needs.attention += 1,
                    _ => open.push(entry),
                }
            }
            Ok(())
        })
        .await?;
    for entry in &open {
        match describe::driver(journal, entry).await {
            Some(Liveness::Alive) => needs.alive += 1,
            Some(Liveness::Silent) => needs.silent += 1,
            _ => needs.left += 1,
        }
        let ends = entry.progress.window_start + entry.progress.window;
        if ends.since(now()) < SOON {
            needs.closing += 1;
            let first = needs.first_closing.unwrap_or(ends);
            needs.first_closing = Some(first.min(ends));
        }
    }
    say_needs(report, &needs, house);
    Ok(())
}

fn say_needs(report: &mut Report, needs: &Needs, house: &House) {
    report.note(
        State::Ok,
        format!(
            "{} operation(s) have ended, {} are being worked on now",
            needs.settled, needs.alive
        ),
    );
    if needs.silent > 0 {
        let text = format!(
            "{} belong to a process that was not heard of lately",
            needs.silent
        );
        let todo = format!(
            "if it hangs, take over after 30 s: {}",
            house.hint("resume --all")
        );
        report.advise(State::Look, text, Some(todo));
    }
    if needs.left > 0 {
        let text = format!("{} are open and nobody works on them", needs.left);
        report.advise(State::Look, text, Some(house.hint("resume --all")));
    }
    if needs.attention > 0 {
        let text = format!("{} need a person's attention", needs.attention);
        report.advise(
            State::Look,
            text,
            Some(house.hint("list --state attention")),
        );
    }
    if let Some(first) = needs.first_closing {
        let left = first.since(now());
        let text = format!(
            "{} of the open ones must be resumed soon: the first server forgets its key in {}",
            needs.closing,
            short(left)
        );
        report.advise(State::Look, text, Some(house.hint("resume --all")));
    }
}

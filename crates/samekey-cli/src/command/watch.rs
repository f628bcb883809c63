//! `samekey watch`: what is open, live.

use crate::describe;
use crate::exit::{Exit, Trouble};
use crate::house::House;
use crate::interrupt::Interrupt;
use crate::out::Out;
use crate::table::{self, Column};
use crate::when::{self, short};
use console::Term;
use samekey::Phase;
use samekey::entry::{Entry, Liveness};
use samekey::journal::{Journal, Query, Select, SqliteJournal};
use serde_json::json;
use std::io::IsTerminal;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  samekey watch
  samekey watch --every 200ms
  samekey watch --until-done --format json

On a terminal the view is refreshed in place, and Ctrl-C ends it; in a pipe every change is printed.";

/// Watch what is open and what needs attention
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Watch {
    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = when::parse_duration)]
    every: Duration,
    /// End when nothing is open any more
    #[arg(long)]
    until_done: bool,
}

/// What is there at one moment.
#[derive(Debug, Default)]
struct Sight {
    open: Vec<(Entry, Option<Liveness>)>,
    attention: Vec<Entry>,
}

pub(crate) async fn run(args: &Watch, house: &House, out: &Out) -> Result<Exit, Trouble> {
    let mut interrupt = Interrupt::listen();
    let term = Term::buffered_stdout();
    let live = std::io::stdout().is_terminal() && !out.is_json();
    let mut drawn = 0;
    let mut said = String::new();
    let mut ticks = tokio::time::interval(args.every.max(Duration::from_millis(20)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut journal: Option<SqliteJournal> = None;
    loop {
        if journal.is_none() {
            journal = house.open_to_read()?;
        }
        let sight = match &journal {
            Some(journal) => look(journal, house).await?,
            None => Sight::default(),
        };
        if live {
            let _ = term.clear_last_lines(drawn);
            let lines = screen(&sight, &term, house);
            drawn = lines.len();
            for line in &lines {
                let _ = term.write_line(line);
            }
            let _ = term.flush();
        } else {
            let now = plain(&sight, house, out);
            if now != said {
                out.line(&now);
                said = now;
            }
        }
        if args.until_done && sight.open.is_empty() {
            return Ok(Exit::Fine);
        }
        tokio::select! {
            biased;
            () = interrupt.asked() => return Ok(Exit::Fine),
            _ = ticks.tick() => {}
        }
    }
}

async fn look(journal: &SqliteJournal, house: &House) -> Result<Sight, Trouble> {
    let mut sight = Sight::default();
    for select in [Select::Unfinished, Select::Attention] {
        let query = Query {
            scope: house.visible()?,
            select,
            ..Query::default()
        };
        for entry in journal.list(query).await?.entries {
            if entry.progress.phase.is_open() {
                let driver = describe::driver(journal, &entry).await;
                sight.open.push((entry, driver));
            } else if select == Select::Attention {
                sight.attention.push(entry);
            }
        }
    }
    Ok(sight)
}

fn summary(sight: &Sight, house: &House) -> String {
    let name = house.journal_path().file_name().unwrap_or_default();
    format!(
        "{} open, {} need attention, in {}",
        sight.open.len(),
        sight.attention.len(),
        name.to_string_lossy()
    )
}

/// What fits on the terminal.
fn screen(sight: &Sight, term: &Term, house: &House) -> Vec<String> {
    let (height, width) = term.size();
    let room = usize::from(height).saturating_sub(4).max(1);
    let width = usize::from(width);
    let all = sight.open.len() + sight.attention.len();
    let mut lines = vec![console::truncate_str(&summary(sight, house), width, "…").into_owned()];
    if all == 0 {
        return lines;
    }
    let open = sight.open.iter().map(|(entry, driver)| row(entry, *driver));
    let attention = sight.attention.iter().map(|entry| row(entry, None));
    let rows: Vec<Vec<String>> = open.chain(attention).take(room).collect();
    lines.extend(table::lines(&COLUMNS, &rows, width));
    if all > room {
        lines.push(format!("… and {} more", all - room));
    }
    lines
}

const COLUMNS: [Column; 6] = [
    Column {
        head: "REFERENCE",
        least: None,
    },
    Column {
        head: "STATE",
        least: None,
    },
    Column {
        head: "TRIES",
        least: None,
    },
    Column {
        head: "AGE",
        least: None,
    },
    Column {
        head: "NOW",
        least: Some(12),
    },
    Column {
        head: "INTENT",
        least: Some(10),
    },
];

fn row(entry: &Entry, driver: Option<Liveness>) -> Vec<String> {
    let progress = &entry.progress;
    vec![
        entry.reference().to_string(),
        table::phase(progress.phase),
        progress.attempts.to_string(),
        describe::age(entry.frozen.begun_at),
        doing(entry, driver),
        entry.frozen.intent.to_string(),
    ]
}

/// What goes on with it, in a few words.
fn doing(entry: &Entry, driver: Option<Liveness>) -> String {
    let progress = &entry.progress;
    let wait = progress.not_before.map(|until| until.since(when::now()));
    let wait = wait.filter(|wait| !wait.is_zero());
    match (progress.phase, driver, wait) {
        (Phase::Attention(reason), ..) => {
            crate::exit::kebab(&format!("{reason:?}")).replace('-', " ")
        }
        (Phase::Deferred, _, Some(wait)) => format!("parked, {}", short(wait)),
        (Phase::Deferred, _, None) => "parked, and due".into(),
        (_, Some(Liveness::Alive), Some(wait)) => format!("again in {}", short(wait)),
        (_, Some(Liveness::Alive), None) => "at work".into(),
        (_, Some(Liveness::Silent), _) => "not heard of".into(),
        _ => "nobody, resume".into(),
    }
}

/// For a pipe: nothing that moves by itself, so that only changes are printed.
fn plain(sight: &Sight, house: &House, out: &Out) -> String {
    let grade = samekey::Grade::Device;
    if out.is_json() {
        let steady = |entry: &Entry, driver| {
            let described = describe::entry(entry, driver, grade, house, false);
            json!({
                "reference": described.reference,
                "scope": described.scope,
                "intent": described.intent,
                "phase": described.phase,
                "attention": described.attention,
                "attempts": described.attempts,
                "driver": described.driver,
                "not_before": described.not_before,
            })
        };
        let open = sight
            .open
            .iter()
            .map(|(entry, driver)| steady(entry, *driver));
        let attention = sight.attention.iter().map(|entry| steady(entry, None));
        return json!({
            "event": "sight",
            "open": open.collect::<Vec<_>>(),
            "attention": attention.collect::<Vec<_>>(),
        })
        .to_string();
    }
    let mut lines = vec![summary(sight, house)];
    let open = sight.open.iter().map(|(entry, _)| entry);
    for entry in open.chain(&sight.attention) {
        lines.push(format!(
            "  {} {} tries {} {}",
            entry.reference(),
            entry.progress.phase,
            entry.progress.attempts,
            entry.frozen.intent
        ));
    }
    lines.join("\n")
}

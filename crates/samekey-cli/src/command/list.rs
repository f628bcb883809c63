//! `samekey list`: what the journal holds, as a table.

use crate::describe;
use crate::exit::{Exit, Trouble};
use crate::house::House;
use crate::out::{Out, width};
use crate::table::{self, Column};
use crate::when;
use clap::ValueEnum;
use samekey::entry::Entry;
use samekey::journal::{Damaged, Journal, Query, Select};
use samekey::{Phase, Timestamp};
use std::collections::VecDeque;

const EXAMPLES: &str = "\
Examples:
  samekey list
  samekey list --state open
  samekey list --state attention --since 7d
  samekey list --limit 0 --format json";

/// List operations, the latest last
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// At most so many of the latest; 0 for all
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

/// Which operations are meant.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Filter {
    /// Only those that stand like this
    #[arg(long, value_name = "STATE")]
    state: Option<State>,
    /// Only those begun since: 2h, 7d, 2026-01-31 or 2026-01-31T18:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = when::parse_since)]
    since: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum State {
    // Work on it goes on, now or when it is resumed.
    Open,
    // A person has to look.
    Attention,
    // What `resume --all` takes up: open, or given up for a time.
    Unfinished,
    // It has ended.
    Settled,
    Ready,
    Sending,
    Waiting,
    Polling,
    Deferred,
    Succeeded,
    Rejected,
    Abandoned,
}

impl Filter {
    pub(crate) fn query(&self, house: &House) -> Result<Query, Trouble> {
        let select = match self.state {
            None => Select::All,
            Some(State::Attention) => Select::Attention,
            Some(State::Settled | State::Succeeded | State::Rejected | State::Abandoned) => {
                Select::Settled
            }
            Some(_) => Select::Unfinished,
        };
        Ok(Query {
            scope: house.visible()?,
            select,
            since: self.since,
            ..Query::default()
        })
    }

    pub(crate) fn takes(&self, phase: Phase) -> bool {
        match self.state {
            None => true,
            Some(State::Open) => phase.is_open(),
            Some(State::Unfinished) => phase.is_unfinished(),
            Some(State::Settled) => phase.is_settled(),
            Some(State::Attention) => matches!(phase, Phase::Attention(_)),
            Some(State::Ready) => phase == Phase::Ready,
            Some(State::Sending) => phase == Phase::Sending,
            Some(State::Waiting) => phase == Phase::Waiting,
            Some(State::Polling) => phase == Phase::Polling,
            Some(State::Deferred) => phase == Phase::Deferred,
            Some(State::Succeeded) => phase == Phase::Succeeded,
            Some(State::Rejected) => phase == Phase::Rejected,
            Some(State::Abandoned) => phase == Phase::Abandoned,
        }
    }
}

pub(crate) async fn run(args: &List, house: &House, out: &Out) -> Result<Exit, Trouble> {
    let query = args.filter.query(house)?;
    let mut latest: VecDeque<Entry> = VecDeque::new();
    let mut damaged: Vec<Damaged> = Vec::new();
    let mut total = 0usize;
    let journal = house.open_to_read()?;
    if let Some(journal) = &journal {
        let limit = args.limit;
        house
            .each(journal, query, |listing| {
                damaged.extend(listing.damaged);
                for entry in listing.entries {
                    if args.filter.takes(entry.progress.phase) {
                        total += 1;
                        latest.push_back(entry);
                        if limit > 0 && latest.len() > limit {
                            latest.pop_front();
                        }
                    }
                }
                Ok(())
            })
            .await?;
    }
    let exit = if damaged.is_empty() {
        Exit::Fine
    } else {
        Exit::Journal
    };
    if let (true, Some(journal)) = (out.is_json(), &journal) {
        let mut operations = Vec::new();
        for entry in &latest {
            let driver = describe::driver(journal, entry).await;
            operations.push(describe::entry(
                entry,
                driver,
                journal.grade(),
                house,
                false,
            ));
        }
        out.document(&serde_json::json!({
            "operations": operations,
            "total": total,
            "damaged": damaged.iter().map(describe::damaged).collect::<Vec<_>>(),
        }));
        return Ok(exit);
    }
    if out.is_json() {
        out.document(&serde_json::json!({ "operations": [], "total": 0, "damaged": [] }));
        return Ok(exit);
    }
    let entries: Vec<Entry> = latest.into();
    print(&entries, total, house, out);
    for damage in &damaged {
        let reference = damage.key.as_ref().map(|key| key.reference().to_string());
        out.warn(&format!(
            "entry {} ({}) cannot be read: {}",
            damage.slot,
            reference.unwrap_or_else(|| "its reference is lost".into()),
            damage.error
        ));
    }
    Ok(exit)
}

fn print(entries: &[Entry], total: usize, house: &House, out: &Out) {
    if total == 0 {
        let path = house.journal_path().display();
        out.note(&format!("nothing of that kind in {path}"));
        return;
    }
    for line in rows(entries, width()) {
        out.line(&line);
    }
    if entries.len() < total {
        out.note(&format!(
            "the latest {} of {total}; --limit 0 shows all",
            entries.len()
        ));
    }
}

/// The table of `list` and `watch`.
pub(crate) fn rows(entries: &[Entry], width: usize) -> Vec<String> {
    let scopes = {
        let first = entries.first().map(|entry| &entry.frozen.scope);
        entries
            .iter()
            .any(|entry| Some(&entry.frozen.scope) != first)
    };
    let mut columns = vec![
        column("REFERENCE", None),
        column("STATE", None),
        column("TRIES", None),
        column("AGE", None),
        column("INTENT", Some(10)),
        column("REQUEST", Some(14)),
    ];
    if scopes {
        columns.insert(4, column("SCOPE", Some(7)));
    }
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| {
            let (frozen, progress) = (&entry.frozen, &entry.progress);
            let mut row = vec![
                entry.reference().to_string(),
                table::phase(progress.phase),
                progress.attempts.to_string(),
                describe::age(frozen.begun_at),
                frozen.intent.to_string(),
                format!("{} {}", frozen.method, describe::url(&frozen.url, false)),
            ];
            if scopes {
                row.insert(4, frozen.scope.to_string());
            }
            row
        })
        .collect();
    table::lines(&columns, &rows, width)
}

fn column(head: &'static str, least: Option<usize>) -> Column {
    Column { head, least }
}

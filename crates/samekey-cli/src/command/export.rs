//! `samekey export`: the journal as lines of JSON.

use crate::command::list::Filter;
use crate::describe;
use crate::exit::{Exit, Trouble};
use crate::house::House;
use crate::out::Out;
use samekey::journal::Journal;

const EXAMPLES: &str = "\
Examples:
  samekey export > operations.jsonl
  samekey export --state attention --since 30d
  samekey export --reveal > with-bodies.jsonl

One line for each operation, the oldest first. Keys, queries, header values and bodies are left out
unless --reveal is given. Intents and notes are yours and stand there as they are.";

/// Export operations as lines of JSON, without keys, queries and bodies
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Export {
    #[command(flatten)]
    filter: Filter,
    /// Keys, queries, header values and stored bodies too
    #[arg(long)]
    reveal: bool,
}

pub(crate) async fn run(args: &Export, house: &House, out: &Out) -> Result<Exit, Trouble> {
    let Some(journal) = house.open_to_read()? else {
        out.note(&format!(
            "there is no journal at {} yet",
            house.journal_path().display()
        ));
        return Ok(Exit::Fine);
    };
    let mut pages = Vec::new();
    let mut exit = Exit::Fine;
    let mut query = args.filter.query(house)?;
    query.limit = 128;
    loop {
        let listing = journal.list(query.clone()).await?;
        let slots = listing.entries.iter().map(|entry| entry.slot);
        let damaged = listing.damaged.iter().map(|damage| damage.slot);
        let Some(last) = slots.chain(damaged).max() else {
            break;
        };
        query.after = last;
        for entry in &listing.entries {
            if args.filter.takes(entry.progress.phase) {
                let driver = describe::driver(&journal, entry).await;
                let grade = journal.grade();
                pages.push(describe::entry(entry, driver, grade, house, args.reveal));
            }
        }
        for described in pages.drain(..) {
            out.document(&described);
        }
        for damage in &listing.damaged {
            exit = Exit::Journal;
            out.document(&describe::damaged(damage));
        }
    }
    Ok(exit)
}

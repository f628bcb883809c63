//! `samekey abandon`: no more attempts, whatever may have happened.

use crate::command::settle::{changed, ended};
use crate::exit::{Exit, Trouble};
use crate::house::{House, Wanted, Wishes};
use crate::out::Out;

const EXAMPLES: &str = "\
Examples:
  samekey abandon 7D3F-92AB-1C4E-7 --reason 'the customer paid in cash'

Nothing is sent for it any more, and no resume takes it up again. If you know what happened, `samekey
settle` says so instead.";

/// Give an operation up for good, whatever may have happened
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Abandon {
    /// The reference, or the whole key
    #[arg(value_name = "REF")]
    wanted: Wanted,
    /// Why; kept in the journal
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub(crate) async fn run(args: &Abandon, house: &House, out: &Out) -> Result<Exit, Trouble> {
    let journal = house.open_existing()?;
    let operation = house
        .operation(&journal, &args.wanted, &Wishes::default())
        .await?;
    let before = operation.entry().progress;
    operation
        .abandon(&args.reason)
        .await
        .map_err(|error| ended(error, &operation, house))?;
    changed(&operation, house, out);
    if before.maybe_applied {
        out.warn(
            "  it may have happened on the server before; only the server knows. Ask there by the \
             reference",
        );
    }
    Ok(Exit::Fine)
}

//! `samekey settle`: a person found out what happened, and says so.

use crate::exit::{Exit, Trouble};
use crate::house::{House, Wanted, Wishes};
use crate::out::Out;
use samekey::{Error, ErrorKind, Operation};

const EXAMPLES: &str = "\
Examples:
  samekey settle 7D3F-92AB-1C4E-7 --happened --note 'order 1007 is on the server'
  samekey settle 7D3F-92AB-1C4E-7 --did-not --note 'asked support: no such payment'";

/// Settle by hand what is not known, once you have found out on the server
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("verdict").required(true))]
pub(crate) struct Settle {
    /// The reference, or the whole key
    #[arg(value_name = "REF")]
    wanted: Wanted,
    /// It happened
    #[arg(long, group = "verdict")]
    happened: bool,
    /// It did not happen
    #[arg(long, group = "verdict")]
    did_not: bool,
    /// How you know; kept in the journal
    #[arg(long, value_name = "TEXT")]
    note: String,
}

pub(crate) async fn run(args: &Settle, house: &House, out: &Out) -> Result<Exit, Trouble> {
    let journal = house.open_existing()?;
    let operation = house
        .operation(&journal, &args.wanted, &Wishes::default())
        .await?;
    operation
        .settle(args.happened, &args.note)
        .await
        .map_err(|error| ended(error, &operation, house))?;
    changed(&operation, house, out);
    Ok(Exit::Fine)
}

/// Says what the operation has become.
pub(crate) fn changed(operation: &Operation, house: &House, out: &Out) {
    let entry = operation.entry();
    if out.is_json() {
        let grade = operation.grade();
        out.document(&crate::describe::entry(&entry, None, grade, house, false));
        return;
    }
    out.note(&format!(
        "{} is {} now",
        operation.reference(),
        entry.progress.phase
    ));
}

/// What has ended stays as it is.
pub(crate) fn ended(error: Error, operation: &Operation, house: &House) -> Trouble {
    let reference = operation.reference();
    match error.kind() {
        ErrorKind::Ended(phase) => Trouble::new(
            Exit::Usage,
            "ended",
            format!("the operation has ended already: it is {phase}, and stays so"),
        )
        .about(reference)
        .todo(format!(
            "see how: {}",
            house.hint(&format!("show {reference}"))
        )),
        _ => error.into(),
    }
}

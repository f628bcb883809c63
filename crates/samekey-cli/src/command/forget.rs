//! `samekey forget`: of what has ended, only a tombstone stays.

use crate::exit::{Exit, Trouble};
use crate::house::{House, Wanted, Wishes};
use crate::out::Out;
use samekey::ErrorKind;
use samekey::journal::JournalErrorKind;

const EXAMPLES: &str = "\
Examples:
  samekey forget 7D3F-92AB-1C4E-7

Body, answer and attempts go; a tombstone stays and keeps the intent from being used again. Only what
has ended can be forgotten: finish, settle or abandon the rest first.";

/// Remove the body, the answer and the story of what has ended
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Forget {
    /// The reference, or the whole key
    #[arg(value_name = "REF")]
    wanted: Wanted,
}

pub(crate) async fn run(args: &Forget, house: &House, out: &Out) -> Result<Exit, Trouble> {
    let journal = house.open_existing()?;
    let operation = house
        .operation(&journal, &args.wanted, &Wishes::default())
        .await?;
    let reference = operation.reference();
    operation
        .forget()
        .await
        .map_err(|error| match error.kind() {
            ErrorKind::Journal(JournalErrorKind::NotSettled) => Trouble::new(
                Exit::Usage,
                "not-settled",
                "it has not ended, so it cannot be forgotten",
            )
            .about(reference)
            .todo(format!(
                "finish it first: {}",
                house.hint(&format!("resume {reference}"))
            )),
            _ => error.into(),
        })?;
    if out.is_json() {
        out.document(&serde_json::json!({ "forgotten": reference.to_string() }));
    }
    out.note(&format!("{reference} is forgotten; its tombstone stays"));
    Ok(Exit::Fine)
}

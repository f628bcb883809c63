//! `samekey resume`: goes on with what is not finished, under the same keys.

mod crowd;

use crate::body::BodyArgs;
use crate::command::send;
use crate::credentials::{CredentialArgs, EnvCredentials};
use crate::exit::{Exit, Trouble};
use crate::house::{House, PatienceArgs, SealArgs, Wanted, Wishes};
use crate::interrupt::Interrupt;
use crate::out::Out;
use samekey::journal::{Query, Select, SqliteJournal};
use samekey::{Client, Operation, Origin};
use std::collections::HashMap;
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  samekey resume 7D3F-92AB-1C4E-7
  samekey resume 7D3F-92AB-1C4E-7 --bearer-env API_TOKEN
  samekey resume --all
  samekey resume --all --at-once 8 --give-up-after 30s

Same key, same bytes. Credentials are not in the journal: name their variable again, or per host in
the configuration file. Where the body is not kept, give it again with --json or --data.";

/// Go on with what is not finished: same key, same bytes
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Resume {
    /// The references, or whole keys
    #[arg(
        value_name = "REF",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    wanted: Vec<Wanted>,
    /// Everything of this scope that resuming may bring to an end
    #[arg(long)]
    all: bool,
    /// How many at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    at_once: u16,
    #[command(flatten)]
    body: BodyArgs,
    #[command(flatten)]
    seal: SealArgs,
    #[command(flatten)]
    credentials: CredentialArgs,
    #[command(flatten)]
    patience: PatienceArgs,
}

impl Resume {
    fn wishes(&self) -> Wishes {
        Wishes {
            patience: self.patience,
            credentials: self.credentials.clone(),
            seal: self.seal.clone(),
            ..Wishes::default()
        }
    }
}

pub(crate) async fn run(args: Resume, house: &House, out: &Out) -> Result<Exit, Trouble> {
    let mut interrupt = Interrupt::listen();
    if args.all && house.open_to_read()?.is_none() {
        return crowd::nothing(house, out);
    }
    let journal = house.open_existing()?;
    if let ([wanted], false) = (&args.wanted[..], args.all) {
        return one(wanted, &args, &journal, &mut interrupt, house, out).await;
    }
    if args.body.is_given() {
        return Err(
            Trouble::usage("one body cannot be given to several operations")
                .todo("resume those whose body is not kept one by one"),
        );
    }
    let operations = if args.all {
        unfinished(&args, &journal, house, out).await?
    } else {
        let mut operations = Vec::new();
        for wanted in &args.wanted {
            operations.push(house.operation(&journal, wanted, &args.wishes()).await?);
        }
        operations
    };
    check_credentials(&args, &operations)?;
    if operations.is_empty() {
        return crowd::nothing(house, out);
    }
    let config = Arc::clone(&house.config);
    let credentials = EnvCredentials::new(&args.credentials, config);
    crowd::run(
        operations,
        usize::from(args.at_once),
        &credentials,
        &mut interrupt,
        house,
        out,
    )
    .await
}

async fn one(
    wanted: &Wanted,
    args: &Resume,
    journal: &SqliteJournal,
    interrupt: &mut Interrupt,
    house: &House,
    out: &Out,
) -> Result<Exit, Trouble> {
    let operation = house.operation(journal, wanted, &args.wishes()).await?;
    let origin = Origin::of(&operation.entry().frozen.url).ok();
    if let Some(origin) = &origin
        && !operation.phase().is_settled()
    {
        EnvCredentials::new(&args.credentials, Arc::clone(&house.config)).check(origin)?;
    }
    let body = args.body.read()?.map(|given| given.bytes);
    send::introduce(&operation, out);
    let most = house.attempts(origin.as_ref(), &args.patience);
    send::finish(&operation, body, most, interrupt, house, out).await
}

/// What is unfinished in this scope, each with the client of its host.
async fn unfinished(
    args: &Resume,
    journal: &SqliteJournal,
    house: &House,
    out: &Out,
) -> Result<Vec<Operation>, Trouble> {
    let scope = house.scope()?;
    let query = Query {
        select: Select::Unfinished,
        ..Query::default()
    };
    let (mut origins, mut others) = (Vec::new(), 0usize);
    house
        .each(journal, query, |listing| {
            for entry in listing.entries {
                if entry.frozen.scope != scope {
                    others += 1;
                } else if let Ok(origin) = Origin::of(&entry.frozen.url)
                    && !origins.contains(&origin)
                {
                    origins.push(origin);
                }
            }
            Ok(())
        })
        .await?;
    if others > 0 {
        out.note(&format!(
            "{others} more belong to other scopes and stay as they are; `samekey list` shows them"
        ));
    }
    let mut clients: HashMap<String, Client> = HashMap::new();
    for origin in &origins {
        let client = house.client(journal, Some(origin), &args.wishes())?;
        clients.insert(origin.to_string(), client);
    }
    let anyone = house.client(journal, None, &args.wishes())?;
    let mut operations = Vec::new();
    for operation in anyone.unfinished().await? {
        let origin = Origin::of(&operation.entry().frozen.url).map(|o| o.to_string());
        let client = origin.ok().and_then(|origin| clients.get(&origin));
        operations.push(match client {
            Some(client) => of_client(client, operation).await?,
            None => operation,
        });
    }
    Ok(operations)
}

/// The same operation in the hands of another client, whose settings are its host's.
async fn of_client(client: &Client, operation: Operation) -> Result<Operation, Trouble> {
    let key = operation.key();
    let found = client.find(operation.reference()).await?;
    let same = found.into_iter().find(|found| found.key() == key);
    Ok(same.unwrap_or(operation))
}

/// What was typed proves who asks at one place; another must not even see it.
fn check_credentials(args: &Resume, operations: &[Operation]) -> Result<(), Trouble> {
    if !args.credentials.is_given() {
        return Ok(());
    }
    let mut origins: Vec<String> = operations
        .iter()
        .filter_map(|op| Origin::of(&op.entry().frozen.url).ok())
        .map(|origin| origin.to_string())
        .collect();
    origins.sort();
    origins.dedup();
    if origins.len() < 2 {
        return Ok(());
    }
    Err(Trouble::usage(format!(
        "these operations go to {}, and credentials on the command line would be shown to all of \
         them; nothing was sent",
        origins.join(", ")
    ))
    .todo("name the variables per host in the configuration file, or resume them by reference")
    .nothing_was_sent())
}

//! One file per command.

pub(crate) mod abandon;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod forget;
pub(crate) mod list;
pub(crate) mod man;
pub(crate) mod mock;
pub(crate) mod resume;
pub(crate) mod send;
pub(crate) mod settle;
pub(crate) mod show;
pub(crate) mod watch;

use crate::cli::{Cli, Command};
use crate::exit::{Exit, Trouble};
use crate::house::House;
use crate::out::Out;

/// Carries out what was typed.
pub(crate) async fn run(cli: Cli, out: &Out) -> Result<Exit, Trouble> {
    let Cli { common, command } = cli;
    match command {
        Command::Mock(args) => return mock::run(args, out).await,
        Command::Completions(args) => return completions::run(&args, out),
        Command::Man(args) => return man::run(&args, out),
        Command::Doctor(args) => return doctor::run(&args, common, out).await,
        _ => {}
    }
    let house = House::new(common)?;
    match command {
        Command::Send(args) => send::run(*args, &house, out).await,
        Command::List(args) => list::run(&args, &house, out).await,
        Command::Show(args) => show::run(&args, &house, out).await,
        Command::Resume(args) => resume::run(*args, &house, out).await,
        Command::Settle(args) => settle::run(&args, &house, out).await,
        Command::Abandon(args) => abandon::run(&args, &house, out).await,
        Command::Forget(args) => forget::run(&args, &house, out).await,
        Command::Watch(args) => watch::run(&args, &house, out).await,
        Command::Export(args) => export::run(&args, &house, out).await,
        Command::Mock(_) | Command::Completions(_) | Command::Man(_) | Command::Doctor(_) => {
            Ok(Exit::Fine)
        }
    }
}

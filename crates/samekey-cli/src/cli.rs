//! The command line, as it is typed.

use crate::command;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

const AFTER: &str = "\
Examples:
  samekey mock --fault 'drop-after-commit*1' &
  samekey send POST http://127.0.0.1:8480/orders --json '{\"sku\":\"a\",\"qty\":1}'
  samekey list

Exit codes: 0 succeeded, 2 usage, 3 rejected by the server, 4 not known yet (the reference was
printed), 5 the journal cannot be used.
Settings per host: config.toml in the platform's configuration folder; `samekey doctor` says where.
Environment: SAMEKEY_JOURNAL, SAMEKEY_SCOPE, SAMEKEY_APPLICATION, SAMEKEY_CONFIG, NO_COLOR.";

/// One action, one key, on every try: requests that survive Ctrl-C, power loss and you.
#[derive(Debug, Parser)]
#[command(name = "samekey", version, after_help = AFTER, max_term_width = 100)]
#[command(propagate_version = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command understands.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Common options")]
pub(crate) struct Common {
    /// The journal [default: one per application, in the platform's data folder]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "SAMEKEY_JOURNAL",
        hide_env = true
    )]
    pub(crate) journal: Option<PathBuf>,
    /// The account or user to act for; never a secret
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "SAMEKEY_SCOPE",
        hide_env = true
    )]
    pub(crate) scope: Option<String>,
    /// The application whose journal and operations are meant [default: samekey]
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "SAMEKEY_APPLICATION",
        hide_env = true
    )]
    pub(crate) application: Option<String>,
    /// The configuration file [default: in the platform's configuration folder]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "SAMEKEY_CONFIG",
        hide_env = true
    )]
    pub(crate) config: Option<PathBuf>,
    /// Words and tables, or documents for programs
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: Format,
    /// Say only what went wrong
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

/// For people or for programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Text,
    // One document on stdout; what happens meanwhile as lines of JSON on stderr.
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Send(Box<command::send::Send>),
    List(command::list::List),
    Show(command::show::Show),
    Resume(Box<command::resume::Resume>),
    Settle(command::settle::Settle),
    Abandon(command::abandon::Abandon),
    Forget(command::forget::Forget),
    Watch(command::watch::Watch),
    Export(command::export::Export),
    Doctor(command::doctor::Doctor),
    Mock(command::mock::Mock),
    Completions(command::completions::Completions),
    Man(command::man::Man),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_explains_itself_with_an_example() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            assert!(help.contains("Example"), "{}", command.get_name());
            assert!(command.get_about().is_some(), "{}", command.get_name());
        }
    }
}

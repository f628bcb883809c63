//! `samekey completions`: what the shell needs to complete commands and options.

use crate::cli::Cli;
use crate::exit::{Exit, Trouble};
use crate::out::Out;
use clap::CommandFactory;
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  samekey completions bash > ~/.local/share/bash-completion/completions/samekey
  samekey completions zsh > ~/.zfunc/_samekey
  samekey completions fish > ~/.config/fish/completions/samekey.fish";

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &Completions, out: &Out) -> Result<Exit, Trouble> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "samekey", &mut script);
    if out.is_json() {
        out.document(&serde_json::json!({
            "shell": args.shell.to_string(),
            "script": String::from_utf8_lossy(&script),
        }));
    } else {
        out.bytes(&script);
    }
    Ok(Exit::Fine)
}

//! `samekey`: requests from the shell that survive Ctrl-C, power loss and you.
//!
//! A thin hand on the library's public API: what is decided about keys, retries and windows is
//! decided there. Here are only words, tables, exit codes and the configuration file.

#![forbid(unsafe_code)]

mod advice;
mod body;
mod cli;
mod command;
mod config;
mod credentials;
mod describe;
mod exit;
mod house;
mod interrupt;
mod narrow;
mod out;
mod progress;
mod table;
mod when;

use clap::Parser;
use cli::Cli;
use exit::{Exit, Trouble};
use out::Out;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let out = Out::new(cli.common.format, cli.common.quiet);
    let exit = match tokio::runtime::Runtime::new() {
        Ok(runtime) => {
            let result = runtime.block_on(command::run(cli, &out));
            // What the library does in the background is in the journal: nothing is lost with it.
            runtime.shutdown_background();
            result
        }
        Err(error) => Err(Trouble::usage(format!(
            "the program cannot start its threads: {error}"
        ))),
    };
    match exit {
        Ok(exit) => exit.into(),
        Err(trouble) => {
            out.trouble(&trouble);
            trouble.exit().into()
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

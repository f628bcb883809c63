//! `samekey mock`: the server half, with every fault, to try things out.

use crate::exit::{Exit, Trouble};
use crate::out::Out;
use samekey_mock::{Fault, Naughty};
use serde_json::{Value, json};

const EXAMPLES: &str = "\
Examples:
  samekey mock                                    # in memory, on port 8480
  samekey mock --port 0 --port-file port.txt      # a free port, written to a file for scripts
  samekey mock --fault 'drop-after-commit*3'      # loses the next three answers
  samekey mock --fault drop-after-commit --fault-rate 0.3 --delay 50..500
  samekey mock --profile stripe --file shop.db    # answers like Stripe, and keeps its state
  samekey mock --list                             # all faults and switches

It listens on loopback only and is not for production. Its page at / shows what happened.";

/// Start the mock server: answers, faults and a ledger of what really happened
#[derive(Debug, clap::Args)]
pub(crate) struct Mock {
    #[command(flatten)]
    args: MockArgs,
}

/// The mock's own arguments, with examples that begin with this program's name.
#[derive(Debug)]
struct MockArgs(samekey_mock::Args);

impl clap::FromArgMatches for MockArgs {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        samekey_mock::Args::from_arg_matches(matches).map(MockArgs)
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl clap::Args for MockArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        let about = command.get_about().cloned();
        let command = samekey_mock::Args::augment_args(command).after_help(EXAMPLES);
        match about {
            Some(about) => command.about(about).long_about(None),
            None => command,
        }
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        MockArgs::augment_args(command)
    }
}

pub(crate) async fn run(args: Mock, out: &Out) -> Result<Exit, Trouble> {
    let args = args.args.0;
    let ran = if !out.is_json() {
        samekey_mock::run(args).await
    } else if args.wants_list() {
        out.document(&json!({ "faults": Fault::examples(), "switches": switches() }));
        Ok(())
    } else {
        let started = |mock: &samekey_mock::Mock| {
            out.document(&json!({ "event": "listening", "url": mock.url() }));
        };
        let stopping = |mock: &samekey_mock::Mock| {
            let effects = mock.ledger().effects().len();
            out.document(&json!({ "event": "stopping", "effects": effects }));
        };
        samekey_mock::serve(args, started, stopping).await
    };
    match ran {
        Ok(()) => Ok(Exit::Fine),
        Err(error) => Err(Trouble::usage(format!("the mock cannot run: {error}"))
            .todo("choose another port with --port, or 0 for a free one")),
    }
}

fn switches() -> Vec<Value> {
    let switches = Naughty::ALL.iter();
    let described = switches.map(|s| json!({ "name": s.name(), "about": s.about() }));
    described.collect()
}

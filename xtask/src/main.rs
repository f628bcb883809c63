//! The project's chores: `cargo xtask <command>`.
#![forbid(unsafe_code)]

mod check;
mod deny;
mod parts;
mod setup;
mod shell;
mod test;
mod tidy;

use shell::Outcome;
use std::process::ExitCode;

struct Chore {
    name: &'static str,
    /// What `--help` says about it.
    about: &'static str,
    run: fn() -> Outcome,
}

const CHORES: &[Chore] = &[
    Chore {
        name: "test",
        about: "Runs everything there is to run, installs what is missing, says how long each part took.",
        run: test::run,
    },
    Chore {
        name: "check",
        about: "Formatting, lints, tidy, docs, licences and bans, every feature alone, the core for wasm.",
        run: check::run,
    },
    Chore {
        name: "tidy",
        about: "The rules of the house: who names whom, the browser fork, numbered tests, forbidden words.",
        run: tidy::run,
    },
];

fn help() -> String {
    let mut text = "Usage: cargo xtask <command>\n\nCommands:\n".to_owned();
    for chore in CHORES {
        text.push_str(&format!("  {:<8}{}\n", chore.name, chore.about));
    }
    text
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name] = arguments.as_slice() else {
        eprint!("{}", help());
        return ExitCode::from(2);
    };
    if matches!(name.as_str(), "--help" | "-h" | "help") {
        print!("{}", help());
        return ExitCode::SUCCESS;
    }
    let Some(chore) = CHORES.iter().find(|c| c.name == name) else {
        eprint!("There is no command `{name}`.\n\n{}", help());
        return ExitCode::from(2);
    };
    match (chore.run)() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask {name}: {message}");
            ExitCode::FAILURE
        }
    }
}

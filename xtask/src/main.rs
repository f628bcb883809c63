//! The project's chores: `cargo xtask <command>`.
#![forbid(unsafe_code)]

mod bench;
mod check;
mod demo;
mod deny;
mod fuzz;
mod mutants;
mod pages;
mod parts;
mod proof;
mod setup;
mod shell;
mod size;
mod test;
mod tidy;
mod torture;
mod web;

use std::process::ExitCode;

struct Chore {
    name: &'static str,
    /// What `--help` says about it.
    about: &'static str,
    run: fn(&[String]) -> Result<(), Stop>,
}

/// Why a command did not do its work.
enum Stop {
    /// It was not asked rightly.
    Usage(String),
    /// Something is wrong, and this says what.
    Failed(String),
    /// It was only asked what it does.
    Help,
}

impl From<String> for Stop {
    fn from(message: String) -> Stop {
        Stop::Failed(message)
    }
}

/// For commands that take no arguments.
fn alone(arguments: &[String], run: fn() -> shell::Outcome) -> Result<(), Stop> {
    match arguments {
        [] => Ok(run()?),
        [flag] if flag == "--help" || flag == "-h" => Err(Stop::Help),
        [first, ..] => Err(Stop::Usage(format!(
            "takes no arguments, but got `{first}`"
        ))),
    }
}

fn with<'a>(command: &'a str, arguments: &'a [String]) -> Vec<&'a str> {
    std::iter::once(command)
        .chain(arguments.iter().map(String::as_str))
        .collect()
}

const CHORES: &[Chore] = &[
    Chore {
        name: "test",
        about: "Runs all that CI runs, installs what is missing, says how long each part took.",
        run: |arguments| alone(arguments, test::run),
    },
    Chore {
        name: "check",
        about: "Formatting, lints, tidy, docs, licences and bans, every feature alone, the core for wasm; or only the parts named.",
        run: check::run,
    },
    Chore {
        name: "sim",
        about: "A seeded world with every fault around the real client: [--seed N] replays one, [--ops N] says how many operations.",
        run: |arguments| Ok(proof::harness(&with("sim", arguments))?),
    },
    Chore {
        name: "small",
        about: "Every small world: killed at every step, and again; `--full` adds two operations and two drivers.",
        run: |arguments| Ok(proof::harness(&with("small", arguments))?),
    },
    Chore {
        name: "planted",
        about: "Lets out known bugs one by one; each must be noticed by the rule named for it.",
        run: |arguments| Ok(proof::planted(&with("planted", arguments))?),
    },
    Chore {
        name: "fuzz",
        about: "Any bytes into every parser, with rules that must hold: [--seconds N] for each target, [TARGET] for one.",
        run: fuzz::run,
    },
    Chore {
        name: "mutants",
        about: "Small changes in the heart and the retry rules, each of which a test must notice; [--shard K/N] runs a part.",
        run: mutants::run,
    },
    Chore {
        name: "torture",
        about: "Real processes killed, power cut, disks broken, bits flipped: [--kills N] [--cuts N] [--faults N|all] [--flips N] [--full]; `torture --help` says more.",
        run: torture::run,
    },
    Chore {
        name: "bench",
        about: "Speed beside bare reqwest and the peers: [--quick], [--only NAME], [--instructions]; see --help.",
        run: bench::run,
    },
    Chore {
        name: "tidy",
        about: "The rules of the house: who names whom, the browser fork, numbered tests, forbidden words.",
        run: |arguments| alone(arguments, tidy::run),
    },
    Chore {
        name: "web",
        about: "Builds the npm package in pkg/.",
        run: |arguments| alone(arguments, web::run),
    },
    Chore {
        name: "pages",
        about: "Tests the npm package in a real browser against the mock server.",
        run: |arguments| alone(arguments, || pages::run(&mut parts::Tally::default())),
    },
    Chore {
        name: "demo",
        about: "Builds and serves a checkout page with the mock server behind it, and opens it.",
        run: |arguments| alone(arguments, demo::run),
    },
    Chore {
        name: "size",
        about: "What a page downloads, what of it costs what, and whether that is too much.",
        run: |arguments| alone(arguments, size::run),
    },
    Chore {
        name: "kills",
        about: "kill -9 of `samekey send` at random moments, at full size; `--rounds N` sets how many (200).",
        run: kills,
    },
    Chore {
        name: "picture",
        about: "Takes the picture of the mock server's page that its README shows.",
        run: |arguments| alone(arguments, picture),
    },
];

fn kills(arguments: &[String]) -> Result<(), Stop> {
    let rounds = match arguments {
        [] => "200",
        [flag, rounds] if flag == "--rounds" && rounds.parse::<u32>().is_ok() => rounds,
        _ => return Err(Stop::Usage("takes `--rounds N` and nothing else".into())),
    };
    let test = [
        "test",
        "-p",
        "samekey-cli",
        "--test",
        "cli",
        "kills",
        "--",
        "--nocapture",
    ];
    Ok(shell::run(shell::cargo(&test).env("ROUNDS", rounds))?)
}

fn picture() -> shell::Outcome {
    setup::programs()?;
    let picture = ["run", "-p", "samekey-mock", "--example", "picture", "--"];
    shell::run(shell::cargo(&picture).arg("docs/pictures/mock.png"))
}

fn help() -> String {
    let mut text = "Usage: cargo xtask <command>\n\nCommands:\n".to_owned();
    for chore in CHORES {
        text.push_str(&format!("  {:<8}{}\n", chore.name, chore.about));
    }
    text
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
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
    match (chore.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Help) => {
            println!("Usage: cargo xtask {name}\n\n{}", chore.about);
            ExitCode::SUCCESS
        }
        Err(Stop::Usage(message)) => {
            eprintln!("xtask {name}: {message}");
            ExitCode::from(2)
        }
        Err(Stop::Failed(message)) => {
            eprintln!("xtask {name}: {message}");
            ExitCode::FAILURE
        }
    }
}

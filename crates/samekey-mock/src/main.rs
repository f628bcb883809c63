//! `samekey-mock`: the mock server as a program.

use clap::Parser;

#[derive(Debug, Parser)]
#[command(name = "samekey-mock", version, about, long_about = None)]
struct Cli {
    #[command(flatten)]
    args: samekey_mock::Args,
}

#[tokio::main]
async fn main() -> std::process::ExitCode {
    match samekey_mock::run(Cli::parse().args).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("samekey-mock: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

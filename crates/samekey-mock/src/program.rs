//! The mock as a program.

use crate::faults::{Fault, Rule};
use crate::mock::{Mock, StartError};
use crate::naughty::Naughty;
use crate::profile::Profile;
use crate::settings::{InFlight, Stale};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  samekey-mock                                     in memory, on port 8480
  samekey-mock --port 0 --port-file port.txt       a free port, written to a file for scripts
  samekey-mock --file shop.db                      keeps its state; start two on one file for two nodes
  samekey-mock --fault drop-after-commit*3         loses the next three answers
  samekey-mock --fault drop-after-commit --fault-rate 0.3 --seed 7
  samekey-mock --profile stripe --delay 50..500
  samekey-mock --naughty no-body-check             breaks the contract in one named way

A request can also ask for its own fault: curl -H 'Mock-Fault: cut-body:10' ...
The page at / shows what happened; /_mock/ledger says it as JSON.";

/// The mock server of the idempotency-key contract: its answers, its faults, its ledger.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Port to listen on; 0 picks a free one
    #[arg(long, default_value_t = 8480)]
    port: u16,
    /// Write the port to this file once it is open
    #[arg(long, value_name = "FILE")]
    port_file: Option<PathBuf>,
    /// Listen on this address instead of loopback: everyone who can reach it can use it
    #[arg(long, value_name = "IP")]
    let_strangers_in: Option<IpAddr>,
    /// Keep keys and effects in this SQLite file instead of memory
    #[arg(long, value_name = "DB")]
    file: Option<PathBuf>,
    /// Answer like this provider: default, ietf_draft, stripe, adyen, paypal, square, gocardless
    #[arg(long, default_value = "default", value_parser = parse::<Profile>)]
    profile: Profile,
    /// A fault, as NAME[:VALUE][*TIMES][+SKIP][%PERCENT][@ROUTE][#KEY]; may be given several times
    #[arg(long, value_name = "RULE", value_parser = parse::<Rule>)]
    fault: Vec<Rule>,
    /// Let every --fault befall only this share of the requests, 0 to 1
    #[arg(long, value_name = "SHARE")]
    fault_rate: Option<f64>,
    /// Seed of random faults and delays
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Delay every request by so many milliseconds
    #[arg(long, value_name = "LOW..HIGH", value_parser = range)]
    delay: Option<(u64, u64)>,
    /// Break a promise on purpose; may be given several times
    #[arg(long, value_name = "SWITCH", value_parser = parse::<Naughty>)]
    naughty: Vec<Naughty>,
    /// Answer every POST at once without store or ledger, for benchmarks of clients
    #[arg(long)]
    instant: bool,
    /// Published life of a key, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 24 * 3600)]
    ttl: u64,
    /// Age at which a lock counts as stale, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 15 * 60)]
    lock: u64,
    /// Let the next retry take over a stale lock, instead of checking for its effect first
    #[arg(long)]
    reclaim: bool,
    /// Let duplicates in flight wait so many milliseconds before they get 409
    #[arg(long, value_name = "MS")]
    wait: Option<u64>,
    /// Let requests without a key run
    #[arg(long)]
    key_optional: bool,
    /// Duration of the export job, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    export: u64,
    /// Leave this header out of the CORS lists; may be given several times
    #[arg(long, value_name = "HEADER")]
    cors_omit: Vec<String>,
    /// List all faults and switches, then end
    #[arg(long)]
    list: bool,
}

fn parse<T: std::str::FromStr<Err = String>>(text: &str) -> Result<T, String> {
    text.parse()
}

fn range(text: &str) -> Result<(u64, u64), String> {
    crate::faults::parse_range(text).ok_or_else(|| "write it as 50..500".to_owned())
}

impl Args {
    /// Whether only the lists of faults and switches are asked for.
    pub fn wants_list(&self) -> bool {
        self.list
    }
}

/// Runs the program until it is told to stop (Ctrl-C or a termination signal).
///
/// # Errors
/// When it cannot start, or the port file cannot be written.
pub async fn run(args: Args) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    if args.list {
        list();
        return Ok(());
    }
    let public = args.let_strangers_in.is_some();
    let stopping = |mock: &Mock| {
        println!(
            "stopping; {} effects in the ledger",
            mock.ledger().effects().len()
        );
    };
    serve(args, |mock| banner(mock, public), stopping).await
}

/// [`run`] for programs that say in their own words that the mock has started and that it stops.
///
/// # Errors
/// When it cannot start, or the port file cannot be written.
pub async fn serve(
    args: Args,
    started: impl FnOnce(&Mock),
    stopping: impl FnOnce(&Mock),
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let port_file = args.port_file.clone();
    let stop = Stop::listen()?;
    let mock = start(args).await?;
    started(&mock);
    if let Some(path) = port_file {
        // Written aside and renamed, so that a script never reads half a number.
        let aside = path.with_extension("part");
        std::fs::write(&aside, format!("{}\n", mock.address().port()))?;
        std::fs::rename(&aside, &path)?;
    }
    stop.asked().await;
    stopping(&mock);
    mock.shutdown().await;
    Ok(())
}

async fn start(args: Args) -> Result<Mock, StartError> {
    let host = args
        .let_strangers_in
        .unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let mut builder = Mock::builder()
        .profile(args.profile)
        .address(SocketAddr::new(host, args.port))
        .ttl(Duration::from_secs(args.ttl))
        .seed(args.seed);
    builder = builder.settings(|settings| {
        settings.naughty = args.naughty.iter().copied().collect();
        settings.instant = args.instant;
        settings.file = args.file;
        settings.delay = args.delay;
        settings.lock_limit = Duration::from_secs(args.lock);
        settings.key_required = !args.key_optional;
        settings.export_time = Duration::from_millis(args.export);
        settings.cors_omit = args.cors_omit;
        if args.reclaim {
            settings.stale = Stale::Reclaim;
        }
        if let Some(ms) = args.wait {
            settings.in_flight = InFlight::Wait(Duration::from_millis(ms));
        }
    });
    for rule in args.fault {
        let rate = args.fault_rate.unwrap_or(rule.rate);
        builder = builder.fault(rule.rate(rate));
    }
    builder.start().await
}

fn banner(mock: &Mock, public: bool) {
    let url = mock.url();
    println!("samekey-mock listens on {url}");
    println!("  page       {url}/");
    println!("  ledger     {url}/_mock/ledger");
    println!(
        "  try        curl -i {url}/orders -H 'Idempotency-Key: 8e03978e-40d5-43e8-bc93-6894a57f9324' \\"
    );
    println!("               -H 'Authorization: Bearer acme' --json '{{\"item\":\"tea\"}}'");
    if public {
        println!("  WARNING    not loopback: everyone who can reach this address can use it");
    }
    let open: Vec<String> = mock
        .audit()
        .into_iter()
        .filter(|c| !c.covered)
        .map(|c| c.operation)
        .collect();
    if open.is_empty() {
        println!("  audit      every state-changing route is covered by keys");
    } else {
        println!("  WARNING    not covered by keys: {}", open.join(", "));
    }
}

fn list() {
    println!("Faults:");
    for fault in Fault::examples() {
        println!("  {fault}");
    }
    println!("Switches:");
    for switch in Naughty::ALL {
        println!("  {:<24} {}", switch.name(), switch.about());
    }
}

/// Ctrl-C or a termination signal. Listening begins when this is made, so that a signal right after
/// the banner is not missed.
struct Stop {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Stop {
    #[cfg(unix)]
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    #[cfg(unix)]
    async fn asked(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(not(unix))]
    fn listen() -> std::io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn asked(self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}

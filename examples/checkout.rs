//! One order, two clients, and a server that takes the money and then loses its answer.
//!
//! ```sh
//! cargo run --example checkout
//! ```
//!
//! First a plain client: a loop around the request, with a new key for every try. The customer
//! pays twice. Then samekey, and to make it harder its process is killed in the middle and
//! started again: the customer pays once, under the reference that was on the screen all along.
//!
//! Nothing is staged. The server is `samekey-mock` on a free port, the journal is a file in a
//! temporary folder, and the second client is this program run as a child process, ended with
//! SIGKILL while it waits for an answer. If the ledger is not as told, the exit code says so.

use samekey::clock::Dice;
use samekey::platform::native::OsDice;
use samekey::{Client, Key, Operation, SqliteJournal, Update};
use samekey_mock::ledger::Request;
use samekey_mock::{Event, Fault, Ledger, Mock};
use serde_json::{Value, json};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::Instant;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// As first argument it makes this program the shop that the story starts, kills and starts again.
const SHOP: &str = "shop";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match &arguments[..] {
        [role, url, journal] if role == SHOP => shop(url, Path::new(journal)).await.map(|()| true),
        _ => story().await,
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn order() -> Value {
    json!({ "amount": 4200, "currency": "EUR" })
}

/// The program that uses samekey, as one would write it. It knows nothing of having been killed:
/// it looks for what an earlier run left open, then does what it was started for.
async fn shop(url: &str, journal: &Path) -> Result<()> {
    let client = Client::builder("corner-shop")
        .journal(SqliteJournal::open(journal)?)
        .build()?;
    for operation in client.unfinished().await? {
        tell("found", &operation.reference())?;
        drive(operation).await?;
    }
    let operation = client
        .operation("cart/9/checkout")
        .post(&format!("{url}/payments"))
        .json(&order())
        .begin()
        .await?;
    tell("reference", &operation.reference())?;
    drive(operation).await
}

/// Sends an operation and tells on standard output what happens to it.
async fn drive(operation: Operation) -> Result<()> {
    let mut updates = operation.updates();
    let telling = tokio::spawn(async move {
        while let Some(update) = updates.next().await {
            match update {
                Update::Sending { attempt } => tell("attempt", &attempt),
                Update::Waiting { wait, .. } => {
                    tell("waiting", &format!("{:.2}", wait.as_secs_f64()))
                }
                _ => Ok(()),
            }?;
        }
        io::Result::Ok(())
    });
    let outcome = operation.send().await?;
    drop(operation); // which ends the updates
    telling.await??;
    Ok(tell("paid", &outcome.provenance())?)
}

fn tell(what: &str, detail: &dyn std::fmt::Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{what} {detail}")?;
    out.flush()
}

/// Tells the story; false if it did not go as it should.
async fn story() -> Result<bool> {
    let page = Page::new();
    println!(
        "One order over 42.00 EUR, and a server that takes the money and then loses its answer."
    );
    let twice = with_a_plain_client(&page).await?;
    let once = with_samekey(&page).await?;
    println!();
    if twice && once {
        println!(
            "The same order, the same server, the same fault: the difference is one key that is kept."
        );
    } else {
        println!("{}", page.red("This is not how it should have gone."));
    }
    Ok(twice && once)
}

async fn with_a_plain_client(page: &Page) -> Result<bool> {
    page.chapter("A plain client: a loop, and a new key for every try");
    let server = Mock::builder()
        .fault(Fault::DropAfterCommit.once())
        .start()
        .await?;
    let mut page = page.restarted();
    for attempt in 1.. {
        // The mistake: the key names the attempt, so the server sees two different orders.
        let key = Key::from_random(OsDice.key_bytes());
        page.line(
            "client",
            &format!(
                "attempt {attempt} under {}",
                page.bold(&key.reference().to_string())
            ),
        );
        let answer = post(&server, &key, &order().to_string()).await;
        page.line("server", &what_the_server_did(&server, attempt).await);
        match answer {
            Ok(status) => {
                page.line(
                    "client",
                    &format!("{status}: \"Thank you for your order.\""),
                );
                break;
            }
            Err(why) => page.line("client", &format!("{why}; trying again")),
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    let ledger = server.ledger();
    page.ledger(&ledger);
    let words = page.red("charged twice, and nobody knows");
    Ok(page.verdict(ledger.effects().len(), 2, &words))
}

/// A request by hand, over a connection of its own.
async fn post(server: &Mock, key: &Key, body: &str) -> Result<u16, String> {
    let lost = |error: io::Error| format!("no answer ({error})");
    let mut stream = TcpStream::connect(server.address()).await.map_err(lost)?;
    let request = format!(
        "POST /payments HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
         idempotency-key: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        server.address(),
        key.as_str(),
        body.len(),
    );
    stream.write_all(request.as_bytes()).await.map_err(lost)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.map_err(lost)?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    status.ok_or_else(|| "no answer (the connection was closed)".to_owned())
}

async fn with_samekey(page: &Page) -> Result<bool> {
    page.chapter("samekey, killed in the middle and started again");
    // The first answer is lost as before. The second is held back, so that there is a moment in
    // which the money is taken, the client waits, and its process can be killed.
    let server = Mock::builder()
        .fault(Fault::DropAfterCommit.once())
        .fault(Fault::Stall.once().after(1))
        .start()
        .await?;
    let folder = tempfile::tempdir()?;
    let journal = folder.path().join("corner-shop.samekey");
    let mut page = page.restarted();

    let mut first = Shop::start(&server, &journal)?;
    let mut seen = first
        .watch(&mut page, &server, 0, |seen| seen.attempts < 2)
        .await?;
    page.line("you", &page.red(&format!("kill -9 {}", first.pid())));
    first.kill().await?;

    page.line("you", "start the same program again");
    let mut second = Shop::start(&server, &journal)?;
    let again = second
        .watch(&mut page, &server, seen.attempts, |_| true)
        .await?;
    seen.references.extend(again.references.clone());
    let exit = second.child.wait().await?;

    let ledger = server.ledger();
    page.ledger(&ledger);
    let keys: Vec<_> = ledger
        .requests()
        .iter()
        .filter_map(|r| r.reference.clone())
        .collect();
    let bodies: Vec<_> = ledger.requests().iter().map(|r| &r.body_sha256).collect();
    seen.references.extend(keys);
    seen.references.dedup();
    let alike = bodies.windows(2).all(|pair| pair[0] == pair[1]);
    let (requests, effects) = (bodies.len(), ledger.effects().len());
    let one_reference = seen.references.len() == 1 && alike && again.over && exit.success();
    let words =
        format!("{requests} requests, charged once, same reference before and after the kill");
    let charged_once = page.verdict(effects, 1, &page.green(&words));
    Ok(charged_once && requests == 3 && one_reference)
}

/// The child process that is the shop.
struct Shop {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// What the shop has told so far.
#[derive(Default)]
struct Seen {
    references: Vec<String>,
    attempts: usize,
    over: bool,
}

impl Shop {
    fn start(server: &Mock, journal: &Path) -> Result<Shop> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([SHOP, &server.url()])
            .arg(journal)
            .env("NO_PROXY", "127.0.0.1")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().ok_or("the child has no output")?;
        Ok(Shop {
            child,
            lines: BufReader::new(stdout).lines(),
        })
    }

    fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// SIGKILL: nothing in the process is asked, flushed or closed.
    async fn kill(&mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Shows what the shop tells and what the server does about it, for as long as wanted.
    async fn watch(
        &mut self,
        page: &mut Page,
        server: &Mock,
        attempts_before: usize,
        go_on: impl Fn(&Seen) -> bool,
    ) -> Result<Seen> {
        let mut seen = Seen {
            attempts: attempts_before,
            ..Seen::default()
        };
        while go_on(&seen) {
            let Some(line) = self.lines.next_line().await? else {
                break;
            };
            let (what, detail) = line.split_once(' ').unwrap_or((&line, ""));
            let detail_in_bold = page.bold(detail);
            match what {
                "found" => {
                    page.line(
                        "samekey",
                        &format!("the journal holds {detail_in_bold}, unfinished"),
                    );
                    seen.references.push(detail.to_owned());
                }
                "reference" => {
                    let again = if seen.over {
                        "the same cart again? "
                    } else {
                        ""
                    };
                    page.line(
                        "samekey",
                        &format!("{again}\"Your reference: {detail_in_bold}\""),
                    );
                    seen.references.push(detail.to_owned());
                }
                "attempt" => {
                    seen.attempts += 1;
                    let same = if seen.attempts > 1 {
                        ", same key, same bytes"
                    } else {
                        ""
                    };
                    page.line("samekey", &format!("attempt {detail}{same}"));
                    page.line("server", &what_the_server_did(server, seen.attempts).await);
                }
                "waiting" => page.line(
                    "samekey",
                    &format!("no answer: that is unknown, not failed; again in {detail} s"),
                ),
                "paid" if seen.over => page.line("samekey", "paid already; nothing is sent"),
                "paid" => {
                    page.line("samekey", &format!("paid ({detail})"));
                    seen.over = true;
                }
                _ => {}
            }
        }
        Ok(seen)
    }
}

/// Waits until the server is done with its request number `number`, and says what it did.
async fn what_the_server_did(server: &Mock, number: usize) -> String {
    let ledger = server
        .wait_for(|l| l.requests().get(number - 1).is_some_and(Request::is_over))
        .await;
    let Some(request) = ledger.requests().get(number - 1) else {
        return "gone".to_owned();
    };
    let did = if request.had(Event::Effect) {
        "takes 42.00 EUR"
    } else if request.had(Event::Replayed) {
        "knows this key and takes nothing"
    } else {
        "takes nothing"
    };
    match (request.had(Event::Answered), request.had(Event::Effect)) {
        (true, _) => format!("{did}; answers {}", request.status.unwrap_or_default()),
        (false, true) => format!("{did}; then the connection breaks"),
        (false, false) => format!("{did}; its answer is stuck on the way"),
    }
}

/// The terminal.
struct Page {
    start: Instant,
    colours: bool,
}

impl Page {
    fn new() -> Page {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Page {
            start: Instant::now(),
            colours: wanted && io::stdout().is_terminal(),
        }
    }

    fn restarted(&self) -> Page {
        Page {
            start: Instant::now(),
            colours: self.colours,
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colours {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    fn red(&self, text: &str) -> String {
        self.paint("1;31", text)
    }

    fn green(&self, text: &str) -> String {
        self.paint("1;32", text)
    }

    fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    fn chapter(&self, title: &str) {
        println!("\n{}\n", self.bold(title));
    }

    fn line(&mut self, who: &str, what: &str) {
        let time = format!("{:>7.3} s", self.start.elapsed().as_secs_f64());
        println!("{}  {who:<8} {what}", self.paint("2", &time));
    }

    fn ledger(&self, ledger: &Ledger) {
        println!("\n  the server's ledger");
        println!("  {}", self.paint("2", "no  what     amount     under"));
        for effect in ledger.effects() {
            let amount = format!("{}.{:02} EUR", effect.amount / 100, effect.amount % 100);
            let under = Key::adopt(&effect.slot.key).map(|key| key.reference().to_string());
            let under = under.unwrap_or_default();
            println!("  {:>2}  {:<7}  {amount}  {under}", effect.id, effect.kind);
        }
    }

    fn verdict(&self, effects: usize, expected: usize, words: &str) -> bool {
        if effects == expected {
            println!("  {} {words}", self.bold("→"));
        } else {
            let words = format!("charged {effects} times where {expected} was expected");
            println!("  {}", self.red(&words));
        }
        effects == expected
    }
}

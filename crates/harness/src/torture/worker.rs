//! The program that is tortured: a client as anybody would write it, over the public interface.

use super::told::Teller;
use super::tools::{Res, because, block_on};
use samekey::platform::native::HttpTransport;
use samekey::{
    Asked, Client, CredentialsError, Headers, Operation, OperationBuilder, Phase, Policy,
    SqliteJournal,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Where the worker finds the secret that must never be seen again.
pub(super) const SECRET: &str = "SAMEKEY_TORTURE_SECRET";
/// The secret itself, made so that nothing else looks like it.
pub(super) const CANARY: &str = "canary-8d1f0b6ce2a94c57";
/// The largest amount that the server does not decline.
const LIMIT: u64 = 1_000_000;

/// What is to become of the action of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An order, which is accepted.
    Order,
    /// A payment that the server declines.
    Declined,
    /// The caller cancels it before anything is sent.
    Cancelled,
    /// The caller settles it by hand, without sending.
    ByHand,
}

impl Kind {
    pub(super) fn of(number: u64, people: bool) -> Kind {
        match number % 8 {
            5 => Kind::Declined,
            3 if people => Kind::Cancelled,
            6 if people => Kind::ByHand,
            _ => Kind::Order,
        }
    }
}

/// How a worker is to go about it.
#[derive(Clone, Debug, Default)]
pub(super) struct Job {
    pub(super) journal: PathBuf,
    pub(super) url: String,
    pub(super) told: PathBuf,
    /// The bug that is let out in it; 0 for none.
    pub(super) bug: u8,
    /// Finish first what others left.
    pub(super) resume: bool,
    /// Finish all that is open, and nothing else.
    pub(super) drain: bool,
    /// Flush every outcome fully.
    pub(super) flush: bool,
    /// Begin everything before anything is sent.
    pub(super) first: bool,
    /// Callers also cancel and settle by hand.
    pub(super) people: bool,
    /// One after the other, and only orders.
    pub(super) single: bool,
    pub(super) numbers: Vec<u64>,
}

impl Job {
    /// The words after `worker`.
    pub(super) fn words(&self) -> Vec<String> {
        let flags = [
            ('r', self.resume),
            ('d', self.drain),
            ('f', self.flush),
            ('1', self.first),
            ('p', self.people),
            ('s', self.single),
        ];
        let flags: String = flags.iter().filter(|f| f.1).map(|f| f.0).collect();
        let numbers: Vec<String> = self.numbers.iter().map(u64::to_string).collect();
        vec![
            "worker".into(),
            self.journal.to_string_lossy().into_owned(),
            self.url.clone(),
            self.told.to_string_lossy().into_owned(),
            self.bug.to_string(),
            format!("-{flags}"),
            numbers.join(","),
        ]
    }

    fn parse(words: &[String]) -> Option<Job> {
        let [journal, url, told, bug, flags, numbers] = words else {
            return None;
        };
        let has = |flag| flags.contains(flag);
        Some(Job {
            journal: journal.into(),
            url: url.clone(),
            told: told.into(),
            bug: bug.parse().ok()?,
            resume: has('r'),
            drain: has('d'),
            flush: has('f'),
            first: has('1'),
            people: has('p'),
            single: has('s'),
            numbers: numbers.split(',').filter_map(|n| n.parse().ok()).collect(),
        })
    }

    /// The process that does it; what it prints is added to `log`.
    pub(super) fn command(&self, log: &Path) -> Res<Command> {
        let here = std::env::current_exe().map_err(because("cannot find my own place"))?;
        let mut command = Command::new(here);
        command.args(self.words());
        dress(&mut command, log)?;
        Ok(command)
    }
}

/// Gives a process the secret, and a place for what it prints.
pub(super) fn dress(command: &mut Command, log: &Path) -> Res<()> {
    let log = super::tools::appended(log)?;
    let both = log.try_clone().map_err(because("cannot share a file"))?;
    command.env(SECRET, CANARY).stdout(log).stderr(both);
    Ok(())
}

/// `samekey-torture worker ...`
pub(super) fn main(words: &[String]) -> Res<()> {
    // Nobody is left behind when the judge dies.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let job = Job::parse(words).ok_or("a worker is started by the judge")?;
    crate::planted::plant(job.bug)?;
    crate::planted::hurry();
    block_on(work(job))?
}

fn client(job: &Job) -> Res<Client> {
    let journal = SqliteJournal::open(&job.journal).map_err(because("the journal"))?;
    let policy = Policy::new()
        .base(Duration::from_millis(20))
        .floor(Duration::from_millis(5))
        .cap(Duration::from_millis(150))
        .attempt_timeout(Duration::from_millis(400))
        .give_up_after(Duration::from_secs(8))
        .max_attempts(12);
    let transport = HttpTransport::builder().no_proxy().build();
    let secret = std::env::var(SECRET).unwrap_or_default();
    let mut builder = Client::builder("torture")
        .journal(journal)
        .transport(transport.map_err(because("the transport"))?)
        .policy(policy)
        .credentials(move |_: Asked| {
            let secret = secret.clone();
            async move {
                // The mock's tenant is what stands before the tilde.
                let mut headers = Headers::bearer(&format!("torture~{secret}"))?;
                headers.push("x-api-key", &secret)?;
                Ok::<_, CredentialsError>(headers)
            }
        });
    if job.flush {
        builder = builder.flush_all_outcomes();
    }
    builder.build().map_err(because("the client"))
}

async fn work(job: Job) -> Res<()> {
    let (client, teller) = (client(&job)?, Arc::new(Teller::new(&job.told)?));
    if job.drain {
        return drain(&client, &teller).await;
    }
    leak_nothing(&client, &job.url).await?;
    if job.resume {
        resume_all(&client, &teller, false).await?;
    }
    if job.first {
        let begins = job.numbers.iter().map(|number| {
            let (client, job, teller) = (client.clone(), job.clone(), Arc::clone(&teller));
            let number = *number;
            tokio::spawn(async move { (number, begin(&client, &job, &teller, number).await) })
        });
        let mut begun = Vec::new();
        for task in begins.collect::<Vec<_>>() {
            begun.push(task.await.map_err(because("a task broke"))?);
        }
        let sends = begun.into_iter().filter_map(|(number, operation)| {
            let (teller, people, operation) = (Arc::clone(&teller), job.people, operation?);
            let send = async move { finish(&operation, &teller, number, people).await };
            Some(tokio::spawn(send))
        });
        return all(sends.collect()).await;
    }
    let mut tasks = Vec::new();
    for number in job.numbers.clone() {
        let (client, job, teller) = (client.clone(), job.clone(), Arc::clone(&teller));
        let single = job.single;
        let task = tokio::spawn(async move {
            if let Some(operation) = begin(&client, &job, &teller, number).await {
                finish(&operation, &teller, number, job.people).await;
            }
        });
        tasks.push(task);
        if single {
            all(std::mem::take(&mut tasks)).await?;
        }
    }
    all(tasks).await
}

async fn all(tasks: Vec<tokio::task::JoinHandle<()>>) -> Res<()> {
    for task in tasks {
        task.await.map_err(because("a task broke"))?;
    }
    Ok(())
}

/// A secret where it may not be: the request is refused, and the refusal does not repeat it.
async fn leak_nothing(client: &Client, url: &str) -> Res<()> {
    let secret = std::env::var(SECRET).unwrap_or_default();
    let url = url.replace("://", &format!("://me:{secret}@"));
    let bad = client
        .operation("torture/bad")
        .post(&format!("{url}/orders"))
        .header("authorization", &secret)
        .begin()
        .await;
    match bad {
        Ok(_) => Err("a request with credentials in its URL was begun".into()),
        Err(error) => {
            eprintln!("{error} {error:?}");
            Ok(())
        }
    }
}

/// The request of this number: the same bytes whoever makes it.
fn request(builder: OperationBuilder, url: &str, number: u64) -> OperationBuilder {
    let note = "x".repeat(if number.is_multiple_of(3) { 5_000 } else { 10 });
    match Kind::of(number, false) {
        Kind::Declined => builder
            .post(&format!("{url}/payments"))
            .json(&serde_json::json!({ "amount": LIMIT + number, "note": note })),
        _ => builder
            .post(&format!("{url}/orders"))
            .json(&serde_json::json!({ "quantity": number, "note": note })),
    }
}

/// The number of a request, from its body.
pub(super) fn number_in(body: &[u8]) -> Option<u64> {
    let value: serde_json::Value = serde_json::from_slice(body).ok()?;
    let amount = value["amount"].as_u64().map(|amount| amount - LIMIT);
    amount.or_else(|| value["quantity"].as_u64())
}

/// The number of an intent.
pub(super) fn number_of(intent: &str) -> Option<u64> {
    intent.strip_prefix("torture/")?.parse().ok()
}

async fn begin(client: &Client, job: &Job, teller: &Teller, number: u64) -> Option<Operation> {
    let builder = client.operation(&format!("torture/{number}"));
    match request(builder, &job.url, number).begin().await {
        Ok(operation) => {
            teller.begun(number, operation.key().as_str());
            Some(operation)
        }
        Err(error) => {
            teller.refused(number, &error);
            eprintln!("{number}: {error} {error:?}");
            None
        }
    }
}

async fn finish(operation: &Operation, teller: &Teller, number: u64, people: bool) {
    match Kind::of(number, people) {
        Kind::Cancelled => {
            if matches!(operation.cancel().await, Ok(Phase::Abandoned)) {
                teller.word(number, "abandoned");
            }
        }
        Kind::ByHand => {
            if operation.settle(true, "seen on the counter").await.is_ok() {
                teller.word(number, "settled");
            }
        }
        Kind::Order | Kind::Declined => {
            let result = operation.send().await;
            if let Err(error) = &result {
                eprintln!("{number}: {error} {error:?}");
            }
            teller.result(number, &result);
        }
    }
}

/// Resumes what is open; how many there were.
async fn resume_all(client: &Client, teller: &Arc<Teller>, attention: bool) -> Res<usize> {
    let mut left = client
        .unfinished()
        .await
        .map_err(because("cannot list what is open"))?;
    if attention {
        let waiting = client.attention().await;
        left.extend(waiting.map_err(because("cannot list what needs a person"))?);
    }
    let count = left.len();
    let resumes = left.into_iter().map(|operation| {
        let teller = Arc::clone(teller);
        tokio::spawn(async move {
            let number = number_of(&operation.intent()).unwrap_or(0);
            teller.begun(number, operation.key().as_str());
            let result = operation.resume().await;
            if let Err(error) = &result {
                eprintln!("{number}: {error} {error:?}");
            }
            teller.result(number, &result);
        })
    });
    all(resumes.collect()).await?;
    Ok(count)
}

/// Resumes until nothing is left, or what is left does not get less: the judge sees that.
async fn drain(client: &Client, teller: &Arc<Teller>) -> Res<()> {
    let (mut least, mut in_vain) = (usize::MAX, 0);
    while in_vain < 30 {
        let left = resume_all(client, teller, true).await?;
        if left == 0 {
            return Ok(());
        }
        in_vain = if left < least { 0 } else { in_vain + 1 };
        least = least.min(left);
    }
    eprintln!("some operations do not come to an end");
    Ok(())
}

//! `samekey send`: one action, sent until its outcome is known.

use crate::body::BodyArgs;
use crate::credentials::{CredentialArgs, EnvCredentials};
use crate::describe;
use crate::exit::{Exit, Trouble};
use crate::house::{House, Keep, PatienceArgs, SealArgs, Wanted, Wishes, profile_named};
use crate::interrupt::Interrupt;
use crate::out::{Out, strong};
use crate::progress::{Drive, drive};
use crate::when;
use samekey::clock::Dice;
use samekey::platform::native::OsDice;
use samekey::{
    Client, Error, ErrorKind, Key, Operation, OperationBuilder, Origin, Outcome, Phase, Profile,
    Provenance, Reason,
};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  samekey send POST http://127.0.0.1:8480/orders --json '{\"sku\":\"a\",\"qty\":1}'
  samekey send POST http://127.0.0.1:8480/payments --json @payment.json --intent invoice/42/pay
  echo '{\"amount\":5}' | samekey send POST http://127.0.0.1:8480/payments --json - --bearer-env API_TOKEN
  samekey send --repeat 7D3F-92AB-1C4E-7

The reference is printed on stderr before the first byte leaves, the answer's body on stdout.
With --intent the same action asked for again joins the first, or is answered from the journal:
nothing is sent twice. Without it each call is an action of its own.
With --body fingerprint the journal keeps no body: give it again to resume. With --body sealed it is
encrypted under the key in $SAMEKEY_SEALING_KEY (32 random bytes as 64 hex digits).
Exit codes: 0 succeeded, 2 usage, 3 rejected, 4 not known yet (resume it), 5 journal fault.";

/// Send one request under one key until its outcome is known
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Send {
    /// POST or PATCH; PUT and DELETE get a key only with --with-key
    #[arg(required_unless_present = "repeat")]
    method: Option<String>,
    /// Where to send it
    #[arg(required_unless_present = "repeat")]
    url: Option<String>,
    #[command(flatten)]
    body: BodyArgs,
    /// A header line of every attempt; no credentials, see below
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    #[arg(requires = "url")]
    headers: Vec<(String, String)>,
    /// Your stable name of the action, such as invoice/42/pay
    #[arg(long, value_name = "NAME", conflicts_with = "repeat")]
    intent: Option<String>,
    /// Repeat this earlier action on purpose, under a key of its own
    #[arg(long, value_name = "REF")]
    repeat: Option<Wanted>,
    /// Repeat although its outcome is not known: it may happen twice
    #[arg(long, requires = "repeat")]
    even_if_unresolved: bool,
    /// Send the key with a PUT or DELETE too
    #[arg(long, requires = "url")]
    with_key: bool,
    /// How the server speaks: default, ietf_draft, stripe, adyen, …, none
    #[arg(long, value_name = "NAME", value_parser = profile_named)]
    profile: Option<Profile>,
    /// How long the server remembers a key [default: as the profile says]
    #[arg(long, value_name = "TIME", value_parser = when::parse_duration)]
    window: Option<Duration>,
    /// What the journal keeps of body and answer [default: stored]
    #[arg(long = "body", value_name = "HOW")]
    keep: Option<Keep>,
    #[command(flatten)]
    seal: SealArgs,
    #[command(flatten)]
    credentials: CredentialArgs,
    #[command(flatten)]
    patience: PatienceArgs,
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write it as 'Name: value'")?;
    let (name, value) = (name.trim(), value.trim());
    let lower = name.to_ascii_lowercase();
    let telling = [
        "authorization",
        "cookie",
        "token",
        "secret",
        "password",
        "api-key",
        "apikey",
    ];
    if telling.iter().any(|part| lower.contains(part)) {
        return Err(format!(
            "{name} looks like a credential, and headers are kept in the journal; put its value into \
             an environment variable and use --bearer-env, --basic-env or --header-env {name}=VARIABLE"
        ));
    }
    Ok((name.to_owned(), value.to_owned()))
}

pub(crate) async fn run(args: Send, house: &House, out: &Out) -> Result<Exit, Trouble> {
    let mut interrupt = Interrupt::listen();
    let origin = match &args.url {
        Some(url) => Some(Origin::of(url).map_err(|wrong| Trouble::usage(wrong.to_string()))?),
        None => None,
    };
    let journal = house.open()?;
    let wishes = Wishes {
        patience: args.patience,
        credentials: args.credentials.clone(),
        seal: args.seal.clone(),
        profile: args.profile.clone(),
        headers: args.headers.iter().map(|(name, _)| name.clone()).collect(),
        keep: args.keep,
    };
    let origin = match (&args.repeat, origin) {
        (Some(previous), None) => {
            let entry = house
                .entry(&journal, previous, Some(house.scope()?))
                .await?;
            Origin::of(&entry.frozen.url).ok()
        }
        (_, origin) => origin,
    };
    if let Some(origin) = &origin {
        EnvCredentials::new(&args.credentials, Arc::clone(&house.config)).check(origin)?;
    }
    let client = house.client(&journal, origin.as_ref(), &wishes)?;
    let window = args.window.or_else(|| {
        let origin = origin.as_ref()?;
        house.config.host(origin).window
    });
    let operation = begin(&args, &client, window, house).await?;
    introduce(&operation, out);
    let most = house.attempts(origin.as_ref(), &args.patience);
    finish(&operation, None, most, &mut interrupt, house, out).await
}

async fn begin(
    args: &Send,
    client: &Client,
    window: Option<Duration>,
    house: &House,
) -> Result<Operation, Trouble> {
    let body = args.body.read()?;
    let mut builder: OperationBuilder = match (&args.repeat, &args.intent) {
        (Some(previous), _) => client.repeat(previous.reference()),
        (None, Some(intent)) => client.operation(intent),
        (None, None) => client.operation(&unique_intent()),
    };
    if let (Some(method), Some(url)) = (&args.method, &args.url) {
        builder = builder.method(&method.to_ascii_uppercase(), url);
    }
    for (name, value) in &args.headers {
        builder = builder.header(name, value);
    }
    if let Some(given) = body {
        builder = builder.body(given.bytes, given.content_type);
    }
    if let Some(window) = window {
        builder = builder.window(window);
    }
    if args.with_key {
        builder = builder.with_key();
    }
    if args.even_if_unresolved {
        builder = builder.even_if_unresolved();
    }
    builder.begin().await.map_err(|error| refused(error, house))
}

/// Nobody else has used it, and nobody will: a call without a name is an action of its own.
fn unique_intent() -> String {
    format!("send/{}", Key::from_random(OsDice.key_bytes()).as_str())
}

/// Why nothing was begun, in the words of the command line.
fn refused(error: Error, house: &House) -> Trouble {
    let (kind, reference) = (error.kind(), error.reference());
    let trouble = Trouble::from(error);
    let Some(reference) = reference else {
        return trouble.nothing_was_sent();
    };
    let what = trouble.what().to_owned();
    match kind {
        ErrorKind::FingerprintMismatch => trouble
            .reworded(what.split("; use another intent").next().unwrap_or(&what))
            .todo(format!(
            "look at the earlier one: {}\n  then choose another --intent, or --repeat {reference} for a \
             deliberate repeat",
            house.hint(&format!("show {reference}"))
        )),
        ErrorKind::PreviousUnresolved => trouble
            .reworded("the outcome of the operation to repeat is not known, so it may happen twice")
            .todo(format!(
                "bring it to an end first: {}\n  or accept that it may happen twice: \
                 --even-if-unresolved",
                house.hint(&format!("resume {reference}"))
            )),
        ErrorKind::Tombstone => trouble.todo("choose another --intent for a new action"),
        _ => trouble,
    }
}

/// Says the reference, before the first byte leaves.
pub(crate) fn introduce(operation: &Operation, out: &Out) {
    let reference = operation.reference().to_string();
    out.event(&json!({
        "event": "begun",
        "reference": reference,
        "intent": operation.intent(),
        "grade": operation.grade().to_string(),
        "phase": operation.phase().name(),
    }));
    out.note(&format!("reference {}", strong(&reference)));
}

/// Drives an operation to its end and says how it went.
pub(crate) async fn finish(
    operation: &Operation,
    body: Option<Vec<u8>>,
    most: u32,
    interrupt: &mut Interrupt,
    house: &House,
    out: &Out,
) -> Result<Exit, Trouble> {
    let known = operation.phase().is_settled();
    match drive(operation, body, most, interrupt, out).await {
        Drive::Done(Ok(outcome)) => Ok(say(&outcome, operation, known, house, out)),
        Drive::Done(Err(error)) => Err(explain(error, operation, house)),
        Drive::Stopped { sent } => Err(stopped(operation, sent, house)),
    }
}

fn say(outcome: &Outcome, operation: &Operation, known: bool, house: &House, out: &Out) -> Exit {
    if out.is_json() {
        out.document(&describe::outcome(outcome, &operation.intent()));
    } else if let Some(body) = outcome.body() {
        out.bytes(body);
    }
    let attempts = match outcome.attempts() {
        1 => "1 attempt".to_owned(),
        n => format!("{n} attempts"),
    };
    let from = match outcome.provenance() {
        Provenance::Recovered if known => "answered from the journal, nothing was sent".to_owned(),
        Provenance::Recovered => "an earlier run began it".to_owned(),
        Provenance::Replayed => "replayed by the server".to_owned(),
        other => other.to_string(),
    };
    let status = match outcome.status() {
        0 => "without an answer".to_owned(),
        status => status.to_string(),
    };
    let line = format!("{} {status}, {attempts}, {from}", outcome.phase());
    if outcome.is_success() {
        out.note(&line);
    } else {
        out.warn(&format!("{line} (reference {})", outcome.reference()));
    }
    if matches!(outcome.status(), 401 | 403) {
        out.warn(&format!("  {}", credentials_hint(operation, house)));
    }
    if !outcome.is_recorded() {
        out.warn(
            "  the journal could not note this outcome; it is real all the same. `samekey doctor` \
             says what is wrong; the next resume asks the server again under the same key",
        );
    }
    Exit::of(outcome)
}

/// Why the outcome is not known, and what to do.
pub(crate) fn explain(error: Error, operation: &Operation, house: &House) -> Trouble {
    let kind = error.kind();
    let reference = operation.reference();
    let resume = house.hint(&format!("resume {reference}"));
    let trouble = Trouble::from(error).about(reference);
    match kind {
        ErrorKind::Attention(Reason::RefusedAfterDoubt) if was_unauthorised(operation) => {
            trouble.todo(credentials_hint(operation, house))
        }
        ErrorKind::Attention(reason) => {
            let entry = operation.entry();
            let advice = crate::advice::next(&entry, None, house);
            match (advice.command, reason) {
                (Some(command), _) => trouble.todo(command),
                (None, _) => trouble.todo(house.hint(&format!("show {reference}"))),
            }
        }
        ErrorKind::Deferred(until) => {
            trouble.todo(format!("after {}: {resume}", when::moment(until)))
        }
        ErrorKind::NotApplied => trouble.todo(format!(
            "nothing has happened yet; try again with: {resume}"
        )),
        ErrorKind::HeldElsewhere => {
            trouble.todo(format!("see how it goes: {}", house.hint("watch")))
        }
        ErrorKind::BodyNeeded => trouble
            .reworded(
                "the journal does not keep this operation's body, so it has to be given again",
            )
            .todo(format!("{resume} --json @FILE   (or --data)")),
        ErrorKind::BodyMismatch => trouble
            .reworded("the body differs from the one that was sent before; nothing was sent now")
            .todo("give the same bytes"),
        ErrorKind::Locked => trouble.todo("give the key that it was sealed with: --seal-env VAR"),
        ErrorKind::Ended(Phase::Abandoned) => trouble
            .reworded("the operation was abandoned, so nothing is sent for it any more")
            .todo("begin another one under another --intent"),
        ErrorKind::Journal(_) => trouble.todo(house.hint("doctor")),
        _ => trouble,
    }
}

fn was_unauthorised(operation: &Operation) -> bool {
    let recent = operation.entry().progress.recent;
    let last = recent.last().and_then(|attempt| attempt.status);
    matches!(last, Some(401 | 403))
}

fn credentials_hint(operation: &Operation, house: &House) -> String {
    let entry = operation.entry();
    let host = match Origin::of(&entry.frozen.url) {
        Ok(origin) => origin.to_string(),
        Err(_) => "the server".to_owned(),
    };
    let again = if entry.progress.phase.is_settled() {
        "say them with --bearer-env VAR, --basic-env VAR or --header-env NAME=VAR".to_owned()
    } else {
        let resume = house.hint(&format!("resume {}", entry.reference()));
        format!("{resume} --bearer-env VAR   (or --basic-env, --header-env)")
    };
    format!(
        "{host} wants other credentials: {again}; or name the variable per host in the configuration"
    )
}

/// The user stopped it: what is true now.
fn stopped(operation: &Operation, sent: bool, house: &House) -> Trouble {
    let reference = operation.reference();
    let progress = operation.entry().progress;
    let resume = house.hint(&format!("resume {reference}"));
    let clean = !sent && progress.attempts == 0 || !progress.maybe_applied;
    if clean {
        return Trouble::new(Exit::Unknown, "stopped", "stopped before anything was sent")
            .about(reference)
            .todo(format!("send it later: {resume}"))
            .nothing_was_sent();
    }
    Trouble::new(
        Exit::Unknown,
        "stopped",
        "stopped; the outcome is not known yet: an attempt may have reached the server",
    )
    .about(reference)
    .todo(format!("go on under the same key: {resume}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_no_header() {
        let refused = header("Authorization: Bearer canary").unwrap_err();
        assert!(refused.contains("--bearer-env") && !refused.contains("canary"));
        assert_eq!(
            header("X-Request-Id: 7"),
            Ok(("X-Request-Id".to_owned(), "7".to_owned()))
        );
        assert!(header("nonsense").is_err());
    }

    #[test]
    fn every_call_without_a_name_is_its_own_action() {
        assert_ne!(unique_intent(), unique_intent());
    }
}

//! `samekey show`: the whole story of one operation.

use crate::describe::{self, Described, KeptBody};
use crate::exit::{Exit, Trouble};
use crate::house::{House, SealArgs, Wanted, Wishes};
use crate::out::Out;
use crate::table;
use crate::when::short;
use console::Style;
use samekey::Phase;
use samekey::entry::{Entry, Liveness};
use samekey::journal::{Journal, SqliteJournal};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  samekey show 7D3F-92AB-1C4E-7
  samekey show '7d3f 92ab 1c4e 7' --reveal
  samekey show 7D3F-92AB-1C4E-7 --format json

Case, spaces and dashes do not matter; where two operations share a reference, give the key.";

/// Tell the whole story of one operation, and what to do next
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    /// The reference, or the whole key
    #[arg(value_name = "REF")]
    wanted: Wanted,
    /// Show the key, the URL's query, header values and bodies too
    #[arg(long)]
    reveal: bool,
    #[command(flatten)]
    seal: SealArgs,
}

pub(crate) async fn run(args: &Show, house: &House, out: &Out) -> Result<Exit, Trouble> {
    let journal = house.open_to_read()?.ok_or_else(|| house.no_journal())?;
    let visible = house.visible()?;
    let entry = house.entry(&journal, &args.wanted, visible).await?;
    let driver = describe::driver(&journal, &entry).await;
    let mut described = describe::entry(&entry, driver, journal.grade(), house, args.reveal);
    if args.reveal {
        unseal(&mut described, &entry, args, &journal, house).await;
    }
    if out.is_json() {
        out.document(&described);
    } else {
        tell(&described, &entry, driver, out);
    }
    Ok(Exit::Fine)
}

/// Opens a sealed answer, if the key for it is here.
async fn unseal(
    described: &mut Described,
    entry: &Entry,
    args: &Show,
    journal: &SqliteJournal,
    house: &House,
) {
    let sealed = |body: &KeptBody| body.kept == "sealed";
    let Some(answer) = described.answer.as_mut().filter(|a| sealed(&a.body)) else {
        return;
    };
    let wishes = Wishes {
        seal: args.seal.clone(),
        ..Wishes::default()
    };
    let wanted = Wanted::Key(entry.key().clone());
    let Ok(operation) = house.operation(journal, &wanted, &wishes).await else {
        return;
    };
    if let Ok(Some(outcome)) = operation.outcome() {
        answer.body.content = outcome.body().map(describe::content);
    }
}

fn tell(described: &Described, entry: &Entry, driver: Option<Liveness>, out: &Out) {
    let head = |text: &str| {
        let padded = format!("{text:<11}");
        Style::new().dim().apply_to(padded).to_string()
    };
    let say = |name: &str, text: &str| out.line(&format!("{}{text}", head(name)));
    say("reference", &described.reference);
    if let Some(key) = &described.key {
        say("key", key);
    }
    say("state", &state(described, entry));
    say("intent", &intent(described));
    say("scope", &described.scope);
    say(
        "request",
        &format!("{} {}", described.method, described.url),
    );
    for header in &described.headers {
        let value = header.value.as_deref().unwrap_or("…");
        say("", &format!("{}: {value}", header.name));
    }
    say("body", &body(&described.body));
    say("profile", &described.profile);
    let age = describe::age(entry.frozen.begun_at);
    say("begun", &format!("{}, {age} ago", described.begun_at));
    say("window", &window(described, entry));
    say("driven by", &driven_by(entry, driver));
    say("journal", &format!("survives: {}", grade(&described.grade)));
    tell_story(described, &say);
    if let Some(note) = &described.note {
        say("note", note);
    }
    say("next", &described.next.text);
    if let Some(command) = &described.next.command {
        say("", command);
    }
}

fn tell_story(described: &Described, say: &impl Fn(&str, &str)) {
    let attempts = described.attempts as usize;
    let noted = described.story.len();
    if attempts > noted {
        let rest = attempts - noted;
        let text = match noted {
            0 => format!("{attempts}, none of which is noted as ended"),
            _ => format!("{attempts}, of which {rest} are not noted one by one"),
        };
        say("attempts", &text);
    } else if attempts == 0 {
        say("attempts", "none noted yet");
    } else {
        say("attempts", &attempts.to_string());
    }
    for attempt in &described.story {
        let status = attempt
            .status
            .map_or_else(|| "   ".into(), |s| s.to_string());
        let took = short(Duration::from_millis(attempt.took_ms));
        say(
            "",
            &format!(
                "{:>2}  {}  {status}  {took:>6}  {}",
                attempt.number, attempt.ended_at, attempt.reason
            ),
        );
    }
    if described.crashes > 0 {
        say(
            "crashes",
            &format!("{} process(es) died over it", described.crashes),
        );
    }
    if let Some(answer) = &described.answer {
        let replayed = match answer.replayed {
            Some(true) => ", replayed by the server",
            _ => "",
        };
        let text = format!(
            "{} at {}{replayed}, body {}",
            answer.status,
            answer.at,
            body(&answer.body)
        );
        say("answer", &text);
    }
}

fn state(described: &Described, entry: &Entry) -> String {
    let phase = table::phase(entry.progress.phase);
    match (&described.attention, entry.progress.phase) {
        (Some(reason), _) => format!("{phase}: {}", reason.replace('-', " ")),
        (None, phase_now) if phase_now.is_settled() => match phase_now {
            Phase::Succeeded => format!("{phase}: it happened"),
            Phase::Rejected => format!("{phase}: it did not happen"),
            _ => format!("{phase}: closed by hand, not known to have happened"),
        },
        _ if entry.progress.maybe_applied => {
            format!("{phase}: not known yet, it may have happened")
        }
        _ => format!("{phase}: nothing was sent yet"),
    }
}

fn intent(described: &Described) -> String {
    match described.generation {
        0 => described.intent.clone(),
        n => format!("{} (repeat {n})", described.intent),
    }
}

fn window(described: &Described, entry: &Entry) -> String {
    let said = match described.window.said_by {
        "assumed" => "nobody published one, so 24 hours are assumed".to_owned(),
        who => format!("as the {who} says"),
    };
    if entry.progress.phase.is_settled() {
        return format!("until {}, {said}", described.window.ends_at);
    }
    match described.window.seconds_left {
        0 => format!("over since {}, {said}", described.window.ends_at),
        left => {
            let left = short(Duration::from_secs(left));
            format!("{left} left, until {}, {said}", described.window.ends_at)
        }
    }
}

fn driven_by(entry: &Entry, driver: Option<Liveness>) -> String {
    match driver {
        Some(Liveness::Alive) => "a process that is at work now".into(),
        Some(Liveness::Silent) => {
            "a process that was not heard of lately; resuming takes over within 30 s".into()
        }
        Some(Liveness::Dead) => "nobody: its process died; resuming takes over at once".into(),
        None if entry.progress.phase.is_settled() => "nobody: it has ended".into(),
        None => "nobody: it was let go in an orderly way".into(),
    }
}

fn grade(grade: &str) -> &str {
    match grade {
        "device" => "a power cut",
        "process" => "the death of the process",
        "reload" => "a reload",
        _ => "nothing",
    }
}

fn body(body: &KeptBody) -> String {
    let kept = match (body.kept, body.bytes) {
        ("fingerprint", _) => "not kept, only its fingerprint".to_owned(),
        (word, Some(bytes)) => format!("{word}, {bytes} bytes"),
        (word, None) => word.to_owned(),
    };
    match &body.content {
        Some(content) => {
            let text = content.get("text").or_else(|| content.get("base64"));
            let text = text.and_then(serde_json::Value::as_str).unwrap_or_default();
            format!("{kept}: {text}")
        }
        None => kept,
    }
}

//! One operation as `--format json` and `export` describe it. The names are a promise: docs/cli.md.

use crate::advice::{self, Advice};
use crate::exit::kebab;
use crate::house::House;
use crate::when::{moment, now};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use samekey::entry::{Entry, Kept, Liveness, Owner, WindowSource};
use samekey::journal::{Damaged, Journal, SqliteJournal};
use samekey::retry::classify::Replayed;
use samekey::{Headers, Outcome, Phase, Timestamp};
use serde::Serialize;
use serde_json::Value;

/// An operation.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Described {
    pub(crate) reference: String,
    /// The whole key: only revealed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    pub(crate) scope: String,
    pub(crate) intent: String,
    /// 0 for the action itself, counting up with deliberate repeats.
    pub(crate) generation: u32,
    pub(crate) phase: String,
    /// Why it needs attention.
    pub(crate) attention: Option<String>,
    pub(crate) method: String,
    /// Without its query unless revealed.
    pub(crate) url: String,
    pub(crate) profile: String,
    /// Names only, unless revealed.
    pub(crate) headers: Vec<Header>,
    pub(crate) body: KeptBody,
    pub(crate) begun_at: String,
    pub(crate) seen_at: String,
    pub(crate) not_before: Option<String>,
    pub(crate) attempts: u32,
    pub(crate) crashes: u32,
    pub(crate) maybe_applied: bool,
    pub(crate) window: Window,
    pub(crate) driver: String,
    pub(crate) grade: String,
    pub(crate) story: Vec<Attempt>,
    pub(crate) answer: Option<Answered>,
    pub(crate) note: Option<String>,
    pub(crate) next: Next,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Header {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<String>,
}

/// What the journal keeps of a body.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct KeptBody {
    /// stored, sealed, fingerprint, lost or too-large.
    pub(crate) kept: &'static str,
    pub(crate) bytes: Option<usize>,
    /// Only revealed, and only where it is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<Value>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Window {
    pub(crate) ends_at: String,
    pub(crate) seconds_left: u64,
    pub(crate) said_by: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Attempt {
    pub(crate) number: u32,
    pub(crate) ended_at: String,
    pub(crate) took_ms: u64,
    pub(crate) status: Option<u16>,
    pub(crate) reason: String,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) at: String,
    pub(crate) replayed: Option<bool>,
    pub(crate) headers: Vec<Header>,
    pub(crate) body: KeptBody,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Next {
    pub(crate) text: String,
    pub(crate) command: Option<String>,
}

/// Whether an entry's driver lives; `None` if nobody drives it.
pub(crate) async fn driver(journal: &SqliteJournal, entry: &Entry) -> Option<Liveness> {
    let owner = entry.progress.owner;
    if owner == Owner::NONE || entry.progress.phase.is_settled() {
        return None;
    }
    journal.liveness(owner).await.ok()
}

/// Describes an entry. Unless `reveal`ed, nothing is said that a log should not hold.
pub(crate) fn entry(
    entry: &Entry,
    driver: Option<Liveness>,
    grade: samekey::Grade,
    house: &House,
    reveal: bool,
) -> Described {
    let (frozen, progress) = (&entry.frozen, &entry.progress);
    let Advice { text, command } = advice::next(entry, driver, house);
    let ends_at = progress.window_start + progress.window;
    Described {
        reference: entry.reference().to_string(),
        key: reveal.then(|| frozen.key.as_str().to_owned()),
        scope: frozen.scope.to_string(),
        intent: frozen.intent.to_string(),
        generation: frozen.generation,
        phase: progress.phase.name().to_owned(),
        attention: match progress.phase {
            Phase::Attention(reason) => Some(kebab(&format!("{reason:?}"))),
            _ => None,
        },
        method: frozen.method.as_str().to_owned(),
        url: url(&frozen.url, reveal),
        profile: frozen.profile.to_string(),
        headers: headers(&frozen.headers, reveal),
        body: kept(&frozen.body, reveal),
        begun_at: moment(frozen.begun_at),
        seen_at: moment(progress.seen_at),
        not_before: progress.not_before.map(moment),
        attempts: progress.attempts,
        crashes: progress.crashes,
        maybe_applied: progress.maybe_applied,
        window: Window {
            ends_at: moment(ends_at),
            seconds_left: ends_at.since(now()).as_secs(),
            said_by: said_by(progress.window_source),
        },
        driver: driver_word(driver).to_owned(),
        grade: grade.to_string(),
        story: progress
            .recent
            .iter()
            .map(|attempt| Attempt {
                number: attempt.number,
                ended_at: moment(attempt.ended_at),
                took_ms: u64::try_from(attempt.took.as_millis()).unwrap_or(u64::MAX),
                status: attempt.status,
                reason: attempt.reason.to_string(),
            })
            .collect(),
        answer: progress.answer.as_ref().map(|answer| Answered {
            status: answer.status,
            at: moment(answer.at),
            replayed: match answer.replayed {
                Replayed::Yes => Some(true),
                Replayed::No => Some(false),
                Replayed::Unknown => None,
            },
            headers: headers(&answer.headers, reveal),
            body: kept(&answer.body, reveal),
        }),
        note: progress.note.as_deref().map(ToOwned::to_owned),
        next: Next { text, command },
    }
}

/// An entry that cannot be read.
pub(crate) fn damaged(damage: &Damaged) -> Value {
    serde_json::json!({
        "damaged": true,
        "slot": damage.slot,
        "reference": damage.key.as_ref().map(|key| key.reference().to_string()),
        "error": damage.error.to_string(),
    })
}

/// The outcome of `send` and `resume`.
pub(crate) fn outcome(outcome: &Outcome, intent: &str) -> Value {
    serde_json::json!({
        "reference": outcome.reference().to_string(),
        "key": outcome.key().as_str(),
        "intent": intent,
        "phase": outcome.phase().name(),
        "status": (outcome.status() != 0).then(|| outcome.status()),
        "provenance": outcome.provenance().to_string(),
        "attempts": outcome.attempts(),
        "answered_at": moment(outcome.answered_at()),
        "recorded": outcome.is_recorded(),
        "note": outcome.note(),
        "headers": headers(outcome.headers(), true),
        "body": outcome.body().map(content),
    })
}

/// A body in JSON: as text or in base 64, and as what it is if it is JSON itself.
pub(crate) fn content(bytes: &[u8]) -> Value {
    let Ok(text) = str::from_utf8(bytes) else {
        return serde_json::json!({ "base64": STANDARD.encode(bytes) });
    };
    match serde_json::from_slice::<Value>(bytes) {
        Ok(value) => serde_json::json!({ "text": text, "json": value }),
        Err(_) => serde_json::json!({ "text": text }),
    }
}

fn kept(kept: &Kept, reveal: bool) -> KeptBody {
    let (word, bytes) = match kept {
        Kept::Plain(bytes) => ("stored", Some(bytes.len())),
        Kept::Sealed(bytes) => ("sealed", Some(bytes.len())),
        Kept::Lost => ("lost", None),
        Kept::TooLarge => ("too-large", None),
        _ => ("fingerprint", None),
    };
    KeptBody {
        kept: word,
        bytes,
        content: match kept {
            Kept::Plain(bytes) if reveal => Some(content(bytes)),
            _ => None,
        },
    }
}

fn headers(headers: &Headers, reveal: bool) -> Vec<Header> {
    let lines = headers.iter().map(|(name, value)| Header {
        name: name.to_owned(),
        value: reveal.then(|| value.to_owned()),
    });
    lines.collect()
}

/// Queries carry names and numbers of people more often than not.
pub(crate) fn url(url: &str, reveal: bool) -> String {
    match url.find(['?', '#']) {
        Some(at) if !reveal => format!("{}?…", &url[..at]),
        _ => url.to_owned(),
    }
}

pub(crate) fn said_by(source: WindowSource) -> &'static str {
    match source {
        WindowSource::Operation => "operation",
        WindowSource::Profile => "profile",
        WindowSource::Server => "server",
        _ => "assumed",
    }
}

pub(crate) fn driver_word(driver: Option<Liveness>) -> &'static str {
    match driver {
        None => "nobody",
        Some(Liveness::Alive) => "alive",
        Some(Liveness::Silent) => "silent",
        Some(Liveness::Dead) => "dead",
    }
}

/// How long ago something was.
pub(crate) fn age(at: Timestamp) -> String {
    crate::when::short(now().since(at))
}

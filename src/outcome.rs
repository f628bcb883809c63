//! The final answer of an operation.

use crate::entry::{Phase, Progress};
use crate::key::{Key, Reference};
use crate::message::{Content, Headers};
use crate::retry::classify::Replayed;
use crate::time::Timestamp;
use std::fmt;

/// The server's final word on an operation, or a person's.
///
/// A refusal is an outcome too: the server answered, and nothing happened.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), samekey::Error> {
/// # let client = samekey::testing::client();
/// let outcome = client
///     .operation("invoice/42/pay")
///     .post("https://api.example.com/payments")
///     .json(&serde_json::json!({"amount": 100}))
///     .begin()
///     .await?
///     .send()
///     .await?;
/// assert!(outcome.is_success());
/// assert_eq!((outcome.status(), outcome.attempts()), (201, 1));
/// assert_eq!(outcome.provenance(), samekey::Provenance::Fresh);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    key: Key,
    phase: Phase,
    status: u16,
    headers: Headers,
    content: Content,
    provenance: Provenance,
    attempts: u32,
    answered_at: Timestamp,
    note: Option<Box<str>>,
    recorded: bool,
}

/// Where an outcome comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Provenance {
    /// The server answered this run of the program, and did not say that it had answered before.
    Fresh,
    /// The server said that this is its stored answer to an earlier attempt.
    Replayed,
    /// The operation was begun by an earlier run, or its answer was in the journal.
    Recovered,
    /// A person settled it.
    ByHand,
}

impl Provenance {
    /// Its name, in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Provenance::Fresh => "fresh",
            Provenance::Replayed => "replayed",
            Provenance::Recovered => "recovered",
            Provenance::ByHand => "by hand",
        }
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Outcome {
    /// What a settled entry says; `content` is its answer's body, opened.
    pub(crate) fn of(key: &Key, progress: &Progress, content: Content, recovered: bool) -> Outcome {
        let answer = progress.answer.as_ref();
        let provenance = match answer {
            None => Provenance::ByHand,
            Some(_) if recovered => Provenance::Recovered,
            Some(answer) if answer.replayed == Replayed::Yes => Provenance::Replayed,
            Some(_) => Provenance::Fresh,
        };
        Outcome {
            key: key.clone(),
            phase: progress.phase,
            status: answer.map_or(0, |answer| answer.status),
            headers: answer.map_or_else(Headers::new, |answer| answer.headers.clone()),
            content,
            provenance,
            attempts: progress.attempts,
            answered_at: answer.map_or(progress.seen_at, |answer| answer.at),
            note: progress.note.clone(),
            recorded: true,
        }
    }

    /// The answer as it came, before the journal's cut.
    pub(crate) fn with_headers(mut self, headers: Headers) -> Outcome {
        self.headers = headers;
        self
    }

    pub(crate) fn not_recorded(mut self) -> Outcome {
        self.recorded = false;
        self
    }

    /// Whether it happened.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.phase == Phase::Succeeded
    }

    /// Succeeded, rejected or abandoned.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The server's status; 0 if a person settled it without one.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The answer's headers: all of them if it just came, the journal's selection otherwise.
    #[must_use]
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// The answer's body, as far as it is known.
    #[must_use]
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// The answer's body, if all of it is here.
    #[must_use]
    pub fn body(&self) -> Option<&[u8]> {
        self.content.bytes()
    }

    /// The answer's body as text, if all of it is here and is UTF-8.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.body().and_then(|bytes| str::from_utf8(bytes).ok())
    }

    /// The answer's body, read as JSON.
    ///
    /// # Errors
    /// If it is not JSON of this shape. A body that is not here reads as `null`.
    #[cfg(feature = "json")]
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(self.body().unwrap_or(b"null"))
    }

    /// Where it comes from.
    #[must_use]
    pub fn provenance(&self) -> Provenance {
        self.provenance
    }

    /// How many attempts were made in all.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// When the answer came.
    #[must_use]
    pub fn answered_at(&self) -> Timestamp {
        self.answered_at
    }

    /// What to show to people.
    #[must_use]
    pub fn reference(&self) -> Reference {
        self.key.reference()
    }

    /// The whole key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// What a person wrote when settling it.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Whether the journal has it. If not (a full disk, say), the outcome is real all the same; the
    /// next resume asks the server again under the same key.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.recorded
    }
}

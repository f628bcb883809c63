//! The outside judge: it knows the wire, the server's ledger, the journal and what callers were told.

use super::told::{Answer, Said, Told, escaped};
use super::tools::{Res, block_on};
use super::wire::Sent;
use super::worker::{Kind, number_of};
use samekey::entry::{Entry, Kept};
use samekey::journal::{Journal, JournalError, Query, SqliteOptions};
use samekey::{Phase, SqliteJournal};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::path::Path;

/// One entry of the journal.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) key: String,
    pub(super) phase: Phase,
    pub(super) attempts: u64,
    pub(super) answer: Option<(u16, String)>,
}

/// The journal by number.
pub(super) type Rows = BTreeMap<u64, Row>;

/// Reads a journal that nobody has open.
pub(super) fn rows(path: &Path) -> Res<Rows> {
    read(path, SqliteOptions::new())
}

/// The same for a journal that is known to have lost something.
pub(super) fn rows_of_what_is_left(path: &Path) -> Rows {
    read(path, SqliteOptions::new().accept_loss(true)).unwrap_or_default()
}

fn read(path: &Path, options: SqliteOptions) -> Res<Rows> {
    let said = |error: JournalError| format!("the journal: {error}");
    let journal = SqliteJournal::open_with(path, options).map_err(said)?;
    let listing = block_on(journal.list(Query::default()))?.map_err(said)?;
    if let Some(damaged) = listing.damaged.first() {
        return Err(format!("the journal has a damaged entry: {damaged:?}"));
    }
    Ok(listing.entries.iter().filter_map(row).collect())
}

fn row(entry: &Entry) -> Option<(u64, Row)> {
    let number = number_of(&entry.frozen.intent)?;
    let answer = entry.progress.answer.as_ref().map(|answer| {
        let body = match &answer.body {
            Kept::Plain(bytes) => escaped(Some(bytes)),
            _ => escaped(None),
        };
        (answer.status, body)
    });
    let row = Row {
        key: entry.key().as_str().to_owned(),
        phase: entry.progress.phase,
        attempts: entry.progress.attempts.into(),
        answer,
    };
    Some((number, row))
}

/// The acknowledged begins that a journal does not have.
pub(super) fn missing_begins(told: &[Told], rows: &Rows) -> u64 {
    let missing = told.iter().filter(|told| match &told.said {
        Said::Begun(key) => rows.get(&told.number).is_none_or(|row| row.key != *key),
        _ => false,
    });
    missing.count() as u64
}

/// What was found wrong, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Effects beyond the first of an action.
    pub(super) duplicates: u64,
    /// Begins that were acknowledged and are not there, or never took effect.
    pub(super) lost: u64,
    /// Requests on the wire whose entry the journal does not have.
    pub(super) unjournalled: u64,
    /// Outcomes that were told and are not there.
    pub(super) lost_outcomes: u64,
    /// Actions under more than one key.
    pub(super) two_keys: u64,
    /// Keys with more than one body.
    pub(super) two_bodies: u64,
    /// Requests on the wire beyond the attempts that the journal counts.
    pub(super) uncounted: u64,
    /// Failures told of what happened, or may have.
    pub(super) unknown_as_failure: u64,
    /// Successes told of what did not happen, or otherwise than it did.
    pub(super) false_success: u64,
    /// Operations that did not come to an end.
    pub(super) stuck: u64,
    /// Places where a secret was found.
    pub(super) leaks: u64,
}

impl Counts {
    pub(super) fn all(&self) -> [(&'static str, u64); 11] {
        [
            ("duplicates", self.duplicates),
            ("lost", self.lost),
            ("unjournalled", self.unjournalled),
            ("lost_outcomes", self.lost_outcomes),
            ("two_keys", self.two_keys),
            ("two_bodies", self.two_bodies),
            ("uncounted", self.uncounted),
            ("unknown_as_failure", self.unknown_as_failure),
            ("false_success", self.false_success),
            ("stuck", self.stuck),
            ("leaks", self.leaks),
        ]
    }

    pub(super) fn is_clean(&self) -> bool {
        *self == Counts::default()
    }

    pub(super) fn of(&self, name: &str) -> u64 {
        let all = self.all();
        all.iter().find(|(n, _)| *n == name).map_or(0, |(_, v)| *v)
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.duplicates += other.duplicates;
        self.lost += other.lost;
        self.unjournalled += other.unjournalled;
        self.lost_outcomes += other.lost_outcomes;
        self.two_keys += other.two_keys;
        self.two_bodies += other.two_bodies;
        self.uncounted += other.uncounted;
        self.unknown_as_failure += other.unknown_as_failure;
        self.false_success += other.false_success;
        self.stuck += other.stuck;
        self.leaks += other.leaks;
    }
}

/// All that is known after the last process has ended.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// What counts as told: for a cut, only what was received before it.
    pub(super) told: Vec<Told>,
    /// All that was ever told, the end included.
    pub(super) told_later: Vec<Told>,
    /// The journal right after the fault.
    pub(super) before: Rows,
    /// The journal after everything was finished without faults.
    pub(super) after: Rows,
    pub(super) effects: BTreeMap<u64, Vec<u64>>,
    pub(super) sent: Vec<Sent>,
    /// The numbers that were on the wire when the fault was over.
    pub(super) sent_before: Vec<u64>,
    /// Whether callers also cancelled and settled by hand.
    pub(super) people: bool,
    /// Whether the fault may cost a success that was told its place in the journal.
    pub(super) may_lose_successes: bool,
    /// Whether every note of an attempt outlives the fault.
    pub(super) keeps_attempts: bool,
}

/// What the judge says, in figures and in words.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict {
    pub(super) counts: Counts,
    pub(super) words: Vec<String>,
    /// Successes that were told, lost their place and were learnt again.
    pub(super) relearnt: u64,
}

impl Evidence {
    pub(super) fn judge(&self) -> Verdict {
        let mut verdict = Verdict::default();
        self.judge_effects(&mut verdict);
        self.judge_sends(&mut verdict);
        self.judge_keys(&mut verdict);
        self.judge_attempts(&mut verdict);
        for told in self.told.iter() {
            self.judge_told(told, &mut verdict);
        }
        for told in self.told.iter().chain(&self.told_later) {
            self.judge_words(told, &mut verdict);
        }
        for (number, row) in &self.after {
            if !row.phase.is_settled() {
                verdict.counts.stuck += 1;
                verdict.words.push(format!("{number} ends as {row:?}"));
            }
        }
        verdict
    }

    fn effects_of(&self, number: u64) -> &[u64] {
        // A declined payment has no effect, and an order's amount is its number.
        self.effects.get(&number).map_or(&[], Vec::as_slice)
    }

    fn judge_effects(&self, verdict: &mut Verdict) {
        for (number, effects) in &self.effects {
            if effects.len() > 1 {
                verdict.counts.duplicates += effects.len() as u64 - 1;
                verdict.words.push(format!("{number} happened {effects:?}"));
            }
        }
        let begun = self
            .told
            .iter()
            .filter(|t| matches!(t.said, Said::Begun(_)));
        let begun: BTreeSet<u64> = begun.map(|told| told.number).collect();
        for number in begun {
            let due = Kind::of(number, self.people) == Kind::Order;
            if due && self.effects_of(number).is_empty() {
                verdict.counts.lost += 1;
                verdict.words.push(format!("{number} never happened"));
            }
        }
    }

    /// The key is durable before the first byte: the fault has not taken it.
    fn judge_sends(&self, verdict: &mut Verdict) {
        let sent: BTreeSet<u64> = self.sent_before.iter().copied().collect();
        for number in sent {
            if !self.before.contains_key(&number) {
                verdict.counts.unjournalled += 1;
                verdict
                    .words
                    .push(format!("{number} was sent and is not in the journal"));
            }
        }
    }

    /// One attempt is one request, and nobody below us sends it again.
    fn judge_attempts(&self, verdict: &mut Verdict) {
        let mut requests: BTreeMap<u64, u64> = BTreeMap::new();
        for number in self.sent.iter().filter_map(|sent| sent.number) {
            *requests.entry(number).or_default() += 1;
        }
        requests.retain(|_, _| self.keeps_attempts);
        for (number, requests) in requests {
            let counted = self.after.get(&number).map_or(0, |row| row.attempts);
            if requests > counted {
                verdict.counts.uncounted += requests - counted;
                let said = format!("{number}: {requests} requests in {counted} attempts");
                verdict.words.push(said);
            }
        }
    }

    fn judge_keys(&self, verdict: &mut Verdict) {
        let mut keys: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
        let mut bodies: BTreeMap<&str, BTreeSet<&[u8]>> = BTreeMap::new();
        for sent in self.sent.iter().filter(|sent| sent.whole) {
            let key = sent.key.as_deref().unwrap_or("(none)");
            bodies.entry(key).or_default().insert(&sent.body);
            if let Some(number) = sent.number {
                keys.entry(number).or_default().insert(key);
            }
        }
        for told in self.told.iter().chain(&self.told_later) {
            if let Said::Begun(key) = &told.said {
                keys.entry(told.number).or_default().insert(key);
            }
        }
        for rows in [&self.before, &self.after] {
            for (number, row) in rows {
                keys.entry(*number).or_default().insert(&row.key);
            }
        }
        for (number, keys) in keys.iter().filter(|(_, keys)| keys.len() > 1) {
            verdict.counts.two_keys += 1;
            verdict
                .words
                .push(format!("{number} has the keys {keys:?}"));
        }
        for sent in self.sent.iter().filter(|sent| !sent.whole) {
            let Some(whole) = sent.key.as_deref().and_then(|key| bodies.get(key)) else {
                continue;
            };
            if !whole.iter().any(|body| body.starts_with(&sent.body)) {
                verdict.counts.two_bodies += 1;
                verdict
                    .words
                    .push(format!("{:?} began otherwise", sent.key));
            }
        }
        for (key, bodies) in bodies.iter().filter(|(_, bodies)| bodies.len() > 1) {
            verdict.counts.two_bodies += 1;
            verdict
                .words
                .push(format!("{key} has {} bodies", bodies.len()));
        }
    }

    /// What was told before the fault must have outlived it.
    fn judge_told(&self, told: &Told, verdict: &mut Verdict) {
        let number = told.number;
        let row = self.before.get(&number);
        let mut gone = |what: &str| {
            verdict.counts.lost_outcomes += 1;
            let said = format!("{number} was told as {what}, and the journal has {row:?}");
            verdict.words.push(said);
        };
        match (&told.said, row) {
            (Said::Begun(key), Some(row)) if row.key == *key => {}
            (Said::Begun(key), _) => {
                verdict.counts.lost += 1;
                let said = format!("{number} was begun as {key}, and the journal has {row:?}");
                verdict.words.push(said);
            }
            (Said::Outcome(answer), Some(row)) => {
                let success = (200..300).contains(&answer.status);
                let there = row.phase.is_settled() && fits(answer, row);
                let excused = success && (self.may_lose_successes || !answer.recorded);
                if there {
                } else if excused && !row.phase.is_settled() {
                    verdict.relearnt += 1;
                } else {
                    gone("ended");
                }
            }
            (Said::Outcome(_), None) => gone("ended"),
            (Said::Abandoned, Some(row)) if row.phase == Phase::Abandoned => {}
            (Said::Abandoned, _) => gone("abandoned"),
            (Said::Settled, Some(row)) if row.phase == Phase::Succeeded => {}
            (Said::Settled, _) => gone("settled"),
            (Said::Unresolved(_) | Said::Nothing(_) | Said::Failed(_), _) => {}
        }
    }

    /// What was told must be true.
    fn judge_words(&self, told: &Told, verdict: &mut Verdict) {
        let number = told.number;
        let effects = self.effects_of(number);
        let mut failure = |why: &str| {
            verdict.counts.unknown_as_failure += 1;
            verdict
                .words
                .push(format!("{number}: {:?}, but {why}", told.said));
        };
        match &told.said {
            Said::Outcome(answer) if (200..300).contains(&answer.status) => {
                let told_so = self.after.get(&number).is_some_and(|row| fits(answer, row));
                if effects.is_empty() || !told_so {
                    verdict.counts.false_success += 1;
                    let said = format!("{number}: {answer:?}, but {:?}", self.after.get(&number));
                    verdict.words.push(said);
                }
            }
            Said::Outcome(_) if !effects.is_empty() => failure("it happened"),
            Said::Nothing(_) => {
                let key = self.after.get(&number).map(|row| row.key.as_str());
                let ours = |sent: &&Sent| sent.number == Some(number) || sent.key.as_deref() == key;
                let mut sent = self
                    .sent
                    .iter()
                    .filter(|sent| key.is_some() && sent.at < told.at);
                if sent.any(|sent| ours(&sent)) {
                    failure("a request was on the wire before");
                }
            }
            Said::Failed(_) if effects.iter().any(|at| *at < told.at) => {
                failure("it had happened before");
            }
            _ => {}
        }
    }
}

/// Whether a row holds what was told.
fn fits(answer: &Answer, row: &Row) -> bool {
    let same_body = |body: &str| body == answer.body || body == "-" || answer.body == "-";
    row.answer
        .as_ref()
        .is_some_and(|(status, body)| *status == answer.status && same_body(body))
}

#[cfg(test)]
mod tests;

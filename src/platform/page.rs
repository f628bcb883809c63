//! What a page's script asks of the heart: lists of plain values in, lists of plain values out, and
//! nothing that waits.
//!
//! The script of the npm package (`pkg/src`) finds rows, writes them, fetches and sleeps. What they mean,
//! who may drive, what is sent and when, what is let go, and what people are told is decided here, by the
//! same functions that a program's client asks.

mod drive;
mod told;

use crate::client::{Ages, Settings, decisions};
use crate::clock::{Dice, Furthest};
use crate::entry::{DecodeError, Entry, Flush, Frozen, Kept, Owner, Progress};
use crate::error::{Error, ErrorKind, Problems};
use crate::journal::row::{self, Due, Row};
use crate::journal::{self, Expected, JournalErrorKind, Retention, Tombstone, not_settled};
use crate::key::{InvalidReference, Reference};
use crate::machine;
use crate::message::{Content, Failure, FailureKind, Headers, Origin, Response, Sent};
use crate::operation::{Draft, check_join, ended_long_ago, fitting, stored_body, unreadable};
use crate::profile::Profile;
use crate::retry::Policy;
use crate::retry::budget::Budget;
use crate::retry::classify::Complete;
use crate::seal::Body;
use crate::seam::values::{Pack, Values};
use crate::text::decimal;
use crate::time::{Now, Timestamp};
use drive::{Drive, Step};
use std::cell::RefCell;
use std::time::Duration;

/// What a page knows of one of its clients.
struct Page {
    settings: Settings,
    /// Whether there is a callback for credentials.
    proves: bool,
    furthest: Furthest,
    budgets: Vec<(Origin, Budget)>,
    ages: Ages,
}

struct Pages {
    pages: Vec<Page>,
    /// By number. What is over leaves an empty place: a page does not live to see many of them.
    drives: Vec<Option<Box<Drive>>>,
}

thread_local! {
    static PAGES: RefCell<Pages> = const {
        RefCell::new(Pages {
            pages: Vec::new(),
            drives: Vec::new(),
        })
    };
}

/// The moment and the luck of a call.
#[derive(Clone, Copy)]
struct Given {
    now: Now,
    random: [u8; 16],
}

impl Given {
    fn roll(&self) -> u64 {
        u128::from_le_bytes(self.random) as u64
    }
}

impl Dice for Given {
    fn roll(&self) -> u64 {
        Given::roll(self)
    }

    fn key_bytes(&self) -> [u8; 16] {
        self.random
    }
}

/// Answers one question: its number, the client's, both clocks in milliseconds, 16 random bytes, and what it is
/// about. An answer begins with no; a refusal with yes.
#[must_use]
pub fn call(given: &[u8]) -> Vec<u8> {
    let mut values = Values::new(given);
    let (what, number) = (values.number() as u32, values.number() as usize);
    let mut now = Now {
        wall: Timestamp::from_millis(values.number() as u64),
        monotonic: Duration::from_micros((values.number() * 1000.0) as u64),
    };
    let random = values.bytes().try_into().unwrap_or_default();
    PAGES.with_borrow_mut(|pages| {
        if let Some(page) = pages.pages.get_mut(number) {
            now = page.furthest.steady(now);
        }
        let given = Given { now, random };
        let mut told = Pack::default();
        told.flag(false);
        match answer(pages, (what, number), given, &mut values, &mut told) {
            Ok(()) => told.into(),
            Err(error) => {
                let mut told = Pack::default();
                told.flag(true);
                told::trouble(&mut told, &error);
                told.into()
            }
        }
    })
}

fn answer(
    pages: &mut Pages,
    (what, number): (u32, usize),
    given: Given,
    values: &mut Values<'_>,
    told: &mut Pack,
) -> Result<(), Error> {
    if what == 0 {
        let page = opened(values)?;
        told.number(pages.pages.len() as f64);
        told.text(page.settings.scope.as_str());
        pages.pages.push(page);
        return Ok(());
    }
    let Pages { pages, drives } = pages;
    let Some(page) = pages.get_mut(number) else {
        return Ok(());
    };
    match what {
        1 => begin(&page.settings, given, values, told)?,
        2 => join(&page.settings, values, told)?,
        3 => view(values, told),
        4 => {
            let entry = Row::read(values).entry();
            let recovered = |entry: &Entry| {
                let settled = entry.progress.phase.is_settled();
                settled.then(|| decisions::recovered(entry, &page.settings.keeper).ok())?
            };
            if let Some(outcome) = entry.ok().and_then(|entry| recovered(&entry)) {
                told::outcome(told, &outcome);
            }
        }
        5 => decree(given.now.wall, values, told)?,
        6 => {
            let retention = Retention {
                now: given.now.wall,
                settled: page.settings.settled_for,
                tombstones: page.settings.tombstones_for,
                batch: 0,
            };
            let mut swap = Pack::default();
            match row::reap(&mut swap, &Row::read(values), &retention) {
                Due::Nothing => {}
                Due::Removal => told.flag(true),
                Due::Tombstone => {
                    told.flag(false);
                    told.bytes(swap.as_bytes());
                }
            }
        }
        7 => told.text(&reference(values.text())?.text()),
        // A new drive, and what it asks for first.
        8 => {
            let mut drive = Drive::new(given.now, values)?;
            told.number(drives.len() as f64);
            drive.go(step(page, given), None, told);
            drives.push(Some(drive));
        }
        // What came of what it asked for, and what it asks for next.
        9 => {
            if let Some(Some(drive)) = drives.get_mut(values.number() as usize) {
                drive.go(step(page, given), Some(values), told);
            }
        }
        // It is over, or broken off: what to write then.
        _ => {
            let drive = drives.get_mut(values.number() as usize);
            if let Some(drive) = drive.and_then(Option::take) {
                drive.end(told);
            }
        }
    }
    Ok(())
}

fn step(page: &mut Page, given: Given) -> Step<'_> {
    Step {
        page,
        given,
        asked: Pack::default(),
    }
}

impl Row<'_> {
    fn trusted(&self) -> Result<Box<Entry>, Error> {
        self.entry().map_err(|error| self.unreadable(error))
    }

    fn unreadable(&self, error: DecodeError) -> Error {
        let (kind, message) = journal::unreadable(self.slot, error);
        Error::new(ErrorKind::Journal(kind), message)
    }
}

fn mistake(message: String) -> Error {
    Error::new(ErrorKind::InvalidConfiguration, message)
}

fn profile(name: &str) -> Result<Profile, Error> {
    Profile::named(name).ok_or_else(|| {
        let unknown = [
            "there is no profile ",
            name,
            "; the README lists those there are",
        ];
        mistake(unknown.concat())
    })
}

fn reference(given: &str) -> Result<Reference, Error> {
    given
        .parse()
        .map_err(|error: InvalidReference| mistake(error.text()))
}

/// A number below zero, or none at all, becomes 0, and the policy complains of it.
fn millis(number: f64) -> Duration {
    Duration::from_millis(number as u64)
}

/// What is not given keeps its default.
fn policy(policy: &mut Policy, values: &mut Values<'_>) {
    if let Some(attempts) = values.optional_number() {
        policy.max_attempts = attempts as u32;
    }
    for limit in [
        &mut policy.base,
        &mut policy.cap,
        &mut policy.attempt_timeout,
        &mut policy.give_up_after,
        &mut policy.defer_above,
    ] {
        if let Some(number) = values.optional_number() {
            *limit = millis(number);
        }
    }
}

/// The texts of a list.
struct Texts<'a>(Values<'a>);

impl<'a> Iterator for Texts<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        (!self.0.is_empty()).then(|| self.0.text())
    }
}

fn opened(values: &mut Values<'_>) -> Result<Page, Error> {
    let mut settings = Settings::new();
    let (application, principal) = (values.text(), values.optional());
    if let Some(name) = values.optional() {
        settings.profiles.push(profile(name)?);
    }
    let mut origins = Texts(Values::new(values.bytes()));
    for header in Texts(Values::new(values.bytes())) {
        settings.keep_header(header);
    }
    if !values.flag() {
        settings.body = Body::FingerprintOnly;
    }
    let proves = values.flag();
    policy(&mut settings.policy, values);
    let problems = Problems::default();
    settings.settle(application, principal, &mut origins, problems)?;
    Ok(Page {
        settings,
        proves,
        furthest: Furthest::default(),
        budgets: Vec::new(),
        ages: Ages::default(),
    })
}

fn owner(values: &mut Values<'_>) -> Owner {
    Owner(u128::from_le_bytes(
        values.bytes().try_into().unwrap_or_default(),
    ))
}

/// What the store is asked to add, and the body if the journal does not keep it.
fn begin(
    settings: &Settings,
    given: Given,
    values: &mut Values<'_>,
    told: &mut Pack,
) -> Result<(), Error> {
    // A key of zeros would be shared by everyone.
    if given.random == [0; 16] {
        return Err(mistake("the browser gives no randomness".into()));
    }
    let owner = owner(values);
    let previous = values.optional();
    let even_if_unresolved = values.flag();
    let intent = values.text();
    let mut draft = Draft::new(settings, if previous.is_some() { "repeat" } else { intent });
    draft.even_if_unresolved = even_if_unresolved;
    if let (Some(url), method) = (values.optional(), values.text()) {
        draft.method(method, url);
    }
    if let (Some(body), content_type) = (values.optional_bytes(), values.text()) {
        draft.body(body.into(), content_type);
    }
    draft.keyed |= values.flag();
    if let Some(key) = values.optional() {
        draft.adopt_key(key);
    }
    draft.window = values.optional_number().map(millis);
    if let Some(name) = values.optional() {
        draft.profile = profile(name)?;
    }
    // What a success must have: nothing, a body (empty text), or a header of this name.
    match values.optional() {
        Some("") => draft.complete = Complete::Body,
        Some(header) => draft.complete_with_header(header),
        None => {}
    }
    let mut lines = Values::new(values.bytes());
    while !lines.is_empty() {
        draft.header(lines.text(), lines.text());
    }
    if let Some(previous) = previous {
        let entry = only_one(reference(previous)?, values, settings)?;
        let body = || stored_body(&entry.frozen, &settings.keeper);
        draft.repeat(&entry, settings, body)?;
    }
    let (entry, body) = draft.freeze(settings, owner, given.now.wall, &given)?;
    row::add(told, &entry);
    let kept = matches!(entry.frozen.body, Kept::Plain(_));
    told.optional_bytes((!kept).then_some(&*body));
    Ok(())
}

/// The entry of the row that this reference has, if it is the only one.
fn only_one(
    reference: Reference,
    found: &mut Values<'_>,
    settings: &Settings,
) -> Result<Box<Entry>, Error> {
    match found.number() as usize {
        1 => Row::read(found).trusted(),
        many => Err(decisions::not_one(many, &settings.scope).about(reference)),
    }
}

/// The intent is taken by this row: the body that goes with it, if the caller just supplied it.
fn join(settings: &Settings, values: &mut Values<'_>, told: &mut Pack) -> Result<(), Error> {
    let (wanted, adopted, body) = (values.bytes(), values.flag(), values.bytes());
    let row = Row::read(values);
    let wanted = Frozen::decode(wanted).map_err(|error| row.unreadable(error))?;
    let existing = match row.entry() {
        Ok(existing) => existing,
        Err(error) => return Err(unreadable(&wanted.intent, &row.damaged(error))),
    };
    if let (Some(tombstone), true) = (Tombstone::of(&existing), row.gone) {
        return Err(ended_long_ago(&tombstone));
    }
    check_join(&existing, &wanted, adopted)?;
    let profile = settings.profile_of(&existing).ok();
    let fitting = profile.and_then(|profile| fitting(body, &existing.frozen, &profile));
    told.optional_bytes(fitting.as_deref());
    Ok(())
}

/// What a row says, for a list: no more than three values if it cannot be read.
fn view(values: &mut Values<'_>, told: &mut Pack) {
    let row = Row::read(values);
    match row.entry() {
        Ok(entry) => told::summary(told, &entry),
        Err(damage) => {
            let key = row.damaged(damage).key;
            let reference = key.map(|key| key.reference().text());
            let name = ["damaged-", &decimal(row.slot)].concat();
            told.text(reference.as_deref().unwrap_or(&name));
            told.text(if row.key.is_empty() { &name } else { row.key });
            told.text(&damage.text());
        }
    }
}

// What a person decides, as `pkg/src/core.ts` counts; anything else only looks.
const CANCEL: u32 = 1;
const HAPPENED: u32 = 2;
const DID_NOT_HAPPEN: u32 = 3;
const ABANDON: u32 = 4;
const FORGET: u32 = 5;
const RELEASE: u32 = 6;
const GONE: u32 = 7;

/// What a person decided about an entry: the swap that follows. `held` is the revision that this page wrote when
/// it began, and still holds: only of that it knows that nothing was sent.
fn decree(now: Timestamp, values: &mut Values<'_>, told: &mut Pack) -> Result<(), Error> {
    let (what, note, held, sent) = (
        values.number() as u32,
        values.text(),
        values.optional_number(),
        values.flag(),
    );
    let row = Row::read(values);
    let entry = row.entry();
    let mut entry = entry.map_err(|damage| {
        let error = decisions::distrusted(row.slot, damage);
        match row.reference() {
            Some(reference) => error.about(reference),
            None => error,
        }
    })?;
    let progress = &entry.progress;
    let held = held == Some(progress.revision as f64);
    let (reference, attempts) = (entry.reference(), progress.attempts);
    let sent = sent || (!held && machine::may_have_left(progress));
    let blame = |error: Error| error.about(reference).after(attempts, sent);
    let changed = match what {
        CANCEL => machine::cancel(progress, held, None),
        HAPPENED | DID_NOT_HAPPEN => machine::settle(progress, what == HAPPENED, note),
        ABANDON => machine::abandon(progress, note),
        FORGET => {
            let key = entry.key().clone();
            if !row::bury(told, &mut entry, Flush::Full) {
                let kind = ErrorKind::Journal(JournalErrorKind::NotSettled);
                return Err(blame(Error::new(kind, not_settled(&key))));
            }
            return Ok(());
        }
        RELEASE if held => {
            let released = machine::release(progress, true);
            swap(
                told,
                &entry,
                &Expected::of(progress),
                &released,
                Flush::Normal,
            );
            return Ok(());
        }
        GONE => return Err(decisions::gone().about(reference).after(attempts, true)),
        _ => return Ok(()),
    };
    let Some(mut changed) = changed else {
        return Err(blame(decisions::ended(progress.phase)));
    };
    changed.seen_at = changed.seen_at.max(now);
    swap(told, &entry, &Expected::of(progress), &changed, Flush::Full);
    Ok(())
}

fn swap(told: &mut Pack, entry: &Entry, expected: &Expected, progress: &Progress, flush: Flush) {
    row::swap(told, (entry.slot, entry.key()), expected, progress, flush);
}

/// What came of an exchange, as `page.js` tells it.
pub(crate) fn answered(values: &mut Values<'_>) -> Result<Response, Failure> {
    let failure = values.number();
    if failure != 0.0 {
        return Err(failed(failure as u32, values.text()));
    }
    let status = values.number() as u16;
    let content = match (values.optional_bytes(), values.flag()) {
        (Some(body), _) => Content::Whole(body.into()),
        (None, true) => Content::TooLarge,
        (None, false) => Content::Lost,
    };
    let mut headers = Headers::new();
    while !values.is_empty() {
        // Nothing that came through the browser is refused.
        let _ = headers.push(values.text(), values.text());
    }
    Ok(Response {
        status,
        headers,
        content,
    })
}

fn failed(failure: u32, detail: &str) -> Failure {
    let (kind, sent, why) = match failure {
        1 => (
            FailureKind::WindowClosed,
            Sent::No,
            "the window closed before the request could leave",
        ),
        2 => (
            FailureKind::Timeout,
            Sent::Maybe,
            "no answer in the time of an attempt",
        ),
        4 => (
            FailureKind::OpaqueRedirect,
            Sent::Maybe,
            "the server redirects, and the browser does not say where to",
        ),
        6 => (
            FailureKind::Unsendable,
            Sent::No,
            "the browser does not take these header lines",
        ),
        5 => (
            FailureKind::BadHead,
            Sent::Maybe,
            "the answer was cut off in its head, so that not even its status is known",
        ),
        // It does not say why: a network error, or a server that does not allow this page (CORS).
        _ => {
            let why = ["the browser reports no more than: ", detail].concat();
            return Failure::new(FailureKind::Fetch, Sent::Maybe, why);
        }
    };
    Failure::new(kind, sent, why)
}

#[cfg(test)]
mod tests;

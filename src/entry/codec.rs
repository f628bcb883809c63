//! The one encoding of entries: a version byte, fields in a fixed order, a digest at the end.
//!
//! Hand-written because it is also what a checkout page downloads: no reflection, no text, no
//! floats. Numbers are LEB128, texts and bytes carry their length.

use super::{Answer, Attempt, Expected, Frozen, Kept, Owner, Phase, Progress, Scope, WindowSource};
use crate::fingerprint::Fingerprint;
use crate::key::Key;
use crate::message::{Headers, Method, filled};
use crate::retry::classify::{Complete, Once, Reason, Replayed};
use crate::seam::digest::Hash;
use crate::text::decimal;
use crate::time::{Timestamp, millis};
use std::fmt;
use std::time::Duration;

/// The version of the encoding that this release writes.
pub const FORMAT: u8 = 1;
const DIGEST: usize = 16;

/// An entry that cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
#[non_exhaustive]
pub enum DecodeError {
    /// Its bytes are not those that were written.
    Digest,
    /// A later release wrote it.
    TooNew(u8),
    /// The digest fits, but the content makes no sense.
    Content(&'static str),
}

impl DecodeError {
    pub(crate) fn text(self) -> String {
        match self {
            DecodeError::Digest => {
                "its digest does not fit: the stored bytes were altered or cut short".into()
            }
            DecodeError::TooNew(format) => filled(
                "a newer samekey wrote it (format %, this one reads up to %); upgrade",
                &[&decimal(format), &decimal(FORMAT)],
            ),
            DecodeError::Content(what) => filled("its content makes no sense: %", &[what]),
        }
    }
}

impl fmt::Debug for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DecodeError({self})")
    }
}

impl Frozen {
    /// The bytes to store.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new(size(&self.body) + self.url.len() + self.intent.len());
        w.text(self.key.as_str());
        w.text(self.scope.as_str());
        w.text(&self.intent);
        w.number(u64::from(self.generation));
        w.byte(code(&METHODS, self.method));
        w.text(&self.url);
        w.headers(&self.headers);
        w.option(self.key_line.as_ref(), |w, (name, value)| {
            w.text(name);
            w.text(value);
        });
        w.kept(&self.body);
        w.bytes(&self.body_digest);
        w.bytes(self.fingerprint.as_bytes());
        w.text(&self.profile);
        w.time(self.begun_at);
        w.complete(&self.complete);
        w.finish(b"frozen")
    }

    /// Reads stored bytes back.
    ///
    /// # Errors
    /// If a bit was altered, or a newer release wrote them.
    pub fn decode(bytes: &[u8]) -> Result<Frozen, DecodeError> {
        let mut r = Reader::open(bytes, b"frozen")?;
        let frozen = Frozen {
            key: r.key(),
            scope: Scope::from_stored(r.text()),
            intent: r.text().into(),
            generation: r.small(),
            method: r.coded(&METHODS),
            url: r.text().into(),
            headers: r.headers(),
            key_line: r.present().then(|| (r.text().into(), r.text().into())),
            body: r.kept(),
            body_digest: r.array(),
            fingerprint: Fingerprint::from_bytes(r.array()),
            profile: r.text().into(),
            begun_at: r.time(),
            complete: r.complete(),
        };
        r.end()?;
        Ok(frozen)
    }
}

impl Progress {
    /// The bytes to store; bound to `key`, so that they cannot be mistaken for another entry's.
    #[must_use]
    pub fn encode(&self, key: &Key) -> Vec<u8> {
        let mut w = Writer::new(self.answer.as_ref().map_or(0, |answer| size(&answer.body)));
        let (phase, reason) = match self.phase {
            Phase::Attention(reason) => (ATTENTION, Some(reason)),
            plain => (code(&PHASES, plain), None),
        };
        w.byte(phase);
        w.option(reason, |w, reason| w.byte(code(&REASONS, reason)));
        w.expected(&Expected::of(self));
        w.number(u64::from(self.attempts));
        w.number(self.recent.len() as u64);
        for attempt in &self.recent {
            w.number(u64::from(attempt.number));
            w.time(attempt.ended_at);
            w.duration(attempt.took);
            w.number(attempt.status.map_or(0, u64::from));
            w.text(&attempt.reason);
        }
        w.byte(u8::from(self.maybe_applied));
        w.number(u64::from(self.crashes));
        w.number(self.used.len() as u64);
        for once in &self.used {
            w.byte(code(&ONCES, *once));
        }
        w.time(self.window_start);
        w.duration(self.window);
        w.byte(code(&SOURCES, self.window_source));
        w.time(self.seen_at);
        w.option(self.not_before, Writer::time);
        w.option(self.moved_to.as_deref(), Writer::text);
        w.byte(self.hops);
        w.option(self.poll_url.as_deref(), Writer::text);
        w.byte(u8::from(self.following));
        w.option(self.answer.as_ref(), |w, answer| {
            w.number(u64::from(answer.status));
            w.headers(&answer.headers);
            w.kept(&answer.body);
            w.byte(code(&REPLAYS, answer.replayed));
            w.time(answer.at);
        });
        w.option(self.note.as_deref(), Writer::text);
        w.finish(key.as_str().as_bytes())
    }

    /// Reads stored bytes of the entry of `key` back.
    ///
    /// # Errors
    /// If a bit was altered, if they are another entry's, or a newer release wrote them.
    pub fn decode(bytes: &[u8], key: &Key) -> Result<Progress, DecodeError> {
        let mut r = Reader::open(bytes, key.as_str().as_bytes())?;
        let phase = r.byte();
        let reason = r.present().then(|| r.coded(&REASONS));
        let phase = match reason {
            Some(reason) if phase == ATTENTION => Phase::Attention(reason),
            Some(_) => r.refuse("phase", Phase::Ready),
            None => match PHASES.get(usize::from(phase)) {
                Some(plain) => *plain,
                None => r.refuse("phase", Phase::Ready),
            },
        };
        let progress = Progress {
            phase,
            revision: r.number(),
            owner: Owner(u128::from_le_bytes(r.array())),
            epoch: r.number(),
            attempts: r.small(),
            recent: r.list(Reader::attempt),
            maybe_applied: r.present(),
            crashes: r.small(),
            used: r.list(|r| r.coded(&ONCES)),
            window_start: r.time(),
            window: r.duration(),
            window_source: r.coded(&SOURCES),
            seen_at: r.time(),
            not_before: r.present().then(|| r.time()),
            moved_to: r.optional_text(),
            hops: r.byte(),
            poll_url: r.optional_text(),
            following: r.present(),
            answer: r.present().then(|| r.answer()),
            note: r.optional_text(),
        };
        r.end()?;
        Ok(progress)
    }
}

impl Expected {
    /// As it stands in the bytes of a [`Progress`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer(Vec::with_capacity(36));
        w.expected(self);
        w.0
    }

    /// Whether the stored `bytes` of a progress are what is expected. Their digest is not looked at:
    /// the first 40 of them are enough, and whoever is refused will read them all.
    #[must_use]
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        // Before it stand the format, the phase, and whether a reason follows.
        let at = bytes
            .get(2)
            .map_or(0, |reason| 3 + usize::from(*reason == 1));
        let mut r = Reader {
            left: bytes.get(at..).unwrap_or_default(),
            broken: None,
        };
        *self == r.expected() && r.broken.is_none()
    }
}

// The position of a value in its table is its code in the file: append only.
const METHODS: [Method; 4] = [Method::Post, Method::Patch, Method::Put, Method::Delete];
const ATTENTION: u8 = 255;
const PHASES: [Phase; 8] = [
    Phase::Ready,
    Phase::Sending,
    Phase::Waiting,
    Phase::Polling,
    Phase::Deferred,
    Phase::Succeeded,
    Phase::Rejected,
    Phase::Abandoned,
];
const REASONS: [Reason; 17] = [
    Reason::Exhausted,
    Reason::WindowClosed,
    Reason::KeyMismatch,
    Reason::RefusedAfterDoubt,
    Reason::FinalErrorReplayed,
    Reason::UnexpectedBody,
    Reason::CrossOriginRedirect,
    Reason::Redirected,
    Reason::Protocol,
    Reason::PollLost,
    Reason::WorkFailed,
    Reason::Throttled,
    Reason::Cancelled,
    Reason::Crashes,
    Reason::Tls,
    Reason::NoKeySupport,
    Reason::AlreadyDone,
];
const ONCES: [Once; 6] = [
    Once::UnexpectedBody,
    Once::Misdirected,
    Once::StaleConnection,
    Once::Reauthorise,
    Once::ReplayedError,
    Once::PollLost,
];
const SOURCES: [WindowSource; 4] = [
    WindowSource::Assumed,
    WindowSource::Operation,
    WindowSource::Profile,
    WindowSource::Server,
];
const REPLAYS: [Replayed; 3] = [Replayed::No, Replayed::Yes, Replayed::Unknown];

fn code<T: Copy + PartialEq>(table: &[T], value: T) -> u8 {
    let position = table.iter().position(|known| *known == value);
    position
        .and_then(|p| u8::try_from(p).ok())
        .unwrap_or(ATTENTION - 1)
}

fn size(kept: &Kept) -> usize {
    match kept {
        Kept::Plain(bytes) => bytes.len(),
        Kept::Sealed(bytes) => bytes.len(),
        _ => 0,
    }
}

struct Writer(Vec<u8>);

impl Writer {
    /// Room for `large` bytes and for what is usual beside them: a list that grows is copied each time.
    fn new(large: usize) -> Writer {
        let mut bytes = Vec::with_capacity(large + 320);
        bytes.push(FORMAT);
        Writer(bytes)
    }

    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn sized(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.bytes(bytes);
    }

    /// Journals compare these bytes where they stand: see [`Expected::is_in`].
    fn expected(&mut self, it: &Expected) {
        self.number(it.revision);
        self.bytes(&it.owner.0.to_le_bytes());
        self.number(it.epoch);
    }

    fn text(&mut self, text: &str) {
        self.sized(text.as_bytes());
    }

    fn time(&mut self, time: Timestamp) {
        self.number(time.as_millis());
    }

    fn duration(&mut self, duration: Duration) {
        self.number(millis(duration));
    }

    fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.byte(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn headers(&mut self, headers: &Headers) {
        self.number(headers.len() as u64);
        for (name, value) in headers.iter() {
            self.text(name);
            self.text(value);
        }
    }

    fn kept(&mut self, kept: &Kept) {
        match kept {
            Kept::Plain(bytes) => {
                self.byte(0);
                self.sized(bytes);
            }
            Kept::Sealed(bytes) => {
                self.byte(1);
                self.sized(bytes);
            }
            Kept::NotKept => self.byte(2),
            Kept::Lost => self.byte(3),
            Kept::TooLarge => self.byte(4),
        }
    }

    /// Nothing where there is nothing to say: so it was before there was anything.
    fn complete(&mut self, complete: &Complete) {
        match complete {
            Complete::Status => {}
            Complete::Body => self.byte(1),
            Complete::Header(name) => {
                self.byte(2);
                self.text(name);
            }
        }
    }

    fn finish(mut self, bound_to: &[u8]) -> Vec<u8> {
        let digest = digest(&self.0, bound_to);
        self.0.extend_from_slice(&digest);
        self.0
    }
}

fn digest(bytes: &[u8], bound_to: &[u8]) -> [u8; DIGEST] {
    let mut hash = Hash::new();
    hash.update(&(bound_to.len() as u64).to_le_bytes());
    hash.update(bound_to);
    hash.update(bytes);
    let hash = hash.finish();
    std::array::from_fn(|i| hash[i])
}

/// Reads field after field. What it cannot read it remembers, hands out something empty in its place,
/// and says so at the end: one question there instead of one behind every field, in what a page
/// downloads.
struct Reader<'a> {
    left: &'a [u8],
    broken: Option<&'static str>,
}

impl<'a> Reader<'a> {
    fn open(bytes: &'a [u8], bound_to: &[u8]) -> Result<Reader<'a>, DecodeError> {
        let Some((content, stored)) = bytes.split_last_chunk::<DIGEST>() else {
            return Err(DecodeError::Digest);
        };
        if digest(content, bound_to) != *stored {
            return Err(DecodeError::Digest);
        }
        match content.split_first() {
            Some((&FORMAT, left)) => Ok(Reader { left, broken: None }),
            Some((&newer, _)) if newer > FORMAT => Err(DecodeError::TooNew(newer)),
            _ => Err(DecodeError::Content("version")),
        }
    }

    fn end(&self) -> Result<(), DecodeError> {
        match self.broken {
            Some(what) => Err(DecodeError::Content(what)),
            None if self.left.is_empty() => Ok(()),
            None => Err(DecodeError::Content("trailing bytes")),
        }
    }

    /// Only the first thing that is wrong counts: what follows is read from the wrong place.
    fn refuse<T>(&mut self, what: &'static str, instead: T) -> T {
        self.broken.get_or_insert(what);
        instead
    }

    #[inline(never)]
    fn take(&mut self, n: usize) -> &'a [u8] {
        match self.left.split_at_checked(n) {
            Some((taken, left)) if self.broken.is_none() => {
                self.left = left;
                taken
            }
            _ => self.refuse("length", &[]),
        }
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        for (place, byte) in array.iter_mut().zip(self.take(N)) {
            *place = *byte;
        }
        array
    }

    #[inline(never)]
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// Whether something follows, or is so.
    fn present(&mut self) -> bool {
        match self.byte() {
            0 => false,
            1 => true,
            _ => self.refuse("flag", false),
        }
    }

    /// Only what [`Writer::number`] writes: no bits beyond the last, no byte more than it takes.
    #[inline(never)]
    fn number(&mut self) -> u64 {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte();
            let bits = u64::from(byte & 0x7f);
            number |= bits << shift;
            if number >> shift != bits || (byte == 0 && shift > 0) {
                break;
            }
            if byte < 0x80 {
                return number;
            }
        }
        self.refuse("number", 0)
    }

    fn small<T: TryFrom<u64> + Default>(&mut self) -> T {
        match self.number().try_into() {
            Ok(small) => small,
            Err(_) => self.refuse("number", T::default()),
        }
    }

    #[inline(never)]
    fn sized(&mut self) -> &'a [u8] {
        let length = self.small();
        self.take(length)
    }

    #[inline(never)]
    fn text(&mut self) -> &'a str {
        match str::from_utf8(self.sized()) {
            Ok(text) => text,
            Err(_) => self.refuse("text", ""),
        }
    }

    #[inline(never)]
    fn optional_text(&mut self) -> Option<Box<str>> {
        self.present().then(|| self.text().into())
    }

    fn key(&mut self) -> Key {
        match Key::adopt(self.text()) {
            Ok(key) => key,
            Err(_) => self.refuse("key", Key::from_random([0; 16])),
        }
    }

    fn expected(&mut self) -> Expected {
        Expected {
            revision: self.number(),
            owner: Owner(u128::from_le_bytes(self.array())),
            epoch: self.number(),
        }
    }

    fn time(&mut self) -> Timestamp {
        Timestamp::from_millis(self.number())
    }

    fn duration(&mut self) -> Duration {
        Duration::from_millis(self.number())
    }

    fn coded<T: Copy>(&mut self, table: &[T]) -> T {
        match table.get(usize::from(self.byte())) {
            Some(value) => *value,
            None => self.refuse("code", table[0]),
        }
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let length: usize = self.small();
        let mut list = Vec::new();
        while list.len() < length && self.broken.is_none() {
            list.push(read(self));
        }
        list
    }

    fn attempt(&mut self) -> Attempt {
        Attempt {
            number: self.small(),
            ended_at: self.time(),
            took: self.duration(),
            status: Some(self.small()).filter(|status| *status != 0),
            reason: self.text().into(),
        }
    }

    fn answer(&mut self) -> Answer {
        Answer {
            status: self.small(),
            headers: self.headers(),
            body: self.kept(),
            replayed: self.coded(&REPLAYS),
            at: self.time(),
        }
    }

    #[inline(never)]
    fn headers(&mut self) -> Headers {
        let length: usize = self.small();
        let mut headers = Headers::new();
        for _ in 0..length {
            let (name, value) = (self.text(), self.text());
            let as_kept =
                !name.bytes().any(|b| b.is_ascii_uppercase()) && value.trim_ascii() == value;
            if !as_kept || headers.push(name, value).is_err() {
                self.refuse("header", ());
                break;
            }
        }
        headers
    }

    fn complete(&mut self) -> Complete {
        if self.left.is_empty() || self.broken.is_some() {
            return Complete::Status;
        }
        match self.byte() {
            1 => Complete::Body,
            2 => Complete::Header(self.text().into()),
            _ => self.refuse("complete", Complete::Status),
        }
    }

    #[inline(never)]
    fn kept(&mut self) -> Kept {
        match self.byte() {
            0 => Kept::Plain(self.sized().into()),
            1 => Kept::Sealed(self.sized().to_vec()),
            2 => Kept::NotKept,
            3 => Kept::Lost,
            4 => Kept::TooLarge,
            _ => self.refuse("body", Kept::NotKept),
        }
    }
}

#[cfg(test)]
mod tests;

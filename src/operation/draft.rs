//! A request before it is an operation: what is wrong with it, what is frozen of it, and whether it is
//! the one that the journal has already. Plain values; a page's script asks here too.

use crate::client::{Settings, is_credential, is_framing};
use crate::clock::Dice;
use crate::entry::{Entry, Frozen, Kept, Owner, Progress, WindowSource};
use crate::error::{Error, ErrorKind, Problems};
use crate::fingerprint::Fingerprint;
use crate::journal::{Damaged, Tombstone};
use crate::key::Key;
use crate::machine::may_have_left;
use crate::message::{Headers, Method, Origin, filled, place_of, without_query};
use crate::profile::Profile;
use crate::retry::classify::Complete;
use crate::seal::{Body, Keeper, Part};
use crate::seam::digest::digest;
use crate::text::decimal;
use crate::time::Timestamp;
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

/// The longest name of an action.
const MAX_INTENT: usize = 512;
/// Headers that are frozen with a request but do not make it another one: a new release of the
/// program, or a new trace, asks for the same thing.
const INCIDENTAL: [&str; 3] = ["user-agent", "x-correlation-id", "x-request-id"];
/// The largest body that a journal takes.
const MAX_BODY: usize = 16 * 1024 * 1024;

pub(crate) struct Draft {
    pub(crate) intent: Box<str>,
    pub(crate) generation: u32,
    pub(crate) even_if_unresolved: bool,
    pub(crate) method: Option<Method>,
    pub(crate) url: Box<str>,
    pub(crate) headers: Headers,
    pub(crate) body: Vec<u8>,
    pub(crate) identity: Option<Vec<u8>>,
    pub(crate) adopted: Option<Key>,
    pub(crate) window: Option<Duration>,
    pub(crate) profile: Profile,
    pub(crate) keep: Option<Body>,
    pub(crate) keyed: bool,
    pub(crate) complete: Complete,
    pub(crate) problems: Problems,
    /// Where it goes, once that was found to be allowed.
    pub(crate) origin: Option<Origin>,
}

impl Draft {
    pub(crate) fn new(settings: &Settings, intent: &str) -> Draft {
        let mut problems = Problems::default();
        if intent.is_empty() || intent.len() > MAX_INTENT || intent.chars().any(char::is_control) {
            problems.add("the intent must be 1 to 512 bytes without control characters");
        }
        Draft {
            intent: intent.into(),
            generation: 0,
            even_if_unresolved: false,
            method: None,
            url: "".into(),
            headers: Headers::new(),
            body: Vec::new(),
            identity: None,
            adopted: None,
            window: None,
            profile: settings.profiles.first().cloned().unwrap_or_default(),
            keep: None,
            keyed: true,
            complete: Complete::Status,
            problems,
            origin: None,
        }
    }

    pub(crate) fn request(&mut self, method: Method, url: &str) {
        self.method = Some(method);
        self.url = url.into();
        self.keyed = matches!(method, Method::Post | Method::Patch);
    }

    pub(crate) fn method(&mut self, method: &str, url: &str) {
        match Method::parse(method) {
            Ok(method) => self.request(method, url),
            Err(invalid) => {
                self.problems.add(&invalid.0);
                self.url = url.into();
            }
        }
    }

    pub(crate) fn header(&mut self, name: &str, value: &str) {
        if let Err(invalid) = self.headers.push(name, value) {
            self.problems.add(&invalid.0);
        }
    }

    pub(crate) fn body(&mut self, bytes: Vec<u8>, content_type: &str) {
        self.body = bytes;
        if self.headers.get("content-type").is_none() {
            self.header("content-type", content_type);
        }
    }

    pub(crate) fn adopt_key(&mut self, inbound: &str) {
        match Key::adopt(inbound) {
            Ok(key) => self.adopted = Some(key),
            Err(invalid) => self.problems.add(&invalid.0),
        }
    }

    pub(crate) fn complete_with_header(&mut self, name: &str) {
        match Headers::new().push(name, "x") {
            Ok(()) => self.complete = Complete::Header(name.to_ascii_lowercase().into()),
            Err(invalid) => self.problems.add(&invalid.0),
        }
    }

    /// Makes it the repeat of an earlier operation, from which it takes over what it was not given.
    pub(crate) fn repeat(
        &mut self,
        entry: &Entry,
        settings: &Settings,
        body: impl FnOnce() -> Result<Arc<[u8]>, Error>,
    ) -> Result<(), Error> {
        let reference = entry.reference();
        if !entry.progress.phase.is_settled() && !self.even_if_unresolved {
            return Err(Error::new(
                ErrorKind::PreviousUnresolved,
                "the outcome of the operation to repeat is unknown, so it may happen twice; settle it \
                 first, or repeat it even if unresolved",
            )
            .about(reference)
            .after(entry.progress.attempts, may_have_left(&entry.progress)));
        }
        self.intent = entry.frozen.intent.clone();
        self.generation = entry.frozen.generation + 1;
        if self.method.is_some() {
            return Ok(());
        }
        let sent = body().map_err(|error| match error.kind() {
            ErrorKind::BodyNeeded => Error::new(
                ErrorKind::BodyNeeded,
                "the journal does not keep the body of the operation to repeat; give the repeat \
                 its request again",
            )
            .about(reference),
            _ => error,
        })?;
        self.profile = settings.profile_of(entry)?;
        self.body = without_key(&sent, entry, &self.profile);
        self.method = Some(entry.frozen.method);
        self.url = entry.frozen.url.clone();
        self.headers = entry.frozen.headers.clone();
        self.complete = entry.frozen.complete.clone();
        self.keyed = entry.frozen.key_line.is_some() || *sent != *self.body;
        self.keep = self.keep.or(Some(Keeper::mode_of(&entry.frozen.body)));
        if entry.progress.window_source == WindowSource::Operation {
            self.window = self.window.or(Some(entry.progress.window));
        }
        Ok(())
    }

    fn effective_window(&self) -> Duration {
        self.window
            .unwrap_or_else(|| self.profile.window_for(&self.url))
    }

    fn check(&mut self, settings: &Settings) -> Result<(), Error> {
        let window = self.effective_window();
        let problems = &mut self.problems;
        if self.method.is_none() && problems.is_empty() {
            problems.add("no request was given; name its method and URL");
        }
        for (name, _) in self.headers.iter() {
            let why = if is_credential(name) {
                "looks like a credential, which the journal must not hold; give it to the client's \
                 `credentials`"
            } else if is_framing(name) {
                "is the transport's to set; remove it"
            } else if !settings.keeps(name) {
                "is not one that the journal keeps, and every attempt must be the same; add it to the \
                 headers that the client keeps"
            } else {
                continue;
            };
            problems.add(&["the header ", name, " ", why].concat());
        }
        if let Err(invalid) = self.profile.check_headers(&self.headers) {
            problems.add(&invalid.0);
        }
        if self.body.len() > MAX_BODY {
            let size = decimal(self.body.len() as u64);
            let large =
                "the body has % bytes; a journal takes 16 MiB: upload it elsewhere and send a link";
            problems.add(&filled(large, &[&size]));
        }
        problems.add_all(&settings.policy.problems(window));
        let name = self.profile.name();
        // With PUT and DELETE a key is the caller's own wish.
        if let (Some(method @ (Method::Post | Method::Patch)), true) = (self.method, self.keyed)
            && self.profile.knows_keys()
            && !self.profile.methods().contains(&method)
        {
            problems.add(&filled("% takes no key with %", &[name, method.as_str()]));
        }
        take(problems).told(ErrorKind::InvalidRequest)
    }

    /// The entry to make durable, which takes over what it can, and the exact body.
    pub(crate) fn freeze(
        &mut self,
        settings: &Settings,
        owner: Owner,
        now: Timestamp,
        dice: &dyn Dice,
    ) -> Result<(Entry, Arc<[u8]>), Error> {
        self.check(settings)?;
        self.origin = Some(settings.check_origin(&self.url)?);
        let key = self.adopted.clone();
        let key = key.unwrap_or_else(|| Key::from_random(dice.key_bytes()));
        let method = self.method.unwrap_or(Method::Post);
        let mut key_line = None;
        let mut body: Arc<[u8]> = self.body.as_slice().into();
        if self.keyed {
            let profile = &self.profile;
            profile
                .check_key(&key, &self.url)
                .map_err(|e| invalid(e.0))?;
            let line = profile.wire_key(&key).map_err(|e| invalid(e.0))?;
            key_line = line.map(|(name, value)| (name.into(), value.into()));
            if profile.key_is_in_body() {
                let placed = profile.place_in_body(&self.body, &key);
                body = placed.map_err(|e| invalid(e.0))?.into();
            }
        }
        let identity = self.identity.as_ref().unwrap_or(&self.body);
        let identifying = self.headers.filtered(|name| !INCIDENTAL.contains(&name));
        let mut headers = take(&mut self.headers);
        if crate::planted::is(23) {
            let _ = headers.push("authorization", "Bearer planted");
        }
        let window = self.effective_window();
        let url = take(&mut self.url);
        let mut frozen = Frozen {
            key,
            scope: settings.scope.clone(),
            intent: take(&mut self.intent),
            generation: self.generation,
            method,
            fingerprint: Fingerprint::of(method, &url, &identifying, identity),
            url,
            headers,
            key_line,
            body: Kept::NotKept,
            body_digest: digest(&body),
            profile: self.profile.name().into(),
            begun_at: now,
            complete: take(&mut self.complete),
        };
        let keep = self.keep.unwrap_or(settings.body);
        frozen.body = settings
            .keeper
            .keep(keep, &body, &frozen, Part::Body, || nonce(dice))?;
        let source = match self.window {
            Some(_) => WindowSource::Operation,
            None if self.profile.window_is_assumed() => WindowSource::Assumed,
            None => WindowSource::Profile,
        };
        let entry = Entry {
            slot: 0,
            frozen: Arc::new(frozen),
            progress: Progress::ready(owner, now, window, source),
        };
        Ok((entry, body))
    }
}

fn invalid(why: String) -> Error {
    Error::new(ErrorKind::InvalidRequest, why)
}

/// 32 random bytes, of which a nonce is made.
pub(crate) fn nonce(dice: &dyn Dice) -> [u8; 32] {
    let halves = [dice.key_bytes(), dice.key_bytes()];
    std::array::from_fn(|i| halves[i / 16][i % 16])
}

/// This intent is taken: the same action if the request is the same, else a mistake.
pub(crate) fn check_join(existing: &Entry, new: &Frozen, adopted: bool) -> Result<(), Error> {
    let old = &existing.frozen;
    let what = if old.fingerprint != new.fingerprint {
        filled(
            "the intent % is taken by another request: % there, % here. Nothing was sent for this one; \
             use another intent, or `repeat` for a deliberate repeat",
            &[&old.intent, &described(old), &described(new)],
        )
    } else if adopted && new.key != old.key {
        filled(
            "the intent % was begun under another key than the one to adopt; nothing was sent",
            &[&old.intent],
        )
    } else {
        return Ok(());
    };
    let sent = may_have_left(&existing.progress);
    Err(Error::new(ErrorKind::FingerprintMismatch, what)
        .about(old.key.reference())
        .after(existing.progress.attempts, sent))
}

/// A request, so that people can tell it from another.
fn described(frozen: &Frozen) -> String {
    let (method, url) = (frozen.method.as_str(), without_query(&frozen.url));
    [method, " ", url, " ", &frozen.fingerprint.text()].concat()
}

/// The body as the caller gave it, without a key that the profile placed inside.
fn without_key(body: &[u8], entry: &Entry, profile: &Profile) -> Vec<u8> {
    if profile.key_header().is_some() {
        return body.to_vec();
    }
    let (text, key) = (
        str::from_utf8(body).unwrap_or_default(),
        entry.key().as_str(),
    );
    let after = place_of(text, key).and_then(|at| text.get(at + key.len()..));
    let Some(mut rest) = after else {
        return body.to_vec();
    };
    while let Some(left) = rest.strip_prefix('"') {
        rest = left;
    }
    let rest = rest.trim_ascii_start();
    let rest = rest.strip_prefix(',').unwrap_or(rest);
    ["{", rest].concat().into_bytes()
}

/// Those of `body` and of it with the key inside that the operation was begun with.
pub(crate) fn fitting(body: &[u8], frozen: &Frozen, profile: &Profile) -> Option<Arc<[u8]>> {
    let fits = |bytes: &[u8]| digest(bytes) == frozen.body_digest;
    if fits(body) {
        return Some(body.into());
    }
    let with_key = profile.place_in_body(body, &frozen.key).ok()?;
    fits(&with_key).then(|| with_key.into())
}

/// The exact body, as the journal keeps it.
pub(crate) fn stored_body(frozen: &Frozen, keeper: &Keeper) -> Result<Arc<[u8]>, Error> {
    let Some(body) = keeper.open(&frozen.body, frozen, Part::Body)? else {
        return Err(Error::new(
            ErrorKind::BodyNeeded,
            "the journal does not keep this operation's body; resume it with the body, or begin it \
             again with the same request",
        ));
    };
    if digest(&body) != frozen.body_digest {
        return Err(Error::new(
            ErrorKind::Damaged,
            "the stored body is not the one that was begun with; nothing is sent",
        ));
    }
    Ok(body)
}

pub(crate) fn ended_long_ago(tombstone: &Tombstone) -> Error {
    Error::new(
        ErrorKind::Tombstone,
        filled(
            "the intent % was used before and ended (%); its answer is no longer kept and nothing \
             was sent now. Use another intent for a new action",
            &[&tombstone.intent, tombstone.phase.name()],
        ),
    )
    .about(tombstone.key.reference())
    .after(1, true)
}

pub(crate) fn unreadable(intent: &str, damaged: &Damaged) -> Error {
    let error = Error::new(
        ErrorKind::Damaged,
        filled(
            "the intent % was begun before, as entry %, which cannot be read: %. Nothing was sent \
             now, but it may have been then; keep the journal and find out from the server before \
             doing it under another intent",
            &[intent, &decimal(damaged.slot), &damaged.error.text()],
        ),
    )
    .after(0, true);
    match &damaged.key {
        Some(key) => error.about(key.reference()),
        None => error,
    }
}

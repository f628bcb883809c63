//! Building a profile, one fact at a time.

use super::kept::kept;
use super::{Accepted, Carrier, Fact, Marker, Profile, Repeat, Route, Rules, Sign, Standing};
use crate::message::{Headers, Method};
use crate::time::spoken;
use std::borrow::Cow;
use std::time::Duration;

/// Headers that a key must not take the place of.
const TAKEN: [&str; 5] = [
    "authorization",
    "content-type",
    "content-length",
    "host",
    "cookie",
];
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// States the facts about a server. See [`Profile::builder`].
///
/// It begins as the default profile does: the header `Idempotency-Key`, bare, on POST and PATCH,
/// remembered for an assumed 24 hours, finished actions replayed.
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    pub(super) rules: Rules,
    pub(super) facts: Vec<Fact>,
    source: (Cow<'static, str>, Standing),
    checked_on: &'static str,
}

/// Everything that is wrong with a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct InvalidProfile(Vec<String>);

impl InvalidProfile {
    /// One sentence per problem.
    #[must_use]
    pub fn all(&self) -> &[String] {
        &self.0
    }
}

impl Builder {
    pub(super) fn new(name: Cow<'static, str>) -> Self {
        Builder {
            rules: Rules::new(name),
            facts: Vec::new(),
            source: ("given by the caller".into(), Standing::Given),
            checked_on: "",
        }
    }

    /// Where the facts that follow were read.
    pub(super) fn from(mut self, source: &'static str, standing: Standing) -> Self {
        self.source = (source.into(), standing);
        self.checked_on = super::builtin::CHECKED_ON;
        self
    }

    /// Adds a fact that changes nothing by itself.
    pub(super) fn note(self, axis: &'static str, value: &str) -> Self {
        self.fact(axis, said(|| value.to_owned()))
    }

    /// Writes down what was just said, where anyone wants to read it.
    fn fact(mut self, axis: &'static str, value: String) -> Self {
        if !cfg!(feature = "facts") {
            return self;
        }
        let (source, standing) = self.source.clone();
        self.facts.push(Fact {
            axis,
            value,
            source,
            checked_on: self.checked_on,
            standing,
        });
        self
    }

    /// The key travels in this header.
    pub fn key_in_header(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        let name = name.into();
        let value = said(|| format!("header {name}"));
        self.rules.carrier = Carrier::Header(name);
        self.fact("key", value)
    }

    /// The key travels in the JSON body, as a member of this name at its top.
    pub fn key_in_json(mut self, member: impl Into<Cow<'static, str>>) -> Self {
        let member = member.into();
        let value = said(|| format!("JSON member {member}"));
        self.rules.carrier = Carrier::JsonMember(member);
        self.fact("key", value)
    }

    /// The server does not know keys. Nothing is sent twice unless it was surely not sent.
    pub fn without_keys(mut self) -> Self {
        self.rules.carrier = Carrier::Nowhere;
        self.rules.repeat = Repeat::Unknown;
        self.note("key", "none")
    }

    /// The header's value is a quoted string, as the draft has it.
    pub fn quoted(mut self) -> Self {
        self.rules.quoted = true;
        self.note("quoting", "quoted string")
    }

    /// How short and how long a key may be.
    pub fn key_length(mut self, shortest: usize, longest: usize) -> Self {
        (self.rules.shortest_key, self.rules.longest_key) = (shortest, longest);
        self.fact("key length", said(|| format!("{shortest} to {longest}")))
    }

    /// Where the path holds `path`, a key may have up to `longest` characters.
    pub fn key_length_on(mut self, path: impl Into<Cow<'static, str>>, longest: usize) -> Self {
        let path = path.into();
        let value = said(|| format!("up to {longest} on {path}"));
        self.rules.routes.to_mut().push(Route {
            path,
            longest_key: Some(longest),
            window: None,
        });
        self.fact("key length", value)
    }

    /// Only UUIDs are taken.
    pub fn only_uuids(mut self) -> Self {
        self.rules.uuid_only = true;
        self.note("key format", "UUID")
    }

    /// The methods that take a key without being asked.
    pub fn methods(mut self, methods: &[Method]) -> Self {
        self.rules.methods = methods.to_vec().into();
        let names = || methods.iter().map(|m| m.as_str()).collect::<Vec<_>>();
        self.fact("methods", said(|| names().join(", ")))
    }

    /// How long the server remembers a key, counted from the first request. If it is said to vary,
    /// the shortest: after it, a repeat may act a second time.
    pub fn window(mut self, window: Duration) -> Self {
        self.rules.window = window;
        self.rules.window_is_assumed = self.source.1 == Standing::Assumed;
        let assumed = if self.rules.window_is_assumed {
            "assumed "
        } else {
            ""
        };
        self.fact("window", said(|| format!("{assumed}{}", hours(window))))
    }

    /// How long it remembers a key where the path holds `path`.
    pub fn window_on(mut self, path: impl Into<Cow<'static, str>>, window: Duration) -> Self {
        let path = path.into();
        let value = said(|| format!("{} on {path}", hours(window)));
        self.rules.routes.to_mut().push(Route {
            path,
            longest_key: None,
            window: Some(window),
        });
        self.fact("window", value)
    }

    /// A response header with the date at which the key expires.
    pub fn window_header(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        let name = name.into();
        let value = said(|| format!("expiry stated in {name}"));
        self.rules.window_header = Some(name);
        self.fact("window", value)
    }

    /// A response header that marks a replay. Its absence says nothing.
    pub fn replay_marker(self, header: &str, value: &'static str) -> Self {
        self.marker(header, value, false)
    }

    /// A response header that every replay carries, so that an answer without it ran afresh.
    pub fn reliable_replay_marker(self, header: &str, value: &'static str) -> Self {
        self.marker(header, value, true)
    }

    fn marker(mut self, header: &str, value: &'static str, always: bool) -> Self {
        let header = header.to_ascii_lowercase();
        let text = said(|| format!("{header}: {value}"));
        self.rules.marker = Some(Marker {
            header: header.into(),
            value: value.into(),
            always,
        });
        self.fact("replay marker", text)
    }

    /// What a repeat of a finished action brings.
    pub fn repeat(mut self, repeat: Repeat) -> Self {
        self.rules.repeat = repeat;
        let value = match repeat {
            Repeat::Original => "the stored answer",
            Repeat::CurrentState => "the present state",
            Repeat::ConflictWithId => "409 that names what was created",
            Repeat::Refusal => "a refusal",
            Repeat::Unknown => "not documented",
        };
        self.note("finished repeat", value)
    }

    /// An answer that says the first request is still being worked on.
    pub fn in_flight(mut self, sign: Sign) -> Self {
        let value = said(|| sign.to_string());
        self.rules.in_flight.to_mut().push(sign);
        self.fact("in flight", value)
    }

    /// An answer that says the key was used with another request.
    pub fn mismatch(mut self, sign: Sign) -> Self {
        let value = said(|| sign.to_string());
        self.rules.mismatch.to_mut().push(sign);
        self.fact("mismatch", value)
    }

    /// An answer that says the key itself is missing or not acceptable.
    pub fn key_refused(mut self, sign: Sign) -> Self {
        let value = said(|| sign.to_string());
        self.rules.key_refused.to_mut().push(sign);
        self.fact("key refused", value)
    }

    /// An answer that says the key has expired.
    pub fn window_closed(mut self, sign: Sign) -> Self {
        let value = said(|| sign.to_string());
        self.rules.window_closed.to_mut().push(sign);
        self.fact("window closed", value)
    }

    /// An answer that says the action was done before, and the member that holds the id of what
    /// was made. It is fetched from the request's URL followed by `/` and the id.
    pub fn already_created(mut self, sign: Sign, id: impl Into<Cow<'static, str>>) -> Self {
        let id = id.into();
        let value = said(|| format!("{sign}, id in {id}"));
        self.rules.created.to_mut().push((sign, id));
        self.fact("already created", value)
    }

    /// A response header of `true` or `false` that says whether to retry. It wins over the status.
    pub fn should_retry(mut self, header: &str) -> Self {
        let header = header.to_ascii_lowercase();
        let value = said(|| format!("{header}: true or false"));
        self.rules.should_retry = Some(header.into());
        self.fact("should retry", value)
    }

    /// A status that only the handler gives, behind the server's memory of keys: it is the key's
    /// result even if an earlier attempt went astray.
    pub fn vouches_for(mut self, status: u16) -> Self {
        self.rules.vouched.to_mut().push(status);
        self.fact("vouched", said(|| status.to_string()))
    }

    /// A status that is only given before any work begins: such an attempt had no effect.
    pub fn unprocessed(mut self, status: u16) -> Self {
        self.rules.unprocessed.to_mut().push(status);
        self.fact("before any work", said(|| status.to_string()))
    }

    /// The JSON member of a 202 that holds the URL to poll.
    pub fn poll_member(mut self, path: impl Into<Cow<'static, str>>) -> Self {
        let path = path.into();
        let value = said(|| format!("URL in {path}"));
        self.rules.poll_member = Some(path);
        self.fact("poll", value)
    }

    /// What a 202 means that gives nothing to poll.
    pub fn accepted(mut self, accepted: Accepted) -> Self {
        self.rules.accepted = accepted;
        let value = match accepted {
            Accepted::IsSuccess => "a 202 without a URL counts as done",
            Accepted::AskAgain => "a 202 without a URL is asked again",
        };
        self.note("poll", value)
    }

    /// HTML is a proper answer. Otherwise a page in place of a result is taken for a gateway's.
    pub fn answers_in_html(mut self) -> Self {
        self.rules.html = true;
        self.note("answers", "HTML")
    }

    /// The profile.
    ///
    /// # Errors
    /// Everything that is wrong with it, not only the first thing.
    pub fn build(self) -> Result<Profile, InvalidProfile> {
        let problems = self.rules.problems();
        if problems.is_empty() {
            Ok(self.unchecked())
        } else {
            Err(InvalidProfile(problems))
        }
    }

    fn unchecked(self) -> Profile {
        Profile(kept(self.rules, self.facts))
    }
}

impl Rules {
    fn knows_keys(&self) -> bool {
        self.carrier != Carrier::Nowhere
    }

    fn signs(&self) -> impl Iterator<Item = &Sign> {
        let created = self.created.iter().map(|(sign, _)| sign);
        [
            &*self.in_flight,
            &self.mismatch,
            &self.key_refused,
            &self.window_closed,
        ]
        .into_iter()
        .flatten()
        .chain(created)
    }

    /// Every rule that is broken, each with what to do about it.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = self.carrier_problems();
        let mut rule = |broken: bool, text: String| {
            if broken {
                problems.push(text);
            }
        };
        rule(
            self.shortest_key > self.longest_key || self.longest_key == 0,
            format!(
                "keys of {} to {} characters do not exist; put the smaller number first",
                self.shortest_key, self.longest_key
            ),
        );
        rule(
            self.knows_keys() && (self.shortest_key > 36 || self.longest_key < 36),
            "a minted key has 36 characters and would not fit; allow that length".into(),
        );
        rule(
            self.knows_keys() && self.methods.is_empty(),
            "no method takes a key; name at least POST".into(),
        );
        for window in self
            .routes
            .iter()
            .filter_map(|r| r.window)
            .chain([self.window])
        {
            rule(
                window < Duration::from_secs(60) || window > 10 * YEAR,
                format!(
                    "a window of {} is hardly meant; use a minute to ten years",
                    spoken(window)
                ),
            );
        }
        for sign in self.signs() {
            rule(
                !(200..600).contains(&sign.status),
                format!("{} is not the status of an answer", sign.status),
            );
        }
        for status in self.vouched.iter() {
            rule(
                !(400..500).contains(status),
                format!("{status} cannot be vouched for; only 4xx refuses for good"),
            );
        }
        problems
    }

    /// What is wrong with the name and with where the key travels.
    fn carrier_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_' || b == b'.';
        if self.name.is_empty() || self.name.len() > 64 || !self.name.bytes().all(plain) {
            problems.push(
                "a profile's name has 1 to 64 letters, digits, dashes, underscores or dots".into(),
            );
        }
        match &self.carrier {
            Carrier::Header(name) => {
                problems.extend(Headers::new().push(name, "x").err().map(|e| e.to_string()));
                if TAKEN.iter().any(|taken| name.eq_ignore_ascii_case(taken)) {
                    problems.push(format!(
                        "the header {name} has another use; the key needs one of its own"
                    ));
                }
            }
            Carrier::JsonMember(name) if name.is_empty() => {
                problems.push("the key's member has no name; give it one".into());
            }
            _ => {}
        }
        if self.quoted && !matches!(self.carrier, Carrier::Header(_)) {
            problems.push("only a header's value can be quoted; leave quoted() out".into());
        }
        problems
    }
}

/// What a fact says; nothing in a build that keeps no facts.
fn said(text: impl FnOnce() -> String) -> String {
    if cfg!(feature = "facts") {
        text()
    } else {
        String::new()
    }
}

/// A duration as people say it.
fn hours(window: Duration) -> String {
    let hours = window.as_secs() / 3600;
    match hours {
        0 => format!("{} min", window.as_secs() / 60),
        h if h % 24 == 0 && h > 24 => format!("{} days", h / 24),
        h => format!("{h} h"),
    }
}

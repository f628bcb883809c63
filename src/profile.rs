//! How one provider speaks the contract.
//!
//! Everybody calls it an idempotency key, and no two agree on the rest: the header's name, quotes,
//! how long a key may be and how long it is remembered, what tells a replay from a fresh answer,
//! and which of three meanings a 409 has. The draft that would have settled it has expired. So each
//! provider is a value: a list of facts, each with its source, the day it was checked, and whether
//! the provider's own text was read or somebody else's word had to do.
//!
//! Start from a built-in one, or state the facts about a server of your own:
//!
//! ```
//! use samekey::profile::{Profile, Sign};
//! use std::time::Duration;
//!
//! let ours = Profile::builder("billing")
//!     .window(Duration::from_secs(48 * 3600))
//!     .in_flight(Sign::status(423))
//!     .vouches_for(402)
//!     .build()?;
//! assert_eq!(ours.key_header(), Some("Idempotency-Key"));
//! assert!(!ours.window_is_assumed());
//! println!("{ours}");
//! # Ok::<(), samekey::profile::InvalidProfile>(())
//! ```

mod builder;
mod builtin;
mod facts;
mod kept;
#[cfg(test)]
mod tests;

pub use builder::{Builder, InvalidProfile};
pub use facts::{Fact, Sign, Standing};

use crate::json::{self, NotAdded};
use crate::key::{InvalidKey, Key};
use crate::message::{Headers, InvalidMessage, Method, Response, filled, place_of, without_query};
use crate::retry::retry_after;
use crate::text::decimal;
use crate::time::Timestamp;
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// How long a server is taken to remember keys when nobody says: the figure most of them publish.
pub const ASSUMED_WINDOW: Duration = Duration::from_secs(24 * 3600);

/// How one provider speaks the contract. Cheap to clone.
#[derive(Clone)]
pub struct Profile(&'static Rules);

/// Where the key travels.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Carrier {
    /// In a header of this name.
    Header(Cow<'static, str>),
    /// In the JSON body, as the value of this member.
    JsonMember(Cow<'static, str>),
    /// Nowhere: the server does not know keys.
    Nowhere,
}

/// What comes back when a finished action is asked for again under its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repeat {
    /// The stored answer, as it was.
    Original,
    /// A success that shows the present state, which may have moved on.
    CurrentState,
    /// A 409 that names what was created.
    ConflictWithId,
    /// A refusal that names nothing.
    Refusal,
    /// Nobody has written it down.
    Unknown,
}

/// What a 202 means that gives nothing to poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Accepted {
    /// As good as done: the server has taken it over.
    #[default]
    IsSuccess,
    /// Ask again under the same key until something else comes.
    AskAgain,
}

/// What is written down in a list that a program may lengthen.
type List<T> = Cow<'static, [T]>;

#[derive(Clone, Debug, PartialEq)]
struct Rules {
    name: Cow<'static, str>,
    carrier: Carrier,
    quoted: bool,
    shortest_key: usize,
    longest_key: usize,
    uuid_only: bool,
    methods: List<Method>,
    window: Duration,
    window_is_assumed: bool,
    window_header: Option<Cow<'static, str>>,
    routes: List<Route>,
    marker: Option<Marker>,
    repeat: Repeat,
    in_flight: List<Sign>,
    mismatch: List<Sign>,
    key_refused: List<Sign>,
    window_closed: List<Sign>,
    created: List<(Sign, Cow<'static, str>)>,
    should_retry: Option<Cow<'static, str>>,
    vouched: List<u16>,
    unprocessed: List<u16>,
    poll_member: Option<Cow<'static, str>>,
    accepted: Accepted,
    html: bool,
}

impl Rules {
    /// What holds where nothing is said.
    const fn new(name: Cow<'static, str>) -> Rules {
        const NONE: List<Sign> = Cow::Borrowed(&[]);
        Rules {
            name,
            carrier: Carrier::Header(Cow::Borrowed("Idempotency-Key")),
            quoted: false,
            shortest_key: 1,
            longest_key: 255,
            uuid_only: false,
            methods: Cow::Borrowed(&[Method::Post, Method::Patch]),
            window: ASSUMED_WINDOW,
            window_is_assumed: true,
            window_header: None,
            routes: Cow::Borrowed(&[]),
            marker: None,
            repeat: Repeat::Original,
            in_flight: NONE,
            mismatch: NONE,
            key_refused: NONE,
            window_closed: NONE,
            created: Cow::Borrowed(&[]),
            should_retry: None,
            vouched: Cow::Borrowed(&[]),
            unprocessed: Cow::Borrowed(&[]),
            poll_member: None,
            accepted: Accepted::IsSuccess,
            html: false,
        }
    }
}

/// What differs on some paths of a provider.
#[derive(Clone, Debug, PartialEq)]
struct Route {
    path: Cow<'static, str>,
    longest_key: Option<usize>,
    window: Option<Duration>,
}

/// The header by which a server says that it replayed.
#[derive(Clone, Debug, PartialEq)]
struct Marker {
    header: Cow<'static, str>,
    value: Cow<'static, str>,
    /// Whether an answer without it surely ran afresh.
    always: bool,
}

impl Profile {
    /// A profile of one's own, by its name.
    pub fn builder(name: impl Into<Cow<'static, str>>) -> Builder {
        Builder::new(name.into())
    }

    /// Its name, which the journal keeps.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether the server knows keys at all. If not, nothing may be sent a second time unless the
    /// first was surely not sent.
    #[must_use]
    pub fn knows_keys(&self) -> bool {
        self.0.carrier != Carrier::Nowhere
    }

    /// Where the key travels.
    #[must_use]
    pub fn carrier(&self) -> &Carrier {
        &self.0.carrier
    }

    /// The header that carries the key, if one does.
    #[must_use]
    pub fn key_header(&self) -> Option<&str> {
        match &self.0.carrier {
            Carrier::Header(name) => Some(name),
            _ => None,
        }
    }

    /// The methods that take a key without being asked.
    #[must_use]
    pub fn methods(&self) -> &[Method] {
        &self.0.methods
    }

    /// How long the server surely remembers a key; where its routes differ, the shortest.
    #[must_use]
    pub fn window(&self) -> Duration {
        self.0.window
    }

    /// How long the server surely remembers a key on the route of `url`.
    #[must_use]
    pub fn window_for(&self, url: &str) -> Duration {
        let route = self.route(url, |route| route.window.is_some());
        route
            .and_then(|route| route.window)
            .unwrap_or(self.0.window)
    }

    /// Whether the window is a guess, because the provider does not publish one.
    #[must_use]
    pub fn window_is_assumed(&self) -> bool {
        self.0.window_is_assumed
    }

    /// A response header that states when the key expires, if the server sends one.
    #[must_use]
    pub fn window_header(&self) -> Option<&str> {
        self.0.window_header.as_deref()
    }

    /// How long the key will still be remembered, if the response says so.
    ///
    /// Measured against the response's own `Date` where that can be read.
    #[must_use]
    pub fn remembered_for(&self, headers: &Headers, now: Timestamp) -> Option<Duration> {
        let name = self.window_header()?;
        retry_after::until(headers.get_any_case(name)?, headers, now)
    }

    /// Whether asking again under the same key brings the result of a finished action back.
    #[must_use]
    pub fn replays(&self) -> bool {
        matches!(
            self.0.repeat,
            Repeat::Original | Repeat::CurrentState | Repeat::ConflictWithId
        )
    }

    /// What a repeat of a finished action brings.
    #[must_use]
    pub fn repeat(&self) -> Repeat {
        self.0.repeat
    }

    /// The facts it is made of, with their sources.
    #[must_use]
    pub fn facts(&self) -> &[Fact] {
        kept::facts(self.0)
    }

    /// The header line that carries `key`, or nothing if it does not travel in a header.
    ///
    /// ```
    /// use samekey::{Key, profile::Profile};
    /// let key = Key::adopt(r#"order"7\"#)?;
    /// let profile = Profile::default();
    /// let (name, value) = profile.wire_key(&key)?.unwrap();
    /// assert_eq!((name, value.as_str()), ("Idempotency-Key", r#"order"7\"#));
    /// let quoted = Profile::ietf_draft();
    /// assert_eq!(quoted.wire_key(&key)?.unwrap().1, r#""order\"7\\""#);
    /// # Ok::<(), samekey::InvalidKey>(())
    /// ```
    ///
    /// # Errors
    /// Refuses a key that this provider would not take.
    pub fn wire_key(&self, key: &Key) -> Result<Option<(&str, String)>, InvalidKey> {
        self.check_length(key, self.0.longest_key.max(self.longest_on_any_route()))?;
        let Some(name) = self.key_header() else {
            return Ok(None);
        };
        let text = key.as_str();
        let value = if self.0.quoted {
            let mut quoted = String::from("\"");
            for c in text.chars() {
                if matches!(c, '\\' | '"') {
                    quoted.push('\\');
                }
                quoted.push(c);
            }
            quoted.push('"');
            quoted
        } else {
            text.to_owned()
        };
        Ok(Some((name, value)))
    }

    /// Whether the provider takes `key` on the route of `url`.
    ///
    /// # Errors
    /// Says which limit it breaks; a key is never shortened or re-written to fit.
    pub fn check_key(&self, key: &Key, url: &str) -> Result<(), InvalidKey> {
        let route = self.route(url, |route| route.longest_key.is_some());
        let longest = route.and_then(|route| route.longest_key);
        self.check_length(key, longest.unwrap_or(self.0.longest_key))
    }

    /// Whether the caller's own header lines leave the key's to samekey.
    ///
    /// # Errors
    /// Refuses a second line for the key: servers would see the two as one garbled value.
    pub fn check_headers(&self, headers: &Headers) -> Result<(), InvalidMessage> {
        for name in self.key_header().into_iter().chain(["idempotency-key"]) {
            if headers.get_any_case(name).is_some() {
                return Err(InvalidMessage(filled(
                    "the header % is samekey's to set; remove it, or adopt its value as the key",
                    &[name],
                )));
            }
        }
        Ok(())
    }

    /// Whether the key travels inside the body.
    pub(crate) fn key_is_in_body(&self) -> bool {
        matches!(self.0.carrier, Carrier::JsonMember(_))
    }

    /// The body as it is sent: with the key inside, where the key travels in the body.
    ///
    /// Every other byte stays as it was. Done once, before the request is frozen.
    ///
    /// ```
    /// use samekey::{Key, profile::Profile};
    /// let key = Key::from_random([7; 16]);
    /// let body = Profile::square().place_in_body(br#"{"amount":1}"#, &key)?;
    /// assert!(body.starts_with(br#"{"idempotency_key":"07070707-"#));
    /// assert!(body.ends_with(br#"","amount":1}"#));
    /// # Ok::<(), samekey::InvalidMessage>(())
    /// ```
    ///
    /// # Errors
    /// Refuses a body that is no JSON object, and one that holds a key already.
    pub fn place_in_body(&self, body: &[u8], key: &Key) -> Result<Vec<u8>, InvalidMessage> {
        let Carrier::JsonMember(member) = &self.0.carrier else {
            return Ok(body.to_vec());
        };
        json::with_member(body, member, key.as_str()).map_err(|why| {
            InvalidMessage(match why {
                NotAdded::Exists => filled(
                    "the body has a member % already; leave it out, or adopt its value as the key",
                    &[member],
                ),
                NotAdded::NotAnObject => filled(
                    "% takes the key inside the body, which has to be a JSON object",
                    &[&self.0.name],
                ),
            })
        })
    }

    fn check_length(&self, key: &Key, longest: usize) -> Result<(), InvalidKey> {
        let (name, length) = (&self.0.name, key.as_str().len());
        if length > longest || length < self.0.shortest_key {
            return Err(InvalidKey(filled(
                "the key has % characters; % takes % to %",
                &[
                    &decimal(length as u64),
                    name,
                    &decimal(self.0.shortest_key as u64),
                    &decimal(longest as u64),
                ],
            )));
        }
        if self.0.uuid_only && !key.is_uuid() {
            return Err(InvalidKey(filled("% takes only UUIDs as keys", &[name])));
        }
        Ok(())
    }

    fn longest_on_any_route(&self) -> usize {
        self.0
            .routes
            .iter()
            .filter_map(|r| r.longest_key)
            .max()
            .unwrap_or(0)
    }

    /// What the most particular matching route says.
    fn route(&self, url: &str, says: fn(&Route) -> bool) -> Option<&Route> {
        if self.0.routes.is_empty() {
            return None;
        }
        let path = without_query(url);
        let matching = |route: &&Route| place_of(path, &route.path).is_some() && says(route);
        let routes = self.0.routes.iter().filter(matching);
        routes.max_by_key(|route| route.path.len())
    }
}

/// What the classifier asks.
impl Profile {
    /// Whether the answer carries the mark of a replay.
    pub(crate) fn is_marked(&self, headers: &Headers) -> bool {
        self.0.marker.as_ref().is_some_and(|marker| {
            headers
                .get_all(&marker.header)
                .any(|value| value.eq_ignore_ascii_case(&marker.value))
        })
    }

    /// Whether an answer without the mark surely ran afresh. Behind another origin a browser hides
    /// headers, `Date` among them: then nothing can be said.
    pub(crate) fn unmarked_is_fresh(&self, headers: &Headers) -> bool {
        let always = self.0.marker.as_ref().is_some_and(|marker| marker.always);
        always && headers.get("date").is_some()
    }

    /// What the should-retry header says.
    pub(crate) fn should_retry(&self, headers: &Headers) -> Option<bool> {
        match headers.get(self.0.should_retry.as_deref()?)? {
            yes if yes.eq_ignore_ascii_case("true") => Some(true),
            no if no.eq_ignore_ascii_case("false") => Some(false),
            _ => None,
        }
    }

    pub(crate) fn says_in_flight(&self, response: &Response) -> bool {
        self.0.in_flight.iter().any(|sign| sign.is_on(response))
    }

    pub(crate) fn says_mismatch(&self, response: &Response) -> bool {
        self.0.mismatch.iter().any(|sign| sign.is_on(response))
    }

    pub(crate) fn says_key_refused(&self, response: &Response) -> bool {
        self.0.key_refused.iter().any(|sign| sign.is_on(response))
    }

    pub(crate) fn says_window_closed(&self, response: &Response) -> bool {
        self.0.window_closed.iter().any(|sign| sign.is_on(response))
    }

    /// If the answer says that the action was done before: where its result is, if it tells.
    pub(crate) fn says_created(&self, response: &Response, url: &str) -> Option<Option<String>> {
        let (_, path) = self
            .0
            .created
            .iter()
            .find(|(sign, _)| sign.is_on(response))?;
        let id = response
            .content
            .bytes()
            .and_then(|body| json::text(body, path));
        // The id becomes part of a URL, so it may hold nothing that could lead elsewhere.
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        let id = id.filter(|id| !id.is_empty() && id.bytes().all(plain));
        let mut place = without_query(url);
        while let Some(shorter) = place.strip_suffix('/') {
            place = shorter;
        }
        Some(id.map(|id| [place, "/", &id].concat()))
    }

    /// Whether this status comes from the handler, behind the server's memory of keys: then it is
    /// the key's result whatever happened to earlier attempts.
    pub(crate) fn vouches(&self, status: u16) -> bool {
        is_one_of(&self.0.vouched, status)
    }

    /// Whether this status surely comes from in front of the handler.
    pub(crate) fn is_unprocessed(&self, status: u16) -> bool {
        is_one_of(&self.0.unprocessed, status)
    }

    /// A URL to poll that the body names.
    pub(crate) fn poll_in(&self, response: &Response) -> Option<String> {
        json::text(response.content.bytes()?, self.0.poll_member.as_deref()?)
    }

    pub(crate) fn accepted(&self) -> Accepted {
        self.0.accepted
    }

    pub(crate) fn expects_html(&self) -> bool {
        self.0.html
    }
}

#[expect(
    clippy::manual_contains,
    reason = "the library's search is made for long lists, and a page would download it"
)]
fn is_one_of(statuses: &[u16], status: u16) -> bool {
    statuses.iter().any(|known| *known == status)
}

impl Default for Profile {
    /// What nearly all servers take: see [`Profile::default_profile`].
    fn default() -> Self {
        Profile::default_profile()
    }
}

impl PartialEq for Profile {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Profile {}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Profile({})", self.name())
    }
}

impl fmt::Display for Profile {
    /// One line per fact, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name())?;
        self.facts()
            .iter()
            .try_for_each(|fact| write!(f, "\n  {fact}"))
    }
}

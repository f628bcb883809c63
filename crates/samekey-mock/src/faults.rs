//! Everything that can go wrong between a client and a server, at exact points.
//!
//! A [`Fault`] says what happens; a [`Rule`] says to which requests. Rules come from the library, the
//! command line or the control endpoint; a request can also carry its own in `Mock-Fault`.

mod text;

pub(crate) use text::parse_range;

use crate::dice::Dice;
use serde::{Serialize, Serializer};

/// One way for an exchange to go wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The request is read, nothing is done, the connection is closed.
    DropBeforeCommit,
    /// The work is done and committed, the connection is closed without an answer.
    DropAfterCommit,
    /// The work is done, then the connection is reset before the first byte of the answer.
    ResetBeforeHead,
    /// The answer is cut after so many bytes of its status line and headers.
    CutHead(usize),
    /// The answer is cut after so many bytes of its body.
    CutBody(usize),
    /// The request waits before anything is done: between so many milliseconds.
    Delay(u64, u64),
    /// The worker holds its reservation for so many milliseconds before it acts.
    SlowWork(u64),
    /// The answer waits so many milliseconds after the commit.
    DelayAnswer(u64),
    /// Nothing is done and nothing is answered, for ever.
    StallBeforeCommit,
    /// The work is done and nothing is answered, for ever.
    Stall,
    /// A gateway answers with this status before the server sees the request.
    Status(u16),
    /// A gateway answers with this status although the server has done its work.
    StatusAfterCommit(u16),
    /// The handler does its work, then fails with 500: rolled back.
    HandlerError,
    /// The server says 409 in flight, whatever is true.
    InFlight,
    /// 503 with a Retry-After of a questionable kind.
    RetryAfter(Hint),
    /// The key is forgotten right after the answer.
    EarlyEviction,
    /// All keys are forgotten before this request, as after a restart without a file.
    Amnesia,
    /// The look-up goes to a replica that has not caught up.
    LaggingReplica,
    /// The request reaches the other half of a split cluster, which has keys of its own.
    SplitBrain,
    /// A proxy delivers the request twice and passes on the second answer.
    Duplicate,
    /// A redirect with this status to the same origin.
    RedirectSame(u16),
    /// A redirect with this status to another origin.
    RedirectCross(u16),
    /// HTTP/2: GOAWAY below this stream, nothing done.
    Goaway,
    /// HTTP/2: GOAWAY that covers this stream, after the commit, then the end.
    GoawayAfterCommit,
    /// HTTP/2: REFUSED_STREAM, nothing done.
    RefusedStream,
    /// The worker dies between effect and completion.
    WorkerCrash,
    /// The key store does not answer.
    StoreDown,
    /// The payment processor fails for this request's message.
    DownstreamDown,
    /// The server's clock jumps by so many seconds before the request.
    ClockJump(i64),
    /// A captive portal answers 200 with a page of its own.
    Portal,
    /// An informational answer (100), then a reset.
    ContinueThenReset,
    /// Informational answers (100, 103, 103), then the real one.
    EarlyHints,
    /// The body comes one byte at a time, with so many milliseconds between them.
    SlowBody(u64),
    /// The work is done, and the body never ends.
    EndlessBody,
}

/// Questionable values of Retry-After.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// `0`
    Zero,
    /// A date in the past.
    Past,
    /// A date ten seconds ahead by a clock that is ten minutes fast, with `Date` from that clock.
    SkewedDate,
    /// The same without `Date`.
    SkewedDateNoDate,
    /// An RFC 850 date.
    Rfc850,
    /// An asctime date.
    Asctime,
    /// `soon`
    Word,
    /// `-5`
    Negative,
    /// `1.5`
    Fraction,
    /// `+3`
    Signed,
    /// `1e9`
    Exponent,
    /// An empty value.
    Empty,
    /// `120, 60`
    List,
    /// A number beyond 64 bits.
    Huge,
    /// Two lines: 1 and 7.
    TwoLines,
    /// An hour.
    Hour,
    /// None at all.
    Absent,
}

/// A fault and the requests it befalls.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// What happens.
    pub fault: Fault,
    /// To how many requests; no end where none is given.
    pub times: Option<u64>,
    /// After letting so many matching requests pass.
    pub skip: u64,
    /// Only where the path starts so; such a rule also meets GET.
    pub route: Option<String>,
    /// Only under this key.
    pub key: Option<String>,
    /// Only with this probability.
    pub rate: f64,
}

impl From<Fault> for Rule {
    fn from(fault: Fault) -> Self {
        Self {
            fault,
            times: None,
            skip: 0,
            route: None,
            key: None,
            rate: 1.0,
        }
    }
}

impl Fault {
    /// Befalls so many requests.
    pub fn times(self, times: u64) -> Rule {
        Rule::from(self).times(times)
    }

    /// Befalls the next request only.
    pub fn once(self) -> Rule {
        self.times(1)
    }

    /// Befalls requests whose path starts so.
    pub fn on_route(self, route: &str) -> Rule {
        Rule::from(self).on_route(route)
    }

    /// Befalls requests under this key.
    pub fn on_key(self, key: &str) -> Rule {
        Rule::from(self).on_key(key)
    }

    /// Befalls requests with this probability.
    pub fn rate(self, rate: f64) -> Rule {
        Rule::from(self).rate(rate)
    }
}

impl Rule {
    /// Befalls so many requests.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Lets so many matching requests pass first.
    #[must_use]
    pub fn after(mut self, skip: u64) -> Self {
        self.skip = skip;
        self
    }

    /// Befalls requests whose path starts so.
    #[must_use]
    pub fn on_route(mut self, route: &str) -> Self {
        self.route = Some(route.to_owned());
        self
    }

    /// Befalls requests under this key.
    #[must_use]
    pub fn on_key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Befalls requests with this probability.
    #[must_use]
    pub fn rate(mut self, rate: f64) -> Self {
        self.rate = rate;
        self
    }

    fn meets(&self, path: &str, writes: bool, key: Option<&str>) -> bool {
        let route = match &self.route {
            Some(route) => path.starts_with(route.as_str()),
            None => writes,
        };
        route && self.key.as_deref().is_none_or(|wanted| key == Some(wanted))
    }
}

impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// The rules in force and the dice they use.
#[derive(Debug)]
pub struct Faults {
    rules: Vec<Rule>,
    dice: Dice,
}

impl Faults {
    /// No rules yet.
    pub fn seeded(seed: u64) -> Self {
        Self {
            rules: Vec::new(),
            dice: Dice::seeded(seed),
        }
    }

    /// Adds a rule behind the others.
    pub fn add(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    /// Ends every rule, or those of one fault given by name.
    pub fn clear(&mut self, name: Option<&str>) {
        self.rules
            .retain(|rule| name.is_some_and(|name| rule.fault.name() != name));
    }

    /// The rules in force.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// A number for a delay.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        self.dice.between(low, high)
    }

    /// What befalls this request; counts it against the rules.
    pub fn plan(&mut self, path: &str, writes: bool, key: Option<&str>) -> Plan {
        let mut faults = Vec::new();
        for rule in &mut self.rules {
            if !rule.meets(path, writes, key) {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            // A rule without chance draws nothing, so that adding one does not shift the others.
            if rule.times == Some(0) || (rule.rate < 1.0 && !self.dice.chance(rule.rate)) {
                continue;
            }
            rule.times = rule.times.map(|left| left - 1);
            faults.push(rule.fault.clone());
        }
        self.rules.retain(|rule| rule.times != Some(0));
        Plan { faults }
    }
}

/// What befalls one request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// The faults in the order of their rules.
    pub faults: Vec<Fault>,
}

impl Plan {
    /// Whether a fault is among them.
    pub fn has(&self, fault: &Fault) -> bool {
        self.faults.contains(fault)
    }

    /// The first for which `pick` has an answer.
    pub fn find<T>(&self, pick: impl Fn(&Fault) -> Option<T>) -> Option<T> {
        self.faults.iter().find_map(pick)
    }
}

#[cfg(test)]
mod tests;

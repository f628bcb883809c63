//! Faults as words: on the command line, in `Mock-Fault`, at the control endpoint and on the page.
//!
//! `name[:value][*times][+skip][%percent][@route][#key]`, for example `cut-body:40*2@/payments`.

use super::{Fault, Hint, Rule};
use std::fmt;
use std::str::FromStr;

const HINTS: [(Hint, &str); 17] = [
    (Hint::Zero, "zero"),
    (Hint::Past, "past"),
    (Hint::SkewedDate, "skewed"),
    (Hint::SkewedDateNoDate, "skewed-no-date"),
    (Hint::Rfc850, "rfc850"),
    (Hint::Asctime, "asctime"),
    (Hint::Word, "word"),
    (Hint::Negative, "negative"),
    (Hint::Fraction, "fraction"),
    (Hint::Signed, "signed"),
    (Hint::Exponent, "exponent"),
    (Hint::Empty, "empty"),
    (Hint::List, "list"),
    (Hint::Huge, "huge"),
    (Hint::TwoLines, "two-lines"),
    (Hint::Hour, "hour"),
    (Hint::Absent, "absent"),
];

impl Hint {
    /// Every kind.
    pub fn all() -> impl Iterator<Item = Self> {
        HINTS.into_iter().map(|(hint, _)| hint)
    }

    /// Its word.
    pub fn name(self) -> &'static str {
        HINTS
            .iter()
            .find(|(hint, _)| *hint == self)
            .map_or("", |(_, name)| name)
    }
}

impl Fault {
    /// One example of every fault, for menus and tests.
    pub fn examples() -> Vec<Self> {
        vec![
            Self::DropAfterCommit,
            Self::DropBeforeCommit,
            Self::ResetBeforeHead,
            Self::CutHead(9),
            Self::CutBody(10),
            Self::Delay(50, 500),
            Self::SlowWork(3000),
            Self::DelayAnswer(2000),
            Self::Stall,
            Self::StallBeforeCommit,
            Self::Status(503),
            Self::StatusAfterCommit(502),
            Self::HandlerError,
            Self::InFlight,
            Self::RetryAfter(Hint::Word),
            Self::EarlyEviction,
            Self::Amnesia,
            Self::LaggingReplica,
            Self::SplitBrain,
            Self::Duplicate,
            Self::RedirectSame(307),
            Self::RedirectCross(307),
            Self::Goaway,
            Self::GoawayAfterCommit,
            Self::RefusedStream,
            Self::WorkerCrash,
            Self::StoreDown,
            Self::DownstreamDown,
            Self::ClockJump(3600),
            Self::Portal,
            Self::ContinueThenReset,
            Self::EarlyHints,
            Self::SlowBody(20),
            Self::EndlessBody,
        ]
    }

    /// Its word, without value.
    pub fn name(&self) -> &'static str {
        match self {
            Self::DropBeforeCommit => "drop-before-commit",
            Self::DropAfterCommit => "drop-after-commit",
            Self::ResetBeforeHead => "reset-before-head",
            Self::CutHead(_) => "cut-head",
            Self::CutBody(_) => "cut-body",
            Self::Delay(..) => "delay",
            Self::SlowWork(_) => "slow-work",
            Self::DelayAnswer(_) => "delay-answer",
            Self::StallBeforeCommit => "stall-before-commit",
            Self::Stall => "stall",
            Self::Status(_) => "status",
            Self::StatusAfterCommit(_) => "status-after-commit",
            Self::HandlerError => "handler-error",
            Self::InFlight => "in-flight",
            Self::RetryAfter(_) => "retry-after",
            Self::EarlyEviction => "early-eviction",
            Self::Amnesia => "amnesia",
            Self::LaggingReplica => "lagging-replica",
            Self::SplitBrain => "split-brain",
            Self::Duplicate => "duplicate",
            Self::RedirectSame(_) => "redirect-same",
            Self::RedirectCross(_) => "redirect-cross",
            Self::Goaway => "goaway",
            Self::GoawayAfterCommit => "goaway-after-commit",
            Self::RefusedStream => "refused-stream",
            Self::WorkerCrash => "worker-crash",
            Self::StoreDown => "store-down",
            Self::DownstreamDown => "downstream-down",
            Self::ClockJump(_) => "clock-jump",
            Self::Portal => "portal",
            Self::ContinueThenReset => "continue-then-reset",
            Self::EarlyHints => "early-hints",
            Self::SlowBody(_) => "slow-body",
            Self::EndlessBody => "endless-body",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::CutHead(n) | Self::CutBody(n) => write!(f, ":{n}"),
            Self::Delay(low, high) if low == high => write!(f, ":{low}"),
            Self::Delay(low, high) => write!(f, ":{low}..{high}"),
            Self::SlowWork(ms) | Self::DelayAnswer(ms) | Self::SlowBody(ms) => write!(f, ":{ms}"),
            Self::Status(s) | Self::StatusAfterCommit(s) => write!(f, ":{s}"),
            Self::RedirectSame(s) | Self::RedirectCross(s) => write!(f, ":{s}"),
            Self::RetryAfter(hint) => write!(f, ":{}", hint.name()),
            Self::ClockJump(seconds) => write!(f, ":{seconds}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fault)?;
        if let Some(times) = self.times {
            write!(f, "*{times}")?;
        }
        if self.skip > 0 {
            write!(f, "+{}", self.skip)?;
        }
        if self.rate < 1.0 {
            write!(f, "%{}", self.rate * 100.0)?;
        }
        if let Some(route) = &self.route {
            write!(f, "@{route}")?;
        }
        if let Some(key) = &self.key {
            write!(f, "#{key}")?;
        }
        Ok(())
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = match text.split_once(':') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let example = Self::examples()
            .into_iter()
            .find(|fault| fault.name() == name);
        let Some(example) = example else {
            let names: Vec<_> = Self::examples().iter().map(Self::name).collect();
            return Err(format!(
                "no fault `{name}`; there are: {}",
                names.join(", ")
            ));
        };
        let Some(value) = value else {
            return Ok(example);
        };
        let bad = || format!("`{value}` is no value for {name}");
        let number = || value.parse::<u64>().map_err(|_| bad());
        let bytes = || value.parse::<usize>().map_err(|_| bad());
        let status = || {
            let code = value.parse::<u16>().map_err(|_| bad())?;
            if (200..=599).contains(&code) {
                Ok(code)
            } else {
                Err(bad())
            }
        };
        Ok(match example {
            Self::CutHead(_) => Self::CutHead(bytes()?),
            Self::CutBody(_) => Self::CutBody(bytes()?),
            Self::Delay(..) => {
                let (low, high) = parse_range(value).ok_or_else(bad)?;
                Self::Delay(low, high)
            }
            Self::SlowWork(_) => Self::SlowWork(number()?),
            Self::DelayAnswer(_) => Self::DelayAnswer(number()?),
            Self::SlowBody(_) => Self::SlowBody(number()?),
            Self::Status(_) => Self::Status(status()?),
            Self::StatusAfterCommit(_) => Self::StatusAfterCommit(status()?),
            Self::RedirectSame(_) => Self::RedirectSame(status()?),
            Self::RedirectCross(_) => Self::RedirectCross(status()?),
            Self::RetryAfter(_) => Self::RetryAfter(
                Hint::all()
                    .find(|hint| hint.name() == value)
                    .ok_or_else(bad)?,
            ),
            Self::ClockJump(_) => Self::ClockJump(value.parse().map_err(|_| bad())?),
            _ => return Err(format!("{name} takes no value")),
        })
    }
}

/// Reads `50..500`, or `50` for both ends.
pub(crate) fn parse_range(text: &str) -> Option<(u64, u64)> {
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    let (low, high) = (low.parse().ok()?, high.parse().ok()?);
    (low <= high).then_some((low, high))
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_mark = |c: char| "*+%@#".contains(c);
        let end = text.find(is_mark).unwrap_or(text.len());
        let mut rule = Self::from(text[..end].trim().parse::<Fault>()?);
        let mut rest = &text[end..];
        while let Some(mark) = rest.chars().next() {
            // A route or a key runs to the end or to the mark of a key: both may hold `%` or `+`.
            let body = &rest[1..];
            let end = match mark {
                '#' => body.len(),
                '@' => body.find('#').unwrap_or(body.len()),
                _ => body.find(is_mark).unwrap_or(body.len()),
            };
            let value = body[..end].trim();
            let bad = || format!("`{mark}{value}` is not understood in `{text}`");
            match mark {
                '*' => rule.times = Some(value.parse().map_err(|_| bad())?),
                '+' => rule.skip = value.parse().map_err(|_| bad())?,
                '%' => {
                    let percent: f64 = value.parse().map_err(|_| bad())?;
                    rule.rate = Some(percent / 100.0)
                        .filter(|rate| (0.0..=1.0).contains(rate))
                        .ok_or_else(bad)?;
                }
                '@' => rule.route = Some(value.to_owned()),
                _ => rule.key = Some(value.to_owned()),
            }
            rest = &body[end..];
        }
        Ok(rule)
    }
}

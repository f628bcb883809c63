//! Variants that take turns, and what remains when the noisy rounds are thrown away.

use crate::cast::{Cast, Pace};
use crate::noise::{Load, MOST_FOREIGN, wait_for_quiet};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Fewer quiet rounds than this, and the quietest third is taken instead.
const ENOUGH: usize = 5;
/// A slice lasts at least so many times the median operation.
const MEDIANS: f64 = 20.0;
/// Between these, bare against bare counts as the same.
const SAME: std::ops::RangeInclusive<f64> = 0.85..=1.15;

/// One variant's turn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Turn {
    pub(crate) ops: f64,
    pub(crate) counted: f64,
    pub(crate) seconds: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) cpu_us: f64,
    pub(crate) syncs: f64,
}

impl Turn {
    fn read(answer: &Value) -> Result<Turn, String> {
        let number = |name: &str| {
            let found = answer.get(name).and_then(Value::as_f64);
            found.ok_or_else(|| format!("no `{name}` in {answer}"))
        };
        Ok(Turn {
            ops: number("ops")?,
            counted: number("counted")?,
            seconds: number("millis")? / 1000.0,
            p50_us: number("p50_us")?,
            p99_us: number("p99_us")?,
            cpu_us: number("cpu_us")?,
            syncs: number("syncs")?,
        })
    }

    /// Operations per second.
    pub(crate) fn rate(&self) -> f64 {
        self.ops / self.seconds
    }

    /// CPU time per operation, in microseconds.
    pub(crate) fn cpu(&self) -> f64 {
        self.cpu_us / self.counted
    }
}

/// One turn of every variant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    pub(crate) foreign: f64,
    pub(crate) turns: BTreeMap<String, Turn>,
}

/// What is to be run.
pub(crate) struct Order<'a> {
    pub(crate) name: &'a str,
    pub(crate) pace: Pace,
    pub(crate) callers: usize,
    pub(crate) variants: &'a [&'a str],
    /// The two variants that must not differ.
    pub(crate) same: [&'a str; 2],
    pub(crate) rounds: usize,
    /// The shortest slice.
    pub(crate) slice: Duration,
    /// How long to wait for quiet before a round.
    pub(crate) patience: Duration,
}

/// The rounds of one order.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) callers: usize,
    pub(crate) slice: Duration,
    pub(crate) rounds: Vec<Round>,
    /// Which rounds count.
    pub(crate) kept: Vec<usize>,
    /// Whether only the quietest third is left.
    pub(crate) third: bool,
    /// The median of what should be 1.
    pub(crate) same: f64,
}

/// The middle value; of two middle ones the mean.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

/// The quiet rounds; if there are few, the quietest third. Says which of the two it is.
pub(crate) fn keep(foreign: &[f64]) -> (Vec<usize>, bool) {
    let mut order: Vec<usize> = (0..foreign.len()).collect();
    order.sort_by(|a, b| foreign[*a].total_cmp(&foreign[*b]));
    let quiet = foreign.iter().filter(|f| **f <= MOST_FOREIGN).count();
    let third = foreign.len().div_ceil(3);
    let few = quiet < ENOUGH;
    order.truncate(if few { third.max(quiet) } else { quiet });
    order.sort_unstable();
    (order, few && quiet < third)
}

impl Series {
    /// Lets the variants take turns, the order reversed from round to round.
    ///
    /// A first round is thrown away: it opens connections and fills caches.
    pub(crate) fn run(cast: &mut Cast, order: &Order<'_>) -> Result<Series, String> {
        for variant in order.variants {
            cast.call(variant, order.pace)?;
        }
        let mut slowest = 0.0_f64;
        for variant in order.variants {
            let turn = turn(cast, order, variant, Duration::from_millis(500))?;
            slowest = slowest.max(turn.p50_us);
        }
        let needed = Duration::from_secs_f64(slowest * MEDIANS / 1e6);
        let slice = order.slice.max(needed).min(Duration::from_secs(10));
        let mut rounds = Vec::new();
        for number in 0..order.rounds {
            let pids = cast.pids();
            wait_for_quiet(&pids, order.patience)?;
            let before = Load::now(&pids)?;
            let mut round = Round::default();
            let mut variants = order.variants.to_vec();
            if number % 2 == 1 {
                variants.reverse();
            }
            for variant in variants {
                let turn = turn(cast, order, variant, slice)?;
                round.turns.insert(variant.to_owned(), turn);
            }
            round.foreign = Load::now(&pids)?.foreign_since(&before);
            eprintln!(
                "  {} round {}/{}: foreign {:.0} %",
                order.name,
                number + 1,
                order.rounds,
                round.foreign * 100.0
            );
            rounds.push(round);
        }
        Ok(Series::of(order, slice, rounds))
    }

    fn of(order: &Order<'_>, slice: Duration, rounds: Vec<Round>) -> Series {
        let foreign: Vec<f64> = rounds.iter().map(|round| round.foreign).collect();
        let (kept, third) = keep(&foreign);
        let mut series = Series {
            name: order.name.to_owned(),
            callers: order.callers,
            slice,
            rounds,
            kept,
            third,
            same: f64::NAN,
        };
        series.same =
            median(series.each(|turn| turn(order.same[1]).rate() / turn(order.same[0]).rate()));
        series
    }

    /// Whether what should be the same is.
    pub(crate) fn is_steady(&self) -> bool {
        SAME.contains(&self.same)
    }

    /// One value for each round that counts.
    pub(crate) fn each(&self, value: impl Fn(&dyn Fn(&str) -> Turn) -> f64) -> Vec<f64> {
        let rounds = self.kept.iter().map(|number| &self.rounds[*number]);
        rounds
            .map(|round| value(&|name| round.turns.get(name).copied().unwrap_or_default()))
            .collect()
    }

    /// A count per operation, over all rounds: counts know no noise.
    pub(crate) fn per_op(&self, variant: &str, count: impl Fn(&Turn) -> f64) -> f64 {
        let turns = || {
            self.rounds
                .iter()
                .filter_map(|round| round.turns.get(variant))
        };
        let ops: f64 = turns().map(|turn| turn.counted).sum();
        turns().map(count).sum::<f64>() / ops
    }

    /// The mean share of others in the rounds that count.
    pub(crate) fn foreign(&self) -> f64 {
        let sum: f64 = self.kept.iter().map(|n| self.rounds[*n].foreign).sum();
        sum / self.kept.len().max(1) as f64
    }

    /// For results.json.
    pub(crate) fn to_json(&self) -> Value {
        let first = self.rounds.first();
        let names = first.map(|round| round.turns.keys().cloned().collect::<Vec<_>>());
        let variants: serde_json::Map<String, Value> = names
            .unwrap_or_default()
            .into_iter()
            .map(|name| {
                let middle = |value: fn(&Turn) -> f64| {
                    rounded(median(self.each(|turn| value(&turn(&name)))))
                };
                let told = json!({
                    "ops_per_s": middle(Turn::rate),
                    "p50_us": middle(|turn| turn.p50_us),
                    "p99_us": middle(|turn| turn.p99_us),
                    "cpu_us_per_op": rounded(self.per_op(&name, |turn| turn.cpu_us)),
                    "syncs_per_op": rounded(self.per_op(&name, |turn| turn.syncs)),
                });
                (name, told)
            })
            .collect();
        let foreign: Vec<f64> = self.rounds.iter().map(|r| rounded(r.foreign)).collect();
        json!({
            "name": self.name,
            "callers": self.callers,
            "slice_ms": self.slice.as_millis() as u64,
            "rounds": self.rounds.len(),
            "kept": self.kept,
            "only_the_quietest_third": self.third,
            "foreign": foreign,
            "same": rounded(self.same),
            "variants": variants,
        })
    }
}

/// Four digits are more than any of this is worth.
pub(crate) fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(3 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

fn turn(
    cast: &mut Cast,
    order: &Order<'_>,
    variant: &str,
    slice: Duration,
) -> Result<Turn, String> {
    let callers = match variant {
        "floor" => 1,
        _ => order.callers,
    };
    let line = format!("run {callers} {}", slice.as_millis());
    Turn::read(&cast.ask(variant, order.pace, &line)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(vec![]).is_nan());
    }

    #[test]
    fn noisy_rounds_are_thrown_away() {
        let foreign = [0.5, 0.01, 0.02, 0.11, 0.12, 0.03, 0.13];
        assert_eq!(keep(&foreign), (vec![1, 2, 3, 4, 5], false));
    }

    #[test]
    fn without_enough_quiet_rounds_the_quietest_third_is_kept_and_said() {
        let foreign = [0.5, 0.4, 0.3, 0.2, 0.6, 0.7];
        assert_eq!(keep(&foreign), (vec![2, 3], true));
        // Two quiet ones of six are the third, and quiet.
        let foreign = [0.5, 0.01, 0.3, 0.02, 0.6, 0.7];
        assert_eq!(keep(&foreign), (vec![1, 3], false));
    }

    fn series(pairs: &[(f64, f64)]) -> Series {
        let order = Order {
            name: "test",
            pace: Pace::Instant,
            callers: 1,
            variants: &["bare", "bare2"],
            same: ["bare", "bare2"],
            rounds: pairs.len(),
            slice: Duration::from_secs(1),
            patience: Duration::ZERO,
        };
        let round = |(bare, bare2): &(f64, f64)| {
            let turn = |ops| Turn {
                ops,
                counted: ops,
                seconds: 1.0,
                ..Turn::default()
            };
            Round {
                foreign: 0.0,
                turns: [("bare".into(), turn(*bare)), ("bare2".into(), turn(*bare2))].into(),
            }
        };
        Series::of(&order, order.slice, pairs.iter().map(round).collect())
    }

    #[test]
    fn a_series_is_steady_if_the_same_is_the_same() {
        assert!(series(&[(100.0, 110.0), (100.0, 90.0), (100.0, 101.0)]).is_steady());
        assert!(!series(&[(100.0, 120.0), (100.0, 130.0), (100.0, 99.0)]).is_steady());
    }

    #[test]
    fn four_digits_are_told() {
        assert_eq!(rounded(0.123_456), 0.1235);
        assert_eq!(rounded(123_456.0), 123_500.0);
        assert_eq!(rounded(0.0), 0.0);
    }
}

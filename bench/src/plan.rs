//! What is run, in which order, and which figures come of it.

use crate::Asked;
use crate::cast::{Cast, Pace};
use crate::figures::{Measured, Trust};
use crate::noise::{Load, MOST_FOREIGN};
use crate::series::{Order, Series, Turn, median};
use serde_json::Value;
use std::fs;
use std::process::Command;
use std::time::Duration;

/// All that a run brought.
#[derive(Default)]
pub(crate) struct Brought {
    pub(crate) figures: Vec<Measured>,
    pub(crate) series: Vec<Series>,
    /// What has no goal and is worth knowing: name, value, unit.
    pub(crate) notes: Vec<(String, f64, &'static str)>,
    /// What could not be measured at all.
    pub(crate) broken: Vec<String>,
}

/// How long and how often.
struct Size {
    rounds: usize,
    slice: Duration,
    patience: Duration,
    /// How often a series is run once more if it was too noisy.
    again: usize,
    /// Peers that no figure needs are left out of a quick run.
    all_peers: bool,
}

impl Size {
    fn of(asked: &Asked) -> Size {
        let seconds = Duration::from_secs;
        match asked.quick {
            true => Size {
                rounds: 6,
                slice: seconds(1),
                patience: seconds(1),
                again: 0,
                all_peers: false,
            },
            false => Size {
                rounds: 15,
                slice: seconds(1),
                patience: seconds(15),
                again: 3,
                all_peers: true,
            },
        }
    }
}

pub(crate) fn run(asked: &Asked) -> Result<Brought, String> {
    let mut run = Run {
        asked,
        size: Size::of(asked),
        cast: Cast::new(&asked.target)?,
        brought: Brought::default(),
    };
    type Part = fn(&mut Run<'_>) -> Result<(), String>;
    let parts: [Part; 7] = [
        |run| {
            [1, 16, 64, 256]
                .into_iter()
                .try_for_each(|n| run.instant(n))
        },
        |run| [16, 64].into_iter().try_for_each(|n| run.slow(n)),
        |run| run.naive(),
        |run| run.counts(),
        |run| run.growth(),
        |run| run.stock(),
        |run| run.memory(),
    ];
    for part in parts {
        // One part that breaks must not cost the others' figures; the run fails all the same.
        if let Err(why) = part(&mut run) {
            eprintln!("  BROKEN: {why}");
            run.brought.broken.push(why);
        }
    }
    Ok(run.brought)
}

struct Run<'a> {
    asked: &'a Asked,
    size: Size,
    cast: Cast,
    brought: Brought,
}

type Rounds<'a> = &'a dyn Fn(&str) -> Turn;

impl Run<'_> {
    fn wants_any(&self, names: &[String]) -> bool {
        names.iter().any(|name| self.asked.wants(name))
    }

    /// Runs a series, again and again while it is too noisy and may be repeated.
    fn series(
        &mut self,
        name: &str,
        pace: Pace,
        callers: usize,
        variants: &[&str],
    ) -> Result<Series, String> {
        let order = Order {
            name,
            pace,
            callers,
            variants,
            same: [variants[0], variants[1]],
            rounds: self.size.rounds,
            slice: self.size.slice,
            patience: self.size.patience,
        };
        eprintln!("{name}: {}", variants.join(", "));
        let mut series = Series::run(&mut self.cast, &order)?;
        for _ in 0..self.size.again {
            if series.is_steady() {
                break;
            }
            eprintln!(
                "  {} against {} is {:.2}: once more",
                variants[1], variants[0], series.same
            );
            series = Series::run(&mut self.cast, &order)?;
        }
        self.brought.series.push(series.clone());
        Ok(series)
    }

    fn figure(&mut self, measured: Measured) {
        if self.asked.wants(measured.name) {
            self.brought.figures.push(measured);
        }
    }

    fn timed(&mut self, name: &str, series: &Series, value: impl Fn(Rounds<'_>) -> f64) {
        let trust = match series.is_steady() {
            true => Trust::Timed,
            false => Trust::TooNoisy,
        };
        self.of_rounds(name, series, trust, value);
    }

    fn of_rounds(
        &mut self,
        name: &str,
        series: &Series,
        trust: Trust,
        value: impl Fn(Rounds<'_>) -> f64,
    ) {
        let values = series.each(value);
        let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let Some(name) = goal_name(name) else { return };
        self.figure(Measured {
            name,
            value: median(values),
            trust,
            spread: (lowest, highest),
            rounds_kept: series.kept.len(),
            rounds: series.rounds.len(),
            foreign: series.foreign(),
            same: Some(series.same),
        });
    }

    fn note(&mut self, name: String, value: f64, unit: &'static str) {
        self.brought.notes.push((name, value, unit));
    }

    fn instant(&mut self, callers: usize) -> Result<(), String> {
        let share = format!("share_{callers}");
        let effectum = format!("vs_effectum_{callers}");
        let syncs = format!("syncs_per_op_{callers}");
        let mut names = vec![share.clone(), effectum.clone(), syncs.clone()];
        match callers {
            1 => names.push("added_p50_1".into()),
            64 => names.push("p99_64".into()),
            _ => {}
        }
        if !self.wants_any(&names) {
            return Ok(());
        }
        let mut variants = vec!["bare", "bare2", "samekey"];
        if self.size.all_peers || callers == 64 {
            variants.push("hyper");
        }
        if self.asked.wants(&effectum) {
            variants.push("effectum");
        }
        if self.asked.wants("added_p50_1") && callers == 1 {
            variants.push("floor");
        }
        if self.size.all_peers && self.asked.only.is_empty() {
            variants.extend(["middleware", "naive"]);
        }
        let name = format!("instant_{callers}");
        let series = self.series(&name, Pace::Instant, callers, &variants)?;
        self.timed(&share, &series, |turn| {
            turn("samekey").rate() / turn("bare").rate()
        });
        if variants.contains(&"effectum") {
            self.timed(&effectum, &series, |turn| {
                turn("samekey").rate() / turn("effectum").rate()
            });
        }
        if variants.contains(&"floor") {
            self.timed("added_p50_1", &series, |turn| {
                (turn("samekey").p50_us - turn("bare").p50_us) / turn("floor").p50_us
            });
        }
        if callers == 64 {
            self.timed("p99_64", &series, |turn| {
                turn("samekey").p99_us / turn("bare").p99_us
            });
        }
        if variants.contains(&"hyper") {
            let share =
                series.each(|turn: Rounds<'_>| turn("samekey").rate() / turn("hyper").rate());
            self.note(format!("share_of_hyper_{callers}"), median(share), "ratio");
        }
        self.count_syncs_and_cpu(&syncs, &series);
        Ok(())
    }

    fn count_syncs_and_cpu(&mut self, name: &str, series: &Series) {
        let callers = series.callers;
        let syncs = series.per_op("samekey", |turn| turn.syncs);
        match goal_name(name) {
            Some(name) => {
                let mut counted = Measured::counted(name, syncs);
                counted.rounds = series.rounds.len();
                counted.rounds_kept = series.rounds.len();
                counted.foreign = series.foreign();
                self.figure(counted);
            }
            None => self.note(name.to_owned(), syncs, "syncs"),
        }
        let cpu = series.per_op("samekey", |turn| turn.cpu_us);
        let bare = series.per_op("bare", |turn| turn.cpu_us);
        self.note(format!("cpu_per_op_{callers}"), cpu, "us");
        self.note(format!("cpu_vs_bare_{callers}"), cpu / bare, "ratio");
    }

    fn slow(&mut self, callers: usize) -> Result<(), String> {
        let share = format!("share_5ms_{callers}");
        if !self.asked.wants(&share) {
            return Ok(());
        }
        let variants = ["bare", "bare2", "samekey"];
        let name = format!("slow_{callers}");
        let series = self.series(&name, Pace::Slow, callers, &variants)?;
        self.timed(&share, &series, |turn| {
            turn("samekey").rate() / turn("bare").rate()
        });
        Ok(())
    }

    fn naive(&mut self) -> Result<(), String> {
        if !self.asked.wants("vs_naive_64") {
            return Ok(());
        }
        let variants = ["journal", "journal2", "naive-journal"];
        let series = self.series("journal_64", Pace::Instant, 64, &variants)?;
        self.timed("vs_naive_64", &series, |turn| {
            turn("journal").rate() / turn("naive-journal").rate()
        });
        let cpu = series.per_op("journal", |turn| turn.cpu_us);
        self.note("journal_cpu_per_op_64".into(), cpu, "us");
        Ok(())
    }

    /// Few enough that no checkpoint and no restart of the log falls among them.
    fn counts(&mut self) -> Result<(), String> {
        let wanted = ["syncs_of_successes", "at_once_10000"].map(str::to_owned);
        if !self.wants_any(&wanted) {
            return Ok(());
        }
        self.cast.call("stock", Pace::Instant)?;
        if self.asked.wants("syncs_of_successes") {
            let answer = self.ask_stock("successes 20")?;
            let syncs = number(&answer, "successes")?;
            // A count of nothing where begins are not counted either would prove nothing.
            let begins = number(&answer, "begins")?;
            if begins < 20.0 {
                return Err(format!(
                    "20 begins made only {begins} syncs: the count is broken"
                ));
            }
            self.figure(Measured::counted("syncs_of_successes", syncs));
        }
        if self.asked.wants("at_once_10000") {
            eprintln!("10,000 at once");
            let answer = self.ask_stock("at-once 10000")?;
            let finished = number(&answer, "finished")?;
            if finished < 10_000.0 {
                eprintln!("  only {finished} finished: {}", answer["trouble"]);
            }
            self.figure(Measured::counted("at_once_10000", finished / 10_000.0));
            self.note(
                "at_once_10000_seconds".into(),
                number(&answer, "seconds")?,
                "s",
            );
        }
        Ok(())
    }

    fn ask_stock(&mut self, line: &str) -> Result<Value, String> {
        self.cast.ask("stock", Pace::Instant, line)
    }

    /// The stock of journals: none, 100,000 and 1,000,000 settled, each with 10,000 pending.
    fn make_stock(&mut self) -> Result<(), String> {
        fs::create_dir_all(self.cast.stock()).map_err(|e| e.to_string())?;
        self.cast.call("stock", Pace::Instant)?;
        let recipe = self.recipe();
        for (name, settled) in [("none", 0), ("100k", 100_000), ("1m", 1_000_000)] {
            if settled == 0 {
                let _ = fs::remove_dir_all(self.cast.stock().join(name));
            }
            eprintln!("stock: {settled} settled, 10000 pending");
            let answer = self.ask_stock(&format!("make {name} {settled} 10000 {recipe}"))?;
            let seconds = number(&answer, "seconds")?;
            if seconds > 0.0 {
                eprintln!("  made in {seconds:.1} s");
            }
        }
        Ok(())
    }

    /// Changes whenever what a journal looks like may have changed.
    fn recipe(&self) -> String {
        let files = [
            "src/journal/sqlite/schema.rs",
            "src/journal/sqlite/names.rs",
            "src/entry/codec.rs",
        ];
        let mut digest: u64 = 0xcbf2_9ce4_8422_2325;
        for file in files {
            for byte in fs::read(self.asked.root.join(file)).unwrap_or_default() {
                digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        format!("{digest:016x}")
    }

    fn growth(&mut self) -> Result<(), String> {
        if !self.asked.wants("growth_cpu_1m") {
            return Ok(());
        }
        self.make_stock()?;
        let variants = ["at-none", "at-1m", "at-100k"];
        let series = self.series("growth_64", Pace::Instant, 64, &variants)?;
        let all = Series {
            kept: (0..series.rounds.len()).collect(),
            ..series
        };
        self.of_rounds("growth_cpu_1m", &all, Trust::Counted, |turn| {
            turn("at-1m").cpu() / turn("at-none").cpu()
        });
        let at_100k = median(all.each(|turn| turn("at-100k").cpu() / turn("at-none").cpu()));
        self.note("growth_cpu_100k".into(), at_100k, "ratio");
        for variant in variants {
            self.cast.dismiss(variant, Pace::Instant);
        }
        Ok(())
    }

    fn stock(&mut self) -> Result<(), String> {
        let wanted = ["open_ratio_1m", "find_1m_ms"].map(str::to_owned);
        if !self.wants_any(&wanted) {
            return Ok(());
        }
        self.make_stock()?;
        if self.asked.wants("open_ratio_1m") {
            eprintln!("open with 10,000 pending");
            let pids = self.cast.pids();
            let before = Load::now(&pids)?;
            let same = ratios(&self.ask_stock("open none none 6")?)?;
            let answer = self.ask_stock("open none 1m 12")?;
            let foreign = Load::now(&pids)?.foreign_since(&before);
            for found in answer["found"].as_array().into_iter().flatten() {
                if found.as_u64().is_none_or(|found| found < 10_000) {
                    return Err(format!("{found} of 10,000 pending were listed"));
                }
            }
            let (values, same) = (ratios(&answer)?, median(same));
            let steady = (0.85..=1.15).contains(&same);
            self.note("open_10k_pending_ms".into(), first(&answer)? / 1000.0, "ms");
            self.figure(Measured {
                name: "open_ratio_1m",
                value: median(values.clone()),
                trust: if steady {
                    Trust::Timed
                } else {
                    Trust::TooNoisy
                },
                spread: spread(&values),
                rounds_kept: values.len(),
                rounds: values.len(),
                foreign,
                same: Some(same),
            });
        }
        if self.asked.wants("find_1m_ms") {
            self.find()?;
        }
        Ok(())
    }

    /// A time, not a ratio: noise only makes it longer, so a pass needs no quiet.
    fn find(&mut self) -> Result<(), String> {
        eprintln!("find among 1,000,000");
        let pids = self.cast.pids();
        let before = Load::now(&pids)?;
        let answer = self.ask_stock("find 1m 7")?;
        let foreign = Load::now(&pids)?.foreign_since(&before);
        let values: Vec<f64> = numbers(&answer, "find_us")?
            .iter()
            .map(|us| us / 1000.0)
            .collect();
        let value = median(values.clone());
        let trusted = value <= 1000.0 || foreign <= MOST_FOREIGN;
        self.figure(Measured {
            name: "find_1m_ms",
            value,
            trust: if trusted {
                Trust::Timed
            } else {
                Trust::TooNoisy
            },
            spread: spread(&values),
            rounds_kept: values.len(),
            rounds: values.len(),
            foreign,
            same: None,
        });
        Ok(())
    }

    fn memory(&mut self) -> Result<(), String> {
        if !self.asked.wants("bytes_per_pending") {
            return Ok(());
        }
        eprintln!("memory of 10,000 pending");
        let folder = self.cast.fresh("memory")?;
        let output = Command::new(self.cast.program("memory"))
            .arg(folder)
            .arg("10000")
            .stderr(std::process::Stdio::inherit())
            .output()
            .map_err(|e| format!("`memory` cannot be started: {e}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let answer: Value = serde_json::from_str(text.trim())
            .map_err(|e| format!("`memory` says `{}`: {e}", text.trim()))?;
        let bytes = number(&answer, "bytes_per_pending")?;
        self.figure(Measured::counted("bytes_per_pending", bytes));
        Ok(())
    }
}

fn goal_name(name: &str) -> Option<&'static str> {
    let mut goals = crate::figures::GOALS.iter();
    goals.find(|goal| goal.name == name).map(|goal| goal.name)
}

fn number(answer: &Value, name: &str) -> Result<f64, String> {
    let found = answer.get(name).and_then(Value::as_f64);
    found.ok_or_else(|| format!("no `{name}` in {answer}"))
}

fn numbers(answer: &Value, name: &str) -> Result<Vec<f64>, String> {
    let found = answer.get(name).and_then(Value::as_array);
    let found = found.ok_or_else(|| format!("no `{name}` in {answer}"))?;
    Ok(found.iter().filter_map(Value::as_f64).collect())
}

/// The second time of each pair, measured by the first.
fn ratios(answer: &Value) -> Result<Vec<f64>, String> {
    let first = numbers(answer, "first_us")?;
    let second = numbers(answer, "second_us")?;
    Ok(second.iter().zip(&first).map(|(b, a)| b / a).collect())
}

fn first(answer: &Value) -> Result<f64, String> {
    numbers(answer, "first_us").map(median)
}

fn spread(values: &[f64]) -> (f64, f64) {
    let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (lowest, highest)
}

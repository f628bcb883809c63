//! A run in parts: one after another, each timed, up to the first that fails.

use crate::shell::Outcome;
use std::time::{Duration, Instant};

/// One part of a run.
pub(crate) struct Part {
    /// What the table calls it.
    pub(crate) name: &'static str,
    /// Does it.
    pub(crate) run: fn(&mut Tally) -> Outcome,
}

/// Tests counted on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

/// What a run came to.
pub(crate) struct Summary {
    times: Vec<(&'static str, Duration)>,
    /// The tests that ran.
    pub(crate) tally: Tally,
    /// Why it stopped, if it did not get to the end.
    pub(crate) failure: Option<String>,
}

/// Runs the parts in order.
pub(crate) fn run<'a>(parts: impl IntoIterator<Item = &'a Part>) -> Summary {
    let mut summary = Summary {
        times: Vec::new(),
        tally: Tally::default(),
        failure: None,
    };
    for part in parts {
        println!("\n== {}", part.name);
        let started = now();
        let outcome = (part.run)(&mut summary.tally);
        summary.times.push((part.name, started.elapsed()));
        if let Err(message) = outcome {
            summary.failure = Some(format!("part `{}` failed: {message}", part.name));
            break;
        }
    }
    summary
}

#[expect(
    clippy::disallowed_methods,
    reason = "a stopwatch for chores; nothing depends on it"
)]
fn now() -> Instant {
    Instant::now()
}

fn minutes(time: Duration) -> f64 {
    time.as_secs_f64() / 60.0
}

impl Summary {
    /// Minutes per part as a table, then the whole as a figure.
    pub(crate) fn report(&self, figure: &str) -> String {
        let width = self
            .times
            .iter()
            .map(|(name, _)| name.len())
            .max()
            .unwrap_or(0);
        let mut text = format!("\n{:<width$}  minutes\n", "part");
        for (name, time) in &self.times {
            text.push_str(&format!("{name:<width$}  {:>7.2}\n", minutes(*time)));
        }
        let total = self.times.iter().map(|(_, time)| *time).sum();
        text.push_str(&format!("figure {figure} {:.1} minutes\n", minutes(total)));
        text
    }

    /// The run's own outcome.
    pub(crate) fn outcome(self) -> Outcome {
        self.failure.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_stops_at_the_first_failure_and_says_which() {
        let parts = [
            Part {
                name: "counts",
                run: |tally| {
                    tally.passed += 3;
                    Ok(())
                },
            },
            Part {
                name: "breaks",
                run: |_| Err("it broke".into()),
            },
            Part {
                name: "never",
                run: |_| panic!("must not run"),
            },
        ];
        let summary = run(&parts);
        assert_eq!(summary.tally.passed, 3);
        let report = summary.report("test_minutes");
        assert!(
            report.contains("counts") && !report.contains("never"),
            "{report}"
        );
        assert!(
            report.ends_with("figure test_minutes 0.0 minutes\n"),
            "{report}"
        );
        assert_eq!(
            summary.outcome(),
            Err("part `breaks` failed: it broke".into())
        );
    }
}

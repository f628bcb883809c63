//! The figures, what each must reach, and how a measurement is judged.

use crate::series::rounded;
use serde_json::{Value, json};

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Higher,
    Lower,
}

/// What a figure must reach, and what is aimed for.
#[derive(Debug)]
pub(crate) struct Goal {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    pub(crate) must: f64,
    pub(crate) aim: f64,
}

const fn high(name: &'static str, must: f64, aim: f64) -> Goal {
    Goal {
        name,
        unit: "ratio",
        better: Better::Higher,
        must,
        aim,
    }
}

const fn low(name: &'static str, unit: &'static str, must: f64, aim: f64) -> Goal {
    Goal {
        name,
        unit,
        better: Better::Lower,
        must,
        aim,
    }
}

pub(crate) const GOALS: &[Goal] = &[
    high("share_1", 0.30, 0.40),
    high("share_16", 0.40, 0.53),
    high("share_64", 0.52, 0.80),
    high("share_256", 0.50, 0.80),
    high("share_5ms_16", 0.93, 0.97),
    high("share_5ms_64", 0.90, 0.97),
    low("added_p50_1", "ratio", 2.2, 1.5),
    low("syncs_per_op_1", "syncs", 1.04, 1.01),
    low("syncs_per_op_16", "syncs", 0.20, 0.12),
    low("syncs_per_op_64", "syncs", 0.08, 0.04),
    low("syncs_of_successes", "syncs", 0.0, 0.0),
    high("vs_effectum_1", 4.0, 7.0),
    high("vs_effectum_16", 4.0, 7.0),
    high("vs_effectum_64", 3.0, 4.5),
    high("vs_effectum_256", 2.5, 4.0),
    high("vs_naive_64", 25.0, 60.0),
    low("growth_cpu_1m", "ratio", 1.15, 1.05),
    low("open_ratio_1m", "ratio", 1.5, 1.1),
    low("find_1m_ms", "ms", 1000.0, 300.0),
    low("p99_64", "ratio", 3.0, 1.5),
    low("bytes_per_pending", "bytes", 4096.0, 1024.0),
    high("at_once_10000", 1.0, 1.0),
];

/// Whether any figure's name contains `part`.
pub(crate) fn is_known(part: &str) -> bool {
    GOALS.iter().any(|goal| goal.name.contains(part))
}

/// How far a figure can be trusted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Trust {
    /// It was counted.
    Counted,
    /// It was timed, and what should be the same was.
    Timed,
    /// It was timed while the machine was too busy to tell.
    TooNoisy,
}

/// What was measured of a figure.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
    pub(crate) trust: Trust,
    /// Lowest and highest of the rounds.
    pub(crate) spread: (f64, f64),
    pub(crate) rounds_kept: usize,
    pub(crate) rounds: usize,
    pub(crate) foreign: f64,
    /// The A/A ratio beside it, if it was timed.
    pub(crate) same: Option<f64>,
}

impl Measured {
    /// A count, which needs no rounds.
    pub(crate) fn counted(name: &'static str, value: f64) -> Measured {
        Measured {
            name,
            value,
            trust: Trust::Counted,
            spread: (value, value),
            rounds_kept: 1,
            rounds: 1,
            foreign: 0.0,
            same: None,
        }
    }
}

/// Pass, fail, or nothing that could be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// As good as is aimed for.
    Aim,
    Pass,
    Fail,
    TooNoisy,
}

impl Verdict {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verdict::Aim => "pass, aim reached",
            Verdict::Pass => "pass",
            Verdict::Fail => "FAIL",
            Verdict::TooNoisy => "too noisy",
        }
    }
}

impl Goal {
    fn reaches(&self, value: f64, bound: f64) -> bool {
        match self.better {
            Better::Higher => value >= bound,
            Better::Lower => value <= bound,
        }
    }

    /// A value that is no number reaches nothing.
    pub(crate) fn judge(&self, measured: &Measured) -> Verdict {
        if measured.trust == Trust::TooNoisy {
            Verdict::TooNoisy
        } else if !self.reaches(measured.value, self.must) {
            Verdict::Fail
        } else if self.reaches(measured.value, self.aim) {
            Verdict::Aim
        } else {
            Verdict::Pass
        }
    }

    /// For results.json.
    pub(crate) fn to_json(&self, measured: &Measured, commit: &str) -> Value {
        let verdict = self.judge(measured);
        json!({
            "name": self.name,
            "value": rounded(measured.value),
            "unit": self.unit,
            "must": self.must,
            "aim": self.aim,
            "better": match self.better { Better::Higher => "higher", Better::Lower => "lower" },
            "judged": verdict != Verdict::TooNoisy,
            "verdict": match verdict {
                Verdict::Aim | Verdict::Pass => "pass",
                Verdict::Fail => "fail",
                Verdict::TooNoisy => "too noisy",
            },
            "aim_reached": verdict == Verdict::Aim,
            "counted": measured.trust == Trust::Counted,
            "lowest": rounded(measured.spread.0),
            "highest": rounded(measured.spread.1),
            "rounds_kept": measured.rounds_kept,
            "rounds": measured.rounds,
            "foreign_cpu": rounded(measured.foreign),
            "same": measured.same.map(rounded),
            "commit": commit,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(name: &str) -> &'static Goal {
        let found = GOALS.iter().find(|goal| goal.name == name);
        found.expect("a goal")
    }

    fn judged(name: &'static str, value: f64) -> Verdict {
        goal(name).judge(&Measured::counted(name, value))
    }

    #[test]
    fn a_bound_belongs_to_the_good_side() {
        assert_eq!(judged("share_64", 0.80), Verdict::Aim);
        assert_eq!(judged("share_64", 0.52), Verdict::Pass);
        assert_eq!(judged("share_64", 0.519), Verdict::Fail);
        assert_eq!(judged("syncs_per_op_1", 1.01), Verdict::Aim);
        assert_eq!(judged("syncs_per_op_1", 1.04), Verdict::Pass);
        assert_eq!(judged("syncs_per_op_1", 1.041), Verdict::Fail);
    }

    #[test]
    fn not_one_sync_may_be_made_for_successes() {
        assert_eq!(judged("syncs_of_successes", 0.0), Verdict::Aim);
        assert_eq!(judged("syncs_of_successes", 1.0), Verdict::Fail);
    }

    #[test]
    fn what_is_no_number_fails() {
        assert_eq!(judged("share_1", f64::NAN), Verdict::Fail);
        assert_eq!(judged("find_1m_ms", f64::NAN), Verdict::Fail);
    }

    #[test]
    fn too_noisy_is_neither_pass_nor_fail() {
        for value in [0.0, 1.0] {
            let mut measured = Measured::counted("share_1", value);
            measured.trust = Trust::TooNoisy;
            assert_eq!(goal("share_1").judge(&measured), Verdict::TooNoisy);
        }
    }
}

//! What a run tells: a table, lines for machines, results.json and the picture.

use crate::figures::{Better, GOALS, Goal, Measured, Verdict};
use crate::plan::Brought;
use crate::series::rounded;
use crate::{Asked, picture};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Prints and writes everything. Says whether no judged figure missed its must.
pub(crate) fn tell(asked: &Asked, brought: &Brought) -> Result<bool, String> {
    let commit = commit(&asked.root);
    let file = asked.root.join("bench/results.json");
    let earlier = fs::read_to_string(&file)
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or(Value::Null);
    let results = results(asked, brought, &commit, &earlier);
    let text = serde_json::to_string_pretty(&results).map_err(|e| e.to_string())? + "\n";
    fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
    if let Some(drawn) = picture::draw(&results) {
        let file = asked.root.join("bench/results.svg");
        fs::write(&file, drawn).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    print!("{}", table(&brought.figures));
    for (name, value, unit) in &brought.notes {
        println!("figure {name} {} {unit}", rounded(*value));
    }
    for why in &brought.broken {
        println!("not measured: {why}");
    }
    let mut fine = brought.broken.is_empty();
    for measured in &brought.figures {
        let Some(goal) = goal_of(measured) else {
            continue;
        };
        let verdict = goal.judge(measured);
        fine &= verdict != Verdict::Fail;
        let value = rounded(measured.value);
        println!("figure {} {value} {}", goal.name, goal.unit);
    }
    Ok(fine)
}

fn goal_of(measured: &Measured) -> Option<&'static Goal> {
    GOALS.iter().find(|goal| goal.name == measured.name)
}

fn table(figures: &[Measured]) -> String {
    let mut text = format!(
        "\n{:<20} {:>9}  {:>8} {:>7}  {:>17}  {:>6}  {:>7}  verdict\n",
        "figure", "value", "must", "aim", "spread", "rounds", "foreign"
    );
    for measured in figures {
        let Some(goal) = goal_of(measured) else {
            continue;
        };
        let sign = match goal.better {
            Better::Higher => "≥",
            Better::Lower => "≤",
        };
        let (low, high) = measured.spread;
        let spread = format!("{}..{}", rounded(low), rounded(high));
        let rounds = format!("{}/{}", measured.rounds_kept, measured.rounds);
        text.push_str(&format!(
            "{:<20} {:>9}  {sign} {:>6} {:>7}  {spread:>17}  {rounds:>6}  {:>5.0} %  {}\n",
            goal.name,
            rounded(measured.value),
            goal.must,
            goal.aim,
            measured.foreign * 100.0,
            goal.judge(measured).word()
        ));
    }
    text.push('\n');
    text
}

/// This run's results; what it could not judge, or did not run, stays as an earlier run of the same
/// commit judged it.
fn results(asked: &Asked, brought: &Brought, commit: &str, earlier: &Value) -> Value {
    let mut figures = Vec::new();
    for goal in GOALS {
        let now = brought.figures.iter().find(|m| m.name == goal.name);
        let now = now.map(|measured| goal.to_json(measured, commit));
        let before = list(earlier, "figures")
            .find(|old| old["name"] == goal.name)
            .filter(|old| old["commit"] == commit && !commit.ends_with('+'));
        match (now, before) {
            (Some(now), Some(before)) if now["judged"] == false => {
                let keep = before["judged"] == true;
                figures.push(if keep { before.clone() } else { now });
            }
            (Some(now), _) => figures.push(now),
            (None, Some(before)) => figures.push(before.clone()),
            (None, None) => {}
        }
    }
    let mut series: Vec<Value> = brought
        .series
        .iter()
        .map(crate::series::Series::to_json)
        .collect();
    for old in list(earlier, "series") {
        let same_commit = earlier["commit"] == commit && !commit.ends_with('+');
        if same_commit && series.iter().all(|new| new["name"] != old["name"]) {
            series.push(old.clone());
        }
    }
    let notes: serde_json::Map<String, Value> = brought
        .notes
        .iter()
        .map(|(name, value, unit)| {
            (
                name.clone(),
                json!({"value": rounded(*value), "unit": unit}),
            )
        })
        .collect();
    json!({
        "commit": commit,
        "size": if asked.quick { "quick" } else { "full" },
        "machine": machine(asked),
        "figures": figures,
        "series": series,
        "notes": notes,
    })
}

fn list<'a>(results: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    results[name].as_array().into_iter().flatten()
}

/// The commit, with a plus if the tree has changes.
fn commit(root: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(root)
            .output();
        output
            .ok()
            .filter(|output| output.status.success())
            .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown+".into();
    };
    let changed = git(&["status", "--porcelain", "--", ":!bench/results.*"]);
    match changed.as_deref() {
        Some("") => commit,
        _ => commit + "+",
    }
}

/// What kind of machine it was; nothing that tells whose.
fn machine(asked: &Asked) -> Value {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let memory = read("/proc/meminfo");
    let kilobytes = memory
        .split_whitespace()
        .nth(1)
        .and_then(|k| k.parse::<f64>().ok());
    let rustc = Command::new("rustc").arg("--version").output().ok();
    let rustc = rustc.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    json!({
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "memory_gib": kilobytes.map(|k| (k / 1024.0 / 1024.0).round()),
        "kernel": read("/proc/sys/kernel/osrelease").split('-').next().unwrap_or("").trim(),
        "file_system": crate::cast::file_system(&asked.target),
        "rustc": rustc.unwrap_or_default().split_whitespace().nth(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Trust;

    fn asked() -> Asked {
        Asked {
            quick: true,
            only: Vec::new(),
            instructions: false,
            bless: false,
            target: std::env::temp_dir(),
            root: std::env::temp_dir(),
        }
    }

    fn run(value: f64, trust: Trust) -> Brought {
        let mut measured = Measured::counted("share_1", value);
        measured.trust = trust;
        Brought {
            figures: vec![measured],
            ..Brought::default()
        }
    }

    fn value(results: &Value) -> f64 {
        results["figures"][0]["value"].as_f64().expect("a value")
    }

    #[test]
    fn a_noisy_run_does_not_replace_what_the_same_commit_was_judged_by() {
        let judged = results(&asked(), &run(0.4, Trust::Timed), "abc", &Value::Null);
        let noisy = run(0.1, Trust::TooNoisy);
        assert_eq!(value(&results(&asked(), &noisy, "abc", &judged)), 0.4);
        assert_eq!(value(&results(&asked(), &noisy, "def", &judged)), 0.1);
        let worse = run(0.2, Trust::Timed);
        assert_eq!(value(&results(&asked(), &worse, "abc", &judged)), 0.2);
    }

    #[test]
    fn a_tree_with_changes_inherits_nothing() {
        let judged = results(&asked(), &run(0.4, Trust::Timed), "abc+", &Value::Null);
        let noisy = run(0.1, Trust::TooNoisy);
        assert_eq!(value(&results(&asked(), &noisy, "abc+", &judged)), 0.1);
    }

    #[test]
    fn the_table_names_what_fails() {
        let told = table(&run(0.1, Trust::Timed).figures);
        assert!(told.contains("share_1") && told.contains("FAIL"), "{told}");
        let told = table(&run(0.1, Trust::TooNoisy).figures);
        assert!(
            !told.contains("FAIL") && told.contains("too noisy"),
            "{told}"
        );
    }
}

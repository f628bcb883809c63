//! Instructions per small part, counted below callgrind: the one measure of speed that does not
//! depend on the machine, and so a gate for every change.
//!
//! Each case is run with one count and with twice as many; the difference leaves out the start of
//! the process and everything that is only got ready.

use crate::Asked;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// More than this much above the baseline fails.
const ALLOWED: f64 = 0.05;
/// How often a case is done in the shorter run.
const TIMES: u64 = 400;
/// A function is noted if it takes at least this share of its case.
const NOTED: f64 = 0.01;
/// What depends on when which thread had its turn, and so on the machine.
///
/// How long SQLite's log is when a page is looked up in its index depends on when the copying thread
/// came: a walk through that index took from 15,000 to 37,000 instructions of 180,000. How the allocator
/// mends its lists depends on which thread gave back what, and when; the calls themselves are counted.
const BY_CHANCE: &[&str] = &[
    "_int_malloc",
    "_int_realloc",
    "malloc_consolidate",
    "sqlite3WalCheckpoint",
    "sqlite3WalFindFrame",
    "unlink_chunk",
    "walCheckpoint",
    "walCleanupHash",
    "walFindFrame",
    "walIndexAppend",
    "walIteratorInit",
    "walIteratorNext",
    "walMerge",
    "walMergesort",
];

/// Instructions of one case: by function, and in all.
type Counts = BTreeMap<String, u64>;

/// Counts every case and compares with the baseline, or writes it. Says whether all is well.
pub(crate) fn run(asked: &Asked) -> Result<bool, String> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("SKIPPED: valgrind is not installed, so no instruction was counted");
        return Ok(true);
    }
    let file = asked.root.join("bench/instructions.json");
    let program = asked.target.join("release/parts");
    let listed = output(Command::new(&program).arg("--list"))?;
    let mut found = Map::new();
    for case in listed.lines().filter(|case| asked.wants(case)) {
        eprintln!("counting {case}");
        let counts = count(asked, &program, case)?;
        let total: u64 = counts.values().sum();
        println!("figure instructions_{case} {total} instructions");
        let noted: Map<String, Value> = counts
            .iter()
            .filter(|(_, n)| **n as f64 >= NOTED * total as f64)
            .map(|(name, n)| (name.clone(), json!(n)))
            .collect();
        found.insert(case.to_owned(), json!({"total": total, "functions": noted}));
    }
    let found = json!({"rustc": rustc(), "cases": found});
    if asked.bless {
        let text = serde_json::to_string_pretty(&found).map_err(|e| e.to_string())? + "\n";
        fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
        println!("the baseline is written");
        return Ok(true);
    }
    let baseline = fs::read_to_string(&file)
        .map_err(|e| format!("there is no baseline ({e}); write one with --bless"))?;
    let baseline: Value = serde_json::from_str(&baseline).map_err(|e| e.to_string())?;
    let grown = grown(&baseline, &found);
    for line in &grown {
        println!("{line}");
    }
    if baseline["rustc"] != found["rustc"] {
        println!(
            "the baseline was counted with rustc {}, this is {}: nothing is judged",
            baseline["rustc"], found["rustc"]
        );
        return Ok(true);
    }
    Ok(grown.is_empty())
}

/// A sentence for each case that grew too much, with the functions that grew most.
fn grown(baseline: &Value, found: &Value) -> Vec<String> {
    let mut said = Vec::new();
    for (case, now) in found["cases"].as_object().into_iter().flatten() {
        let Some(before) = baseline["cases"][case]["total"].as_f64() else {
            said.push(format!(
                "{case} is not in the baseline; write it with --bless"
            ));
            continue;
        };
        let total = now["total"].as_f64().unwrap_or(f64::INFINITY);
        if total <= before * (1.0 + ALLOWED) {
            continue;
        }
        let mut functions: Vec<(&String, f64)> = now["functions"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, count)| {
                let old = baseline["cases"][case]["functions"][name].as_f64();
                (name, count.as_f64().unwrap_or(0.0) - old.unwrap_or(0.0))
            })
            .filter(|(_, more)| *more > 0.0)
            .collect();
        functions.sort_by(|a, b| b.1.total_cmp(&a.1));
        let named: Vec<String> = functions
            .iter()
            .take(5)
            .map(|(name, more)| format!("{name} (+{more})"))
            .collect();
        said.push(format!(
            "{case} takes {total} instructions, {:.1} % more than {before}: {}",
            (total / before - 1.0) * 100.0,
            named.join(", ")
        ));
    }
    said
}

/// Instructions per go, by function.
fn count(asked: &Asked, program: &Path, case: &str) -> Result<Counts, String> {
    let few = profile(asked, program, case, TIMES)?;
    let many = profile(asked, program, case, 2 * TIMES)?;
    Ok(per_go(&few, &many))
}

fn per_go(few: &Counts, many: &Counts) -> Counts {
    many.iter()
        .map(|(name, n)| {
            let more = n.saturating_sub(few.get(name).copied().unwrap_or(0));
            (name.clone(), (more + TIMES / 2) / TIMES)
        })
        .filter(|(_, n)| *n > 0)
        .collect()
}

fn profile(asked: &Asked, program: &Path, case: &str, times: u64) -> Result<Counts, String> {
    let folder = asked.target.join("bench/instructions");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let out = folder.join("callgrind.out");
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--quiet", "--compress-strings=no"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .args([case, &times.to_string()])
        .arg(&folder);
    // The same surroundings everywhere: they lie on the stack and shift what lies below.
    valgrind
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin");
    output(&mut valgrind)?;
    let text = fs::read_to_string(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    let mut costs = own_costs(&text);
    costs.retain(|function, _| !depends_on_chance(function));
    Ok(costs)
}

/// The compiler may have cut a function in parts, which it marks behind a dot.
fn depends_on_chance(function: &str) -> bool {
    let name = function.split('.').next().unwrap_or(function);
    BY_CHANCE.contains(&name)
}

fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("`{name}` cannot be started: {e}"))?;
    if !output.status.success() {
        return Err(format!("`{name}` failed ({})", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Each function's own instructions; a line after `calls=` is what the callee took.
fn own_costs(profile: &str) -> Counts {
    let mut costs = Counts::new();
    let (mut function, mut of_callee) = ("", false);
    for line in profile.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            function = name;
        } else if line.starts_with("calls=") {
            of_callee = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
            let cost: Option<u64> = line.split_whitespace().nth(1).and_then(|n| n.parse().ok());
            if let (Some(cost), false) = (cost, of_callee) {
                *costs.entry(plain(function)).or_insert(0) += cost;
            }
            of_callee = false;
        }
    }
    costs
}

/// Without the hash that ends a mangled name, which changes with every change of the crate.
fn plain(name: &str) -> String {
    let name = name.split('\'').next().unwrap_or(name);
    match name.rsplit_once("::h") {
        Some((plain, hash)) if hash.len() == 16 => plain.to_owned(),
        _ => name.to_owned(),
    }
}

fn rustc() -> String {
    let version = Command::new("rustc").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version = version.unwrap_or_default();
    version
        .split_whitespace()
        .nth(1)
        .unwrap_or("unknown")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = "events: Ir\n\nfl=a.rs\nfn=a::b::h0123456789abcdef\n10 100\n+2 20\n\
        cfn=c\ncalls=3 5\n12 900\n* 5\n\nfn=c\n5 900\n";

    #[test]
    fn a_functions_own_instructions_leave_out_its_callees() {
        let costs = own_costs(PROFILE);
        assert_eq!(costs["a::b"], 125);
        assert_eq!(costs["c"], 900);
    }

    #[test]
    fn the_start_of_the_process_is_left_out() {
        let counts = |start: u64, each: u64, times: u64| {
            let work = ("work".to_owned(), each * times);
            Counts::from([("start".to_owned(), start), work])
        };
        let per_go = per_go(&counts(5000, 7, TIMES), &counts(5000, 7, 2 * TIMES));
        assert_eq!(per_go, Counts::from([("work".to_owned(), 7)]));
    }

    fn counted(total: u64, a: u64, b: u64) -> Value {
        json!({"cases": {"case": {"total": total, "functions": {"a": a, "b": b}}}})
    }

    #[test]
    fn what_grew_by_more_than_a_twentieth_is_named() {
        let baseline = counted(1000, 600, 400);
        assert_eq!(grown(&baseline, &counted(1050, 650, 400)), [""; 0]);
        let said = grown(&baseline, &counted(1060, 600, 460));
        assert_eq!(said.len(), 1);
        assert!(
            said[0].contains("b (+60)") && !said[0].contains("a (+"),
            "{said:?}"
        );
    }

    #[test]
    fn what_depends_on_the_turns_of_threads_is_left_out() {
        assert!(depends_on_chance("walIndexAppend"));
        assert!(depends_on_chance("walIteratorInit.constprop.0"));
        assert!(!depends_on_chance("walChecksumBytes") && !depends_on_chance("malloc"));
        assert!(!depends_on_chance("sqlite3WalFrames"));
    }

    #[test]
    fn a_case_without_a_baseline_is_named() {
        let said = grown(&json!({"cases": {}}), &counted(1, 1, 0));
        assert!(said[0].contains("--bless"), "{said:?}");
    }
}

//! Licences, bans and sources of the dependencies.
//!
//! cargo-deny does all of it and the advisories too. Where it is not installed, the rules of
//! deny.toml that need no outside data are checked here, so that nobody has to build it first.

use crate::shell::{Outcome, cargo, installed, output, root, run as sh};
use std::fs;

/// Checks with cargo-deny, else without it.
pub(crate) fn run() -> Outcome {
    if installed("cargo-deny") {
        return sh(&mut cargo(&["deny", "--all-features", "check"]));
    }
    let read = |name: &str| {
        fs::read_to_string(root().join(name)).map_err(|e| format!("cannot read {name}: {e}"))
    };
    let rules = Rules::read(&read("deny.toml")?)?;
    let mut found = check_lock(&read("Cargo.lock")?, &rules.banned);
    let mut tree = vec![
        "tree",
        "--locked",
        "--workspace",
        "--all-features",
        "--target",
        "all",
    ];
    tree.extend(["--prefix", "none", "--format", "{p}\t{l}"]);
    found.extend(check_licences(&output(&mut cargo(&tree))?, &rules.licences));
    println!("cargo-deny is not installed: advisories were not looked up");
    if found.is_empty() {
        println!("licences, bans and sources are in order");
        return Ok(());
    }
    for finding in &found {
        println!("deny: {finding}");
    }
    Err(format!(
        "{} dependency finding(s), listed above",
        found.len()
    ))
}

/// What deny.toml rules.
#[derive(Debug, PartialEq, Eq)]
struct Rules {
    licences: Vec<String>,
    banned: Vec<String>,
}

impl Rules {
    fn read(text: &str) -> Result<Rules, String> {
        let quoted = |text: &str| {
            text.split('"')
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect()
        };
        let licences: Vec<String> = list(section(text, "licenses"), "allow")
            .map(quoted)
            .unwrap_or_default();
        let banned: Vec<String> = list(section(text, "bans"), "deny")
            .unwrap_or_default()
            .split("crate")
            .skip(1)
            .filter_map(|rest| rest.split('"').nth(1).map(str::to_owned))
            .collect();
        if licences.is_empty() || banned.is_empty() {
            return Err("deny.toml allows no licence or bans no crate: is it damaged?".into());
        }
        Ok(Rules { licences, banned })
    }
}

fn section<'a>(text: &'a str, name: &str) -> &'a str {
    let head = format!("\n[{name}]\n");
    let rest = text.find(&head).map_or("", |at| &text[at + head.len()..]);
    &rest[..rest.find("\n[").unwrap_or(rest.len())]
}

fn list<'a>(section: &'a str, name: &str) -> Option<&'a str> {
    let start = section.find(&format!("{name} = ["))?;
    let rest = &section[start..];
    Some(&rest[..rest.find("\n]").or_else(|| rest.find(']'))?])
}

/// Banned crates, and crates from anywhere but the public registry.
fn check_lock(lock: &str, banned: &[String]) -> Vec<String> {
    let value = |line: &str, name: &str| {
        let rest = line.strip_prefix(name)?.strip_prefix(" = \"")?;
        rest.strip_suffix('"').map(str::to_owned)
    };
    let mut found = Vec::new();
    let mut package = String::new();
    for line in lock.lines() {
        if let Some(name) = value(line, "name") {
            if banned.contains(&name) {
                found.push(format!("`{name}` is banned"));
            }
            package = name;
        } else if let Some(source) = value(line, "source")
            && !(source.starts_with("registry+") && source.ends_with("/crates.io-index"))
        {
            found.push(format!("`{package}` comes from elsewhere: {source}"));
        }
    }
    found
}

/// Lines of `package<TAB>licence` whose licence is not allowed.
fn check_licences(tree: &str, allowed: &[String]) -> Vec<String> {
    let mut found: Vec<String> = tree
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(package, licence)| (package, licence.trim_end_matches(" (*)")))
        .filter(|(_, licence)| !is_allowed(licence, allowed))
        .map(|(package, licence)| {
            let package = package.split(" (").next().unwrap_or(package);
            format!("{package} is under {licence:?}, which deny.toml does not allow")
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Whether an expression like `(MIT OR Apache-2.0) AND Unicode-3.0` can be met.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    any_of(&words, &mut at, allowed) == Some(true) && at == words.len()
}

/// `None` where the expression makes no sense.
fn any_of(words: &[&str], at: &mut usize, allowed: &[String]) -> Option<bool> {
    let mut met = all_of(words, at, allowed)?;
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all_of(words, at, allowed)?;
    }
    Some(met)
}

fn all_of(words: &[&str], at: &mut usize, allowed: &[String]) -> Option<bool> {
    let mut met = one_of(words, at, allowed)?;
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one_of(words, at, allowed)?;
    }
    Some(met)
}

fn one_of(words: &[&str], at: &mut usize, allowed: &[String]) -> Option<bool> {
    let word = words.get(*at)?;
    *at += 1;
    if *word == "(" {
        let met = any_of(words, at, allowed)?;
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return closed.then_some(met);
    }
    let mut licence = (*word).to_owned();
    if words.get(*at) == Some(&"WITH") {
        licence = format!("{word} WITH {}", words.get(*at + 1)?);
        *at += 2;
    }
    Some(allowed.contains(&licence))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        let text = fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
        Rules::read(&text).expect("its rules")
    }

    #[test]
    fn the_rules_are_read_from_the_file() {
        let rules = rules();
        assert_eq!(rules.banned, ["backoff", "instant"]);
        assert!(rules.licences.contains(&"MIT".into()));
        assert!(!rules.licences.iter().any(|l| l.contains("GPL")));
        assert!(Rules::read("[licenses]\nallow = []\n").is_err());
    }

    #[test]
    fn a_banned_crate_and_a_foreign_source_are_found() {
        let lock = "[[package]]\nname = \"NAME\"\nversion = \"1.0.0\"\nsource = \"SOURCE\"\n";
        let here = "registry+https://registry.example/crates.io-index";
        let planted = |name: &str, source: &str| {
            let text = lock.replace("NAME", name).replace("SOURCE", source);
            check_lock(&text, &rules().banned).len()
        };
        assert_eq!(planted("backon", here), 0);
        assert_eq!(planted("backoff", here), 1);
        assert_eq!(planted("instant", here), 1);
        assert_eq!(planted("backon", "git+https://example.com/backon#1234"), 1);
        assert_eq!(
            planted("backon", "registry+https://example.com/other-index"),
            1
        );
    }

    #[test]
    fn licence_expressions_are_read_as_written() {
        let allowed = rules().licences;
        for fine in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
            "Apache-2.0 AND ISC",
        ] {
            assert!(is_allowed(fine, &allowed), "{fine}");
        }
        for bad in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR Apache-2.0) AND GPL-3.0",
            "MIT OR",
            "(MIT",
            "MIT MIT",
            "MIT WITH GPL-exception",
        ] {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
        let tree = "a v1.0.0\tMIT\nb v1.0.0\tGPL-3.0\nb v1.0.0\tGPL-3.0 (*)\nc v1.0.0\t\n";
        assert_eq!(check_licences(tree, &allowed).len(), 2);
    }
}

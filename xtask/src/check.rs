//! `cargo xtask check`: everything that is found without running the code.
//!
//! Only the workspace with all features is ever built here and in the tests; the other sets of
//! features are checked, not built, so that no tree is compiled for them.

use crate::parts::{self, Part};
use crate::setup::{WASM, wasm_target};
use crate::shell::{Outcome, cargo, output, root, run as sh};
use crate::{Stop, deny, tidy};

/// What `check` does, in order: the quick and the likely first.
pub(crate) const PARTS: &[Part] = &[
    Part {
        name: "format",
        run: |_| sh(&mut cargo(&["fmt", "--all", "--", "--check"])),
    },
    Part {
        name: "tidy",
        run: |_| tidy::run(),
    },
    Part {
        name: "deny",
        run: |_| deny::run(),
    },
    Part {
        name: "light-core",
        run: |_| light_core(),
    },
    Part {
        name: "lints",
        run: |_| lints(),
    },
    Part {
        name: "docs",
        run: |_| docs(),
    },
    Part {
        name: "features",
        run: |_| features(),
    },
    Part {
        name: "wasm-core",
        run: |_| wasm_core(),
    },
];

/// Crates that the core must do without.
const HEAVY: &[&str] = &["tokio", "hyper", "rusqlite", "web-sys", "http", "url"];

/// Runs every part, or those that are named.
pub(crate) fn run(names: &[String]) -> Result<(), Stop> {
    if let Some(unknown) = names.iter().find(|n| PARTS.iter().all(|p| p.name != *n)) {
        let known: Vec<&str> = PARTS.iter().map(|p| p.name).collect();
        let known = known.join(", ");
        return Err(Stop::Usage(format!(
            "no part is called `{unknown}`; there are {known}"
        )));
    }
    let asked = |part: &&Part| names.is_empty() || names.iter().any(|n| n == part.name);
    let summary = parts::run(PARTS.iter().filter(asked));
    print!("{}", summary.report("check_minutes"));
    Ok(summary.outcome()?)
}

fn lints() -> Outcome {
    let all = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "-D",
        "warnings",
    ];
    sh(&mut cargo(&all))
}

fn docs() -> Outcome {
    let all = ["doc", "--workspace", "--all-features", "--no-deps"];
    sh(cargo(&all).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Nothing heavy in the core's tree, neither natively nor in the browser.
fn light_core() -> Outcome {
    for target in [None, Some(WASM)] {
        let mut arguments = vec!["tree", "--package", "samekey", "--edges", "normal"];
        arguments.extend(["--no-default-features", "--prefix", "none"]);
        arguments.extend(target.iter().flat_map(|target| ["--target", target]));
        let tree = output(&mut cargo(&arguments))?;
        let found = heavy(&tree);
        if !found.is_empty() {
            let list = found.join(", ");
            return Err(format!("the core without features depends on {list}"));
        }
    }
    println!("none of {} in the core's tree", HEAVY.join(", "));
    Ok(())
}

fn heavy(tree: &str) -> Vec<&'static str> {
    let named = |name: &str| {
        tree.lines()
            .any(|line| line.split(' ').next() == Some(name))
    };
    HEAVY.iter().copied().filter(|name| named(name)).collect()
}

/// Every feature alone, none, and the default ones together with the examples that they must carry.
fn features() -> Outcome {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml"))
        .map_err(|e| format!("cannot read Cargo.toml: {e}"))?;
    let names = feature_names(&manifest);
    if names.is_empty() {
        return Err("found no features in Cargo.toml".into());
    }
    sh(&mut cargo(&[
        "check",
        "--package",
        "samekey",
        "--no-default-features",
    ]))?;
    for name in &names {
        let alone = [
            "check",
            "--package",
            "samekey",
            "--no-default-features",
            "--features",
            name,
        ];
        sh(&mut cargo(&alone))?;
    }
    sh(&mut cargo(&[
        "check",
        "--package",
        "samekey",
        "--lib",
        "--examples",
    ]))
}

fn feature_names(manifest: &str) -> Vec<&str> {
    manifest
        .lines()
        .skip_while(|line| line.trim() != "[features]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once('=').map(|(name, _)| name.trim()))
        .filter(|name| *name != "default" && !name.starts_with('#'))
        .collect()
}

fn wasm_core() -> Outcome {
    wasm_target()?;
    let bare = [
        "check",
        "--package",
        "samekey",
        "--no-default-features",
        "--target",
        WASM,
    ];
    sh(&mut cargo(&bare))?;
    sh(cargo(&bare).args(["--features", "json"]))?;
    let page = ["clippy", "--package", "samekey-wasm", "--target", WASM];
    sh(cargo(&page).args(["--features", "conformance", "--", "-D", "warnings"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heavy_crate_is_found_by_its_whole_name() {
        let tree = "samekey v0.1.0\nhttpdate v1.0.3\nserde v1.0.0 (*)\n";
        assert_eq!(heavy(tree), [""; 0]);
        assert_eq!(
            heavy(&format!("{tree}http v1.3.1\nurl v2.5.0\n")),
            ["http", "url"]
        );
    }

    #[test]
    fn the_features_are_those_of_the_manifest() {
        let manifest = "[package]\nname = \"x\"\n[features]\n# A = comment\ndefault = [\"a\"]\n\
                        a = []\nb-c = [\"dep:y\"]\n\n[dependencies]\ny = \"1\"\n";
        assert_eq!(feature_names(manifest), ["a", "b-c"]);
        assert_eq!(feature_names("[package]"), [""; 0]);
    }
}

//! Fuzzing: every parser that reads what a stranger sent or a disk gave back, with the rules that
//! must hold for any bytes at all.
//!
//! A [`Target`] is a pure function over bytes. `cargo test` runs its corpus, every input that once
//! failed included, and a short seeded campaign; `cargo xtask fuzz` runs a long one, in a build that
//! counts branches: what reaches a new one joins the corpus of the run. Without counters, what behaves
//! in a new way does. Each target has a twin with a planted bug, and the same campaign has to find it.
#![deny(unsafe_code)]

mod canonical;
pub mod coverage;
mod entry;
pub mod maze;
mod mutate;
mod problem;
mod profile;
mod reference;
mod retry_after;

use coverage::Reached;
use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// What one input came to: a number that stands for what was seen, or the rule that broke.
pub type Check = Result<u64, String>;

/// One parser and its rules.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, and that of its folder of seeds.
    pub name: &'static str,
    /// The rules, over the library as it is.
    pub check: fn(&[u8]) -> Check,
    /// The same rules over broken copies: each must fail.
    pub planted: &'static [fn(&[u8]) -> Check],
    /// Words that an input is likely to be made of.
    pub words: &'static [&'static str],
    /// Seeds that are better made than written down.
    made: fn() -> Vec<Vec<u8>>,
}

/// Every target.
pub const TARGETS: [Target; 6] = [
    canonical::TARGET,
    entry::TARGET,
    problem::TARGET,
    profile::TARGET,
    reference::TARGET,
    retry_after::TARGET,
];

/// An input that breaks a rule.
#[derive(Clone, Debug)]
pub struct Broken {
    /// As small as it could be made.
    pub input: Vec<u8>,
    /// The rule.
    pub why: String,
}

impl Target {
    /// The target of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Target> {
        TARGETS.into_iter().find(|target| target.name == name)
    }

    /// Where its seeds lie.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(self.name)
    }

    /// Every seed, in an order that does not change: those that are made, then the files.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn seeds(&self) -> Result<Vec<Vec<u8>>, String> {
        let folder = self.folder();
        let unreadable = |error: std::io::Error| format!("{}: {error}", folder.display());
        let files = fs::read_dir(&folder).map_err(unreadable)?;
        let mut paths: Vec<PathBuf> = files
            .map(|file| file.map(|file| file.path()))
            .collect::<Result<_, _>>()
            .map_err(unreadable)?;
        paths.sort();
        let mut seeds = (self.made)();
        for path in paths {
            seeds.push(fs::read(&path).map_err(unreadable)?);
        }
        Ok(seeds)
    }

    /// Keeps a failing input, so that every later test run tries it again.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&self, broken: &Broken) -> Result<PathBuf, String> {
        let path = self
            .folder()
            .join(format!("once-broken-{:016x}", shape(&broken.input)));
        fs::write(&path, &broken.input).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }
}

/// One check; a panic breaks the first rule of all.
fn tried(check: fn(&[u8]) -> Check, input: &[u8]) -> Check {
    catch_unwind(AssertUnwindSafe(|| check(input)))
        .unwrap_or_else(|_| Err("no input makes it panic".to_owned()))
}

/// How far a campaign came that broke nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Inputs tried.
    pub runs: u64,
    /// Those that showed something new, the seeds among them.
    pub kept: usize,
    /// Branches reached, in a build that counts them.
    pub edges: usize,
}

/// Mutates the seeds until `go_on` says no or a rule breaks. Inputs that show something new become
/// seeds themselves.
///
/// # Errors
/// The input that broke a rule.
pub fn campaign(
    target: Target,
    check: fn(&[u8]) -> Check,
    seeds: Vec<Vec<u8>>,
    seed: u64,
    mut go_on: impl FnMut(u64) -> bool,
) -> Result<Ended, Broken> {
    let mut pool = mutate::Pool::new(seed, target.words, seeds);
    let (mut seen, mut reached) = (HashSet::new(), Reached::default());
    let guided = coverage::is_measured();
    let (mut runs, mut kept) = (0, 0);
    while go_on(runs) {
        let input = pool.next_input();
        runs += 1;
        Reached::reset();
        let result = tried(check, &input);
        let new_edges = reached.add();
        match result {
            Ok(shape) => {
                let new = if guided {
                    new_edges
                } else {
                    seen.insert(shape)
                };
                if new && kept < 20_000 {
                    kept += 1;
                    pool.add(input);
                }
            }
            Err(why) => {
                return Err(Broken {
                    input: smaller(check, input),
                    why,
                });
            }
        }
    }
    Ok(Ended {
        runs,
        kept,
        edges: reached.edges(),
    })
}

/// The same failure with as little as possible around it.
fn smaller(check: fn(&[u8]) -> Check, mut input: Vec<u8>) -> Vec<u8> {
    let mut cut = input.len() / 2;
    while cut > 0 {
        let mut at = 0;
        while at < input.len() {
            let mut less = input.clone();
            less.drain(at..(at + cut).min(input.len()));
            if tried(check, &less).is_err() {
                input = less;
            } else {
                at += cut;
            }
        }
        cut /= 2;
    }
    input
}

/// A number that stands for what was seen.
fn shape(seen: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    seen.hash(&mut hasher);
    hasher.finish()
}

/// Breaks a rule unless it holds.
fn rule(holds: bool, text: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(text.to_owned()) }
}

/// Seeds as texts.
fn texts(seeds: &[&str]) -> Vec<Vec<u8>> {
    seeds.iter().map(|text| text.as_bytes().to_vec()).collect()
}

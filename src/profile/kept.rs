//! Profiles that a program builds, kept for as long as it runs: those built in need no memory of
//! their own, and an entry's profile is one word. What is built twice is kept once.

use super::{Fact, Rules};
use std::sync::{Mutex, MutexGuard, PoisonError};

type Known = (&'static Rules, &'static [Fact]);

static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

fn known() -> MutexGuard<'static, Vec<Known>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The one copy of these rules.
pub(super) fn kept(rules: Rules, facts: Vec<Fact>) -> &'static Rules {
    let mut known = known();
    let same = |(theirs, said): &&Known| **theirs == rules && **said == *facts;
    if let Some((rules, _)) = known.iter().find(same) {
        return rules;
    }
    let rules: &'static Rules = Box::leak(Box::new(rules));
    known.push((rules, facts.leak()));
    rules
}

/// What was said when these rules were built.
pub(super) fn facts(rules: &'static Rules) -> &'static [Fact] {
    if !cfg!(feature = "facts") {
        return &[];
    }
    let mut known = known();
    let same = |(theirs, _): &&Known| std::ptr::eq(*theirs, rules);
    if let Some((_, facts)) = known.iter().find(same) {
        return facts;
    }
    let facts = super::builtin::said(&rules.name).facts.leak();
    known.push((rules, facts));
    facts
}

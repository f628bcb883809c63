//! The tests about the tests: nothing that should be proven is left out.

use samekey_mock::Naughty;

const SOURCES: &[&str] = &[
    include_str!("checklist.rs"),
    include_str!("duties/keys.rs"),
    include_str!("duties/life.rs"),
    include_str!("duties/operations.rs"),
    include_str!("faults.rs"),
    include_str!("page.rs"),
    include_str!("program.rs"),
    include_str!("../../src/engine/tests.rs"),
    include_str!("../../src/fingerprint/tests.rs"),
];

#[test]
fn every_duty_from_m01_to_m32_stands_in_the_name_of_a_test() {
    for number in 1..=32 {
        let tag = format!("m{number:02}_");
        let named = |source: &&str| {
            source
                .split_whitespace()
                .any(|word| word.starts_with(&tag) || word.contains(&format!("_{tag}")))
        };
        assert!(SOURCES.iter().any(named), "no test is named after {tag}");
    }
}

#[test]
fn every_switch_is_proven_by_a_test_that_it_breaks() {
    let naughty = include_str!("../../src/naughty.rs");
    let checklist = naughty
        .split_once("fn broken_by")
        .map_or("", |(_, rest)| rest);
    for switch in Naughty::ALL {
        let name = format!("Naughty::{switch:?}");
        let in_list = checklist.contains(&name);
        let in_test = SOURCES.iter().any(|s| s.contains(&name));
        assert!(in_list || in_test, "nothing notices `{switch}`");
    }
}

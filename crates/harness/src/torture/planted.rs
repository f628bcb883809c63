//! Bugs let out in real clients, journals and transports; each must turn a gate red that is named for it.

use super::kills::{self, Plan};
use super::tools::{Res, figure, now};
use super::{cuts, disk, flips};
use crate::planted::{BUGS, plant};

/// A bug in the client, the gate that must notice it, and the fault that brings it out.
pub(super) struct Twin {
    bug: u8,
    pub(super) what: &'static str,
    pub(super) gate: &'static str,
    fault: &'static str,
}

macro_rules! twins {
    ($($bug:literal $what:literal $gate:literal $fault:literal,)*) => {
        &[$(Twin { bug: $bug, what: $what, gate: $gate, fault: $fault },)*]
    };
}

/// Each gate of the kills is awake.
pub(super) const TWINS: &[Twin] = twins! {
    1 "a key is minted per attempt" "duplicates" "drop-after-commit%20",
    2 "the journal is not written before the send" "lost" "in-flight%1",
    5 "the body is made again on resume" "two_bodies" "drop-after-commit%20",
    10 "a timeout is a failure" "unknown_as_failure" "delay-answer:700%40",
    14 "an outcome is told before it is written" "lost_outcomes" "in-flight%1",
    16 "other programs' entries are left alone" "stuck" "in-flight%1",
    23 "credentials are journalled" "leaks" "in-flight%1",
    24 "an intent is looked up and then inserted" "two_keys" "in-flight%1",
    25 "the transport sends twice by itself" "uncounted" "in-flight%1",
    26 "two programs draw the same keys" "two_bodies" "in-flight%1",
};

/// How often the gate was red, in up to so many scenes.
pub(super) fn in_a_scene(twin: &Twin, seed: u64) -> u64 {
    for round in 1..=8 {
        let plan = Plan {
            seed: seed.wrapping_add(1_000 * u64::from(twin.bug) + round),
            kills: 12,
            workers: 4,
            bug: twin.bug,
            fault: twin.fault,
        };
        // A bug may break so much that there is nothing to compare: that is no catch.
        match kills::scene(plan) {
            Ok((verdict, _)) if verdict.counts.of(twin.gate) > 0 => {
                return verdict.counts.of(twin.gate);
            }
            Ok(_) => {}
            Err(why) => println!("control: {}: round {round}: {why}", twin.what),
        }
    }
    0
}

/// Flipped bits that nobody noticed, with a bug let out in the journal.
fn in_a_journal(bug: u8) -> Res<u64> {
    plant(bug)?;
    let flipped = flips::run(200, 1);
    plant(0)?;
    Ok(flipped?.0.silent)
}

/// Begins that a power cut took, with a bug let out in the journal.
fn on_a_disk(bug: u8) -> Res<u64> {
    let mut bench = cuts::Bench::new(u64::from(bug))?;
    let mut lost = 0;
    for round in 0..4 {
        let plan = cuts::Plan {
            seed: 100 * u64::from(bug) + round,
            bug,
            ..cuts::Plan::default()
        };
        lost += bench.control(plan)?;
        if lost > 0 {
            break;
        }
    }
    Ok(lost)
}

/// `samekey-torture planted`: the bugs whose simulated form only tries the judges, in the real code.
pub(super) fn main() -> Res<()> {
    let apart = disk::go_apart();
    let started = now();
    let (mut caught, mut missed) = (0, Vec::new());
    let mut note = |bug: u8, gate: &str, look: &dyn Fn() -> Res<u64>| -> Res<()> {
        let (begun, named) = (now(), BUGS.iter().find(|it| it.number == bug));
        let what = named.map_or("", |it| it.what);
        let found = look()?;
        let seconds = begun.elapsed().as_secs_f64();
        println!("{bug:2}  {what:44}  {gate:10} {found:4} times {seconds:5.1} s");
        if found == 0 {
            missed.push(bug);
        } else {
            caught += 1;
        }
        Ok(())
    };
    for bug in [3, 4] {
        match &apart {
            Ok(()) => note(bug, "cuts: lost", &|| on_a_disk(bug))?,
            Err(why) => println!("{bug:2}  WARNING: no power is cut: {why}"),
        }
    }
    for bug in [17, 18] {
        note(bug, "flips: silent", &|| in_a_journal(bug))?;
    }
    for twin in TWINS.iter().filter(|twin| twin.bug >= 24) {
        let gate = format!("kills: {}", twin.gate);
        note(twin.bug, &gate, &|| Ok(in_a_scene(twin, 1)))?;
    }
    figure("planted_in_real_code_caught", caught, "bugs");
    let seconds = started.elapsed().as_secs();
    figure("planted_in_real_code_seconds", seconds, "seconds");
    if missed.is_empty() {
        return Ok(());
    }
    Err(format!("nobody noticed the planted bugs {missed:?}"))
}

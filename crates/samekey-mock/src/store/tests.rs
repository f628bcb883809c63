//! Both stores, driven by the same dice through the same engine, must never disagree.

use super::*;
use crate::dice::Dice;
use crate::engine::{Claim, Rules, complete, reap, reserve, sweep};
use crate::settings::{Settings, Stale};

/// One random step; what it said, in words that can be compared.
fn step(store: &mut dyn Store, dice: &mut Dice, rules: &Rules, now: Millis) -> String {
    let slot = Slot {
        tenant: ["acme", "globex"][dice.between(0, 1) as usize].into(),
        operation: "POST /orders".into(),
        key: format!("key-{}", dice.between(0, 9)),
    };
    let owner = dice.between(1, 3);
    match dice.between(0, 9) {
        0..=4 => {
            let claim = Claim {
                slot,
                fingerprint: format!("body-{}", dice.between(0, 5) / 5),
                owner,
                now,
                may_create: dice.between(0, 9) > 0,
                blind: dice.between(0, 19) == 0,
            };
            format!("{:?}", reserve(store, rules, &claim))
        }
        5 | 6 => match store.find(&slot).unwrap() {
            Some(held) => {
                let answer = Answer::new([201, 402, 500][dice.between(0, 2) as usize]);
                let held = Record { owner, ..held };
                let effect = Effect {
                    id: 0,
                    slot,
                    kind: "order".into(),
                    amount: 1,
                    at: now,
                };
                store.add_effect(&effect).unwrap();
                format!("{:?}", complete(store, rules, &held, &answer, now))
            }
            None => "nothing to complete".into(),
        },
        7 => format!("{:?}", reap(store, rules, now, 3)),
        8 => format!("{:?}", sweep(store, rules, now)),
        _ => format!("{:?}", store.count(&slot.tenant)),
    }
}

fn run(store: &mut dyn Store, seed: u64, stale: Stale) -> Vec<String> {
    let settings = Settings {
        stale,
        key_cap: Some(8),
        ..Settings::default()
    };
    let rules = Rules::from(&settings);
    let mut dice = Dice::seeded(seed);
    let (mut now, mut said) = (0, Vec::new());
    for _ in 0..200 {
        now += i64::try_from(dice.between(0, 4_000_000)).unwrap();
        store.begin().unwrap();
        said.push(step(store, &mut dice, &rules, now));
        if dice.between(0, 4) == 0 {
            store.undo().unwrap();
        } else {
            store.keep().unwrap();
        }
    }
    let mut keys = store.all_keys().unwrap();
    keys.sort_by(|a, b| a.slot.cmp(&b.slot));
    said.push(format!("{keys:?} {:?}", store.effects().unwrap()));
    said
}

/// A reaper may take any of what is over, so batches are compared by their size only.
#[test]
fn m05_m17_m18_memory_and_sqlite_agree_on_every_step() {
    let mut seen = String::new();
    for seed in 0..30 {
        let stale = if seed % 2 == 0 {
            Stale::Reconcile
        } else {
            Stale::Reclaim
        };
        let memory = run(&mut MemoryStore::default(), seed, stale);
        let sqlite = run(&mut SqliteStore::in_memory().unwrap(), seed, stale);
        assert_eq!(memory, sqlite, "seed {seed}");
        seen.push_str(&memory.concat());
    }
    // A run that never meets a verdict says nothing about it.
    for verdict in [
        "Run", "Replay", "InFlight", "Mismatch", "Review", "Limited", "Fenced", "Released",
    ] {
        assert!(seen.contains(verdict), "{verdict} never came up");
    }
}

use super::*;
use crate::store::{Effect, MemoryStore, SqliteStore, Store};

const HOUR: Millis = 3_600_000;

fn rules(naughty: &[Naughty]) -> Rules {
    Rules {
        naughty: naughty.iter().copied().collect(),
        ..Rules::from(&Settings::default())
    }
}

fn claim(now: Millis, owner: u64, body: &str) -> Claim {
    Claim {
        slot: Slot {
            tenant: "acme".into(),
            operation: "POST /orders".into(),
            key: "7d3f92ab-1c4e-4b1d-9a55-0d2f6f1f2a3b".into(),
        },
        fingerprint: body.into(),
        owner,
        now,
        may_create: true,
        blind: false,
    }
}

fn both(test: impl Fn(&mut dyn Store)) {
    test(&mut MemoryStore::default());
    test(&mut SqliteStore::in_memory().unwrap());
}

fn run(verdict: Verdict) -> Record {
    match verdict {
        Verdict::Run(record) => record,
        other => panic!("expected to run, got {other:?}"),
    }
}

fn ok() -> Answer {
    Answer::json(201, &serde_json::json!({ "id": "ord_1" }))
}

#[test]
fn m05_the_second_claim_finds_the_first_in_flight() {
    both(|store| {
        run(reserve(store, &rules(&[]), &claim(0, 1, "a")).unwrap());
        let second = reserve(store, &rules(&[]), &claim(1, 2, "a")).unwrap();
        assert!(
            matches!(second, Verdict::InFlight(ref r) if r.owner == 1),
            "{second:?}"
        );
    });
}

#[test]
fn m06_m10_the_stored_answer_comes_back_whole() {
    both(|store| {
        let rules = rules(&[]);
        let held = run(reserve(store, &rules, &claim(5, 1, "a")).unwrap());
        assert_eq!(
            complete(store, &rules, &held, &ok(), 9).unwrap(),
            Completion::Stored
        );
        let Verdict::Replay(record) = reserve(store, &rules, &claim(10, 2, "a")).unwrap() else {
            panic!("expected a replay");
        };
        assert_eq!(record.answer, Some(ok()));
        assert_eq!(
            (record.created, record.completed, record.expires),
            (5, Some(9), 5 + 24 * HOUR)
        );
    });
}

#[test]
fn m07_m08_another_body_is_refused_before_the_state_is_told() {
    both(|store| {
        let held = run(reserve(store, &rules(&[]), &claim(0, 1, "a")).unwrap());
        let other = claim(1, 2, "b");
        assert!(matches!(
            reserve(store, &rules(&[]), &other).unwrap(),
            Verdict::Mismatch(_)
        ));
        complete(store, &rules(&[]), &held, &ok(), 2).unwrap();
        assert!(matches!(
            reserve(store, &rules(&[]), &other).unwrap(),
            Verdict::Mismatch(_)
        ));
        let naughty = reserve(store, &rules(&[Naughty::NoBodyCheck]), &other).unwrap();
        assert!(matches!(naughty, Verdict::Replay(_)));
    });
}

#[test]
fn m12_a_server_error_frees_the_key_and_a_client_error_does_not() {
    both(|store| {
        let rules = rules(&[]);
        let held = run(reserve(store, &rules, &claim(0, 1, "a")).unwrap());
        let failed = complete(store, &rules, &held, &Answer::new(500), 1).unwrap();
        assert_eq!(failed, Completion::Released);
        let held = run(reserve(store, &rules, &claim(2, 2, "a")).unwrap());
        let declined = complete(store, &rules, &held, &Answer::new(402), 3).unwrap();
        assert_eq!(declined, Completion::Stored);
    });
}

#[test]
fn m14_m15_the_margin_covers_the_edge_and_after_it_the_key_is_new() {
    both(|store| {
        let rules = rules(&[]);
        let held = run(reserve(store, &rules, &claim(0, 1, "a")).unwrap());
        complete(store, &rules, &held, &ok(), 1).unwrap();
        let edge = 24 * HOUR + 1;
        assert_eq!(reap(store, &rules, edge, 10).unwrap(), 0);
        let late = reserve(store, &rules, &claim(edge, 2, "a")).unwrap();
        assert!(matches!(late, Verdict::Replay(_)), "{late:?}");
        let after = 26 * HOUR;
        let refusing = Rules {
            after_expiry: AfterExpiry::Refuse(412),
            ..rules
        };
        let refused = reserve(store, &refusing, &claim(after, 3, "a")).unwrap();
        assert_eq!(refused, Verdict::Expired(412));
        run(reserve(store, &rules, &claim(after, 3, "b")).unwrap());
    });
}

#[test]
fn m17_the_reaper_takes_no_more_than_a_batch_and_spares_work_in_flight() {
    both(|store| {
        let tidy = rules(&[]);
        for n in 0..25 {
            let mut c = claim(n, 1, "a");
            c.slot.key = format!("key-{n}");
            let held = run(reserve(store, &tidy, &c).unwrap());
            if n > 0 {
                complete(store, &tidy, &held, &ok(), n).unwrap();
            }
        }
        let late = 100 * HOUR;
        let sizes: Vec<usize> = (0..4)
            .map(|_| reap(store, &tidy, late, 10).unwrap())
            .collect();
        assert_eq!(sizes, [10, 10, 4, 0]);
        assert_eq!(
            store.all_keys().unwrap().len(),
            1,
            "the key in flight stays"
        );
        let races = rules(&[Naughty::CleanupRacesRetry]);
        assert_eq!(reap(store, &races, late, 10).unwrap(), 1);
    });
}

#[test]
fn m18_reconcile_frees_a_stale_lock_without_effect_and_asks_a_person_with_one() {
    both(|store| {
        let rules = rules(&[]);
        let held = run(reserve(store, &rules, &claim(0, 1, "a")).unwrap());
        let limit = rules.lock_limit;
        assert_eq!(sweep(store, &rules, limit - 1).unwrap(), Swept::default());
        assert_eq!(
            sweep(store, &rules, limit).unwrap(),
            Swept {
                freed: 1,
                review: 0
            }
        );
        run(reserve(store, &rules, &claim(limit, 2, "a")).unwrap());
        let effect = Effect {
            id: 0,
            slot: held.slot,
            kind: "order".into(),
            amount: 1,
            at: limit + 1,
        };
        store.add_effect(&effect).unwrap();
        assert_eq!(
            sweep(store, &rules, 2 * limit).unwrap(),
            Swept {
                freed: 0,
                review: 1
            }
        );
        let asked = reserve(store, &rules, &claim(2 * limit, 3, "a")).unwrap();
        assert!(matches!(asked, Verdict::Review(_)));
    });
}

#[test]
fn m18_m19_reclaim_fences_the_worker_that_was_late() {
    both(|store| {
        let rules = Rules {
            stale: Stale::Reclaim,
            ..rules(&[])
        };
        let first = run(reserve(store, &rules, &claim(0, 1, "a")).unwrap());
        let limit = rules.lock_limit;
        let second = run(reserve(store, &rules, &claim(limit, 2, "a")).unwrap());
        assert_eq!(
            complete(store, &rules, &first, &ok(), limit).unwrap(),
            Completion::Fenced
        );
        assert_eq!(
            complete(store, &rules, &second, &ok(), limit).unwrap(),
            Completion::Stored
        );
        assert_eq!(
            complete(store, &rules, &first, &ok(), limit).unwrap(),
            Completion::Fenced
        );
        let naughty = Rules {
            naughty: [Naughty::NoFencing].into_iter().collect(),
            ..rules
        };
        assert_eq!(
            complete(store, &naughty, &first, &ok(), limit).unwrap(),
            Completion::Stored
        );
    });
}

#[test]
fn m24_a_tenant_over_its_limit_is_still_answered_for_keys_it_has() {
    both(|store| {
        let rules = rules(&[]);
        let limited = Claim {
            may_create: false,
            ..claim(0, 1, "a")
        };
        assert_eq!(reserve(store, &rules, &limited).unwrap(), Verdict::Limited);
        run(reserve(store, &rules, &claim(0, 1, "a")).unwrap());
        assert!(matches!(
            reserve(store, &rules, &limited).unwrap(),
            Verdict::InFlight(_)
        ));
    });
}

#[test]
fn m13_nested_work_is_taken_back_alone() {
    both(|store| {
        let rules = rules(&[]);
        store.begin().unwrap();
        run(reserve(store, &rules, &claim(0, 1, "a")).unwrap());
        store.begin().unwrap();
        store.set_stock("last", 1).unwrap();
        assert!(store.take_stock("last").unwrap());
        assert!(!store.take_stock("last").unwrap());
        store.undo().unwrap();
        assert!(
            store.take_stock("last").unwrap(),
            "unlisted again, so it never runs out"
        );
        store.keep().unwrap();
        assert_eq!(store.all_keys().unwrap().len(), 1);
    });
}

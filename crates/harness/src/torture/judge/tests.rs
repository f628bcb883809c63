use super::*;

const NUMBER: u64 = 8;

fn told(at: u64, said: Said) -> Told {
    Told {
        at,
        number: NUMBER,
        said,
    }
}

fn ended(status: u16, body: &str) -> Said {
    Said::Outcome(Answer {
        status,
        recorded: true,
        body: body.into(),
    })
}

fn row(phase: Phase, answer: Option<(u16, &str)>) -> Rows {
    let row = Row {
        key: "k".into(),
        phase,
        attempts: 2,
        answer: answer.map(|(status, body)| (status, body.into())),
    };
    Rows::from([(NUMBER, row)])
}

fn sent(key: &str, body: &[u8], whole: bool) -> Sent {
    Sent {
        at: 20,
        key: Some(key.into()),
        number: whole.then_some(NUMBER),
        body: body.to_vec(),
        whole,
    }
}

/// An order that went well.
fn innocent() -> Evidence {
    Evidence {
        told: vec![told(10, Said::Begun("k".into())), told(40, ended(201, "b"))],
        before: row(Phase::Succeeded, Some((201, "b"))),
        after: row(Phase::Succeeded, Some((201, "b"))),
        effects: BTreeMap::from([(NUMBER, vec![30])]),
        sent: vec![sent("k", b"12", true), sent("k", b"1", false)],
        sent_before: vec![NUMBER],
        keeps_attempts: true,
        ..Evidence::default()
    }
}

/// The names of what is wrong once `spoil` has been at it.
fn charges(spoil: impl FnOnce(&mut Evidence)) -> Vec<&'static str> {
    let mut evidence = innocent();
    spoil(&mut evidence);
    let counts = evidence.judge().counts.all();
    let wrong = counts.into_iter().filter(|(_, count)| *count > 0);
    wrong.map(|(name, _)| name).collect()
}

#[test]
fn what_went_well_is_innocent() {
    assert!(charges(|_| {}).is_empty());
}

#[test]
fn each_crime_is_charged_under_its_own_name() {
    let twice = charges(|e| e.effects.entry(NUMBER).or_default().push(31));
    assert_eq!(twice, ["duplicates"]);
    let gone = charges(|e| {
        e.told.pop();
        e.sent_before.clear();
        e.before.clear();
    });
    assert_eq!(gone, ["lost"]);
    let early = charges(|e| {
        e.told.clear();
        e.before.clear();
    });
    assert_eq!(early, ["unjournalled"]);
    assert_eq!(
        charges(|e| e.sent.push(sent("l", b"12", true))),
        ["two_keys"]
    );
    assert_eq!(
        charges(|e| e.sent.push(sent("k", b"13", true))),
        ["two_bodies"]
    );
    assert_eq!(
        charges(|e| e.sent.push(sent("k", b"3", false))),
        ["two_bodies"]
    );
    let more = || [sent("k", b"12", true), sent("k", b"12", true)];
    assert_eq!(charges(|e| e.sent.extend(more())), ["uncounted"]);
    let forgotten = charges(|e| e.before = row(Phase::Sending, None));
    assert_eq!(forgotten, ["lost_outcomes"]);
    let open = charges(|e| {
        e.told.pop();
        e.before = row(Phase::Sending, None);
        e.after = row(Phase::Sending, None);
    });
    assert_eq!(open, ["stuck"]);
    let other = charges(|e| e.after = row(Phase::Succeeded, Some((201, "c"))));
    assert_eq!(other, ["false_success"]);
}

#[test]
fn a_failure_told_of_what_happened_is_charged_and_one_told_before_it_is_not() {
    for said in [
        Said::Failed("NotApplied".into()),
        Said::Nothing("Journal".into()),
    ] {
        assert_eq!(
            charges(|e| e.told.push(told(50, said.clone()))),
            ["unknown_as_failure"]
        );
        assert!(charges(|e| e.told.push(told(15, said.clone()))).is_empty());
    }
    let refused = charges(|e| e.told_later.push(told(50, ended(402, "no"))));
    assert_eq!(refused, ["unknown_as_failure"]);
    let open = charges(|e| e.told.push(told(50, Said::Unresolved("Attention".into()))));
    assert!(open.is_empty());
}

#[test]
fn a_cut_may_cost_a_success_its_place_and_nothing_else() {
    let cut = |evidence: &mut Evidence| {
        evidence.may_lose_successes = true;
        evidence.before = row(Phase::Sending, None);
    };
    assert!(charges(cut).is_empty());
    let mut evidence = innocent();
    cut(&mut evidence);
    assert_eq!(evidence.judge().relearnt, 1);
    for said in [Said::Abandoned, Said::Settled, ended(402, "no")] {
        let found = charges(|e| {
            cut(e);
            e.told = vec![told(40, said)];
        });
        assert!(found.contains(&"lost_outcomes"), "{found:?}");
    }
}

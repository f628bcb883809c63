use super::*;

#[test]
fn m31_every_fault_can_be_written_and_read_back() {
    for fault in Fault::examples() {
        let text = fault.to_string();
        assert_eq!(text.parse::<Fault>(), Ok(fault.clone()), "{text}");
        let rule = fault
            .times(3)
            .after(2)
            .rate(0.25)
            .on_route("/pay+%20ments")
            .on_key("k*1");
        assert_eq!(rule.to_string().parse::<Rule>(), Ok(rule.clone()), "{rule}");
    }
    for hint in Hint::all() {
        let text = Fault::RetryAfter(hint).to_string();
        assert_eq!(text.parse::<Fault>(), Ok(Fault::RetryAfter(hint)));
    }
}

#[test]
fn m31_bad_words_are_refused_with_the_list() {
    assert!(
        "drop"
            .parse::<Fault>()
            .unwrap_err()
            .contains("drop-after-commit")
    );
    assert!("stall:4".parse::<Fault>().is_err());
    assert!("status:99".parse::<Fault>().is_err());
    assert!("delay:9..1".parse::<Fault>().is_err());
    assert!("stall*x".parse::<Rule>().is_err());
    assert!("stall%140".parse::<Rule>().is_err());
}

#[test]
fn m31_a_rule_meets_so_many_requests_and_then_ends() {
    let mut faults = Faults::seeded(1);
    faults.add(Fault::DropAfterCommit.times(2).after(1).on_key("k"));
    let hits: Vec<bool> = (0..5)
        .map(|_| {
            faults
                .plan("/orders", true, Some("k"))
                .has(&Fault::DropAfterCommit)
        })
        .collect();
    assert_eq!(hits, [false, true, true, false, false]);
    assert!(faults.rules().is_empty());
}

#[test]
fn m31_reads_are_spared_unless_the_rule_names_their_route() {
    let mut faults = Faults::seeded(1);
    faults.add(Fault::Status(502).into());
    assert_eq!(faults.plan("/exports/1", false, None), Plan::default());
    faults.add(Fault::Status(404).on_route("/exports"));
    assert_eq!(
        faults.plan("/exports/1", false, None).faults,
        [Fault::Status(404)]
    );
}

#[test]
fn m31_the_same_seed_gives_the_same_faults() {
    let draw = |seed| {
        let mut faults = Faults::seeded(seed);
        faults.add(Fault::Stall.rate(0.3));
        (0..200)
            .map(|_| faults.plan("/", true, None).faults.len())
            .collect::<Vec<_>>()
    };
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7), draw(8));
    let hits: usize = draw(7).into_iter().sum();
    assert!((30..90).contains(&hits), "{hits}");
}

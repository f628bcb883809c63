use super::*;

#[test]
fn e17_a_401_after_a_lost_answer_is_no_rejection_and_fresh_credentials_bring_the_replay() {
    let mut s = Scenario::plain();
    s.drive();
    assert_sends(&s.tell_and_wait(lost()), 2);
    assert_eq!(s.tell(answer(401, &[])), Wants::Reauthorise);
    assert_sends(&s.tell(Event::Authorised), 3);
    assert_eq!(
        s.tell(answer(201, &[("idempotent-replayed", "true")])),
        Wants::Finish(End::Settled)
    );
    assert_eq!(
        s.last_written().0.answer.as_ref().unwrap().replayed,
        Replayed::Yes
    );
}

#[test]
fn e17_without_anyone_to_ask_for_credentials_doubt_ends_in_attention() {
    let mut s = Scenario::plain();
    s.drive();
    s.tell_and_wait(lost());
    assert_eq!(s.tell(answer(401, &[])), Wants::Reauthorise);
    assert_eq!(
        s.tell(Event::Unauthorised),
        Wants::Finish(End::Attention(Reason::RefusedAfterDoubt))
    );
}

#[test]
fn a18_a_401_on_the_first_attempt_is_a_rejection_when_nobody_can_be_asked() {
    let mut s = Scenario::plain();
    s.drive();
    assert_eq!(s.tell(answer(401, &[])), Wants::Reauthorise);
    assert_eq!(s.tell(Event::Unauthorised), Wants::Finish(End::Settled));
    assert_eq!(s.phase(), Phase::Rejected);
}

#[test]
fn e18_what_a_gateway_says_after_a_lost_answer_never_becomes_a_rejection() {
    for status in [403, 404, 413, 429, 501] {
        let mut s = Scenario::plain();
        s.drive();
        s.tell_and_wait(lost());
        s.tell_and_wait(answer(status, &[]));
        assert!(s.phase() != Phase::Rejected, "{status}");
    }
}

#[test]
fn the_same_answers_are_rejections_while_nothing_is_in_doubt() {
    for status in [403, 404, 413, 501] {
        let mut s = Scenario::plain();
        s.drive();
        assert_eq!(
            s.tell_and_wait(answer(status, &[])),
            Wants::Finish(End::Settled),
            "{status}"
        );
        assert_eq!(s.phase(), Phase::Rejected, "{status}");
    }
}

#[test]
fn t01_a_refused_connection_leaves_no_doubt() {
    let mut s = Scenario::plain();
    s.drive();
    assert_sends(&s.tell_and_wait(refused_connection()), 2);
    assert!(!s.machine.in_doubt());
    assert_eq!(s.tell(answer(404, &[])), Wants::Finish(End::Settled));
    assert_eq!(s.phase(), Phase::Rejected);
}

#[test]
fn t13_what_another_run_left_open_is_in_doubt_from_the_start() {
    let profile = Profile::default();
    let mut s = Scenario::of(entry(&profile), profile, Policy::new(), false);
    s.drive();
    assert_eq!(
        s.tell(answer(404, &[])),
        Wants::Finish(End::Attention(Reason::RefusedAfterDoubt))
    );
}

#[test]
fn t14_a_crash_after_the_answer_is_healed_by_the_replay() {
    let profile = Profile::default();
    let mut s = Scenario::of(entry(&profile), profile, Policy::new(), false);
    s.drive();
    assert_eq!(
        s.tell(answer(201, &[("idempotent-replayed", "true")])),
        Wants::Finish(End::Settled)
    );
    assert_eq!(s.phase(), Phase::Succeeded);
}

#[test]
fn a25_a_mismatch_stops_for_ever() {
    let mut s = Scenario::plain();
    s.drive();
    let problem =
        r#"{"type":"https://example.com/key-reused","title":"Idempotency-Key is already used"}"#;
    let reused = Response::new(
        422,
        headers(&[("content-type", "application/problem+json")]),
        problem,
    );
    assert_eq!(
        s.tell_and_wait(Event::Answered(reused)),
        Wants::Finish(End::Attention(Reason::KeyMismatch))
    );
}

#[test]
fn under_the_none_profile_only_what_was_surely_not_sent_is_sent_again() {
    let mut s = Scenario::begun(Profile::none(), Policy::new());
    s.drive();
    assert_sends(&s.tell_and_wait(refused_connection()), 2);
    assert_eq!(
        s.tell_and_wait(lost()),
        Wants::Finish(End::Attention(Reason::NoKeySupport))
    );
}

#[test]
fn under_the_none_profile_what_another_run_may_have_sent_is_not_sent_again() {
    let profile = Profile::none();
    let mut s = Scenario::of(entry(&profile), profile, Policy::new(), false);
    assert_eq!(
        s.drive(),
        Wants::Finish(End::Attention(Reason::NoKeySupport))
    );
}

//! What the caller takes for a complete answer.

use super::*;

fn expecting(complete: Complete, profile: Profile) -> Scenario {
    let mut entry = entry(&profile);
    Arc::make_mut(&mut entry.frozen).complete = complete;
    Scenario::of(entry, profile, Policy::new().max_attempts(2), true)
}

fn empty(status: u16, pairs: &[(&str, &str)]) -> Event {
    Event::Answered(Response::new(status, headers(pairs), ""))
}

fn cut() -> Event {
    Event::Answered(Response {
        status: 201,
        headers: Headers::new(),
        content: Content::Lost,
    })
}

#[test]
fn a06_an_answer_without_what_a_complete_one_has_settles_nothing() {
    for complete in [Complete::Body, Complete::Header("x-order-id".into())] {
        let mut s = expecting(complete.clone(), Profile::default());
        s.drive();
        assert_sends(&s.tell_and_wait(empty(200, &[])), 2);
        let whole = answer(200, &[("x-order-id", "7")]);
        assert_eq!(s.tell(whole), Wants::Finish(End::Settled), "{complete:?}");
        assert_eq!(s.phase(), Phase::Succeeded);

        let mut s = expecting(complete, Profile::default());
        s.drive();
        s.tell_and_wait(empty(200, &[]));
        let exhausted = Wants::Finish(End::Attention(Reason::Exhausted));
        assert_eq!(s.tell_and_wait(empty(200, &[])), exhausted);
    }
}

#[test]
fn a06_where_the_status_is_enough_an_empty_success_is_one() {
    let mut s = expecting(Complete::Status, Profile::default());
    s.drive();
    assert_eq!(s.tell(empty(200, &[])), Wants::Finish(End::Settled));
    assert_eq!(s.phase(), Phase::Succeeded);
}

#[test]
fn a06_a_body_that_was_lost_is_no_complete_answer_when_the_attempts_are_spent() {
    let mut s = expecting(Complete::Body, Profile::default());
    s.drive();
    assert_sends(&s.tell_and_wait(cut()), 2);
    let exhausted = Wants::Finish(End::Attention(Reason::Exhausted));
    assert_eq!(s.tell_and_wait(cut()), exhausted);
}

#[test]
fn a06_what_no_repeat_can_complete_goes_to_a_person_at_once() {
    for profile in [Profile::none(), Profile::wise()] {
        let mut s = expecting(Complete::Body, profile);
        s.drive();
        let attention = Wants::Finish(End::Attention(Reason::UnexpectedBody));
        assert_eq!(s.tell(empty(200, &[])), attention);
    }
}

#[test]
fn a06_a_refusal_needs_no_body_to_be_one() {
    let mut s = expecting(Complete::Body, Profile::default());
    s.drive();
    assert_eq!(s.tell(empty(402, &[])), Wants::Finish(End::Settled));
    assert_eq!(s.phase(), Phase::Rejected);
}

#[test]
fn a08_a_result_that_was_polled_for_must_be_complete_too() {
    let mut s = expecting(Complete::Body, Profile::default());
    s.drive();
    s.tell(empty(202, &[("location", "/jobs/1")]));
    assert!(matches!(
        s.tell_and_wait(empty(200, &[])),
        Wants::Probe(_) | Wants::Sleep { .. }
    ));
    assert_eq!(s.tell(answer(200, &[])), Wants::Finish(End::Settled));
}

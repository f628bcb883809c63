use super::*;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn e11_a_laptop_that_slept_through_the_window_sends_nothing_on_waking() {
    let mut s = Scenario::plain();
    s.drive();
    assert!(matches!(s.tell(lost()), Wants::Sleep { .. }));
    s.now.wall = s.now.wall + 25 * HOUR; // asleep: only the wall clock went on
    assert_eq!(
        s.tell(Event::Woke { may_retry: true }),
        Wants::Finish(End::Attention(Reason::WindowClosed))
    );
}

#[test]
fn e10_a_wall_clock_set_back_does_not_make_the_key_younger() {
    let mut s = Scenario::plain();
    s.drive();
    assert!(matches!(s.tell(lost()), Wants::Sleep { .. }));
    s.now.wall = s.now.wall.before(2 * HOUR);
    s.now.monotonic += 24 * HOUR;
    assert_eq!(
        s.tell(Event::Woke { may_retry: true }),
        Wants::Finish(End::Attention(Reason::WindowClosed))
    );
}

#[test]
fn e10_a_restart_with_the_clock_set_back_trusts_what_the_journal_saw_last() {
    let profile = Profile::default();
    let mut entry = entry(&profile);
    entry.progress.seen_at = start().wall + 24 * HOUR;
    let mut s = Scenario::of(entry, profile, Policy::new(), false);
    s.now.wall = start().wall.before(HOUR);
    assert_eq!(
        s.drive(),
        Wants::Finish(End::Attention(Reason::WindowClosed))
    );
}

#[test]
fn e12_a_retry_after_beyond_the_window_is_refused_and_not_slept_through() {
    let mut s = Scenario::begun(Profile::mollie(), Policy::new());
    s.drive();
    s.tell_and_wait(lost());
    assert_eq!(
        s.tell(answer(503, &[("retry-after", "7200")])),
        Wants::Finish(End::Attention(Reason::WindowClosed))
    );
}

#[test]
fn nothing_is_sent_within_the_margin_at_the_windows_end() {
    let policy = Policy::new();
    let margin = window::margin(DAY, &policy);
    assert_eq!(margin, HOUR);
    for (age, sends) in [
        (DAY - margin - Duration::from_secs(1), true),
        (DAY - margin, false),
    ] {
        let profile = Profile::default();
        let mut s = Scenario::of(entry(&profile), profile, policy.clone(), false);
        s.pass(age);
        let wants = s.drive();
        assert_eq!(
            matches!(wants, Wants::Send { .. }),
            sends,
            "{age:?} {wants:?}"
        );
    }
}

#[test]
fn the_margin_covers_an_attempt_even_of_a_short_window() {
    let policy = Policy::new().attempt_timeout(Duration::from_secs(10));
    assert!(window::margin(Duration::from_secs(60), &policy) >= Duration::from_secs(10));
}

#[test]
fn a_permit_says_until_when_the_body_may_leave() {
    let mut s = Scenario::plain();
    let entry = Entry {
        slot: 1,
        frozen: Arc::clone(&s.machine.frozen),
        progress: s.machine.progress.clone(),
    };
    let tick = Tick {
        now: s.now,
        roll: 0,
    };
    let Decision::Send(permit) = s.machine.step(Event::Drive(receipt(&entry)), tick) else {
        panic!()
    };
    assert_eq!(permit.not_after(), s.now.monotonic + DAY - HOUR);
}

#[test]
fn a_server_that_forgets_sooner_is_believed() {
    let mut s = Scenario::plain();
    s.machine.profile = Profile::default();
    let Some(header) = s.machine.profile.window_header().map(str::to_owned) else {
        return;
    };
    s.drive();
    let date = ("date", "Fri, 15 Jan 2027 08:00:00 GMT");
    let soon = (header.as_str(), "Fri, 15 Jan 2027 09:00:00 GMT");
    s.tell(answer(503, &[date, soon]));
    assert_eq!(s.machine.progress.window_source, WindowSource::Server);
    assert!(s.machine.progress.window <= HOUR + Duration::from_secs(1));
}

#[test]
fn a_window_that_closes_while_dialling_leaves_what_was_not_sent_open() {
    let mut s = Scenario::plain();
    s.drive();
    let late = Failure::new(FailureKind::WindowClosed, Sent::No, "too late");
    assert_eq!(s.tell(Event::Failed(late)), Wants::Finish(End::NotApplied));
    assert!(s.phase().is_open());
}

#[test]
fn a_clock_set_back_does_not_make_a_resume_wait_for_the_difference() {
    let profile = Profile::default();
    let mut entry = entry(&profile);
    entry.progress.not_before = Some(start().wall + 24 * 30 * HOUR);
    let mut s = Scenario::of(entry, profile, Policy::new(), false);
    let Wants::Sleep { wait, .. } = s.drive() else {
        panic!()
    };
    assert!(wait <= Policy::new().longest_foreground_wait(), "{wait:?}");
}

/// Seed 100231042 of the simulation: the clock jumped ahead while a 429 was on its way.
#[test]
fn a_window_that_closes_over_what_was_not_sent_does_not_forget_the_servers_wait() {
    let mut s = Scenario::begun(Profile::stripe(), Policy::new());
    s.drive();
    s.now.wall = s.now.wall + 25 * HOUR;
    let asked = answer(429, &[("retry-after", "20")]);
    assert_eq!(s.tell(asked), Wants::Finish(End::NotApplied));
    let (progress, _) = s.last_written();
    let until = progress.not_before.expect("the server asked for it");
    assert!(until >= s.now.wall + Duration::from_secs(20));
}

/// A resume sits out no more than half a minute of what an open entry says; a longer wait is parked.
#[test]
fn a_long_wait_that_the_server_asked_for_is_parked_though_the_window_closes_over_what_was_not_sent()
{
    let mut s = Scenario::begun(Profile::stripe(), Policy::new());
    s.drive();
    s.now.wall = s.now.wall + 25 * HOUR;
    let asked = s.tell(answer(429, &[("retry-after", "90")]));
    let Wants::Finish(End::Deferred(until)) = asked else {
        panic!("{asked:?}")
    };
    assert!(until >= s.now.wall + Duration::from_secs(90));
    assert_eq!(s.phase(), Phase::Deferred);
}

#[test]
fn a_window_that_closes_without_such_a_wish_leaves_nothing_to_wait_for() {
    let mut s = Scenario::plain();
    s.drive();
    s.now.wall = s.now.wall + 25 * HOUR;
    let unreached = refused_connection();
    assert_eq!(s.tell(unreached), Wants::Finish(End::NotApplied));
    assert_eq!(s.last_written().0.not_before, None);
}

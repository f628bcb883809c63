use super::*;

#[test]
fn the_first_attempt_needs_no_write_beyond_the_begin() {
    let mut s = Scenario::plain();
    assert_sends(&s.drive(), 1);
    assert!(s.written.is_empty());
}

#[test]
fn t17_without_a_receipt_of_this_entry_nothing_is_sent() {
    let mut s = Scenario::plain();
    let other = Receipt::new(Key::from_random([9; 16]), 1, 1, Grade::Device);
    assert_eq!(
        s.tell(Event::Drive(other)),
        Wants::Finish(End::Attention(Reason::Protocol))
    );
}

#[test]
fn a_success_is_written_before_it_is_told_and_a_replaying_profile_needs_no_sync() {
    let mut s = Scenario::plain();
    s.drive();
    assert_eq!(s.tell(answer(201, &[])), Wants::Finish(End::Settled));
    let (progress, flush) = s.last_written();
    assert_eq!((progress.phase, *flush), (Phase::Succeeded, Flush::Normal));
    assert_eq!(progress.owner, Owner::NONE);
}

#[test]
fn a_success_under_a_profile_that_does_not_replay_is_flushed() {
    let mut s = Scenario::begun(Profile::none(), Policy::new());
    s.drive();
    s.tell(answer(201, &[]));
    assert_eq!(s.last_written().1, Flush::Full);
}

#[test]
fn all_outcomes_are_flushed_when_that_is_asked_for() {
    let mut s = Scenario::plain();
    s.machine.flush_all = true;
    s.drive();
    s.tell(answer(201, &[]));
    assert_eq!(s.last_written().1, Flush::Full);
}

#[test]
fn a_rejection_is_flushed_before_it_is_told() {
    let mut s = Scenario::plain();
    s.drive();
    assert_eq!(s.tell(answer(404, &[])), Wants::Finish(End::Settled));
    let (progress, flush) = s.last_written();
    assert_eq!((progress.phase, *flush), (Phase::Rejected, Flush::Full));
}

#[test]
fn every_retry_is_noted_before_it_leaves() {
    let mut s = Scenario::plain();
    s.drive();
    assert_sends(&s.tell_and_wait(lost()), 2);
    let (progress, flush) = s.last_written();
    assert_eq!(
        (progress.phase, progress.attempts, *flush),
        (Phase::Sending, 2, Flush::Normal)
    );
}

#[test]
fn attempts_are_bounded_and_end_in_attention_when_one_may_have_been_applied() {
    let mut s = Scenario::begun(Profile::default(), Policy::new().max_attempts(3));
    s.drive();
    assert_sends(&s.tell_and_wait(lost()), 2);
    assert_sends(&s.tell_and_wait(answer(503, &[])), 3);
    assert_eq!(
        s.tell_and_wait(answer(503, &[])),
        Wants::Finish(End::Attention(Reason::Exhausted))
    );
    let (progress, flush) = s.last_written();
    assert!(progress.phase.is_unfinished(), "resuming may go on");
    assert_eq!(*flush, Flush::Full);
    assert_eq!(progress.recent.len(), 3);
}

#[test]
fn a_server_that_was_never_reached_leaves_the_operation_open_and_unsent() {
    let mut s = Scenario::begun(Profile::default(), Policy::new().max_attempts(2));
    s.drive();
    assert_sends(&s.tell_and_wait(refused_connection()), 2);
    assert_eq!(
        s.tell_and_wait(refused_connection()),
        Wants::Finish(End::NotApplied)
    );
    let (progress, _) = s.last_written();
    assert!(progress.phase.is_open() && !progress.maybe_applied);
}

#[test]
fn the_file_says_maybe_as_long_as_somebody_drives() {
    let mut s = Scenario::plain();
    s.drive();
    s.tell(refused_connection());
    assert!(
        s.last_written().0.maybe_applied,
        "a crash now must not read as unsent"
    );
}

#[test]
fn a_409_in_flight_is_bounded_by_time_and_not_by_attempts() {
    let mut s = Scenario::begun(Profile::default(), Policy::new().max_attempts(2));
    s.drive();
    for asked in 2..30 {
        assert_sends(
            &s.tell_and_wait(answer(409, &[("retry-after", "1")])),
            asked,
        );
    }
    assert_eq!(s.tell(answer(201, &[])), Wants::Finish(End::Settled));
}

#[test]
fn e15_a_409_in_flight_for_ever_ends_in_attention_or_is_parked_never_in_a_rejection() {
    let mut s = Scenario::plain();
    s.drive();
    let mut wants = Wants::Reauthorise;
    for _ in 0..1_000 {
        wants = s.tell_and_wait(answer(409, &[("retry-after", "2")]));
        if matches!(wants, Wants::Finish(_)) {
            break;
        }
    }
    assert!(
        matches!(wants, Wants::Finish(End::Deferred(_) | End::Attention(_))),
        "{wants:?}"
    );
    assert!(s.phase() != Phase::Rejected);
}

#[test]
fn e09_a_long_retry_after_is_parked_at_once_and_kept() {
    let mut s = Scenario::begun(
        Profile::default(),
        Policy::new().give_up_after(Duration::from_secs(30)),
    );
    s.drive();
    let wants = s.tell(answer(503, &[("retry-after", "3600")]));
    let Wants::Finish(End::Deferred(until)) = wants else {
        panic!("{wants:?}")
    };
    assert!(until >= s.now.wall + Duration::from_secs(3600));
    let (progress, flush) = s.last_written();
    assert_eq!((progress.phase, *flush), (Phase::Deferred, Flush::Full));
    assert_eq!(progress.not_before, Some(until));
}

#[test]
fn an_attempt_never_outlives_the_total_and_no_sleep_leads_into_the_deadline() {
    let policy = Policy::new()
        .attempt_timeout(Duration::from_secs(10))
        .give_up_after(Duration::from_secs(12))
        .max_attempts(50);
    let mut s = Scenario::begun(Profile::default(), policy);
    let mut wants = s.drive();
    loop {
        match wants {
            Wants::Send { timeout, .. } => {
                let left = Duration::from_secs(12).saturating_sub(s.now.since(start()));
                assert!(timeout <= left, "{timeout:?} > {left:?}");
                s.pass(timeout.min(Duration::from_secs(1)));
                wants = s.tell(lost());
            }
            Wants::Sleep { wait, .. } => {
                assert!(s.now.since(start()) + wait <= Duration::from_secs(12));
                s.pass(wait);
                wants = s.tell(Event::Woke { may_retry: true });
            }
            end => {
                assert_eq!(end, Wants::Finish(End::Attention(Reason::Exhausted)));
                return;
            }
        }
    }
}

#[test]
fn a_spent_host_budget_delays_without_counting_an_attempt() {
    let mut s = Scenario::plain();
    s.drive();
    let Wants::Sleep { wait, charge: true } = s.tell(lost()) else {
        panic!()
    };
    s.pass(wait);
    let wants = s.tell(Event::Woke { may_retry: false });
    assert!(matches!(wants, Wants::Sleep { .. }), "{wants:?}");
    assert_eq!(s.machine.progress.attempts, 1);
}

#[test]
fn a13_e40_a_redirect_of_the_same_origin_keeps_the_attempt_and_stops_at_the_hop_cap() {
    let mut s = Scenario::plain();
    s.drive();
    for hop in 1..=MAX_HOPS {
        let location = format!("/v2/{hop}");
        let wants = s.tell(answer(307, &[("location", &location)]));
        let Wants::Send {
            attempt: 1, url, ..
        } = wants
        else {
            panic!("{wants:?}")
        };
        assert_eq!(url, format!("https://api.example.com/v2/{hop}"));
    }
    let wants = s.tell(answer(308, &[("location", "/v2/again")]));
    assert_eq!(wants, Wants::Finish(End::Attention(Reason::Redirected)));
}

#[test]
fn e27_an_accepted_operation_is_polled_and_not_posted_again() {
    let mut s = Scenario::plain();
    s.drive();
    let wants = s.tell_and_wait(answer(
        202,
        &[("location", "/jobs/7"), ("retry-after", "1")],
    ));
    assert_eq!(wants, Wants::Probe("https://api.example.com/jobs/7".into()));
    assert_eq!(s.last_written().0.phase, Phase::Polling);
    let wants = s.tell_and_wait(answer(202, &[("retry-after", "1")]));
    assert_eq!(wants, Wants::Probe("https://api.example.com/jobs/7".into()));
    assert_eq!(s.tell(answer(200, &[])), Wants::Finish(End::Settled));
    assert_eq!(s.phase(), Phase::Succeeded);
}

#[test]
fn e27_a_lost_poll_url_leads_to_one_post_under_the_same_key() {
    let mut s = Scenario::plain();
    s.drive();
    s.tell_and_wait(answer(202, &[("location", "/jobs/7")]));
    assert_sends(&s.tell_and_wait(answer(404, &[])), 2);
    s.tell_and_wait(answer(202, &[("location", "/jobs/8")]));
    let wants = s.tell_and_wait(answer(404, &[]));
    assert_eq!(wants, Wants::Finish(End::Attention(Reason::PollLost)));
}

#[test]
fn a_poll_that_takes_longer_than_the_foreground_is_parked_with_its_url() {
    let mut s = Scenario::plain();
    s.drive();
    let mut wants = s.tell_and_wait(answer(202, &[("location", "/jobs/7")]));
    for _ in 0..1_000 {
        if matches!(wants, Wants::Finish(_)) {
            break;
        }
        wants = s.tell_and_wait(answer(202, &[("retry-after", "9")]));
    }
    assert!(
        matches!(wants, Wants::Finish(End::Deferred(_))),
        "{wants:?}"
    );
    assert!(s.last_written().0.poll_url.is_some());
}

#[test]
fn e38_an_answer_too_big_for_the_journal_is_still_a_success() {
    let mut s = Scenario::plain();
    s.drive();
    let body = vec![b'x'; KEEP_ANSWERS_UP_TO + 1];
    s.tell(Event::Answered(Response::new(200, Headers::new(), body)));
    let (progress, _) = s.last_written();
    assert_eq!(progress.phase, Phase::Succeeded);
    assert_eq!(progress.answer.as_ref().unwrap().body, Kept::NotKept);
}

#[test]
fn a06_a_success_without_its_body_is_asked_for_again_and_stays_a_success() {
    let mut s = Scenario::begun(Profile::default(), Policy::new().max_attempts(2));
    s.drive();
    let cut = || Response {
        status: 201,
        headers: Headers::new(),
        content: Content::Lost,
    };
    assert_sends(&s.tell_and_wait(Event::Answered(cut())), 2);
    assert_eq!(
        s.tell_and_wait(Event::Answered(cut())),
        Wants::Finish(End::Settled)
    );
    let (progress, _) = s.last_written();
    assert_eq!(progress.phase, Phase::Succeeded);
    assert_eq!(progress.answer.as_ref().unwrap().body, Kept::Lost);
}

#[test]
fn cookies_of_an_answer_stay_out_of_the_journal() {
    let mut s = Scenario::plain();
    s.drive();
    s.tell(answer(
        201,
        &[("set-cookie", "session=hunter2"), ("location", "/orders/1")],
    ));
    let kept = &s.last_written().0.answer.as_ref().unwrap().headers;
    assert_eq!(kept.get("set-cookie"), None);
    assert_eq!(kept.get("location"), Some("/orders/1"));
}

#[test]
fn with_the_attempts_spent_the_servers_wait_is_still_kept() {
    let policy = Policy::new().max_attempts(1);
    for (hint, end) in [
        ("9", End::Attention(Reason::Exhausted)),
        ("90", End::Deferred(start().wall + Duration::from_secs(90))),
    ] {
        let mut s = Scenario::begun(Profile::default(), policy.clone());
        s.drive();
        let wants = s.tell(answer(503, &[("retry-after", hint)]));
        match (wants, end) {
            (Wants::Finish(End::Deferred(until)), End::Deferred(least)) => assert!(until >= least),
            (wants, end) => assert_eq!(wants, Wants::Finish(end)),
        }
        let least = start().wall + Duration::from_secs(hint.parse().unwrap());
        assert!(
            s.last_written()
                .0
                .not_before
                .is_some_and(|until| until >= least)
        );
    }
}

/// Seed 400606063 of the simulation: a driver came back from a long sleep, was overtaken, and its successor
/// was dead.
#[test]
fn a_wait_that_could_not_be_noted_is_kept_by_who_heard_it() {
    let policy = Policy::new().max_attempts(2);
    for asked in [9, 90] {
        let mut first = Scenario::begun(Profile::default(), policy.clone());
        first.drive();
        first.tell(answer(503, &[("retry-after", &asked.to_string())]));
        let heard = first.machine.heard();
        let mut entry = entry(&Profile::default());
        (entry.progress.phase, entry.progress.attempts) = (Phase::Sending, 3);
        let mut again = Scenario::of(entry, Profile::default(), policy.clone(), false);
        again.machine.keep_to(heard);
        match again.drive() {
            Wants::Sleep { wait, .. } => assert!(asked == 9 && wait.as_secs() >= 9, "{wait:?}"),
            Wants::Finish(End::Deferred(until)) => assert!(asked == 90 && Some(until) == heard),
            other => panic!("{other:?}"),
        }
        if asked == 9 {
            again.pass(Duration::from_secs(30));
            assert_sends(&again.tell(Event::Woke { may_retry: true }), 3);
        }
    }
}

#[test]
fn a_time_that_only_a_wrong_clock_can_have_written_is_not_waited_for() {
    let mut progress = entry(&Profile::default()).progress;
    let now = start().wall;
    progress.not_before = Some(now + DAY);
    assert!(progress.waits_at(now));
    progress.not_before = Some(now + 3650 * DAY);
    assert!(!progress.waits_at(now));
}

#[test]
fn e27_after_a_crash_a_named_result_is_still_taken_for_the_result() {
    let mut s = Scenario::plain();
    s.drive();
    s.tell(answer(303, &[("location", "/orders/7")]));
    let mut entry = entry(&Profile::default());
    entry.progress = s.last_written().0.clone();
    let mut s = Scenario::of(entry, Profile::default(), Policy::new(), false);
    assert_eq!(
        s.drive(),
        Wants::Probe("https://api.example.com/orders/7".into())
    );
    let failed = Response::new(200, Headers::new(), r#"{"status":"failed"}"#);
    assert_eq!(s.tell(Event::Answered(failed)), Wants::Finish(End::Settled));
    assert_eq!(s.phase(), Phase::Succeeded);
}

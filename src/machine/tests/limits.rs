//! Every limit from both sides: most of these were written for a mutant that nobody had noticed.

use super::*;
use crate::entry::Liveness;

const ME: Owner = Owner(2);
const SECOND: Duration = Duration::from_secs(1);

/// What the machine does at the luckless end of the dice: every wait as long as it gets.
fn unlucky(s: &mut Scenario, event: Event) -> Duration {
    let tick = Tick {
        now: s.now,
        roll: u64::MAX,
    };
    let mut decision = s.machine.step(event, tick);
    while let Decision::Record { progress, .. } = decision {
        let receipt = Receipt::new(
            s.machine.frozen.key.clone(),
            1,
            progress.revision,
            Grade::Device,
        );
        decision = s.machine.step(Event::Recorded(receipt), tick);
    }
    match decision {
        Decision::Sleep { wait, .. } => wait,
        other => panic!("{other:?}"),
    }
}

/// Lets the wait pass and the next attempt leave.
fn onward(s: &mut Scenario, wait: Duration) {
    s.pass(wait);
    let wants = s.tell_on(Event::Woke { may_retry: true });
    assert!(matches!(wants, Wants::Send { .. }), "{wants:?}");
}

impl Scenario {
    /// As `tell`, after writes that were not kept for comparison.
    fn tell_on(&mut self, event: Event) -> Wants {
        self.written.clear();
        self.tell(event)
    }
}

fn page(status: u16, content: Content) -> Event {
    Event::Answered(Response {
        status,
        headers: headers(&[("content-type", "text/html")]),
        content,
    })
}

fn in_flight() -> Event {
    let problem = r#"{"title":"idempotency key in use"}"#;
    Event::Answered(Response::new(409, Headers::new(), problem))
}

fn polling(s: &mut Scenario) {
    s.drive();
    let wants = s.tell(answer(202, &[("location", "/jobs/7")]));
    assert_eq!(wants, Wants::Probe("https://api.example.com/jobs/7".into()));
}

#[test]
fn waits_grow_from_retry_to_retry() {
    let mut s = Scenario::plain();
    s.drive();
    for half_seconds in [1, 2, 4, 8] {
        let wait = unlucky(&mut s, lost());
        assert_eq!(wait, SECOND / 2 * half_seconds);
        onward(&mut s, wait);
    }
}

#[test]
fn waits_for_a_key_in_flight_grow_above_their_floor() {
    let mut s = Scenario::plain();
    s.drive();
    for half_seconds in [3, 2, 4, 8] {
        let wait = unlucky(&mut s, in_flight());
        assert_eq!(wait, SECOND / 2 * half_seconds);
        onward(&mut s, wait);
    }
}

#[test]
fn waits_for_the_hosts_budget_grow_too() {
    let mut s = Scenario::plain();
    s.drive();
    let mut wait = unlucky(&mut s, lost());
    for seconds in [1, 2, 4] {
        s.pass(wait);
        wait = unlucky(&mut s, Event::Woke { may_retry: false });
        assert_eq!(wait, SECOND * seconds);
    }
}

#[test]
fn an_answer_of_64_kib_is_kept_and_one_byte_more_is_not() {
    for (length, kept) in [(0, true), (65_536, true), (65_537, false)] {
        let mut s = Scenario::plain();
        s.drive();
        let body = vec![b'x'; length];
        let response = Response::new(200, Headers::new(), body.clone());
        s.tell(Event::Answered(response));
        let expected = if kept {
            Kept::Plain(body.into())
        } else {
            Kept::NotKept
        };
        let answer = s.last_written().0.answer.clone();
        assert_eq!(answer.map(|answer| answer.body), Some(expected), "{length}");
    }
}

#[test]
fn the_latest_answer_is_there_with_all_that_the_journal_leaves_out() {
    let mut s = Scenario::plain();
    s.drive();
    assert!(s.machine.last_response().is_none());
    s.tell(answer(201, &[("set-cookie", "a=1")]));
    let response = s.machine.last_response();
    assert_eq!(
        response.and_then(|response| response.headers.get("set-cookie")),
        Some("a=1")
    );
    assert_eq!(s.machine.progress(), &s.last_written().0);
}

#[test]
fn fresh_credentials_for_a_poll_lead_back_to_the_poll() {
    let mut s = Scenario::plain();
    polling(&mut s);
    assert_eq!(s.tell(answer(401, &[])), Wants::Reauthorise);
    let wants = s.tell(Event::Authorised);
    assert_eq!(wants, Wants::Probe("https://api.example.com/jobs/7".into()));
}

#[test]
fn what_needs_a_person_or_is_settled_is_not_driven() {
    for (phase, end) in [
        (
            Phase::Attention(Reason::Exhausted),
            End::Attention(Reason::Exhausted),
        ),
        (Phase::Succeeded, End::Settled),
        (Phase::Abandoned, End::Settled),
    ] {
        let mut s = Scenario::plain();
        s.machine.progress.phase = phase;
        assert_eq!(s.drive(), Wants::Finish(end), "{phase:?}");
        assert!(s.written.is_empty());
    }
}

#[test]
fn only_a_success_cut_short_counts_as_one_in_the_end() {
    let whole = || Content::Whole(b"<html>".to_vec());
    let strangers = [
        page(200, Content::Lost),
        page(200, whole()),
        Event::Answered(Response {
            status: 503,
            headers: Headers::new(),
            content: Content::Lost,
        }),
    ];
    for stranger in strangers {
        let mut s = Scenario::begun(Profile::default(), Policy::new().max_attempts(2));
        s.drive();
        assert_sends(&s.tell_and_wait(stranger), 2);
        assert_eq!(
            s.tell_and_wait(lost()),
            Wants::Finish(End::Attention(Reason::Exhausted))
        );
    }
}

#[test]
fn a_window_that_closed_after_the_request_may_have_left_needs_a_person() {
    let mut s = Scenario::plain();
    s.drive();
    let late = Failure::new(FailureKind::WindowClosed, Sent::Maybe, "too late");
    assert_eq!(
        s.tell(Event::Failed(late)),
        Wants::Finish(End::Attention(Reason::WindowClosed))
    );
}

#[test]
fn failing_polls_use_up_no_attempts() {
    let mut s = Scenario::begun(Profile::default(), Policy::new().max_attempts(1));
    polling(&mut s);
    for _ in 0..5 {
        let wants = s.tell_and_wait(answer(503, &[]));
        assert_eq!(wants, Wants::Probe("https://api.example.com/jobs/7".into()));
    }
    assert_eq!(s.machine.progress.attempts, 1);
    assert_eq!(s.machine.progress.recent.len(), 1);
}

#[test]
fn a_wait_as_long_as_the_longest_is_sat_out_and_a_longer_one_is_parked() {
    for (hint, parked) in [("30", false), ("31", true), ("60", true)] {
        let mut s = Scenario::plain();
        s.drive();
        let wants = s.tell(answer(503, &[("retry-after", hint)]));
        let deferred = matches!(wants, Wants::Finish(End::Deferred(_)));
        assert_eq!(deferred, parked, "{hint}: {wants:?}");
    }
}

#[test]
fn with_the_attempts_spent_only_a_wait_above_the_longest_is_parked() {
    for (hint, parked) in [("30", false), ("31", true)] {
        let mut s = Scenario::begun(Profile::default(), Policy::new().max_attempts(1));
        s.drive();
        let wants = s.tell(answer(503, &[("retry-after", hint)]));
        let ended = matches!(wants, Wants::Finish(_));
        let deferred = matches!(wants, Wants::Finish(End::Deferred(_)));
        assert_eq!((ended, deferred), (true, parked), "{hint}: {wants:?}");
    }
}

#[test]
fn a_wait_that_the_server_asked_for_and_that_no_longer_fits_is_parked_and_our_own_is_not() {
    let policy = || Policy::new().give_up_after(30 * SECOND);
    for (event, parked) in [
        (answer(503, &[("retry-after", "15")]), true),
        (answer(503, &[]), false),
    ] {
        let mut s = Scenario::begun(Profile::default(), policy());
        s.drive();
        s.pass(30 * SECOND - SECOND / 50);
        let wants = s.tell(event);
        let deferred = matches!(wants, Wants::Finish(End::Deferred(_)));
        assert_eq!(deferred, parked, "{wants:?}");
    }
}

#[test]
fn a_wait_fits_up_to_the_last_moment() {
    let mut s = Scenario::begun(Profile::default(), Policy::new().give_up_after(30 * SECOND));
    s.drive();
    s.pass(20 * SECOND);
    let wants = s.tell(answer(503, &[("retry-after", "10")]));
    assert!(matches!(wants, Wants::Sleep { wait, .. } if wait == 10 * SECOND));
}

#[test]
fn a_poll_that_nobody_gave_a_time_for_is_parked_in_the_end() {
    let mut s = Scenario::plain();
    polling(&mut s);
    let mut wants = s.tell_and_wait(answer(202, &[]));
    for _ in 0..1_000 {
        if matches!(wants, Wants::Finish(_)) {
            break;
        }
        wants = s.tell_and_wait(answer(202, &[]));
    }
    assert!(
        matches!(wants, Wants::Finish(End::Deferred(_))),
        "{wants:?}"
    );
}

#[test]
fn a_result_is_asked_for_at_once_unless_the_server_says_when() {
    let mut s = Scenario::plain();
    s.drive();
    let later = [("location", "/jobs/7"), ("retry-after", "1")];
    assert!(matches!(s.tell(answer(202, &later)), Wants::Sleep { .. }));
    let mut s = Scenario::plain();
    polling(&mut s);
    let moved = s.tell(answer(302, &[("location", "/jobs/8")]));
    assert_eq!(moved, Wants::Probe("https://api.example.com/jobs/8".into()));
    let to_itself = s.tell(answer(302, &[("location", "/jobs/8")]));
    assert!(matches!(to_itself, Wants::Sleep { .. }), "{to_itself:?}");
    assert_eq!(s.machine.progress.hops, 1);
}

#[test]
fn a_poll_that_moves_on_and_on_stops_at_the_hop_cap() {
    let mut s = Scenario::plain();
    polling(&mut s);
    for hop in 1..=MAX_HOPS {
        let location = format!("/jobs/7/{hop}");
        let wants = s.tell(answer(307, &[("location", &location)]));
        assert_eq!(
            wants,
            Wants::Probe(format!("https://api.example.com{location}"))
        );
    }
    let wants = s.tell(answer(307, &[("location", "/jobs/again")]));
    assert_eq!(wants, Wants::Finish(End::Attention(Reason::Redirected)));
}

#[test]
fn without_keys_what_is_harmless_to_repeat_still_goes_on_in_doubt() {
    let profile = Profile::none();
    let mut put = entry(&profile);
    Arc::make_mut(&mut put.frozen).method = Method::Put;
    let mut s = Scenario::of(put, profile.clone(), Policy::new(), false);
    assert!(matches!(s.drive(), Wants::Send { .. }));
    let mut polled = entry(&profile);
    polled.progress.poll_url = Some("https://api.example.com/jobs/7".into());
    let mut s = Scenario::of(polled, profile, Policy::new(), false);
    assert!(matches!(s.drive(), Wants::Probe(_)));
}

#[test]
fn a_permit_holds_the_frozen_request_and_nothing_else() {
    let mut entry = entry(&Profile::default());
    let frozen = Arc::make_mut(&mut entry.frozen);
    frozen.method = Method::Patch;
    frozen.headers = headers(&[("prefer", "minimal")]);
    let receipt = receipt(&entry);
    let body: Arc<[u8]> = Arc::from(&b"exact"[..]);
    let order = Order {
        frozen: &entry.frozen,
        body: &body,
        moved_to: Some("https://api.example.com/v2"),
        attempt: 4,
        timeout: 3 * SECOND,
        not_after: 9 * SECOND,
    };
    let permit = Permit::new(&receipt, order).unwrap();
    let permit = permit.with_credentials(headers(&[("authorization", "Bearer t")]));
    let lines: Vec<_> = permit.headers().collect();
    let expected = [
        ("prefer", "minimal"),
        ("Idempotency-Key", "k"),
        ("authorization", "Bearer t"),
    ];
    assert_eq!(lines, expected);
    assert_eq!(permit.method(), Method::Patch);
    assert_eq!(permit.url(), "https://api.example.com/v2");
    assert_eq!(&**permit.body(), b"exact");
    assert_eq!(permit.reference(), entry.key().reference());
    assert_eq!(permit.attempt(), 4);
    assert_eq!(permit.timeout(), 3 * SECOND);
    assert_eq!(permit.not_after(), 9 * SECOND);
}

#[test]
fn a_probe_holds_a_url_and_credentials_and_nothing_else() {
    let probe = Probe::new("https://api.example.com/jobs/7", 3 * SECOND);
    assert_eq!(probe.headers().count(), 0);
    let probe = probe.with_credentials(headers(&[("authorization", "Bearer t")]));
    let lines: Vec<_> = probe.headers().collect();
    assert_eq!(lines, [("authorization", "Bearer t")]);
    assert_eq!(probe.url(), "https://api.example.com/jobs/7");
    assert_eq!(probe.timeout(), 3 * SECOND);
}

#[test]
fn a_tick_for_examples_sets_both_clocks() {
    let tick = Tick::at_seconds(3);
    assert_eq!(tick.now.wall, Timestamp::from_millis(3_000));
    assert_eq!(tick.now.monotonic, 3 * SECOND);
}

fn taken(entry: &Entry) -> Progress {
    match claim(entry, ME, Liveness::Dead, start().wall) {
        Claim::Take(progress) => *progress,
        other => panic!("{other:?}"),
    }
}

fn owned(phase: Phase, owner: Owner) -> Entry {
    let mut entry = entry(&Profile::default());
    entry.progress.phase = phase;
    entry.progress.owner = owner;
    entry
}

#[test]
fn what_is_ours_already_is_taken_again_and_is_no_crash() {
    let entry = owned(Phase::Sending, ME);
    let claimed = claim(&entry, ME, Liveness::Alive, start().wall);
    let Claim::Take(progress) = claimed else {
        panic!("{claimed:?}")
    };
    assert_eq!((progress.crashes, progress.attempts), (0, 1));
}

#[test]
fn what_was_let_go_unsent_has_no_attempt_behind_it() {
    assert_eq!(taken(&owned(Phase::Ready, Owner::NONE)).attempts, 1);
}

#[test]
fn dying_over_a_poll_counts_as_a_crash_and_not_as_an_attempt() {
    let mut entry = owned(Phase::Polling, Owner(1));
    entry.progress.poll_url = Some("https://api.example.com/jobs/7".into());
    let progress = taken(&entry);
    assert_eq!(
        (progress.crashes, progress.attempts, progress.phase),
        (1, 0, Phase::Polling)
    );
}

#[test]
fn a_request_has_left_if_anything_says_so() {
    let mut quiet = owned(Phase::Waiting, Owner::NONE).progress;
    quiet.maybe_applied = false;
    assert!(!may_have_left(&quiet));
    let mut doubted = quiet.clone();
    doubted.maybe_applied = true;
    let mut attempted = quiet.clone();
    attempted.note_attempt(Attempt {
        number: 1,
        ended_at: start().wall,
        took: SECOND,
        status: Some(403),
        reason: "refused".into(),
    });
    let mut unreached = attempted.clone();
    unreached.recent[0].status = None;
    assert!(!may_have_left(&unreached));
    let mut answered = quiet;
    answered.answer = Some(Answer {
        status: 201,
        headers: Headers::new(),
        body: Kept::NotKept,
        replayed: Replayed::No,
        at: start().wall,
    });
    for left in [doubted, attempted, answered] {
        assert!(may_have_left(&left), "{left:?}");
    }
}

#[test]
fn letting_go_does_not_forget_how_long_the_server_asked_to_wait() {
    let mut waiting = owned(Phase::Waiting, ME).progress;
    waiting.not_before = Some(start().wall + SECOND);
    for surely_unsent in [true, false] {
        let released = release(&waiting, surely_unsent);
        assert_eq!(released.not_before, waiting.not_before);
    }
}

#[test]
fn letting_go_changes_the_phase_only_of_what_was_ready() {
    let released = release(&owned(Phase::Waiting, ME).progress, false);
    assert_eq!((released.phase, released.attempts), (Phase::Waiting, 0));
    let released = release(&owned(Phase::Ready, ME).progress, false);
    assert_eq!((released.phase, released.attempts), (Phase::Sending, 1));
}

#[test]
fn whoever_decides_by_hand_cuts_the_driver_off() {
    let mut progress = owned(Phase::Waiting, ME).progress;
    (progress.revision, progress.epoch) = (5, 7);
    let by_hand = [
        settle(&progress, true, "seen"),
        settle(&progress, false, "seen"),
        abandon(&progress, "seen"),
        cancel(&progress, false, Some("seen")),
        Some(release(&progress, false)),
    ];
    let phases = [
        Phase::Succeeded,
        Phase::Rejected,
        Phase::Abandoned,
        Phase::Attention(Reason::Cancelled),
        Phase::Waiting,
    ];
    for (changed, phase) in by_hand.into_iter().zip(phases) {
        let changed = changed.unwrap();
        assert_eq!((changed.revision, changed.epoch), (6, 8), "{phase:?}");
        assert_eq!((changed.phase, changed.owner), (phase, Owner::NONE));
        let noted = changed.note.as_deref() == Some("seen");
        assert_eq!(noted, phase != Phase::Waiting, "{phase:?}");
    }
}

#[test]
fn a_server_that_remembers_longer_is_believed_only_over_an_assumption() {
    let says = |hours: u64, source: WindowSource| {
        let mut s = Scenario::plain();
        s.machine.progress.window_source = source;
        s.drive();
        let written = |wall: Timestamp| {
            let since = Duration::from_millis(wall.as_millis());
            httpdate::fmt_http_date(std::time::UNIX_EPOCH + since)
        };
        let date = written(start().wall);
        let until = written(start().wall + Duration::from_secs(3600 * hours));
        s.tell(answer(
            503,
            &[("date", &date), ("idempotency-key-expires", &until)],
        ));
        let progress = &s.machine.progress;
        (progress.window, progress.window_source)
    };
    let hour = Duration::from_secs(3600);
    let (server, profile) = (WindowSource::Server, WindowSource::Profile);
    assert_eq!(says(1, profile), (hour, server));
    assert_eq!(says(24, profile), (DAY, profile), "no news");
    assert_eq!(says(25, profile), (DAY, profile));
    assert_eq!(says(25, WindowSource::Assumed), (25 * hour, server));
}

#[test]
fn the_margin_of_a_short_window_is_an_attempt_and_two_seconds() {
    let policy = Policy::new().attempt_timeout(10 * SECOND);
    assert_eq!(window::margin(60 * SECOND, &policy), 12 * SECOND);
}

/// Simulation, seed 4430: a job that never ended was parked again and again.
#[test]
fn a_job_that_outlasts_the_window_asks_for_a_person() {
    let parked = |passed: Duration| {
        let mut s = Scenario::plain();
        s.drive();
        s.tell_and_wait(answer(202, &[("location", "/jobs/7")]));
        s.pass(passed);
        s.tell(answer(202, &[("retry-after", "9")]));
        s.phase()
    };
    assert_eq!(parked(Duration::from_secs(3_600)), Phase::Deferred);
    let over = parked(Duration::from_secs(25 * 3_600));
    assert_eq!(over, Phase::Attention(Reason::Exhausted));
}

/// Simulation, seed 4396: the only attempt that arrived was forgotten among those that did not.
#[test]
fn that_something_left_is_not_forgotten_among_many_attempts() {
    let mut progress = entry(&Profile::default()).progress;
    progress.maybe_applied = false;
    assert!(!may_have_left(&progress));
    let attempt = |number, status| Attempt {
        number,
        ended_at: Timestamp::default(),
        took: SECOND,
        status,
        reason: "".into(),
    };
    progress.note_attempt(attempt(1, Some(503)));
    (2..100).for_each(|number| progress.note_attempt(attempt(number, None)));
    assert!(may_have_left(&progress));
    assert_eq!(progress.recent.last().map(|last| last.number), Some(99));

    let mut moved = entry(&Profile::default()).progress;
    moved.maybe_applied = false;
    moved.hops = 1;
    assert!(
        may_have_left(&moved),
        "whoever was sent elsewhere was there"
    );
}

#[test]
fn whoever_asks_is_told_whether_it_may_have_happened() {
    let mut s = Scenario::plain();
    s.drive();
    assert!(!s.machine.in_doubt());
    s.tell(answer(503, &[]));
    assert!(s.machine.in_doubt());
}

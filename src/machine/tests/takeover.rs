use super::*;
use crate::entry::Liveness;

const ME: Owner = Owner(2);

fn taken(entry: &Entry, holder: Liveness) -> Progress {
    match claim(entry, ME, holder, start().wall) {
        Claim::Take(progress) => *progress,
        other => panic!("{other:?}"),
    }
}

fn open(phase: Phase) -> Entry {
    let mut entry = entry(&Profile::default());
    entry.progress.phase = phase;
    entry
}

#[test]
fn e37_a_living_owners_entry_is_left_alone_and_a_dead_or_silent_ones_taken() {
    let entry = open(Phase::Sending);
    assert_eq!(
        claim(&entry, ME, Liveness::Alive, start().wall),
        Claim::Held
    );
    for holder in [Liveness::Dead, Liveness::Silent] {
        let progress = taken(&entry, holder);
        assert_eq!((progress.owner, progress.epoch), (ME, 2));
        assert_eq!(progress.revision, entry.progress.revision + 1);
    }
}

#[test]
fn an_entry_that_was_let_go_is_anyones_and_no_crash() {
    let mut entry = open(Phase::Waiting);
    entry.progress.owner = Owner::NONE;
    assert_eq!(taken(&entry, Liveness::Alive).crashes, 0);
}

#[test]
fn crashes_are_counted_apart_from_attempts_and_five_ask_for_attention() {
    let mut entry = open(Phase::Sending);
    for crash in 1..=4 {
        entry.progress = taken(&entry, Liveness::Dead);
        assert_eq!(
            (entry.progress.crashes, entry.progress.phase),
            (crash, Phase::Sending)
        );
        entry.progress.owner = Owner(99);
    }
    let progress = taken(&entry, Liveness::Dead);
    assert_eq!(progress.phase, Phase::Attention(Reason::Crashes));
    assert_eq!(progress.owner, Owner::NONE);
}

#[test]
fn dying_while_waiting_is_not_the_entrys_fault() {
    assert_eq!(taken(&open(Phase::Waiting), Liveness::Dead).crashes, 0);
}

#[test]
fn attempts_may_be_counted_too_many_after_a_crash_but_never_too_few() {
    let progress = taken(&open(Phase::Ready), Liveness::Dead);
    assert_eq!(
        progress.attempts, 2,
        "one that may have left, and the one about to"
    );
}

#[test]
fn t13_a_taken_entry_counts_as_maybe_sent() {
    assert!(taken(&open(Phase::Ready), Liveness::Dead).maybe_applied);
}

#[test]
fn the_window_is_moved_only_while_nothing_can_have_been_sent() {
    let later = start().wall + Duration::from_secs(3600);
    let mut entry = open(Phase::Waiting);
    let Claim::Take(progress) = claim(&entry, ME, Liveness::Dead, later) else {
        panic!()
    };
    assert_eq!(progress.window_start, start().wall);
    entry.progress.maybe_applied = false;
    let Claim::Take(progress) = claim(&entry, ME, Liveness::Dead, later) else {
        panic!()
    };
    assert_eq!(progress.window_start, later);
}

#[test]
fn a_clock_that_once_ran_ahead_does_not_close_a_window_that_begins_now() {
    let mut entry = open(Phase::Waiting);
    entry.progress.maybe_applied = false;
    entry.progress.seen_at = start().wall + Duration::from_secs(315_360_000);
    let later = start().wall + Duration::from_secs(60);
    let Claim::Take(progress) = claim(&entry, ME, Liveness::Dead, later) else {
        panic!()
    };
    assert_eq!((progress.window_start, progress.seen_at), (later, later));
    entry.progress.maybe_applied = true;
    let Claim::Take(progress) = claim(&entry, ME, Liveness::Dead, later) else {
        panic!()
    };
    assert_eq!(
        progress.seen_at, entry.progress.seen_at,
        "it was sent: what was seen counts"
    );
}

#[test]
fn what_is_parked_is_not_taken_before_its_time() {
    let mut entry = open(Phase::Deferred);
    let due = start().wall + Duration::from_secs(60);
    entry.progress.not_before = Some(due);
    entry.progress.owner = Owner::NONE;
    assert_eq!(
        claim(&entry, ME, Liveness::Dead, start().wall),
        Claim::NotYet(due)
    );
    assert!(matches!(
        claim(&entry, ME, Liveness::Dead, due),
        Claim::Take(_)
    ));
}

#[test]
fn e27_a_polled_operation_is_polled_again_after_a_crash() {
    let mut entry = open(Phase::Polling);
    entry.progress.poll_url = Some("https://api.example.com/jobs/7".into());
    entry.progress = taken(&entry, Liveness::Dead);
    let mut s = Scenario::of(entry, Profile::default(), Policy::new(), false);
    assert_eq!(
        s.drive(),
        Wants::Probe("https://api.example.com/jobs/7".into())
    );
}

#[test]
fn what_ended_or_was_stopped_is_never_taken_again() {
    let closed = [
        Phase::Succeeded,
        Phase::Rejected,
        Phase::Abandoned,
        Phase::Attention(Reason::Cancelled),
        Phase::Attention(Reason::KeyMismatch),
        Phase::Attention(Reason::WindowClosed),
        Phase::Attention(Reason::NoKeySupport),
    ];
    for phase in closed {
        assert_eq!(
            claim(&open(phase), ME, Liveness::Dead, start().wall),
            Claim::Closed,
            "{phase:?}"
        );
    }
    assert!(matches!(
        claim(
            &open(Phase::Attention(Reason::Exhausted)),
            ME,
            Liveness::Dead,
            start().wall
        ),
        Claim::Take(_)
    ));
}

#[test]
fn t12_a_cancel_abandons_what_was_not_sent_and_asks_about_what_may_have_been() {
    let progress = open(Phase::Ready).progress;
    assert_eq!(
        cancel(&progress, true, None).unwrap().phase,
        Phase::Abandoned
    );
    assert_eq!(
        cancel(&progress, false, None).unwrap().phase,
        Phase::Attention(Reason::Cancelled)
    );
    assert_eq!(cancel(&open(Phase::Succeeded).progress, true, None), None);
}

#[test]
fn what_is_settled_stays_as_it_is_whatever_a_person_says() {
    for phase in [Phase::Succeeded, Phase::Rejected, Phase::Abandoned] {
        let progress = open(phase).progress;
        assert_eq!(settle(&progress, true, "note"), None);
        assert_eq!(abandon(&progress, "note"), None);
    }
    let settled = settle(
        &open(Phase::Attention(Reason::Cancelled)).progress,
        true,
        "asked",
    )
    .unwrap();
    assert_eq!(
        (settled.phase, settled.note.as_deref()),
        (Phase::Succeeded, Some("asked"))
    );
}

#[test]
fn t03_letting_go_before_anything_was_sent_says_so_and_after_it_does_not() {
    let progress = open(Phase::Ready).progress;
    let unsent = release(&progress, true);
    assert!(!unsent.maybe_applied && unsent.owner == Owner::NONE);
    let sent = release(&progress, false);
    assert!(sent.maybe_applied);
    assert_eq!(sent.attempts, 1);
}

#[test]
fn i12_a_driver_that_waited_before_its_first_attempt_shows_first_that_the_entry_is_still_its_own() {
    let mut entry = open(Phase::Waiting);
    entry.progress.not_before = Some(start().wall + Duration::from_secs(5));
    entry.progress = taken(&entry, Liveness::Dead);
    let mut s = Scenario::of(entry, Profile::default(), Policy::new(), false);
    let Wants::Sleep { wait, .. } = s.drive() else {
        panic!()
    };
    assert!(s.written.is_empty());
    s.pass(wait);
    assert!(matches!(
        s.tell(Event::Woke { may_retry: true }),
        Wants::Send { .. }
    ));
    assert_eq!(
        s.written.len(),
        1,
        "a write that bounces if somebody settled it meanwhile"
    );
}

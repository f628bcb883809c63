//! The points, one by one.

use super::judge::Evidence;
use super::parts::Point;
use super::world::{Death, World};

/// Dies these deaths one after the other, then lives: innocent, or the test fails.
async fn innocent(deaths: &[Death]) -> Evidence {
    try_with(deaths, false)
        .await
        .unwrap_or_else(|charges| panic!("{deaths:?}: {charges}"))
}

async fn try_with(deaths: &[Death], hasty: bool) -> Result<Evidence, String> {
    let mut world = World::new(hasty).await;
    for death in deaths {
        world.die(*death).await;
    }
    world.live().await.judge()
}

#[tokio::test]
async fn e36_before_the_write_nothing_was_sent() {
    let evidence = innocent(&[Death::At(Point::BeforeTheWrite)]).await;
    assert_eq!((evidence.sent_at_crash, evidence.wire.len()), (vec![0], 1));
}

#[tokio::test]
async fn e36_during_the_write_there_is_all_of_it_or_nothing() {
    let evidence = innocent(&[Death::At(Point::DuringTheWrite)]).await;
    assert_eq!((evidence.sent_at_crash, evidence.wire.len()), (vec![0], 1));
}

#[tokio::test]
async fn e36_after_the_write_the_key_is_found_again() {
    let evidence = innocent(&[Death::At(Point::AfterTheWrite)]).await;
    assert_eq!((evidence.sent_at_crash, evidence.wire.len()), (vec![0], 1));
    assert_eq!(evidence.outcome, "201 recovered");
}

#[tokio::test]
async fn e36_with_the_permit_in_hand_nothing_was_sent() {
    let evidence = innocent(&[Death::At(Point::PermitInHand)]).await;
    assert_eq!((evidence.sent_at_crash, evidence.wire.len()), (vec![0], 1));
}

#[tokio::test]
async fn e36_with_the_head_sent_the_same_key_follows() {
    let evidence = innocent(&[Death::HeadSent]).await;
    assert_eq!((evidence.sent_at_crash, evidence.wire.len()), (vec![1], 2));
    assert_eq!(
        evidence.ledger.requests().len(),
        1,
        "the half request was read as a whole one"
    );
}

#[tokio::test]
async fn e36_with_the_body_sent_the_same_key_follows() {
    let evidence = innocent(&[Death::BodySent]).await;
    assert_eq!((evidence.sent_at_crash, evidence.wire.len()), (vec![1], 2));
}

#[tokio::test]
async fn e36_while_the_server_is_at_work_the_next_process_waits_for_it() {
    let evidence = innocent(&[Death::BodySentAndStillAtWork]).await;
    assert!(
        evidence.wire.len() > 2,
        "the next process was to be told to wait"
    );
}

#[tokio::test]
async fn e36_after_the_effect_and_before_the_answer() {
    let evidence = innocent(&[Death::Committed]).await;
    assert_eq!((evidence.sent_at_crash, evidence.wire.len()), (vec![1], 2));
}

#[tokio::test]
async fn e36_with_half_of_the_answer_read() {
    let evidence = innocent(&[Death::AnswerHalfRead]).await;
    assert_eq!((evidence.sent_at_crash, evidence.wire.len()), (vec![1], 2));
}

#[tokio::test]
async fn e36_with_the_answer_read_and_not_written() {
    let evidence = innocent(&[Death::At(Point::AnswerRead)]).await;
    assert_eq!((evidence.sent_at_crash, evidence.wire.len()), (vec![1], 2));
}

#[tokio::test]
async fn e36_before_the_outcome_is_written() {
    let evidence = innocent(&[Death::At(Point::BeforeTheOutcome)]).await;
    assert_eq!((evidence.sent_at_crash, evidence.wire.len()), (vec![1], 2));
}

#[tokio::test]
async fn e36_while_the_outcome_is_written() {
    let evidence = innocent(&[Death::At(Point::DuringTheOutcome)]).await;
    assert_eq!(evidence.sent_at_crash, [1]);
}

#[tokio::test]
async fn e36_with_the_outcome_written_nothing_is_sent_again() {
    let evidence = innocent(&[Death::At(Point::OutcomeWritten)]).await;
    assert_eq!((evidence.sent_at_crash, evidence.wire.len()), (vec![1], 1));
    assert_eq!(evidence.outcome, "201 recovered");
}

#[tokio::test]
async fn e36_around_the_note_of_a_lost_answer() {
    for point in [Point::BeforeANote, Point::AfterANote] {
        let mut world = World::new(false).await;
        world.lose_answers(1);
        world.die(Death::At(point)).await;
        let evidence = world.live().await.judge().unwrap();
        assert_eq!(
            (evidence.sent_at_crash, evidence.wire.len()),
            (vec![1], 2),
            "{point:?}"
        );
    }
}

#[tokio::test]
async fn e36_during_recovery() {
    let first = Death::At(Point::AnswerRead);
    for (point, sent) in [
        (Point::BeforeAClaim, 1),
        (Point::DuringAClaim, 1),
        (Point::AfterAClaim, 1),
        (Point::PermitInHand, 1),
        (Point::AnswerReadInRecovery, 2),
        (Point::BeforeTheOutcome, 2),
        (Point::DuringTheOutcome, 2),
    ] {
        let evidence = innocent(&[first, Death::At(point)]).await;
        assert_eq!(evidence.sent_at_crash, [1, sent], "{point:?}");
    }
    let evidence = innocent(&[first, Death::At(Point::OutcomeWritten)]).await;
    assert_eq!(
        (evidence.sent_at_crash, evidence.wire.len()),
        (vec![1, 2], 2)
    );
}

#[tokio::test]
async fn e36_at_three_points_in_a_row() {
    let deaths = [
        Death::HeadSent,
        Death::At(Point::AfterAClaim),
        Death::Committed,
    ];
    innocent(&deaths).await;
}

#[tokio::test]
async fn an_entry_that_kills_every_process_is_left_to_a_person() {
    let mut world = World::new(false).await;
    for _ in 0..5 {
        world.die(Death::At(Point::AnswerRead)).await;
    }
    // Recovery leaves it alone, and so does the program when it asks for the payment again.
    let evidence = world.live().await;
    assert_eq!(evidence.recovered, ["Err(Attention(Crashes))"]);
    assert_eq!(evidence.wire.len(), 5);
    assert_eq!(evidence.ledger.effects().len(), 1);
    let charges = evidence
        .judge()
        .expect_err("it is not paid as far as anyone knows");
    assert!(
        charges.starts_with("the outcome is \"Attention(Crashes)"),
        "{charges}"
    );
}

#[tokio::test]
async fn the_judge_finds_the_journal_guilty_that_acknowledges_before_it_writes() {
    // As long as nobody dies nothing shows.
    try_with(&[], true).await.unwrap();
    for death in [
        Death::HeadSent,
        Death::BodySent,
        Death::Committed,
        Death::AnswerHalfRead,
        Death::At(Point::AnswerRead),
        Death::At(Point::BeforeTheOutcome),
    ] {
        let charges = try_with(&[death], true)
            .await
            .expect_err("the judge sees nothing wrong");
        assert!(
            charges.starts_with("2 keys on the wire"),
            "{death:?}: {charges}"
        );
    }
}

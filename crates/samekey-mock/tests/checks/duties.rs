//! The first duties, over a socket.

use crate::client::{Ask, key};
use samekey_mock::{Event, Fault, Mock};

#[tokio::test]
async fn m10_a_repeat_gets_the_first_answer_and_a_marker() {
    let mock = Mock::builder().start().await.unwrap();
    let ask = Ask::order(mock.address(), &key(1));
    let (first, again) = (ask.send().await, ask.send().await);
    assert_eq!((first.status, first.replayed()), (201, false));
    assert_eq!((again.status, again.replayed()), (201, true));
    assert_eq!(first.body, again.body);
    assert_eq!(mock.ledger().effects_of(&key(1)), 1);
}

#[tokio::test]
async fn m31_a_lost_answer_is_replayed_to_the_retry() {
    let mock = Mock::builder()
        .fault(Fault::DropAfterCommit.times(1))
        .start()
        .await
        .unwrap();
    let ask = Ask::order(mock.address(), &key(1));
    assert_eq!(ask.try_send().await, None);
    assert!(ask.send().await.replayed());
    let ledger = mock.ledger();
    assert_eq!(ledger.effects_of(&key(1)), 1);
    assert_eq!(ledger.count(Event::Dropped), 1);
}

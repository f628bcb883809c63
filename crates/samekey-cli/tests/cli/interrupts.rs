//! Ctrl-C: stops at once, says what is true, and nothing is lost.
#![cfg(unix)]

use crate::support::{Desk, finish_child, mock, signal};
use samekey_mock::Event;
use tokio::net::TcpListener;

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_says_that_the_outcome_is_not_known_and_how_to_go_on() {
    for name in ["-INT", "-TERM"] {
        let (desk, mock) = (Desk::new(), mock().await);
        mock.hold();
        let url = format!("{}/orders", mock.url());
        let child = desk
            .command(&["send", "POST", &url, "--json", "{}"])
            .spawn()
            .unwrap();
        mock.wait_for(|ledger| ledger.count(Event::Held) == 1).await;
        signal(&child, name).await;
        let ran = finish_child(child).await.expect(4);
        assert!(ran.stderr.contains("not known yet"), "{ran:#?}");
        let reference = ran.reference();
        assert!(
            ran.stderr.contains(&format!("samekey resume {reference}")),
            "{ran:#?}"
        );
        let shown = desk.run(&["show", &reference]).await.expect(0);
        assert!(
            shown.stdout.contains("it was let go in an orderly way"),
            "{shown:#?}"
        );
        mock.release();
        desk.run(&["resume", &reference]).await.expect(0);
        assert_eq!(mock.ledger().effects().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_during_resume_all_leaves_the_rest_resumable() {
    let (desk, mock) = (Desk::new(), mock().await);
    for i in 0..3 {
        desk.leave_open(&mock, &format!("cart/{i}")).await;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = format!("http://{}/", listener.local_addr().unwrap());
    let args = [
        "send",
        "POST",
        &silent,
        "--json",
        "{}",
        "--max-attempts",
        "1",
    ];
    let args = [&args[..], &["--attempt-timeout", "100ms"]].concat();
    desk.run(&args).await.expect(4);
    drop(listener.accept().await);
    let child = desk
        .command(&["resume", "--all", "--format", "json"])
        .spawn()
        .unwrap();
    let _held = listener.accept().await.unwrap();
    mock.wait_for(|ledger| ledger.requests().len() == 6).await;
    signal(&child, "-INT").await;
    let ran = finish_child(child).await.expect(4);
    let left = ran.document()["stopped_before"].as_u64().unwrap();
    let list = desk
        .run(&["list", "--state", "unfinished", "--format", "json"])
        .await;
    let open = list.document()["total"].as_u64().unwrap();
    // What ended in the very moment of the signal may be in the journal already.
    assert!(open >= 1 && open <= left, "{open} of {left}: {ran:#?}");
}

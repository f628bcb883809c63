//! Bodies: where they come from, and what the journal keeps of them.

use crate::support::{Desk, finish_child, mock};
use samekey_mock::Fault;
use std::process::Stdio;
use tokio::io::AsyncWriteExt;

const SECRET: &str = "canary-42-of-the-body";
const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

#[tokio::test(flavor = "multi_thread")]
async fn a_body_comes_from_the_command_line_a_file_or_the_standard_input() {
    let (desk, mock) = (Desk::new(), mock().await);
    let url = format!("{}/orders", mock.url());
    let body = "{\"item\": \"tea\",  \"quantity\": 2}";
    std::fs::write(desk.path("body.json"), body).unwrap();
    desk.run(&["send", "POST", &url, "--json", body])
        .await
        .expect(0);
    desk.run(&["send", "POST", &url, "--json", "@body.json"])
        .await
        .expect(0);
    let data = [
        "send",
        "POST",
        &url,
        "--data",
        "@body.json",
        "-H",
        "Content-Type: application/json",
    ];
    desk.run(&data).await.expect(0);
    let mut command = desk.command(&["send", "POST", &url, "--json", "-"]);
    command.stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(body.as_bytes()).await.unwrap();
    drop(stdin);
    finish_child(child).await.expect(0);
    let ledger = mock.ledger();
    let first = &ledger.requests()[0];
    assert_eq!(ledger.requests().len(), 4);
    for request in ledger.requests() {
        assert_eq!(
            request.body_sha256, first.body_sha256,
            "not one byte differs"
        );
        assert_eq!(request.body_len, body.len());
        assert_eq!(request.header("content-type"), Some("application/json"));
    }
}

async fn leave_open(desk: &Desk, url: &str, keep: &str) -> String {
    let body = format!("{{\"note\":\"{SECRET}\"}}");
    let args = [
        "send",
        "POST",
        url,
        "--json",
        &body,
        "--max-attempts",
        "1",
        "--body",
        keep,
    ];
    let key = [("SAMEKEY_SEALING_KEY", KEY)];
    desk.run_with(&args, &key).await.expect(4).reference()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_not_kept_is_given_again() {
    let (desk, mock) = (Desk::new(), mock().await);
    mock.fault(Fault::DropAfterCommit.times(1));
    let url = format!("{}/orders", mock.url());
    let reference = leave_open(&desk, &url, "fingerprint").await;
    assert!(!desk.holds(SECRET));
    let bare = desk.run(&["resume", &reference]).await.expect(2);
    assert!(bare.stderr.contains("--json @FILE"), "{bare:#?}");
    let wrong = desk
        .run(&["resume", &reference, "--json", "{}"])
        .await
        .expect(2);
    assert!(wrong.stderr.contains("give the same bytes"), "{wrong:#?}");
    assert_eq!(mock.ledger().requests().len(), 1, "nothing was sent");
    desk.run(&["resume", "--all"]).await.expect(4);
    let body = format!("{{\"note\":\"{SECRET}\"}}");
    desk.run(&["resume", &reference, "--json", &body])
        .await
        .expect(0);
    assert_eq!(mock.ledger().effects().len(), 1);
    assert!(!desk.holds(SECRET));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sealed_body_is_not_in_the_journal_and_needs_its_key() {
    let (desk, mock) = (Desk::new(), mock().await);
    mock.fault(Fault::DropAfterCommit.times(1));
    let url = format!("{}/orders", mock.url());
    let reference = leave_open(&desk, &url, "sealed").await;
    assert!(!desk.holds(SECRET));
    let other = KEY.replace("00", "ff");
    let wrong = [("SAMEKEY_SEALING_KEY", other.as_str())];
    let locked = desk
        .run_with(&["resume", &reference], &wrong)
        .await
        .expect(2);
    assert!(locked.stderr.contains("--seal-env"), "{locked:#?}");
    let bad = [("SAMEKEY_SEALING_KEY", "tooshort")];
    let bad = desk.run_with(&["resume", &reference], &bad).await.expect(2);
    assert!(bad.stderr.contains("no sealing key") && !bad.stderr.contains("tooshort"));
    assert_eq!(mock.ledger().requests().len(), 1, "nothing was sent");
    let key = [("MINE", KEY)];
    desk.run_with(&["resume", &reference, "--seal-env", "MINE"], &key)
        .await
        .expect(0);
    assert!(!desk.holds("\"quantity\""), "the answer is sealed too");
    let show = ["show", &reference, "--reveal", "--seal-env", "MINE"];
    let shown = desk.run_with(&show, &key).await.expect(0);
    assert!(shown.stdout.contains("ord_000001"), "{shown:#?}");
}

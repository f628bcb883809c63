//! What comes back, and the exit code that says so.

use crate::support::{Desk, answer, finish_child, mock, scripted};
use samekey_mock::{Event, Fault, Mock};
use std::process::Stdio;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_one_effect_and_exit_code_0() {
    let (desk, mock) = (Desk::new(), mock().await);
    mock.fault(Fault::DropAfterCommit.times(1));
    let url = format!("{}/orders", mock.url());
    let ran = desk
        .run(&["send", "POST", &url, "--json", r#"{"sku":"a","qty":1}"#])
        .await
        .expect(0);
    assert!(ran.stderr.starts_with("reference "), "{ran:#?}");
    assert!(ran.stderr.contains("replayed by the server"), "{ran:#?}");
    assert!(ran.stdout.contains("ord_000001"), "{ran:#?}");
    let ledger = mock.ledger();
    assert_eq!((ledger.effects().len(), ledger.requests().len()), (1, 2));
    let keys: Vec<_> = ledger.requests().iter().map(|r| r.key.clone()).collect();
    assert_eq!(keys[0], keys[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reference_is_printed_before_the_first_byte_leaves() {
    let desk = Desk::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/orders", listener.local_addr().unwrap());
    let said = desk.path("stderr.txt");
    let mut command = desk.command(&["send", "POST", &url, "--json", "{}"]);
    command.stderr(Stdio::from(std::fs::File::create(&said).unwrap()));
    let mut child = command.spawn().unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut first = [0; 1];
    stream.read_exact(&mut first).await.unwrap();
    let text = std::fs::read_to_string(&said).unwrap();
    assert!(text.starts_with("reference "), "{text}");
    child.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_exit_code_3_with_the_answer_on_stdout() {
    let (desk, mock) = (Desk::new(), mock().await);
    let url = format!("{}/payments", mock.url());
    let ran = desk
        .run(&["send", "POST", &url, "--json", r#"{"amount":9000000}"#])
        .await
        .expect(3);
    assert!(ran.stdout.contains("declined"), "{ran:#?}");
    assert!(mock.ledger().effects().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_is_exit_code_4_and_resuming_ends_it() {
    let (desk, mock) = (Desk::new(), mock().await);
    let reference = desk.leave_open(&mock, "cart/9").await;
    let list = desk.run(&["list"]).await.expect(0);
    assert!(list.stdout.contains(&reference) && list.stdout.contains("attention"));
    let ran = desk.run(&["resume", &reference]).await.expect(0);
    assert!(ran.stdout.contains("ord_000001"), "{ran:#?}");
    assert_eq!(mock.ledger().effects().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_reachable_is_exit_code_4_and_says_that_nothing_was_sent() {
    let desk = Desk::new();
    let url = "http://127.0.0.1:1/orders";
    let args = ["send", "POST", url, "--json", "{}", "--max-attempts", "1"];
    let ran = desk.run(&args).await.expect(4);
    assert!(ran.stderr.contains("nothing has happened yet"), "{ran:#?}");
    assert!(ran.stderr.contains("samekey resume "), "{ran:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_wait_is_parked_with_exit_code_4() {
    let desk = Desk::new();
    let (url, _server) = scripted(|_, _| answer(503, "retry-after: 3600\r\n", "{}")).await;
    let ran = desk
        .run(&["send", "POST", &url, "--json", "{}"])
        .await
        .expect(4);
    assert!(ran.stderr.contains("parked"), "{ran:#?}");
    let shown = desk.run(&["show", &ran.reference()]).await.expect(0);
    assert!(shown.stdout.contains("deferred") && shown.stdout.contains("left alone until"));
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_exit_code_2_and_nothing_is_sent() {
    let (desk, mock) = (Desk::new(), mock().await);
    let url = format!("{}/orders", mock.url());
    for (args, says) in [
        (vec!["send", "GET", &url], "needs no key"),
        (
            vec!["send", "POST", "ftp://a.example/"],
            "neither http nor https",
        ),
        (vec!["send", "POST", &url, "--json", "{"], "not JSON"),
        (
            vec!["send", "POST", &url, "--json", "@absent"],
            "absent cannot be read",
        ),
        (
            vec!["send", "POST", &url, "--profile", "acme"],
            "there are default",
        ),
        (
            vec!["send", "POST", &url, "--give-up-after", "20"],
            "no duration",
        ),
        (
            vec!["send", "POST", &url, "-H", "Authorization: x"],
            "--bearer-env",
        ),
        (
            vec!["send", "POST", &url, "--bearer-env", "UNSET_ANYWHERE"],
            "is not set",
        ),
        (
            vec!["send", "POST", &url, "--body", "sealed"],
            "SAMEKEY_SEALING_KEY",
        ),
        (
            vec!["send", "POST", &url, "-H", "Idempotency-Key: 1"],
            "samekey's to set",
        ),
        (vec!["send"], "required"),
        (vec!["show", "7D3F-92AB-1C4E-8"], "does not fit"),
        (vec!["resume"], "required"),
    ] {
        let ran = desk.run(&args).await;
        assert_eq!(ran.code, Some(2), "{args:?} {ran:#?}");
        assert!(ran.stderr.contains(says), "{args:?} {ran:#?}");
    }
    assert!(mock.ledger().requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_is_none_is_exit_code_5_and_nothing_is_sent() {
    let (desk, mock) = (Desk::new(), mock().await);
    std::fs::create_dir_all(desk.journal().parent().unwrap()).unwrap();
    std::fs::write(
        desk.journal(),
        "a shopping list, and none of our files\n".repeat(300),
    )
    .unwrap();
    set_private(&desk);
    let url = format!("{}/orders", mock.url());
    let ran = desk
        .run(&["send", "POST", &url, "--json", "{}"])
        .await
        .expect(5);
    assert!(ran.stderr.contains("journal"), "{ran:#?}");
    assert!(mock.ledger().requests().is_empty());
    desk.run(&["list"]).await.expect(5);
    desk.run(&["doctor"]).await.expect(5);
}

fn set_private(desk: &Desk) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(desk.journal(), private).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_intent_is_answered_from_the_journal_and_another_body_is_refused() {
    let (desk, mock) = (Desk::new(), mock().await);
    let url = format!("{}/orders", mock.url());
    let send = |body: &'static str| {
        let (desk, url) = (&desk, &url);
        async move {
            let args = ["send", "POST", url, "--json", body, "--intent", "cart/9"];
            desk.run(&args).await
        }
    };
    let first = send(r#"{"item":"tea"}"#).await.expect(0);
    let again = send(r#"{"item":"tea"}"#).await.expect(0);
    assert_eq!(first.stdout, again.stdout);
    assert!(again.stderr.contains("nothing was sent"), "{again:#?}");
    let other = send(r#"{"item":"cup"}"#).await.expect(2);
    assert!(
        other.stderr.contains("taken by another request"),
        "{other:#?}"
    );
    assert!(other.stderr.contains(&first.reference()), "{other:#?}");
    assert_eq!(mock.ledger().requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_intent_each_call_is_its_own_action_and_a_repeat_is_deliberate() {
    let (desk, mock) = (Desk::new(), mock().await);
    let url = format!("{}/orders", mock.url());
    let first = desk
        .run(&["send", "POST", &url, "--json", "{}"])
        .await
        .expect(0);
    desk.run(&["send", "POST", &url, "--json", "{}"])
        .await
        .expect(0);
    assert_eq!(mock.ledger().effects().len(), 2);
    let repeat = desk
        .run(&["send", "--repeat", &first.reference()])
        .await
        .expect(0);
    let joined = desk
        .run(&["send", "--repeat", &first.reference()])
        .await
        .expect(0);
    assert_eq!(repeat.reference(), joined.reference());
    assert_eq!(mock.ledger().effects().len(), 3);
    let open = desk.leave_open(&mock, "open").await;
    let refused = desk.run(&["send", "--repeat", &open]).await.expect(2);
    assert!(
        refused.stderr.contains("--even-if-unresolved"),
        "{refused:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_with_one_intent_are_one_action() {
    let (desk, mock) = (Desk::new(), mock().await);
    mock.hold();
    let url = format!("{}/orders", mock.url());
    let args = ["send", "POST", &url, "--json", "{}", "--intent", "cart/9"];
    let first = desk.command(&args).spawn().unwrap();
    mock.wait_for(|ledger| ledger.count(Event::Held) == 1).await;
    let mut second = desk.command(&args).spawn().unwrap();
    let mut stderr = second.stderr.take().unwrap();
    let mut said = Vec::new();
    while !String::from_utf8_lossy(&said).contains("another process works on it") {
        assert_ne!(stderr.read_buf(&mut said).await.unwrap(), 0);
    }
    mock.release();
    let (first, second) = tokio::join!(finish_child(first), finish_child(second));
    let (first, second) = (first.expect(0), second.expect(0));
    assert_eq!(first.stdout, second.stdout);
    assert_eq!(mock.ledger().requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_works_on_it_is_polled() {
    let desk = Desk::new();
    let short = |settings: &mut samekey_mock::Settings| {
        settings.export_time = std::time::Duration::from_millis(1);
    };
    let mock = Mock::builder().settings(short).start().await.unwrap();
    let url = format!("{}/exports", mock.url());
    let ran = desk
        .run(&["send", "POST", &url, "--json", "{}"])
        .await
        .expect(0);
    assert!(ran.stderr.contains("its result is asked for"), "{ran:#?}");
    assert_eq!(mock.ledger().effects().len(), 1);
}

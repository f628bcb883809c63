//! The commands around sending: looking, deciding, checking.

use crate::support::{Desk, finish_child, mock};
use samekey_mock::Fault;
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

#[tokio::test(flavor = "multi_thread")]
async fn list_filters_by_state_and_time_and_shows_the_latest() {
    let (desk, mock) = (Desk::new(), mock().await);
    let empty = desk.run(&["list"]).await.expect(0);
    assert!(empty.stderr.contains("nothing of that kind"), "{empty:#?}");
    assert!(!desk.journal().exists(), "looking makes nothing");
    let url = format!("{}/orders", mock.url());
    for i in 0..5 {
        let intent = format!("cart/{i}");
        desk.run(&["send", "POST", &url, "--json", "{}", "--intent", &intent])
            .await
            .expect(0);
    }
    desk.leave_open(&mock, "lost/1").await;
    let count = |ran: crate::support::Ran| ran.document()["operations"].as_array().unwrap().len();
    for (args, expected) in [
        (&["list"][..], 6),
        (&["list", "--state", "succeeded"], 5),
        (&["list", "--state", "settled"], 5),
        (&["list", "--state", "attention"], 1),
        (&["list", "--state", "unfinished"], 1),
        (&["list", "--state", "open"], 0),
        (&["list", "--since", "1h"], 6),
        (&["list", "--since", "2999-01-01"], 0),
        (&["list", "--limit", "2"], 2),
        (&["list", "--limit", "0"], 6),
    ] {
        let ran = desk
            .run(&[args, &["--format", "json"]].concat())
            .await
            .expect(0);
        assert_eq!(count(ran), expected, "{args:?}");
    }
    let latest = desk.run(&["list", "--limit", "1"]).await.expect(0);
    assert!(latest.stdout.contains("lost/1"), "{latest:#?}");
    assert!(latest.stderr.contains("the latest 1 of 6"), "{latest:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn show_tells_the_whole_story() {
    let (desk, mock) = (Desk::new(), mock().await);
    mock.fault(Fault::Status(503).times(1));
    mock.fault(Fault::DropAfterCommit.times(1).after(1));
    let url = format!("{}/orders?customer=ada", mock.url());
    let args = [
        "send",
        "POST",
        &url,
        "--json",
        r#"{"item":"tea"}"#,
        "--intent",
        "cart/9",
    ];
    let reference = desk.run(&args).await.expect(0).reference();
    let ran = desk.run(&["show", &reference]).await.expect(0);
    for part in [
        "succeeded: it happened",
        "cart/9",
        "503",
        "replayed",
        "survives: a power cut",
        "window     until",
        "nobody: it has ended",
        "attempts   3",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {ran:#?}");
    }
    assert!(
        !ran.stdout.contains("ada"),
        "the query is not shown: {ran:#?}"
    );
    assert!(
        !ran.stdout.contains("tea"),
        "the body is not shown: {ran:#?}"
    );
    let typed = reference.to_lowercase().replace('-', " ");
    let revealed = desk.run(&["show", &typed, "--reveal"]).await.expect(0);
    assert!(
        revealed.stdout.contains("customer=ada") && revealed.stdout.contains(r#"{"item":"tea"}"#)
    );
    let key = revealed
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("key"));
    let by_key = desk.run(&["show", key.unwrap().trim()]).await.expect(0);
    assert!(by_key.stdout.contains(&reference));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_settles_abandons_and_forgets() {
    let (desk, mock) = (Desk::new(), mock().await);
    let references = {
        let mut references = Vec::new();
        for i in 0..3 {
            references.push(desk.leave_open(&mock, &format!("cart/{i}")).await);
        }
        references
    };
    let [first, second, third] = &references[..] else {
        unreachable!()
    };
    let early = desk.run(&["forget", first]).await.expect(2);
    assert!(early.stderr.contains("has not ended"), "{early:#?}");
    desk.run(&["settle", first, "--note", "x"]).await.expect(2);
    let settle = [
        "settle",
        first,
        "--happened",
        "--note",
        "seen on the server",
    ];
    desk.run(&settle).await.expect(0);
    let again = desk
        .run(&["settle", first, "--did-not", "--note", "no"])
        .await
        .expect(2);
    assert!(
        again.stderr.contains("succeeded, and stays so"),
        "{again:#?}"
    );
    desk.run(&["settle", second, "--did-not", "--note", "asked"])
        .await
        .expect(0);
    let abandoned = desk
        .run(&["abandon", third, "--reason", "paid in cash"])
        .await
        .expect(0);
    assert!(
        abandoned.stderr.contains("it may have happened"),
        "{abandoned:#?}"
    );
    let resumed = desk.run(&["resume", third]).await.expect(2);
    assert!(resumed.stderr.contains("abandoned"), "{resumed:#?}");
    for (reference, phase, note) in [
        (first, "succeeded", "seen on the server"),
        (second, "rejected", "asked"),
        (third, "abandoned", "paid in cash"),
    ] {
        let shown = desk
            .run(&["show", reference, "--format", "json"])
            .await
            .expect(0)
            .document();
        assert_eq!(
            (shown["phase"].as_str(), shown["note"].as_str()),
            (Some(phase), Some(note))
        );
    }
    assert_eq!(mock.ledger().requests().len(), 3, "nothing was sent");
    desk.run(&["forget", first]).await.expect(0);
    desk.run(&["show", first]).await.expect(2);
    let url = format!("{}/orders", mock.url());
    let args = ["send", "POST", &url, "--json", "{}", "--intent", "cart/0"];
    let guarded = desk.run(&args).await.expect(2);
    assert!(guarded.stderr.contains("was used before"), "{guarded:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn resume_all_takes_up_everything_at_a_limited_pace() {
    let (desk, mock) = (Desk::new(), mock().await);
    for i in 0..6 {
        desk.leave_open(&mock, &format!("cart/{i}")).await;
    }
    mock.hold();
    // What is committed is replayed at once and never held; a seventh waits at the gate.
    let ran = desk
        .run(&["resume", "--all", "--at-once", "2"])
        .await
        .expect(0);
    assert!(ran.stderr.contains("6 resumed: 6 succeeded"), "{ran:#?}");
    assert_eq!(mock.ledger().effects().len(), 6);
    assert!(mock.ledger().duplicates().is_empty());
    let empty = desk.run(&["resume", "--all"]).await.expect(0);
    assert!(empty.stderr.contains("nothing to resume"), "{empty:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn export_is_redacted_unless_revealed() {
    let (desk, mock) = (Desk::new(), mock().await);
    let url = format!("{}/orders?customer=canary-q", mock.url());
    let body = r#"{"item":"canary-b"}"#;
    let args = [
        "send",
        "POST",
        &url,
        "--json",
        body,
        "-H",
        "X-Request-Id: canary-h",
    ];
    desk.run(&args).await.expect(0);
    desk.leave_open(&mock, "lost").await;
    let plain = desk.run(&["export"]).await.expect(0);
    assert_eq!(plain.stdout.lines().count(), 2);
    for line in plain.stdout.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["reference"].is_string() && line.get("key").is_none());
    }
    assert!(!plain.stdout.contains("canary"), "{plain:#?}");
    let revealed = desk.run(&["export", "--reveal"]).await.expect(0);
    for canary in ["canary-q", "canary-b", "canary-h", "\"key\""] {
        assert!(revealed.stdout.contains(canary), "{canary}: {revealed:#?}");
    }
    let some = desk
        .run(&["export", "--state", "attention"])
        .await
        .expect(0);
    assert_eq!(some.stdout.lines().count(), 1);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn doctor_only_reads_and_says_what_is_wrong() {
    use std::os::unix::fs::PermissionsExt;
    let (desk, mock) = (Desk::new(), mock().await);
    let none = desk.run(&["doctor"]).await.expect(0);
    assert!(
        none.stdout.contains("nothing was sent from here"),
        "{none:#?}"
    );
    desk.leave_open(&mock, "cart").await;
    let before = std::fs::read(desk.journal()).unwrap();
    let well = desk.run(&["doctor"]).await.expect(0);
    for part in [
        "wal mode",
        "only its owner may read",
        "are whole",
        "MiB are free",
        "attention",
    ] {
        assert!(well.stdout.contains(part), "{part}: {well:#?}");
    }
    assert_eq!(
        std::fs::read(desk.journal()).unwrap(),
        before,
        "nothing is changed"
    );
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(desk.journal(), open).unwrap();
    let exposed = desk.run(&["doctor"]).await.expect(5);
    assert!(exposed.stdout.contains("BAD"), "{exposed:#?}");
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(desk.journal(), private).unwrap();
    damage(&desk);
    let damaged = desk.run(&["doctor"]).await.expect(5);
    assert!(damaged.stdout.contains("BAD"), "{damaged:#?}");
}

/// Changes one byte of the stored URL, wherever SQLite put it.
fn damage(desk: &Desk) {
    let mut hit = false;
    for ending in ["", "-wal"] {
        let path = PathBuf::from(format!("{}{ending}", desk.journal().display()));
        let Ok(bytes) = std::fs::read(&path) else {
            continue;
        };
        let found = bytes
            .windows(6)
            .enumerate()
            .filter(|(_, part)| *part == b"orders");
        for (at, _) in found {
            let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.seek(SeekFrom::Start(at as u64)).unwrap();
            file.write_all(b"0rders").unwrap();
            hit = true;
        }
    }
    assert!(hit, "the URL is in the journal");
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_in_a_pipe_prints_every_change_and_ends_when_all_is_done() {
    let (desk, mock) = (Desk::new(), mock().await);
    mock.hold();
    let url = format!("{}/orders", mock.url());
    let send = desk.command(&["send", "POST", &url, "--json", "{}", "--intent", "cart"]);
    let mut send = send;
    let send = send.spawn().unwrap();
    mock.wait_for(|ledger| ledger.count(samekey_mock::Event::Held) == 1)
        .await;
    let mut watch = desk.command(&["watch", "--until-done", "--every", "50ms"]);
    let mut watch = watch.spawn().unwrap();
    let mut said = Vec::new();
    {
        use tokio::io::AsyncReadExt;
        let stdout = watch.stdout.as_mut().unwrap();
        while !String::from_utf8_lossy(&said).contains("1 open, 0 need attention") {
            assert_ne!(stdout.read_buf(&mut said).await.unwrap(), 0);
        }
    }
    mock.release();
    let (send, watch) = tokio::join!(finish_child(send), finish_child(watch));
    send.expect(0);
    let watch = watch.expect(0);
    assert!(
        watch.stdout.contains("0 open, 0 need attention"),
        "{watch:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn quiet_says_only_what_went_wrong_and_pipes_get_no_colour() {
    let (desk, mock) = (Desk::new(), mock().await);
    let url = format!("{}/orders", mock.url());
    let quiet = desk
        .run(&["send", "-q", "POST", &url, "--json", "{}"])
        .await
        .expect(0);
    assert_eq!(quiet.stderr, "");
    assert!(quiet.stdout.contains("ord_000001"));
    let args = [
        "send",
        "-q",
        "POST",
        "http://127.0.0.1:1/",
        "--json",
        "{}",
        "--max-attempts",
        "1",
    ];
    let failed = desk.run(&args).await.expect(4);
    assert!(failed.stderr.contains("reference "), "{failed:#?}");
    let list = desk.run(&["list"]).await.expect(0);
    assert!(!format!("{list:?}").contains("u{1b}"), "{list:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_and_manual_pages_are_complete() {
    let desk = Desk::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = desk.run(&["completions", shell]).await.expect(0);
        assert!(ran.stdout.contains("bearer-env"), "{shell}");
    }
    let page = desk.run(&["man"]).await.expect(0);
    assert!(page.stdout.contains(".TH") && page.stdout.contains("doctor"));
    let send = desk.run(&["man", "send"]).await.expect(0);
    assert!(send.stdout.contains("intent"), "{send:#?}");
    desk.run(&["man", "nonsense"]).await.expect(2);
    desk.run(&["man", "--dir", "pages"]).await.expect(0);
    let pages = std::fs::read_dir(desk.path("pages")).unwrap().count();
    assert_eq!(pages, 14);
}

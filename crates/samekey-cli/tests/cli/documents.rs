//! `--format json`: every command, and the names that docs/cli.md promises.

use crate::support::{Desk, Ran, mock};
use samekey_mock::Fault;
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/cli.md");

/// The members of an object.
fn members(value: &Value) -> Vec<&str> {
    let object = value
        .as_object()
        .unwrap_or_else(|| panic!("no object: {value}"));
    object.keys().map(String::as_str).collect()
}

/// Every member that a command prints stands in the page.
#[track_caller]
fn documented(value: &Value) {
    for member in members(value) {
        assert!(
            PAGE.contains(&format!("`{member}`")),
            "{member} is not in docs/cli.md"
        );
    }
}

fn events(ran: &Ran) -> Vec<Value> {
    let lines = ran.stderr.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_speaks_json() {
    let (desk, mock) = (Desk::new(), mock().await);
    let json = ["--format", "json"];
    let run = |args: Vec<&'static str>| {
        let desk = &desk;
        async move { desk.run(&[&args[..], &json].concat()).await }
    };
    for args in [
        vec!["list"],
        vec!["doctor"],
        vec!["resume", "--all"],
        vec!["watch", "--until-done"],
        vec!["completions", "bash"],
        vec!["man"],
        vec!["man", "--dir", "pages"],
        vec!["mock", "--list"],
    ] {
        documented(&run(args).await.expect(0).document());
    }
    let one = desk.leave_open(&mock, "cart/1").await;
    let two = desk.leave_open(&mock, "cart/2").await;
    let three = desk.leave_open(&mock, "cart/3").await;
    let shown = desk
        .run(&[&["show", &one, "--reveal"], &json[..]].concat())
        .await
        .expect(0);
    let shown = shown.document();
    documented(&shown);
    for part in ["window", "body", "next"] {
        documented(&shown[part]);
    }
    documented(&shown["story"][0]);
    let list = run(vec!["list"]).await.expect(0).document();
    assert_eq!(list["total"], 3);
    documented(&list["operations"][0]);
    for args in [
        &["settle", &one, "--happened", "--note", "x"][..],
        &["abandon", &two, "--reason", "x"],
        &["forget", &two],
        &["resume", &three],
        &["resume", &one],
    ] {
        documented(&desk.run(&[args, &json].concat()).await.expect(0).document());
    }
    let refused = desk
        .run(&[&["forget", &two], &json[..]].concat())
        .await
        .expect(2)
        .document();
    documented(&refused);
    documented(&refused["error"]);
    assert_eq!(refused["error"]["exit_code"], 2);
    let export = run(vec!["export"]).await.expect(0);
    assert_eq!(export.stdout.lines().count(), 2);
    let findings = run(vec!["doctor"]).await.expect(0).document();
    documented(&findings["findings"][0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn send_prints_one_document_and_the_events_on_the_way() {
    let (desk, mock) = (Desk::new(), mock().await);
    mock.fault(Fault::DropAfterCommit.times(1));
    let url = format!("{}/orders", mock.url());
    let args = [
        "send", "POST", &url, "--json", "{}", "--intent", "cart", "--format", "json",
    ];
    let ran = desk.run(&args).await.expect(0);
    let document = ran.document();
    documented(&document);
    assert_eq!(document["phase"], "succeeded");
    assert_eq!(document["status"], 201);
    assert_eq!(document["attempts"], 2);
    assert_eq!(document["provenance"], "replayed");
    assert_eq!(document["body"]["json"]["id"], "ord_000001");
    let events = events(&ran);
    let names: Vec<&str> = events
        .iter()
        .map(|e| e["event"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["begun", "sending", "waiting", "sending"]);
    assert_eq!(events[0]["reference"], document["reference"]);
    assert!(
        events[2]["reason"]
            .as_str()
            .unwrap()
            .contains("ended before an answer")
    );
    events.iter().for_each(documented);
    for name in ["begun", "sending", "waiting", "polling", "joined"] {
        assert!(PAGE.contains(&format!("`{name}`")), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_is_a_document_too() {
    let (desk, mock) = (Desk::new(), mock().await);
    mock.fault(Fault::DropAfterCommit.times(1));
    let url = format!("{}/orders", mock.url());
    let args = [
        "send",
        "POST",
        &url,
        "--json",
        "{}",
        "--max-attempts",
        "1",
        "--format",
        "json",
    ];
    let error = desk.run(&args).await.expect(4).document();
    assert_eq!(error["error"]["kind"], "attention-exhausted");
    assert_eq!(error["error"]["nothing_was_sent"], false);
    assert!(
        error["error"]["do"]
            .as_str()
            .unwrap()
            .starts_with("samekey resume ")
    );
    let all = desk
        .run(&["resume", "--all", "--format", "json"])
        .await
        .expect(0)
        .document();
    documented(&all);
    documented(&all["counts"]);
    assert_eq!(all["counts"]["succeeded"], 1);
    assert_eq!(all["results"][0]["phase"], "succeeded");
}

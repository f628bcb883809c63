//! For whom, and by which proof: scopes and credentials.

use crate::support::{Desk, answer, mock, scripted};
use std::sync::{Arc, Mutex};

const CANARY: &str = "canary-7f3a-secret";

#[tokio::test(flavor = "multi_thread")]
async fn sent_under_one_scope_and_resumed_under_another_is_refused_and_nothing_is_sent() {
    let (desk, mock) = (Desk::new(), mock().await);
    mock.fault(samekey_mock::Fault::DropAfterCommit.times(1));
    let url = format!("{}/orders", mock.url());
    let args = ["send", "POST", &url, "--json", "{}", "--max-attempts", "1"];
    let sent = desk
        .run(&[&args[..], &["--scope", "anna"]].concat())
        .await
        .expect(4);
    let reference = sent.reference();
    let before = mock.ledger().requests().len();
    let journal = desk.journal().display().to_string();
    for scope in [
        &["--scope", "ben"][..],
        &[],
        &["--application", "other", "--journal", &journal],
    ] {
        let ran = desk
            .run(&[&["resume", &reference], scope].concat())
            .await
            .expect(2);
        assert!(ran.stderr.contains("belongs to samekey/anna"), "{ran:#?}");
        assert!(ran.stderr.contains("--scope anna"), "{ran:#?}");
        desk.run(&[&["resume", "--all"], scope].concat())
            .await
            .expect(0);
        for act in [
            &["settle", &reference, "--did-not", "--note", "x"][..],
            &["abandon", &reference, "--reason", "x"],
            &["forget", &reference],
            &["send", "--repeat", &reference],
        ] {
            desk.run(&[act, scope].concat()).await.expect(2);
        }
    }
    assert_eq!(mock.ledger().requests().len(), before, "nothing was sent");
    desk.run(&["resume", &reference, "--scope", "anna"])
        .await
        .expect(0);
    assert_eq!(mock.ledger().effects().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_intent_of_two_scopes_is_two_actions() {
    let (desk, mock) = (Desk::new(), mock().await);
    let url = format!("{}/orders", mock.url());
    for scope in ["anna", "ben"] {
        let args = [
            "send", "POST", &url, "--json", "{}", "--intent", "cart", "--scope", scope,
        ];
        desk.run(&args).await.expect(0);
    }
    assert_eq!(mock.ledger().effects().len(), 2);
    let list = desk.run(&["list"]).await.expect(0);
    assert!(list.stdout.contains("samekey/anna") && list.stdout.contains("samekey/ben"));
    let anna = desk.run(&["list", "--scope", "anna"]).await.expect(0);
    assert_eq!(anna.stdout.lines().count(), 2, "{anna:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_reach_the_server_and_nothing_else() {
    let desk = Desk::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let (url, _server) = scripted(move |_, request| {
        log.lock().unwrap().push(request.to_owned());
        answer(201, "", "{}")
    })
    .await;
    let variables = [("TOKEN", CANARY), ("LOGIN", "ada:canary-7f3a")];
    for (args, line) in [
        (
            ["--bearer-env", "TOKEN"],
            "authorization: bearer canary-7f3a-secret",
        ),
        (
            ["--basic-env", "LOGIN"],
            "authorization: basic ywrhomnhbmfyes03zjnh",
        ),
        (
            ["--header-env", "X-Api-Key=TOKEN"],
            "x-api-key: canary-7f3a-secret",
        ),
    ] {
        let send = ["send", "POST", &url, "--json", "{}", "--format", "json"];
        let ran = desk
            .run_with(&[&send[..], &args].concat(), &variables)
            .await
            .expect(0);
        let request = seen.lock().unwrap().pop().unwrap();
        assert!(request.contains(line), "{request}");
        assert!(!format!("{ran:?}").contains("canary"));
    }
    for command in [&["export", "--reveal"][..], &["list"], &["doctor"]] {
        let ran = desk.run_with(command, &variables).await.expect(0);
        assert!(!format!("{ran:?}").contains("canary"), "{command:?}");
    }
    assert!(!desk.holds("canary"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_401_on_resume_says_how_to_give_credentials() {
    let desk = Desk::new();
    let (url, _server) = scripted(|number, request| {
        match (number, request.contains("authorization: bearer canary")) {
            (1, _) => String::new(),
            (_, true) => answer(201, "", r#"{"paid":true}"#),
            (_, false) => answer(401, "", "{}"),
        }
    })
    .await;
    let args = ["send", "POST", &url, "--json", "{}", "--max-attempts", "1"];
    let reference = desk.run(&args).await.expect(4).reference();
    let refused = desk.run(&["resume", &reference]).await.expect(4);
    assert!(
        refused.stderr.contains("wants other credentials"),
        "{refused:#?}"
    );
    assert!(refused.stderr.contains("--bearer-env VAR"), "{refused:#?}");
    let args = ["resume", &reference, "--bearer-env", "TOKEN"];
    let ran = desk.run_with(&args, &[("TOKEN", CANARY)]).await.expect(0);
    assert_eq!(ran.stdout, r#"{"paid":true}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_has_its_settings_in_the_configuration() {
    let (desk, mock) = (Desk::new(), mock().await);
    let host = mock.url().trim_start_matches("http://").to_owned();
    desk.configure(&format!(
        "scope = \"anna\"\n[host.\"{host}\"]\nprofile = \"stripe\"\nwindow = \"12h\"\n\
         bearer_env = \"SHOP_TOKEN\"\nmax_attempts = 1\n"
    ));
    let url = format!("{}/orders", mock.url());
    let args = ["send", "POST", &url, "--json", "{}"];
    let refused = desk.run(&args).await.expect(2);
    assert!(
        refused.stderr.contains("SHOP_TOKEN is not set"),
        "{refused:#?}"
    );
    assert!(mock.ledger().requests().is_empty());
    mock.fault(samekey_mock::Fault::DropAfterCommit.times(1));
    let token = [("SHOP_TOKEN", "acme")];
    let sent = desk.run_with(&args, &token).await.expect(4);
    assert_eq!(mock.ledger().requests()[0].tenant, "acme");
    let shown = desk
        .run(&["show", &sent.reference(), "--format", "json"])
        .await
        .expect(0);
    let shown = shown.document();
    assert_eq!(shown["profile"], "stripe");
    assert_eq!(shown["scope"], "samekey/anna");
    assert_eq!(shown["window"]["said_by"], "operation");
    desk.run_with(&["resume", "--all"], &token).await.expect(0);
    assert_eq!(mock.ledger().effects().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn typed_credentials_are_not_shown_to_several_hosts() {
    let (desk, one, two) = (Desk::new(), mock().await, mock().await);
    desk.leave_open(&one, "a").await;
    desk.leave_open(&two, "b").await;
    let args = ["resume", "--all", "--bearer-env", "TOKEN"];
    let refused = desk.run_with(&args, &[("TOKEN", CANARY)]).await.expect(2);
    assert!(refused.stderr.contains("nothing was sent"), "{refused:#?}");
    assert_eq!(
        one.ledger().requests().len() + two.ledger().requests().len(),
        2
    );
    desk.run(&["resume", "--all"]).await.expect(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_with_a_mistake_is_refused_with_its_place() {
    let desk = Desk::new();
    desk.configure("[host.\"a.example\"]\nbearer = \"X\"\n");
    let ran = desk.run(&["list"]).await.expect(2);
    assert!(
        ran.stderr.contains("config.toml") && ran.stderr.contains("line 2"),
        "{ran:#?}"
    );
    desk.run(&["doctor"]).await.expect(5);
}

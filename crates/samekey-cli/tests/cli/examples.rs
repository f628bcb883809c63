//! Every example that a `--help` gives works as it stands there.
#![cfg(unix)]

use crate::support::{Desk, PROGRAM, finish, mock, signal};
use samekey_mock::Mock;
use std::path::Path;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

const COMMANDS: [&str; 13] = [
    "send",
    "list",
    "show",
    "resume",
    "settle",
    "abandon",
    "forget",
    "watch",
    "export",
    "doctor",
    "mock",
    "completions",
    "man",
];

/// The lines of the help that are commands.
async fn examples(desk: &Desk, command: &str) -> Vec<String> {
    let help = desk.run(&[command, "--help"]).await.expect(0).stdout;
    let after = help
        .split("Examples:\n")
        .nth(1)
        .unwrap_or_else(|| panic!("{command}: {help}"));
    let lines = after.lines().take_while(|line| line.starts_with("  "));
    lines.map(|line| line.trim().to_owned()).collect()
}

fn shell(desk: &Desk, line: &str) -> Command {
    let mut command = Command::new("sh");
    desk.prepare(&mut command);
    let folder = Path::new(PROGRAM).parent().unwrap().display();
    let path = std::env::var("PATH").unwrap_or_default();
    command
        .args(["-c", line])
        .env("PATH", format!("{folder}:{path}"))
        .env("API_TOKEN", "acme");
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_works() {
    let (desk, mock) = (Desk::new(), mock().await);
    std::fs::write(desk.path("payment.json"), r#"{"amount":100}"#).unwrap();
    for folder in [
        ".local/share/bash-completion/completions",
        ".zfunc",
        ".config/fish/completions",
    ] {
        std::fs::create_dir_all(desk.path(folder)).unwrap();
    }
    std::fs::write(desk.path("orders.samekey"), "").unwrap();
    std::fs::remove_file(desk.path("orders.samekey")).unwrap();
    let mut count = 0;
    for command in COMMANDS {
        let lines = examples(&desk, command).await;
        assert!(!lines.is_empty(), "{command}");
        for line in lines {
            count += 1;
            let line = fill_in(&desk, &mock, command, &line, count).await;
            match command {
                "mock" if !line.contains("--list") => until_it_listens(&desk, &line).await,
                "watch" if !line.contains("--until-done") => until_it_speaks(&desk, &line).await,
                _ => {
                    let ran = finish(shell(&desk, &line)).await;
                    assert_eq!(ran.code, Some(0), "{line}: {ran:#?}");
                }
            }
        }
    }
    assert!(count > 30, "{count} examples were run");
}

/// Puts a real server and a real reference where the example has one of each.
async fn fill_in(desk: &Desk, mock: &Mock, command: &str, line: &str, count: usize) -> String {
    let address = mock.url().trim_start_matches("http://").to_owned();
    let mut line = line.replace("127.0.0.1:8480", &address);
    // No pager is needed to see that the page is one.
    line = line.replace("| man -l -", "| grep -q TH");
    if line.contains("7D3F") || line.contains("7d3f") {
        let mut reference = desk.leave_open(mock, &format!("example/{count}")).await;
        if command == "forget" || line.contains("--repeat") {
            desk.run(&["resume", &reference]).await.expect(0);
        }
        line = line.replace("7D3F-92AB-1C4E-7", &reference);
        reference = reference.to_lowercase().replace('-', " ");
        line = line.replace("7d3f 92ab 1c4e 7", &reference);
    }
    line
}

async fn until_it_listens(desk: &Desk, line: &str) {
    let line = line.split(" #").next().unwrap().trim_end();
    let line = match line.contains("--port") {
        true => line.to_owned(),
        false => format!("{line} --port 0"),
    };
    until_it_speaks(desk, &line).await;
}

/// Runs a command that only ends when it is told to.
async fn until_it_speaks(desk: &Desk, line: &str) {
    let mut child = shell(desk, &format!("exec {line}")).spawn().unwrap();
    let mut said = Vec::new();
    let stdout = child.stdout.as_mut().unwrap();
    assert_ne!(stdout.read_buf(&mut said).await.unwrap(), 0, "{line}");
    signal(&child, "-INT").await;
    assert!(child.wait().await.unwrap().success(), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_example_of_all_works() {
    let desk = Desk::new();
    let help = desk.run(&["--help"]).await.expect(0).stdout;
    assert!(
        help.contains("samekey mock --fault 'drop-after-commit*1' &"),
        "{help}"
    );
    let args = [
        "mock",
        "--fault",
        "drop-after-commit*1",
        "--port",
        "0",
        "--format",
        "json",
    ];
    let mut child = desk.command(&args).spawn().unwrap();
    let mut said = Vec::new();
    let stdout = child.stdout.as_mut().unwrap();
    while !said.ends_with(b"\n") {
        assert_ne!(stdout.read_buf(&mut said).await.unwrap(), 0);
    }
    let line: serde_json::Value = serde_json::from_slice(&said).unwrap();
    let url = format!("{}/orders", line["url"].as_str().unwrap());
    let ran = desk
        .run(&["send", "POST", &url, "--json", r#"{"sku":"a","qty":1}"#])
        .await
        .expect(0);
    assert!(ran.stderr.contains("2 attempts"), "{ran:#?}");
    signal(&child, "-TERM").await;
    let mut rest = String::new();
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_to_string(&mut rest)
        .await
        .unwrap();
    assert!(rest.contains("\"effects\":1"), "{rest}");
    assert!(child.wait().await.unwrap().success());
}

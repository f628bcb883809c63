//! What a terminal shows, read back from tmux and compared with what it should be.
//!
//! `SAMEKEY_BLESS=1` writes the expected screens anew; look at them before committing.
#![cfg(unix)]

use crate::support::{Desk, PATIENCE, PROGRAM, answer, finish, mock, scripted};
use samekey_mock::Event;
use std::path::Path;
use std::process::Stdio;
use tokio::process::Command;

const WIDTHS: [u16; 2] = [80, 120];

/// `false` if the user said that there is no tmux; fails if there is none all the same.
async fn has_tmux() -> bool {
    if std::env::var_os("SAMEKEY_NO_TMUX").is_some_and(|value| value == "1") {
        eprintln!("SKIPPED: SAMEKEY_NO_TMUX=1, so no terminal was looked at");
        return false;
    }
    let found = Command::new("tmux")
        .arg("-V")
        .stdout(Stdio::null())
        .status()
        .await;
    assert!(
        found.is_ok_and(|status| status.success()),
        "tmux is needed to look at terminals; install it (apt-get install -y tmux), or set \
         SAMEKEY_NO_TMUX=1 to go without"
    );
    true
}

/// A terminal of its own.
struct Screen {
    socket: String,
    width: u16,
}

impl Screen {
    async fn open(desk: &Desk, width: u16, name: &str, args: &str) -> Screen {
        Screen::open_with(desk, width, name, args, "").await
    }

    /// `variables`: set before the program, as in a shell.
    async fn open_with(desk: &Desk, width: u16, name: &str, args: &str, variables: &str) -> Screen {
        let socket = desk
            .path(&format!("tmux-{name}-{width}"))
            .display()
            .to_string();
        // Afterwards the screen stays as it is, with the exit code below it.
        let line = format!("{variables} {PROGRAM} {args}; echo \"exit $?\"; exec cat");
        let mut command = Command::new("tmux");
        desk.prepare(&mut command);
        command
            .env("LC_ALL", "C.UTF-8")
            .args(["-u", "-f", "/dev/null", "-S", &socket, "new-session", "-d"])
            .args(["-x", &width.to_string(), "-y", "20", &line]);
        finish(command).await.expect(0);
        Screen { socket, width }
    }

    async fn tmux(&self, args: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.args(["-S", &self.socket]).args(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command).await.expect(0).stdout
    }

    /// The screen, as soon as it shows `part`.
    async fn shows(&self, part: &str) -> String {
        let wait = async {
            loop {
                let screen = self.tmux(&["capture-pane", "-p"]).await;
                if screen.contains(part) {
                    return screen;
                }
                tokio::task::yield_now().await;
            }
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(screen) => screen,
            Err(_) => panic!(
                "no {part:?} on:\n{}",
                self.tmux(&["capture-pane", "-p"]).await
            ),
        }
    }

    fn compare(&self, name: &str, screen: &str) {
        let width = usize::from(self.width);
        for line in screen.lines() {
            assert!(line.chars().count() <= width, "wider than {width}: {line}");
        }
        let seen = normal(screen, width);
        let file = format!("{name}-{width}.txt");
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/cli/screens")
            .join(&file);
        if std::env::var_os("SAMEKEY_BLESS").is_some_and(|value| value == "1") {
            std::fs::write(&path, &seen).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(seen, expected, "{file} differs; the screen was:\n{screen}");
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut end = std::process::Command::new("tmux");
        let _ = end
            .args(["-S", &self.socket, "kill-server"])
            .stderr(Stdio::null())
            .status();
    }
}

/// Without what differs from run to run: references, ports, numbers of seconds, the spinner.
fn normal(screen: &str, width: usize) -> String {
    let lines = screen.lines().map(|line| normal_line(line, width));
    let mut lines: Vec<String> = lines.collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.join("\n") + "\n"
}

fn normal_line(line: &str, width: usize) -> String {
    let words = line.split(' ').map(|word| {
        let spinner = word.chars().count() == 1 && word.chars().all(|c| ('⠀'..='⣿').contains(&c));
        let is_reference = word.len() == 16 && word.matches('-').count() == 3;
        if spinner {
            "*".to_owned()
        } else if is_reference {
            "XXXX-XXXX-XXXX-X".to_owned()
        } else if let Some((start, rest)) = word.split_once("127.0.0.1:") {
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{start}HOST{rest}")
        } else {
            word.to_owned()
        }
    });
    let words: Vec<String> = words.collect();
    let mut line: Vec<String> = Vec::new();
    for (i, word) in words.iter().enumerate() {
        let unit = words
            .get(i + 1)
            .is_some_and(|next| matches!(next.trim_end_matches([':', ',']), "s" | "m"));
        let number = !word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || c == '.');
        line.push(if unit && number {
            "9".into()
        } else {
            word.clone()
        });
    }
    let mut text = line.join(" ");
    // A column of times is as wide as the times are.
    let timed = line != words || text.contains(" AGE ");
    while timed && text.contains("   ") {
        text = text.replace("   ", "  ");
    }
    // Where a line is cut depends on the width of the number in it.
    match text.strip_suffix('…') {
        Some(cut) if timed => format!("{}…", cut.chars().take(width * 3 / 4).collect::<String>()),
        _ => text.trim_end().to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_shows_a_countdown_with_the_reason_of_the_wait() {
    if !has_tmux().await {
        return;
    }
    let (url, _server) = scripted(|_, _| answer(503, "retry-after: 25\r\n", "{}")).await;
    for width in WIDTHS {
        let desk = Desk::new();
        let args = format!("send POST {url}/orders --json '{{}}'");
        let screen = Screen::open(&desk, width, "countdown", &args).await;
        let shown = screen.shows("attempt 2 of 6 in ").await;
        screen.compare("countdown", &shown);
        let list = desk.run(&["list", "--format", "json"]).await.document();
        let reference = list["operations"][0]["reference"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(shown.contains(&reference), "{shown}");
        screen.tmux(&["send-keys", "C-c"]).await;
        let stopped = screen.shows("exit 4").await;
        assert!(
            !stopped.contains("attempt 2 of 6"),
            "the countdown is gone: {stopped}"
        );
        screen.compare("stopped", &stopped);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_shows_that_an_answer_is_waited_for() {
    if !has_tmux().await {
        return;
    }
    for width in WIDTHS {
        let (desk, mock) = (Desk::new(), mock().await);
        mock.hold();
        let args = format!("send POST {}/orders --json '{{}}'", mock.url());
        let screen = Screen::open(&desk, width, "sending", &args).await;
        mock.wait_for(|ledger| ledger.count(Event::Held) == 1).await;
        screen.compare("sending", &screen.shows("waiting for the answer").await);
        mock.release();
        screen.compare("sent", &screen.shows("exit 0").await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_is_refreshed_in_place() {
    if !has_tmux().await {
        return;
    }
    for width in WIDTHS {
        let (desk, mock) = (Desk::new(), mock().await);
        mock.hold();
        let url = format!("{}/orders", mock.url());
        let intent = "a-rather-long-name-of-an-action/which/is/cut/where/there/is/no/room";
        let args = ["send", "POST", &url, "--json", "{}", "--intent", intent];
        let first = desk.command(&args).spawn().unwrap();
        mock.wait_for(|ledger| ledger.count(Event::Held) == 1).await;
        mock.pass();
        desk.leave_open(&mock, "cart/9").await;
        let screen = Screen::open(&desk, width, "watch", "watch --every 100ms").await;
        screen.compare("watch", &screen.shows("cart/9").await);
        mock.release();
        crate::support::finish_child(first).await.expect(0);
        let after = screen.shows("0 open, 1 need attention").await;
        assert_eq!(
            after.matches(" need attention, in ").count(),
            1,
            "in place: {after}"
        );
        assert!(!after.contains("a-rather-long"), "{after}");
        screen.tmux(&["send-keys", "C-c"]).await;
        screen.shows("exit 0").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resume_all_shows_a_bar() {
    if !has_tmux().await {
        return;
    }
    for width in WIDTHS {
        let desk = Desk::new();
        let mut open = Vec::new();
        let mock = mock().await;
        for i in 0..6 {
            // Dropped before anything was done, so that resuming has work to wait for.
            mock.fault(samekey_mock::Fault::DropBeforeCommit.times(1));
            let (url, intent) = (format!("{}/orders", mock.url()), format!("cart/{i}"));
            let args = ["send", "POST", &url, "--json", "{}", "--intent", &intent];
            let args = [&args[..], &["--max-attempts", "1"]].concat();
            open.push(desk.run(&args).await.expect(4).reference());
        }
        mock.hold();
        let screen = Screen::open(&desk, width, "bar", "resume --all --at-once 3").await;
        mock.wait_for(|ledger| ledger.count(Event::Held) == 3).await;
        screen.compare("bar", &screen.shows("0 of 6 done").await);
        mock.release();
        let done = screen.shows("exit 0").await;
        assert!(done.contains("6 resumed: 6 succeeded"), "{done}");
        assert!(
            open.iter().all(|reference| done.contains(reference)),
            "{done}"
        );
        assert!(!done.contains('['), "the bar is gone: {done}");
        assert_eq!(mock.ledger().effects().len(), 6);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn colours_are_for_terminals_that_want_them() {
    if !has_tmux().await {
        return;
    }
    let (desk, mock) = (Desk::new(), mock().await);
    desk.leave_open(&mock, "cart/9").await;
    for (name, variables, coloured) in [
        ("plain", "NO_COLOR=1", false),
        ("empty", "NO_COLOR=", true),
        ("colour", "", true),
    ] {
        let screen = Screen::open_with(&desk, 80, name, "list", variables).await;
        screen.shows("exit 0").await;
        let escapes = screen.tmux(&["capture-pane", "-p", "-e"]).await;
        assert_eq!(escapes.contains('\u{1b}'), coloured, "{name}: {escapes:?}");
    }
}

//! A browser that clicks: the few WebDriver commands that this takes, over a plain socket.

use crate::client::Ask;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

pub(crate) struct Driver {
    at: SocketAddr,
    session: String,
    _profile: tempfile::TempDir,
    _child: Child,
}

impl Driver {
    pub(crate) async fn start(browser: &Path) -> Self {
        let mut child = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("chromedriver starts (apt-get install chromium-driver)");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = loop {
            let line = lines
                .next_line()
                .await
                .unwrap()
                .expect("chromedriver says its port");
            if let Some((_, port)) = line.split_once("successfully on port ") {
                break port.trim_end_matches('.').parse().unwrap();
            }
        };
        let profile = tempfile::tempdir().unwrap();
        let folder = format!("--user-data-dir={}", profile.path().display());
        let options = json!({
            "binary": browser,
            "args": ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                "--window-size=1280,1400", folder],
        });
        let at = SocketAddr::from(([127, 0, 0, 1], port));
        let wish = json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": options } } });
        let made = command(at, "/session", &wish).await;
        let session = made["sessionId"].as_str().expect("a session").to_owned();
        Self {
            at,
            session,
            _profile: profile,
            _child: child,
        }
    }

    async fn ask(&self, path: &str, body: &Value) -> Value {
        command(self.at, &format!("/session/{}{path}", self.session), body).await
    }

    pub(crate) async fn open(&self, url: &str) {
        self.ask("/url", &json!({ "url": url })).await;
        self.ask("/timeouts", &json!({ "implicit": 20_000 })).await;
    }

    /// Clicks the first element that fits, waiting for it to appear.
    pub(crate) async fn click(&self, css: &str) {
        let found = self
            .ask(
                "/element",
                &json!({ "using": "css selector", "value": css }),
            )
            .await;
        let element = found.as_object().and_then(|o| o.values().next()?.as_str());
        let element = element.unwrap_or_else(|| panic!("nothing fits {css}: {found}"));
        self.ask(&format!("/element/{element}/click"), &json!({}))
            .await;
    }

    /// Ends the browser; without this its processes would outlive the driver.
    pub(crate) async fn quit(self) {
        Ask::new(self.at, "DELETE", &format!("/session/{}", self.session))
            .send_once()
            .await;
    }
}

async fn command(at: SocketAddr, path: &str, body: &Value) -> Value {
    Ask::new(at, "POST", path)
        .json(&body.to_string())
        .send_once()
        .await
        .json()["value"]
        .take()
}

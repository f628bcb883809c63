//! A headless browser, as a command.

use std::path::{Path, PathBuf};
use tokio::process::Command;

/// Where a browser is, or none where its absence is accepted.
///
/// # Panics
/// Where there is none and nobody said that this is fine.
pub(crate) fn find() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|path| path.is_file());
    if found.is_none() {
        let accepted = std::env::var("SAMEKEY_NO_BROWSER").is_ok_and(|value| value == "1");
        assert!(
            accepted,
            "no browser found: install chromium (apt-get install chromium), or set SAMEKEY_NO_BROWSER=1"
        );
        eprintln!("SKIPPED: no browser, and SAMEKEY_NO_BROWSER=1 says that this is fine");
    }
    found
}

/// Runs the browser on a page and returns what it printed.
pub(crate) async fn run(browser: &Path, args: &[&str], url: &str) -> String {
    let profile = tempfile::tempdir().expect("a folder for the browser");
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .args(["--hide-scrollbars", "--virtual-time-budget=4000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(args)
        .arg(url)
        .kill_on_drop(true)
        .output()
        .await
        .expect("the browser starts");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

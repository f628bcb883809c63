//! `cargo xtask demo`: the demo shop, in the browser of whoever asks.

use crate::setup::npm_packages;
use crate::shell::{Outcome, cargo, command, installed, run as sh};
use crate::web;
use std::env;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// Builds, serves and opens it.
pub(crate) fn run() -> Outcome {
    npm_packages()?;
    web::run()?;
    sh(&mut cargo(&["build", "--package", "samekey-mock"]))?;
    let name = format!("debug/samekey-mock{}", env::consts::EXE_SUFFIX);
    let mock = web::target()?.join(name);
    let mut child = command("node", &["examples/checkout_page/serve.mjs"])
        .env("SAMEKEY_MOCK", mock)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("node cannot be started: {e}"))?;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            println!("{line}");
            if let Some(url) = line.strip_prefix("shop ") {
                open(url.trim());
            }
        }
    }
    let status = child
        .wait()
        .map_err(|e| format!("cannot wait for node: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the demo ended badly ({status})"))
    }
}

/// Shows the page, where there is a screen; the line above says where it is.
fn open(url: &str) {
    let opener = ["xdg-open", "open"]
        .into_iter()
        .find(|name| installed(name));
    if let Some(opener) = opener {
        let quiet = command(opener, &[url])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        drop(quiet);
    }
}

//! What the other commands need on the machine, installed where that can be done.

use crate::shell::{Outcome, command, installed, output, root, run};

/// The target that the browser build is compiled for.
pub(crate) const WASM: &str = "wasm32-unknown-unknown";

/// Makes sure that the core can be built for the browser.
pub(crate) fn wasm_target() -> Outcome {
    let libraries = output(&mut command(
        "rustc",
        &["--print", "target-libdir", "--target", WASM],
    ))?;
    if std::path::Path::new(libraries.trim()).is_dir() {
        return Ok(());
    }
    if !installed("rustup") {
        return Err(format!(
            "the Rust target {WASM} is missing and there is no rustup to add it"
        ));
    }
    run(&mut command("rustup", &["target", "add", WASM]))
}

/// Makes sure of the tools that the package is built and tested with, as the lock file names them.
pub(crate) fn npm_packages() -> Outcome {
    let package = root().join("pkg");
    let lock = package.join("package-lock.json");
    let installed_lock = package.join("node_modules/.package-lock.json");
    let changed = |path: &std::path::Path| std::fs::metadata(path).and_then(|m| m.modified()).ok();
    if changed(&installed_lock).is_some_and(|done| Some(done) >= changed(&lock)) {
        return Ok(());
    }
    if !installed("npm") {
        return Err("the npm package needs Node 20 or later with npm: install it".into());
    }
    let arguments = ["ci", "--no-audit", "--no-fund"];
    run(command("npm", &arguments).current_dir(package))
}

/// Programs that tests start, each with the package that brings it. Any of the names will do.
const PROGRAMS: &[(&[&str], &str)] = &[
    (
        &["chromium", "chromium-browser", "google-chrome"],
        "chromium",
    ),
    (&["chromedriver"], "chromium-driver"),
    (&["strace"], "strace"),
    (&["tmux"], "tmux"),
    (&["valgrind"], "valgrind"),
];

/// Makes sure of the programs that tests start: a browser and its driver, a terminal, a tracer.
///
/// Nothing fails here: a test that needs what could not be installed says so itself.
pub(crate) fn programs() -> Outcome {
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(names, _)| !names.iter().any(|name| installed(name)))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let by_hand = format!("some tests need {}: install it", missing.join(", "));
    if !installed("apt-get") || !is_root() {
        println!("note: {by_hand}");
        return Ok(());
    }
    let installing = run(&mut command("apt-get", &["update", "--quiet"])).and_then(|()| {
        let mut arguments = vec!["install", "--quiet", "--yes", "--no-install-recommends"];
        arguments.extend(&missing);
        run(command("apt-get", &arguments).env("DEBIAN_FRONTEND", "noninteractive"))
    });
    if let Err(why) = installing {
        println!("note: {by_hand} ({why})");
    }
    Ok(())
}

fn is_root() -> bool {
    output(&mut command("id", &["-u"])).is_ok_and(|id| id.trim() == "0")
}

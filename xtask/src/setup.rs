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
            "the Rust target {WASM} is missing and there is no rustup to add it: install rustup from \
             rustup.rs, or your system's package of that target"
        ));
    }
    run(&mut command("rustup", &["target", "add", WASM]))
}

/// Makes sure of the sources of the standard library, if they can be had.
pub(crate) fn standard_library() -> Outcome {
    let sysroot = output(&mut command("rustc", &["--print", "sysroot"]))?;
    let sources = "lib/rustlib/src/rust/library/std/src/lib.rs";
    if std::path::Path::new(sysroot.trim()).join(sources).is_file() {
        return Ok(());
    }
    if !installed("rustup") {
        return Err("the component rust-src is missing and there is no rustup to add it".into());
    }
    run(&mut command("rustup", &["component", "add", "rust-src"]))
}

/// The oldest Node that the package is built and tested with.
const NODE: u32 = 20;

/// What `node --version` says is new enough.
fn is_new_enough(version: &str) -> bool {
    let major = version.trim().trim_start_matches('v').split('.').next();
    major.and_then(|major| major.parse().ok()) >= Some(NODE)
}

fn node() -> Outcome {
    let found = if installed("node") {
        output(&mut command("node", &["--version"])).unwrap_or_default()
    } else {
        String::new()
    };
    if is_new_enough(&found) && installed("npm") {
        return Ok(());
    }
    let instead = match found.trim() {
        "" => String::new(),
        version => format!(" (here is {version})"),
    };
    Err(format!(
        "the npm package needs Node {NODE} or later with npm{instead}: install it, from nodejs.org or as \
         root with apt-get install nodejs npm, and run this again"
    ))
}

/// Makes sure of the tools that the package is built and tested with, as the lock file names them.
pub(crate) fn npm_packages() -> Outcome {
    node()?;
    let package = root().join("pkg");
    let lock = package.join("package-lock.json");
    let installed_lock = package.join("node_modules/.package-lock.json");
    let changed = |path: &std::path::Path| std::fs::metadata(path).and_then(|m| m.modified()).ok();
    if changed(&installed_lock).is_some_and(|done| Some(done) >= changed(&lock)) {
        return Ok(());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_node_or_none_is_not_new_enough() {
        for version in ["v20.0.0\n", "v20.19.2", "v22.1.0", "v100.0.0"] {
            assert!(is_new_enough(version), "{version}");
        }
        for version in ["", "v18.20.4\n", "v2.0.0", "nodejs"] {
            assert!(!is_new_enough(version), "{version}");
        }
    }
}

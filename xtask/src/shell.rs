//! Running other programs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How a chore ends: well, or with a sentence that says what went wrong.
pub(crate) type Outcome = Result<(), String>;

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    let here = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().map(Path::to_path_buf).unwrap_or(here)
}

/// A program that runs in the repository's root.
///
/// Cargo tells a program that it runs about its own package. A cargo started from here must not see
/// that: build scripts that watch these variables would run again and rebuild half the tree.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let ours = [
            "CARGO_PKG_",
            "CARGO_MANIFEST_",
            "CARGO_BIN_",
            "CARGO_CRATE_",
            "CARGO_PRIMARY_",
        ];
        if ours.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
}

/// The same cargo that runs us.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    command(
        &env::var("CARGO").unwrap_or_else(|_| "cargo".into()),
        arguments,
    )
}

/// How a command is typed.
fn typed(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut text = program
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

/// Runs it and lets its output through.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let typed = typed(command);
    println!("$ {typed}");
    let status = command
        .status()
        .map_err(|e| format!("`{typed}` cannot be started: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{typed}` failed ({status})"))
    }
}

/// Runs it and takes its output.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let typed = typed(command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("`{typed}` cannot be started: {e}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("`{typed}` failed ({})", output.status))
    }
}

/// Whether a program is on the search path.
pub(crate) fn installed(program: &str) -> bool {
    let name = format!("{program}{}", env::consts::EXE_SUFFIX);
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(&name).is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_program_is_named_and_a_missing_one_too() {
        let failed =
            run(cargo(&["no-such-command"]).stderr(Stdio::null())).expect_err("no such command");
        assert!(failed.contains("cargo no-such-command"), "{failed}");
        let missing = output(&mut command("samekey-no-such-program", &[])).expect_err("missing");
        assert!(missing.contains("cannot be started"), "{missing}");
        assert!(!installed("samekey-no-such-program"));
    }

    #[test]
    fn the_root_holds_the_workspace() {
        assert!(root().join("xtask/Cargo.toml").is_file());
    }
}

//! `samekey-torture`: real processes, killed; real disks, cut off; as `cargo xtask torture` runs it.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    samekey_harness::torture::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("torture needs Linux: signals, strace and loop devices");
    ExitCode::FAILURE
}

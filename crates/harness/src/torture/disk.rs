//! File systems of our own: one that can lose its power, and a small one in memory.
//!
//! They are mounted in a name space of this process, so that nothing is left of them when it ends,
//! however it ends.

use super::tools::{Res, Scratch, because, installed, pause};
use rustix::ioctl::{Setter, ioctl};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Set in a process that has a name space of its own.
const APART: &str = "SAMEKEY_TORTURE_APART";

/// Goes on in a name space of its own, where mounts are private; or says why that cannot be.
pub(super) fn go_apart() -> Res<()> {
    if std::env::var_os(APART).is_some() {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        return Err("root is needed to mount a disk".into());
    }
    let private = ["--mount", "--propagation", "private"];
    let tried = Command::new("unshare").args(private).arg("true").status();
    if !tried.is_ok_and(|status| status.success()) {
        return Err("this system lets nobody have mounts of their own".into());
    }
    let here = std::env::current_exe().map_err(because("cannot find my own place"))?;
    let mut again = Command::new("unshare");
    again.args(private).arg(here).args(std::env::args().skip(1));
    Err(because("cannot go on apart")(again.env(APART, "1").exec()))
}

fn mount(arguments: &[&str], on: &Path) -> Res<()> {
    let done = Command::new("mount").args(arguments).arg(on).output();
    let done = done.map_err(because("cannot mount"))?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!(
        "mount: {}",
        String::from_utf8_lossy(&done.stderr).trim()
    ))
}

fn unmount(from: &Path, lazily: bool) -> bool {
    let mut command = Command::new("umount");
    if lazily {
        command.arg("-l");
    }
    let done = command.arg(from).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

/// An ext4 file system in a file.
#[derive(Debug)]
pub(super) struct Disk {
    folder: Scratch,
}

impl Disk {
    pub(super) fn new() -> Res<Disk> {
        if !installed("mkfs.ext4", "-V") {
            return Err("mkfs.ext4 is missing".into());
        }
        let disk = Disk {
            // Where the device keeps its bytes is its own affair; lost is what never got to it.
            folder: Scratch::in_memory("disk")?,
        };
        let image = File::create(disk.image()).map_err(because("cannot make a disk"))?;
        image
            .set_len(96 << 20)
            .map_err(because("cannot make a disk"))?;
        let made = Command::new("mkfs.ext4")
            .args(["-q", "-F"])
            .arg(disk.image())
            .status();
        if !made.is_ok_and(|status| status.success()) {
            return Err("mkfs.ext4 failed".into());
        }
        std::fs::create_dir(disk.place()).map_err(because("cannot make a folder"))?;
        disk.mount()?;
        Ok(disk)
    }

    pub(super) fn image(&self) -> PathBuf {
        self.folder.join("image")
    }

    /// Where it is mounted.
    pub(super) fn place(&self) -> PathBuf {
        self.folder.join("place")
    }

    fn mount(&self) -> Res<()> {
        let image = self.image();
        mount(&["-o", "loop", &image.to_string_lossy()], &self.place())
    }

    /// The power goes: what is not on the device by now never will be.
    #[expect(
        unsafe_code,
        reason = "the ioctl that takes a file system down has no safe form"
    )]
    pub(super) fn cut(&self) -> Res<()> {
        // _IOR('X', 125, __u32), and: do not even flush the file system's own log.
        const SHUTDOWN: u32 = 0x8004_587D;
        const NO_LOG_FLUSH: u32 = 2;
        let root = File::open(self.place()).map_err(because("cannot open the disk"))?;
        // SAFETY: this call reads one 32-bit number, which the setter holds.
        let cut = unsafe { ioctl(&root, Setter::<SHUTDOWN, u32>::new(NO_LOG_FLUSH)) };
        cut.map_err(because("the power cannot be cut"))
    }

    /// The power is back. Nobody may have a file of it open.
    pub(super) fn restore(&self) -> Res<()> {
        for _ in 0..3_000 {
            if unmount(&self.place(), false) {
                return self.mount();
            }
            pause(Duration::from_millis(10));
        }
        Err("the disk cannot be unmounted".into())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        unmount(&self.place(), true);
    }
}

/// A small disk in memory.
#[derive(Debug)]
pub(super) struct Small(Scratch);

impl Small {
    pub(super) fn new(size: &str) -> Res<Small> {
        let folder = Scratch::new("small")?;
        let options = format!("size={size},mode=700");
        mount(&["-t", "tmpfs", "-o", &options, "samekey"], folder.path())?;
        Ok(Small(folder))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Gives it other options: another size, read-only.
    pub(super) fn change(&self, options: &str) -> Res<()> {
        mount(&["-o", &format!("remount,{options}")], self.0.path())
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        unmount(self.0.path(), true);
    }
}

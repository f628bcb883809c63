//! Folders, processes and time, for all of torture.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Any sentence about what went wrong with the harness itself.
pub(super) type Res<T> = Result<T, String>;

/// Says what could not be done, and why.
pub(super) fn because<E: std::fmt::Display>(what: &str) -> impl FnOnce(E) -> String + '_ {
    move |error| format!("{what}: {error}")
}

/// Milliseconds since 1970: the one clock that all processes of a run share.
#[expect(
    clippy::disallowed_methods,
    reason = "told, sent and done are compared between processes"
)]
pub(super) fn wall() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a stopwatch, and the moment of a kill"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// The wait before a fault, or between two looks at a process.
#[expect(
    clippy::disallowed_methods,
    reason = "the moment of a kill is the fault; nothing is synchronised by it"
)]
pub(super) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// A folder that goes when it is dropped.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(what: &str) -> Res<Scratch> {
        Scratch::under(&std::env::temp_dir(), what)
    }

    /// In memory where there is such a place: for what needs no disk, and many files.
    pub(super) fn in_memory(what: &str) -> Res<Scratch> {
        let memory = Path::new("/dev/shm");
        Scratch::under(memory, what).or_else(|_| Scratch::new(what))
    }

    fn under(parent: &Path, what: &str) -> Res<Scratch> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let name = format!("samekey-torture-{}-{number}-{what}", std::process::id());
        let path = parent.join(name);
        fs::create_dir_all(&path).map_err(because("cannot make a folder"))?;
        Ok(Scratch(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A file beside another: its name with something behind it.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Whether the tape of a journal is in use: closed in good order it has only a head.
pub(super) fn is_taped(journal: &Path) -> bool {
    const HEAD: u64 = 512;
    let tape = fs::metadata(beside(journal, "-tape"));
    tape.is_ok_and(|found| found.len() > HEAD)
}

/// A process that ends with its handle.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    status: Option<ExitStatus>,
}

impl Process {
    pub(super) fn start(command: &mut Command) -> Res<Process> {
        let child = command
            .stdin(Stdio::null())
            .spawn()
            .map_err(because("a process cannot be started"))?;
        Ok(Process {
            child,
            status: None,
        })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Its end, if it comes within this time.
    pub(super) fn wait(&mut self, longest: Duration) -> Option<ExitStatus> {
        self.wait_or(longest, || false)
    }

    /// Its end, if it comes within this time and before something else.
    pub(super) fn wait_or(
        &mut self,
        longest: Duration,
        something: impl Fn() -> bool,
    ) -> Option<ExitStatus> {
        let started = now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                self.status = Some(status);
                return self.status;
            }
            if started.elapsed() >= longest || something() {
                return None;
            }
            pause(Duration::from_millis(2));
        }
    }

    /// Its end, unless it gets nowhere for this long.
    ///
    /// Time is counted in looks, which a busy machine makes rarer and a stopped one not at all: who is
    /// starved of work is not taken for one who hangs.
    pub(super) fn wait_while(
        &mut self,
        longest: Duration,
        so_far: impl Fn() -> usize,
    ) -> Option<ExitStatus> {
        const LOOK: Duration = Duration::from_millis(5);
        let (mut seen, mut idle) = (so_far(), Duration::ZERO);
        loop {
            if let Some(status) = self.wait(Duration::ZERO) {
                return Some(status);
            }
            let now = so_far();
            idle = if now == seen { idle + LOOK } else { LOOK };
            seen = now;
            if idle > longest {
                return None;
            }
            pause(LOOK);
        }
    }

    /// `kill -9`. Whether it was that which ended it.
    pub(super) fn kill(&mut self) -> bool {
        if self.status.is_none() {
            let _ = self.child.kill();
            self.status = self.child.wait().ok();
        }
        self.was_killed()
    }

    pub(super) fn was_killed(&self) -> bool {
        self.status.is_some_and(|status| status.signal() == Some(9))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A program built beside this one.
pub(super) fn sibling(name: &str) -> Res<PathBuf> {
    let here = std::env::current_exe().map_err(because("cannot find my own place"))?;
    let path = here.with_file_name(name);
    if path.is_file() {
        return Ok(path);
    }
    Err(format!("`{name}` is not built; `cargo xtask torture` does"))
}

/// Whether a program is there, and can be started.
pub(super) fn installed(program: &str, argument: &str) -> bool {
    let tried = Command::new(program)
        .arg(argument)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tried.is_ok_and(|status| status.success())
}

/// A file to which a process adds lines.
pub(super) fn appended(path: &Path) -> Res<File> {
    let file = File::options().create(true).append(true).open(path);
    file.map_err(because("cannot open a file"))
}

/// Runs a future of the journal's, which needs no particular runtime, or of the client's, which does.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> Res<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(because("no runtime"))?;
    Ok(runtime.block_on(future))
}

/// One line that scripts read.
pub(super) fn figure(name: &str, value: impl std::fmt::Display, unit: &str) {
    println!("figure {name} {value} {unit}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Process {
        Process::start(Command::new("sleep").arg("0.3")).expect("sleep is there")
    }

    #[test]
    fn who_gets_nowhere_is_given_up_and_who_gets_on_is_waited_for() {
        let patience = Duration::from_millis(50);
        assert!(sleeper().wait_while(patience, || 7).is_none());
        let told = AtomicU64::new(0);
        let gets_on = || usize::try_from(told.fetch_add(1, Ordering::Relaxed)).unwrap_or(0);
        let ended = sleeper().wait_while(patience, gets_on);
        assert!(ended.is_some_and(|status| status.success()));
    }
}

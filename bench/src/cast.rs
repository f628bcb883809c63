//! The processes that take part.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A process that answers lines with lines.
struct Member {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Member {
    fn start(command: &mut Command) -> Result<Member, String> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("`{name}` cannot be started: {e}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("`{name}` has no pipes"));
        };
        let mut member = Member {
            child,
            input: Some(input),
            output: BufReader::new(output),
        };
        match member.line()?.as_str() {
            "ready" => Ok(member),
            other => Err(format!("`{name}` says `{other}` instead of `ready`")),
        }
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err("it ended; what it said stands above".into()),
            Ok(_) => Ok(line.trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn ask(&mut self, line: &str) -> Result<Value, String> {
        let input = self.input.as_mut().ok_or("it is being ended")?;
        writeln!(input, "{line}").map_err(|e| e.to_string())?;
        let answer = self.line()?;
        serde_json::from_str(&answer).map_err(|e| format!("`{answer}`: {e}"))
    }
}

impl Drop for Member {
    /// A closed pipe tells it to end; a process that does not is killed, by its own number.
    fn drop(&mut self) {
        self.input.take();
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(10) {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The mock server, which ends with us.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(program: &Path, folder: &Path, options: &[&str]) -> Result<Server, String> {
        let port_file = folder.join("port");
        let mut command = Command::new(program);
        command
            .args(["--port", "0", "--port-file"])
            .arg(&port_file)
            .args(options)
            .stdout(Stdio::null());
        let child = command
            .spawn()
            .map_err(|e| format!("the mock server cannot be started: {e}"))?;
        let mut server = Server {
            child,
            url: String::new(),
        };
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(20) {
            if let Ok(port) = fs::read_to_string(&port_file) {
                server.url = format!("http://127.0.0.1:{}/payments", port.trim());
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err("the mock server does not say on which port it listens".into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Which server a member speaks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pace {
    /// It answers at once.
    Instant,
    /// It takes 5 ms.
    Slow,
}

/// Starts processes when they are first needed and keeps them open.
pub(crate) struct Cast {
    target: PathBuf,
    folder: PathBuf,
    servers: BTreeMap<Pace, Server>,
    members: BTreeMap<String, Member>,
}

impl Cast {
    /// An empty stage. Journals are put below `target`, which must be a real disk.
    pub(crate) fn new(target: &Path) -> Result<Cast, String> {
        let folder = target.join("bench");
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let kind = file_system(&folder);
        if matches!(kind.as_str(), "tmpfs" | "ramfs") {
            return Err(format!(
                "{} is kept in memory ({kind}), where a sync costs nothing; build on a disk",
                folder.display()
            ));
        }
        Ok(Cast {
            target: target.to_owned(),
            folder,
            servers: BTreeMap::new(),
            members: BTreeMap::new(),
        })
    }

    /// Where stock is kept from run to run.
    pub(crate) fn stock(&self) -> PathBuf {
        self.folder.join("stock")
    }

    /// An empty folder of this name.
    pub(crate) fn fresh(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.folder.join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(folder)
    }

    /// A program of the workspace.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.target.join("release").join(name)
    }

    fn url(&mut self, pace: Pace) -> Result<String, String> {
        if !self.servers.contains_key(&pace) {
            let (name, options): (_, &[&str]) = match pace {
                Pace::Instant => ("instant", &["--instant"]),
                Pace::Slow => ("slow", &["--instant", "--delay", "5..5"]),
            };
            let folder = self.fresh(name)?;
            let server = Server::start(&self.program("samekey-mock"), &folder, options)?;
            self.servers.insert(pace, server);
        }
        Ok(self.servers[&pace].url.clone())
    }

    /// Starts `name` if it is not there yet. A 2 at its end is a second process of the same kind.
    pub(crate) fn call(&mut self, name: &str, pace: Pace) -> Result<(), String> {
        let known = title(name, pace);
        if self.members.contains_key(&known) {
            return Ok(());
        }
        let url = self.url(pace)?;
        let stocked = self.stock();
        let mut command = match name.trim_end_matches('2') {
            "samekey" => self.worker("send", &url, &self.fresh(&known)?),
            role @ ("journal" | "floor") => self.worker(role, &url, &self.fresh(&known)?),
            "stock" => self.worker("stock", &url, &stocked),
            at if at.starts_with("at-") => self.worker("send", &url, &stocked.join(&at[3..])),
            peer => {
                let (program, alone) = match peer.strip_suffix("-journal") {
                    Some(program) => (program, Some("journal")),
                    None => (peer, None),
                };
                let mut command =
                    Command::new(self.target.join("peers").join("release").join(program));
                command.arg(&url).arg(self.fresh(&known)?).args(alone);
                command
            }
        };
        let member = Member::start(&mut command).map_err(|why| format!("{known}: {why}"))?;
        self.members.insert(known, member);
        Ok(())
    }

    fn worker(&self, role: &str, url: &str, folder: &Path) -> Command {
        let mut command = Command::new(self.program("worker"));
        command.args([role, url]).arg(folder);
        command
    }

    /// Asks a member that was called before.
    pub(crate) fn ask(&mut self, name: &str, pace: Pace, line: &str) -> Result<Value, String> {
        let known = title(name, pace);
        let member = self.members.get_mut(&known);
        let member = member.ok_or_else(|| format!("{known} was not called"))?;
        member
            .ask(line)
            .map_err(|why| format!("{known}, asked to `{line}`: {why}"))
    }

    /// Ends a member.
    pub(crate) fn dismiss(&mut self, name: &str, pace: Pace) {
        self.members.remove(&title(name, pace));
    }

    /// Every process of ours but this one.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let members = self.members.values().map(|member| member.child.id());
        let servers = self.servers.values().map(|server| server.child.id());
        members.chain(servers).collect()
    }
}

fn title(name: &str, pace: Pace) -> String {
    match pace {
        Pace::Instant => name.to_owned(),
        Pace::Slow => format!("{name}-5ms"),
    }
}

/// What kind of file system a folder is on.
pub(crate) fn file_system(folder: &Path) -> String {
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    mounts
        .filter(|(place, _)| folder.starts_with(place))
        .max_by_key(|(place, _)| place.len())
        .map_or("unknown".into(), |(_, kind)| kind.to_owned())
}

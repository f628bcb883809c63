//! What else the machine was doing.

use std::fs;
use std::time::{Duration, Instant};

/// A round with more foreign work than this is thrown away.
pub(crate) const MOST_FOREIGN: f64 = 0.12;

/// CPU time since the start, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// Of all programs.
    busy: u64,
    /// Taken by the host.
    stolen: u64,
    /// All there was.
    total: u64,
    /// Of the bench's own processes.
    own: u64,
}

impl Load {
    /// Now, where `pids` are ours beside this process.
    pub(crate) fn now(pids: &[u32]) -> Result<Load, String> {
        let stat = fs::read_to_string("/proc/stat")
            .map_err(|e| format!("cannot read the machine's load (Linux only): {e}"))?;
        let mut load = machine(&stat).ok_or("the machine's load makes no sense")?;
        let own = |pid: &u32| ticks(*pid).unwrap_or(0);
        load.own = pids.iter().chain([&std::process::id()]).map(own).sum();
        Ok(load)
    }

    /// The share of the machine that others had since `before`.
    pub(crate) fn foreign_since(&self, before: &Load) -> f64 {
        let total = self.total.saturating_sub(before.total).max(1);
        let busy = self.busy.saturating_sub(before.busy);
        let own = self.own.saturating_sub(before.own);
        let stolen = self.stolen.saturating_sub(before.stolen);
        (busy.saturating_sub(own) + stolen) as f64 / total as f64
    }
}

/// The first line of `/proc/stat`. Interrupts are left out: most are our own packets and blocks.
fn machine(stat: &str) -> Option<Load> {
    let mut words = stat.lines().next()?.split_whitespace();
    words.next().filter(|word| *word == "cpu")?;
    let ticks: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
    let [user, nice, system, _, _, _, _, stolen, ..] = ticks[..] else {
        return None;
    };
    Some(Load {
        busy: user + nice + system,
        stolen,
        total: ticks.iter().take(8).sum(),
        own: 0,
    })
}

/// CPU time of a process in ticks.
fn ticks(pid: u32) -> Option<u64> {
    spent(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name in brackets may hold anything, spaces and brackets too.
fn spent(stat: &str) -> Option<u64> {
    let (_, after) = stat.rsplit_once(')')?;
    let words: Vec<&str> = after.split_whitespace().collect();
    Some(words.get(11)?.parse::<u64>().ok()? + words.get(12)?.parse::<u64>().ok()?)
}

/// Waits until little else runs, for as long as `patience` lasts.
pub(crate) fn wait_for_quiet(pids: &[u32], patience: Duration) -> Result<(), String> {
    let start = Instant::now();
    while start.elapsed() < patience {
        let before = Load::now(pids)?;
        std::thread::sleep(Duration::from_millis(250));
        if Load::now(pids)?.foreign_since(&before) <= MOST_FOREIGN {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  100 20 30 800 5 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";

    #[test]
    fn others_are_what_is_busy_and_not_ours_and_what_the_host_took() {
        let before = machine(STAT).expect("a load");
        let later = Load {
            busy: before.busy + 50,
            stolen: before.stolen + 10,
            total: before.total + 200,
            own: 40,
        };
        assert_eq!(later.foreign_since(&before), 0.1);
        let ours = Load { own: 50, ..later };
        assert_eq!(ours.foreign_since(&before), 0.05);
    }

    #[test]
    fn a_process_may_be_called_anything() {
        let tail = "R 1 1 1 0 -1 4194304 100 0 0 0 70 30 0 0 20 0 1 0 5";
        assert_eq!(spent(&format!("7 (a b) c) {tail}")), Some(100));
        assert_eq!(spent("7 nothing"), None);
    }
}

//! What every process of the bench has in common.
//!
//! A process stays open for a whole series and takes one line at a time from its standard input:
//!
//! ```text
//! run CALLERS MILLIS   ->  {"ops":…,"millis":…,"p50_us":…,"p99_us":…,"cpu_us":…,"syncs":…}
//! ```
//!
//! An operation counts if it *ends* within the window; whoever is under way then is waited for, and
//! not counted, before the answer is given.
#![allow(clippy::disallowed_methods, reason = "a bench looks at the real clock")]

mod meter;

pub use meter::{Counted, cpu, live_bytes, syncs};

use std::future::Future;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The body of every POST of the bench: 600 bytes of JSON.
#[must_use]
pub fn body() -> Vec<u8> {
    let start = br#"{"amount":4200,"currency":"EUR","note":""#;
    let mut body = start.to_vec();
    body.resize(600 - 2, b'x');
    body.extend_from_slice(b"\"}");
    body
}

/// What one slice brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Operations that ended within it.
    pub ops: u64,
    /// Operations that ended while the CPU and the syncs were counted, the late ones included.
    pub counted: u64,
    /// Its length.
    pub length: Duration,
    /// The median of how long one took.
    pub p50: Duration,
    /// What 99 of 100 stayed below.
    pub p99: Duration,
    /// CPU time of this process.
    pub cpu: Duration,
    /// Calls of `fsync` and `fdatasync` by this process.
    pub syncs: u64,
}

impl Slice {
    /// As the runner reads it.
    #[must_use]
    pub fn to_json(&self) -> String {
        format!(
            "{{\"ops\":{},\"counted\":{},\"millis\":{},\"p50_us\":{},\"p99_us\":{},\"cpu_us\":{},\"syncs\":{}}}",
            self.ops,
            self.counted,
            self.length.as_millis(),
            self.p50.as_nanos() as f64 / 1000.0,
            self.p99.as_nanos() as f64 / 1000.0,
            self.cpu.as_micros(),
            self.syncs
        )
    }
}

/// The smallest value that `share` of `sorted` do not exceed.
#[must_use]
pub fn quantile(sorted: &[u64], share: f64) -> u64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}

/// Lets `callers` tasks do one operation after the other for `length`.
///
/// # Errors
/// The first operation that failed: a bench of failures measures nothing.
pub async fn slice<F, O>(one: Arc<F>, callers: usize, length: Duration) -> Result<Slice, String>
where
    F: Fn(u64) -> O + Send + Sync + 'static,
    O: Future<Output = Result<(), String>> + Send + 'static,
{
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let stop = Arc::new(AtomicBool::new(false));
    let (cpu_before, syncs_before, start) = (cpu(), syncs(), Instant::now());
    let end = start + length;
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let (one, stop) = (Arc::clone(&one), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut took = Vec::new();
                let mut late = 0;
                while !stop.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    if begun >= end {
                        break;
                    }
                    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
                    if let Err(why) = one(number).await {
                        stop.store(true, Ordering::Relaxed);
                        return Err(why);
                    }
                    let ended = Instant::now();
                    if ended <= end {
                        took.push((ended - begun).as_nanos() as u64);
                    } else {
                        late += 1;
                    }
                }
                Ok((took, late))
            })
        })
        .collect();
    let mut all = Vec::new();
    let mut late = 0;
    for task in tasks {
        let (took, missed) = task.await.map_err(|e| e.to_string())??;
        all.extend(took);
        late += missed;
    }
    all.sort_unstable();
    Ok(Slice {
        ops: all.len() as u64,
        counted: all.len() as u64 + late,
        length,
        p50: Duration::from_nanos(quantile(&all, 0.5)),
        p99: Duration::from_nanos(quantile(&all, 0.99)),
        cpu: cpu() - cpu_before,
        syncs: syncs() - syncs_before,
    })
}

/// Answers the runner until it closes the pipe: `run` by slices of `one`, all else by `other`.
///
/// # Errors
/// What went wrong in an operation, or with the pipes.
pub fn serve<F, O>(
    runtime: &tokio::runtime::Runtime,
    one: F,
    mut other: impl FnMut(&[&str]) -> Result<String, String>,
) -> Result<(), String>
where
    F: Fn(u64) -> O + Send + Sync + 'static,
    O: Future<Output = Result<(), String>> + Send + 'static,
{
    let one = Arc::new(one);
    answer_lines(|words| match words {
        ["run", callers, millis] => {
            let callers = callers.parse().map_err(|_| "how many callers?")?;
            let length = Duration::from_millis(millis.parse().map_err(|_| "how long?")?);
            let slice = runtime.block_on(slice(Arc::clone(&one), callers, length))?;
            Ok(slice.to_json())
        }
        _ => other(words),
    })
}

/// One line of answer for each line that comes in; the first line out says that all is ready.
///
/// # Errors
/// What `answer` says, or what is wrong with the pipes.
pub fn answer_lines(
    mut answer: impl FnMut(&[&str]) -> Result<String, String>,
) -> Result<(), String> {
    let mut out = std::io::stdout();
    let mut say = |line: &str| {
        writeln!(out, "{line}")
            .and_then(|()| out.flush())
            .map_err(|e| format!("cannot answer: {e}"))
    };
    say("ready")?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| format!("cannot read what to do: {e}"))?;
        let words: Vec<&str> = line.split_whitespace().collect();
        say(&answer(&words)?)?;
    }
    Ok(())
}

/// For commands that a process does not know.
///
/// # Errors
/// Always.
pub fn unknown(words: &[&str]) -> Result<String, String> {
    Err(format!("`{}` is no command of mine", words.join(" ")))
}

/// The runtime of every process of the bench: what `#[tokio::main]` gives.
///
/// # Errors
/// When the system has no threads left.
pub fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("no runtime: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_has_600_bytes() {
        assert_eq!(body().len(), 600);
    }

    #[test]
    fn a_quantile_is_a_value_that_was_seen() {
        let seen: Vec<u64> = (1..=100).collect();
        assert_eq!(quantile(&seen, 0.5), 50);
        assert_eq!(quantile(&seen, 0.99), 99);
        assert_eq!(quantile(&[7], 0.99), 7);
        assert_eq!(quantile(&[], 0.5), 0);
    }

    #[test]
    fn every_sync_of_a_file_is_counted_and_a_write_is_none() {
        use std::io::Write as _;
        let path = std::env::temp_dir().join(format!("samekey-gauge-{}", std::process::id()));
        let mut file = std::fs::File::create(&path).expect("a file");
        let before = syncs();
        file.write_all(b"x").expect("written");
        assert_eq!(syncs() - before, 0);
        file.sync_data().expect("synced");
        file.sync_all().expect("synced");
        assert_eq!(syncs() - before, 2);
        std::fs::remove_file(path).expect("removed");
    }

    #[test]
    fn a_slice_counts_what_ended_and_stops_at_a_failure() {
        let runtime = runtime().expect("a runtime");
        let fine = Arc::new(|_| async {
            tokio::task::yield_now().await;
            Ok(())
        });
        let length = Duration::from_millis(20);
        let slice = runtime.block_on(slice(fine, 2, length)).expect("a slice");
        assert!(slice.ops > 0 && slice.counted >= slice.ops, "{slice:?}");
        let failing = Arc::new(|_| async { Err("refused".to_owned()) });
        let failed = runtime.block_on(super::slice(failing, 2, length));
        assert_eq!(failed, Err("refused".to_owned()));
    }
}

//! Journals of a given size, and what is asked of them.
//!
//! They are made through the store itself, by many callers at once, and kept from run to run.

use super::journal::{Pattern, URL};
use super::{client, fresh, pay};
use samekey::SqliteJournal;
use samekey::journal::{Journal, Query, Select};
use samekey_bench_gauge as gauge;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// How many write at once while a journal is filled; more than the store commits in one go.
const FILLERS: u64 = 2048;
/// How long a crowd that begins at once may take.
const LONGEST: Duration = Duration::from_secs(60);

pub(crate) fn serve(url: &str, folder: &Path) -> Result<(), String> {
    let runtime = gauge::runtime()?;
    let number = |text: &str| text.parse::<u64>().map_err(|e| format!("{text}: {e}"));
    gauge::answer_lines(|words| match words {
        ["make", name, settled, pending, recipe] => {
            let place = folder.join(name);
            make(&runtime, &place, number(settled)?, number(pending)?, recipe)
        }
        ["open", first, second, times] => {
            let places = [folder.join(first), folder.join(second)];
            open(&runtime, &places, number(times)?)
        }
        ["find", name, times] => find(&runtime, &folder.join(name), number(times)?),
        ["successes", count] => successes(&runtime, &empty(folder, "successes")?, number(count)?),
        ["at-once", count] => at_once(&runtime, url, &empty(folder, "at-once")?, number(count)?),
        _ => gauge::unknown(words),
    })
}

fn journal(place: &Path) -> PathBuf {
    place.join("orders.samekey")
}

fn empty(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let place = folder.join(name);
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).map_err(|e| format!("{}: {e}", place.display()))?;
    Ok(place)
}

fn open_journal(place: &Path) -> Result<SqliteJournal, String> {
    SqliteJournal::open(journal(place)).map_err(|e| e.to_string())
}

fn size(place: &Path) -> u64 {
    fs::metadata(journal(place)).map_or(0, |file| file.len())
}

/// Makes the journal, unless one of the same recipe is there that later runs have not swollen.
fn make(
    runtime: &Runtime,
    place: &Path,
    settled: u64,
    pending: u64,
    recipe: &str,
) -> Result<String, String> {
    let note = place.join("recipe");
    let wanted = format!("{recipe} {settled} {pending}");
    let made = fs::read_to_string(&note).unwrap_or_default();
    let same = made
        .rsplit_once(' ')
        .filter(|(what, _)| *what == wanted)
        .and_then(|(_, bytes)| bytes.parse::<u64>().ok());
    let spare = 64 << 20;
    if same.is_some_and(|bytes| size(place) <= bytes + bytes / 4 + spare) {
        return Ok(json!({"made": 0, "seconds": 0.0, "bytes": size(place)}).to_string());
    }
    let _ = fs::remove_dir_all(place);
    fs::create_dir_all(place).map_err(|e| format!("{}: {e}", place.display()))?;
    let start = Instant::now();
    runtime.block_on(async {
        let pattern = Arc::new(Pattern::of(URL).await?);
        let journal = open_journal(place)?;
        fill(&pattern, &journal, 0, settled, true).await?;
        fill(&pattern, &journal, settled, settled + pending, false).await
    })?;
    let seconds = start.elapsed().as_secs_f64();
    fs::write(&note, format!("{wanted} {}", size(place))).map_err(|e| e.to_string())?;
    Ok(json!({"made": settled, "seconds": seconds, "bytes": size(place)}).to_string())
}

async fn fill(
    pattern: &Arc<Pattern>,
    journal: &SqliteJournal,
    from: u64,
    to: u64,
    settle: bool,
) -> Result<(), String> {
    let next = Arc::new(AtomicU64::new(from));
    let fillers: Vec<_> = (0..FILLERS.min(to - from))
        .map(|_| {
            let (pattern, journal) = (Arc::clone(pattern), journal.clone());
            let next = Arc::clone(&next);
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= to {
                        return Ok::<(), String>(());
                    }
                    let begun = pattern.begin(&journal, number).await?;
                    if settle {
                        pattern.succeed(&journal, begun).await?;
                    }
                }
            })
        })
        .collect();
    for filler in fillers {
        filler.await.map_err(|e| e.to_string())??;
    }
    Ok(())
}

fn unfinished() -> Query {
    Query {
        select: Select::Unfinished,
        ..Query::default()
    }
}

/// How long it takes to open each and to list what is unfinished in it, in turns.
fn open(runtime: &Runtime, places: &[PathBuf; 2], times: u64) -> Result<String, String> {
    let mut took = [Vec::new(), Vec::new()];
    let mut found = [0, 0];
    for turn in 0..times {
        let order = if turn % 2 == 0 { [0, 1] } else { [1, 0] };
        for which in order {
            let start = Instant::now();
            let journal = open_journal(&places[which])?;
            let listing = runtime
                .block_on(journal.list(unfinished()))
                .map_err(|e| e.to_string())?;
            took[which].push(start.elapsed().as_micros() as u64);
            found[which] = listing.entries.len();
        }
    }
    Ok(json!({"first_us": took[0], "second_us": took[1], "found": found}).to_string())
}

/// How long it takes to find entries by their references, spread over the whole journal.
fn find(runtime: &Runtime, place: &Path, times: u64) -> Result<String, String> {
    let journal = open_journal(place)?;
    let mut took = Vec::new();
    runtime.block_on(async {
        let pending = journal
            .list(unfinished())
            .await
            .map_err(|e| e.to_string())?;
        let last = pending.entries.first().map_or(1, |entry| entry.slot);
        for turn in 0..times {
            let query = Query {
                limit: 1,
                after: last / (times + 1) * (turn + 1),
                ..Query::default()
            };
            let listing = journal.list(query).await.map_err(|e| e.to_string())?;
            let entry = listing.entries.first().ok_or("an empty journal")?;
            let start = Instant::now();
            let found = journal.find(entry.reference(), None).await;
            took.push(start.elapsed().as_micros() as u64);
            let found = found.map_err(|e| e.to_string())?;
            if !found.entries.iter().any(|other| other.slot == entry.slot) {
                return Err(format!("{} was not found", entry.reference()));
            }
        }
        Ok(())
    })?;
    Ok(json!({"find_us": took}).to_string())
}

/// Syncs of begins, and of successes alone: few enough that no checkpoint falls among them.
fn successes(runtime: &Runtime, place: &Path, count: u64) -> Result<String, String> {
    let journal = open_journal(place)?;
    runtime.block_on(async {
        let pattern = Arc::new(Pattern::of(URL).await?);
        let before = gauge::syncs();
        let mut begun = Vec::new();
        for number in 0..count {
            begun.push(pattern.begin(&journal, number).await?);
        }
        let between = gauge::syncs();
        for entry in begun {
            pattern.succeed(&journal, entry).await?;
        }
        let after = gauge::syncs();
        Ok(json!({"begins": between - before, "successes": after - between}).to_string())
    })
}

/// So many operations that are all begun at the same moment.
fn at_once(runtime: &Runtime, url: &str, place: &Path, count: u64) -> Result<String, String> {
    let client = runtime.block_on(async { client(&journal(place)) })?;
    let (run, url) = (fresh(), Arc::<str>::from(url));
    let start = Instant::now();
    let (finished, trouble) = runtime.block_on(async {
        let all: Vec<_> = (0..count)
            .map(|number| {
                let intent = format!("{run}/{number}");
                tokio::spawn(pay(client.clone(), intent, Arc::clone(&url), gauge::body()))
            })
            .collect();
        let (mut finished, mut trouble) = (0u64, String::new());
        let end = tokio::time::Instant::now() + LONGEST;
        for one in all {
            match tokio::time::timeout_at(end, one).await {
                Ok(Ok(Ok(()))) => finished += 1,
                Ok(Ok(Err(why))) => trouble = why,
                Ok(Err(why)) => trouble = why.to_string(),
                Err(_) => trouble = format!("not within {LONGEST:?}"),
            }
        }
        (finished, trouble)
    });
    let seconds = start.elapsed().as_secs_f64();
    Ok(json!({"finished": finished, "seconds": seconds, "trouble": trouble}).to_string())
}

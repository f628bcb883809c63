//! Measures, and judges nothing: `cargo test --release --features conformance --test journals
//! figures -- --ignored --nocapture`. The bench of the whole client is elsewhere.

#![expect(clippy::disallowed_methods, reason = "it measures")]

use crate::folder;
use samekey::entry::Phase;
use samekey::journal::conformance::{sample, step};
use samekey::journal::{Begun, Flush, Journal, Query, Select, SqliteJournal};
use std::time::{Duration, Instant};

/// Operations per second of `callers` that begin and finish one after the other.
async fn rate(journal: &SqliteJournal, callers: usize, name: &str) -> f64 {
    let end = Instant::now() + Duration::from_millis(1_500);
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let (journal, name) = (journal.clone(), name.to_owned());
            tokio::spawn(async move {
                let mut done = 0u32;
                while Instant::now() < end {
                    let intent = format!("{name}/{caller}/{done}");
                    let mut entry = sample(journal.owner(), "ann", &intent, 0);
                    if let Begun::Created(receipt) = journal.begin(entry.clone()).await.unwrap() {
                        entry.slot = receipt.slot();
                    }
                    let mut write = step(&entry, Phase::Succeeded);
                    write.flush = Flush::Normal;
                    journal.record(write).await.unwrap();
                    done += 1;
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        done += task.await.unwrap();
    }
    f64::from(done) / 1.5
}

async fn rates(journal: &SqliteJournal, name: &str) {
    let one = rate(journal, 1, &format!("{name}/one")).await;
    for callers in [1, 16, 64, 256] {
        let many = rate(journal, callers, &format!("{name}/{callers}")).await;
        println!(
            "{name}: {callers} callers {many:.0}/s, {:.1} times one caller",
            many / one
        );
    }
}

/// As fast as it goes: entries that are settled already.
async fn fill(journal: &SqliteJournal, count: usize) {
    const TASKS: usize = 500;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let journal = journal.clone();
            tokio::spawn(async move {
                for i in 0..count / TASKS {
                    let mut entry = sample(journal.owner(), "ann", &format!("fill/{task}/{i}"), 0);
                    entry.progress = step(&entry, Phase::Succeeded).progress;
                    journal.begin(entry).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures"]
async fn figures_when_empty() {
    let folder = folder();
    let journal = SqliteJournal::open(folder.path().join("j")).unwrap();
    rates(&journal, "empty").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures"]
async fn figures_at_a_million() {
    let folder = folder();
    let path = folder.path().join("j");
    let journal = SqliteJournal::open(&path).unwrap();
    let start = Instant::now();
    fill(&journal, 1_000_000).await;
    println!("1,000,000 entries in {:?}", start.elapsed());
    rates(&journal, "1M").await;
    let mut last = None;
    for i in 0..1_000 {
        let entry = sample(journal.owner(), "ann", &format!("open/{i}"), 0);
        last = Some(entry.reference());
        journal.begin(entry).await.unwrap();
    }
    drop(journal);
    println!("{} bytes", std::fs::metadata(&path).unwrap().len());
    let start = Instant::now();
    let journal = SqliteJournal::open(&path).unwrap();
    println!("open {:?}", start.elapsed());
    let query = Query {
        select: Select::Unfinished,
        ..Query::default()
    };
    let start = Instant::now();
    let listed = journal.list(query).await.unwrap().entries.len();
    println!("list {listed} unfinished {:?}", start.elapsed());
    for _ in 0..3 {
        let start = Instant::now();
        let found = journal.find(last.unwrap(), None).await.unwrap();
        println!("find {} {:?}", found.entries.len(), start.elapsed());
    }
}

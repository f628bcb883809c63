//! People: they click, click again, cancel, switch accounts, look things up and try again later.

use super::config::{Fault, Keeping};
use super::disk::process_of;
use super::executor::sleep;
use super::world::{Shared, World, lock};
use samekey::entry::{Liveness, Phase};
use samekey::seam::BoxFuture;
use samekey::{Client, Error, ErrorKind, Operation, Outcome};
use std::sync::Arc;

fn tell(world: &Shared, operation: &Operation, result: &Result<Outcome, Error>) {
    let mut world = lock(world);
    let key = operation.key();
    let deed = operation
        .intent()
        .trim_start_matches('d')
        .parse::<u64>()
        .unwrap_or(0);
    match result {
        Ok(outcome) => {
            world.note(&[5, deed, u64::from(outcome.status())], || {
                format!("deed {deed} told: {} {}", outcome.phase(), outcome.status())
            });
            world.told_outcome(&key, outcome);
        }
        Err(error) => {
            world.note(&[6, deed], || format!("deed {deed} told: {error}"));
            world.told_error(Some(&key), error);
        }
    }
}

/// The same bytes whenever they are made.
fn body_of(deed: usize) -> String {
    format!("{{\"amount\":{},\"deed\":{deed}}}", deed * 7 + 3)
}

/// Resumes, with the body where the journal does not have it.
async fn take_up(world: &Shared, operation: &Operation) -> Result<Outcome, Error> {
    let wrong = {
        let mut world = lock(world);
        if world.config.keeping != Keeping::Nothing {
            None
        } else {
            let wrong = world.rng.chance(500);
            world.monitor.counters.wrong_bodies += u64::from(wrong);
            Some(wrong)
        }
    };
    let deed = operation.intent().trim_start_matches('d').parse();
    match wrong {
        None => operation.resume().await,
        Some(wrong) => {
            let deed: usize = deed.unwrap_or(0) + usize::from(wrong);
            operation.resume_with(body_of(deed)).await
        }
    }
}

/// One click on a deed.
pub(crate) fn act(
    world: Shared,
    client: Client,
    process: usize,
    deed: usize,
    spare: bool,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let (servers, window, cancels) = {
            let mut world = lock(&world);
            (
                world.config.servers,
                world.window(),
                world.has(Fault::Cancel),
            )
        };
        let url = format!("https://s{}.example/deeds", deed % servers);
        let body = body_of(deed);
        let begun = client
            .operation(&format!("d{deed}"))
            .post(&url)
            .body(body, "application/json")
            .window(window)
            .begin()
            .await;
        let operation = match begun {
            Ok(operation) => Arc::new(operation),
            Err(error) => return lock(&world).told_error(None, &error),
        };
        if cancels {
            let task = cancel(world.clone(), Arc::clone(&operation));
            lock(&world).to_spawn.push((process, task));
        }
        let result = operation.send().await;
        tell(&world, &operation, &result);
        match result {
            Ok(outcome) if outcome.is_success() && !spare => {
                again(&world, &client, &operation, deed).await;
            }
            Ok(_) => {}
            Err(error) => later(&world, &operation, &error).await,
        }
    })
}

/// A deliberate repeat, now and then.
async fn again(world: &Shared, client: &Client, operation: &Operation, deed: usize) {
    let window = {
        let mut world = lock(world);
        if !world.rng.chance(300) {
            return;
        }
        world.monitor.repeat_asked(deed);
        world.window()
    };
    match client
        .repeat(operation.reference())
        .window(window)
        .begin()
        .await
    {
        Ok(repeat) => {
            let result = repeat.send().await;
            tell(world, &repeat, &result);
        }
        Err(error) => lock(world).told_error(None, &error),
    }
}

/// What people do who were told that it is not known yet.
async fn later(world: &Shared, operation: &Operation, error: &Error) {
    let (wait, by_hand, tries) = {
        let mut world = lock(world);
        let wait = world.rng.below(120_000);
        (wait, world.rng.chance(2_500), world.rng.below(3))
    };
    if by_hand && matches!(error.kind(), ErrorKind::Attention(_)) {
        sleep(world, wait).await;
        return settle(world, operation).await;
    }
    for _ in 0..tries {
        sleep(world, wait).await;
        let result = take_up(world, operation).await;
        tell(world, operation, &result);
        if result.is_ok() {
            return;
        }
    }
}

/// A person looks at the server and says what happened.
async fn settle(world: &Shared, operation: &Operation) {
    let happened = {
        let mut world = lock(world);
        let happened = world.monitor.has_happened(&operation.key());
        world.monitor.settled_by_hand(&operation.key());
        happened
    };
    if let Ok(phase) = operation.settle(happened, "looked at the server").await {
        lock(world).monitor.told_phase(&operation.key(), phase);
    }
}

/// The user's stop.
fn cancel(world: Shared, operation: Arc<Operation>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let wait = {
            let mut world = lock(&world);
            let most = world.rng.pick(&[0, 1, 20, 500, 10_000]);
            world.rng.below(most + 1)
        };
        sleep(&world, wait).await;
        lock(&world).monitor.counters.cancels += 1;
        if let Ok(phase) = operation.cancel().await {
            lock(&world).monitor.told_phase(&operation.key(), phase);
        }
    })
}

/// What a program does first: it takes up what an earlier run left.
pub(crate) fn recover(world: Shared, client: Client, process: usize) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let calm = lock(&world).calm;
        let rounds = if calm { 60 } else { 1 };
        pry(&world, &client).await;
        if lock(&world).config.retention.is_some() {
            let _ = client.reap().await;
        }
        for round in 0..rounds {
            let open = match client.unfinished().await {
                Ok(open) => open,
                Err(error) => return lock(&world).told_error(None, &error),
            };
            lock(&world).watch_listing(process, &open);
            if open.is_empty() {
                return;
            }
            for operation in open {
                let mut it = lock(&world);
                if it.calm || it.is_worth_resuming(process, &operation) {
                    it.to_spawn
                        .push((process, resume(world.clone(), operation)));
                }
            }
            if calm {
                sleep(&world, 60_000 * (1 + round)).await;
            }
        }
    })
}

impl World {
    /// What a living program drives is left to it, as a rule: waiting for it is little to learn from.
    fn is_worth_resuming(&mut self, process: usize, operation: &Operation) -> bool {
        let disk = &self.hosts[self.processes[process].host].disk;
        let row = disk.by_key.get(&operation.key());
        let row = row.and_then(|slot| disk.rows.get(slot));
        let owner = row.and_then(|row| process_of(row.entry.progress.owner));
        let driven = owner.is_some_and(|owner| self.liveness(owner) == Liveness::Alive);
        !driven || self.rng.chance(1_000)
    }
}

fn resume(world: Shared, operation: Operation) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let result = take_up(&world, &operation).await;
        tell(&world, &operation, &result);
    })
}

/// Somebody tries to go on with what belongs to another account.
async fn pry(world: &Shared, client: &Client) {
    let foreign = {
        let mut world = lock(world);
        let hosts = world.config.hosts as u64;
        let host = world.rng.below(hosts) as usize;
        let rows: Vec<_> = world.hosts[host]
            .disk
            .rows
            .values()
            .filter(|row| row.entry.frozen.scope != *client.scope())
            .filter(|row| !matches!(row.entry.progress.phase, Phase::Succeeded))
            .map(|row| row.entry.reference())
            .take(20)
            .collect();
        if rows.is_empty() {
            return;
        }
        world.monitor.counters.other_account += 1;
        world.rng.pick(&rows)
    };
    if let Ok(operation) = client.get(foreign).await {
        let result = take_up(world, &operation).await;
        tell(world, &operation, &result);
    }
}

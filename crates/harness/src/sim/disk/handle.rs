//! One program's handle on its host's journal.

use super::{Disk, Job, What, process_of, unreadable};
use crate::sim::world::{Later, Occasion, Shared, World, lock};
use samekey::entry::{Entry, Grade, Liveness, Owner, Receipt, Scope};
use samekey::journal::{
    Begun, Journal, JournalError, Listing, Query, Reaped, Retention, Tombstone, Write,
};
use samekey::seam::BoxFuture;
use samekey::{Key, Reference};
use std::future::pending;
use std::sync::Arc;

/// One program's handle on its host's journal.
pub(crate) struct SimJournal {
    pub(crate) world: Shared,
    pub(crate) process: usize,
}

impl SimJournal {
    /// Queues a write, or makes it at once where the disk is quick.
    fn submit(&self, what: What) -> bool {
        let mut world = lock(&self.world);
        if !world.step(self.process) {
            return false;
        }
        let job = Job {
            process: self.process,
            cuts: world.hosts[world.processes[self.process].host].cuts,
            what,
        };
        if world.config.quick_disk {
            world.write(job);
        } else {
            // One program's writes reach the disk in the order in which it made them.
            let wait = world.rng.below(12);
            let at = world.processes[self.process]
                .disk_busy_until
                .max(world.now + wait);
            world.processes[self.process].disk_busy_until = at;
            world.at(at, Occasion::Disk(Box::new(job)));
        }
        true
    }

    /// Reads, if the process lives.
    fn read<T>(
        &self,
        read: impl FnOnce(&World, &Disk) -> Result<T, JournalError>,
    ) -> Option<Result<T, JournalError>> {
        let mut world = lock(&self.world);
        if !world.look(self.process) {
            return None;
        }
        let host = world.processes[self.process].host;
        let world = &*world;
        Some(read(world, &world.hosts[host].disk))
    }
}

/// An answer at once, or none ever: the process is dead.
async fn now_or_never<T>(answer: Option<Result<T, JournalError>>) -> Result<T, JournalError> {
    match answer {
        Some(answer) => answer,
        None => pending().await,
    }
}

impl Journal for SimJournal {
    fn grade(&self) -> Grade {
        Grade::Device
    }

    fn owner(&self) -> Owner {
        // Owners are known to the whole program, in which other worlds run beside this one.
        let world = Arc::as_ptr(&self.world) as usize as u128;
        Owner(world << 64 | (self.process as u128 + 1))
    }

    fn begin(&self, entry: Entry) -> BoxFuture<'_, Result<Begun, JournalError>> {
        Box::pin(async move {
            let later = Later::new();
            self.submit(What::Begin(entry, later.share()));
            later.await
        })
    }

    fn record(&self, write: Write) -> BoxFuture<'_, Result<Receipt, JournalError>> {
        Box::pin(async move {
            let later = Later::new();
            self.submit(What::Record(write, later.share()));
            later.await
        })
    }

    fn load(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<Option<Entry>, JournalError>> {
        Box::pin(async move {
            now_or_never(self.read(|_, disk| match disk.rows.get(&slot) {
                Some(row) if row.gone.is_some() || *row.entry.key() != key => Ok(None),
                Some(row) if row.damaged_at.is_some() => Err(unreadable(slot)),
                Some(row) => Ok(Some(row.entry.clone())),
                None => Ok(None),
            }))
            .await
        })
    }

    fn list(&self, query: Query) -> BoxFuture<'_, Result<Listing, JournalError>> {
        Box::pin(async move {
            now_or_never(self.read(|_, disk| {
                Ok(disk.list(|entry| {
                    query.select.matches(entry.progress.phase)
                        && query
                            .scope
                            .as_ref()
                            .is_none_or(|s| entry.frozen.scope == *s)
                }))
            }))
            .await
        })
    }

    fn find(
        &self,
        reference: Reference,
        scope: Option<Scope>,
    ) -> BoxFuture<'_, Result<Listing, JournalError>> {
        Box::pin(async move {
            now_or_never(self.read(|_, disk| {
                Ok(disk.list(|entry| {
                    entry.reference() == reference
                        && scope.as_ref().is_none_or(|s| entry.frozen.scope == *s)
                }))
            }))
            .await
        })
    }

    fn liveness(&self, owner: Owner) -> BoxFuture<'_, Result<Liveness, JournalError>> {
        Box::pin(async move {
            now_or_never(
                self.read(|world, _| Ok(world.liveness(process_of(owner).unwrap_or_default()))),
            )
            .await
        })
    }

    fn forget(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            if self.read(|_, _| Ok(())).is_none() {
                return pending().await;
            }
            let mut world = lock(&self.world);
            let host = world.processes[self.process].host;
            let Some(row) = world.hosts[host].disk.rows.get_mut(&slot) else {
                return Ok(());
            };
            if *row.entry.key() == key {
                let tombstone = Tombstone::of(&row.entry);
                row.gone = Some(tombstone.ok_or_else(|| JournalError::not_settled(&key))?);
            }
            Ok(())
        })
    }

    fn reap(&self, retention: Retention) -> BoxFuture<'_, Result<Reaped, JournalError>> {
        Box::pin(async move {
            if !lock(&self.world).step(self.process) {
                return pending().await;
            }
            let mut world = lock(&self.world);
            let host = world.processes[self.process].host;
            Ok(world.reap(host, &retention))
        })
    }
}

//! I4 no orphan · I10 corruption is loud · I22 upgrade-safe · and that everything comes to an end.

use super::super::disk::process_of;
use super::super::world::World;
use super::{Ending, Sending, says};
use samekey::entry::{Entry, FORMAT, Frozen, Progress};

/// I4.
pub(super) const VANISHED: &str = "an operation vanished from the disk";

/// What a program read before it was altered it may still send, but not for long, unless it was stopped
/// in between.
pub(super) fn i10_nothing_is_sent_from_what_was_altered(it: &Sending<'_>) -> Option<String> {
    let altered = it.row?.damaged_at?;
    says(
        altered < it.world.now.saturating_sub(200_000) && !it.was_stopped(),
        "it was sent from an entry that was altered long before",
    )
}

/// In the calm; but what its program cannot know that it holds, others cannot take while it lives.
pub(super) fn everything_comes_to_an_end(it: &Ending<'_>) -> Option<String> {
    let open = it.world.calm && it.phase.is_open();
    (open && !is_held_unknowingly(it)).then(|| format!("in the calm it is still {}", it.phase))
}

pub(super) fn is_held_unknowingly(it: &Ending<'_>) -> bool {
    let owner = process_of(it.row.entry.progress.owner);
    let held = owner.is_some_and(|owner| it.world.living.contains(&owner));
    held && it.watch.nobody_knows && it.world.calm && it.phase.is_open()
}

impl World {
    /// I10: one bit of an entry's bytes is turned; whoever reads them must notice.
    pub(crate) fn watch_altered(&mut self, entry: &Entry, bit: u64) {
        let flip = |mut bytes: Vec<u8>| {
            let bit = bit as usize % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        };
        let unnoticed = if bit >> 63 == 0 {
            Frozen::decode(&flip(entry.frozen.encode())).is_ok()
        } else {
            Progress::decode(&flip(entry.progress.encode(entry.key())), entry.key()).is_ok()
        };
        if unnoticed {
            let deed = self.watch_of(entry.key()).map_or(0, |watch| watch.deed);
            self.monitor
                .broken("I10", deed, "a turned bit was not noticed");
        }
    }

    /// I10: a write was torn. Its first bytes are the new ones and the rest the old; says whether that is
    /// noticed, as it must be unless nothing is torn by it.
    pub(crate) fn watch_torn(&mut self, entry: &Entry, old: &Progress, at: u64) -> bool {
        let key = entry.key();
        let (new, old) = (entry.progress.encode(key), old.encode(key));
        let at = at as usize % (new.len() + 1);
        let torn = [&new[..at], old.get(at..).unwrap_or_default()].concat();
        let noticed = Progress::decode(&torn, key).is_err();
        if !noticed && torn != new && torn != old {
            let deed = self.watch_of(key).map_or(0, |watch| watch.deed);
            self.monitor
                .broken("I10", deed, "a torn write was taken for a whole one");
        }
        noticed
    }

    /// I10: whatever cannot be read must be shown all the same.
    pub(crate) fn watch_listing(&mut self, process: usize, shown: &[samekey::Operation]) {
        let it = &self.processes[process];
        let scope = if it.principal == 0 {
            "sim/alice"
        } else {
            "sim/bob"
        };
        let rows = self.hosts[it.host].disk.rows.values();
        let altered = rows
            .filter(|row| row.damaged_at.is_some() && row.entry.frozen.scope.as_str() == scope)
            .filter(|row| row.entry.progress.phase.is_unfinished())
            .count();
        let damaged = shown.iter().filter(|it| it.damage().is_some()).count();
        if damaged < altered {
            self.monitor
                .broken("I10", 0, "an altered entry was not shown");
        }
    }

    /// I22: a program that starts reads what an older one wrote, byte for byte; what a newer one wrote
    /// it refuses.
    pub(crate) fn watch_reading(&mut self, host: usize) {
        let World {
            hosts,
            rng,
            monitor,
            ..
        } = self;
        let rows = &hosts[host].disk.rows;
        let at = rng.below(rows.len() as u64 + 1);
        let Some((_, row)) = rows.range(at..).next() else {
            return;
        };
        monitor.counters.entries_read_back += 1;
        let (entry, key) = (&row.entry, row.entry.key());
        let (mut frozen, progress) = (entry.frozen.encode(), entry.progress.encode(key));
        let same = Frozen::decode(&frozen).is_ok_and(|it| it == *entry.frozen)
            && Progress::decode(&progress, key).is_ok_and(|it| it == entry.progress);
        if !same {
            monitor.broken("I22", 0, "an entry was read as another than was written");
        }
        frozen[0] = FORMAT + 1;
        if Frozen::decode(&frozen).is_ok() {
            monitor.broken("I22", 0, "an entry of a newer format was read");
        }
    }
}

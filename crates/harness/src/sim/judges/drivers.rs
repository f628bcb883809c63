//! I5: one driver at a time, and a stale one's write bounces.

use super::{Sending, Writing, says};

/// Whoever was frozen for longer than a lease may be replaced and not know it yet.
pub(super) fn i05_one_sends_at_a_time(it: &Sending<'_>) -> Option<String> {
    let (me, processes) = (it.packet.process, &it.world.processes);
    let awake = |p: &usize| {
        let other = &processes[*p];
        *p != me && other.alive && !other.was_frozen && other.frozen_since.is_none()
    };
    let overlap = it.watch.in_flight.iter().any(awake);
    says(
        overlap && !processes[me].was_frozen,
        "two live drivers sent it at once",
    )
}

pub(super) fn i05_epochs_only_grow(it: &Writing<'_>) -> Option<String> {
    let (before, after) = (it.before, it.after);
    if after.epoch < before.epoch {
        return says(true, "an epoch went back");
    }
    let changes_hands = after.owner != before.owner && after.owner.0 != 0;
    says(
        changes_hands && after.epoch == before.epoch,
        "it changed hands within an epoch",
    )
}

//! I1 durable before sent · I2 one key per operation · I3 one request per key · I17 fresh keys · I18 one
//! intent, one operation: more keys than that allows are I2.

use super::super::monitor::Monitor;
use super::{Sending, says};
use samekey::Key;

pub(super) fn i01_durable_before_sent(it: &Sending<'_>) -> Option<String> {
    says(it.row.is_none(), "it was sent before its key was durable")
}

/// Not even an entry that is gone had this key.
pub(super) fn i01_unknown_key(monitor: &mut Monitor, deed: usize) {
    monitor.broken("I1", deed, "it was sent under a key that no disk has");
}

pub(super) fn i03_one_request_per_key(it: &Sending<'_>) -> Option<String> {
    let first = it.watch.digest.unwrap_or(it.packet.digest);
    says(
        first != it.packet.digest,
        "one key was sent with two requests",
    )
}

impl Monitor {
    /// An entry was created on a disk: I17, I2.
    pub(crate) fn begun(&mut self, key: &Key, deed: usize, (host, slot): (usize, u64), since: u64) {
        self.counters.operations += 1;
        let watch = self.keys.entry(key.as_str().into()).or_default();
        if watch.begun {
            return self.broken("I17", deed, "a key was minted twice");
        }
        (watch.begun, watch.clock_since) = (true, since);
        (watch.deed, watch.host, watch.slot) = (deed, host, slot);
        let it = &mut self.deeds[deed];
        it.keys.push(key.clone());
        if it.keys.len() as u32 > 1 + it.repeats {
            self.broken("I2", deed, "more keys than deliberate repeats allow");
        }
    }

    /// What the server did: not more than was asked for.
    pub(super) fn i02_effects(&mut self, deed: usize) {
        let it = &mut self.deeds[deed];
        it.effects += 1;
        if it.effects > 1 + it.repeats {
            self.broken("I2", deed, "it happened more often than it was asked for");
        }
    }
}

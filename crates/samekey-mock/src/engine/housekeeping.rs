//! The reaper and the sweeper.

use super::Rules;
use crate::clock::Millis;
use crate::naughty::Naughty;
use crate::settings::Stale;
use crate::store::{Keys, Record, Res, State};
use serde::Serialize;

/// Removes up to `batch` keys whose life and margin are over. Call it again while it returns a full
/// batch, in a transaction of its own each time, so that traffic gets its turn.
///
/// # Errors
/// When the store fails.
pub fn reap<K: Keys + ?Sized>(
    keys: &mut K,
    rules: &Rules,
    now: Millis,
    batch: usize,
) -> Res<usize> {
    if rules.naughty.has(Naughty::NeverExpires) {
        return Ok(0);
    }
    let races = rules.naughty.has(Naughty::CleanupRacesRetry);
    // The store compares with the published end, so what is kept beyond it moves the limit.
    let beyond = if races {
        0
    } else {
        rules.kept_for() - rules.ttl
    };
    let limit = if rules.naughty.has(Naughty::OneBigDelete) {
        usize::MAX
    } else {
        batch
    };
    keys.remove_expired(now - beyond, limit, races)
}

/// What a sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Swept {
    /// Keys that the next retry may run.
    pub freed: usize,
    /// Keys that a person must look at.
    pub review: usize,
}

/// Deals with locks whose worker has not come back.
///
/// # Errors
/// When the store fails.
pub fn sweep<K: Keys + ?Sized>(keys: &mut K, rules: &Rules, now: Millis) -> Res<Swept> {
    let mut swept = Swept::default();
    if rules.naughty.has(Naughty::NoSweeper) {
        return Ok(swept);
    }
    for record in keys.stale(now - rules.lock_limit + 1)? {
        let acted = keys.effects_since(&record.slot, record.created)? > 0;
        if acted && rules.stale == Stale::Reconcile {
            let owner = record.owner;
            let review = Record {
                state: State::Review,
                ..record
            };
            swept.review += usize::from(keys.put_if_owner(&review, owner)?);
        } else {
            keys.remove(&record.slot)?;
            swept.freed += 1;
        }
    }
    Ok(swept)
}

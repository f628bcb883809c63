//! The rules of the contract and nothing else: no sockets, no clock, no dice. Time and the names of
//! workers are arguments, so that a simulation can run it a million times.
//!
//! ```text
//!             insert-if-absent                 complete (owner still holds it)
//!   (nothing) ───────────────▶ in flight ─────────────────────────────────────▶ done ──▶ expired
//!        ▲                       │   │ lock too old
//!        └── 5xx: released ──────┘   └──▶ reconcile: freed, or review │ reclaim: next retry owns it
//! ```

mod housekeeping;

pub use housekeeping::{Swept, reap, sweep};

use crate::answer::Answer;
use crate::clock::Millis;
use crate::naughty::{Habits, Naughty};
use crate::settings::{AfterExpiry, Settings, Stale, Stored};
use crate::store::{Keys, Record, Res, Slot, State};

/// The part of the settings that the engine needs.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Published life of a key.
    pub ttl: Millis,
    /// How much longer it is kept.
    pub margin: Millis,
    /// Age of a stale lock.
    pub lock_limit: Millis,
    /// What becomes of stale locks.
    pub stale: Stale,
    /// What a late repeat meets.
    pub after_expiry: AfterExpiry,
    /// Which answers are kept.
    pub stored: Stored,
    /// Most keys that a tenant may have.
    pub key_cap: Option<u64>,
    /// Promises to break.
    pub naughty: Habits,
}

impl From<&Settings> for Rules {
    fn from(s: &Settings) -> Self {
        let millis = |d: std::time::Duration| Millis::try_from(d.as_millis()).unwrap_or(i64::MAX);
        Self {
            ttl: millis(s.ttl),
            margin: millis(s.margin),
            lock_limit: millis(s.lock_limit),
            stale: s.stale,
            after_expiry: s.after_expiry,
            stored: s.stored,
            key_cap: s.key_cap.filter(|_| !s.naughty.has(Naughty::NoLimits)),
            naughty: s.naughty,
        }
    }
}

impl Rules {
    /// How long a key is really kept past its creation.
    fn kept_for(&self) -> Millis {
        if self.naughty.has(Naughty::NeverExpires) {
            return Millis::MAX / 4;
        }
        if self.naughty.has(Naughty::TtlTooShort) {
            return self.ttl / 10;
        }
        self.ttl.saturating_add(self.margin)
    }

    fn is_over(&self, record: &Record, now: Millis) -> bool {
        record.state == State::Done && now >= record.created.saturating_add(self.kept_for())
    }

    fn is_stale(&self, record: &Record, now: Millis) -> bool {
        record.state == State::InFlight && now - record.locked_at >= self.lock_limit
    }

    /// Whether an answer of the handler is kept.
    pub fn keeps(&self, status: u16) -> bool {
        if status >= 500 {
            return self.stored == Stored::All || self.naughty.has(Naughty::CacheServerErrors);
        }
        if status >= 400 {
            return self.stored != Stored::Success && !self.naughty.has(Naughty::DropsClientErrors);
        }
        true
    }
}

/// One request that wants to act under a key.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Scope and key.
    pub slot: Slot,
    /// Digest of the request.
    pub fingerprint: String,
    /// Which worker asks.
    pub owner: u64,
    /// When.
    pub now: Millis,
    /// False where the tenant may not create more keys: only known keys are answered.
    pub may_create: bool,
    /// True where this request is looked up at a replica that has not caught up.
    pub blind: bool,
}

impl Claim {
    fn record(&self, rules: &Rules) -> Record {
        Record {
            slot: self.slot.clone(),
            fingerprint: self.fingerprint.clone(),
            state: State::InFlight,
            locked_at: self.now,
            owner: self.owner,
            answer: None,
            created: self.now,
            completed: None,
            expires: self.now.saturating_add(rules.ttl),
        }
    }
}

/// What a claim leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The slot is yours: do the work, then `complete`.
    Run(Record),
    /// Finished before: send the stored answer.
    Replay(Record),
    /// Another worker is at it.
    InFlight(Record),
    /// The key belongs to another request.
    Mismatch(Record),
    /// The key's life is over and late repeats are refused with this status.
    Expired(u16),
    /// A person must look first.
    Review(Record),
    /// The tenant may not create more keys.
    Limited,
}

/// Reserves a slot before any work, in one insert-if-absent; never by looking first.
///
/// # Errors
/// When the store fails; then nothing may run.
pub fn reserve<K: Keys + ?Sized>(keys: &mut K, rules: &Rules, claim: &Claim) -> Res<Verdict> {
    let full = match rules.key_cap {
        Some(cap) => keys.count(&claim.slot.tenant)? >= cap,
        None => false,
    };
    if (full || !claim.may_create) && keys.find(&claim.slot)?.is_none() {
        return Ok(Verdict::Limited);
    }
    let fresh = claim.record(rules);
    let Some(found) = keys.insert_if_absent(&fresh)? else {
        return Ok(Verdict::Run(fresh));
    };
    if claim.blind {
        return take(keys, claim.record(rules));
    }
    if rules.is_over(&found, claim.now) {
        return match rules.after_expiry {
            AfterExpiry::Run => take(keys, claim.record(rules)),
            AfterExpiry::Refuse(status) => Ok(Verdict::Expired(status)),
        };
    }
    // Before the state: a wrong body must not learn whether the first one is still running.
    if found.fingerprint != claim.fingerprint && !rules.naughty.has(Naughty::NoBodyCheck) {
        return Ok(Verdict::Mismatch(found));
    }
    match found.state {
        State::Done => Ok(Verdict::Replay(found)),
        State::Review => Ok(Verdict::Review(found)),
        State::InFlight => {
            let reclaim = rules.stale == Stale::Reclaim && rules.is_stale(&found, claim.now);
            if !reclaim && !rules.naughty.has(Naughty::RunWhileInFlight) {
                return Ok(Verdict::InFlight(found));
            }
            let renewed = Record {
                owner: claim.owner,
                locked_at: claim.now,
                ..found
            };
            take(keys, renewed)
        }
    }
}

fn take<K: Keys + ?Sized>(keys: &mut K, record: Record) -> Res<Verdict> {
    keys.put(&record)?;
    Ok(Verdict::Run(record))
}

/// What became of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// The answer is stored.
    Stored,
    /// The answer is not of the kind that is kept: the key is free again.
    Released,
    /// Somebody else owns the key by now; the work must be rolled back.
    Fenced,
}

/// Stores the answer, or frees the key where the answer is not kept, if this worker still owns it.
///
/// # Errors
/// When the store fails.
pub fn complete<K: Keys + ?Sized>(
    keys: &mut K,
    rules: &Rules,
    held: &Record,
    answer: &Answer,
    now: Millis,
) -> Res<Completion> {
    let keep = rules.keeps(answer.status);
    let done = Record {
        state: State::Done,
        answer: Some(answer.clone()),
        completed: Some(now),
        ..held.clone()
    };
    let owns = keys.put_if_owner(&done, held.owner)?;
    if !owns && !rules.naughty.has(Naughty::NoFencing) {
        return Ok(Completion::Fenced);
    }
    if !owns {
        keys.put(&done)?;
    }
    if keep {
        return Ok(Completion::Stored);
    }
    keys.remove(&held.slot)?;
    Ok(Completion::Released)
}

#[cfg(test)]
#[cfg(feature = "server")]
mod tests;

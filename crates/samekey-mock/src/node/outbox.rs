//! The outbox worker, the payment processor behind it, and the comparison of both sides.

use super::Node;
use crate::dice::unlikely_number;
use crate::ledger::Ledger;
use crate::naughty::Naughty;
use crate::store::{Charge, Delivery, Message, Res};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::PoisonError;

impl Node {
    /// Wakes the outbox worker.
    pub(crate) fn wake_outbox(&self) {
        self.outbox_bell.notify_one();
    }

    pub(crate) async fn outbox_woken(&self) {
        self.outbox_bell.notified().await;
    }

    /// Makes the processor fail for one message of this key.
    pub(super) fn fail_downstream(&self, key: &str) {
        let mut faults = self
            .downstream_faults
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        faults.push(key.to_owned());
    }

    /// Sends what is due. Each message takes two transactions, as two systems would: first the
    /// processor books it and its id is recorded, then the message is marked done.
    pub(crate) async fn drain_outbox(&self) -> Res<usize> {
        let _alone = self.outbox_turn.lock().await;
        let now = self.now();
        let due = self
            .writer
            .call(move |store| store.due_messages(now))
            .await?;
        let count = due.len();
        for message in due {
            self.deliver(message).await?;
        }
        if count > 0 {
            self.log.ring();
        }
        Ok(count)
    }

    async fn deliver(&self, mut message: Message) -> Res<()> {
        message.tries += 1;
        let answer_lost = self.processor_fails(&message.key);
        // With a fresh key per try the processor cannot know a repeat when it sees one.
        let key = if self.has(Naughty::FreshDownstreamKey) {
            format!("{:016x}", unlikely_number())
        } else {
            message.key.clone()
        };
        let charge = Charge {
            id: 0,
            key,
            kind: message.kind.clone(),
            amount: message.amount,
        };
        let booked = self.writer.call(move |store| store.book(&charge)).await;
        match booked {
            Ok(id) if !answer_lost => {
                message.provider_id = Some(format!("prc_{id:06}"));
                let recorded = message.clone();
                self.writer
                    .call(move |store| store.put_message(&recorded))
                    .await?;
                message.delivery = Delivery::Done;
            }
            _ if message.tries >= self.settings().outbox_tries => {
                message.delivery = Delivery::Dead;
            }
            _ => message.due = self.now() + (250 << message.tries.min(10)),
        }
        self.writer
            .call(move |store| store.put_message(&message))
            .await
    }

    /// The nasty kind of failure: the processor books the charge and its answer is lost.
    fn processor_fails(&self, key: &str) -> bool {
        let mut faults = self
            .downstream_faults
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let at = faults.iter().position(|k| k == key);
        at.map(|at| faults.swap_remove(at)).is_some()
    }
}

/// The ledger held against the processor's books.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Reconciliation {
    /// Charges without an effect behind them.
    pub orphans: Vec<Charge>,
    /// Effects that want a charge, have none, and have no message left that would make one.
    pub missing: Vec<u64>,
    /// Keys charged more than once for the same thing, by effect key, with the count.
    pub charged_twice: Vec<(String, usize)>,
    /// Effects that repeat an earlier one within the life of its key.
    pub duplicate_effects: Vec<u64>,
    /// Messages that were given up.
    pub dead_letters: Vec<u64>,
    /// Messages still on their way.
    pub pending: usize,
}

impl Reconciliation {
    /// Whether both sides agree.
    pub fn is_clean(&self) -> bool {
        let Self {
            orphans,
            missing,
            charged_twice,
            duplicate_effects,
            dead_letters,
            pending: _,
        } = self;
        orphans.is_empty()
            && missing.is_empty()
            && charged_twice.is_empty()
            && duplicate_effects.is_empty()
            && dead_letters.is_empty()
    }
}

/// Compares both sides.
pub(crate) fn reconcile(ledger: &Ledger) -> Reconciliation {
    let wants = |kind: &str| matches!(kind, "payment" | "refund");
    let mut wanted: BTreeMap<&str, usize> = BTreeMap::new();
    for effect in ledger.effects().iter().filter(|e| wants(&e.kind)) {
        *wanted.entry(&effect.slot.key).or_default() += 1;
    }
    let mut charged: BTreeMap<&str, usize> = BTreeMap::new();
    for charge in ledger.charges() {
        *charged.entry(&charge.key).or_default() += 1;
    }
    let done = |m: &&Message| m.delivery == Delivery::Done;
    let delivered: Vec<u64> = ledger
        .outbox()
        .iter()
        .filter(done)
        .map(|m| m.effect)
        .collect();
    let waiting = |m: &&Message| m.delivery == Delivery::Pending;
    let pending: Vec<u64> = ledger
        .outbox()
        .iter()
        .filter(waiting)
        .map(|m| m.effect)
        .collect();
    let unserved = |id: u64| !delivered.contains(&id) && !pending.contains(&id);
    Reconciliation {
        orphans: ledger
            .charges()
            .iter()
            .filter(|c| !wanted.contains_key(c.key.as_str()))
            .cloned()
            .collect(),
        missing: ledger
            .effects()
            .iter()
            .filter(|e| wants(&e.kind) && unserved(e.id))
            .map(|e| e.id)
            .collect(),
        charged_twice: charged
            .iter()
            .filter(|(key, n)| **n > wanted.get(*key).copied().unwrap_or(1))
            .map(|(key, n)| ((*key).to_owned(), *n))
            .collect(),
        duplicate_effects: ledger.duplicates().iter().map(|e| e.id).collect(),
        dead_letters: ledger
            .outbox()
            .iter()
            .filter(|m| m.delivery == Delivery::Dead)
            .map(|m| m.id)
            .collect(),
        pending: pending.len(),
    }
}

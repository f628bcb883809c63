//! What a run must look like from outside: on the wire and in the server's ledger.

use samekey_mock::Ledger;
use std::collections::BTreeSet;

/// What is known after the last process has ended.
#[derive(Debug)]
pub(super) struct Evidence {
    /// The key of every request that reached the wire; none where a request had no key.
    pub(super) wire: Vec<Option<String>>,
    /// How many requests had reached the wire at each crash.
    pub(super) sent_at_crash: Vec<usize>,
    /// Every key that a process told its user.
    pub(super) told: Vec<String>,
    /// What became of what the last process found.
    pub(super) recovered: Vec<String>,
    /// What the last process reported.
    pub(super) outcome: String,
    pub(super) ledger: Ledger,
}

impl Evidence {
    /// One key, one body, one effect, and a success that is told as one.
    pub(super) fn judge(self) -> Result<Evidence, String> {
        let keys: BTreeSet<_> = self.wire.iter().collect();
        let bodies: BTreeSet<_> = self
            .ledger
            .requests()
            .iter()
            .map(|r| &r.body_sha256)
            .collect();
        let effects = self.ledger.effects().len();
        let mut charges = Vec::new();
        if keys.len() != 1 || keys.contains(&None) {
            charges.push(format!("{} keys on the wire", keys.len()));
        }
        if bodies.len() != 1 {
            charges.push(format!("{} bodies", bodies.len()));
        }
        if effects != 1 {
            charges.push(format!("{effects} effects"));
        }
        if let Some(other) = self
            .told
            .iter()
            .find(|key| !keys.contains(&Some((*key).clone())))
        {
            charges.push(format!("a user was told {other}, which was never sent"));
        }
        if !self.outcome.starts_with("201 ") {
            charges.push(format!("the outcome is {:?}", self.outcome));
        }
        if charges.is_empty() {
            return Ok(self);
        }
        Err(format!("{}: {self:#?}", charges.join(", ")))
    }
}

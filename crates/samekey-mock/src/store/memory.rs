//! The store that forgets with its process: plain maps and a list of how to take changes back.

use super::{
    Charge, Delivery, Effect, Keys, Message, Millis, Record, Res, Shop, Slot, State, StoreError,
    Transact,
};
use std::collections::BTreeMap;

/// Everything in memory, for tests and simulation.
#[derive(Debug, Default)]
pub struct MemoryStore {
    keys: BTreeMap<Slot, Record>,
    effects: Vec<Effect>,
    objects: BTreeMap<String, (String, String)>,
    stock: BTreeMap<String, u64>,
    outbox: Vec<Message>,
    charges: Vec<Charge>,
    undo: Vec<Undo>,
    marks: Vec<usize>,
}

#[derive(Debug)]
enum Undo {
    Key(Slot, Option<Record>),
    Effect,
    Object(String, Option<(String, String)>),
    Stock(String, Option<u64>),
    Message,
    MessageWas(usize, Message),
    Charge,
}

impl MemoryStore {
    fn note(&mut self, undo: Undo) {
        if !self.marks.is_empty() {
            self.undo.push(undo);
        }
    }

    fn take_back(&mut self, undo: Undo) {
        match undo {
            Undo::Key(slot, Some(record)) => {
                self.keys.insert(slot, record);
            }
            Undo::Key(slot, None) => {
                self.keys.remove(&slot);
            }
            Undo::Effect => {
                self.effects.pop();
            }
            Undo::Object(id, Some(was)) => {
                self.objects.insert(id, was);
            }
            Undo::Object(id, None) => {
                self.objects.remove(&id);
            }
            Undo::Stock(item, Some(was)) => {
                self.stock.insert(item, was);
            }
            Undo::Stock(item, None) => {
                self.stock.remove(&item);
            }
            Undo::Message => {
                self.outbox.pop();
            }
            Undo::MessageWas(at, was) => self.outbox[at] = was,
            Undo::Charge => {
                self.charges.pop();
            }
        }
    }

    fn set_key(&mut self, slot: &Slot, record: Option<Record>) {
        let before = match record {
            Some(record) => self.keys.insert(slot.clone(), record),
            None => self.keys.remove(slot),
        };
        self.note(Undo::Key(slot.clone(), before));
    }
}

impl Transact for MemoryStore {
    fn begin(&mut self) -> Res<()> {
        self.marks.push(self.undo.len());
        Ok(())
    }

    fn keep(&mut self) -> Res<()> {
        self.marks
            .pop()
            .ok_or_else(|| StoreError::Failed("no transaction".into()))?;
        if self.marks.is_empty() {
            self.undo.clear();
        }
        Ok(())
    }

    fn undo(&mut self) -> Res<()> {
        let mark = self
            .marks
            .pop()
            .ok_or_else(|| StoreError::Failed("no transaction".into()))?;
        while self.undo.len() > mark {
            if let Some(undo) = self.undo.pop() {
                self.take_back(undo);
            }
        }
        Ok(())
    }
}

impl Keys for MemoryStore {
    fn insert_if_absent(&mut self, record: &Record) -> Res<Option<Record>> {
        if let Some(there) = self.keys.get(&record.slot) {
            return Ok(Some(there.clone()));
        }
        self.set_key(&record.slot, Some(record.clone()));
        Ok(None)
    }

    fn find(&mut self, slot: &Slot) -> Res<Option<Record>> {
        Ok(self.keys.get(slot).cloned())
    }

    fn put(&mut self, record: &Record) -> Res<()> {
        self.set_key(&record.slot, Some(record.clone()));
        Ok(())
    }

    fn put_if_owner(&mut self, record: &Record, owner: u64) -> Res<bool> {
        let held = self.keys.get(&record.slot);
        let held = held.is_some_and(|r| r.owner == owner && r.state == State::InFlight);
        if held {
            self.set_key(&record.slot, Some(record.clone()));
        }
        Ok(held)
    }

    fn remove(&mut self, slot: &Slot) -> Res<()> {
        self.set_key(slot, None);
        Ok(())
    }

    fn forget_all(&mut self) -> Res<()> {
        let slots: Vec<Slot> = self.keys.keys().cloned().collect();
        slots.iter().for_each(|slot| self.set_key(slot, None));
        Ok(())
    }

    fn remove_expired(&mut self, before: Millis, limit: usize, any_state: bool) -> Res<usize> {
        let over = |r: &&Record| r.expires < before && (any_state || r.state == State::Done);
        let slots: Vec<Slot> = self
            .keys
            .values()
            .filter(over)
            .take(limit)
            .map(|r| r.slot.clone())
            .collect();
        slots.iter().for_each(|slot| self.set_key(slot, None));
        Ok(slots.len())
    }

    fn stale(&mut self, before: Millis) -> Res<Vec<Record>> {
        let stale = |r: &&Record| r.state == State::InFlight && r.locked_at < before;
        Ok(self.keys.values().filter(stale).cloned().collect())
    }

    fn count(&mut self, tenant: &str) -> Res<u64> {
        Ok(self
            .keys
            .keys()
            .filter(|slot| slot.tenant == tenant)
            .count() as u64)
    }

    fn with_prefix(&mut self, tenant: Option<&str>, prefixes: &[String]) -> Res<Vec<Record>> {
        let fits = |r: &&Record| {
            let key = r.slot.key.to_ascii_lowercase();
            tenant.is_none_or(|t| t == r.slot.tenant)
                && prefixes
                    .iter()
                    .any(|p| key.starts_with(&p.to_ascii_lowercase()))
        };
        Ok(self.keys.values().filter(fits).cloned().collect())
    }

    fn all_keys(&mut self) -> Res<Vec<Record>> {
        let mut all: Vec<Record> = self.keys.values().cloned().collect();
        all.sort_by_key(|r| r.created);
        Ok(all)
    }

    fn effects_since(&mut self, slot: &Slot, since: Millis) -> Res<u64> {
        let of = |e: &&Effect| e.slot == *slot && e.at >= since;
        Ok(self.effects.iter().filter(of).count() as u64)
    }
}

impl Shop for MemoryStore {
    fn add_effect(&mut self, effect: &Effect) -> Res<u64> {
        let id = self.effects.len() as u64 + 1;
        self.effects.push(Effect {
            id,
            ..effect.clone()
        });
        self.note(Undo::Effect);
        Ok(id)
    }

    fn effects(&mut self) -> Res<Vec<Effect>> {
        Ok(self.effects.clone())
    }

    fn object(&mut self, id: &str) -> Res<Option<(String, String)>> {
        Ok(self.objects.get(id).cloned())
    }

    fn put_object(&mut self, id: &str, tenant: &str, state: &str) -> Res<()> {
        let was = self
            .objects
            .insert(id.to_owned(), (tenant.to_owned(), state.to_owned()));
        self.note(Undo::Object(id.to_owned(), was));
        Ok(())
    }

    fn take_stock(&mut self, item: &str) -> Res<bool> {
        match self.stock.get(item).copied() {
            None => Ok(true),
            Some(0) => Ok(false),
            Some(left) => self.set_stock(item, left - 1).map(|()| true),
        }
    }

    fn set_stock(&mut self, item: &str, left: u64) -> Res<()> {
        let was = self.stock.insert(item.to_owned(), left);
        self.note(Undo::Stock(item.to_owned(), was));
        Ok(())
    }

    fn add_message(&mut self, message: &Message) -> Res<u64> {
        let id = self.outbox.len() as u64 + 1;
        self.outbox.push(Message {
            id,
            ..message.clone()
        });
        self.note(Undo::Message);
        Ok(id)
    }

    fn due_messages(&mut self, now: Millis) -> Res<Vec<Message>> {
        let due = |m: &&Message| m.delivery == Delivery::Pending && m.due <= now;
        Ok(self.outbox.iter().filter(due).cloned().collect())
    }

    fn put_message(&mut self, message: &Message) -> Res<()> {
        let at = self.outbox.iter().position(|m| m.id == message.id);
        let at = at.ok_or_else(|| StoreError::Failed("no such message".into()))?;
        let was = std::mem::replace(&mut self.outbox[at], message.clone());
        self.note(Undo::MessageWas(at, was));
        Ok(())
    }

    fn messages(&mut self) -> Res<Vec<Message>> {
        Ok(self.outbox.clone())
    }

    fn book(&mut self, charge: &Charge) -> Res<u64> {
        let same = |c: &&Charge| c.key == charge.key && c.kind == charge.kind;
        if let Some(there) = self.charges.iter().find(same) {
            return Ok(there.id);
        }
        let id = self.charges.len() as u64 + 1;
        self.charges.push(Charge {
            id,
            ..charge.clone()
        });
        self.note(Undo::Charge);
        Ok(id)
    }

    fn charges(&mut self) -> Res<Vec<Charge>> {
        Ok(self.charges.clone())
    }
}

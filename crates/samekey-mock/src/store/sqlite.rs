//! The store that survives its process, and that two mocks can share: SQLite.

use super::{
    Charge, Delivery, Effect, Keys, Message, Millis, Record, Res, Shop, Slot, State, StoreError,
    Transact,
};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use serde::{Serialize, de::DeserializeOwned};
use std::path::Path;
use std::time::Duration;

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS keys (
  id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, operation TEXT NOT NULL, key TEXT NOT NULL,
  state TEXT NOT NULL, owner INTEGER NOT NULL, locked_at INTEGER NOT NULL, expires INTEGER NOT NULL,
  record TEXT NOT NULL, UNIQUE (tenant, operation, key));
CREATE INDEX IF NOT EXISTS keys_by_text ON keys (key COLLATE NOCASE);
CREATE INDEX IF NOT EXISTS keys_by_end ON keys (expires);
CREATE INDEX IF NOT EXISTS keys_in_flight ON keys (locked_at) WHERE state = 'in-flight';
CREATE TABLE IF NOT EXISTS effects (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL, effect TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS effects_by_key ON effects (key);
CREATE TABLE IF NOT EXISTS objects (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, state TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS stock (item TEXT PRIMARY KEY, left INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS outbox (
  id INTEGER PRIMARY KEY, pending INTEGER NOT NULL, due INTEGER NOT NULL, message TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS outbox_pending ON outbox (due) WHERE pending;
CREATE TABLE IF NOT EXISTS charges (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL, kind TEXT NOT NULL, amount INTEGER NOT NULL,
  UNIQUE (key, kind));
";

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Keys and shop in one SQLite database.
#[derive(Debug)]
pub struct SqliteStore {
    db: Connection,
    depth: usize,
}

impl SqliteStore {
    /// Opens or creates a file; several processes may share it.
    ///
    /// # Errors
    /// When the file cannot be opened as a database.
    pub fn open(path: &Path) -> Res<Self> {
        Self::prepare(Connection::open(path)?)
    }

    /// A database that lives and dies with this value.
    ///
    /// # Errors
    /// When SQLite cannot start.
    pub fn in_memory() -> Res<Self> {
        Self::prepare(Connection::open_in_memory()?)
    }

    fn prepare(db: Connection) -> Res<Self> {
        db.busy_timeout(Duration::from_secs(20))?;
        // WAL with NORMAL survives a killed process, which is what the mock promises.
        db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        db.execute_batch("PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE;")?;
        db.execute_batch(SCHEMA)?;
        db.execute_batch("COMMIT")?;
        db.set_prepared_statement_cache_capacity(64);
        Ok(Self { db, depth: 0 })
    }

    fn run(&self, sql: &str, values: impl Params) -> Res<usize> {
        Ok(self.db.prepare_cached(sql)?.execute(values)?)
    }

    fn one<T: DeserializeOwned>(&self, sql: &str, values: impl Params) -> Res<Option<T>> {
        let mut query = self.db.prepare_cached(sql)?;
        let text = query
            .query_row(values, |row| row.get::<_, String>(0))
            .optional()?;
        text.map(|text| read(&text)).transpose()
    }

    fn list<T: DeserializeOwned>(&self, sql: &str, values: impl Params) -> Res<Vec<T>> {
        let mut query = self.db.prepare_cached(sql)?;
        let rows = query.query_map(values, |row| row.get::<_, String>(0))?;
        rows.map(|text| read(&text?)).collect()
    }

    fn number(&self, sql: &str, values: impl Params) -> Res<u64> {
        let number: i64 = self
            .db
            .prepare_cached(sql)?
            .query_row(values, |row| row.get(0))?;
        Ok(number.unsigned_abs())
    }

    fn last_id(&self) -> u64 {
        self.db.last_insert_rowid().unsigned_abs()
    }
}

fn read<T: DeserializeOwned>(text: &str) -> Res<T> {
    serde_json::from_str(text).map_err(|e| StoreError::Failed(format!("unreadable row: {e}")))
}

fn write<T: Serialize>(value: &T) -> Res<String> {
    serde_json::to_string(value).map_err(|e| StoreError::Failed(format!("unwritable row: {e}")))
}

fn state(state: State) -> &'static str {
    match state {
        State::InFlight => "in-flight",
        State::Done => "done",
        State::Review => "review",
    }
}

fn signed(number: u64) -> i64 {
    number.cast_signed()
}

impl Transact for SqliteStore {
    fn begin(&mut self) -> Res<()> {
        if self.depth == 0 {
            self.db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        } else {
            self.db
                .prepare_cached(&format!("SAVEPOINT s{}", self.depth))?
                .execute([])?;
        }
        self.depth += 1;
        Ok(())
    }

    fn keep(&mut self) -> Res<()> {
        self.depth -= 1;
        let sql = match self.depth {
            0 => "COMMIT".to_owned(),
            depth => format!("RELEASE s{depth}"),
        };
        let kept = self.db.prepare_cached(&sql).and_then(|mut s| s.execute([]));
        if kept.is_err() && self.depth == 0 {
            // A commit that failed leaves its transaction open.
            self.db.execute_batch("ROLLBACK")?;
        }
        kept?;
        Ok(())
    }

    fn undo(&mut self) -> Res<()> {
        self.depth -= 1;
        match self.depth {
            0 => self.db.execute_batch("ROLLBACK")?,
            depth => self
                .db
                .execute_batch(&format!("ROLLBACK TO s{depth}; RELEASE s{depth}"))?,
        }
        Ok(())
    }
}

const INSERT_KEY: &str = "INSERT INTO keys
  (tenant, operation, key, state, owner, locked_at, expires, record)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (tenant, operation, key) DO ";
const REPLACE: &str =
    "UPDATE SET state = ?4, owner = ?5, locked_at = ?6, expires = ?7, record = ?8";

impl SqliteStore {
    fn write_key(&self, conflict: &str, r: &Record) -> Res<usize> {
        let values = params![
            r.slot.tenant,
            r.slot.operation,
            r.slot.key,
            state(r.state),
            signed(r.owner),
            r.locked_at,
            r.expires,
            write(r)?
        ];
        self.run(&format!("{INSERT_KEY}{conflict}"), values)
    }
}

impl Keys for SqliteStore {
    fn insert_if_absent(&mut self, record: &Record) -> Res<Option<Record>> {
        if self.write_key("NOTHING", record)? == 1 {
            return Ok(None);
        }
        self.find(&record.slot)
    }

    fn find(&mut self, slot: &Slot) -> Res<Option<Record>> {
        self.one(
            "SELECT record FROM keys WHERE tenant = ?1 AND operation = ?2 AND key = ?3",
            params![slot.tenant, slot.operation, slot.key],
        )
    }

    fn put(&mut self, record: &Record) -> Res<()> {
        self.write_key(REPLACE, record).map(|_| ())
    }

    fn put_if_owner(&mut self, record: &Record, owner: u64) -> Res<bool> {
        let changed = self.run(
            "UPDATE keys SET state = ?4, owner = ?5, locked_at = ?6, expires = ?7, record = ?8
             WHERE tenant = ?1 AND operation = ?2 AND key = ?3
               AND owner = ?9 AND state = 'in-flight'",
            params![
                record.slot.tenant,
                record.slot.operation,
                record.slot.key,
                state(record.state),
                signed(record.owner),
                record.locked_at,
                record.expires,
                write(record)?,
                signed(owner)
            ],
        )?;
        Ok(changed == 1)
    }

    fn remove(&mut self, slot: &Slot) -> Res<()> {
        let sql = "DELETE FROM keys WHERE tenant = ?1 AND operation = ?2 AND key = ?3";
        self.run(sql, params![slot.tenant, slot.operation, slot.key])
            .map(|_| ())
    }

    fn forget_all(&mut self) -> Res<()> {
        self.run("DELETE FROM keys", []).map(|_| ())
    }

    fn remove_expired(&mut self, before: Millis, limit: usize, any_state: bool) -> Res<usize> {
        self.run(
            "DELETE FROM keys WHERE id IN (SELECT id FROM keys
             WHERE expires < ?1 AND (?2 OR state = 'done') LIMIT ?3)",
            params![before, any_state, i64::try_from(limit).unwrap_or(i64::MAX)],
        )
    }

    fn stale(&mut self, before: Millis) -> Res<Vec<Record>> {
        self.list(
            "SELECT record FROM keys WHERE state = 'in-flight' AND locked_at < ?1",
            [before],
        )
    }

    fn count(&mut self, tenant: &str) -> Res<u64> {
        self.number("SELECT count(*) FROM keys WHERE tenant = ?1", [tenant])
    }

    fn with_prefix(&mut self, tenant: Option<&str>, prefixes: &[String]) -> Res<Vec<Record>> {
        let mut found: Vec<Record> = Vec::new();
        for prefix in prefixes {
            // The end of the range: the prefix followed by the highest character.
            found.extend(self.list::<Record>(
                "SELECT record FROM keys
                 WHERE key COLLATE NOCASE >= ?1 AND key COLLATE NOCASE < ?1 || char(1114111)
                   AND (?2 IS NULL OR tenant = ?2)",
                params![prefix, tenant],
            )?);
        }
        Ok(found)
    }

    fn all_keys(&mut self) -> Res<Vec<Record>> {
        self.list("SELECT record FROM keys ORDER BY id", [])
    }

    fn effects_since(&mut self, slot: &Slot, since: Millis) -> Res<u64> {
        let sql = "SELECT effect FROM effects WHERE key = ?1";
        let effects: Vec<Effect> = self.list(sql, [&slot.key])?;
        Ok(effects
            .iter()
            .filter(|e| e.slot == *slot && e.at >= since)
            .count() as u64)
    }
}

impl Shop for SqliteStore {
    fn add_effect(&mut self, effect: &Effect) -> Res<u64> {
        let next = self.number("SELECT coalesce(max(id), 0) + 1 FROM effects", [])?;
        let effect = Effect {
            id: next,
            ..effect.clone()
        };
        self.run(
            "INSERT INTO effects (id, key, effect) VALUES (?1, ?2, ?3)",
            params![signed(next), effect.slot.key, write(&effect)?],
        )?;
        Ok(next)
    }

    fn effects(&mut self) -> Res<Vec<Effect>> {
        self.list("SELECT effect FROM effects ORDER BY id", [])
    }

    fn object(&mut self, id: &str) -> Res<Option<(String, String)>> {
        let mut query = self
            .db
            .prepare_cached("SELECT tenant, state FROM objects WHERE id = ?1")?;
        let pair = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        Ok(query.query_row([id], pair).optional()?)
    }

    fn put_object(&mut self, id: &str, tenant: &str, state: &str) -> Res<()> {
        let sql = "INSERT OR REPLACE INTO objects (id, tenant, state) VALUES (?1, ?2, ?3)";
        self.run(sql, [id, tenant, state]).map(|_| ())
    }

    fn take_stock(&mut self, item: &str) -> Res<bool> {
        let sql = "UPDATE stock SET left = left - 1 WHERE item = ?1 AND left > 0";
        if self.run(sql, [item])? == 1 {
            return Ok(true);
        }
        Ok(self.number("SELECT count(*) FROM stock WHERE item = ?1", [item])? == 0)
    }

    fn set_stock(&mut self, item: &str, left: u64) -> Res<()> {
        let sql = "INSERT OR REPLACE INTO stock (item, left) VALUES (?1, ?2)";
        self.run(sql, params![item, signed(left)]).map(|_| ())
    }

    fn add_message(&mut self, message: &Message) -> Res<u64> {
        let id = self.number("SELECT coalesce(max(id), 0) + 1 FROM outbox", [])?;
        let message = Message {
            id,
            ..message.clone()
        };
        self.run(
            "INSERT INTO outbox (id, pending, due, message) VALUES (?1, TRUE, ?2, ?3)",
            params![signed(id), message.due, write(&message)?],
        )?;
        Ok(id)
    }

    fn due_messages(&mut self, now: Millis) -> Res<Vec<Message>> {
        self.list(
            "SELECT message FROM outbox WHERE pending AND due <= ?1 ORDER BY id",
            [now],
        )
    }

    fn put_message(&mut self, message: &Message) -> Res<()> {
        let pending = message.delivery == Delivery::Pending;
        self.run(
            "UPDATE outbox SET pending = ?2, due = ?3, message = ?4 WHERE id = ?1",
            params![signed(message.id), pending, message.due, write(message)?],
        )
        .map(|_| ())
    }

    fn messages(&mut self) -> Res<Vec<Message>> {
        self.list("SELECT message FROM outbox ORDER BY id", [])
    }

    fn book(&mut self, charge: &Charge) -> Res<u64> {
        let there = params![charge.key, charge.kind];
        let sql = "SELECT id FROM charges WHERE key = ?1 AND kind = ?2";
        let id = |row: &Row<'_>| row.get::<_, i64>(0);
        if let Some(id) = self
            .db
            .prepare_cached(sql)?
            .query_row(there, id)
            .optional()?
        {
            return Ok(id.unsigned_abs());
        }
        self.run(
            "INSERT INTO charges (key, kind, amount) VALUES (?1, ?2, ?3)",
            params![charge.key, charge.kind, charge.amount],
        )?;
        Ok(self.last_id())
    }

    fn charges(&mut self) -> Res<Vec<Charge>> {
        let mut query = self
            .db
            .prepare_cached("SELECT id, key, kind, amount FROM charges ORDER BY id")?;
        let charge = |row: &Row<'_>| {
            Ok(Charge {
                id: row.get::<_, i64>(0)?.unsigned_abs(),
                key: row.get(1)?,
                kind: row.get(2)?,
                amount: row.get(3)?,
            })
        };
        let rows = query.query_map([], charge)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

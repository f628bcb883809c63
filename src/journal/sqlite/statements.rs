//! The statements that a batch runs for each of its jobs, looked up once for all of them.

use rusqlite::{CachedStatement, Connection, Result};

/// Looked up when they are first needed.
pub(super) struct Statements<'c> {
    pub(super) connection: &'c Connection,
    insert: Option<CachedStatement<'c>>,
    freeze: Option<CachedStatement<'c>>,
    update: Option<CachedStatement<'c>>,
    named: Option<CachedStatement<'c>>,
    look: Option<CachedStatement<'c>>,
}

impl<'c> Statements<'c> {
    pub(super) fn new(connection: &'c Connection) -> Statements<'c> {
        Statements {
            connection,
            insert: None,
            freeze: None,
            update: None,
            named: None,
            look: None,
        }
    }

    /// Inserts a row, unless its name stands in the index.
    pub(super) fn insert(&mut self) -> Result<&mut CachedStatement<'c>> {
        ready(
            &mut self.insert,
            self.connection,
            "INSERT INTO entries
                 (name, state, revision, reference, begun, ended, scope, progress, slot, in_run)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
             ON CONFLICT (name) WHERE in_run = 0 DO NOTHING",
        )
    }

    /// Inserts what never changes of a row.
    pub(super) fn freeze(&mut self) -> Result<&mut CachedStatement<'c>> {
        let sql = "INSERT INTO frozen (slot, bytes) VALUES (?1, ?2)";
        ready(&mut self.freeze, self.connection, sql)
    }

    /// Who has a name, if it stands in the index.
    pub(super) fn named(&mut self) -> Result<&mut CachedStatement<'c>> {
        let sql = "SELECT slot FROM entries INDEXED BY named WHERE name = ?1 AND in_run = 0";
        ready(&mut self.named, self.connection, sql)
    }

    /// What an update must fit.
    pub(super) fn look(&mut self) -> Result<&mut CachedStatement<'c>> {
        let sql = "SELECT state, revision, reference, substr(progress, 1, 40)
             FROM entries WHERE slot = ?1";
        ready(&mut self.look, self.connection, sql)
    }

    /// Updates a row that is open and still as it is expected: `?8` stands in its progress behind the
    /// format and the phase.
    pub(super) fn update(&mut self) -> Result<&mut CachedStatement<'c>> {
        ready(
            &mut self.update,
            self.connection,
            "UPDATE entries SET state = ?2, revision = ?3, ended = ?4, progress = ?5
             WHERE slot = ?1 AND state = 0 AND revision = ?6 AND reference = ?7
                 AND substr(progress, 3, length(?8)) = ?8",
        )
    }
}

fn ready<'s, 'c>(
    kept: &'s mut Option<CachedStatement<'c>>,
    connection: &'c Connection,
    sql: &str,
) -> Result<&'s mut CachedStatement<'c>> {
    match kept {
        Some(statement) => Ok(statement),
        None => Ok(kept.insert(connection.prepare_cached(sql)?)),
    }
}

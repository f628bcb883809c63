//! The durable journal for programs: one SQLite file.

mod check;
mod faults;
mod files;
mod gate;
mod lately;
mod mounts;
mod names;
mod opening;
mod owners;
mod reader;
mod reserve;
mod rows;
mod schema;
mod stamp;
mod statements;
mod tape;
mod wal;
mod writer;

use super::{
    Begun, Journal, JournalError, JournalErrorKind as Kind, Listing, Liveness, Query, Reaped,
    Receipt, Retention, Select, Write,
};
use crate::entry::{Entry, Grade, Owner, Scope};
use crate::key::{Key, Reference};
use crate::seam::BoxFuture;
use crate::time::Timestamp;
pub use check::{Finding, SqliteReport};
use files::Files;
use lately::Recently;
use reader::Reader;
use reserve::Reserve;
use rows::{NewRow, Stored, Update};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use writer::{Job, Link, Waiter};

/// How a [`SqliteJournal`] is opened.
///
/// ```
/// use samekey::journal::{SqliteJournal, SqliteOptions};
/// use std::time::Duration;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("orders.samekey");
/// let options = SqliteOptions::new().patience(Duration::from_secs(2));
/// let journal = SqliteJournal::open_with(path, options)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SqliteOptions {
    patience: Duration,
    reserve: u64,
    accept_loss: bool,
    network: bool,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        SqliteOptions {
            patience: Duration::from_secs(5),
            reserve: 8 << 20,
            accept_loss: false,
            network: false,
        }
    }
}

impl SqliteOptions {
    /// The defaults, which suit nearly everyone.
    #[must_use]
    pub fn new() -> SqliteOptions {
        SqliteOptions::default()
    }

    /// How long to wait for other processes before giving up with
    /// [`Busy`](super::JournalErrorKind::Busy): 5 seconds, as their turns take milliseconds.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> SqliteOptions {
        self.patience = patience;
        self
    }

    /// Bytes laid by for a full disk, from which outcomes are still recorded: 8 MiB, enough for some
    /// thousand. With less, what was written lately is filed sooner, which costs many callers some speed;
    /// with 0 a full disk leaves outcomes unrecorded.
    #[must_use]
    pub fn reserve(mut self, bytes: u64) -> SqliteOptions {
        self.reserve = bytes;
        self
    }

    /// Opens a journal although it is known to have lost entries: for a person who has looked at what
    /// is left, and has asked the server about the rest. Off by default, and only ever for one open.
    #[must_use]
    pub fn accept_loss(mut self, accept: bool) -> SqliteOptions {
        self.accept_loss = accept;
        self
    }

    /// Opens a journal on a network file system all the same: for a share that only this machine
    /// mounts. Off by default, as SQLite cannot keep two machines apart.
    #[must_use]
    pub fn network_file_system(mut self, allow: bool) -> SqliteOptions {
        self.network = allow;
        self
    }
}

/// The durable journal for programs: one SQLite file, grade [`Grade::Device`].
///
/// Any number of threads, handles and processes of one machine may use one file at once. Writes go
/// through one thread per open journal, which commits all that waits in one transaction; a begin costs
/// one sync of the disk when it is alone, and shares it with others when it is not. While nothing else
/// is under way and the disk is quick (the last sync took less than half a millisecond), a write is
/// done on the caller's own thread, as the way to another and back would take longer. Another thread
/// copies the log into the journal when it has grown to some megabytes. Futures need no particular runtime.
///
/// Clones share one handle. Opening and dropping the last clone block for some milliseconds: the one
/// checks the file, the other finishes what is queued and closes it.
///
/// # Files
/// All lie beside the journal and are readable by their owner only: `-wal` and `-shm` are SQLite's,
/// `-tape` holds the last steps, a thousand or two, until they are filed into the journal together,
/// `-lock` keeps writers apart and notes how far the journal had got, `-reserve` is space laid by for a
/// full disk, and each process that has the journal open holds an `-owner-...` file. Move them together,
/// and only while nobody has the journal open.
///
/// # What is noticed
/// Every entry carries a digest that is checked whenever it is read, and its searchable columns are
/// compared with it. The first to open a journal reads the log before SQLite does, as SQLite drops
/// commits behind a flipped bit without a word, and compares the journal with the note in `-lock`, which
/// shows a log that was removed and an old copy that was put back. Not noticed: an old copy of *all*
/// files put back together; and beyond 4 MiB a flipped bit in the index over names of unsettled
/// entries, until [`check`](SqliteJournal::check) is run.
///
/// ```
/// use samekey::journal::{Journal, SqliteJournal};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("orders.samekey");
/// let journal = SqliteJournal::open(path)?;
/// assert_eq!(journal.grade(), samekey::entry::Grade::Device);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SqliteJournal {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    owner: Owner,
    options: SqliteOptions,
    process: u32,
    files: Files,
    reader: Reader,
    reaping: Mutex<Reaping>,
    /// Absent when the journal is only read.
    writer: Option<Link>,
    recently: Option<Recently>,
}

/// How far reaping has got on its way through the journal.
#[derive(Clone, Copy, Debug, Default)]
struct Reaping {
    /// Where the last call stopped; the end of the journal starts the next pass.
    after: u64,
    /// Whether this pass has found something.
    found: bool,
    /// After a pass that found nothing it rests: what is kept for a month need not go to the minute.
    rests_until: Timestamp,
}

impl Reaping {
    fn next(self, found: &[u64], reached: u64, retention: &Retention) -> Reaping {
        let found = self.found || !found.is_empty();
        let rest = retention.settled.min(retention.tombstones) / 1000;
        match reached {
            0 if !found => Reaping {
                rests_until: retention.now + rest,
                ..Reaping::default()
            },
            0 => Reaping::default(),
            after => Reaping {
                after,
                found,
                ..self
            },
        }
    }
}

/// How long dropping a journal may wait for its last writes.
const FAREWELL: Duration = Duration::from_secs(10);

impl Drop for Shared {
    fn drop(&mut self) {
        let Some(link) = &self.writer else { return };
        // In a forked child there is no writing thread, and the parent's files are not ours.
        if self.process != std::process::id() {
            return;
        }
        self.reader.stop(FAREWELL);
        link.close(FAREWELL);
    }
}

impl SqliteJournal {
    /// Opens the journal at `path`, making it if it is not there.
    ///
    /// # Errors
    /// Says what is wrong and what to do: the file is someone else's
    /// ([`Foreign`](super::JournalErrorKind::Foreign)), others may read it
    /// ([`Exposed`](super::JournalErrorKind::Exposed)), something is missing from it
    /// ([`Corrupt`](super::JournalErrorKind::Corrupt)), and so on. Nothing is ever repaired, emptied
    /// or made anew in silence.
    pub fn open(path: impl AsRef<Path>) -> Result<SqliteJournal, JournalError> {
        SqliteJournal::open_with(path, SqliteOptions::default())
    }

    /// Opens the journal at `path` with other settings than the defaults.
    ///
    /// # Errors
    /// As [`SqliteJournal::open`].
    pub fn open_with(
        path: impl AsRef<Path>,
        options: SqliteOptions,
    ) -> Result<SqliteJournal, JournalError> {
        let options = &options;
        let files = Files::of(path.as_ref())?;
        let reserve = Reserve::new(files.reserve.clone(), options.reserve);
        let writer = match opening::writer(&files, &reserve, options, false) {
            // The reserve is there so that a journal on a full disk can still be opened and settled.
            Err(error) if error.kind() == Kind::Full => {
                reserve.release();
                opening::writer(&files, &reserve, options, true)?
            }
            prepared => prepared?,
        };
        let owner = writer.proof.owner();
        let recently = writer.lately.clone();
        let link = Link::start(writer)
            .map_err(|error| faults::system("start a thread for", &files.journal, error))?;
        Ok(SqliteJournal::with(
            files,
            options,
            owner,
            Some((link, recently)),
        ))
    }

    /// Opens an existing journal to look at it, even while others write it or when it is damaged.
    ///
    /// Nothing is changed, nothing is claimed, and every write is refused with
    /// [`ReadOnly`](super::JournalErrorKind::ReadOnly).
    ///
    /// # Errors
    /// If there is no journal of a known version at `path`.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<SqliteJournal, JournalError> {
        let options = SqliteOptions::default();
        let files = Files::of(path.as_ref())?;
        check::readable(&files, &options)?;
        Ok(SqliteJournal::with(files, &options, Owner::NONE, None))
    }

    /// Looks at everything: who may read the files, SQLite's settings and pages, the log, the digest
    /// of every entry, who has the journal open. Reads all of it, and changes nothing.
    ///
    /// # Errors
    /// If it cannot be read far enough to say anything.
    pub async fn check(&self) -> Result<SqliteReport, JournalError> {
        let files = self.shared.files.clone();
        let options = self.shared.options;
        self.read(move |connection| check::check(connection, &files, &options))
            .await
    }

    fn with(
        files: Files,
        options: &SqliteOptions,
        owner: Owner,
        writer: Option<(Link, Recently)>,
    ) -> SqliteJournal {
        let (writer, recently) = writer.unzip();
        SqliteJournal {
            shared: Arc::new(Shared {
                owner,
                options: *options,
                process: std::process::id(),
                reader: Reader::new(files.clone(), options.patience),
                reaping: Mutex::default(),
                files,
                writer,
                recently,
            }),
        }
    }

    /// Where the journal is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.files.journal
    }

    fn reaping(&self) -> MutexGuard<'_, Reaping> {
        let reaping = self.shared.reaping.lock();
        reaping.unwrap_or_else(PoisonError::into_inner)
    }

    fn same_process(&self) -> Result<(), JournalError> {
        if self.shared.process == std::process::id() {
            return Ok(());
        }
        Err(JournalError::new(
            Kind::Unavailable,
            "the journal was opened before this process was forked off, and SQLite forbids its use \
             here; open it anew in the child",
        ))
    }

    async fn write<T, R>(&self, job: impl FnOnce(Waiter<T, R>) -> Job) -> Result<R, JournalError> {
        self.same_process()?;
        let files = &self.shared.files;
        let Some(link) = &self.shared.writer else {
            return Err(JournalError::new(
                Kind::ReadOnly,
                format!(
                    "the journal {} is open for reading only; open it without that to write",
                    files.journal.display()
                ),
            ));
        };
        let (waiter, answer) = Waiter::new();
        if !link.submit(job(waiter)) {
            return Err(stopped(files));
        }
        answer.await.map_err(|_| stopped(files))?
    }

    /// Reads the tables, which hold everything but what is on the tape.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, JournalError> {
        self.same_process()?;
        self.shared.reader.read(read).await
    }

    /// Reads the tables and what is on the tape.
    async fn read_all<T: Send + 'static>(
        &self,
        read: impl FnOnce(&rusqlite::Connection, &[Entry]) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, JournalError> {
        self.read_with(None, read).await
    }

    /// The same; what this process has on the tape may be of no interest but for one `slot`.
    async fn read_with<T: Send + 'static>(
        &self,
        slot: Option<u64>,
        read: impl FnOnce(&rusqlite::Connection, &[Entry]) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, JournalError> {
        let files = self.shared.files.clone();
        let owner = self.shared.owner;
        let recently = self.shared.recently.clone();
        self.read(move |connection| {
            let mine = recently.as_ref().map(|recently| (owner, recently));
            let lately = match lately::seen(&files, mine, slot) {
                Ok(lately) => lately,
                Err(error) => return Ok(Err(error)),
            };
            let snapshot = connection.unchecked_transaction()?;
            let recent = lately.entries(&snapshot)?;
            read(&snapshot, &recent).map(Ok)
        })
        .await?
    }
}

/// The most that SQLite is asked to keep in one piece; it could take four times as much.
const LARGEST: usize = 256 << 20;

/// One entry that SQLite cannot take must not fail a whole batch.
fn fits(bytes: usize) -> Result<(), JournalError> {
    if bytes <= LARGEST {
        return Ok(());
    }
    Err(JournalError::new(
        Kind::Unavailable,
        format!(
            "the entry has {bytes} bytes, and the journal keeps no more than {LARGEST} in one; keep \
             only the fingerprint of such a body, or lower the cap on stored answers"
        ),
    ))
}

fn stopped(files: &Files) -> JournalError {
    JournalError::new(
        Kind::Unavailable,
        format!(
            "the thread that serves the journal {} has stopped; open the journal again",
            files.journal.display()
        ),
    )
}

impl Journal for SqliteJournal {
    fn grade(&self) -> Grade {
        Grade::Device
    }

    fn owner(&self) -> Owner {
        self.shared.owner
    }

    fn begin(&self, entry: Entry) -> BoxFuture<'_, Result<Begun, JournalError>> {
        Box::pin(async move {
            let row = Box::new(NewRow::new(&entry));
            drop(entry);
            fits(row.bytes())?;
            let handed = self.write(|waiter| Job::Begin(row, waiter)).await?;
            handed.take().ok_or_else(|| stopped(&self.shared.files))
        })
    }

    fn record(&self, write: Write) -> BoxFuture<'_, Result<Receipt, JournalError>> {
        Box::pin(async move {
            if write.progress.revision != write.expected.revision.saturating_add(1) {
                return Err(JournalError::stale(&write.key));
            }
            let flush = write.flush;
            let update = Update::new(write.slot, write.key, &write.expected, &write.progress);
            fits(update.bytes())?;
            let update = Box::new(update);
            let job = |waiter| Job::Record(update, flush, waiter);
            let (receipt, _) = self.write(job).await?;
            Ok(receipt)
        })
    }

    fn load(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<Option<Entry>, JournalError>> {
        Box::pin(async move {
            let read = self.read_with(Some(slot), move |connection, recent| {
                match recent.iter().find(|entry| entry.slot == slot) {
                    Some(entry) => Ok(Some(Stored::Entry(Box::new(entry.clone())))),
                    None => rows::load(connection, slot),
                }
            });
            match read.await? {
                Some(Stored::Entry(entry)) if *entry.key() == key => Ok(Some(*entry)),
                Some(Stored::Damaged(damaged)) => {
                    Err(JournalError::unreadable(slot, damaged.error))
                }
                _ => Ok(None),
            }
        })
    }

    fn list(&self, query: Query) -> BoxFuture<'_, Result<Listing, JournalError>> {
        Box::pin(async move {
            let path = self.path();
            let whole = query.select == Select::Unfinished && query.after == 0;
            let read = self.read_all(move |connection, recent| {
                if whole && !rows::unfinished_add_up(connection)? {
                    return Ok(None);
                }
                rows::list(connection, &query, recent).map(Some)
            });
            read.await?.ok_or_else(|| {
                JournalError::new(
                    Kind::Corrupt,
                    format!(
                        "the journal {} does not list as many unfinished entries as it counted: \
                         its index was altered. Nothing was changed; run a check",
                        path.display()
                    ),
                )
            })
        })
    }

    fn find(
        &self,
        reference: Reference,
        scope: Option<Scope>,
    ) -> BoxFuture<'_, Result<Listing, JournalError>> {
        Box::pin(async move {
            self.read_all(move |connection, recent| {
                rows::find(connection, reference, scope.as_ref(), recent)
            })
            .await
        })
    }

    fn liveness(&self, owner: Owner) -> BoxFuture<'_, Result<Liveness, JournalError>> {
        Box::pin(async move {
            if owner == self.shared.owner && owner != Owner::NONE {
                return Ok(Liveness::Alive);
            }
            owners::liveness(&self.shared.files, owner)
        })
    }

    fn forget(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move { self.write(|waiter| Job::Forget(slot, key, waiter)).await })
    }

    fn reap(&self, retention: Retention) -> BoxFuture<'_, Result<Reaped, JournalError>> {
        Box::pin(async move {
            let reaping = *self.reaping();
            if reaping.rests_until > retention.now {
                return Ok(Reaped::default());
            }
            let (mut found, reached) = self
                .read(move |connection| rows::over(connection, reaping.after, &retention))
                .await?;
            if reached == 0 {
                let most = (retention.batch as usize).saturating_sub(found.len());
                let lately =
                    self.read_all(move |_, recent| Ok(rows::over_lately(recent, &retention, most)));
                found.extend(lately.await?);
            }
            *self.reaping() = reaping.next(&found, reached, &retention);
            if found.is_empty() {
                return Ok(Reaped::default());
            }
            self.write(|waiter| Job::Reap(found, retention, waiter))
                .await
        })
    }
}

#[cfg(test)]
mod tests;

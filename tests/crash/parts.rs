//! The real journal and the real transport, in wrappings that end the process at a chosen point.

use samekey::entry::{Entry, Grade, Owner, Phase};
use samekey::journal::{
    Begun, Journal, JournalError, Listing, Liveness, Query, Reaped, Receipt, Retention, Write,
};
use samekey::machine::{Permit, Probe};
use samekey::platform::native::HttpTransport;
use samekey::seam::BoxFuture;
use samekey::transport::Transport;
use samekey::{Failure, Key, Reference, Response, Scope, SqliteJournal};
use std::future::poll_fn;
use std::sync::Mutex;
use std::task::Poll;

/// Where a process ends itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    Nowhere,
    BeforeTheWrite,
    DuringTheWrite,
    AfterTheWrite,
    PermitInHand,
    AnswerRead,
    BeforeANote,
    AfterANote,
    BeforeTheOutcome,
    DuringTheOutcome,
    OutcomeWritten,
    BeforeAClaim,
    DuringAClaim,
    AfterAClaim,
    AnswerReadInRecovery,
}

impl Point {
    pub(super) const ALL: [Point; 15] = [
        Point::Nowhere,
        Point::BeforeTheWrite,
        Point::DuringTheWrite,
        Point::AfterTheWrite,
        Point::PermitInHand,
        Point::AnswerRead,
        Point::BeforeANote,
        Point::AfterANote,
        Point::BeforeTheOutcome,
        Point::DuringTheOutcome,
        Point::OutcomeWritten,
        Point::BeforeAClaim,
        Point::DuringAClaim,
        Point::AfterAClaim,
        Point::AnswerReadInRecovery,
    ];

    /// The point with this name, as `Debug` writes it.
    pub(super) fn named(name: &str) -> Point {
        let mut all = Point::ALL.into_iter();
        all.find(|point| format!("{point:?}") == name).unwrap()
    }
}

/// What to do around a step of the journal.
#[derive(Clone, Copy, Default)]
struct Ends {
    before: bool,
    during: bool,
    after: bool,
}

impl Ends {
    /// Does `step` and ends the process where it is to end.
    async fn around<T>(self, mut step: BoxFuture<'_, T>) -> T {
        if self.before {
            std::process::abort();
        }
        if self.during {
            // The writing thread has its order, and may be anywhere with it.
            poll_fn(|cx| {
                let _ = step.as_mut().poll(cx);
                Poll::Ready(())
            })
            .await;
            std::process::abort();
        }
        let result = step.await;
        if self.after {
            std::process::abort();
        }
        result
    }
}

/// A journal around which the process ends.
pub(super) struct DyingJournal<J> {
    pub(super) inner: J,
    pub(super) point: Point,
}

impl<J> DyingJournal<J> {
    fn at_begin(&self) -> Ends {
        Ends {
            before: self.point == Point::BeforeTheWrite,
            during: self.point == Point::DuringTheWrite,
            after: self.point == Point::AfterTheWrite,
        }
    }

    fn at_record(&self, write: &Write) -> Ends {
        let at = |before, during: Option<Point>, after| Ends {
            before: self.point == before,
            during: during == Some(self.point),
            after: self.point == after,
        };
        let progress = &write.progress;
        match progress.phase {
            phase if phase.is_settled() => at(
                Point::BeforeTheOutcome,
                Some(Point::DuringTheOutcome),
                Point::OutcomeWritten,
            ),
            Phase::Waiting => at(Point::BeforeANote, None, Point::AfterANote),
            Phase::Sending if progress.epoch > 1 => at(
                Point::BeforeAClaim,
                Some(Point::DuringAClaim),
                Point::AfterAClaim,
            ),
            _ => Ends::default(),
        }
    }
}

impl<J: Journal> Journal for DyingJournal<J> {
    fn grade(&self) -> Grade {
        self.inner.grade()
    }

    fn owner(&self) -> Owner {
        self.inner.owner()
    }

    fn begin(&self, entry: Entry) -> BoxFuture<'_, Result<Begun, JournalError>> {
        Box::pin(self.at_begin().around(self.inner.begin(entry)))
    }

    fn record(&self, write: Write) -> BoxFuture<'_, Result<Receipt, JournalError>> {
        Box::pin(self.at_record(&write).around(self.inner.record(write)))
    }

    fn load(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<Option<Entry>, JournalError>> {
        self.inner.load(slot, key)
    }

    fn list(&self, query: Query) -> BoxFuture<'_, Result<Listing, JournalError>> {
        self.inner.list(query)
    }

    fn find(
        &self,
        reference: Reference,
        scope: Option<Scope>,
    ) -> BoxFuture<'_, Result<Listing, JournalError>> {
        self.inner.find(reference, scope)
    }

    fn liveness(&self, owner: Owner) -> BoxFuture<'_, Result<Liveness, JournalError>> {
        self.inner.liveness(owner)
    }

    fn forget(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<(), JournalError>> {
        self.inner.forget(slot, key)
    }

    fn reap(&self, retention: Retention) -> BoxFuture<'_, Result<Reaped, JournalError>> {
        self.inner.reap(retention)
    }
}

/// A transport around which the process ends.
pub(super) struct DyingTransport {
    pub(super) inner: HttpTransport,
    pub(super) point: Point,
    pub(super) recovering: bool,
}

impl Transport for DyingTransport {
    fn send(&self, permit: Permit) -> BoxFuture<'_, Result<Response, Failure>> {
        let ends = Ends {
            before: self.point == Point::PermitInHand,
            during: false,
            after: self.point == Point::AnswerRead
                || (self.point == Point::AnswerReadInRecovery && self.recovering),
        };
        Box::pin(ends.around(self.inner.send(permit)))
    }

    fn probe(&self, probe: Probe) -> BoxFuture<'_, Result<Response, Failure>> {
        self.inner.probe(probe)
    }
}

/// The planted mistake: a begin is acknowledged at once and written with the first note or outcome,
/// which comes after the send.
pub(super) struct HastyJournal {
    inner: SqliteJournal,
    owed: Mutex<Option<Entry>>,
}

impl HastyJournal {
    pub(super) fn new(inner: SqliteJournal) -> HastyJournal {
        HastyJournal {
            inner,
            owed: Mutex::default(),
        }
    }
}

impl Journal for HastyJournal {
    fn grade(&self) -> Grade {
        self.inner.grade()
    }

    fn owner(&self) -> Owner {
        self.inner.owner()
    }

    fn begin(&self, entry: Entry) -> BoxFuture<'_, Result<Begun, JournalError>> {
        Box::pin(async move {
            let all = self.inner.list(Query::default()).await?.entries;
            let same = |known: &&Entry| known.frozen.intent == entry.frozen.intent;
            if let Some(known) = all.iter().find(same) {
                return Ok(Begun::Exists(Box::new(known.clone())));
            }
            let receipt = Receipt::new(entry.key().clone(), 0, 1, self.grade());
            *self.owed.lock().unwrap() = Some(entry);
            Ok(Begun::Created(receipt))
        })
    }

    fn record(&self, mut write: Write) -> BoxFuture<'_, Result<Receipt, JournalError>> {
        Box::pin(async move {
            let owed = self.owed.lock().unwrap().take();
            if let Some(entry) = owed
                && let Begun::Created(receipt) = self.inner.begin(entry).await?
            {
                write.slot = receipt.slot();
            }
            self.inner.record(write).await
        })
    }

    fn load(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<Option<Entry>, JournalError>> {
        let owed = self.owed.lock().unwrap().clone();
        match owed.filter(|entry| *entry.key() == key) {
            Some(entry) => Box::pin(async { Ok(Some(entry)) }),
            None => self.inner.load(slot, key),
        }
    }

    fn list(&self, query: Query) -> BoxFuture<'_, Result<Listing, JournalError>> {
        self.inner.list(query)
    }

    fn find(
        &self,
        reference: Reference,
        scope: Option<Scope>,
    ) -> BoxFuture<'_, Result<Listing, JournalError>> {
        self.inner.find(reference, scope)
    }

    fn liveness(&self, owner: Owner) -> BoxFuture<'_, Result<Liveness, JournalError>> {
        self.inner.liveness(owner)
    }

    fn forget(&self, slot: u64, key: Key) -> BoxFuture<'_, Result<(), JournalError>> {
        self.inner.forget(slot, key)
    }

    fn reap(&self, retention: Retention) -> BoxFuture<'_, Result<Reaped, JournalError>> {
        self.inner.reap(retention)
    }
}

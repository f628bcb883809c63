//! The live handle on one action.

mod builder;
mod draft;

pub use builder::OperationBuilder;
#[cfg(feature = "page")]
pub(crate) use draft::{Draft, check_join, ended_long_ago, unreadable};
pub(crate) use draft::{fitting, nonce, stored_body};

use crate::client::{Client, Wish, decisions};
use crate::entry::{
    DecodeError, Entry, Frozen, Grade, Kept, Owner, Phase, Progress, Receipt, WindowSource,
};
use crate::error::{Error, ErrorKind};
use crate::fingerprint::Fingerprint;
use crate::journal::{Damaged, Expected, Flush, JournalErrorKind, Write};
use crate::key::{Key, Reference};
use crate::machine;
use crate::message::{Headers, Method, Origin};
use crate::outcome::Outcome;
use crate::retry::classify::Complete;
use crate::seam::BoxFuture;
use crate::time::Timestamp;
use crate::update::{Announcer, Updates};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One action under one key, durable in the journal.
///
/// Dropping the handle, or the future of [`send`](Operation::send), lets the operation go where it
/// stands: it stays in the journal and can be resumed, by this program or the next.
/// [`cancel`](Operation::cancel) is something else: it stops the action for good.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), samekey::Error> {
/// # let client = samekey::testing::client();
/// let request = client.operation("cart/9").post("https://api.example.com/orders");
/// let operation = request.begin().await?;
/// println!("Your reference: {}", operation.reference());
/// let outcome = operation.send().await?;
/// assert_eq!(outcome.reference(), operation.reference());
/// // Asked once more, it hands out what it has, and nothing is sent.
/// assert_eq!(operation.send().await?.provenance(), samekey::Provenance::Recovered);
/// # Ok(()) }
/// ```
pub struct Operation {
    pub(crate) client: Client,
    // Boxed: a handle is moved about, from task to task.
    pub(crate) state: Box<Mutex<State>>,
    pub(crate) updates: Announcer,
    damage: Option<DecodeError>,
}

/// What this handle knows of its entry.
pub(crate) struct State {
    pub(crate) entry: Entry,
    /// The receipt of our own begin, until it is used.
    pub(crate) held: Option<Receipt>,
    /// Where it goes, if this process began it and has not sent it.
    pub(crate) origin: Option<Origin>,
    /// The exact body, if this process has it.
    pub(crate) body: Option<Arc<[u8]>>,
    /// Whether this process began it.
    pub(crate) begun_here: bool,
    /// Whether an attempt may have left, as far as this process and the journal know.
    pub(crate) maybe_sent: bool,
}

/// What a look-up found out about an operation whose outcome is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It happened; the text says how that is known.
    Happened(String),
    /// It did not; the text says how that is known.
    DidNotHappen(String),
    /// It still cannot be told.
    StillUnknown,
}

/// What a person decided about an operation.
#[derive(Clone, Copy)]
enum Decree<'a> {
    Cancel,
    Abandon(&'a str),
    Settle(bool, &'a str),
}

impl Decree<'_> {
    /// The progress that follows; `None` if the operation has ended. `held` is the revision that we
    /// wrote when we began, and still hold.
    fn apply(self, progress: &Progress, held: Option<u64>) -> Option<Progress> {
        match self {
            // We know that nothing was sent only of that very revision.
            Decree::Cancel => machine::cancel(progress, held == Some(progress.revision), None),
            Decree::Abandon(note) => machine::abandon(progress, note),
            Decree::Settle(happened, note) => machine::settle(progress, happened, note),
        }
    }
}

impl Operation {
    /// An operation that this process just made durable.
    pub(crate) fn begun(
        client: Client,
        entry: Entry,
        receipt: Receipt,
        origin: Option<Origin>,
        body: Arc<[u8]>,
    ) -> Self {
        let state = State {
            entry,
            held: Some(receipt),
            origin,
            body: Some(body),
            begun_here: true,
            maybe_sent: false,
        };
        Operation::new(client, state, None)
    }

    /// An operation that was in the journal already.
    pub(crate) fn found(client: Client, entry: Entry) -> Self {
        let maybe_sent = machine::may_have_left(&entry.progress);
        let state = State {
            entry,
            held: None,
            origin: None,
            body: None,
            begun_here: false,
            maybe_sent,
        };
        Operation::new(client, state, None)
    }

    /// An entry that is there but cannot be read: it can be shown, and nothing else.
    pub(crate) fn damaged(client: Client, damage: Damaged) -> Self {
        let key = damage
            .key
            .or_else(|| Key::adopt(&format!("damaged-{}", damage.slot)).ok());
        let frozen = Frozen {
            key: key.unwrap_or_else(|| Key::from_random([0; 16])),
            scope: client.scope().clone(),
            intent: "(damaged)".into(),
            generation: 0,
            method: Method::Post,
            url: "".into(),
            headers: Headers::new(),
            key_line: None,
            body: Kept::NotKept,
            body_digest: [0; 32],
            fingerprint: Fingerprint::from_bytes([0; 32]),
            profile: "none".into(),
            begun_at: Timestamp::default(),
            complete: Complete::default(),
        };
        let start = Timestamp::default();
        let progress = Progress::ready(Owner::NONE, start, Duration::ZERO, WindowSource::Assumed);
        let entry = Entry {
            slot: damage.slot,
            frozen: Arc::new(frozen),
            progress,
        };
        let mut operation = Operation::found(client, entry);
        operation.damage = Some(damage.error);
        operation
    }

    fn new(client: Client, state: State, damage: Option<DecodeError>) -> Self {
        Operation {
            client,
            state: Box::new(Mutex::new(state)),
            updates: Announcer::default(),
            damage,
        }
    }

    /// Sends the request, again and again if need be, until there is an end to report.
    ///
    /// If the operation ended before, its outcome is handed out and nothing is sent. If another
    /// process or tab drives it, this waits for the outcome, and takes over if the other dies.
    ///
    /// Dropping the future is safe at every point.
    ///
    /// # Errors
    /// If the outcome is not known yet ([`Error::is_unresolved`]), or nothing could be sent
    /// ([`Error::nothing_was_sent`]). A refusal by the server is an outcome, not an error.
    // Boxed, as what follows: whoever awaits it would otherwise hold, and a page download, a copy.
    pub fn send(&self) -> BoxFuture<'_, Result<Outcome, Error>> {
        self.drive(Wish::Send)
    }

    fn drive(&self, wish: Wish) -> BoxFuture<'_, Result<Outcome, Error>> {
        Box::pin(self.client.0.drive(self, wish))
    }

    /// Goes on with an operation that an earlier run left open, or that a person wants to try
    /// again: same key, same bytes, credentials asked for anew. Unlike [`send`](Operation::send) it
    /// also takes up what needs attention, as long as that can be sent without acting twice.
    ///
    /// # Errors
    /// As [`send`](Operation::send).
    pub fn resume(&self) -> BoxFuture<'_, Result<Outcome, Error>> {
        self.drive(Wish::Resume)
    }

    /// [`resume`](Operation::resume) for an operation whose body the journal does not keep.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), samekey::Error> {
    /// # let client = samekey::testing::client();
    /// let request = client.operation("cart/9").post("https://api.example.com/orders");
    /// let secret = request.body("card=42", "text/plain").keep(samekey::Body::FingerprintOnly);
    /// drop(secret.begin().await?);
    /// let left = client.unfinished().await?.remove(0);
    /// assert_eq!(left.resume().await.unwrap_err().kind(), samekey::ErrorKind::BodyNeeded);
    /// assert!(left.resume_with("card=42").await?.is_success());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`resume`](Operation::resume); and if `body` is not the one that was sent before, in
    /// which case nothing is sent.
    pub async fn resume_with(&self, body: impl Into<Vec<u8>>) -> Result<Outcome, Error> {
        self.check_damage()?;
        self.supply_body(&body.into())?;
        self.resume().await
    }

    pub(crate) fn supply_body(&self, body: &[u8]) -> Result<(), Error> {
        let mut state = self.state();
        let frozen = &state.entry.frozen;
        let profile = self.client.0.profile_of(&state.entry)?;
        let Some(wire) = fitting(body, frozen, &profile) else {
            return Err(Error::new(
                ErrorKind::BodyMismatch,
                "the body differs from the one that this operation was begun with; supply the same \
                 bytes, or begin another operation",
            )
            .about(frozen.key.reference())
            // What others did since it was listed is not known here.
            .after(
                state.entry.progress.attempts,
                state.maybe_sent || state.held.is_none(),
            ));
        };
        state.body = Some(wire);
        Ok(())
    }

    /// Stops the operation for good, whoever drives it: no later resume takes it up again.
    ///
    /// If nothing can have happened it is abandoned; else it needs attention, because the server
    /// may have acted.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), samekey::Error> {
    /// # let client = samekey::testing::client();
    /// let request = client.operation("cart/9").post("https://api.example.com/orders");
    /// let operation = request.begin().await?;
    /// assert_eq!(operation.cancel().await?, samekey::Phase::Abandoned);
    /// assert!(operation.send().await.unwrap_err().nothing_was_sent());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If it ended already, or the journal refuses.
    pub fn cancel(&self) -> BoxFuture<'_, Result<Phase, Error>> {
        self.change(Decree::Cancel)
    }

    /// Closes the operation on purpose, whatever may have happened, with a note that says why.
    ///
    /// # Errors
    /// If it ended already, or the journal refuses.
    pub fn abandon<'a>(&'a self, note: &'a str) -> BoxFuture<'a, Result<Phase, Error>> {
        self.change(Decree::Abandon(note))
    }

    /// Settles by hand an operation whose outcome a person found out, with a note that says how.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), samekey::Error> {
    /// # let client = samekey::testing::client();
    /// let request = client.operation("cart/9").post("https://api.example.com/orders");
    /// let operation = request.begin().await?;
    /// operation.settle(true, "found in the shop's orders").await?;
    /// let outcome = operation.send().await?;
    /// assert!(outcome.is_success());
    /// assert_eq!(outcome.provenance(), samekey::Provenance::ByHand);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If it ended already, or the journal refuses.
    pub fn settle<'a>(
        &'a self,
        happened: bool,
        note: &'a str,
    ) -> BoxFuture<'a, Result<Phase, Error>> {
        self.change(Decree::Settle(happened, note))
    }

    /// Settles it by a look-up of the caller's: a search in the server's orders, say.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), samekey::Error> {
    /// # let client = samekey::testing::client();
    /// use samekey::Finding;
    ///
    /// let request = client.operation("cart/9").post("https://api.example.com/orders");
    /// let operation = request.begin().await?;
    /// let found = |_key: samekey::Key| async { Finding::DidNotHappen("no such order".into()) };
    /// assert_eq!(operation.look_up(found).await?, samekey::Phase::Rejected);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`settle`](Operation::settle). If the look-up cannot tell either, nothing changes.
    pub async fn look_up<F, Answer>(&self, look: F) -> Result<Phase, Error>
    where
        F: FnOnce(Key) -> Answer,
        Answer: Future<Output = Finding>,
    {
        match look(self.key()).await {
            Finding::Happened(note) => self.settle(true, &note).await,
            Finding::DidNotHappen(note) => self.settle(false, &note).await,
            Finding::StillUnknown => Ok(self.phase()),
        }
    }

    /// Lets go of an operation that was begun here and not sent: it stays in the journal, and anyone may
    /// send it at once. Of what was sent, or belongs to another, nothing changes.
    ///
    /// # Errors
    /// If the journal refuses.
    pub async fn release(&self) -> Result<Phase, Error> {
        let (held, entry) = {
            let mut state = self.state();
            (state.held.take(), state.entry.clone())
        };
        let current = |held: &Receipt| held.revision() == entry.progress.revision;
        if held.as_ref().is_some_and(current) {
            let inner = &self.client.0;
            inner.flights.end_hold(entry.key());
            let released = machine::release(&entry.progress, true);
            let (frozen, ours) = (&entry.frozen, Expected::of(&entry.progress));
            let write = inner.record(entry.slot, frozen, ours, released, Flush::Normal);
            match write.await {
                // Somebody else wrote first: then it is theirs.
                Err(error) if error.kind() != JournalErrorKind::Stale => {
                    // Still ours, then: to be sent, or let go when the handle is dropped.
                    self.state().held = held;
                    return Err(self.unseen(error.into()));
                }
                _ => {}
            }
        }
        self.refresh().await
    }

    /// Leaves only a tombstone of a settled operation.
    ///
    /// # Errors
    /// If it is not settled, or the journal refuses.
    pub async fn forget(&self) -> Result<(), Error> {
        self.check_damage()?;
        let (slot, key) = self.handle();
        self.client
            .0
            .journal
            .forget(slot, key)
            .await
            .map_err(|error| self.blame(error.into()))
    }

    /// Reads the entry again: another process may have moved it on.
    ///
    /// # Errors
    /// If the journal cannot be read, or the entry is gone.
    pub async fn refresh(&self) -> Result<Phase, Error> {
        self.check_damage()?;
        let entry = self.client.0.load(self).await?;
        self.learn(&entry);
        Ok(entry.progress.phase)
    }

    /// What happens to it from now on, as a stream.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), samekey::Error> {
    /// # let client = samekey::testing::client();
    /// use samekey::{Phase, Update};
    ///
    /// let request = client.operation("cart/9").post("https://api.example.com/orders");
    /// let operation = request.begin().await?;
    /// let mut updates = operation.updates();
    /// operation.send().await?;
    /// assert_eq!(updates.next().await, Some(Update::Sending { attempt: 1 }));
    /// assert_eq!(updates.next().await, Some(Update::Settled(Phase::Succeeded)));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn updates(&self) -> Updates {
        self.updates.listen()
    }

    /// The outcome, if it ended.
    ///
    /// # Errors
    /// If the stored answer is sealed under another key.
    pub fn outcome(&self) -> Result<Option<Outcome>, Error> {
        let entry = self.entry();
        if !entry.progress.phase.is_settled() {
            return Ok(None);
        }
        self.client.0.recovered(self, &entry).map(Some)
    }

    /// What to show to people: on the screen before the first byte leaves.
    #[must_use]
    pub fn reference(&self) -> Reference {
        self.state().entry.reference()
    }

    /// The whole key.
    #[must_use]
    pub fn key(&self) -> Key {
        self.state().entry.key().clone()
    }

    /// The caller's name of the action.
    #[must_use]
    pub fn intent(&self) -> Box<str> {
        self.state().entry.frozen.intent.clone()
    }

    /// Where it stood when this handle last looked.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.state().entry.progress.phase
    }

    /// All that the journal held when this handle last looked.
    #[must_use]
    pub fn entry(&self) -> Entry {
        self.state().entry.clone()
    }

    /// How durable it is.
    #[must_use]
    pub fn grade(&self) -> Grade {
        self.client.grade()
    }

    /// What is wrong with the entry's bytes, if anything is.
    #[must_use]
    pub fn damage(&self) -> Option<DecodeError> {
        self.damage
    }

    /// How the journal finds the entry.
    pub(crate) fn handle(&self) -> (u64, Key) {
        let state = self.state();
        (state.entry.slot, state.entry.key().clone())
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what the journal says now.
    pub(crate) fn learn(&self, entry: &Entry) {
        let mut state = self.state();
        // What we hold was written by us, and not sent: there the journal is only careful.
        let ours = state.held.as_ref().map(Receipt::revision) == Some(entry.progress.revision);
        state.maybe_sent |= !ours && machine::may_have_left(&entry.progress);
        state.entry = entry.clone();
    }

    pub(crate) fn check_damage(&self) -> Result<(), Error> {
        match self.damage {
            None => Ok(()),
            Some(damage) => {
                Err(decisions::distrusted(self.handle().0, damage).about(self.reference()))
            }
        }
    }

    /// Adds to a journal's error what is known of this operation.
    pub(crate) fn blame(&self, error: Error) -> Error {
        let state = self.state();
        error
            .about(state.entry.reference())
            .after(state.entry.progress.attempts, state.maybe_sent)
    }

    /// The same where the journal could not be looked at, or written: others may have sent it since,
    /// and that nothing left cannot be said.
    pub(crate) fn unseen(&self, error: Error) -> Error {
        let error = self.blame(error);
        let attempts = error.attempts();
        error.after(attempts, true)
    }

    /// Writes what a person decided, over whatever a driver writes meanwhile.
    ///
    /// The receipt of our begin is taken first: from here on nobody sends on its strength, so what it
    /// says about nothing having left stays true.
    fn change<'a>(&'a self, decree: Decree<'a>) -> BoxFuture<'a, Result<Phase, Error>> {
        Box::pin(async move {
            self.check_damage()?;
            let held = {
                let mut state = self.state();
                self.client.0.flights.end_hold(state.entry.key());
                state.held.take()
            };
            let changed = self
                .write_change(decree, held.as_ref().map(Receipt::revision))
                .await;
            if changed.is_err() {
                self.state().held = held;
            }
            changed
        })
    }

    async fn write_change(&self, decree: Decree<'_>, held: Option<u64>) -> Result<Phase, Error> {
        loop {
            let entry = self.client.0.load(self).await?;
            let Some(mut progress) = decree.apply(&entry.progress, held) else {
                let phase = entry.progress.phase;
                self.learn(&entry);
                return Err(self.blame(decisions::ended(phase)));
            };
            progress.seen_at = progress.seen_at.max(self.client.0.clock.now().wall);
            let write = Write {
                slot: entry.slot,
                key: entry.key().clone(),
                expected: Expected::of(&entry.progress),
                progress: progress.clone(),
                flush: Flush::Full,
            };
            match self.client.0.journal.record(write).await {
                Ok(_) => {
                    let phase = progress.phase;
                    self.state().entry = Entry { progress, ..entry };
                    return Ok(phase);
                }
                Err(error) if error.kind() == JournalErrorKind::Stale => {}
                Err(error) => return Err(self.unseen(error.into())),
            }
        }
    }

    /// The exact body, from memory or from the journal.
    pub(crate) fn body(&self) -> Result<Arc<[u8]>, Error> {
        let mut state = self.state();
        if let Some(body) = &state.body {
            return Ok(Arc::clone(body));
        }
        let frozen = &state.entry.frozen;
        let stored = stored_body(frozen, &self.client.0.keeper);
        let mut body = stored.map_err(|error| {
            error
                .about(frozen.key.reference())
                .after(state.entry.progress.attempts, state.maybe_sent)
        })?;
        if crate::planted::is(5) {
            body = [&body[..], b" "].concat().into();
        }
        state.body = Some(Arc::clone(&body));
        Ok(body)
    }
}

impl Drop for Operation {
    /// An operation that was begun and never sent is let go, so that anyone may take it at once.
    fn drop(&mut self) {
        let (client, state) = (&self.client.0, self.state());
        if state.held.is_some() {
            client.flights.end_hold(state.entry.key());
        }
        // Only the very revision that we wrote when we began is known to be unsent: another handle may
        // have driven it since, even to its end.
        let current = |receipt: &Receipt| receipt.revision() == state.entry.progress.revision;
        if state.held.as_ref().is_some_and(current) {
            let progress = machine::release(&state.entry.progress, true);
            let Entry { slot, frozen, .. } = &state.entry;
            let ours = Expected::of(&state.entry.progress);
            client.let_go(*slot, frozen, ours, progress, Flush::Normal);
        }
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Operation")
            .field("reference", &state.entry.reference())
            .field("intent", &state.entry.frozen.intent)
            .field("phase", &state.entry.progress.phase)
            .finish_non_exhaustive()
    }
}

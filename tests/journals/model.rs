//! Two handles on one file, at random, against the journal in memory: on the tape, off it, closed, opened and
//! killed in between, they answer as it does.

use super::damage::{Scene, take};
use crate::folder;
use samekey::entry::{Entry, Phase};
use samekey::journal::conformance::{sample, step};
use samekey::journal::{
    Begun, Flush, Journal, JournalError, JournalErrorKind as Kind, Listing, MemoryJournal, Query,
    Receipt, Select, SqliteJournal, SqliteOptions, Write,
};
use samekey::retry::classify::Reason;
use std::path::PathBuf;
use tempfile::TempDir;

/// Numbers that a seed draws.
struct Luck(u64);

impl Luck {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

const PHASES: [Phase; 7] = [
    Phase::Sending,
    Phase::Waiting,
    Phase::Attention(Reason::Exhausted),
    Phase::Attention(Reason::WindowClosed),
    Phase::Deferred,
    Phase::Succeeded,
    Phase::Rejected,
];

/// The journal twice: on the disk under two handles, and in memory.
struct World {
    luck: Luck,
    folder: TempDir,
    handles: [Option<SqliteJournal>; 2],
    /// Who writes; mostly the same one as before, so that it is alone.
    turn: usize,
    model: MemoryJournal,
    /// Every state that any entry was ever in.
    states: Vec<Entry>,
    intents: usize,
    /// How often something was found on a tape that was not filed.
    taped: usize,
}

fn open(path: PathBuf) -> Option<SqliteJournal> {
    Some(SqliteJournal::open_with(path, SqliteOptions::new().reserve(0)).unwrap())
}

impl World {
    fn new(seed: u64) -> World {
        let folder = folder();
        let path = folder.path().join("j");
        World {
            luck: Luck(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            handles: [open(path.clone()), open(path)],
            folder,
            turn: 0,
            model: MemoryJournal::new(),
            states: Vec::new(),
            intents: 0,
            taped: 0,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("j")
    }

    fn journal(&self) -> &SqliteJournal {
        self.handles[self.turn].as_ref().unwrap()
    }

    async fn step(&mut self) {
        if self.luck.below(12) == 0 {
            self.turn = 1 - self.turn;
        }
        match self.luck.below(200) {
            0..80 => self.begin().await,
            80..150 => self.record().await,
            150..165 => self.list().await,
            165..180 => self.load().await,
            180..190 => self.find().await,
            190..196 => self.forget().await,
            196..198 => {
                self.handles[self.turn] = None;
                self.handles[self.turn] = open(self.path());
            }
            _ => self.kill(),
        }
    }

    async fn begin(&mut self) {
        let number = match self.luck.below(3) {
            0 => self.luck.below(self.intents + 1),
            _ => self.intents,
        };
        self.intents = self.intents.max(number + 1);
        let entry = sample(self.journal().owner(), "ann", &format!("{number}"), 0);
        let (told, known) = (
            self.journal().begin(entry.clone()).await.unwrap(),
            self.model.begin(entry.clone()).await.unwrap(),
        );
        assert_eq!(told, graded(known), "{number}");
        if let Begun::Created(receipt) = told {
            self.states.push(Entry {
                slot: receipt.slot(),
                ..entry
            });
        }
    }

    async fn record(&mut self) {
        if self.states.is_empty() {
            return;
        }
        // Mostly one of the latest states, which may be an old one of its entry all the same.
        let (count, within) = (self.states.len(), self.luck.pick(&[5, 40, usize::MAX]));
        let at = count - 1 - self.luck.below(count.min(within));
        let entry = self.states[at].clone();
        let mut write = step(&entry, self.luck.pick(&PHASES));
        write.flush = self.luck.pick(&[Flush::Normal, Flush::Normal, Flush::Full]);
        let told = place(self.journal().record(write.clone()).await);
        assert_eq!(told, place(self.model.record(write.clone()).await));
        if told.is_ok() {
            let Write { progress, .. } = write;
            self.states.push(Entry { progress, ..entry });
        }
    }

    async fn list(&mut self) {
        let query = Query {
            select: self.luck.pick(&[
                Select::All,
                Select::Unfinished,
                Select::Attention,
                Select::Settled,
            ]),
            after: self.luck.below(self.states.len() + 1) as u64 / 2,
            limit: self.luck.pick(&[0, 1, 7]),
            ..Query::default()
        };
        let told = self.journal().list(query.clone()).await.unwrap();
        assert_eq!(whole(told), whole(self.model.list(query).await.unwrap()));
    }

    async fn load(&mut self) {
        if self.states.is_empty() {
            return;
        }
        let at = self.luck.below(self.states.len());
        let entry = &self.states[at];
        let (slot, key) = (entry.slot, entry.key().clone());
        let told = self.journal().load(slot, key.clone()).await.unwrap();
        assert_eq!(told, self.model.load(slot, key).await.unwrap());
    }

    async fn find(&mut self) {
        if self.states.is_empty() {
            return;
        }
        let at = self.luck.below(self.states.len());
        let reference = self.states[at].reference();
        let told = self.journal().find(reference, None).await.unwrap();
        let known = self.model.find(reference, None).await.unwrap();
        assert_eq!(whole(told), whole(known));
    }

    async fn forget(&mut self) {
        if self.states.is_empty() {
            return;
        }
        let at = self.luck.below(self.states.len());
        let entry = &self.states[at];
        let (slot, key) = (entry.slot, entry.key().clone());
        let kind = |error: JournalError| error.kind();
        let told = self.journal().forget(slot, key.clone()).await;
        let known = self.model.forget(slot, key).await;
        assert_eq!(told.map_err(kind), known.map_err(kind));
    }

    /// Everybody is killed, and two others open what is left.
    fn kill(&mut self) {
        let files = take(&self.path(), &["", "-wal", "-lock", "-tape"]);
        self.taped += usize::from(files[3].1.len() > 512);
        let scene = Scene {
            files,
            entries: Vec::new(),
        };
        let (folder, path) = scene.lay(|_, _| {});
        self.handles = [open(path.clone()), open(path)];
        self.folder = folder;
    }
}

/// What both say of a write.
fn place(told: Result<Receipt, JournalError>) -> Result<(u64, u64), Kind> {
    told.map(|receipt| (receipt.slot(), receipt.revision()))
        .map_err(|error| error.kind())
}

fn whole(listing: Listing) -> Vec<Entry> {
    assert!(listing.damaged.is_empty(), "{:?}", listing.damaged);
    listing.entries
}

/// What memory says, as a disk would.
fn graded(begun: Begun) -> Begun {
    match begun {
        Begun::Created(receipt) => Begun::Created(Receipt::new(
            receipt.key().clone(),
            receipt.slot(),
            receipt.revision(),
            samekey::Grade::Device,
        )),
        other => other,
    }
}

#[tokio::test]
async fn two_handles_at_random_answer_as_memory_does() {
    let mut taped = 0;
    for seed in 1..=6 {
        let mut world = World::new(seed);
        for _ in 0..1_500 {
            world.step().await;
        }
        let known = world.model.list(Query::default()).await.unwrap();
        let told = world.journal().list(Query::default()).await.unwrap();
        assert_eq!(whole(told), whole(known), "seed {seed}");
        let report = world.journal().check().await.unwrap();
        assert!(report.is_healthy(), "seed {seed}: {report}");
        taped += world.taped;
    }
    assert!(
        taped > 20,
        "killed with something on the tape only {taped} times"
    );
}

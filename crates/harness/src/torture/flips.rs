//! One flipped bit, in the database, in its log, on its tape, or in an encoded entry.
//!
//! It is *noticed* if the journal refuses to open or to list, or reports the entry as damaged. It is
//! *harmless* if every entry is there as before, byte for byte, each still guards its action, and nothing
//! else is there. Anything else is silent, and a bug.

use super::tools::{Res, Scratch, because, beside, block_on};
use crate::sim::rng::Rng;
use samekey::entry::{Entry, Frozen, Phase, Progress};
use samekey::journal::conformance::{sample, step};
use samekey::journal::{Begun, Journal, Query, Select, SqliteJournal, SqliteOptions};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// How many entries a journal has here.
const ENTRIES: usize = 40;

/// What became of flipped bits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flips {
    pub(super) noticed: u64,
    pub(super) harmless: u64,
    pub(super) silent: u64,
    /// Bits that plain SQLite would have let pass, with fewer entries or others.
    pub(super) silent_without_us: u64,
}

/// Where the last steps of a journal are, and how it came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Killed, with every step a commit in the log, as two write in turn.
    Logged,
    /// Killed, with most of it on the tape of one who wrote alone.
    Taped,
    /// Closed in good order.
    Closed,
}

/// The files of a journal as a kill leaves them, or a good end, and what they hold.
struct Scene {
    files: Vec<(&'static str, Vec<u8>)>,
    entries: Vec<Entry>,
}

impl Scene {
    async fn new(end: End) -> Res<Scene> {
        let folder = Scratch::in_memory("scene")?;
        let path = folder.join("j");
        let journal = open(&path)?;
        let rival = match end {
            End::Logged => Some(open(&path)?),
            End::Taped | End::Closed => None,
        };
        let mut entries = Vec::new();
        for number in 0..ENTRIES {
            let mut entry = sample(journal.owner(), "ann", &format!("intent/{number}"), 0);
            take_a_turn(rival.as_ref()).await;
            let begun = journal.begin(entry.clone()).await;
            let Ok(Begun::Created(receipt)) = begun else {
                return Err("a begin failed".into());
            };
            entry.slot = receipt.slot();
            let phase = match number % 4 {
                0 => Some(Phase::Rejected),
                1 => Some(Phase::Waiting),
                2 => Some(Phase::Succeeded),
                _ => None,
            };
            if let Some(phase) = phase {
                take_a_turn(rival.as_ref()).await;
                let write = step(&entry, phase);
                let progress = write.progress.clone();
                journal
                    .record(write)
                    .await
                    .map_err(because("a write failed"))?;
                entry.progress = progress;
            }
            entries.push(entry);
        }
        let open = (end != End::Closed).then_some(journal);
        let endings: &[&str] = match open {
            Some(_) => &["", "-wal", "-lock", "-tape"],
            None => &["", "-lock", "-tape"],
        };
        let read = |ending: &&'static str| {
            let bytes = fs::read(beside(&path, ending)).map_err(because("cannot read"))?;
            Ok((*ending, bytes))
        };
        let files = endings.iter().map(read).collect::<Res<Vec<_>>>()?;
        Ok(Scene { files, entries })
    }

    /// Lays the files out with one bit flipped in the file of this name.
    fn lay(&self, path: &Path, of: &str, bit: u64) -> Res<()> {
        for (ending, bytes) in &self.files {
            let file = beside(path, ending);
            let mut bytes = bytes.clone();
            if *ending == of {
                flip(&mut bytes, bit);
            }
            fs::write(&file, bytes).map_err(because("cannot write"))?;
            let private = Permissions::from_mode(0o600);
            fs::set_permissions(&file, private).map_err(because("cannot write"))?;
        }
        Ok(())
    }

    /// A bit of the file of this name, in a block that holds something: a tape is mostly a hole.
    fn bit(&self, of: &str, rng: &mut Rng) -> u64 {
        const BLOCK: usize = 512;
        let file = self.files.iter().find(|(ending, _)| *ending == of);
        let blocks = file.map_or(&[][..], |(_, bytes)| bytes).chunks(BLOCK);
        let used = blocks.enumerate().filter(|(_, block)| *block != [0; BLOCK]);
        let used: Vec<u64> = used.map(|(number, _)| number as u64).collect();
        rng.pick(&used) * BLOCK as u64 * 8 + rng.below(BLOCK as u64 * 8)
    }

    /// Whether a flip was noticed; an error if it was neither that nor harmless.
    async fn look(&self, path: &Path) -> Result<bool, String> {
        let Ok(journal) = open(path) else {
            return Ok(true);
        };
        let Ok(all) = journal.list(Query::default()).await else {
            return Ok(true);
        };
        if !all.damaged.is_empty() {
            return Ok(true);
        }
        if all.entries != self.entries {
            return Err(format!("{} of {ENTRIES} entries", all.entries.len()));
        }
        for select in [Select::Unfinished, Select::Settled] {
            let query = Query {
                select,
                ..Query::default()
            };
            let Ok(listed) = journal.list(query).await else {
                return Ok(true);
            };
            let of = self
                .entries
                .iter()
                .filter(|e| select.matches(e.progress.phase));
            if listed.damaged.is_empty() && !listed.entries.iter().eq(of) {
                return Err(format!("{select:?} lists other entries"));
            }
        }
        for entry in &self.entries {
            let again = sample(journal.owner(), "ann", &entry.frozen.intent, 0);
            match journal.begin(again).await {
                Ok(Begun::Exists(known)) if *known == *entry => {}
                Ok(Begun::Damaged(_)) | Err(_) => return Ok(true),
                Ok(_) => return Err(format!("{} was begun again", entry.frozen.intent)),
            }
        }
        Ok(false)
    }

    /// Whether plain SQLite sees nothing wrong, and yet not the same rows.
    fn deceives_sqlite(&self, path: &Path) -> bool {
        let Ok(plain) = rusqlite::Connection::open(path) else {
            return false;
        };
        let ask = |sql: &str| plain.query_row(sql, [], |row| row.get::<_, String>(0));
        let sound = ask("PRAGMA integrity_check").is_ok_and(|verdict| verdict == "ok");
        let count = ask("SELECT CAST(count(*) AS TEXT) FROM entries");
        sound && count.is_ok_and(|count| count != ENTRIES.to_string())
    }
}

/// A write that bounces: it only keeps the other handle from being alone.
async fn take_a_turn(rival: Option<&SqliteJournal>) {
    if let Some(rival) = rival {
        let nothing = sample(rival.owner(), "ann", "nothing", 0);
        let _ = rival.record(step(&nothing, Phase::Waiting)).await;
    }
}

fn open(path: &Path) -> Res<SqliteJournal> {
    // Laying a reserve by for each of some thousand journals would only take time.
    let options = SqliteOptions::new().reserve(0);
    SqliteJournal::open_with(path, options).map_err(because("the journal"))
}

fn flip(bytes: &mut [u8], bit: u64) {
    if let Some(byte) = usize::try_from(bit / 8)
        .ok()
        .and_then(|at| bytes.get_mut(at))
    {
        *byte ^= 1 << (bit % 8);
    }
}

/// Flips so many bits, one at a time; says where it was silent.
pub(super) fn run(count: u64, seed: u64) -> Res<(Flips, Vec<String>)> {
    let half = |from: u64| move || block_on(flips(count / 2 + count % 2 * from, seed * 2 + from))?;
    let both = std::thread::scope(|scope| {
        let threads = [scope.spawn(half(0)), scope.spawn(half(1))];
        threads.map(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err("a judge broke".into()))
        })
    });
    let (mut total, mut words) = (Flips::default(), Vec::new());
    for result in both {
        let (flips, said) = result?;
        total.noticed += flips.noticed;
        total.harmless += flips.harmless;
        total.silent += flips.silent;
        total.silent_without_us += flips.silent_without_us;
        words.extend(said);
    }
    Ok((total, words))
}

async fn flips(count: u64, seed: u64) -> Res<(Flips, Vec<String>)> {
    let mut rng = Rng::new(seed);
    let (logged, taped) = (
        Scene::new(End::Logged).await?,
        Scene::new(End::Taped).await?,
    );
    let closed = Scene::new(End::Closed).await?;
    let (mut flips, mut words) = (Flips::default(), Vec::new());
    for number in 0..count {
        if number % 1_000 == 999 {
            println!("{} of {count} flips in one of two threads", number + 1);
        }
        let (scene, of) = match number % 8 {
            0 | 4 => (&logged, "-wal"),
            1 => (&closed, ""),
            2 => (&logged, ""),
            3 | 7 => (&taped, "-tape"),
            5 => (&taped, "-wal"),
            _ => {
                let entry =
                    &closed.entries[usize::try_from(rng.below(ENTRIES as u64)).unwrap_or(0)];
                let bit = rng.next();
                note(&mut flips, &mut words, decode(entry, bit), "an entry", bit);
                continue;
            }
        };
        let bit = scene.bit(of, &mut rng);
        let folder = Scratch::in_memory("flip")?;
        scene.lay(&folder.join("j"), of, bit)?;
        if of == "-wal" && number % 16 == 0 {
            let twin = Scratch::in_memory("twin")?;
            scene.lay(&twin.join("j"), of, bit)?;
            flips.silent_without_us += u64::from(scene.deceives_sqlite(&twin.join("j")));
        }
        let seen = scene.look(&folder.join("j")).await;
        note(&mut flips, &mut words, seen, &format!("j{of}"), bit);
    }
    Ok((flips, words))
}

fn note(
    flips: &mut Flips,
    words: &mut Vec<String>,
    seen: Result<bool, String>,
    of: &str,
    bit: u64,
) {
    match seen {
        Ok(true) => flips.noticed += 1,
        Ok(false) => flips.harmless += 1,
        Err(why) => {
            flips.silent += 1;
            words.push(format!("bit {bit} of {of}: {why}"));
        }
    }
}

/// Flips a bit of either half of an encoded entry.
fn decode(entry: &Entry, bit: u64) -> Result<bool, String> {
    if bit.is_multiple_of(2) {
        let mut bytes = entry.frozen.encode();
        let bits = bytes.len() as u64 * 8;
        flip(&mut bytes, bit / 2 % bits);
        return match Frozen::decode(&bytes) {
            Err(_) => Ok(true),
            Ok(same) if same == *entry.frozen => Ok(false),
            Ok(_) => Err("another request was read".into()),
        };
    }
    let mut bytes = entry.progress.encode(entry.key());
    let bits = bytes.len() as u64 * 8;
    flip(&mut bytes, bit / 2 % bits);
    match Progress::decode(&bytes, entry.key()) {
        Err(_) => Ok(true),
        Ok(same) if same == entry.progress => Ok(false),
        Ok(_) => Err("another progress was read".into()),
    }
}

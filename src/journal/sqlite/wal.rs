//! An audit of the log before SQLite reads it.
//!
//! SQLite reads its log up to the first frame whose checksum does not fit and takes that for the end:
//! right after a power cut, when the tail was never finished, and wrong after a flipped bit, when
//! commits behind it vanish without a word. So the first who opens a journal reads the log too, and
//! looks at what SQLite will not see.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

const HEADER: usize = 32;
const FRAME: usize = 24;
const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;

/// What SQLite will not read of a log, although it was written by the same round of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Audit {
    /// Commits that SQLite will read.
    pub(super) read: u32,
    /// Commits that it will not read, oldest first.
    pub(super) unread: Vec<Unread>,
}

/// One commit that SQLite will not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unread {
    /// The highest row that its pages hold.
    pub(super) last_row: u64,
    /// The count of commits that it wrote down, if it did.
    pub(super) commits: u64,
    /// Whether something was written right after it, which nobody did before it was on the disk.
    pub(super) was_synced: bool,
}

/// Reads the log at `path`; a missing or empty one is sound. `meta` is the page of the table of
/// counts.
pub(super) fn audit(path: &Path, meta: u32) -> io::Result<Audit> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Audit::default()),
        Err(error) => return Err(error),
    };
    let mut file = BufReader::with_capacity(1 << 16, file);
    let mut header = [0; HEADER];
    if !filled(&mut file, &mut header)? {
        return Ok(Audit::default());
    }
    let little = word(&header) & 1 == 0;
    let mut sums = Checksum::of(&header);
    let mut salts = sums.is_some().then(|| salts(&header[16..]));
    let mut frame = vec![0; FRAME + page_size(&header)];
    let mut audit = Audit::default();
    let mut behind = Behind::default();
    while filled(&mut file, &mut frame)? {
        let (head, page) = frame.split_at(FRAME);
        let found = self::salts(&head[8..]);
        if *salts.get_or_insert(found) != found || found == (0, 0) {
            (sums, behind.before) = (None, None);
            continue;
        }
        let commits = word(&head[4..]) != 0;
        let is_next = sums.is_some_and(|before| before.leads_to(head, page));
        if is_next {
            audit.read += u32::from(commits);
        } else {
            behind.take(head, page, meta, &mut audit.unread);
        }
        let stored = Checksum {
            little,
            sums: self::salts(&head[16..]),
        };
        behind.before = Some(stored);
        sums = is_next.then_some(stored);
    }
    Ok(audit)
}

/// What is gathered behind the point where SQLite stops reading.
#[derive(Default)]
struct Behind {
    /// The checksum that the frame before carries.
    before: Option<Checksum>,
    /// The commit whose frames are being read, and how many were.
    commit: Unread,
    frames: u32,
}

impl Behind {
    fn take(&mut self, head: &[u8], page: &[u8], meta: u32, unread: &mut Vec<Unread>) {
        // A process that was killed in the middle of a commit leaves frames that others write over
        // in part. What is left of those does not follow from the frame before it.
        let follows = self
            .before
            .is_some_and(|before| before.leads_to(head, page));
        if follows
            && self.frames == 0
            && let Some(last) = unread.last_mut()
        {
            last.was_synced = true;
        }
        self.frames += 1;
        self.commit.look_at(word(head), page, meta);
        if word(&head[4..]) != 0 {
            unread.push(std::mem::take(&mut self.commit));
            self.frames = 0;
        }
    }
}

impl Unread {
    /// Notes what a page of a table holds: the last cell of a leaf has the highest row.
    fn look_at(&mut self, number: u32, page: &[u8], meta: u32) {
        const LEAF: u8 = 13;
        if number == 1 || page.first() != Some(&LEAF) {
            return;
        }
        let Some((row, record)) = last_cell(page) else {
            return;
        };
        if number == meta {
            self.commits = self.commits.max(second_number(record).unwrap_or(0));
        } else {
            self.last_row = self.last_row.max(row);
        }
    }
}

/// The row number and the record of the last cell of a leaf.
fn last_cell(page: &[u8]) -> Option<(u64, &[u8])> {
    let cells = usize::from(u16::from_be_bytes([*page.get(3)?, *page.get(4)?]));
    let pointer = 8 + 2 * cells.checked_sub(1)?;
    let at = u16::from_be_bytes([*page.get(pointer)?, *page.get(pointer + 1)?]);
    let cell = page.get(usize::from(at)..)?;
    let (_, cell) = varint(cell)?;
    varint(cell)
}

/// The second column of a record whose columns are all numbers.
fn second_number(record: &[u8]) -> Option<u64> {
    let (header, kinds) = varint(record)?;
    let mut values = record.get(usize::try_from(header).ok()?..)?;
    for (column, kind) in kinds.iter().take(2).enumerate() {
        let length = match kind {
            0 | 8 | 9 => 0,
            1..=4 => usize::from(*kind),
            5 => 6,
            6 => 8,
            _ => return None,
        };
        let (value, rest) = values.split_at_checked(length)?;
        if column == 1 {
            let number = value.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
            return Some(number + u64::from(*kind == 9));
        }
        values = rest;
    }
    None
}

/// SQLite's numbers of variable length, most significant part first.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0u64;
    for (i, byte) in bytes.iter().take(9).enumerate() {
        if i == 8 {
            return Some((number << 8 | u64::from(*byte), &bytes[9..]));
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[i + 1..]));
        }
    }
    None
}

/// The running checksum of a log: each frame's is built on the one before.
#[derive(Clone, Copy)]
struct Checksum {
    little: bool,
    sums: (u32, u32),
}

impl Checksum {
    /// That of a header, unless it is damaged or not one.
    fn of(header: &[u8; HEADER]) -> Option<Checksum> {
        let magic = word(header);
        if magic & !1 != MAGIC || word(&header[4..]) != VERSION {
            return None;
        }
        let mut checksum = Checksum {
            little: magic & 1 == 0,
            sums: (0, 0),
        };
        checksum.add(&header[..24]);
        checksum.is(&header[24..]).then_some(checksum)
    }

    /// Whether a frame was written right after the one with this checksum.
    fn leads_to(mut self, head: &[u8], page: &[u8]) -> bool {
        self.add(&head[..8]);
        self.add(page);
        self.is(&head[16..])
    }

    fn add(&mut self, bytes: &[u8]) {
        let (mut a, mut b) = self.sums;
        for pair in bytes.chunks_exact(8) {
            let numbers = [&pair[..4], &pair[4..]].map(|four| {
                let number = word(four);
                if self.little {
                    number.swap_bytes()
                } else {
                    number
                }
            });
            a = a.wrapping_add(numbers[0]).wrapping_add(b);
            b = b.wrapping_add(numbers[1]).wrapping_add(a);
        }
        self.sums = (a, b);
    }

    fn is(&self, stored: &[u8]) -> bool {
        self.sums == (word(stored), word(&stored[4..]))
    }
}

fn page_size(header: &[u8; HEADER]) -> usize {
    match word(&header[8..]) {
        size @ 512..=65_536 if size.is_power_of_two() => size as usize,
        _ => 4096,
    }
}

fn salts(bytes: &[u8]) -> (u32, u32) {
    (word(bytes), word(&bytes[4..]))
}

fn word(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .take(4)
        .fold(0, |n, byte| n << 8 | u32::from(*byte))
}

/// Whether there was enough left to fill `into`.
fn filled(file: &mut impl Read, into: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(into) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

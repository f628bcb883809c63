//! The files of a journal: their names, who may read them, and whether they are still the same.

use super::faults;
use super::owners::wall_clock;
use crate::entry::Owner;
use crate::journal::{JournalError, JournalErrorKind as Kind};
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where everything lies: all beside the journal, so that moving a folder moves it whole.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) journal: PathBuf,
    pub(super) wal: PathBuf,
    pub(super) shm: PathBuf,
    pub(super) tape: PathBuf,
    pub(super) lock: PathBuf,
    pub(super) reserve: PathBuf,
    /// Copies of a damaged log and tape, kept when their loss was accepted.
    pub(super) lost: PathBuf,
    pub(super) lost_tape: PathBuf,
}

impl Files {
    pub(super) fn of(path: &Path) -> Result<Files, JournalError> {
        let journal = std::path::absolute(path)
            .map_err(|error| faults::system("use the path", path, error))?;
        if journal.file_name().is_none() {
            return Err(no_file(&journal));
        }
        let beside = |ending| beside(&journal, ending);
        Ok(Files {
            wal: beside("-wal"),
            shm: beside("-shm"),
            tape: beside("-tape"),
            lock: beside("-lock"),
            reserve: beside("-reserve"),
            lost: beside("-lost"),
            lost_tape: beside("-lost-tape"),
            journal,
        })
    }

    /// The file whose lock proves that `owner` lives.
    pub(super) fn owner(&self, owner: Owner) -> PathBuf {
        beside(&self.journal, &format!("{OWNER}{:032x}", owner.0))
    }

    /// Every owner's file that is there.
    pub(super) fn owners(&self) -> io::Result<Vec<PathBuf>> {
        let mut prefix = self.journal.file_name().unwrap_or_default().to_owned();
        prefix.push(OWNER);
        let prefix = prefix.as_encoded_bytes();
        let mut found = Vec::new();
        for file in fs::read_dir(self.folder())? {
            let file = file?;
            if file.file_name().as_encoded_bytes().starts_with(prefix) {
                found.push(file.path());
            }
        }
        Ok(found)
    }

    pub(super) fn folder(&self) -> &Path {
        self.journal.parent().unwrap_or(Path::new("/"))
    }

    /// Makes the folder if only its last part is missing.
    pub(super) fn make_folder(&self) -> Result<(), JournalError> {
        let folder = self.folder();
        if folder.exists() {
            return Ok(());
        }
        match private::folder(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(faults::system("make the folder", folder, error))
            }
            _ => Ok(()),
        }
    }

    /// Checks what is there. Returns the length of the journal's file, if there is one.
    pub(super) fn inspect(&self) -> Result<Option<u64>, JournalError> {
        for path in [&self.wal, &self.shm, &self.tape, &self.lock, &self.reserve] {
            own_file(path)?;
        }
        Ok(own_file(&self.journal)?.map(|found| found.len()))
    }

    /// Makes the journal's file, empty; it must not be there.
    pub(super) fn create(&self) -> Result<(), JournalError> {
        let made = private::create().create_new(true).open(&self.journal);
        made.and_then(|file| file.sync_all())
            .and_then(|()| sync_folder(self.folder()))
            .map_err(|error| faults::system("create the journal", &self.journal, error))
    }

    /// What tells the journal's file, its log, its tape and its lock from others of the same name.
    pub(super) fn identity(&self) -> Result<Identity, JournalError> {
        let of = |path: &PathBuf| match fs::symlink_metadata(path) {
            Ok(found) => Ok(Some(private::identity(&found))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(faults::system("look at", path, error)),
        };
        Ok(Identity([
            of(&self.journal)?,
            of(&self.wal)?,
            of(&self.tape)?,
            of(&self.lock)?,
        ]))
    }

    /// Stops the writer when somebody removed or replaced the files under it.
    ///
    /// Nobody can without changing their folder, so as long as that is as it was the files are not
    /// looked at. Looking at a file makes the system note the time of its next write to the
    /// nanosecond, and on some file systems every sync of the log then writes its inode as well.
    pub(super) fn still(&self, watch: &mut Watch) -> Result<(), JournalError> {
        let folder = private::changed(self.folder());
        if folder.is_some() && folder == watch.folder {
            return Ok(());
        }
        if self.identity()? == watch.identity {
            watch.folder = folder.filter(Changed::is_long_ago);
            return Ok(());
        }
        Err(JournalError::new(
            Kind::Corrupt,
            format!(
                "the journal {} or its -wal, -tape or -lock file was removed or replaced while it was open, so \
                 nothing more is written; put the files back and open it again",
                self.journal.display()
            ),
        ))
    }
}

/// What a writer knows of the files that it opened.
#[derive(Debug)]
pub(super) struct Watch {
    identity: Identity,
    /// Their folder, when they were last found to be the same.
    folder: Option<Changed>,
}

impl Watch {
    pub(super) fn new(identity: Identity) -> Watch {
        Watch {
            identity,
            folder: None,
        }
    }

    /// As if the folder had last changed long ago.
    #[cfg(test)]
    pub(super) fn trust(&mut self, files: &Files) {
        self.folder = private::changed(files.folder());
    }

    /// Whether the folder has changed since it was trusted.
    #[cfg(test)]
    pub(super) fn is_outdated(&self, files: &Files) -> bool {
        self.folder != private::changed(files.folder())
    }
}

/// A folder, and when something was last added to it, renamed or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Changed {
    folder: (u64, u64),
    at: Duration,
}

impl Changed {
    /// Whether a change from now on is sure to show: there are file systems that count whole seconds, or
    /// every other one.
    fn is_long_ago(&self) -> bool {
        const TICKS: u64 = 3;
        let now = Duration::from_millis(wall_clock().as_millis());
        self.at + Duration::from_secs(TICKS) < now
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity([Option<(u64, u64)>; 4]);

const OWNER: &str = "-owner-";

fn beside(journal: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = journal.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn no_file(path: &Path) -> JournalError {
    JournalError::new(
        Kind::Unavailable,
        format!(
            "{} names a folder, not a file; give the journal's file name as well",
            path.display()
        ),
    )
}

/// What is at `path`, unless it is something that a journal's files must not be.
fn own_file(path: &Path) -> Result<Option<Metadata>, JournalError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(faults::system("look at", path, error)),
    };
    let shown = path.display();
    if found.is_symlink() {
        return Err(JournalError::new(
            Kind::Exposed,
            format!(
                "{shown} is a symbolic link, which could lead a journal astray; name the file itself"
            ),
        ));
    }
    if !found.is_file() {
        return Err(no_file(path));
    }
    if let Some(mode) = private::too_wide(&found) {
        return Err(JournalError::new(
            Kind::Exposed,
            format!(
                "{shown} is open to other users (mode {mode:o}), and it holds request bodies; run: \
                 chmod 600 '{shown}'"
            ),
        ));
    }
    Ok(Some(found))
}

/// Opens a file of the journal for reading and writing, making it if need be.
pub(super) fn open_private(path: &Path) -> Result<File, JournalError> {
    let opened = private::create().create(true).truncate(false).open(path);
    opened.map_err(|error| faults::system("open", path, error))
}

/// Presses onto the disk what anybody has written to a file.
pub(super) fn press(path: &Path) -> io::Result<()> {
    // Some systems let only those sync a file who may write it.
    let opened = OpenOptions::new().read(true).write(true).open(path);
    opened.or_else(|_| File::open(path))?.sync_data()
}

#[cfg(unix)]
pub(super) fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(not(unix))]
pub(super) fn write_at(mut file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    use io::{Seek, Write};
    file.seek(io::SeekFrom::Start(at))?;
    file.write_all(bytes)
}

/// Reads from `at`, as much as there is.
pub(super) fn read_at(file: &File, at: u64, into: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < into.len() {
        match read_some(file, at + read as u64, &mut into[read..]) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

#[cfg(unix)]
fn read_some(file: &File, at: u64, into: &mut [u8]) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, into, at)
}

#[cfg(not(unix))]
fn read_some(mut file: &File, at: u64, into: &mut [u8]) -> io::Result<usize> {
    use io::{Read, Seek};
    file.seek(io::SeekFrom::Start(at))?;
    file.read(into)
}

/// Makes a name in a folder durable.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    private::sync_folder(folder)
}

#[cfg(unix)]
mod private {
    use super::{Changed, Duration, File, Metadata, OpenOptions, Path, fs, io};
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};

    pub(super) fn create() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        options
    }

    pub(super) fn folder(path: &Path) -> io::Result<()> {
        fs::DirBuilder::new().mode(0o700).create(path)?;
        path.parent().map_or(Ok(()), sync_folder)
    }

    pub(super) fn too_wide(found: &Metadata) -> Option<u32> {
        let mode = found.mode() & 0o777;
        (mode & 0o077 != 0).then_some(mode)
    }

    pub(super) fn identity(found: &Metadata) -> (u64, u64) {
        (found.dev(), found.ino())
    }

    pub(super) fn changed(folder: &Path) -> Option<Changed> {
        let found = fs::metadata(folder).ok()?;
        let seconds = u64::try_from(found.ctime()).ok()?;
        let nanos = u32::try_from(found.ctime_nsec()).ok()?;
        Some(Changed {
            folder: identity(&found),
            at: Duration::new(seconds, nanos),
        })
    }

    pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// Elsewhere the folder's access list decides, and the user's own folders are private by default.
#[cfg(not(unix))]
mod private {
    use super::{Changed, Metadata, OpenOptions, Path, fs, io};

    pub(super) fn create() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        options
    }

    pub(super) fn folder(path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    pub(super) fn too_wide(_: &Metadata) -> Option<u32> {
        None
    }

    pub(super) fn identity(found: &Metadata) -> (u64, u64) {
        let made = found.created().ok();
        let made = made.and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
        (0, made.map_or(0, |t| t.as_nanos() as u64))
    }

    /// Not known: the files themselves are looked at.
    pub(super) fn changed(_: &Path) -> Option<Changed> {
        None
    }

    pub(super) fn sync_folder(_: &Path) -> io::Result<()> {
        Ok(())
    }
}

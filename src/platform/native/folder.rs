//! Where a program keeps its journal unless told otherwise.

use crate::entry::Scope;
use etcetera::BaseStrategy;
#[cfg(feature = "sqlite")]
use std::path::Path;
use std::path::PathBuf;

/// There is no place for a journal, and why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoDataFolder(Box<str>);

/// The journal of `application` in the platform's folder for data: `~/.local/share` on Linux,
/// `~/Library/Application Support` on macOS, `%APPDATA%` on Windows.
///
/// Nothing is created.
///
/// ```
/// use samekey::platform::native::default_journal_path;
///
/// let path = default_journal_path("acme-billing")?;
/// assert!(path.ends_with("samekey/acme-billing.samekey"));
/// # Ok::<(), samekey::platform::native::NoDataFolder>(())
/// ```
///
/// # Errors
/// When the name cannot be an application's, and when the user has no home folder.
pub fn default_journal_path(application: &str) -> Result<PathBuf, NoDataFolder> {
    Scope::new(application, None).map_err(|why| NoDataFolder(why.into()))?;
    let folders = etcetera::base_strategy::choose_native_strategy().map_err(|_| {
        NoDataFolder("this user has no home folder; name a file for the journal instead".into())
    })?;
    Ok(folders
        .data_dir()
        .join("samekey")
        .join(format!("{application}.samekey")))
}

/// Makes the platform's folder for data, which a new account does not have yet: for its owner only.
///
/// If that fails, opening the journal will say so, and why.
#[cfg(feature = "sqlite")]
pub(super) fn make_data_folder(journal: &Path) {
    let mut maker = std::fs::DirBuilder::new();
    maker.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut maker, 0o700);
    let _ = journal
        .ancestors()
        .nth(2)
        .map(|folder| maker.create(folder));
}

//! Secrets are looked for in every byte that was written.

use super::worker::CANARY;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The secret of the workers, and the one that the planted bug journals.
const SECRETS: [&str; 2] = [CANARY, "Bearer planted"];

/// Every file below `folder` that holds a secret.
pub(super) fn search(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(files) = fs::read_dir(folder) else {
        return found;
    };
    for path in files.filter_map(|file| Some(file.ok()?.path())) {
        if path.is_dir() {
            found.extend(search(&path));
        } else if holds(&path) {
            found.push(path);
        }
    }
    found
}

/// The same without the server's file: it may know whom it serves, and nobody else may.
pub(super) fn search_but_the_shop(folder: &Path) -> Vec<PathBuf> {
    let mut found = search(folder);
    found.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !name.starts_with("shop.db")
    });
    found
}

/// Whether a file, a disk's image perhaps, holds a secret.
pub(super) fn holds(path: &Path) -> bool {
    const PIECE: usize = 1 << 20;
    let Ok(mut file) = File::open(path) else {
        return false;
    };
    let overlap = SECRETS.iter().map(|secret| secret.len()).max().unwrap_or(0);
    let (mut piece, mut kept) = (vec![0; PIECE + overlap], 0);
    while let Ok(count @ 1..) = file.read(&mut piece[kept..]) {
        let bytes = &piece[..kept + count];
        if SECRETS
            .iter()
            .any(|secret| contains(bytes, secret.as_bytes()))
        {
            return true;
        }
        let from = bytes.len().saturating_sub(overlap);
        let length = bytes.len() - from;
        piece.copy_within(from..from + length, 0);
        kept = length;
    }
    false
}

fn contains(hay: &[u8], needle: &[u8]) -> bool {
    // Most bytes of a disk are nothing: look for the first byte before comparing.
    let mut rest = hay;
    while let Some(at) = rest.iter().position(|byte| *byte == needle[0]) {
        rest = &rest[at..];
        if rest.starts_with(needle) {
            return true;
        }
        rest = &rest[1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::tools::Scratch;

    #[test]
    fn a_secret_is_found_wherever_it_lies_and_nothing_else_is() {
        let folder = Scratch::new("leaks").unwrap();
        fs::create_dir(folder.join("deep")).unwrap();
        fs::write(folder.join("clean"), vec![b'c'; 3 << 20]).unwrap();
        assert!(search(folder.path()).is_empty());
        for at in [0, (1 << 20) - 5, (1 << 20) + 40, (2 << 20) + 17] {
            let mut bytes = vec![b'c'; 3 << 20];
            bytes[at..at + CANARY.len()].copy_from_slice(CANARY.as_bytes());
            fs::write(folder.join("deep/secret"), bytes).unwrap();
            assert_eq!(search(folder.path()), [folder.join("deep/secret")], "{at}");
        }
    }
}

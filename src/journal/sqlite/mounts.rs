//! Whether a folder lies on another machine.
//!
//! SQLite's log needs memory that all processes share, which no network file system gives; two hosts
//! on one journal would ruin it. Where the system tells, such a place is refused.

use std::path::{Path, PathBuf};

/// File systems whose files may be changed from another machine.
const REMOTE: &[&str] = &[
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "afs",
    "ceph",
    "glusterfs",
    "lustre",
    "beegfs",
    "gpfs",
    "vboxsf",
    "fuse.sshfs",
    "fuse.glusterfs",
    "fuse.ceph",
    "fuse.rclone",
    "fuse.s3fs",
    "fuse.gcsfuse",
];

/// The kind of network file system that `folder` lies on, if it does and the system tells.
pub(super) fn remote(folder: &Path) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let folder = folder.canonicalize().ok()?;
    kind(&mounts, &folder).filter(|kind| REMOTE.contains(&kind.as_str()))
}

/// The file system of the innermost mount that holds `folder`; of equals, the last covers the rest.
fn kind(mounts: &str, folder: &Path) -> Option<String> {
    mounts
        .lines()
        .filter_map(|line| {
            let (place, details) = line.split_once(" - ")?;
            let point = PathBuf::from(unescape(place.split(' ').nth(4)?));
            let depth = point.components().count();
            folder
                .starts_with(point)
                .then(|| Some((depth, details.split(' ').next()?.to_owned())))?
        })
        .max_by_key(|(depth, _)| *depth)
        .map(|(_, kind)| kind)
}

/// Spaces and the like stand in octal.
fn unescape(point: &str) -> String {
    let mut parts = point.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part
            .get(..3)
            .and_then(|code| u8::from_str_radix(code, 8).ok());
        match code {
            Some(code) => {
                plain.push(char::from(code));
                plain.push_str(&part[3..]);
            }
            None => plain.push_str(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 22 0:35 / /mnt/team\\040share rw shared:1 - nfs4 server:/export rw
41 40 0:36 / /mnt/team\\040share/local rw - xfs /dev/vdb rw
42 22 0:37 / /data rw - fuse.sshfs host:/data rw
43 22 0:38 / /data rw - ext4 /dev/vdc rw
";

    #[test]
    fn the_innermost_and_latest_mount_decides() {
        for (folder, expected) in [
            ("/", "ext4"),
            ("/mnt", "ext4"),
            ("/mnt/team share", "nfs4"),
            ("/mnt/team share/a/b", "nfs4"),
            ("/mnt/team share/local/a", "xfs"),
            ("/mnt/team sharexyz", "ext4"),
            ("/data/ann", "ext4"),
        ] {
            assert_eq!(
                kind(MOUNTS, Path::new(folder)).as_deref(),
                Some(expected),
                "{folder}"
            );
        }
        assert_eq!(kind("", Path::new("/")), None);
    }

    #[test]
    fn a_folder_of_this_test_is_local() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(remote(folder.path()), None);
    }
}

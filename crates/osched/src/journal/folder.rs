//! The folder with the journals of all oscheds of one user.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anabranch_model::{Error, Result};

use super::contents::Contents;
use super::locked::{LockedFile, failed, lock_file};
use super::{Undone, restore};
use crate::kernel::{Proc, Process};

const NAME: &str = "anabranch-osched";
const ROOT: u32 = 0;

/// A folder that belongs to one user, and that no other user can write.
#[derive(Clone, Debug)]
pub struct StateFolder {
    path: PathBuf,
}

impl StateFolder {
    /// The usual place: `/run/anabranch-osched` of root; of another user a folder in `runtime_folder` (the
    /// value of `XDG_RUNTIME_DIR`), or in `/tmp` without that.
    pub fn usual(uid: u32, runtime_folder: Option<&Path>) -> PathBuf {
        match runtime_folder {
            _ if uid == ROOT => Path::new("/run").join(NAME),
            Some(folder) => folder.join(NAME),
            None => in_tmp(uid),
        }
    }

    /// Makes the folder if it is not there. Fails if another user could change what is in it.
    pub fn open(path: impl Into<PathBuf>) -> Result<StateFolder> {
        let path = path.into();
        match DirBuilder::new().recursive(true).mode(0o700).create(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(failed("make", &path, &error));
            }
            _ => {}
        }
        let found = std::fs::symlink_metadata(&path).map_err(|e| failed("read", &path, &e))?;
        let uid = crate::permission::user();
        if !found.is_dir() || found.uid() != uid || found.mode() & 0o022 != 0 {
            return Err(Error::outside("not a folder of this user's that only this user can write")
                .at(path.display().to_string())
                .remedy(format!("remove it, or run 'chown {uid}' and 'chmod 700' on it")));
        }
        Ok(StateFolder { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The journals in it, in order.
    pub fn journals(&self) -> Result<Vec<PathBuf>> {
        journals_in(&self.path)
    }

    /// Restores what killed oscheds have left. Journals of running ones are left alone.
    pub fn restore_left(&self, kernel: &Proc) -> Result<Vec<(PathBuf, Undone)>> {
        let mut restored = Vec::new();
        for path in self.journals()? {
            if !LockedFile::is_held(&path)? {
                restored.extend(restore(&path, kernel)?.map(|undone| (path, undone)));
            }
        }
        Ok(restored)
    }

    /// The turn of this process: no other one begins a journal or claims a process until it is dropped.
    pub(super) fn lock(&self) -> Result<File> {
        lock_file(&self.path.join("lock"))
    }

    /// The osched that has claimed a process, without the one whose journal is `own`. Root also sees the
    /// oscheds of the user of the process.
    pub(super) fn claimed_by_other(&self, process: &Process, own: &Path) -> Result<Option<u32>> {
        let mut journals = self.journals()?;
        if crate::permission::user() == ROOT && process.uid != ROOT {
            let theirs = [Path::new("/run/user").join(process.uid.to_string()).join(NAME), in_tmp(process.uid)];
            journals.extend(theirs.iter().filter_map(|folder| journals_in(folder).ok()).flatten());
        }
        for path in journals {
            if path == own || !LockedFile::is_held(&path)? {
                continue;
            }
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let Some(contents) = Contents::parse(&text, &path)? else { continue };
            if contents.claims.iter().any(|claim| claim.pid == process.pid && claim.start == process.start) {
                return Ok(Some(contents.header.pid));
            }
        }
        Ok(None)
    }
}

fn in_tmp(uid: u32) -> PathBuf {
    Path::new("/tmp").join(format!("{NAME}-{uid}"))
}

fn journals_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("read", folder, &error)),
    };
    let paths = entries.map_while(|entry| entry.ok()).map(|entry| entry.path());
    let mut journals: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|e| e == "journal")).collect();
    journals.sort_unstable();
    Ok(journals)
}

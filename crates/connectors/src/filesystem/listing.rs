//! Which files make up a table.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anabranch_model::{Error, Result};

use super::io_error;

/// The files of the table at `path` in the order of their names: the file itself, or those in the folder and its
/// folders. Names that begin with `.` or `_` are not read: they are in progress or about the others.
pub(super) fn files(path: &Path) -> Result<Vec<PathBuf>> {
    check(path)?;
    let mut files = Vec::new();
    if path.is_dir() {
        walk(path, &mut files)?;
    } else {
        files.push(path.to_owned());
    }
    files.sort();
    Ok(files)
}

/// Fails if there is nothing at `path`.
pub(super) fn check(path: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    Err(Error::user(format!("there is no file or folder '{}'", path.display()))
        .remedy("check the option 'path'; a relative path begins at the folder in which the program was started"))
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(|e| io_error(folder, "list", &e))? {
        let path = entry.map_err(|e| io_error(folder, "list", &e))?.path();
        if path.file_name().is_some_and(is_hidden) {
            continue;
        }
        if path.is_dir() {
            walk(&path, files)?;
        } else if path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

fn is_hidden(name: &OsStr) -> bool {
    matches!(name.as_encoded_bytes().first(), Some(b'.' | b'_'))
}

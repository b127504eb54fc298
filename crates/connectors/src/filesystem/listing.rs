//! Which files make up a table.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anabranch_model::{Error, Result};

use super::{entries, io_error};

/// The files of the table at `path` in the order of their names: the file itself, or those in the folder and
/// its subfolders. Names that begin with `.` or `_` are not read: these files are unfinished or contain
/// metadata. Each folder is listed once, because a symbolic link may lead to a folder that contains the link.
/// If the folder's own path is within the table, its files have that path.
pub(super) fn files(path: &Path) -> Result<Vec<PathBuf>> {
    check(path)?;
    let mut files = Vec::new();
    if path.is_dir() {
        let (mut seen, mut links) = (BTreeSet::new(), BTreeSet::new());
        walk(path, &mut seen, &mut links, &mut files)?;
        while let Some(link) = links.pop_first() {
            walk(&link, &mut seen, &mut links, &mut files)?;
        }
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

/// Lists a folder and its subfolders, unless it was listed already. `seen`: device and inode of each listed
/// folder. `links`: the links to folders that were found, which the caller lists.
fn walk(
    folder: &Path,
    seen: &mut BTreeSet<(u64, u64)>,
    links: &mut BTreeSet<PathBuf>,
    files: &mut Vec<PathBuf>,
) -> Result<()> {
    let found = fs::metadata(folder).map_err(|e| io_error(folder, "look at", &e))?;
    if !seen.insert((found.dev(), found.ino())) {
        return Ok(());
    }
    for entry in entries(folder)? {
        let path = entry.path();
        if path.file_name().is_some_and(is_hidden) {
            continue;
        }
        if path.is_dir() {
            match path.is_symlink() {
                true => _ = links.insert(path),
                false => walk(&path, seen, links, files)?,
            }
        } else if path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

fn is_hidden(name: &OsStr) -> bool {
    matches!(name.as_encoded_bytes().first(), Some(b'.' | b'_'))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_folder_is_listed_once_however_many_links_lead_to_it() {
        let folder = tempfile::TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("table/b/c")).unwrap();
        fs::create_dir_all(at("elsewhere")).unwrap();
        for name in ["table/a.json", "table/b/b.json", "table/b/c/c.json", "elsewhere/e.json"] {
            fs::write(at(name), "").unwrap();
        }
        // To itself, to a folder above, to one beside, twice to one outside, and to a file.
        symlink(at("table"), at("table/again")).unwrap();
        symlink("../..", at("table/b/c/above")).unwrap();
        symlink("b", at("table/a-folder")).unwrap();
        symlink(at("elsewhere"), at("table/z")).unwrap();
        symlink(at("elsewhere"), at("table/y")).unwrap();
        symlink(at("elsewhere/e.json"), at("table/e-link.json")).unwrap();
        let found = files(&at("table")).unwrap();
        let names: Vec<_> =
            found.iter().map(|path| path.strip_prefix(at("table")).unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["a.json", "b/b.json", "b/c/c.json", "e-link.json", "y/e.json"]);
    }
}

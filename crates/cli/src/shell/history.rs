//! Where the shell's history is kept: beside other programs' state, by the XDG base directory specification.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustyline::history::FileHistory;
use rustyline::{Editor, Helper};

/// The history's file, if there is a home.
pub(crate) fn file() -> Option<PathBuf> {
    file_in(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"))
}

fn file_in(state: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    // The specification says to ignore a relative path in the variable.
    let state = state.map(PathBuf::from).filter(|path| path.is_absolute());
    let home = home.map(PathBuf::from).filter(|path| path.is_absolute());
    Some(state.or_else(|| Some(home?.join(".local/state")))?.join("anabranch/history"))
}

pub(crate) fn save<H: Helper>(editor: &mut Editor<H, FileHistory>, file: &Path) -> rustyline::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    editor.save_history(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_specification() {
        let file = |state: Option<&str>, home: Option<&str>| file_in(state.map(Into::into), home.map(Into::into));
        assert_eq!(file(Some("/s"), Some("/h")), Some("/s/anabranch/history".into()));
        assert_eq!(file(None, Some("/h")), Some("/h/.local/state/anabranch/history".into()));
        assert_eq!(file(Some("s"), Some("/h")), Some("/h/.local/state/anabranch/history".into()));
        assert_eq!(file(None, None), None);
    }
}

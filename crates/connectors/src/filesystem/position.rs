//! Positions in files, as text that does not depend on the size of batches.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anabranch_model::{Error, Result};
use anabranch_operators::Positions;

use super::identity::{FileId, Head, Identity};
use super::options::FileFormat;
use crate::guarantee::START_OVER;
use crate::positions::{END, numbers, unreadable};

/// How far a file has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// Before a record of a text file; lines are numbered from 1.
    Text { byte: u64, line: u64 },
    /// Before a row of a Parquet file.
    Parquet { row_group: u64, row: u64 },
    /// The file was read to its end.
    End,
}

impl Position {
    pub(super) fn beginning(format: &FileFormat) -> Self {
        match format {
            FileFormat::Text(_) => Position::Text { byte: 0, line: 1 },
            FileFormat::Parquet => Position::Parquet { row_group: 0, row: 0 },
        }
    }

    fn parse(text: &str, format: &FileFormat) -> Option<Self> {
        if text == END {
            return Some(Position::End);
        }
        match format {
            FileFormat::Text(_) => {
                let [byte, line] = numbers(text, ["byte", "line"])?;
                (line > 0).then_some(Position::Text { byte, line })
            }
            FileFormat::Parquet => {
                let [row_group, row] = numbers(text, ["row-group", "row"])?;
                Some(Position::Parquet { row_group, row })
            }
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::Text { byte, line } => write!(f, "byte {byte} line {line}"),
            Position::Parquet { row_group, row } => write!(f, "row-group {row_group} row {row}"),
            Position::End => f.write_str(END),
        }
    }
}

/// The files of a table by their names in positions: paths within the table's folder, so that the folder may
/// move.
pub(super) struct FileNames {
    root: PathBuf,
}

impl FileNames {
    /// The file names of the table at `path`, which is a folder or a file.
    pub(super) fn new(path: &Path) -> Self {
        let root = if path.is_file() { path.parent().unwrap_or(path) } else { path };
        FileNames { root: root.to_owned() }
    }

    /// The name of a file.
    pub(super) fn name(&self, path: &Path) -> Result<String> {
        let name = path.strip_prefix(&self.root).unwrap_or(path);
        name.to_str().map(str::to_owned).ok_or_else(|| {
            Error::user(format!("the name of {} is not UTF-8", path.display())).remedy("give the file another name")
        })
    }

    /// The path of the file with this name.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The positions in `from`, by the files' names. All are checked, not only those of this task's files.
    pub(super) fn positions(
        &self,
        from: &Positions,
        format: &FileFormat,
        table: &str,
    ) -> Result<BTreeMap<String, Position>> {
        let read = from.iter().map(|(label, text)| {
            let StoredPosition { name, position, .. } = StoredPosition::parse(label, text, format, table)?;
            if position != Position::End && !self.path(&name).is_file() {
                let root = self.root.display();
                let what = format!("there is no such file in {root} as '{name}', which the job has still to read");
                return Err(Error::user(what)
                    .at(format!("table {table}"))
                    .remedy(format!("put the file back, or {START_OVER}")));
            }
            Ok((name, position))
        });
        read.collect()
    }
}

/// A stored position of a file.
pub(super) struct StoredPosition {
    /// The file's name when it was first seen.
    pub(super) name: String,
    pub(super) position: Position,
    /// Present for followed files.
    pub(super) identity: Option<Identity>,
    /// The file had no more bytes when it was last read. It may have grown since.
    pub(super) is_at_end: bool,
}

/// The suffix of a followed file's position if the file had no more bytes.
const AT_END: &str = " wholly read";

impl StoredPosition {
    pub(super) fn parse(label: &str, text: &str, format: &FileFormat, table: &str) -> Result<StoredPosition> {
        let expected = match format {
            FileFormat::Text(_) => "'byte NUMBER line NUMBER' or 'end'",
            FileFormat::Parquet => "'row-group NUMBER row NUMBER' or 'end'",
        };
        Self::read(label, text, format).ok_or_else(|| unreadable(table, label, text, expected))
    }

    fn read(label: &str, text: &str, format: &FileFormat) -> Option<StoredPosition> {
        let (text, at_end) = text.strip_suffix(AT_END).map_or((text, false), |text| (text, true));
        let (position, identity) = match text.find("inode ") {
            None => (text, None),
            Some(at) => {
                let [inode, born_ms, bytes, hash] = numbers(&text[at..], ["inode", "born", "first", "hash"])?;
                (text[..at].strip_suffix(' ')?, Some(Identity { inode, born_ms, head: Head { bytes, hash } }))
            }
        };
        let position = Position::parse(position, format)?;
        let suffix = identity.map(|identity| suffix(identity.inode, identity.born_ms));
        let name = suffix.and_then(|suffix| label.strip_suffix(&suffix)).unwrap_or(label).to_owned();
        Some(StoredPosition { name, position, identity, is_at_end: at_end || position == Position::End })
    }
}

/// The position of a followed file as text.
pub(super) fn followed(position: Position, identity: Identity, is_at_end: bool) -> String {
    let at_end = if is_at_end && position != Position::End { AT_END } else { "" };
    format!("{position} {identity}{at_end}")
}

/// The key of a followed file in positions. It never changes: the file's first name with its inode and
/// creation time.
pub(super) fn label(name: &str, id: FileId) -> String {
    format!("{name}{}", suffix(id.inode, id.born_ms))
}

fn suffix(inode: u64, born_ms: u64) -> String {
    format!(" inode {inode} born {born_ms}")
}

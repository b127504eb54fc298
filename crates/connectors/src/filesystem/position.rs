//! Where reading of a file stands, in words that do not depend on the size of batches.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anabranch_model::{Error, Result};
use anabranch_operators::Positions;

use super::options::FileFormat;
use crate::positions::{END, foreign, numbers, unreadable};

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// Before a record of a text file; lines are numbered from 1.
    Text { byte: u64, line: u64 },
    /// Before a row of a Parquet file.
    Parquet { row_group: u64, row: u64 },
    /// Nothing follows.
    End,
}

impl Position {
    /// The beginning of a file.
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

/// The files of a table by their names in positions: paths within the table's folder, so that the folder may move.
pub(super) struct Names {
    root: PathBuf,
}

impl Names {
    /// Of the table at `path`, a folder or a file.
    pub(super) fn of(path: &Path) -> Self {
        let root = if path.is_file() { path.parent().unwrap_or(path) } else { path };
        Names { root: root.to_owned() }
    }

    /// The name of a file.
    pub(super) fn name(&self, path: &Path) -> Result<String> {
        let name = path.strip_prefix(&self.root).unwrap_or(path);
        name.to_str().map(str::to_owned).ok_or_else(|| {
            Error::user(format!("the name of {} is not UTF-8", path.display())).remedy("give the file another name")
        })
    }

    /// The positions in `from`, by file. All are checked, not only those of this task's files.
    pub(super) fn positions(
        &self,
        from: &Positions,
        present: &[PathBuf],
        format: &FileFormat,
        table: &str,
    ) -> Result<BTreeMap<PathBuf, Position>> {
        let expected = match format {
            FileFormat::Text(_) => "'byte NUMBER line NUMBER' or 'end'",
            FileFormat::Parquet => "'row-group NUMBER row NUMBER' or 'end'",
        };
        let read = from.iter().map(|(name, text)| {
            let position = Position::parse(text, format).ok_or_else(|| unreadable(table, name, text, expected))?;
            let path = self.root.join(name);
            if position != Position::End && present.binary_search(&path).is_err() {
                return Err(foreign(table, name, &format!("there is no such file in {}", self.root.display())));
            }
            Ok((path, position))
        });
        read.collect()
    }
}

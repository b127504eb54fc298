//! Errors of a record.

use super::column::{ColumnId, Columns};
use crate::format::printable;

/// The first error of a record, with its position.
#[derive(Debug)]
pub(super) struct Fault {
    /// Offset in the record.
    at: usize,
    what: String,
    column: Option<ColumnId>,
}

/// Result of reading. The fault is boxed: it is rare, and the result must stay small.
pub(super) type Read<T> = Result<T, Box<Fault>>;

impl Fault {
    pub(super) fn new(at: usize, what: impl Into<String>) -> Box<Self> {
        Box::new(Fault { at, what: what.into(), column: None })
    }

    /// Adds the column; the innermost column stays.
    pub(super) fn in_column(mut self: Box<Self>, column: ColumnId) -> Box<Self> {
        self.column.get_or_insert(column);
        self
    }

    /// The message for the user.
    pub(super) fn message(&self, columns: &Columns) -> String {
        match self.column {
            Some(column) => format!("column '{}': {} at byte {}", columns.column(column).path, self.what, self.at),
            None => format!("{} at byte {}", self.what, self.at),
        }
    }
}

/// The bytes at `at`, shortened, for a message.
pub(super) fn shown(bytes: &[u8], at: usize) -> String {
    const LONGEST: usize = 32;
    let rest = bytes.get(at..).unwrap_or_default();
    if rest.is_empty() {
        return "the end of the record".to_owned();
    }
    let mut len = match rest[0] {
        b'{' => return "an object".to_owned(),
        b'[' => return "an array".to_owned(),
        b'"' => {
            let mut escaped = false;
            let closing = rest[1..].iter().position(|&byte| {
                let closes = byte == b'"' && !escaped;
                escaped = byte == b'\\' && !escaped;
                closes
            });
            closing.map_or(rest.len(), |closing| closing + 2)
        }
        _ => rest.iter().skip(1).position(|byte| b",}]\" \t\r\n".contains(byte)).map_or(rest.len(), |len| len + 1),
    };
    let cut = len > LONGEST;
    len = len.min(LONGEST);
    let text = printable(&String::from_utf8_lossy(&rest[..len]));
    format!("{text}{}", if cut { "..." } else { "" })
}

//! The latest lines that print tables have written, kept for the live view and for the time after it.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_connectors::Printed;

use crate::table::columns::Kind;

/// Largest number of lines to keep: they stay on the terminal when the job has ended.
const KEPT_LINES_MAX: usize = 10_000;
/// Largest number of bytes to keep.
const KEPT_BYTES_MAX: usize = 16 << 20;
/// Largest number of bytes of a line to keep.
const LINE_BYTES_MAX: usize = 4096;
/// Lines of each table for the view: more than any screen shows.
const SHOWN_LINES_MAX: usize = 255;

/// The latest lines; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    kept: Arc<Mutex<KeptRows>>,
}

#[derive(Debug, Default)]
struct KeptRows {
    tables: Vec<PrintedTable>,
    /// The index of a line's table, and the line.
    lines: VecDeque<(usize, String)>,
    bytes: usize,
    gone: u64,
}

/// A table of the view, with its latest lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PrintedTable {
    /// The prefix of each row.
    pub(crate) identifier: String,
    pub(crate) names: Vec<String>,
    pub(crate) kinds: Vec<Kind>,
    /// Whether a sign precedes the values of a row.
    pub(crate) updating: bool,
    /// The rows without prefix, oldest first.
    pub(crate) rows: Vec<String>,
}

/// Receives the lines of one table.
pub(crate) struct Writer {
    table: usize,
    partial: Vec<u8>,
    results: Results,
}

impl Results {
    /// For a task of a table.
    pub(crate) fn writer(&self, printed: &Printed<'_>) -> Writer {
        let fields = printed.columns.fields();
        let table = PrintedTable {
            identifier: printed.identifier.to_owned(),
            names: fields.iter().map(|field| anabranch_model::visible(field.name()).into_owned()).collect(),
            kinds: fields.iter().map(|field| Kind::from_type(field.data_type())).collect(),
            updating: printed.updating,
            rows: Vec::new(),
        };
        let mut kept = self.kept();
        let known = kept.tables.iter().position(|known| *known == table);
        let index = known.unwrap_or_else(|| {
            kept.tables.push(table);
            kept.tables.len() - 1
        });
        Writer { table: index, partial: Vec::new(), results: self.clone() }
    }

    /// The tables that have lines, with the latest ones.
    pub(crate) fn tables(&self) -> Vec<PrintedTable> {
        let kept = self.kept();
        let mut tables = kept.tables.clone();
        for (table, line) in kept.lines.iter().rev() {
            let PrintedTable { identifier, rows, .. } = &mut tables[*table];
            if rows.len() < SHOWN_LINES_MAX {
                let row = line.strip_prefix(identifier.as_str()).and_then(|rest| rest.strip_prefix("> "));
                rows.push(row.unwrap_or(line).to_owned());
            }
        }
        tables.iter_mut().for_each(|table| table.rows.reverse());
        tables.retain(|table| !table.rows.is_empty());
        tables
    }

    /// All kept lines, oldest first.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.kept().lines.iter().map(|(_, line)| line.clone()).collect()
    }

    /// Number of lines that were dropped.
    pub(crate) fn gone(&self) -> u64 {
        self.kept().gone
    }

    fn kept(&self) -> MutexGuard<'_, KeptRows> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptRows {
    fn push(&mut self, table: usize, line: String) {
        self.bytes += line.len();
        self.lines.push_back((table, line));
        while self.lines.len() > KEPT_LINES_MAX || self.bytes > KEPT_BYTES_MAX {
            let Some((_, line)) = self.lines.pop_front() else { break };
            self.bytes -= line.len();
            self.gone += 1;
        }
    }
}

/// Keeps the lines that a print table writes.
impl Write for Writer {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut kept = self.results.kept();
        for piece in text.split_inclusive(|b| *b == b'\n') {
            let room = LINE_BYTES_MAX.saturating_sub(self.partial.len());
            let (body, ended) = match piece.strip_suffix(b"\n") {
                Some(body) => (body, true),
                None => (piece, false),
            };
            self.partial.extend_from_slice(&body[..body.len().min(room)]);
            if ended {
                let line = std::mem::take(&mut self.partial);
                kept.push(self.table, String::from_utf8_lossy(&line).into_owned());
            }
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    fn writer(results: &Results, identifier: &str) -> Writer {
        let columns = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        results.writer(&Printed { identifier, columns: &columns, updating: false })
    }

    #[test]
    fn lines_come_whole_and_in_order() {
        let results = Results::default();
        let mut one = writer(&results, "one");
        one.write_all(b"one> 1\none> ").expect("memory");
        assert_eq!(results.lines(), ["one> 1"]);
        let mut two = writer(&results, "two");
        two.write_all(b"two> 7\n").expect("memory");
        one.write_all(b"2\n").expect("memory");
        assert_eq!(results.lines(), ["one> 1", "two> 7", "one> 2"]);
        let tables = results.tables();
        let rows = tables.iter().map(|table| (table.identifier.as_str(), table.rows.join(" "))).collect::<Vec<_>>();
        assert_eq!(rows, [("one", "1 2".to_owned()), ("two", "7".to_owned())]);
        assert_eq!(tables[0].names, ["n"]);
        // Another task of a table writes to the same one.
        writer(&results, "one").write_all(b"one> 3\n").expect("memory");
        assert_eq!(results.tables().len(), 2);
    }

    #[test]
    fn memory_is_bounded() {
        let results = Results::default();
        let mut writer = writer(&results, "");
        for i in 0..KEPT_LINES_MAX + 7 {
            writeln!(writer, "{i}").expect("memory");
        }
        writer.write_all(&vec![b'x'; 3 * LINE_BYTES_MAX]).expect("memory");
        writer.write_all(b"y\n").expect("memory");
        let kept = results.lines();
        assert_eq!((kept.len(), kept.last().map(String::len)), (KEPT_LINES_MAX, Some(LINE_BYTES_MAX)));
        assert_eq!((kept[0].as_str(), results.gone()), ("8", 8));
        let long = vec![b'x'; LINE_BYTES_MAX];
        for _ in 0..2 * KEPT_BYTES_MAX / LINE_BYTES_MAX {
            writer.write_all(&long).expect("memory");
            writer.write_all(b"\n").expect("memory");
        }
        assert!(results.lines().iter().map(String::len).sum::<usize>() <= KEPT_BYTES_MAX);
    }
}

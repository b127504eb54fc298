//! Results while they arrive: an aligned table that grows, or one line per value.

use std::io::Write;
use std::sync::Arc;

use anabranch_model::{Error, Result, visible};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use ratatui::text::Span;

/// How rows are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// A line per row.
    Lines,
    /// A line per value: for wide rows.
    Values,
}

impl Layout {
    /// The other one.
    pub(crate) fn other(self) -> Self {
        match self {
            Layout::Lines => Layout::Values,
            Layout::Values => Layout::Lines,
        }
    }
}

/// Columns are as wide as their widest value so far. When one grows, the heading is written again, so that every line
/// is under a heading that fits. On a terminal no line is longer than its width: it would wrap, and nothing would be aligned.
pub(crate) struct Table {
    names: Vec<String>,
    right: Vec<bool>,
    widths: Vec<usize>,
    layout: Layout,
    /// Columns of the terminal; `None`: lines are as long as they are.
    terminal: Option<usize>,
    headed: bool,
    rows: u64,
    cut: bool,
    /// The time zone in which instants are shown. `None`: UTC.
    zone: Option<Arc<str>>,
}

impl Table {
    /// An empty table. `terminal` is the terminal's number of columns, if it is one.
    pub(crate) fn new(schema: &Schema, layout: Layout, terminal: Option<usize>) -> Self {
        let names: Vec<String> = schema.fields().iter().map(|f| visible(f.name()).into_owned()).collect();
        let right = schema.fields().iter().map(|f| is_number(f.data_type())).collect();
        let widths = names.iter().map(|n| width(n)).collect();
        Table { names, right, widths, layout, terminal, headed: false, rows: 0, cut: false, zone: None }
    }

    /// Shows instants in this time zone.
    pub(crate) fn in_zone(self, zone: Option<&str>) -> Self {
        // The library knows offsets without a prefix.
        let zone = zone.map(|name| name.strip_prefix("GMT").filter(|offset| !offset.is_empty()).unwrap_or(name));
        Table { zone: zone.map(Arc::from), ..self }
    }

    /// The column as it is shown.
    fn shown(&self, column: &ArrayRef) -> Result<ArrayRef> {
        Ok(match (column.data_type(), &self.zone) {
            (DataType::Timestamp(unit, Some(_)), Some(zone)) => {
                arrow::compute::cast(column, &DataType::Timestamp(*unit, Some(Arc::clone(zone))))?
            }
            _ => Arc::clone(column),
        })
    }

    /// Rows written so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether a line was longer than the terminal is wide.
    pub(crate) fn was_cut(&self) -> bool {
        self.cut
    }

    /// Writes the rows of a batch.
    pub(crate) fn write(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> Result<()> {
        let options = FormatOptions::default().with_null("NULL");
        let columns = batch.columns().iter().map(|column| self.shown(column)).collect::<Result<Vec<_>>>()?;
        let columns: Vec<ArrayFormatter<'_>> =
            columns.iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options)).collect::<Result<_, _>>()?;
        let cell = |column: &ArrayFormatter<'_>, row| {
            let text = column.value(row).try_to_string()?;
            Ok(visible(&text.replace(['\n', '\r', '\t'], " ")).into_owned())
        };
        let rows: Vec<Vec<String>> = (0..batch.num_rows())
            .map(|row| columns.iter().map(|column| cell(column, row)).collect::<Result<_>>())
            .collect::<Result<_>>()?;
        let mut text = String::new();
        match self.layout {
            Layout::Lines => self.lines(&mut text, rows),
            Layout::Values => self.values(&mut text, &rows),
        }
        self.rows += batch.num_rows() as u64;
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        written.map_err(|e| Error::outside(format!("cannot write results: {e}")))
    }

    fn lines(&mut self, text: &mut String, mut rows: Vec<Vec<String>>) {
        // A long value must not push all others off the terminal.
        if let Some(terminal) = self.terminal.filter(|_| self.names.len() > 1) {
            let room = (terminal / 2).max(8);
            for cell in rows.iter_mut().flatten() {
                self.cut |= cut(cell, room);
            }
        }
        if self.widen(&rows) || !self.headed {
            self.head(text);
        }
        for row in &rows {
            self.line(text, row);
        }
    }

    /// Rows with a line per value, an empty line between them.
    fn values(&mut self, text: &mut String, rows: &[Vec<String>]) {
        let widest = self.widths.iter().copied().max().unwrap_or(0);
        for row in rows {
            if std::mem::replace(&mut self.headed, true) {
                text.push('\n');
            }
            for ((name, cell), used) in self.names.iter().zip(row).zip(&self.widths) {
                text.push_str(&format!(" {name}{}  {cell}\n", " ".repeat(widest - used)));
            }
        }
    }

    fn widen(&mut self, rows: &[Vec<String>]) -> bool {
        let mut grown = false;
        for row in rows {
            for (known, cell) in self.widths.iter_mut().zip(row) {
                let needed = width(cell);
                grown |= needed > *known;
                *known = needed.max(*known);
            }
        }
        grown
    }

    fn head(&mut self, text: &mut String) {
        let names = self.names.clone();
        self.line(text, &names);
        let rule: Vec<String> = self.widths.iter().map(|width| "─".repeat(*width)).collect();
        self.line(text, &rule);
        self.headed = true;
    }

    fn line(&mut self, text: &mut String, cells: &[String]) {
        let mut line = String::new();
        for (index, cell) in cells.iter().enumerate() {
            let padding = " ".repeat(self.widths[index].saturating_sub(width(cell)));
            let (before, after) = if self.right[index] { (padding.as_str(), "") } else { ("", padding.as_str()) };
            line.push_str(&format!("{}{before}{cell}{after}", if index == 0 { " " } else { "  " }));
        }
        line.truncate(line.trim_end().len());
        if let Some(terminal) = self.terminal {
            self.cut |= cut(&mut line, terminal);
        }
        text.push_str(&line);
        text.push('\n');
    }
}

/// Cells of a terminal that a text takes: two for a wide character.
fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// Cuts a text to this many cells of a terminal, the last of which then shows that something is left out. Whether it did.
fn cut(text: &mut String, cells: usize) -> bool {
    if width(text) <= cells {
        return false;
    }
    let (mut end, mut used) = (0, 0);
    for (at, c) in text.char_indices() {
        let needed = width(c.encode_utf8(&mut [0; 4]));
        if used + needed + 1 > cells {
            break;
        }
        used += needed;
        end = at + c.len_utf8();
    }
    text.truncate(end);
    text.push('…');
    true
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    fn batch(names: &[Option<&str>], counts: &[i64]) -> RecordBatch {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("name", Arc::new(StringArray::from(names.to_vec()))),
            ("n", Arc::new(Int64Array::from(counts.to_vec()))),
        ];
        RecordBatch::try_from_iter(columns).expect("batch")
    }

    #[test]
    fn values_are_aligned_and_a_wider_one_brings_a_new_heading() {
        let first = batch(&[Some("a"), None], &[1, 100]);
        let mut table = Table::new(&first.schema(), Layout::Lines, None);
        let mut out = Vec::new();
        table.write(&first, &mut out).expect("written");
        table.write(&batch(&[Some("b\nc")], &[7]), &mut out).expect("written");
        table.write(&batch(&[Some("longer")], &[8]), &mut out).expect("written");
        let expected = [
            " name    n",
            " ────  ───",
            " a       1",
            " NULL  100",
            " b c     7",
            " name      n",
            " ──────  ───",
            " longer    8",
            "",
        ];
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text.split('\n').collect::<Vec<_>>(), expected);
        assert_eq!(table.rows(), 4);
    }

    fn shown(layout: Layout, terminal: Option<usize>, batch: &RecordBatch) -> (Vec<String>, bool) {
        let mut table = Table::new(&batch.schema(), layout, terminal);
        let mut out = Vec::new();
        table.write(batch, &mut out).expect("written");
        let text = String::from_utf8(out).expect("text");
        (text.lines().map(str::to_owned).collect(), table.was_cut())
    }

    #[test]
    fn no_line_is_longer_than_the_terminal_is_wide() {
        let wide = batch(&[Some("漢字漢字漢字漢字漢字漢字漢字漢字"), Some("b")], &[1, 1_000_000]);
        let (lines, cut) = shown(Layout::Lines, Some(24), &wide);
        assert!(cut && lines.iter().all(|line| width(line) <= 24), "{lines:#?}");
        assert_eq!(lines[2], " 漢字漢字漢…        1", "the other column is still there");
        let narrow = batch(&[Some("a")], &[1]);
        assert!(!shown(Layout::Lines, Some(24), &narrow).1);
        assert!(!shown(Layout::Lines, None, &wide).1);
    }

    #[test]
    fn a_wide_row_may_have_a_line_per_value() {
        let rows = batch(&[Some("a long name that fits no terminal"), Some("b")], &[1, 2]);
        let (lines, cut) = shown(Layout::Values, Some(10), &rows);
        let expected = [" name  a long name that fits no terminal", " n     1", "", " name  b", " n     2"];
        assert_eq!(lines, expected);
        assert!(!cut);
    }

    #[test]
    fn data_does_not_steer_the_terminal() {
        let (lines, _) = shown(Layout::Lines, None, &batch(&[Some("\u{1b}[31mred")], &[1]));
        assert_eq!(lines[2], " \\u{1b}[31mred  1");
    }
}

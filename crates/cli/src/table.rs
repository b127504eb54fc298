//! Results while they arrive: an aligned table that grows, or one line per value.

pub(crate) mod columns;

use std::io::Write;
use std::sync::Arc;

use anabranch_model::{Error, Result, visible};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, FieldRef, Fields, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use self::columns::{Columns, width};

/// How rows are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// A line per row.
    Lines,
    /// A line per value: for wide rows.
    Values,
}

impl Layout {
    pub(crate) fn other(self) -> Self {
        match self {
            Layout::Lines => Layout::Values,
            Layout::Values => Layout::Lines,
        }
    }
}

/// Converts values to texts.
#[derive(Clone, Default)]
pub(crate) struct Cells {
    /// The time zone in which instants are shown. `None`: UTC.
    zone: Option<Arc<str>>,
}

impl Cells {
    /// Shows instants in this time zone.
    pub(crate) fn in_zone(zone: Option<&str>) -> Self {
        // The library knows offsets without a prefix.
        let zone = zone.map(|name| name.strip_prefix("GMT").filter(|offset| !offset.is_empty()).unwrap_or(name));
        Cells { zone: zone.map(Arc::from) }
    }

    /// The rows with instants in the time zone.
    pub(crate) fn shown(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let Some(zone) = &self.zone else { return Ok(batch.clone()) };
        let column = |column: &ArrayRef| -> Result<ArrayRef> {
            Ok(match column.data_type() {
                DataType::Timestamp(unit, Some(_)) => {
                    arrow::compute::cast(column, &DataType::Timestamp(*unit, Some(Arc::clone(zone))))?
                }
                _ => Arc::clone(column),
            })
        };
        let schema = batch.schema();
        let columns = batch.columns().iter().map(column).collect::<Result<Vec<_>>>()?;
        let field = |(field, column): (&FieldRef, &ArrayRef)| {
            Arc::new(field.as_ref().clone().with_data_type(column.data_type().clone()))
        };
        let fields: Fields = schema.fields().iter().zip(&columns).map(field).collect();
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &rows)?)
    }

    /// The texts of each row.
    pub(crate) fn rows(&self, batch: &RecordBatch) -> Result<Vec<Vec<String>>> {
        let options = FormatOptions::default().with_null("NULL");
        let shown = self.shown(batch)?;
        let columns: Vec<ArrayFormatter<'_>> =
            shown.columns().iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options)).collect::<Result<_, _>>()?;
        let cell = |column: &ArrayFormatter<'_>, row| {
            let text = column.value(row).try_to_string()?;
            Ok(visible(&text.replace(['\n', '\r', '\t'], " ")).into_owned())
        };
        (0..batch.num_rows()).map(|row| columns.iter().map(|column| cell(column, row)).collect()).collect()
    }
}

/// A table that grows. Columns are as wide as their widest value so far. When one grows, the heading is
/// written again, so that every line is under a heading that fits. On a terminal no line is longer than its
/// width: it would wrap, and columns would not be aligned.
pub(crate) struct Table {
    columns: Columns,
    /// The widths of the latest heading.
    headed: Option<Vec<usize>>,
    layout: Layout,
    rows: u64,
    cut: bool,
    cells: Cells,
}

impl Table {
    /// An empty table. `terminal` is the terminal's number of columns, if it is one.
    pub(crate) fn new(schema: &Schema, layout: Layout, terminal: Option<usize>) -> Self {
        let columns = Columns::of_schema(schema, terminal);
        Table { columns, headed: None, layout, rows: 0, cut: false, cells: Cells::default() }
    }

    /// Uses this conversion of values.
    pub(crate) fn with_cells(self, cells: Cells) -> Self {
        Table { cells, ..self }
    }

    /// Whether a line was longer than the terminal is wide.
    pub(crate) fn was_cut(&self) -> bool {
        self.cut
    }

    /// Writes the rows of a batch.
    pub(crate) fn write(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> Result<()> {
        let rows = self.cells.rows(batch)?;
        self.write_rows(&rows, out)
    }

    /// Writes rows that are texts already.
    pub(crate) fn write_rows(&mut self, rows: &[Vec<String>], out: &mut dyn Write) -> Result<()> {
        let mut text = String::new();
        match self.layout {
            Layout::Lines => self.lines(&mut text, rows),
            Layout::Values => self.values(&mut text, rows),
        }
        self.rows += rows.len() as u64;
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        written.map_err(|e| Error::outside(format!("cannot write results: {e}")))
    }

    fn lines(&mut self, text: &mut String, rows: &[Vec<String>]) {
        rows.iter().for_each(|row| self.columns.widen(row));
        let widths = self.columns.widths();
        if self.headed.as_ref() != Some(&widths) {
            let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            let names = self.columns.names().to_vec();
            self.line(text, &names, &widths);
            self.line(text, &rule, &widths);
        }
        for row in rows {
            self.line(text, row, &widths);
        }
        self.headed = Some(widths);
    }

    /// Writes rows with a line per value, separated by empty lines.
    fn values(&self, text: &mut String, rows: &[Vec<String>]) {
        let widest = self.columns.names().iter().map(|name| width(name)).max().unwrap_or(0);
        for (index, row) in rows.iter().enumerate() {
            if index > 0 || self.rows > 0 {
                text.push('\n');
            }
            for (name, cell) in self.columns.names().iter().zip(row) {
                text.push_str(&format!(" {name}{}  {cell}\n", " ".repeat(widest - width(name))));
            }
        }
    }

    fn line(&mut self, text: &mut String, cells: &[String], widths: &[usize]) {
        let (line, cut) = self.columns.line(cells, widths);
        self.cut |= cut;
        text.push_str(&line);
        text.push('\n');
    }
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
        assert_eq!(table.rows, 4);
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
        assert_eq!(lines[2], " 漢字漢字漢字…         1", "the other column is still there");
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

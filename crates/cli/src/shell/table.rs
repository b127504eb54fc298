//! Results as an aligned table that grows as they come.

use std::io::Write;

use anabranch_model::{Error, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// Columns are as wide as their widest value so far. When one grows, the heading is written again, so that every line
/// stands under a heading that fits.
pub(crate) struct Table {
    names: Vec<String>,
    right: Vec<bool>,
    widths: Vec<usize>,
    headed: bool,
    rows: u64,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(schema: &Schema) -> Self {
        let names: Vec<String> = schema.fields().iter().map(|f| f.name().clone()).collect();
        let right = schema.fields().iter().map(|f| is_number(f.data_type())).collect();
        let widths = names.iter().map(|n| n.chars().count()).collect();
        Table { names, right, widths, headed: false, rows: 0 }
    }

    /// Rows written so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes the rows of a batch.
    pub(crate) fn write(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> Result<()> {
        let options = FormatOptions::default().with_null("NULL");
        let columns: Vec<ArrayFormatter<'_>> =
            batch.columns().iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options)).collect::<Result<_, _>>()?;
        let cell = |column: &ArrayFormatter<'_>, row| {
            let text = column.value(row).try_to_string()?;
            Ok(text.replace(['\n', '\r', '\t'], " "))
        };
        let rows: Vec<Vec<String>> = (0..batch.num_rows())
            .map(|row| columns.iter().map(|column| cell(column, row)).collect::<Result<_>>())
            .collect::<Result<_>>()?;
        let mut text = String::new();
        if self.widen(&rows) || !self.headed {
            self.head(&mut text);
        }
        for row in &rows {
            self.line(&mut text, row);
        }
        self.rows += batch.num_rows() as u64;
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        written.map_err(|e| Error::outside(format!("cannot write results: {e}")))
    }

    fn widen(&mut self, rows: &[Vec<String>]) -> bool {
        let mut grown = false;
        for row in rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                let needed = cell.chars().count();
                grown |= needed > *width;
                *width = needed.max(*width);
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

    fn line(&self, text: &mut String, cells: &[String]) {
        let mut line = String::new();
        for (index, cell) in cells.iter().enumerate() {
            let padding = " ".repeat(self.widths[index].saturating_sub(cell.chars().count()));
            let (before, after) = if self.right[index] { (padding.as_str(), "") } else { ("", padding.as_str()) };
            line.push_str(&format!("{}{before}{cell}{after}", if index == 0 { " " } else { "  " }));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
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
        let mut table = Table::new(&first.schema());
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
}

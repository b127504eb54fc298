//! Rows for programs: CSV by RFC 4180 with a line of names, or a JSON object in each line.

use std::io::Write;
use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StructArray};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde_json::Value;

use crate::arguments::Format;

const OPTIONS: FormatOptions<'static> = FormatOptions::new().with_null("NULL");

/// Writes batches of one schema.
pub(crate) struct Records {
    is_csv: bool,
    /// The line of names, until it is written.
    head: String,
}

impl Records {
    /// For rows of this schema. Each format other than CSV is JSON.
    pub(crate) fn new(schema: &SchemaRef, format: Format) -> Self {
        let is_csv = format == Format::Csv;
        let names = schema.fields().iter().map(|field| quoted(field.name()));
        let head = if is_csv { names.collect::<Vec<_>>().join(",") + "\n" } else { String::new() };
        Records { is_csv, head }
    }

    /// Writes the rows of a batch.
    pub(crate) fn write(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> Result<()> {
        let mut text = std::mem::take(&mut self.head);
        match self.is_csv {
            true => lines_of_csv(&mut text, batch)?,
            false => lines_of_json(&mut text, batch)?,
        }
        written(&text, out)
    }

    /// Ends the output. CSV has its line of names even without rows.
    pub(crate) fn finish(&mut self, out: &mut dyn Write) -> Result<()> {
        written(&std::mem::take(&mut self.head), out)
    }
}

fn written(text: &str, out: &mut dyn Write) -> Result<()> {
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| Error::outside(format!("cannot write rows: {error}")))
}

fn lines_of_csv(text: &mut String, batch: &RecordBatch) -> Result<()> {
    let columns = batch.columns().iter().map(|column| Ok(ArrayFormatter::try_new(column.as_ref(), &OPTIONS)?));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    for row in 0..batch.num_rows() {
        for (index, shown) in columns.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            // NULL has no quotes, an empty text has.
            let column = batch.column(index);
            if !column.is_null(row) && !column.data_type().is_null() {
                text.push_str(&quoted(&shown.value(row).to_string()));
            }
        }
        text.push('\n');
    }
    Ok(())
}

fn lines_of_json(text: &mut String, batch: &RecordBatch) -> Result<()> {
    let rows: ArrayRef = Arc::new(StructArray::from(batch.clone()));
    for row in 0..rows.len() {
        json(text, &rows, row)?;
        text.push('\n');
    }
    Ok(())
}

/// A value as JSON: rows are objects, and maps too if their keys are texts.
fn json(text: &mut String, column: &ArrayRef, row: usize) -> Result<()> {
    if column.is_null(row) || column.data_type().is_null() {
        text.push_str("null");
        return Ok(());
    }
    match column.data_type() {
        DataType::Struct(fields) => {
            let parts = column.as_struct();
            for (index, (field, part)) in fields.iter().zip(parts.columns()).enumerate() {
                text.push(if index == 0 { '{' } else { ',' });
                text.push_str(&Value::from(field.name().as_str()).to_string());
                text.push(':');
                json(text, part, row)?;
            }
            text.push_str(if fields.is_empty() { "{}" } else { "}" });
        }
        DataType::List(_) => array(text, &column.as_list::<i32>().value(row))?,
        DataType::LargeList(_) => array(text, &column.as_list::<i64>().value(row))?,
        DataType::Map(..) => {
            let entries = column.as_map().value(row);
            let keys = ArrayFormatter::try_new(entries.column(0).as_ref(), &OPTIONS)?;
            text.push('{');
            for entry in 0..entries.len() {
                if entry > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(keys.value(entry).to_string()).to_string());
                text.push(':');
                json(text, entries.column(1), entry)?;
            }
            text.push('}');
        }
        data_type => {
            let shown = ArrayFormatter::try_new(column.as_ref(), &OPTIONS)?.value(row).to_string();
            let is_plain = data_type.is_numeric() || *data_type == DataType::Boolean;
            // JSON has no numbers for infinity and NaN.
            match serde_json::from_str::<Value>(&shown) {
                Ok(value) if is_plain && !value.is_string() => text.push_str(&shown),
                _ => text.push_str(&Value::from(shown).to_string()),
            }
        }
    }
    Ok(())
}

fn array(text: &mut String, values: &ArrayRef) -> Result<()> {
    text.push('[');
    for row in 0..values.len() {
        if row > 0 {
            text.push(',');
        }
        json(text, values, row)?;
    }
    text.push(']');
    Ok(())
}

/// By RFC 4180.
fn quoted(value: &str) -> String {
    match value.is_empty() || value.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", value.replace('"', "\"\"")),
        false => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int64Array, ListArray, StringArray};
    use arrow::datatypes::{Field, Fields, Int64Type};

    use super::*;

    fn text(format: Format, batch: &RecordBatch) -> String {
        let (mut out, mut records) = (Vec::new(), Records::new(&batch.schema(), format));
        records.write(batch, &mut out).expect("written");
        records.finish(&mut out).expect("written");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn each_format_says_what_is_null_and_what_is_empty() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("key", Arc::new(StringArray::from(vec![Some("a,\"b\""), None, Some("")]))),
            ("sum", Arc::new(Float64Array::from(vec![1.5, f64::NAN, 2.0]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).expect("batch");
        assert_eq!(text(Format::Csv, &batch), "key,sum\n\"a,\"\"b\"\"\",1.5\n,NaN\n\"\",2.0\n");
        let json =
            "{\"key\":\"a,\\\"b\\\"\",\"sum\":1.5}\n{\"key\":null,\"sum\":\"NaN\"}\n{\"key\":\"\",\"sum\":2.0}\n";
        assert_eq!(text(Format::Json, &batch), json);
        assert_eq!(text(Format::Csv, &batch.slice(0, 0)), "key,sum\n");
        assert_eq!(text(Format::Json, &batch.slice(0, 0)), "");
    }

    #[test]
    fn nested_values_are_nested_in_json() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let fields = Fields::from(vec![Field::new("n", DataType::Int64, true)]);
        let rows: ArrayRef = Arc::new(StructArray::new(fields, vec![numbers], None));
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![Some(vec![Some(1), None]), None]);
        let batch = RecordBatch::try_from_iter([("row", rows), ("list", Arc::new(lists) as ArrayRef)]).expect("batch");
        let expected = "{\"row\":{\"n\":1},\"list\":[1,null]}\n{\"row\":{\"n\":null},\"list\":null}\n";
        assert_eq!(text(Format::Json, &batch), expected);
    }
}

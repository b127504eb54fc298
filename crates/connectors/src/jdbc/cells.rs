//! Rows in the text format of `COPY`: a line per row, values separated by tabs. The database converts it to
//! the types of its columns.

use anabranch_dataflow::sql_name;
use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};

/// Values of a column.
enum Cells {
    /// Texts without characters to escape: numbers, times.
    Plain(StringArray),
    Text(StringArray),
    Bytes(ArrayRef),
    List(ArrayRef, Box<Cells>),
}

/// Fails if a column has a type without such a form.
pub(super) fn check_column(field: &Field) -> Result<()> {
    let is_simple = |data_type: &DataType| {
        !matches!(data_type, DataType::List(_) | DataType::Struct(_) | DataType::Map(..)) && !data_type.is_null()
    };
    let fits = match field.data_type() {
        DataType::List(item) => is_simple(item.data_type()),
        other => is_simple(other),
    };
    if fits {
        return Ok(());
    }
    let found = sql_name(field.data_type());
    Err(Error::user(format!("a table of connector 'jdbc' cannot hold {found} in column '{}'", field.name()))
        .remedy("select the fields as columns of their own, or convert: JSON_STRING(...)"))
}

/// Appends the rows of a batch. `before` writes the beginning of a line. Fails, and appends nothing, if a
/// text has a zero byte: no database accepts it, and later the row would already be part of a checkpoint.
pub(super) fn append_rows(
    out: &mut Vec<u8>,
    batch: &RecordBatch,
    mut before: impl FnMut(&mut Vec<u8>, usize),
) -> Result<()> {
    let columns = batch.columns().iter().map(Cells::new).collect::<Result<Vec<_>>>()?;
    let begin = out.len();
    for row in 0..batch.num_rows() {
        before(out, row);
        for (index, (cells, column)) in columns.iter().zip(batch.columns()).enumerate() {
            if index > 0 {
                out.push(b'\t');
            }
            match column.is_null(row) {
                true => out.extend_from_slice(b"\\N"),
                false => cells.append(out, row),
            }
        }
        out.push(b'\n');
    }
    match out[begin..].iter().position(|byte| *byte == 0) {
        None => Ok(()),
        Some(zero) => {
            // Tabs and line ends only separate values: within values they are escaped.
            let line = out[begin + zero..].split(|byte| *byte == b'\n').next().unwrap_or_default();
            let after = line.iter().filter(|byte| **byte == b'\t').count();
            out.truncate(begin);
            let name = batch.num_columns().checked_sub(after + 1).map(|column| batch.schema_ref().field(column).name());
            Err(zero_byte(name.map_or("", String::as_str)))
        }
    }
}

fn zero_byte(column: &str) -> Error {
    Error::user("a text has a zero byte, which PostgreSQL does not take")
        .at(format!("column '{column}'"))
        .remedy("filter such rows out in the query, or write the column as BYTES to a bytea")
}

impl Cells {
    fn new(column: &ArrayRef) -> Result<Cells> {
        let text = || Ok::<_, Error>(cast(column, &DataType::Utf8)?.as_string::<i32>().clone());
        Ok(match column.data_type() {
            DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8 => Cells::Text(text()?),
            DataType::Binary => Cells::Bytes(column.clone()),
            DataType::List(_) => {
                let items = column.as_list::<i32>().values();
                Cells::List(column.clone(), Box::new(Cells::new(items)?))
            }
            _ => Cells::Plain(text()?),
        })
    }

    fn append(&self, out: &mut Vec<u8>, row: usize) {
        match self {
            Cells::Plain(text) => out.extend_from_slice(text.value(row).as_bytes()),
            Cells::Text(text) => escape(out, text.value(row).as_bytes()),
            Cells::Bytes(bytes) => {
                out.extend_from_slice(b"\\\\x");
                hex(out, bytes.as_binary::<i32>().value(row));
            }
            Cells::List(lists, items) => {
                let mut literal = vec![b'{'];
                let ends = &lists.as_list::<i32>().value_offsets()[row..row + 2];
                let values = lists.as_list::<i32>().values();
                for item in ends[0] as usize..ends[1] as usize {
                    if literal.len() > 1 {
                        literal.push(b',');
                    }
                    match values.is_null(item) {
                        true => literal.extend_from_slice(b"NULL"),
                        false => items.append_quoted(&mut literal, item),
                    }
                }
                literal.push(b'}');
                escape(out, &literal);
            }
        }
    }

    /// Appends a value as a quoted element of an array.
    fn append_quoted(&self, out: &mut Vec<u8>, row: usize) {
        out.push(b'"');
        match self {
            Cells::Plain(text) => out.extend_from_slice(text.value(row).as_bytes()),
            Cells::Text(text) => {
                for byte in text.value(row).bytes() {
                    if matches!(byte, b'"' | b'\\') {
                        out.push(b'\\');
                    }
                    out.push(byte);
                }
            }
            Cells::Bytes(bytes) => {
                out.extend_from_slice(b"\\\\x");
                hex(out, bytes.as_binary::<i32>().value(row));
            }
            // Refused by `check_column`.
            Cells::List(..) => {}
        }
        out.push(b'"');
    }
}

fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend(bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]));
}

/// Appends a text with the characters escaped that would end the value or the line.
fn escape(out: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\\' | b'\t' | b'\n' | b'\r')) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(match rest[at] {
            b'\\' => b"\\\\",
            b'\t' => b"\\t",
            b'\n' => b"\\n",
            _ => b"\\r",
        });
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{BinaryArray, Float64Array, ListArray, ListBuilder, StringBuilder, StringViewArray};
    use arrow::datatypes::Int32Type;

    use super::*;

    fn lines(columns: Vec<(&str, ArrayRef)>) -> String {
        let mut out = Vec::new();
        append_rows(&mut out, &RecordBatch::try_from_iter(columns).unwrap(), |_, _| ()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_cannot_leave_their_place() {
        let texts: ArrayRef =
            Arc::new(StringViewArray::from(vec![Some("a\tb\nc\rd\\.e"), None, Some(""), Some("\\N")]));
        let floats: ArrayRef =
            Arc::new(Float64Array::from(vec![Some(1.5), Some(f64::NAN), Some(f64::NEG_INFINITY), None]));
        assert_eq!(
            lines(vec![("a", texts), ("b", floats)]),
            "a\\tb\\nc\\rd\\\\.e\t1.5\n\\N\tNaN\n\t-inf\n\\\\N\t\\N\n"
        );
    }

    #[test]
    fn a_text_with_a_zero_byte_is_refused_before_it_is_part_of_anything() {
        let mut texts = ListBuilder::new(StringBuilder::new());
        for text in ["x", "a\0b"] {
            texts.values().append_value(text);
            texts.append(true);
        }
        let lists: ArrayRef = Arc::new(texts.finish());
        let numbers: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0]));
        let plain: ArrayRef = Arc::new(StringViewArray::from(vec!["\t\n", "\0"]));
        for (columns, expected) in
            [(vec![("n", &numbers), ("l", &lists), ("m", &numbers)], "column 'l'"), (vec![("s", &plain)], "column 's'")]
        {
            let batch =
                RecordBatch::try_from_iter(columns.into_iter().map(|(name, column)| (name, Arc::clone(column))))
                    .unwrap();
            let mut out = b"before\n".to_vec();
            let error =
                append_rows(&mut out, &batch, |out, _| out.extend_from_slice(b"0\tf\t")).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("filter such rows out in the query"), "{error}");
            assert_eq!(out, b"before\n");
            append_rows(&mut out, &batch.slice(0, 1), |_, _| ()).unwrap();
        }
    }

    #[test]
    fn bytes_and_arrays_have_the_forms_of_the_database() {
        let bytes: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"\x00\xff", b""]));
        let lists = vec![Some(vec![Some(1), None]), Some(Vec::new())];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
        assert_eq!(lines(vec![("a", bytes), ("b", lists)]), "\\\\x00ff\t{\"1\",NULL}\n\\\\x\t{}\n");
    }
}

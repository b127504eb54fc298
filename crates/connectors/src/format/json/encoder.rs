//! The encoder: rows to JSON objects.
//!
//! Everything that is the same for all rows (the keys with their quotes and commas, the arrays' types) is
//! prepared once per encoder or batch. Rows are written consecutively into a single buffer; a row allocates
//! nothing.

use anabranch_model::{Error, Result};
use arrow::array::{BinaryArray, RecordBatch};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Fields, SchemaRef};

use super::datetime::TimestampFormat;
use super::kind::ValueKind;
use crate::format::Encode;

mod cells;
mod scalar;

use cells::Cells;
pub(crate) use scalar::write_signed;
use scalar::write_string;

/// Encodes rows as JSON objects with all columns in their order.
///
/// Nulls are written as `null`, decimals as numbers, binary as base64, and floating-point numbers without a
/// JSON form as the strings `"NaN"`, `"Infinity"` and `"-Infinity"`. [`super::JsonDecoder`] reads all of it
/// back.
pub struct JsonEncoder {
    schema: SchemaRef,
    fields: Vec<Field>,
    format: TimestampFormat,
    /// Bytes per row of the last batch, to reserve space for the next.
    row_bytes: usize,
}

/// A column, a field of a struct, the elements of a list, or the keys or values of a map.
struct Field {
    /// The text before its value: the brace or comma, the key and the colon.
    before: Vec<u8>,
    kind: ValueKind,
    children: Vec<Field>,
}

impl JsonEncoder {
    /// An encoder for batches of `schema`. A type without a JSON form is an error.
    pub fn new(schema: &SchemaRef) -> Result<Self> {
        Ok(JsonEncoder {
            fields: Field::all("", schema.fields())?,
            schema: schema.clone(),
            format: TimestampFormat::default(),
            row_bytes: 64,
        })
    }

    /// Writes timestamps in this format.
    #[must_use]
    pub fn with_timestamp_format(mut self, format: TimestampFormat) -> Self {
        self.format = format;
        self
    }
}

impl Field {
    fn all(path: &str, fields: &Fields) -> Result<Vec<Self>> {
        let mut open = b'{';
        let mut all = Vec::with_capacity(fields.len());
        for field in fields {
            let name = field.name();
            let mut before = vec![open];
            write_string(name.as_bytes(), &mut before);
            before.push(b':');
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            all.push(Field::new(before, &path, field.data_type())?);
            open = b',';
        }
        Ok(all)
    }

    fn new(before: Vec<u8>, path: &str, data_type: &DataType) -> Result<Self> {
        let children = match data_type {
            DataType::Struct(fields) => Field::all(path, fields)?,
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(parts) => Field::all(path, parts)?,
                _ => Vec::new(),
            },
            DataType::List(element) => vec![Field::new(vec![b','], &format!("{path}[]"), element.data_type())?],
            _ => Vec::new(),
        };
        Ok(Field { before, kind: ValueKind::new(path, data_type)?, children })
    }
}

impl Encode for JsonEncoder {
    fn encode(&mut self, batch: &RecordBatch) -> Result<BinaryArray> {
        let matches = batch.num_columns() == self.fields.len()
            && batch
                .columns()
                .iter()
                .zip(self.schema.fields())
                .all(|(array, field)| array.data_type() == field.data_type());
        if !matches {
            let message = format!("a batch of schema {:?} for a JSON encoder of {:?}", batch.schema(), self.schema);
            return Err(Error::internal(message));
        }
        let columns: Vec<Cells<'_>> = self
            .fields
            .iter()
            .zip(batch.columns())
            .map(|(field, array)| Cells::new(field, array, self.format))
            .collect();
        let rows = batch.num_rows();
        let mut out = Vec::with_capacity(rows * (self.row_bytes + self.row_bytes / 8));
        let mut ends = Vec::with_capacity(rows + 1);
        ends.push(0);
        for row in 0..rows {
            cells::write_object(&columns, row, &mut out);
            ends.push(i32::try_from(out.len()).map_err(|_| {
                Error::user(format!("a batch of {rows} rows takes more than 2 GiB as JSON"))
                    .remedy("write smaller batches or smaller values")
            })?);
        }
        self.row_bytes = out.len().div_ceil(rows.max(1)).max(1);
        let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
        Ok(BinaryArray::new(offsets, Buffer::from_vec(out), None))
    }
}

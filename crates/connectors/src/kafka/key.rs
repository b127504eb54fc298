//! Keys of the records that a sink writes.

use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::{BinaryArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};

use super::table::Table;
use crate::format::{Encode, Format};

/// Encodes the columns of `key.fields`.
pub(super) struct KeyEncoder {
    columns: Vec<usize>,
    encoder: Box<dyn Encode>,
}

impl KeyEncoder {
    /// The encoder that the table asks for; `None` if its records have no key.
    pub(super) fn new(table: &Table, schema: &SchemaRef) -> Result<Option<KeyEncoder>> {
        if table.key_fields.is_empty() {
            return Ok(None);
        }
        let columns = table.key_fields.iter().map(|field| column(schema, field)).collect::<Result<Vec<_>>>()?;
        let key = Arc::new(schema.project(&columns)?);
        let format = match &table.key_format {
            Some(format) => format.clone(),
            None if is_raw(&key) => Format::Raw,
            None => {
                return Err(Error::user("the key is not one column of text or bytes, so its format must be given")
                    .remedy("add 'key.format' = 'json'"));
            }
        };
        let encoder = format.encoder(&key).map_err(|error| error.at("option 'key.fields'"))?;
        Ok(Some(KeyEncoder { columns, encoder }))
    }

    /// One key per row.
    pub(super) fn encode(&mut self, batch: &RecordBatch) -> Result<BinaryArray> {
        self.encoder.encode(&batch.project(&self.columns)?)
    }
}

fn column(schema: &SchemaRef, name: &str) -> Result<usize> {
    schema.index_of(name).map_err(|_| {
        let known: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        Error::user(format!("option 'key.fields' names '{name}', which is no column of the table"))
            .remedy(format!("columns: {}", known.join(", ")))
    })
}

fn is_raw(key: &SchemaRef) -> bool {
    let is_bytes = |data_type: &DataType| {
        use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
        matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
    };
    key.fields().len() == 1 && is_bytes(key.field(0).data_type())
}

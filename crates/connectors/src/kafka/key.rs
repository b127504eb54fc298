//! Keys of the records that a sink writes. For a single key column of text or bytes, NULL becomes Kafka's
//! null key: such a record has no key, and may go to any partition.

use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::{Array, BinaryArray, RecordBatch};
use arrow::datatypes::{DataType, Schema, SchemaRef};

use super::table::Table;
use crate::format::raw::{RawEncoder, RawOptions};
use crate::format::{Encode, Format};

/// Encodes the columns of `key.fields`.
pub(super) struct KeyEncoder {
    columns: Vec<usize>,
    encoder: Box<dyn Encode>,
    /// The key is null where its only column is NULL.
    may_be_null: bool,
}

impl KeyEncoder {
    /// The encoder for the table; `None` if its records have no key.
    pub(super) fn new(table: &Table, schema: &SchemaRef) -> Result<Option<KeyEncoder>> {
        if table.key_fields.is_empty() {
            return Ok(None);
        }
        let columns = table.key_fields.iter().map(|field| column(schema, field)).collect::<Result<Vec<_>>>()?;
        let key = table.key_schema(schema, &columns)?;
        let format = match &table.key_format {
            Some(format) => format.clone(),
            None if is_raw(&key) => Format::Raw(RawOptions::default()),
            None => {
                return Err(Error::user("the key is not one column of text or bytes, so its format must be given")
                    .remedy("add 'key.format' = 'json'"));
            }
        };
        let may_be_null = columns.len() == 1 && !format.writes_null();
        let encoder = match &format {
            Format::Raw(options) => {
                RawEncoder::with_nulls(&key, *options).map(|encoder| Box::new(encoder) as Box<dyn Encode>)
            }
            format if may_be_null => format.encoder(&without_null(&key)),
            format => format.encoder(&key),
        };
        let encoder = encoder.map_err(|error| error.at("option 'key.fields'"))?;
        Ok(Some(KeyEncoder { columns, encoder, may_be_null }))
    }

    /// One key per row.
    pub(super) fn encode(&mut self, batch: &RecordBatch) -> Result<BinaryArray> {
        let key = batch.project(&self.columns)?;
        let records = self.encoder.encode(&key)?;
        if !self.may_be_null {
            return Ok(records);
        }
        let (offsets, values, _) = records.into_parts();
        Ok(BinaryArray::new(offsets, values, key.column(0).logical_nulls()))
    }
}

/// The columns of the keys that are not null.
fn without_null(key: &SchemaRef) -> SchemaRef {
    let fields = key.fields().iter().map(|field| field.as_ref().clone().with_nullable(false));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

pub(super) fn column(schema: &Schema, name: &str) -> Result<usize> {
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

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, StringViewArray};
    use arrow::datatypes::Field;

    use super::super::table::tests::parse;
    use super::*;

    /// The keys of rows `7, NULL` and `NULL, b`.
    fn keys(extra: &[(&str, &str)]) -> Vec<Option<String>> {
        let table = parse(extra).unwrap();
        let fields = [Field::new("id", DataType::Int64, true), Field::new("name", DataType::Utf8View, true)];
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
        let names: ArrayRef = Arc::new(StringViewArray::from(vec![None, Some("b")]));
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), vec![ids, names]).unwrap();
        let keys = KeyEncoder::new(&table, &rows.schema()).unwrap().unwrap().encode(&rows).unwrap();
        let text = |key: Option<&[u8]>| key.map(|key| String::from_utf8(key.to_vec()).unwrap());
        keys.iter().map(text).collect()
    }

    #[test]
    fn a_key_that_is_null_is_no_key() {
        let some = |key: &str| Some(key.to_owned());
        assert_eq!(keys(&[("key.fields", "name")]), [None, some("b")]);
        assert_eq!(keys(&[("key.fields", "name"), ("key.format", "raw")]), [None, some("b")]);
        assert_eq!(keys(&[("key.fields", "id"), ("key.format", "csv")]), [some("7"), None]);
        assert_eq!(keys(&[("key.fields", "id"), ("key.format", "raw")]), [some("\0\0\0\0\0\0\0\u{7}"), None]);
        let both = [("key.fields", "id;name"), ("key.format", "csv")];
        assert_eq!(keys(&both), [some("7,"), some(",b")]);
        let json = [("key.fields", "id"), ("key.format", "json")];
        assert_eq!(keys(&json), [some(r#"{"id":7}"#), some(r#"{"id":null}"#)]);
    }
}

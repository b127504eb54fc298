//! Columns of rows that are in the keys of records. Of versions of rows, the key of the row is there, and a record without a value deletes it.

use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, UInt32Array};
use arrow::compute::{filter, is_not_null, take};
use arrow::datatypes::{Schema, SchemaRef};

use super::table::Table;
use crate::format::{Decode, Format};

/// The key of records, from which columns are read.
pub(super) struct RecordKey {
    format: Format,
    /// Where its columns are among those of the table, and their names in the key.
    pub(super) columns: Vec<usize>,
    schema: SchemaRef,
    /// Values have these columns too.
    pub(super) in_values: bool,
    /// A record without a value deletes the row of its key. Otherwise it is malformed.
    pub(super) deletes: bool,
}

impl RecordKey {
    /// The key of a table's records, which has these of the declared columns.
    pub(super) fn of(table: &Table, declared: &Schema, columns: Vec<usize>, deletes: bool) -> Result<RecordKey> {
        let format = table.key_format.clone().ok_or_else(|| Error::internal("a key without a format"))?;
        let schema = table.key_schema(declared, &columns)?;
        Ok(RecordKey { format, columns, schema, in_values: !table.without_key, deletes })
    }

    pub(super) fn decoder(&self) -> Result<Box<dyn Decode>> {
        self.format.decoder(&self.schema, &(0..self.columns.len()).collect::<Vec<_>>())
    }
}

/// Decoded versions. Columns of the value are NULL where it is missing.
pub(super) struct Versions {
    pub(super) values: Vec<ArrayRef>,
    pub(super) keys: Vec<ArrayRef>,
    /// The records that could be decoded, which the rows are of.
    pub(super) good: Vec<usize>,
    /// The others, with their errors.
    pub(super) malformed: Vec<(usize, String)>,
}

/// Decodes values and keys. `deletes`: a value may be missing.
pub(super) fn decode(
    of_values: &mut dyn Decode,
    of_keys: &mut dyn Decode,
    (values, keys): (&BinaryArray, &BinaryArray),
    deletes: bool,
) -> Result<Versions> {
    let given = filter(values, &is_not_null(values)?)?;
    let given = of_values.decode(given.as_binary::<i32>())?;
    let keys = of_keys.decode(keys)?;
    let mut bad_values = given.malformed.into_iter().peekable();
    let mut bad_keys = keys.malformed.into_iter().peekable();
    let (mut good, mut malformed) = (Vec::new(), Vec::new());
    let (mut key_rows, mut value_rows) = (Vec::new(), Vec::new());
    // Numbers of the values that are there, of those that could be decoded, and of such keys.
    let (mut present, mut decoded, mut key) = (0, 0, 0);
    for index in 0..values.len() {
        let mut error = None;
        let key_row = key;
        match bad_keys.next_if(|(bad, _)| *bad == index) {
            Some((_, why)) => error = Some(format!("key: {why}")),
            None => key += 1,
        }
        let mut value_row = None;
        if values.is_valid(index) {
            match bad_values.next_if(|(bad, _)| *bad == present) {
                Some((_, why)) => error = error.or(Some(why)),
                None => {
                    value_row = Some(decoded);
                    decoded += 1;
                }
            }
            present += 1;
        } else if !deletes {
            error = error.or(Some("the record has no value".to_owned()));
        }
        match error {
            Some(error) => malformed.push((index, error)),
            None => {
                good.push(index);
                key_rows.push(key_row);
                value_rows.push(value_row);
            }
        }
    }
    let (key_rows, value_rows) = (UInt32Array::from(key_rows), UInt32Array::from(value_rows));
    let taken = |columns: &[ArrayRef], rows: &UInt32Array| {
        columns.iter().map(|column| Ok(take(column, rows, None)?)).collect::<Result<Vec<_>>>()
    };
    let values = taken(given.batch.columns(), &value_rows)?;
    let keys = taken(keys.batch.columns(), &key_rows)?;
    Ok(Versions { values, keys, good, malformed })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Int64Type};

    use super::*;
    use crate::format::json::JsonOptions;

    #[test]
    fn a_record_is_a_row_if_its_key_and_its_value_can_be_decoded_or_the_value_is_missing() {
        let decoder = |name: &str| {
            let schema = Arc::new(Schema::new(vec![Field::new(name, DataType::Int64, true)]));
            Format::Json(JsonOptions::default()).decoder(&schema, &[0]).unwrap()
        };
        let records = [
            (Some(r#"{"k": 1}"#), Some(r#"{"v": 10}"#)),
            (None, Some(r#"{"v": 20}"#)),
            (Some(r#"{"k": 3}"#), None),
            (Some(r#"{"k": 4}"#), Some(r#"{"v": "many"}"#)),
            (Some(r#"{"k": 5}"#), Some(r#"{"v": 50}"#)),
            (Some("no"), None),
        ];
        let keys = BinaryArray::from_iter(records.iter().map(|(key, _)| *key));
        let values = BinaryArray::from_iter(records.iter().map(|(_, value)| *value));
        let read = decode(decoder("v").as_mut(), decoder("k").as_mut(), (&values, &keys), true).unwrap();
        let ints = |column: &ArrayRef| column.as_primitive::<Int64Type>().iter().collect::<Vec<_>>();
        assert_eq!(
            (read.good.as_slice(), ints(&read.keys[0])),
            ([0, 2, 4].as_slice(), vec![Some(1), Some(3), Some(5)])
        );
        assert_eq!(ints(&read.values[0]), [Some(10), None, Some(50)]);
        let bad: Vec<usize> = read.malformed.iter().map(|(index, _)| *index).collect();
        assert_eq!(bad, [1, 3, 5]);
        assert!(read.malformed[0].1.starts_with("key: "), "{:?}", read.malformed[0]);
        let read = decode(decoder("v").as_mut(), decoder("k").as_mut(), (&values, &keys), false).unwrap();
        assert_eq!(read.good, [0, 4]);
        assert_eq!(read.malformed[1], (2, "the record has no value".to_owned()));
    }
}

//! Columns that are in the keys of records. For versions of rows, the record's key is the key of the row, and
//! a record without a value deletes it.

use std::iter::Peekable;

use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, UInt32Array};
use arrow::compute::{filter, is_not_null, take};
use arrow::datatypes::{Schema, SchemaRef};

use super::table::Table;
use crate::format::{Decode, Decoded, Format};

/// The key of records, from which columns are read.
pub(super) struct RecordKey {
    format: Format,
    /// The indexes of its columns in the table, and their names in the key.
    pub(super) columns: Vec<usize>,
    schema: SchemaRef,
    /// Whether values have these columns too.
    pub(super) in_values: bool,
    /// Whether a record without a value deletes the row of its key. If not, such a record is malformed.
    pub(super) deletes: bool,
}

impl RecordKey {
    /// The key of a table's records, with these of the declared columns.
    pub(super) fn new(table: &Table, declared: &Schema, columns: Vec<usize>, deletes: bool) -> Result<RecordKey> {
        let format = table.key_format.clone().ok_or_else(|| Error::internal("a key without a format"))?;
        let schema = table.key_schema(declared, &columns)?;
        Ok(RecordKey { format, columns, schema, in_values: !table.without_key, deletes })
    }

    /// The reader of the key's columns.
    pub(super) fn reader(&self) -> Result<KeyReader> {
        let decoder = self.format.decoder(&self.schema, &(0..self.columns.len()).collect::<Vec<_>>())?;
        let required = self.schema.fields().iter().find(|field| !field.is_nullable());
        let refusal = match (self.deletes, required) {
            (true, _) => Some("the record has no key".to_owned()),
            (false, Some(field)) => {
                Some(format!("the record has no key, but the column '{}' of the key is NOT NULL", field.name()))
            }
            (false, None) => None,
        };
        Ok(KeyReader { decoder, refusal, deletes: self.deletes })
    }
}

/// Reads the columns that are in the keys of records.
pub(super) struct KeyReader {
    decoder: Box<dyn Decode>,
    /// Why a record without a key is malformed. `None`: its key columns are NULL.
    refusal: Option<String>,
    /// Whether a record without a value deletes the row of its key. If not, such a record is malformed.
    deletes: bool,
}

/// Decoded versions. Columns of a missing key or value are NULL.
pub(super) struct Versions {
    pub(super) values: Vec<ArrayRef>,
    pub(super) keys: Vec<ArrayRef>,
    /// The indexes of the decoded records, one per row.
    pub(super) good: Vec<usize>,
    /// The other records, with their errors.
    pub(super) malformed: Vec<(usize, String)>,
}

/// The keys or the values of records, decoded without the missing ones.
struct DecodedSide<'a> {
    records: &'a BinaryArray,
    columns: Vec<ArrayRef>,
    /// By index among the present ones.
    malformed: Peekable<std::vec::IntoIter<(usize, String)>>,
    present: usize,
    decoded: u32,
    /// The row of each decoded record.
    rows: Vec<Option<u32>>,
}

/// The key or the value of a record.
enum DecodedPart {
    Missing,
    Malformed(String),
    Row(u32),
}

impl<'a> DecodedSide<'a> {
    fn decode(decoder: &mut dyn Decode, records: &'a BinaryArray) -> Result<DecodedSide<'a>> {
        let Decoded { batch, malformed } = match records.null_count() {
            0 => decoder.decode(records)?,
            _ => decoder.decode(filter(records, &is_not_null(records)?)?.as_binary::<i32>())?,
        };
        let (columns, malformed) = (batch.columns().to_vec(), malformed.into_iter().peekable());
        Ok(DecodedSide { records, columns, malformed, present: 0, decoded: 0, rows: Vec::with_capacity(records.len()) })
    }

    /// The key or the value of this record. Records must be queried in order.
    fn part(&mut self, index: usize) -> DecodedPart {
        if self.records.is_null(index) {
            return DecodedPart::Missing;
        }
        self.present += 1;
        match self.malformed.next_if(|(bad, _)| *bad + 1 == self.present) {
            Some((_, error)) => DecodedPart::Malformed(error),
            None => {
                self.decoded += 1;
                DecodedPart::Row(self.decoded - 1)
            }
        }
    }

    /// The columns of the decoded records.
    fn finish(self) -> Result<Vec<ArrayRef>> {
        let is_whole = self.rows.len() == self.decoded as usize && self.rows.iter().all(Option::is_some);
        if is_whole {
            return Ok(self.columns);
        }
        let rows = UInt32Array::from(self.rows);
        self.columns.iter().map(|column| Ok(take(column, &rows, None)?)).collect()
    }
}

/// Decodes values and keys.
pub(super) fn decode(
    of_values: &mut dyn Decode,
    of_keys: &mut KeyReader,
    (values, keys): (&BinaryArray, &BinaryArray),
) -> Result<Versions> {
    let mut of_value = DecodedSide::decode(of_values, values)?;
    let mut of_key = DecodedSide::decode(of_keys.decoder.as_mut(), keys)?;
    let (mut good, mut malformed) = (Vec::new(), Vec::new());
    for index in 0..values.len() {
        let key = match (of_key.part(index), &of_keys.refusal) {
            (DecodedPart::Row(row), _) => Ok(Some(row)),
            (DecodedPart::Missing, None) => Ok(None),
            (DecodedPart::Missing, Some(refusal)) => Err(refusal.clone()),
            (DecodedPart::Malformed(error), _) => Err(format!("key: {error}")),
        };
        let value = match of_value.part(index) {
            DecodedPart::Row(row) => Ok(Some(row)),
            DecodedPart::Missing if of_keys.deletes => Ok(None),
            DecodedPart::Missing => Err("the record has no value".to_owned()),
            DecodedPart::Malformed(error) => Err(error),
        };
        match (key, value) {
            (Ok(key), Ok(value)) => {
                good.push(index);
                of_key.rows.push(key);
                of_value.rows.push(value);
            }
            (Err(error), _) | (_, Err(error)) => malformed.push((index, error)),
        }
    }
    Ok(Versions { values: of_value.finish()?, keys: of_key.finish()?, good, malformed })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Int64Type};

    use super::*;
    use crate::format::json::JsonOptions;

    fn decoder(name: &str) -> Box<dyn Decode> {
        let schema = Arc::new(Schema::new(vec![Field::new(name, DataType::Int64, true)]));
        Format::Json(JsonOptions::default()).decoder(&schema, &[0]).unwrap()
    }

    fn reader(deletes: bool, nullable: bool) -> KeyReader {
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, nullable)]));
        let format = Format::Json(JsonOptions::default());
        RecordKey { format, columns: vec![0], schema, in_values: deletes, deletes }.reader().unwrap()
    }

    fn ints(column: &ArrayRef) -> Vec<Option<i64>> {
        column.as_primitive::<Int64Type>().iter().collect()
    }

    #[test]
    fn a_record_is_a_row_if_its_key_and_its_value_can_be_decoded_or_the_value_is_missing() {
        let records = [
            (Some(r#"{"k": 1}"#), Some(r#"{"v": 10}"#)),
            (None, Some(r#"{"v": 20}"#)),
            (Some(r#"{"k": 3}"#), None),
            (Some(r#"{"k": 4}"#), Some(r#"{"v": "many"}"#)),
            (Some(r#"{"k": 5}"#), Some(r#"{"v": 50}"#)),
            (Some("no"), None),
            (None, None),
        ];
        let keys = BinaryArray::from_iter(records.iter().map(|(key, _)| *key));
        let values = BinaryArray::from_iter(records.iter().map(|(_, value)| *value));
        let read = |deletes, nullable| {
            let read = decode(decoder("v").as_mut(), &mut reader(deletes, nullable), (&values, &keys)).unwrap();
            let bad: Vec<usize> = read.malformed.iter().map(|(index, _)| *index).collect();
            (read.good.clone(), ints(&read.keys[0]), ints(&read.values[0]), bad, read.malformed)
        };
        let (good, keys_read, values_read, bad, malformed) = read(true, true);
        assert_eq!((good, keys_read), (vec![0, 2, 4], vec![Some(1), Some(3), Some(5)]));
        assert_eq!((values_read, bad), (vec![Some(10), None, Some(50)], vec![1, 3, 5, 6]));
        assert_eq!(malformed[0].1, "the record has no key");
        assert!(malformed[2].1.starts_with("key: "), "{malformed:?}");
        // In a table of rows, not of versions, a key may be missing, but not a value.
        let (good, keys_read, values_read, _, malformed) = read(false, true);
        assert_eq!((good, keys_read), (vec![0, 1, 4], vec![Some(1), None, Some(5)]));
        assert_eq!(values_read, [Some(10), Some(20), Some(50)]);
        assert_eq!(malformed[0], (2, "the record has no value".to_owned()));
        let (good, _, _, _, malformed) = read(false, false);
        assert_eq!(good, [0, 4]);
        assert_eq!(malformed[0].1, "the record has no key, but the column 'k' of the key is NOT NULL");
    }
}

//! Numbers and truth values as the bytes of a record, as Java's serializers and Flink's format `raw` write
//! them.

use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayData, ArrayRef, AsArray, BinaryArray, BooleanArray, make_array};
use arrow::buffer::{Buffer, MutableBuffer, OffsetBuffer};
use arrow::datatypes::DataType;

/// Values of one fixed length.
pub(super) struct Fixed {
    data_type: DataType,
    width: usize,
    /// Whether the bytes of a record are in another order than those of a column.
    swaps: bool,
}

impl Fixed {
    /// The format of a type whose values have a fixed length.
    pub(super) fn for_type(data_type: &DataType, little_endian: bool) -> Option<Fixed> {
        let width = match data_type {
            DataType::Boolean | DataType::Int8 => 1,
            DataType::Int16 => 2,
            DataType::Int32 | DataType::Float32 => 4,
            DataType::Int64 | DataType::Float64 => 8,
            _ => return None,
        };
        let swaps = little_endian != cfg!(target_endian = "little") && width > 1;
        Some(Fixed { data_type: data_type.clone(), width, swaps })
    }

    /// The values of the records with the right length, and the errors of the others.
    pub(super) fn decode(&self, records: &BinaryArray) -> Result<(ArrayRef, Vec<(usize, String)>)> {
        let mut bytes = MutableBuffer::with_capacity(records.len() * self.width);
        let mut malformed = Vec::new();
        for (index, record) in records.iter().enumerate() {
            match record {
                Some(record) if record.len() == self.width => self.push(&mut bytes, record),
                Some(record) => {
                    let (has, width) = (record.len(), self.width);
                    malformed.push((index, format!("the record has {has} bytes where a value has {width}")));
                }
                None => malformed.push((index, "the record is null".to_owned())),
            }
        }
        let rows = bytes.len() / self.width;
        if self.data_type == DataType::Boolean {
            let values = bytes.as_slice().iter().map(|byte| Some(*byte != 0)).collect::<BooleanArray>();
            return Ok((std::sync::Arc::new(values), malformed));
        }
        let data = ArrayData::builder(self.data_type.clone()).len(rows).add_buffer(bytes.into()).build();
        let data = data.map_err(|error| Error::internal(format!("numbers of raw records: {error}")))?;
        Ok((make_array(data), malformed))
    }

    /// One record per value. A value that is NULL is a record that is null.
    pub(super) fn encode(&self, column: &ArrayRef) -> Result<BinaryArray> {
        let rows = column.len();
        let mut bytes = MutableBuffer::with_capacity(rows * self.width);
        if let Some(values) = column.as_boolean_opt() {
            bytes.extend((0..rows).map(|row| u8::from(values.is_valid(row) && values.value(row))));
        } else {
            let data = column.to_data();
            let first = data.offset() * self.width;
            let values = data.buffers().first().map(Buffer::as_slice).unwrap_or_default();
            let values = values.get(first..first + rows * self.width);
            let values = values.ok_or_else(|| Error::internal("a column of numbers without its values"))?;
            values.chunks_exact(self.width).for_each(|value| self.push(&mut bytes, value));
        }
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(self.width, rows));
        Ok(BinaryArray::try_new(offsets, bytes.into(), column.logical_nulls())?)
    }

    fn push(&self, bytes: &mut MutableBuffer, value: &[u8]) {
        if self.swaps {
            bytes.extend(value.iter().rev().copied());
        } else {
            bytes.extend_from_slice(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int8Array, Int16Array, Int32Array, Int64Array};

    use super::*;

    /// Java's `ByteBuffer` is big-endian by default.
    #[test]
    fn numbers_are_bytes_in_the_order_that_is_asked_for() {
        let cases: [(ArrayRef, &[u8]); 6] = [
            (Arc::new(Int8Array::from(vec![-2])), &[0xfe]),
            (Arc::new(Int16Array::from(vec![258])), &[1, 2]),
            (Arc::new(Int32Array::from(vec![-2])), &[0xff, 0xff, 0xff, 0xfe]),
            (Arc::new(Int64Array::from(vec![258])), &[0, 0, 0, 0, 0, 0, 1, 2]),
            (Arc::new(Float64Array::from(vec![1.5])), &[0x3f, 0xf8, 0, 0, 0, 0, 0, 0]),
            (Arc::new(BooleanArray::from(vec![true])), &[1]),
        ];
        for (column, bytes) in cases {
            let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
            for (little_endian, bytes) in [(false, bytes), (true, &reversed)] {
                let fixed = Fixed::for_type(column.data_type(), little_endian).unwrap();
                let records = fixed.encode(&column).unwrap();
                assert_eq!(records.value(0), bytes, "{column:?}");
                assert_eq!(fixed.decode(&records).unwrap(), (Arc::clone(&column), Vec::new()));
            }
        }
    }

    #[test]
    fn a_record_of_another_length_is_malformed_and_null_is_no_record() {
        let fixed = Fixed::for_type(&DataType::Int32, false).unwrap();
        let records = BinaryArray::from_opt_vec(vec![Some(b"\0\0\0\x07"), Some(b"7"), None]);
        let (values, malformed) = fixed.decode(&records).unwrap();
        assert_eq!(values.as_ref(), &Int32Array::from(vec![7]) as &dyn Array);
        assert_eq!(malformed[0], (1, "the record has 1 bytes where a value has 4".to_owned()));
        assert_eq!(malformed[1].0, 2);
        let column: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
        let records = fixed.encode(&column.slice(1, 2)).unwrap();
        assert_eq!(records, BinaryArray::from_opt_vec(vec![None, Some(b"\0\0\0\x03")]));
    }
}

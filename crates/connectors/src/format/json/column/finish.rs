//! Converts filled nodes to Arrow arrays.

use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::{
    ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, GenericByteArray, GenericByteViewArray,
    ListArray, MapArray, PrimitiveArray, StructArray,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    BinaryType, BinaryViewType, ByteArrayType, ByteViewType, DataType, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, StringViewType, UInt8Type, UInt16Type, UInt32Type, UInt64Type, Utf8Type,
};

use super::unique::unique;
use super::{ColumnId, Columns, Ends, ROOT, Validity, Values};

impl Columns {
    /// The columns of the rows so far; the nodes are empty afterwards. Views point into `input`.
    pub(in super::super) fn finish(&mut self, rows: usize, input: Buffer) -> Result<Vec<ArrayRef>> {
        let extra = Buffer::from_vec(std::mem::take(&mut self.extra));
        let buffers: Arc<[Buffer]> = if extra.is_empty() { Arc::new([input]) } else { Arc::new([input, extra]) };
        self.children(ROOT).into_iter().map(|id| self.finish_node(id, rows, &buffers)).collect()
    }

    fn finish_node(&mut self, id: ColumnId, len: usize, buffers: &Arc<[Buffer]>) -> Result<ArrayRef> {
        let node = &mut self.nodes[id];
        let nulls = std::mem::take(&mut node.validity).finish(len);
        let data_type = node.data_type.clone();
        match &mut node.values {
            Values::Integers(values) => integers(&data_type, std::mem::take(values), len, nulls),
            Values::Views(values) => Ok(views(&data_type, std::mem::take(values), len, buffers, nulls)),
            Values::Bytes { ends, data } => {
                Ok(bytes(&data_type, std::mem::take(ends), std::mem::take(data), len, nulls))
            }
            Values::Floats(values) => {
                let values = std::mem::take(values);
                Ok(match data_type {
                    DataType::Float32 => primitive::<Float32Type, _>(&values, len, nulls, |value| value as f32),
                    _ => whole::<Float64Type>(values, len, nulls),
                })
            }
            Values::Decimals(values) => {
                let mut values = std::mem::take(values);
                values.truncate(len);
                Ok(Arc::new(Decimal128Array::try_new(values.into(), nulls)?.with_data_type(data_type)))
            }
            Values::List { ends, element } => {
                let (ends, element) = (std::mem::take(ends).finish(len), *element);
                let elements = self.finish_node(element, ends.last().copied().unwrap_or(0) as usize, buffers)?;
                match data_type {
                    DataType::List(field) => Ok(Arc::new(ListArray::try_new(field, ends, elements, nulls)?)),
                    DataType::Map(field, ordered) => {
                        let map = MapArray::try_new(field, ends, elements.as_struct().clone(), nulls, ordered)?;
                        Ok(Arc::new(unique(map)?))
                    }
                    other => Err(unexpected(&other)),
                }
            }
            Values::Struct => {
                let DataType::Struct(fields) = data_type else { return Err(unexpected(&data_type)) };
                let children = self.children(id).into_iter();
                let arrays = children.map(|child| self.finish_node(child, len, buffers)).collect::<Result<_>>()?;
                Ok(Arc::new(StructArray::try_new_with_length(fields, arrays, nulls, len)?))
            }
        }
    }
}

impl Ends {
    fn finish(mut self, len: usize) -> OffsetBuffer<i32> {
        self.0.truncate(len + 1);
        OffsetBuffer::new(ScalarBuffer::from(self.0))
    }
}

impl Validity {
    fn finish(mut self, len: usize) -> Option<NullBuffer> {
        if !self.any_null {
            return None;
        }
        self.bits.resize(len.div_ceil(8), u8::MAX);
        let nulls = NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(self.bits), 0, len));
        (nulls.null_count() > 0).then_some(nulls)
    }
}

fn unexpected(data_type: &DataType) -> Error {
    Error::internal(format!("no JSON column of type {data_type}"))
}

fn primitive<T: ArrowPrimitiveType, V: Copy>(
    values: &[V],
    len: usize,
    nulls: Option<NullBuffer>,
    narrow: impl Fn(V) -> T::Native,
) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.iter().take(len).map(|value| narrow(*value)).collect(), nulls))
}

fn whole<T: ArrowPrimitiveType>(mut values: Vec<T::Native>, len: usize, nulls: Option<NullBuffer>) -> ArrayRef {
    values.truncate(len);
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls))
}

/// The values fit the narrow types: their range was checked when they were written. A cast to a type of times
/// keeps the numbers, and does not copy them.
fn integers(data_type: &DataType, values: Vec<i64>, len: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    Ok(match data_type {
        DataType::Boolean => {
            let bits = BooleanBuffer::collect_bool(len, |row| values[row] != 0);
            Arc::new(BooleanArray::new(bits, nulls))
        }
        DataType::Int8 => primitive::<Int8Type, _>(&values, len, nulls, |value| value as i8),
        DataType::Int16 => primitive::<Int16Type, _>(&values, len, nulls, |value| value as i16),
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => {
            cast(&primitive::<Int32Type, _>(&values, len, nulls, |value| value as i32), data_type)?
        }
        DataType::Int64 | DataType::Time64(_) | DataType::Timestamp(..) => {
            cast(&whole::<Int64Type>(values, len, nulls), data_type)?
        }
        DataType::UInt8 => primitive::<UInt8Type, _>(&values, len, nulls, |value| value as u8),
        DataType::UInt16 => primitive::<UInt16Type, _>(&values, len, nulls, |value| value as u16),
        DataType::UInt32 => primitive::<UInt32Type, _>(&values, len, nulls, |value| value as u32),
        DataType::UInt64 => primitive::<UInt64Type, _>(&values, len, nulls, i64::cast_unsigned),
        other => return Err(unexpected(other)),
    })
}

fn views(
    data_type: &DataType,
    mut values: Vec<u128>,
    len: usize,
    buffers: &Arc<[Buffer]>,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    fn array<T: ByteViewType + ?Sized>(
        views: ScalarBuffer<u128>,
        buffers: &Arc<[Buffer]>,
        nulls: Option<NullBuffer>,
    ) -> GenericByteViewArray<T> {
        // SAFETY: each view names a buffer that holds its value, with the right length, prefix and offset, or
        // holds the value inline, padded with zeros. In text columns the value was checked to be UTF-8.
        // Buffer 1 is named only if something was written to it. Null slots hold the empty view.
        unsafe { GenericByteViewArray::new_unchecked(views, Arc::clone(buffers), nulls) }
    }
    values.truncate(len);
    match data_type {
        DataType::BinaryView => Arc::new(array::<BinaryViewType>(values.into(), buffers, nulls)),
        _ => Arc::new(array::<StringViewType>(values.into(), buffers, nulls)),
    }
}

fn bytes(data_type: &DataType, ends: Ends, data: Vec<u8>, len: usize, nulls: Option<NullBuffer>) -> ArrayRef {
    fn array<T: ByteArrayType<Offset = i32>>(
        ends: Ends,
        data: Vec<u8>,
        len: usize,
        nulls: Option<NullBuffer>,
    ) -> GenericByteArray<T> {
        // SAFETY: `ends` are ascending ends of values in `data`, each written after its value; of text
        // columns each value was found to be UTF-8.
        unsafe { GenericByteArray::new_unchecked(ends.finish(len), Buffer::from_vec(data), nulls) }
    }
    match data_type {
        DataType::Binary => Arc::new(array::<BinaryType>(ends, data, len, nulls)),
        _ => Arc::new(array::<Utf8Type>(ends, data, len, nulls)),
    }
}

//! Encodes arrays as buffers and back. An array is written as numbers (its rows, its nulls, the length of
//! each buffer) and its buffers unchanged, children after parents. The schema is known from the plan and is
//! not sent.
//!
//! Only the rows of a slice are written. Buffers begin at multiples of [`ALIGN`], which suits every type.

use anabranch_model::{Error, Result};
use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BinaryViewArray, BufferSpec, GenericByteViewArray, StringViewArray, layout,
    make_array,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{ByteArrayType, ByteViewType, DataType};
use arrow::datatypes::{GenericBinaryType, GenericStringType};

/// Where buffers begin: a multiple of this number of bytes.
pub(super) const ALIGN: usize = 64;

/// Number of views that are sampled to estimate how much of its buffers an array uses.
const VIEWS_SAMPLED: usize = 512;
/// In larger buffers all views are read: unused bytes that are sent are costly.
const SAMPLED_BYTES_MAX: usize = 1 << 20;
/// Bytes of a string that are in its view.
const VIEW_INLINE_MAX: u32 = 12;

/// `bytes`, including the padding before the next buffer.
pub(super) fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGN)
}

/// Numbers and buffers of arrays that are to be sent.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Each as four bytes, the lowest first.
    pub(super) numbers: Vec<u8>,
    pub(super) buffers: Vec<Buffer>,
    /// Bytes of the buffers, each with its padding.
    pub(super) bytes: usize,
}

impl Parts {
    /// A number too large for the format means a frame that is too large to be sent: its parts are discarded.
    fn number(&mut self, number: usize) {
        self.numbers.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
    }

    fn buffer(&mut self, buffer: Buffer) {
        self.number(buffer.len());
        self.bytes += padded(buffer.len());
        if !buffer.is_empty() {
            self.buffers.push(buffer);
        }
    }

    /// Adds an array.
    pub(super) fn array(&mut self, array: &dyn Array) -> Result<()> {
        self.number(array.len());
        match array.nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => {
                self.number(nulls.null_count());
                self.buffer(nulls.inner().sliced());
            }
            None => self.number(0),
        }
        match array.data_type() {
            DataType::Null => {}
            DataType::Boolean => self.buffer(array.as_boolean().values().sliced()),
            DataType::Utf8 => self.bytes_of::<GenericStringType<i32>>(array),
            DataType::LargeUtf8 => self.bytes_of::<GenericStringType<i64>>(array),
            DataType::Binary => self.bytes_of::<GenericBinaryType<i32>>(array),
            DataType::LargeBinary => self.bytes_of::<GenericBinaryType<i64>>(array),
            DataType::Utf8View => self.views(array.as_string_view()),
            DataType::BinaryView => self.views(array.as_binary_view()),
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                let (start, len) = self.offsets(list.offsets());
                self.array(&list.values().slice(start, len))?;
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                let (start, len) = self.offsets(list.offsets());
                self.array(&list.values().slice(start, len))?;
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let (start, len) = self.offsets(map.offsets());
                self.array(&map.entries().slice(start, len))?;
            }
            DataType::FixedSizeList(..) => self.array(array.as_fixed_size_list().values())?,
            DataType::Struct(_) => {
                array.as_struct().columns().iter().try_for_each(|column| self.array(column))?;
            }
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                self.values(dictionary.keys())?;
                self.array(dictionary.values())?;
            }
            _ => self.values(array)?,
        }
        Ok(())
    }

    /// The values of a type of fixed width.
    fn values(&mut self, array: &dyn Array) -> Result<()> {
        let width = width(array.data_type())?;
        let data = array.to_data();
        self.buffer(data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width));
        Ok(())
    }

    fn bytes_of<T: ByteArrayType>(&mut self, array: &dyn Array) {
        let array = array.as_bytes::<T>();
        let (start, len) = self.offsets(array.offsets());
        self.buffer(array.values().slice_with_length(start, len));
    }

    /// Adds offsets that begin at 0. Returns the index of the first value, and the number of values.
    fn offsets<O: arrow::array::OffsetSizeTrait>(&mut self, offsets: &OffsetBuffer<O>) -> (usize, usize) {
        let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
        self.buffer(match first.as_usize() {
            0 => offsets.inner().inner().clone(),
            _ => Buffer::from_vec(offsets.iter().map(|offset| *offset - first).collect::<Vec<O>>()),
        });
        (first.as_usize(), (last - first).as_usize())
    }

    fn views<T: ByteViewType + ?Sized>(&mut self, array: &GenericByteViewArray<T>) {
        let buffers = array.data_buffers();
        let held: usize = buffers.iter().map(Buffer::len).sum();
        // A copy costs less than sending twice as much, or many small buffers.
        let is_sparse = held > 0 && 2 * bytes_used(array.views(), held) < held;
        if is_sparse || buffers.len() > 16 + array.len() / 64 {
            return self.views_with(&array.gc());
        }
        self.views_with(array);
    }

    fn views_with<T: ByteViewType + ?Sized>(&mut self, array: &GenericByteViewArray<T>) {
        self.number(array.data_buffers().len());
        self.buffer(array.views().inner().clone());
        array.data_buffers().iter().for_each(|buffer| self.buffer(buffer.clone()));
    }
}

/// Bytes of the strings outside of the views. For many views over small buffers, an estimate from a sample.
fn bytes_used(views: &[u128], held: usize) -> usize {
    // An odd step samples all kinds of rows in data that repeats after 2, 4, 8, ... rows.
    let step = if held > SAMPLED_BYTES_MAX { 1 } else { (views.len() / VIEWS_SAMPLED).max(1) | 1 };
    let sampled = views.iter().step_by(step);
    let used = sampled.clone().map(|view| *view as u32).filter(|bytes| *bytes > VIEW_INLINE_MAX);
    let used: usize = used.map(|bytes| bytes as usize).sum();
    used * views.len() / sampled.len().max(1)
}

/// Whether arrays of the type can be sent.
pub(super) fn check_type(data_type: &DataType) -> Result<()> {
    match data_type {
        DataType::Null | DataType::Boolean | DataType::Utf8View | DataType::BinaryView => Ok(()),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => Ok(()),
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            check_type(field.data_type())
        }
        DataType::Map(entries, _) => check_type(entries.data_type()),
        DataType::Struct(fields) => fields.iter().try_for_each(|field| check_type(field.data_type())),
        DataType::Dictionary(keys, values) => width(keys).and_then(|_| check_type(values)),
        other => width(other).map(|_| ()),
    }
}

fn width(data_type: &DataType) -> Result<usize> {
    match layout(data_type).buffers.as_slice() {
        [BufferSpec::FixedWidth { byte_width, .. }] if !data_type.is_nested() => Ok(*byte_width),
        _ => Err(Error::internal(format!("an exchange between workers has a column of type {data_type}"))),
    }
}

/// Reads arrays out of the body of a frame, without copying. Nothing that it reads is trusted.
pub(super) struct Reader<'a> {
    numbers: &'a [u8],
    body: &'a Buffer,
    /// Where the next buffer begins.
    at: usize,
}

impl<'a> Reader<'a> {
    /// The body begins with this many numbers.
    pub(super) fn new(body: &'a Buffer, numbers: usize) -> Result<Self> {
        let bytes = numbers.saturating_mul(4);
        let found = body.as_slice().get(..bytes).ok_or_else(|| malformed("it is shorter than its numbers"))?;
        Ok(Reader { numbers: found, body, at: padded(bytes) })
    }

    /// Checks that everything was read.
    pub(super) fn end(self) -> Result<()> {
        match self.numbers.is_empty() && self.at == self.body.len() {
            true => Ok(()),
            false => Err(malformed("it is longer than its columns")),
        }
    }

    fn number(&mut self) -> Result<usize> {
        let (number, rest) = self.numbers.split_first_chunk().ok_or_else(|| malformed("numbers are missing"))?;
        self.numbers = rest;
        Ok(u32::from_le_bytes(*number) as usize)
    }

    fn buffer(&mut self) -> Result<Buffer> {
        let bytes = self.number()?;
        if self.at + padded(bytes) > self.body.len() {
            return Err(malformed("a buffer ends behind the frame"));
        }
        let buffer = self.body.slice_with_length(self.at, bytes);
        self.at += padded(bytes);
        Ok(buffer)
    }

    /// Reads a buffer of exactly this length. Arrow's own checks panic if a length is no multiple of the
    /// width.
    fn of_length(&mut self, bytes: usize) -> Result<Buffer> {
        let buffer = self.buffer()?;
        match buffer.len() == bytes {
            true => Ok(buffer),
            false => Err(malformed(format!("a buffer has {} bytes instead of {bytes}", buffer.len()))),
        }
    }

    /// Reads a column.
    pub(super) fn column(&mut self, data_type: &DataType) -> Result<ArrayRef> {
        Ok(make_array(self.array(data_type)?))
    }

    fn array(&mut self, data_type: &DataType) -> Result<ArrayData> {
        let (rows, null_count) = (self.number()?, self.number()?);
        let nulls = if null_count > 0 { Some(self.of_length(rows.div_ceil(8))?) } else { None };
        let data = ArrayData::builder(data_type.clone()).len(rows);
        let data = match data_type {
            DataType::Utf8View => return self.string_views(rows, nulls, null_count),
            DataType::Null => data,
            DataType::Boolean => data.add_buffer(self.of_length(rows.div_ceil(8))?),
            DataType::Utf8 | DataType::Binary => {
                data.add_buffer(self.of_length(4 * (rows + 1))?).add_buffer(self.buffer()?)
            }
            DataType::LargeUtf8 | DataType::LargeBinary => {
                data.add_buffer(self.of_length(8 * (rows + 1))?).add_buffer(self.buffer()?)
            }
            DataType::BinaryView => {
                let buffers = self.number()?;
                let data = data.add_buffer(self.of_length(16 * rows)?);
                (0..buffers).try_fold(data, |data, _| Ok::<_, Error>(data.add_buffer(self.buffer()?)))?
            }
            DataType::List(field) | DataType::Map(field, _) => {
                data.add_buffer(self.of_length(4 * (rows + 1))?).add_child_data(self.array(field.data_type())?)
            }
            DataType::LargeList(field) => {
                data.add_buffer(self.of_length(8 * (rows + 1))?).add_child_data(self.array(field.data_type())?)
            }
            DataType::FixedSizeList(field, _) => data.add_child_data(self.array(field.data_type())?),
            DataType::Struct(fields) => fields
                .iter()
                .try_fold(data, |data, field| Ok::<_, Error>(data.add_child_data(self.array(field.data_type())?)))?,
            DataType::Dictionary(keys, values) => {
                data.add_buffer(self.of_length(width(keys)? * rows)?).add_child_data(self.array(values)?)
            }
            other => data.add_buffer(self.of_length(width(other)? * rows)?),
        };
        // Checks lengths, alignment, the number of nulls, offsets, keys of dictionaries, views and UTF-8.
        let data = if nulls.is_some() { data.null_bit_buffer(nulls).null_count(null_count) } else { data };
        data.build().map_err(|error| malformed(error.to_string()))
    }

    /// Strings are nearly always ASCII. Their buffers are then checked at once, which costs a twentieth of
    /// the check of each string.
    fn string_views(&mut self, rows: usize, nulls: Option<Buffer>, null_count: usize) -> Result<ArrayData> {
        let buffers = self.number()?;
        let views = ScalarBuffer::<u128>::new(self.of_length(16 * rows)?, 0, rows);
        let nulls = nulls.map(|bits| NullBuffer::new(arrow::buffer::BooleanBuffer::new(bits, 0, rows)));
        if nulls.as_ref().map_or(0, NullBuffer::null_count) != null_count {
            return Err(malformed("the number of nulls is wrong"));
        }
        let mut data: Vec<Buffer> = Vec::new();
        for _ in 0..buffers {
            data.push(self.buffer()?);
        }
        let is_ascii = data.iter().all(|buffer| buffer.is_ascii()) && short_strings_are_ascii(&views);
        let wrong = |error: arrow::error::ArrowError| malformed(error.to_string());
        if !is_ascii {
            return Ok(StringViewArray::try_new(views, data, nulls).map_err(wrong)?.into_data());
        }
        let bytes = BinaryViewArray::try_new(views, data, nulls).map_err(wrong)?;
        // SAFETY: `try_new` has checked that every view is within its buffer, and all bytes are ASCII.
        Ok(unsafe { bytes.to_string_view_unchecked() }.into_data())
    }
}

/// A view has the length in its low 32 bits. Up to 12 bytes of a string are in the other bits.
fn short_strings_are_ascii(views: &[u128]) -> bool {
    const HIGH_BITS: u128 = 0x8080_8080_8080_8080_8080_8080_0000_0000;
    let not_ascii = |view: &u128| if *view as u32 <= VIEW_INLINE_MAX { *view & HIGH_BITS } else { 0 };
    views.iter().fold(0, |bits, view| bits | not_ascii(view)) == 0
}

/// The error for data that no worker sends.
pub(super) fn malformed(what: impl Into<String>) -> Error {
    Error::outside(format!("a frame is malformed: {}", what.into()))
}

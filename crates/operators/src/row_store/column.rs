//! One column of rows that are identified by their numbers.

use std::cmp::Ordering;

use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};

use super::bytes::Bytes;
use super::words::Words;
use crate::key_hash;
use crate::key_table::{INLINE, Nulls, Values, check_bytes, texts_array, words_array};

/// A column of values in an order.
pub(super) struct StoreColumn {
    data_type: DataType,
    cells: Cells,
    nulls: Nulls,
    options: SortOptions,
}

enum Cells {
    /// Types of one machine word.
    Words(Words),
    Texts(Bytes),
    /// Other types, as Arrow's row format encodes them, with nulls.
    Encoded(Box<RowConverter>, Bytes),
}

/// What a row of a batch is compared with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Comparand {
    /// The row with this number.
    Kept(usize),
    /// Another row of the batch.
    Row(usize),
}

impl StoreColumn {
    /// An empty column. A type that has no encoding is an error.
    pub(super) fn new(data_type: &DataType, options: SortOptions) -> Result<StoreColumn> {
        let cells = match data_type {
            _ if key_hash::is_word(data_type) => Cells::Words(Words::default()),
            DataType::Utf8View | DataType::Utf8 => Cells::Texts(Bytes::default()),
            _ => {
                let field = SortField::new_with_options(data_type.clone(), options);
                let converter = RowConverter::new(vec![field]).map_err(|e| {
                    Error::user(format!("these columns cannot be kept: {e}")).remedy("cast them to strings or numbers")
                })?;
                Cells::Encoded(Box::new(converter), Bytes::default())
            }
        };
        Ok(StoreColumn { data_type: data_type.clone(), cells, nulls: Nulls::default(), options })
    }

    pub(super) fn size_bytes(&self) -> usize {
        let cells = match &self.cells {
            Cells::Words(words) => words.size_bytes(),
            Cells::Texts(texts) => texts.size_bytes(),
            Cells::Encoded(converter, bytes) => converter.size() + bytes.size_bytes(),
        };
        cells + self.nulls.size_bytes()
    }

    /// A column of a batch in the form of this one.
    pub(super) fn values<'a>(&self, column: &'a ArrayRef) -> Result<Values<'a>> {
        match &self.cells {
            Cells::Words(_) => Values::words(column),
            Cells::Texts(_) => Values::texts(column),
            Cells::Encoded(converter, _) => Values::encoded(column, converter),
        }
    }

    /// Puts the values of these rows at these numbers, each of which is there or is the next one.
    pub(super) fn put(&mut self, values: &Values<'_>, rows: &[usize], at: &[usize]) -> Result<()> {
        let StoreColumn { cells, nulls, .. } = self;
        match (cells, values) {
            (Cells::Words(words), Values::Words(values, other_nulls)) => {
                words.reserve(rows.len());
                for (row, id) in rows.iter().zip(at) {
                    let is_null = other_nulls.is_some_and(|nulls| nulls.is_null(*row));
                    nulls.set(*id, is_null);
                    if is_null { words.put_none(*id) } else { words.put(*id, values[*row]) }
                }
            }
            (Cells::Texts(texts), Values::Texts(values)) => {
                texts.reserve(rows.len(), rows.iter().map(|row| values.views()[*row] as u32 as usize).sum())?;
                for (row, id) in rows.iter().zip(at) {
                    let is_null = values.is_null(*row);
                    nulls.set(*id, is_null);
                    texts.put(*id, if is_null { &[] } else { values.value(*row).as_bytes() });
                }
                texts.tidy();
            }
            (Cells::Encoded(_, bytes), Values::Encoded(values)) => {
                bytes.reserve(rows.len(), rows.iter().map(|row| values.row(*row).data().len()).sum())?;
                rows.iter().zip(at).for_each(|(row, id)| bytes.put(*id, values.row(*row).data()));
                bytes.tidy();
            }
            _ => return Err(Error::internal("a column of another form")),
        }
        Ok(())
    }

    /// How the value of a row of a batch compares with another one.
    pub(super) fn order(&self, values: &Values<'_>, row: usize, other: Comparand) -> Ordering {
        let other_is_null = match other {
            Comparand::Kept(id) => self.nulls.contains(id),
            Comparand::Row(other) => values.is_null(other),
        };
        let null = if self.options.nulls_first { Ordering::Less } else { Ordering::Greater };
        match (values.is_null(row), other_is_null) {
            (true, true) => return Ordering::Equal,
            (true, false) => return null,
            (false, true) => return null.reverse(),
            (false, false) => {}
        }
        let ascending = match (&self.cells, values) {
            (Cells::Words(words), Values::Words(values, _)) => {
                let other = match other {
                    Comparand::Kept(id) => words.get(id),
                    Comparand::Row(other) => values[other],
                };
                self.in_order(values[row]).cmp(&self.in_order(other))
            }
            (Cells::Texts(texts), Values::Texts(values)) => {
                let other = match other {
                    Comparand::Kept(id) => texts.get(id),
                    Comparand::Row(other) => values.value(other).as_bytes(),
                };
                values.value(row).as_bytes().cmp(other)
            }
            (Cells::Encoded(_, bytes), Values::Encoded(values)) => {
                let other = match other {
                    Comparand::Kept(id) => bytes.get(id),
                    Comparand::Row(other) => values.row(other).data(),
                };
                return values.row(row).data().cmp(other);
            }
            _ => Ordering::Equal,
        };
        if self.options.descending { ascending.reverse() } else { ascending }
    }

    /// A number for each row of a batch: rows with different prefixes are ordered by them. Rows with the same
    /// prefix may differ.
    pub(super) fn prefixes(&self, values: &Values<'_>, rows: usize) -> Vec<u64> {
        let null = if self.options.nulls_first { 0 } else { u64::MAX };
        let directed = |number: u64| if self.options.descending { !number } else { number };
        let unless_null = |row: usize, number: &dyn Fn() -> u64| match values.is_null(row) {
            true => null,
            false => directed(number()),
        };
        match values {
            Values::Words(words, None) => words.iter().map(|word| directed(self.in_order(*word))).collect(),
            Values::Words(words, Some(_)) => {
                (0..rows).map(|row| unless_null(row, &|| self.in_order(words[row]))).collect()
            }
            Values::Texts(texts) => {
                (0..rows).map(|row| unless_null(row, &|| first_bytes(texts.value(row).as_bytes()))).collect()
            }
            Values::Encoded(encoded) => (0..rows).map(|row| first_bytes(encoded.row(row).data())).collect(),
        }
    }

    /// A number with the order of the values.
    #[inline(always)]
    fn in_order(&self, word: u64) -> u64 {
        const SIGN: u64 = 1 << 63;
        match self.data_type {
            DataType::UInt64 | DataType::UInt32 => word,
            // Negative numbers have the reverse order.
            DataType::Float64 if word & SIGN != 0 => !word,
            _ => word ^ SIGN,
        }
    }

    /// The values with these numbers as an array.
    pub(super) fn array_of(&self, ids: &[usize]) -> Result<ArrayRef> {
        let nulls = self.nulls.buffer_of(ids);
        match &self.cells {
            Cells::Words(words) => {
                let words: Vec<u64> = ids.iter().map(|id| words.get(*id)).collect();
                words_array(&words, nulls, &self.data_type)
            }
            Cells::Texts(texts) => texts_of(texts, ids, nulls, &self.data_type),
            Cells::Encoded(converter, bytes) => {
                let parser = converter.parser();
                let mut columns = converter.convert_rows(ids.iter().map(|id| parser.parse(bytes.get(*id))))?;
                columns.pop().ok_or_else(|| Error::internal("a row without its column"))
            }
        }
    }
}

/// Texts with these numbers as an array, with the bytes of those that are too long for their view.
fn texts_of(texts: &Bytes, ids: &[usize], nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef> {
    let (places, data) = (texts.places(), texts.data());
    let len = |id: &usize| texts.start_and_len(places[*id]).1;
    let long = ids.iter().map(len).filter(|len| *len > INLINE).sum::<usize>();
    check_bytes(long)?;
    let mut bytes: Vec<u8> = Vec::with_capacity(long);
    let view = |id: &usize| {
        let (start, len) = texts.start_and_len(places[*id]);
        if len <= INLINE {
            return short_view(data, start, len);
        }
        let (text, at) = (&data[start..start + len], bytes.len());
        bytes.extend_from_slice(text);
        let head = u32::from_le_bytes([text[0], text[1], text[2], text[3]]);
        len as u128 | u128::from(head) << 32 | (at as u128) << 96
    };
    let views = ids.iter().map(view).collect::<Vec<u128>>();
    texts_array(views, bytes.into(), nulls, data_type)
}

/// The view of a text that lies in it.
#[inline(always)]
fn short_view(data: &[u8], start: usize, len: usize) -> u128 {
    let mut text = [0; 16];
    match data.get(start..start + 16) {
        // A whole view is read at once, and the bytes after the text are cleared.
        Some(more) => text.copy_from_slice(more),
        None => text[..len].copy_from_slice(&data[start..start + len]),
    }
    let text = u128::from_le_bytes(text) & ((1 << (8 * len)) - 1);
    text << 32 | len as u128
}

/// The first eight bytes as a number, padded with zeros.
fn first_bytes(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    let len = bytes.len().min(8);
    first[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(first)
}

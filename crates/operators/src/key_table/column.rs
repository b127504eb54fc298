//! One column of keys, or of other rows that are kept by their numbers.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::DataType;
use arrow::row::{Row, RowConverter, Rows, SortField};

use super::{give_back, words_array};
use crate::key_hash;

/// The longest string that is in its view. A longer one has only its first four bytes there.
const INLINE: usize = 12;
/// The low half of a view: length and first four bytes.
const HEAD: u128 = u64::MAX as u128;

/// A column of keys, by id.
pub(crate) struct Column {
    data_type: DataType,
    keys: Keys,
    nulls: Nulls,
    /// How its values are ordered.
    options: SortOptions,
}

enum Keys {
    /// Types of one machine word.
    Words(Vec<u64>),
    /// Strings as views; `data` holds those that are too long for theirs. The high half of such a view is the place in `data`.
    Texts { views: Vec<u128>, data: Vec<u8> },
    /// Other types, as Arrow's row format encodes them, with nulls.
    Encoded { converter: Box<RowConverter>, ends: Vec<usize>, data: Vec<u8> },
}

/// The keys that are null.
#[derive(Default)]
struct Nulls {
    /// By id; shorter if the last ones are not null.
    flags: Vec<bool>,
}

/// The column of a batch, in the form of the column of keys.
pub(crate) enum Values<'a> {
    Words(Cow<'a, [u64]>, Option<&'a NullBuffer>),
    Texts(Cow<'a, StringViewArray>),
    Encoded(Rows),
}

impl Values<'_> {
    fn is_null(&self, row: usize) -> bool {
        match self {
            Values::Words(_, nulls) => nulls.is_some_and(|nulls| nulls.is_null(row)),
            Values::Texts(texts) => texts.is_null(row),
            // The encoding says it.
            Values::Encoded(_) => false,
        }
    }
}

/// What a row of a batch is compared with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Other {
    /// The key with this id.
    Kept(usize),
    /// Another row of the batch.
    Row(usize),
}

impl Nulls {
    #[inline]
    fn contains(&self, id: usize) -> bool {
        self.flags.get(id).is_some_and(|null| *null)
    }

    fn add(&mut self, id: usize) {
        self.flags.resize(id, false);
        self.flags.push(true);
    }

    fn buffer(&self, len: usize) -> Option<NullBuffer> {
        (!self.flags.is_empty()).then(|| (0..len).map(|id| !self.contains(id)).collect())
    }
}

impl Drop for Column {
    fn drop(&mut self) {
        match &mut self.keys {
            Keys::Words(_) => {}
            Keys::Texts { data, .. } | Keys::Encoded { data, .. } => give_back(data),
        }
    }
}

impl Column {
    /// An empty column of keys. A type that has no encoding is an error.
    pub(super) fn new(data_type: &DataType) -> Result<Column> {
        Column::ordered(data_type, SortOptions::default())
    }

    /// An empty column of values in an order. A type that has no encoding is an error.
    pub(crate) fn ordered(data_type: &DataType, options: SortOptions) -> Result<Column> {
        let keys = match data_type {
            _ if key_hash::is_word(data_type) => Keys::Words(Vec::new()),
            DataType::Utf8View | DataType::Utf8 => Keys::Texts { views: Vec::new(), data: Vec::new() },
            _ => {
                let field = SortField::new_with_options(data_type.clone(), options);
                let converter = RowConverter::new(vec![field]).map_err(|e| {
                    Error::user(format!("these columns cannot be keys: {e}")).remedy("cast them to strings or numbers")
                })?;
                Keys::Encoded { converter: Box::new(converter), ends: Vec::new(), data: Vec::new() }
            }
        };
        Ok(Column { data_type: data_type.clone(), keys, nulls: Nulls::default(), options })
    }

    pub(crate) fn size_bytes(&self) -> usize {
        let keys = match &self.keys {
            Keys::Words(words) => words.capacity() * size_of::<u64>(),
            Keys::Texts { views, data } => views.capacity() * size_of::<u128>() + data.capacity(),
            Keys::Encoded { converter, ends, data } => {
                converter.size() + ends.capacity() * size_of::<usize>() + data.capacity()
            }
        };
        keys + self.nulls.flags.capacity()
    }

    pub(super) fn clear(&mut self) {
        self.nulls.flags.clear();
        match &mut self.keys {
            Keys::Words(words) => words.clear(),
            Keys::Texts { views, data } => (views.clear(), data.clear()).0,
            Keys::Encoded { ends, data, .. } => (ends.clear(), data.clear()).0,
        }
    }

    /// A column of a batch in the form of this one.
    pub(crate) fn values<'a>(&self, column: &'a ArrayRef) -> Result<Values<'a>> {
        Ok(match &self.keys {
            Keys::Words(_) => {
                let words = key_hash::words(column)
                    .ok_or_else(|| Error::internal(format!("{} is not a word key", column.data_type())))?;
                Values::Words(words, some_nulls(column.as_ref()))
            }
            Keys::Texts { .. } if column.data_type() == &DataType::Utf8View => {
                Values::Texts(Cow::Borrowed(column.as_string_view()))
            }
            Keys::Texts { .. } => {
                Values::Texts(Cow::Owned(cast(column, &DataType::Utf8View)?.as_string_view().clone()))
            }
            Keys::Encoded { converter, .. } => {
                Values::Encoded(converter.convert_columns(&[key_hash::canonical(column)])?)
            }
        })
    }

    /// Adds the keys of these rows.
    pub(crate) fn append(&mut self, values: &Values<'_>, rows: &[usize]) -> Result<()> {
        match (&mut self.keys, values) {
            (Keys::Words(words), Values::Words(values, nulls)) => {
                words.reserve(rows.len());
                for row in rows {
                    if nulls.is_some_and(|nulls| nulls.is_null(*row)) {
                        self.nulls.add(words.len());
                    }
                    words.push(values[*row]);
                }
            }
            (Keys::Texts { views, data }, Values::Texts(values)) => {
                views.reserve(rows.len());
                let long = |row: &usize| Some(values.views()[*row] as u32 as usize).filter(|len| *len > INLINE);
                data.reserve(rows.iter().filter_map(long).sum());
                for row in rows {
                    if values.is_null(*row) {
                        self.nulls.add(views.len());
                        views.push(0);
                        continue;
                    }
                    views.push(kept(values.views()[*row], values.value(*row).as_bytes(), data));
                }
            }
            (Keys::Encoded { ends, data, .. }, Values::Encoded(values)) => {
                for row in rows {
                    data.extend_from_slice(values.row(*row).data());
                    ends.push(data.len());
                }
            }
            _ => return Err(Error::internal("a column of another form")),
        }
        Ok(())
    }

    /// Adds to `differing` those of the rows whose value is not that of the key `id_of` row. An id that no key has is equal.
    pub(super) fn compare(
        &self,
        values: &Values<'_>,
        id_of: impl Fn(usize) -> usize,
        rows: impl Iterator<Item = usize> + Clone,
        differing: &mut Vec<usize>,
    ) {
        match (&self.keys, values) {
            (Keys::Words(words), Values::Words(values, None)) if self.nulls.flags.is_empty() => {
                differ(rows, differing, |row| words.get(id_of(row)).is_none_or(|word| *word == values[row]));
            }
            (Keys::Texts { views, data }, Values::Texts(values))
                if self.nulls.flags.is_empty() && some_nulls(values.as_ref()).is_none() =>
            {
                let others = values.views();
                differ(rows, differing, |row| {
                    let other = others[row];
                    views.get(id_of(row)).is_none_or(|view| same_text(*view, data, other, values, row))
                });
            }
            _ => {
                let len = self.len();
                differ(rows, differing, |row| match id_of(row) {
                    id if id < len => self.equal(values, row, id),
                    _ => true,
                });
            }
        }
    }

    /// Whether a row's value is that of the key `id`.
    pub(super) fn equal(&self, values: &Values<'_>, row: usize, id: usize) -> bool {
        let is_null = self.nulls.contains(id);
        match (&self.keys, values) {
            (Keys::Words(words), Values::Words(values, nulls)) => {
                let other_null = nulls.is_some_and(|nulls| nulls.is_null(row));
                is_null == other_null && (is_null || words[id] == values[row])
            }
            (Keys::Texts { views, data }, Values::Texts(values)) => {
                let other = values.views()[row];
                is_null == values.is_null(row) && (is_null || same_text(views[id], data, other, values, row))
            }
            (Keys::Encoded { ends, data, .. }, Values::Encoded(values)) => {
                values.row(row).data() == encoded(ends, data, id)
            }
            _ => false,
        }
    }

    /// How the value of a row of a batch compares with another one.
    pub(crate) fn order(&self, values: &Values<'_>, row: usize, other: Other) -> Ordering {
        let other_is_null = match other {
            Other::Kept(id) => self.nulls.contains(id),
            Other::Row(other) => values.is_null(other),
        };
        let null = if self.options.nulls_first { Ordering::Less } else { Ordering::Greater };
        match (values.is_null(row), other_is_null) {
            (true, true) => return Ordering::Equal,
            (true, false) => return null,
            (false, true) => return null.reverse(),
            (false, false) => {}
        }
        let ascending = match (&self.keys, values) {
            (Keys::Words(words), Values::Words(values, _)) => {
                let other = match other {
                    Other::Kept(id) => words[id],
                    Other::Row(other) => values[other],
                };
                self.in_order(values[row]).cmp(&self.in_order(other))
            }
            (Keys::Texts { views, data }, Values::Texts(values)) => {
                let text = values.value(row).as_bytes();
                match other {
                    Other::Kept(id) => with_text(views[id], data, |other| text.cmp(other)),
                    Other::Row(other) => text.cmp(values.value(other).as_bytes()),
                }
            }
            (Keys::Encoded { ends, data, .. }, Values::Encoded(values)) => {
                let other = match other {
                    Other::Kept(id) => encoded(ends, data, id),
                    Other::Row(other) => values.row(other).data(),
                };
                return values.row(row).data().cmp(other);
            }
            _ => Ordering::Equal,
        };
        if self.options.descending { ascending.reverse() } else { ascending }
    }

    /// A number for each row of a batch: rows with different ones are ordered as they are. Rows with the same may be different.
    pub(crate) fn prefixes(&self, values: &Values<'_>, rows: usize) -> Vec<u64> {
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

    /// A word as a number that is ordered as the values are.
    #[inline(always)]
    fn in_order(&self, word: u64) -> u64 {
        const SIGN: u64 = 1 << 63;
        match self.data_type {
            DataType::UInt64 | DataType::UInt32 => word,
            // Those below zero are in reverse order.
            DataType::Float64 if word & SIGN != 0 => !word,
            _ => word ^ SIGN,
        }
    }

    fn len(&self) -> usize {
        match &self.keys {
            Keys::Words(words) => words.len(),
            Keys::Texts { views, .. } => views.len(),
            Keys::Encoded { ends, .. } => ends.len(),
        }
    }

    /// The keys of these ids as an array.
    pub(crate) fn array_of(&self, ids: &[usize]) -> Result<ArrayRef> {
        let nulls: Option<NullBuffer> =
            (!self.nulls.flags.is_empty()).then(|| ids.iter().map(|id| !self.nulls.contains(*id)).collect());
        Ok(match &self.keys {
            Keys::Words(words) => {
                let words: Vec<u64> = ids.iter().map(|id| words[*id]).collect();
                words_array(&words, nulls, &self.data_type)?
            }
            Keys::Texts { views, data } => texts_of(ids.iter().map(|id| views[*id]), data, nulls, &self.data_type)?,
            Keys::Encoded { converter, ends, data } => {
                let parser = converter.parser();
                decoded(converter, ids.iter().map(|id| parser.parse(encoded(ends, data, *id))))?
            }
        })
    }

    /// The keys as an array, by id.
    pub(super) fn array(&self) -> Result<ArrayRef> {
        let nulls = self.nulls.buffer(self.len());
        Ok(match &self.keys {
            Keys::Words(words) => words_array(words, nulls, &self.data_type)?,
            Keys::Texts { views, data } => match u32::try_from(data.len()) {
                Ok(_) => {
                    let placed = views.iter().map(|view| placed(*view, start_of(*view))).collect();
                    texts_array(placed, Buffer::from_slice_ref(data), nulls, &self.data_type)?
                }
                Err(_) => texts_of(views.iter().copied(), data, nulls, &self.data_type)?,
            },
            Keys::Encoded { converter, ends, data } => {
                let parser = converter.parser();
                decoded(converter, (0..ends.len()).map(|id| parser.parse(encoded(ends, data, id))))?
            }
        })
    }
}

fn some_nulls(array: &dyn Array) -> Option<&NullBuffer> {
    array.nulls().filter(|nulls| nulls.null_count() > 0)
}

/// The texts of kept views as an array, with the bytes of the long ones.
fn texts_of(
    kept: impl Iterator<Item = u128> + Clone,
    data: &[u8],
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let long = kept.clone().map(|view| view as u32 as usize).filter(|len| *len > INLINE).sum::<usize>();
    if u32::try_from(long).is_err() {
        return Err(Error::user("texts that are needed at once exceed 4 GiB")
            .remedy("use shorter texts, or let the state be on disk: 'state-backend' = 'disk'"));
    }
    let mut bytes = Vec::with_capacity(long);
    let views = kept.map(|view| {
        let offset = bytes.len();
        if view as u32 as usize > INLINE {
            bytes.extend_from_slice(&data[start_of(view)..][..view as u32 as usize]);
        }
        placed(view, offset)
    });
    let views = views.collect::<Vec<_>>();
    texts_array(views, Buffer::from_vec(bytes), nulls, data_type)
}

/// The view of an array for a kept one, whose text is at this place in the only buffer if it is long.
#[inline(always)]
fn placed(view: u128, offset: usize) -> u128 {
    if view as u32 as usize <= INLINE { view } else { (view & HEAD) | (offset as u128) << 96 }
}

/// Texts as an array. The views are those of kept texts, with the places of the long ones in `data`.
fn texts_array(views: Vec<u128>, data: Buffer, nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef> {
    let buffers = if data.is_empty() { Vec::new() } else { vec![data] };
    // SAFETY: each view is that of a valid array, with the place of its bytes in the one buffer: length and first bytes agree with them,
    // short ones are padded with zeros, and all of them are UTF-8 because they were copied from a valid array.
    let texts: ArrayRef =
        Arc::new(unsafe { StringViewArray::new_unchecked(ScalarBuffer::from(views), buffers, nulls) });
    match data_type {
        DataType::Utf8View => Ok(texts),
        other => Ok(cast(&texts, other)?),
    }
}

/// The text of a kept view.
fn with_text<R>(view: u128, data: &[u8], then: impl FnOnce(&[u8]) -> R) -> R {
    match view as u32 as usize {
        len if len <= INLINE => then(&view.to_le_bytes()[4..4 + len]),
        len => then(&data[start_of(view)..][..len]),
    }
}

/// Where the bytes of a long text begin.
#[inline(always)]
fn start_of(view: u128) -> usize {
    (view >> 64) as usize
}

fn decoded<'a>(converter: &RowConverter, rows: impl Iterator<Item = Row<'a>>) -> Result<ArrayRef> {
    let mut columns = converter.convert_rows(rows)?;
    columns.pop().ok_or_else(|| Error::internal("a row without its column"))
}

/// The first eight bytes as a number; bytes that are missing are zero.
fn first_bytes(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    let len = bytes.len().min(8);
    first[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(first)
}

/// The encoding of the key `id`.
fn encoded<'a>(ends: &[usize], data: &'a [u8], id: usize) -> &'a [u8] {
    let start = if id == 0 { 0 } else { ends[id - 1] };
    &data[start..ends[id]]
}

/// Adds the rows that are not equal. Most batches have none: whether there is any is found without a branch per row.
#[inline(always)]
fn differ(rows: impl Iterator<Item = usize> + Clone, differing: &mut Vec<usize>, equal: impl Fn(usize) -> bool) {
    if !rows.clone().fold(true, |all, row| all & equal(row)) {
        differing.extend(rows.filter(|row| !equal(*row)));
    }
}

/// The view of a key, whose text goes to `data` if it is long.
#[inline(always)]
fn kept(view: u128, text: &[u8], data: &mut Vec<u8>) -> u128 {
    if text.len() <= INLINE {
        return view;
    }
    let start = data.len();
    data.extend_from_slice(text);
    (view & HEAD) | (start as u128) << 64
}

/// Whether the text of a row, whose view is `other`, is that of a key.
#[inline(always)]
fn same_text(view: u128, data: &[u8], other: u128, values: &StringViewArray, row: usize) -> bool {
    let len = view as u32 as usize;
    if len <= INLINE {
        return view == other;
    }
    let start = start_of(view);
    (view ^ other) & HEAD == 0 && data[start..start + len] == *values.value(row).as_bytes()
}

//! One column of keys.

use std::borrow::Cow;
use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::row::{Row, RowConverter, Rows, SortField};

use super::{give_back, words_array};
use crate::key_hash;

/// The longest string that lies in its view. A longer one has only its first four bytes there.
pub(crate) const INLINE: usize = 12;
/// The low half of a view: length and first four bytes.
const HEAD: u128 = u64::MAX as u128;

/// A column of keys, by id.
pub(super) struct KeyColumn {
    data_type: DataType,
    keys: Keys,
    nulls: Nulls,
}

enum Keys {
    /// Types of one machine word.
    Words(Vec<u64>),
    /// Strings as views; `data` holds those that do not fit into their view. The high half of such a view is
    /// the offset in `data`.
    Texts { views: Vec<u128>, data: Vec<u8> },
    /// Other types, as Arrow's row format encodes them, with nulls.
    Encoded { converter: Box<RowConverter>, ends: Vec<usize>, data: Vec<u8> },
}

/// The keys that are null.
#[derive(Default)]
pub(crate) struct Nulls {
    /// By id; shorter if the last ones are not null.
    flags: Vec<bool>,
}

/// A column of a batch, in the form of the column of keys.
pub(crate) enum Values<'a> {
    Words(Cow<'a, [u64]>, Option<&'a NullBuffer>),
    Texts(Cow<'a, StringViewArray>),
    Encoded(Rows),
}

impl<'a> Values<'a> {
    pub(crate) fn words(column: &'a ArrayRef) -> Result<Values<'a>> {
        let words = key_hash::words(column);
        let words = words.ok_or_else(|| Error::internal(format!("{} is not a word key", column.data_type())))?;
        Ok(Values::Words(words, some_nulls(column.as_ref())))
    }

    pub(crate) fn texts(column: &'a ArrayRef) -> Result<Values<'a>> {
        Ok(Values::Texts(match column.data_type() {
            DataType::Utf8View => Cow::Borrowed(column.as_string_view()),
            _ => Cow::Owned(cast(column, &DataType::Utf8View)?.as_string_view().clone()),
        }))
    }

    pub(crate) fn encoded(column: &ArrayRef, converter: &RowConverter) -> Result<Values<'a>> {
        Ok(Values::Encoded(converter.convert_columns(&[key_hash::canonical(column)])?))
    }

    pub(crate) fn is_null(&self, row: usize) -> bool {
        match self {
            Values::Words(_, nulls) => nulls.is_some_and(|nulls| nulls.is_null(row)),
            Values::Texts(texts) => texts.is_null(row),
            // The encoding contains nulls.
            Values::Encoded(_) => false,
        }
    }
}

impl Nulls {
    #[inline]
    pub(crate) fn contains(&self, id: usize) -> bool {
        self.flags.get(id).is_some_and(|null| *null)
    }

    fn add(&mut self, id: usize) {
        self.flags.resize(id, false);
        self.flags.push(true);
    }

    /// Sets whether a key is null.
    #[inline]
    pub(crate) fn set(&mut self, id: usize, is_null: bool) {
        match self.flags.get_mut(id) {
            Some(flag) => *flag = is_null,
            None if is_null => self.add(id),
            None => {}
        }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.flags.capacity()
    }

    fn buffer(&self, len: usize) -> Option<NullBuffer> {
        (!self.flags.is_empty()).then(|| (0..len).map(|id| !self.contains(id)).collect())
    }

    /// The null buffer of these keys.
    pub(crate) fn buffer_of(&self, ids: &[usize]) -> Option<NullBuffer> {
        (!self.flags.is_empty()).then(|| ids.iter().map(|id| !self.contains(*id)).collect())
    }
}

impl Drop for KeyColumn {
    fn drop(&mut self) {
        match &mut self.keys {
            Keys::Words(_) => {}
            Keys::Texts { data, .. } | Keys::Encoded { data, .. } => give_back(data),
        }
    }
}

impl KeyColumn {
    /// An empty column of keys. A type that has no encoding is an error.
    pub(super) fn new(data_type: &DataType) -> Result<KeyColumn> {
        let keys = match data_type {
            _ if key_hash::is_word(data_type) => Keys::Words(Vec::new()),
            DataType::Utf8View | DataType::Utf8 => Keys::Texts { views: Vec::new(), data: Vec::new() },
            _ => {
                let field = SortField::new(data_type.clone());
                let converter = RowConverter::new(vec![field]).map_err(|e| {
                    Error::user(format!("these columns cannot be keys: {e}")).remedy("cast them to strings or numbers")
                })?;
                Keys::Encoded { converter: Box::new(converter), ends: Vec::new(), data: Vec::new() }
            }
        };
        Ok(KeyColumn { data_type: data_type.clone(), keys, nulls: Nulls::default() })
    }

    pub(crate) fn size_bytes(&self) -> usize {
        let keys = match &self.keys {
            Keys::Words(words) => words.capacity() * size_of::<u64>(),
            Keys::Texts { views, data } => views.capacity() * size_of::<u128>() + data.capacity(),
            Keys::Encoded { converter, ends, data } => {
                converter.size() + ends.capacity() * size_of::<usize>() + data.capacity()
            }
        };
        keys + self.nulls.size_bytes()
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
    pub(super) fn values<'a>(&self, column: &'a ArrayRef) -> Result<Values<'a>> {
        match &self.keys {
            Keys::Words(_) => Values::words(column),
            Keys::Texts { .. } => Values::texts(column),
            Keys::Encoded { converter, .. } => Values::encoded(column, converter),
        }
    }

    /// Adds the keys of these rows.
    pub(super) fn append(&mut self, values: &Values<'_>, rows: &[usize]) -> Result<()> {
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

    /// Adds to `differing` the rows whose value differs from that of the key `id_of(row)`. An id without a
    /// key counts as equal.
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

    fn len(&self) -> usize {
        match &self.keys {
            Keys::Words(words) => words.len(),
            Keys::Texts { views, .. } => views.len(),
            Keys::Encoded { ends, .. } => ends.len(),
        }
    }

    /// The keys of these ids as an array.
    pub(super) fn array_of(&self, ids: &[usize]) -> Result<ArrayRef> {
        let nulls = self.nulls.buffer_of(ids);
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
    check_bytes(long)?;
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

/// Checks that the long texts of an array fit into one buffer.
pub(crate) fn check_bytes(long: usize) -> Result<()> {
    if u32::try_from(long).is_ok() {
        return Ok(());
    }
    Err(Error::user("texts that are needed at once exceed 4 GiB")
        .remedy("use shorter texts, raise the parallelism, or let the state be on disk: 'state-backend' = 'disk'"))
}

/// Turns a kept view into the view of an array. A long text is at this offset in the array's only buffer.
#[inline(always)]
fn placed(view: u128, offset: usize) -> u128 {
    if view as u32 as usize <= INLINE { view } else { (view & HEAD) | (offset as u128) << 96 }
}

/// Texts as an array. The views are those of kept texts, with the offsets of the long ones in `data`.
pub(crate) fn texts_array(
    views: Vec<u128>,
    data: Buffer,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let buffers = if data.is_empty() { Vec::new() } else { vec![data] };
    // SAFETY: each view is that of a valid array, with the offset of its bytes in the one buffer: length and
    // first bytes agree with them, short ones are padded with zeros, and all of them are UTF-8 because they
    // were copied from a valid array.
    let texts: ArrayRef =
        Arc::new(unsafe { StringViewArray::new_unchecked(ScalarBuffer::from(views), buffers, nulls) });
    match data_type {
        DataType::Utf8View => Ok(texts),
        other => Ok(cast(&texts, other)?),
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

/// The encoding of the key `id`.
fn encoded<'a>(ends: &[usize], data: &'a [u8], id: usize) -> &'a [u8] {
    let start = if id == 0 { 0 } else { ends[id - 1] };
    &data[start..ends[id]]
}

/// Adds the rows that are not equal. Most batches have none, so a first pass without a branch per row finds
/// out whether there are any.
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

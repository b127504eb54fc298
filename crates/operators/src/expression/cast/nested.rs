//! Conversions of arrays, maps and rows: to other types of elements, and to text.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, StringViewArray, StringViewBuilder, StructArray, UInt32Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{CastOptions, cast_with_options, is_null, nullif, take};
use arrow::datatypes::{DataType, FieldRef, Fields};
use datafusion_common::{Result, internal_err};

use super::{convert, is_own, text_of};

/// The values in another type. A value that does not fit is an error, or NULL if `safe`.
fn converted(from: &ArrayRef, to: &DataType, safe: bool) -> Result<ArrayRef> {
    Ok(match from.data_type() {
        same if same == to => Arc::clone(from),
        other if is_own(other, to) => convert(from, to, safe)?,
        _ => cast_with_options(from, to, &CastOptions { safe, ..CastOptions::default() })?,
    })
}

/// Whether a NULL row has elements. They are invisible, and need not fit the new type.
fn hides_elements(offsets: &OffsetBuffer<i32>, nulls: Option<&NullBuffer>) -> bool {
    let has_elements = |row: usize| offsets[row] < offsets[row + 1];
    nulls.is_some_and(|nulls| (0..nulls.len()).any(|row| nulls.is_null(row) && has_elements(row)))
}

/// A copy of the rows without the elements of other rows.
fn copied(array: &dyn Array) -> Result<ArrayRef> {
    let rows = UInt32Array::from_iter_values(0..u32::try_from(array.len()).unwrap_or(u32::MAX));
    Ok(take(array, &rows, None)?)
}

/// The index of the first element of all rows, and the number of elements.
fn bounds(offsets: &OffsetBuffer<i32>) -> (usize, usize) {
    let index = |offset: i32| usize::try_from(offset).unwrap_or(0);
    let (start, end) = (index(offsets[0]), index(offsets[offsets.len() - 1]));
    (start, end - start)
}

/// The arrays with their own elements only. A slice of a column also has the elements of other rows.
fn own_elements(array: &ListArray) -> Result<ListArray> {
    if hides_elements(array.offsets(), array.nulls()) {
        return Ok(copied(array)?.as_list().clone());
    }
    let (start, count) = bounds(array.offsets());
    let DataType::List(item) = array.data_type() else { return Ok(array.clone()) };
    let lengths = OffsetBuffer::from_lengths(array.offsets().lengths());
    Ok(ListArray::try_new(Arc::clone(item), lengths, array.values().slice(start, count), array.nulls().cloned())?)
}

/// The maps with their own entries only.
fn own_entries(array: &MapArray) -> Result<MapArray> {
    if hides_elements(array.offsets(), array.nulls()) {
        return Ok(copied(array)?.as_map().clone());
    }
    let (start, count) = bounds(array.offsets());
    let DataType::Map(entries, ordered) = array.data_type() else { return Ok(array.clone()) };
    let lengths = OffsetBuffer::from_lengths(array.offsets().lengths());
    let own = array.entries().slice(start, count);
    Ok(MapArray::try_new(Arc::clone(entries), lengths, own, array.nulls().cloned(), *ordered)?)
}

/// Whether values became NULL because they did not fit. Arrays of the type NULL have no null buffer.
fn lost(from: &ArrayRef, to: &ArrayRef) -> bool {
    to.null_count() > from.logical_null_count()
}

/// The null buffer of the converted rows: rows with an element that did not fit are NULL too. `parts` are the
/// elements before and after the conversion.
fn fitting(
    offsets: &OffsetBuffer<i32>,
    nulls: Option<&NullBuffer>,
    parts: &[(&ArrayRef, &ArrayRef)],
) -> Option<NullBuffer> {
    if !parts.iter().any(|(from, to)| lost(from, to)) {
        return nulls.cloned();
    }
    let given: Vec<_> = parts.iter().map(|(from, to)| (from.logical_nulls(), to)).collect();
    let is_null = |nulls: &Option<NullBuffer>, index: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(index));
    let fits = |index: usize| given.iter().all(|(from, to)| to.is_valid(index) || is_null(from, index));
    let row_fits = |bounds: &[i32]| (bounds[0]..bounds[1]).all(|index| usize::try_from(index).is_ok_and(fits));
    let fitting: NullBuffer = offsets.windows(2).map(row_fits).collect();
    NullBuffer::union(nulls, Some(&fitting))
}

/// An array with elements of another type. It is NULL if `safe` and one of its elements does not fit.
pub(super) fn list(array: &ListArray, item: &FieldRef, safe: bool) -> Result<ArrayRef> {
    let array = &own_elements(array)?;
    let values = converted(array.values(), item.data_type(), safe)?;
    let nulls = fitting(array.offsets(), array.nulls(), &[(array.values(), &values)]);
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), array.offsets().clone(), values, nulls)?))
}

/// A map with keys and values of other types. It is NULL if `safe` and one of them does not fit.
pub(super) fn map(array: &MapArray, entries: &FieldRef, ordered: bool, safe: bool) -> Result<ArrayRef> {
    let DataType::Struct(fields) = entries.data_type() else { return internal_err!("a map without entries") };
    let [key, value] = fields.as_ref() else { return internal_err!("a map with {} parts", fields.len()) };
    let array = own_entries(array)?;
    let keys = converted(array.keys(), key.data_type(), safe)?;
    let values = converted(array.values(), value.data_type(), safe)?;
    let nulls = fitting(array.offsets(), array.nulls(), &[(array.keys(), &keys), (array.values(), &values)]);
    let (offsets, keys, values) = match keys.null_count() {
        0 => (array.offsets().clone(), keys, values),
        // A key must not be NULL, even in an invisible entry.
        _ => without_hidden(array.offsets(), nulls.as_ref(), &keys, &values)?,
    };
    let entry = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
    Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, entry, nulls, ordered)?))
}

/// Rows with other fields, matched by index. A row is NULL if `safe` and one of its fields does not fit.
pub(super) fn row(array: &StructArray, fields: &Fields, safe: bool) -> Result<ArrayRef> {
    let mut columns = Vec::with_capacity(fields.len());
    let mut nulls = array.nulls().cloned();
    for (column, field) in array.columns().iter().zip(fields) {
        // The fields of a NULL row may not fit.
        let own = match array.nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(_) => nullif(column, &is_null(array)?)?,
            None => Arc::clone(column),
        };
        let converted = converted(&own, field.data_type(), safe)?;
        if lost(&own, &converted) {
            let given = own.logical_nulls();
            let is_null = |row: usize| given.as_ref().is_some_and(|nulls| nulls.is_null(row));
            let fits: NullBuffer = (0..own.len()).map(|row| converted.is_valid(row) || is_null(row)).collect();
            nulls = NullBuffer::union(nulls.as_ref(), Some(&fits));
        }
        columns.push(converted);
    }
    Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, array.len())?))
}

/// The entries without those of rows that are NULL.
fn without_hidden(
    offsets: &OffsetBuffer<i32>,
    nulls: Option<&NullBuffer>,
    keys: &ArrayRef,
    values: &ArrayRef,
) -> Result<(OffsetBuffer<i32>, ArrayRef, ArrayRef)> {
    let (mut kept, mut lengths) = (Vec::new(), Vec::new());
    for (row, bounds) in offsets.windows(2).enumerate() {
        let before = kept.len();
        if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
            kept.extend((bounds[0]..bounds[1]).filter_map(|index| u32::try_from(index).ok()));
        }
        lengths.push(kept.len() - before);
    }
    let kept = UInt32Array::from(kept);
    Ok((OffsetBuffer::from_lengths(lengths), take(keys, &kept, None)?, take(values, &kept, None)?))
}

/// The elements as text.
struct Texts {
    texts: ArrayRef,
    from: ArrayRef,
}

impl Texts {
    fn new(array: &ArrayRef, safe: bool) -> Result<Self> {
        Ok(Texts { texts: text_of(array, safe)?, from: Arc::clone(array) })
    }

    fn texts(&self) -> &StringViewArray {
        self.texts.as_string_view()
    }

    /// Whether the element has no text. This happens only if `safe`: otherwise it was an error.
    fn is_missing(&self, index: usize) -> bool {
        self.texts.is_null(index) && self.from.is_valid(index)
    }

    fn get(&self, index: usize) -> &str {
        if self.texts.is_valid(index) { self.texts().value(index) } else { "NULL" }
    }
}

/// Appends a text for each row: `write` appends what is between the brackets, or returns false for NULL.
fn enclosed(
    text: &mut StringViewBuilder,
    rows: usize,
    brackets: [char; 2],
    mut write: impl FnMut(usize, &mut String) -> bool,
) {
    let mut shown = String::new();
    for row in 0..rows {
        shown.clear();
        shown.push(brackets[0]);
        let valid = write(row, &mut shown);
        shown.push(brackets[1]);
        text.append_option(valid.then_some(&shown));
    }
}

/// The indices of a row's elements, each with the separator before it.
fn indices(offsets: &[i32], row: usize) -> impl Iterator<Item = (&'static str, usize)> + use<> {
    let index = |offset: i32| usize::try_from(offset).unwrap_or(0);
    let start = index(offsets[row]);
    (start..index(offsets[row + 1])).map(move |index| (if index > start { ", " } else { "" }, index))
}

/// Appends `[1, NULL, 3]` for each array.
pub(super) fn lists(array: &ListArray, safe: bool, text: &mut StringViewBuilder) -> Result<()> {
    let array = &own_elements(array)?;
    let elements = Texts::new(array.values(), safe)?;
    enclosed(text, array.len(), ['[', ']'], |row, shown| {
        for (separator, index) in indices(array.value_offsets(), row) {
            shown.push_str(separator);
            shown.push_str(elements.get(index));
        }
        array.is_valid(row) && !indices(array.value_offsets(), row).any(|(_, index)| elements.is_missing(index))
    });
    Ok(())
}

/// Appends `{a=1, b=NULL}` for each map.
pub(super) fn maps(array: &MapArray, safe: bool, text: &mut StringViewBuilder) -> Result<()> {
    let array = &own_entries(array)?;
    let (keys, values) = (Texts::new(array.keys(), safe)?, Texts::new(array.values(), safe)?);
    enclosed(text, array.len(), ['{', '}'], |row, shown| {
        for (separator, index) in indices(array.value_offsets(), row) {
            shown.extend([separator, keys.get(index), "=", values.get(index)]);
        }
        let is_missing = |(_, index)| keys.is_missing(index) || values.is_missing(index);
        array.is_valid(row) && !indices(array.value_offsets(), row).any(is_missing)
    });
    Ok(())
}

/// Appends `(1, NULL, x)` for each row.
pub(super) fn rows(array: &StructArray, safe: bool, text: &mut StringViewBuilder) -> Result<()> {
    let fields = array.columns().iter().map(|column| Texts::new(column, safe)).collect::<Result<Vec<_>>>()?;
    enclosed(text, array.len(), ['(', ')'], |row, shown| {
        for (index, field) in fields.iter().enumerate() {
            shown.push_str(if index > 0 { ", " } else { "" });
            shown.push_str(field.get(row));
        }
        array.is_valid(row) && !fields.iter().any(|field| field.is_missing(row))
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::{Field, Int8Type};

    use super::*;

    fn map_type(key: DataType, value: DataType) -> DataType {
        let entry = vec![Field::new("key", key, false), Field::new("value", value, true)];
        DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entry.into()), false)), false)
    }

    /// Three rows between others. The second one is NULL and has an invisible entry. The values of the other
    /// rows, and of the invisible entry, do not fit.
    fn maps() -> ArrayRef {
        let DataType::Map(field, ordered) = map_type(DataType::Utf8, DataType::Int64) else { panic!("a map") };
        let DataType::Struct(fields) = field.data_type().clone() else { panic!("entries") };
        let keys: ArrayRef = Arc::new(StringArray::from(vec!["z", "a", "b", "hidden", "c", "z"]));
        let values: ArrayRef =
            Arc::new(Int64Array::from(vec![Some(1000), Some(1), None, Some(1000), Some(3), Some(1000)]));
        let entries = StructArray::new(fields, vec![keys, values], None);
        let nulls = NullBuffer::from(vec![true, true, false, true, true]);
        let offsets = OffsetBuffer::from_lengths([1, 2, 1, 1, 1]);
        Arc::new(MapArray::new(field, offsets, entries, Some(nulls), ordered).slice(1, 3))
    }

    #[test]
    fn maps_are_converted_by_their_own_entries() {
        let small = convert(&maps(), &map_type(DataType::Utf8View, DataType::Int8), false).expect("they fit");
        let small = small.as_map();
        assert!(small.is_null(1) && small.value(0).len() == 2 && small.value(2).len() == 1);
        let values: Vec<_> = small.values().as_primitive::<Int8Type>().iter().collect();
        assert_eq!(values, [Some(1), None, Some(3)]);
        let text = convert(&maps(), &DataType::Utf8View, false).expect("texts");
        let text: Vec<_> = text.as_string_view().iter().collect();
        assert_eq!(text, [Some("{a=1, b=NULL}"), None, Some("{c=3}")]);
    }

    #[test]
    fn a_map_with_an_entry_that_does_not_fit_is_null() {
        let numbers = map_type(DataType::Int64, DataType::Int64);
        assert!(convert(&maps(), &numbers, false).is_err());
        assert_eq!(convert(&maps(), &numbers, true).expect("NULL").null_count(), 3);
        let lists =
            ListArray::from_iter_primitive::<arrow::datatypes::Int64Type, _, _>([Some([Some(1)]), Some([Some(1000)])]);
        let item: FieldRef = Arc::new(Field::new("item", DataType::Int8, true));
        let lists = list(&lists, &item, true).expect("lists");
        assert!(lists.is_valid(0) && lists.is_null(1));
    }
}

//! Columns of arrays: their elements, and new ones of picked elements.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewBuilder};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::Result;

use crate::arguments::Arguments;
use crate::definition::failure;

/// An argument that is an array.
pub(crate) struct Lists<'a> {
    arguments: &'a Arguments<'a>,
    argument: usize,
    array: &'a ListArray,
    /// The elements of all rows: a slice of a longer column has the elements of other rows too.
    values: ArrayRef,
}

impl<'a> Lists<'a> {
    pub(crate) fn new(arguments: &'a Arguments, argument: usize) -> Result<Self> {
        let array = arguments.array(argument).as_list_opt::<i32>();
        let array = array.ok_or_else(|| failure("an ARRAY is expected"))?;
        Ok(Lists { arguments, argument, array, values: part(array.values(), array.value_offsets()) })
    }

    /// The elements of all rows.
    pub(crate) fn values(&self) -> &ArrayRef {
        &self.values
    }

    /// The places of a row's elements in `values`; `None` for NULL.
    pub(crate) fn range(&self, row: usize) -> Option<Range<usize>> {
        let row = self.arguments.index(self.argument, row);
        self.array.is_valid(row).then(|| range(self.array.value_offsets(), row))
    }
}

/// The elements of all lists of a column, which may be a slice of a longer one.
pub(crate) fn part(elements: &ArrayRef, offsets: &[i32]) -> ArrayRef {
    let (first, last) = (offsets[0] as usize, offsets[offsets.len() - 1] as usize);
    elements.slice(first, last - first)
}

/// The elements of one list among those of all.
pub(crate) fn range(offsets: &[i32], row: usize) -> Range<usize> {
    let place = |offset: i32| (offset - offsets[0]) as usize;
    place(offsets[row])..place(offsets[row + 1])
}

/// The argument, and the place in its values, of an element.
pub(crate) type ElementAt = (usize, usize);

/// A column of arrays made of elements of the arguments: `pick` adds the places of a row's elements, or
/// returns `None` for NULL. `sources` are the arrays that the places refer to.
pub(crate) fn lists(
    arguments: &Arguments,
    sources: &[&ArrayRef],
    mut pick: impl FnMut(usize, &mut Vec<ElementAt>) -> Option<()>,
) -> Result<ArrayRef> {
    let (mut places, mut ends) = (Vec::new(), Ends::default());
    for row in 0..arguments.rows {
        let before = places.len();
        let valid = pick(row, &mut places).is_some();
        if !valid {
            places.truncate(before);
        }
        ends.push(places.len(), valid)?;
    }
    let sources: Vec<&dyn Array> = sources.iter().map(|source| source.as_ref()).collect();
    ends.finish(arguments, interleave(&sources, &places)?)
}

/// A column of arrays of texts, which `write` appends.
pub(crate) fn texts(
    arguments: &Arguments,
    mut write: impl FnMut(usize, &mut StringViewBuilder) -> Option<()>,
) -> Result<ArrayRef> {
    try_texts(arguments, |row, parts| Ok(write(row, parts)))
}

/// The same, where `write` may fail.
pub(crate) fn try_texts(
    arguments: &Arguments,
    mut write: impl FnMut(usize, &mut StringViewBuilder) -> Result<Option<()>>,
) -> Result<ArrayRef> {
    let (mut parts, mut ends) = (StringViewBuilder::new(), Ends::default());
    for row in 0..arguments.rows {
        let valid = write(row, &mut parts)?.is_some();
        ends.push(arrow::array::ArrayBuilder::len(&parts), valid)?;
    }
    ends.finish(arguments, Arc::new(parts.finish()))
}

/// Where the arrays, or the maps, of a column end.
#[derive(Default)]
pub(crate) struct Ends {
    offsets: Vec<i32>,
    valid: Vec<bool>,
}

impl Ends {
    pub(crate) fn push(&mut self, end: usize, valid: bool) -> Result<()> {
        let end = i32::try_from(end).map_err(|_| {
            failure(
                "the arrays or maps of a batch have more than 2,147,483,647 elements; make batches smaller: SET 'batch-rows'",
            )
        })?;
        self.offsets.push(end);
        self.valid.push(valid);
        Ok(())
    }

    /// The offsets of all rows, and which rows are NULL.
    pub(crate) fn buffers(self) -> (OffsetBuffer<i32>, NullBuffer) {
        let offsets: ScalarBuffer<i32> = std::iter::once(0).chain(self.offsets).collect();
        (OffsetBuffer::new(offsets), NullBuffer::from(self.valid))
    }

    fn finish(self, arguments: &Arguments, values: ArrayRef) -> Result<ArrayRef> {
        let (offsets, nulls) = self.buffers();
        let field = item(arguments)?;
        Ok(Arc::new(ListArray::try_new(field, offsets, values, Some(nulls))?))
    }
}

/// The field of the elements of the result.
pub(crate) fn item(arguments: &Arguments) -> Result<FieldRef> {
    match arguments.returns {
        DataType::List(item) => Ok(Arc::clone(item)),
        other => Err(failure(format!("{other} is not an ARRAY"))),
    }
}

pub(crate) fn make_array(arguments: &Arguments) -> Result<ArrayRef> {
    let columns: Vec<&ArrayRef> = (0..arguments.len()).map(|index| arguments.array(index)).collect();
    lists(arguments, &columns, |row, places| {
        places.extend((0..arguments.len()).map(|index| (index, arguments.index(index, row))));
        Some(())
    })
}

/// The array with one more element, at its end or before it.
pub(crate) fn extend(arguments: &Arguments, before: bool) -> Result<ArrayRef> {
    let array = Lists::new(arguments, 0)?;
    lists(arguments, &[array.values(), arguments.array(1)], |row, places| {
        let (range, new) = (array.range(row)?, (1, arguments.index(1, row)));
        places.extend(before.then_some(new));
        places.extend(range.map(|index| (0, index)));
        places.extend((!before).then_some(new));
        Some(())
    })
}

/// The elements of all arrays; NULL if one of them is NULL.
pub(crate) fn concat(arguments: &Arguments) -> Result<ArrayRef> {
    let arrays = (0..arguments.len()).map(|index| Lists::new(arguments, index)).collect::<Result<Vec<_>>>()?;
    let sources: Vec<&ArrayRef> = arrays.iter().map(Lists::values).collect();
    lists(arguments, &sources, |row, places| {
        for (source, array) in arrays.iter().enumerate() {
            places.extend(array.range(row)?.map(|index| (source, index)));
        }
        Some(())
    })
}

pub(crate) fn reverse(arguments: &Arguments) -> Result<ArrayRef> {
    let array = Lists::new(arguments, 0)?;
    lists(arguments, &[array.values()], |row, places| {
        places.extend(array.range(row)?.rev().map(|index| (0, index)));
        Some(())
    })
}

/// The elements from one place to another, both included. Places count from 1, or from the end if they are
/// negative. 0 stands for 1.
pub(crate) fn slice(arguments: &Arguments) -> Result<ArrayRef> {
    let array = Lists::new(arguments, 0)?;
    let (start, end) = (arguments.integer(1), arguments.integer_or(2, -1));
    lists(arguments, &[array.values()], |row, places| {
        let range = array.range(row)?;
        let length = i64::try_from(range.len()).ok()?;
        let from_start = |place: i64| if place < 0 { place.saturating_add(length + 1) } else { place };
        let start = from_start(start.get(row)?).max(1);
        let end = match from_start(end.get(row)?) {
            0 => 1,
            end => end.min(length),
        };
        if start <= end && end <= length {
            let place = |place: i64| usize::try_from(place).ok();
            let (start, end) = (place(start - 1)?, place(end)?);
            places.extend((range.start + start..range.start + end).map(|index| (0, index)));
        }
        Some(())
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::Int32Array;
    use arrow::datatypes::Int32Type;
    use datafusion_expr::ColumnarValue;

    use super::*;

    #[test]
    fn a_slice_of_a_column_has_its_own_elements() {
        let rows = [Some(vec![Some(1), Some(2)]), None, Some(vec![Some(3), None]), Some(vec![Some(4)])];
        let column = ListArray::from_iter_primitive::<Int32Type, _, _>(rows);
        let slice: ArrayRef = Arc::new(column.slice(1, 2));
        let data_type = slice.data_type().clone();
        let arguments = Arguments::new(&[ColumnarValue::Array(slice)], 2, &data_type).expect("arguments");
        let lists = Lists::new(&arguments, 0).expect("an array");
        assert_eq!(lists.values().as_primitive::<Int32Type>(), &Int32Array::from(vec![Some(3), None]));
        assert_eq!((lists.range(0), lists.range(1)), (None, Some(0..2)));
        let reversed = reverse(&arguments).expect("reversed");
        assert_eq!(reversed.as_list::<i32>().value(1).as_primitive::<Int32Type>().value(1), 3);
    }
}

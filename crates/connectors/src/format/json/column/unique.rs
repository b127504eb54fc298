//! Maps that have each key once.

use std::collections::HashMap;

use anabranch_model::Result;
use arrow::array::{Array, ArrayRef, AsArray, MapArray, StructArray, UInt32Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::take;
use arrow::datatypes::DataType;

/// Larger maps are searched for equal keys by hashing.
const FEW: usize = 16;

/// The maps with each key once. Of equal keys, the first one keeps its position, with the value of the last
/// one.
pub(super) fn unique(maps: MapArray) -> Result<MapArray> {
    let offsets: Vec<usize> = maps.value_offsets().iter().map(|offset| *offset as usize).collect();
    let keys = MapKeys::new(maps.keys());
    if offsets.windows(2).all(|row| !keys.repeats(row[0], row[1])) {
        return Ok(maps);
    }
    let (mut first, mut last, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    for row in offsets.windows(2) {
        let start = first.len();
        let mut known = HashMap::new();
        for index in row[0]..row[1] {
            let entry = *known.entry(keys.get(index)).or_insert(first.len());
            if entry == first.len() {
                first.push(index as u32);
                last.push(index as u32);
            } else {
                last[entry] = index as u32;
            }
        }
        lengths.push(first.len() - start);
    }
    let (field, _, entries, nulls, ordered) = maps.into_parts();
    let picked = |column: &ArrayRef, indexes: Vec<u32>| take(column, &UInt32Array::from(indexes), None);
    let columns = vec![picked(entries.column(0), first)?, picked(entries.column(1), last)?];
    let entries = StructArray::try_new(entries.fields().clone(), columns, None)?;
    Ok(MapArray::try_new(field, OffsetBuffer::from_lengths(lengths), entries, nulls, ordered)?)
}

struct MapKeys<'a>(&'a ArrayRef);

impl<'a> MapKeys<'a> {
    fn new(keys: &'a ArrayRef) -> Self {
        MapKeys(keys)
    }

    fn get(&self, index: usize) -> &'a str {
        match self.0.data_type() {
            DataType::Utf8View => self.0.as_string_view().value(index),
            _ => self.0.as_string::<i32>().value(index),
        }
    }

    /// Whether one of these keys occurs twice.
    fn repeats(&self, start: usize, end: usize) -> bool {
        if end - start > FEW {
            let mut known = std::collections::HashSet::with_capacity(end - start);
            return !(start..end).all(|index| known.insert(self.get(index)));
        }
        match self.0.as_string_view_opt() {
            // A view has the length and the first bytes of its text: most keys differ there.
            Some(texts) => {
                let views = texts.views();
                let same = |a: usize, b: usize| views[a] as u64 == views[b] as u64 && self.get(a) == self.get(b);
                (start..end).any(|index| (start..index).any(|before| same(before, index)))
            }
            None => (start..end).any(|index| (start..index).any(|before| self.get(before) == self.get(index))),
        }
    }
}

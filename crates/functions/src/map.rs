//! Functions of maps. A map has each key once, and no key is NULL. Keys and values are equal as SQL's `=` has
//! it: NaN equals nothing, and `0.0 = -0.0`.

mod build;
mod equal;
mod split;
mod types;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, UInt64Array};
use arrow::compute::{cast, take};
use arrow::datatypes::Int32Type;
use datafusion_common::Result;

use self::build::{Entries, Maps, maps};
pub(crate) use self::types::coerce;
pub use self::types::{has_map, map_type, parts};
use crate::arguments::{Arguments, primitives};
use crate::array::build::{Lists, item};
use crate::array::keys::Keys;
use crate::definition::{Definition, Kind, Returns, failure, function};

const TWO: &[&[Kind]] = &[&[Kind::CommonMap, Kind::CommonMap]];
const TEXTS: &[&[Kind]] = &[&[Kind::Text], &[Kind::Text, Kind::Text, Kind::Text]];

pub(crate) const DEFINITIONS: &[Definition] = &[
    // MAP[key, value, ...].
    function("make_map", &[&[Kind::KeyOrValue, Kind::KeyOrValue]], Returns::Of(types::map_of), make_map)
        .fails_if(|call| !call.keys_are_constant())
        .variadic(),
    function("map_keys", &[&[Kind::Map]], Returns::Of(types::keys), |a| parts_of(a, |maps| Arc::clone(maps.keys())))
        .never_fails(),
    function("map_values", &[&[Kind::Map]], Returns::Of(types::values), |a| {
        parts_of(a, |maps| Arc::clone(maps.values()))
    })
    .never_fails(),
    function("map_entries", &[&[Kind::Map]], Returns::Of(types::entries), |a| {
        parts_of(a, |maps| Arc::new(maps.entries().clone()))
    })
    .never_fails(),
    function("map_from_arrays", &[&[Kind::Array, Kind::Array]], Returns::Of(types::of_arrays), from_arrays),
    function("map_union", &[&[Kind::CommonMap]], Returns::First, union).never_fails().variadic(),
    // `left = right`.
    function("map_equal", TWO, Returns::Boolean, equal::equal).never_fails(),
    function("str_to_map", TEXTS, Returns::Of(types::of_texts), split::str_to_map)
        .fails_if(|call| call.len() > 1 && !(call.is_constant(1) && call.is_constant(2))),
];

pub(crate) fn cardinality(arguments: &Arguments) -> Result<ArrayRef> {
    let maps = Maps::new(arguments, 0)?;
    primitives::<Int32Type>(arguments.rows, |row| i32::try_from(maps.range(row)?.len()).ok())
}

/// The value of a key in each map.
pub(crate) fn value_of_key(arguments: &Arguments) -> Result<ArrayRef> {
    let (maps, wanted) = (Maps::new(arguments, 0)?, arguments.array(1));
    let places: UInt64Array = if let Some(keys) = maps.keys().as_string_view_opt() {
        let wanted = arguments.text(1);
        let place = |row: usize| {
            let (mut range, wanted) = (maps.range(row)?, wanted.get(row)?);
            range.find(|place| keys.value(*place) == wanted)
        };
        (0..arguments.rows).map(|row| place(row).and_then(|place| u64::try_from(place).ok())).collect()
    } else {
        let keys = cast(maps.keys(), wanted.data_type())?;
        let keys = Keys::new(&[&keys, wanted])?;
        let place = |row: usize| {
            let (mut range, wanted) = (maps.range(row)?, (1, arguments.index(1, row)));
            range.find(|place| keys.equal((0, *place), wanted))
        };
        (0..arguments.rows).map(|row| place(row).and_then(|place| u64::try_from(place).ok())).collect()
    };
    Ok(take(maps.values(), &places, None)?)
}

/// `MAP[key, value, ...]`. Of equal keys, the first one keeps its place, with the value of the last one.
fn make_map(arguments: &Arguments) -> Result<ArrayRef> {
    let pairs = arguments.len() / 2;
    let sources: Vec<_> = (0..pairs).map(|pair| (arguments.array(2 * pair), arguments.array(2 * pair + 1))).collect();
    let columns: Vec<&ArrayRef> = sources.iter().map(|(keys, _)| *keys).collect();
    let keys = Keys::new(&columns)?;
    let key_of = |pair: usize, row: usize| (pair, arguments.index(2 * pair, row));
    let value_of = |pair: usize, row: usize| (pair, arguments.index(2 * pair + 1, row));
    let all = |row: usize| (0..pairs).map(move |pair| (key_of(pair, row), value_of(pair, row)));
    // Constant keys are compared once.
    let constant = (0..pairs).all(|pair| arguments.is_constant(2 * pair)).then(|| {
        let mut entries = Entries::default();
        entries.add(&keys, all(0));
        entries
    });
    maps(arguments, &sources, |row, entries| {
        match &constant {
            Some(known) => {
                known.pairs().for_each(|(key, value)| entries.push(key_of(key.0, row), value_of(value.0, row)));
            }
            None => entries.add(&keys, all(row)),
        }
        Ok(Some(()))
    })
}

/// The keys, the values or the entries of each map.
fn parts_of(arguments: &Arguments, part: fn(&MapArray) -> ArrayRef) -> Result<ArrayRef> {
    let column = arguments.full(0)?;
    let maps = column.as_map_opt().ok_or_else(|| failure("a MAP is expected"))?;
    Ok(Arc::new(ListArray::try_new(item(arguments)?, maps.offsets().clone(), part(maps), maps.nulls().cloned())?))
}

/// The keys of one array with the values of the other. Of equal keys, the first one keeps its place, with the
/// value of the last one.
fn from_arrays(arguments: &Arguments) -> Result<ArrayRef> {
    let (left, right) = (Lists::new(arguments, 0)?, Lists::new(arguments, 1)?);
    let keys = Keys::new(&[left.values()])?;
    maps(arguments, &[(left.values(), right.values())], |row, entries| {
        let (Some(left), Some(right)) = (left.range(row), right.range(row)) else { return Ok(None) };
        if left.len() != right.len() {
            let message = "MAP_FROM_ARRAYS takes arrays of one length: there are";
            return Err(failure(format!("{message} {} keys and {} values", left.len(), right.len())));
        }
        entries.add(&keys, left.zip(right).map(|(key, value)| ((0, key), (0, value))));
        Ok(Some(()))
    })
}

/// The entries of all maps; NULL if one of them is NULL. A key has the value of the last map that has it, and
/// entries of later maps are first, as in Flink.
fn union(arguments: &Arguments) -> Result<ArrayRef> {
    let all = (0..arguments.len()).map(|index| Maps::new(arguments, index)).collect::<Result<Vec<_>>>()?;
    let sources: Vec<_> = all.iter().map(|maps| (maps.keys(), maps.values())).collect();
    let columns: Vec<&ArrayRef> = all.iter().map(Maps::keys).collect();
    let keys = Keys::new(&columns)?;
    maps(arguments, &sources, |row, entries| {
        if all.iter().any(|maps| maps.range(row).is_none()) {
            return Ok(None);
        }
        for (source, maps) in all.iter().enumerate().rev() {
            let range = maps.range(row).unwrap_or_default();
            entries.add_new(&keys, range.map(|place| (source, place)));
        }
        Ok(Some(()))
    })
}

#[cfg(test)]
mod tests;

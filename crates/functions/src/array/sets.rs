//! Arrays without some of their elements. The elements that stay keep their order.

use std::collections::BTreeSet;

use arrow::array::ArrayRef;
use arrow::row::Row;
use datafusion_common::Result;

use super::build::{ElementAt, Lists, lists};
use super::keys::Keys;
use crate::arguments::Arguments;

pub(super) fn remove(arguments: &Arguments) -> Result<ArrayRef> {
    let array = Lists::new(arguments, 0)?;
    let keys = Keys::new(&[array.values(), arguments.array(1)])?;
    lists(arguments, &[array.values()], |row, places| {
        let removed = (1, arguments.index(1, row));
        places.extend(array.range(row)?.map(|index| (0, index)).filter(|place| !keys.equal(*place, removed)));
        Some(())
    })
}

/// Keeps the first of equal elements. NaN equals nothing.
fn keep_first<'a>(keys: &'a Keys, seen: &mut BTreeSet<Row<'a>>, place: ElementAt) -> bool {
    keys.comparable(place).is_none_or(|key| seen.insert(key))
}

pub(super) fn distinct(arguments: &Arguments) -> Result<ArrayRef> {
    let array = Lists::new(arguments, 0)?;
    let keys = Keys::new(&[array.values()])?;
    lists(arguments, &[array.values()], |row, places| {
        let mut seen = BTreeSet::new();
        places.extend(array.range(row)?.map(|index| (0, index)).filter(|place| keep_first(&keys, &mut seen, *place)));
        Some(())
    })
}

/// The elements of both arrays, each once.
pub(super) fn union(arguments: &Arguments) -> Result<ArrayRef> {
    let (left, right) = (Lists::new(arguments, 0)?, Lists::new(arguments, 1)?);
    let sources = [left.values(), right.values()];
    let keys = Keys::new(&sources)?;
    lists(arguments, &sources, |row, places| {
        let all = left.range(row)?.map(|index| (0, index)).chain(right.range(row)?.map(|index| (1, index)));
        let mut seen = BTreeSet::new();
        places.extend(all.filter(|place| keep_first(&keys, &mut seen, *place)));
        Some(())
    })
}

/// The elements that both arrays have, each once.
pub(super) fn intersect(arguments: &Arguments) -> Result<ArrayRef> {
    filtered(arguments, true)
}

/// The elements that the second array does not have, each once.
pub(super) fn except(arguments: &Arguments) -> Result<ArrayRef> {
    filtered(arguments, false)
}

fn filtered(arguments: &Arguments, wanted: bool) -> Result<ArrayRef> {
    let (left, right) = (Lists::new(arguments, 0)?, Lists::new(arguments, 1)?);
    let keys = Keys::new(&[left.values(), right.values()])?;
    lists(arguments, &[left.values()], |row, places| {
        let other: BTreeSet<Row> = right.range(row)?.filter_map(|index| keys.comparable((1, index))).collect();
        let is_in_other = |place: ElementAt| keys.comparable(place).is_some_and(|key| other.contains(&key));
        let mut seen = BTreeSet::new();
        let chosen = left.range(row)?.map(|index| (0, index)).filter(|place| is_in_other(*place) == wanted);
        places.extend(chosen.filter(|place| keep_first(&keys, &mut seen, *place)));
        Some(())
    })
}

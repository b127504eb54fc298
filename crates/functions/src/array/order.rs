//! Arrays in the order of their elements.

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::compute::take;
use arrow::row::Row;
use datafusion_common::Result;

use super::build::{Lists, lists};
use super::keys::Keys;
use crate::arguments::Arguments;

/// The element that is `better` than each one before it. NULL does not count. NaN is never better than
/// another element, and no element is better than NaN.
pub(super) fn extreme(arguments: &Arguments, better: fn(Row, Row) -> bool) -> Result<ArrayRef> {
    let array = Lists::new(arguments, 0)?;
    let values = array.values();
    let keys = Keys::new(&[values])?;
    let best = |row: usize| {
        let best = array.range(row)?.filter(|index| values.is_valid(*index)).reduce(|best, new| {
            let pair = keys.comparable((0, new)).zip(keys.comparable((0, best)));
            if pair.is_some_and(|(new, best)| better(new, best)) { new } else { best }
        });
        u64::try_from(best?).ok()
    };
    let indexes: UInt64Array = (0..arguments.rows).map(best).collect();
    Ok(take(values, &indexes, None)?)
}

/// The array in ascending order, unless the second argument is false. The third argument says where NULL is;
/// without it, NULL counts as the least element. NaN is greater than all numbers.
pub(super) fn sort(arguments: &Arguments) -> Result<ArrayRef> {
    let array = Lists::new(arguments, 0)?;
    let values = array.values();
    let keys = Keys::new(&[values])?;
    let flag = |index: usize| (index < arguments.len()).then(|| arguments.boolean(index));
    let (ascending, nulls_first) = (flag(1), flag(2));
    lists(arguments, &[values], |row, places| {
        let range = array.range(row)?;
        let ascending = match &ascending {
            Some(ascending) => ascending.get(row)?,
            None => true,
        };
        let nulls_first = match &nulls_first {
            Some(nulls_first) => nulls_first.get(row)?,
            None => ascending,
        };
        let nulls = range.clone().filter(|index| values.is_null(*index)).map(|index| (0, index));
        if nulls_first {
            places.extend(nulls.clone());
        }
        let start = places.len();
        places.extend(range.filter(|index| values.is_valid(*index)).map(|index| (0, index)));
        places[start..].sort_by(|left, right| {
            let order = keys.get(*left).cmp(&keys.get(*right));
            if ascending { order } else { order.reverse() }
        });
        if !nulls_first {
            places.extend(nulls);
        }
        Some(())
    })
}

//! Whether maps are equal.

use arrow::array::{Array, ArrayRef};
use datafusion_common::Result;

use super::build::Maps;
use crate::arguments::{Arguments, booleans};
use crate::array::keys::Keys;

/// Whether two maps have the same keys, with equal values. The order of entries means nothing. A value that
/// is NULL equals nothing, as in Flink.
pub(super) fn equal(arguments: &Arguments) -> Result<ArrayRef> {
    let (left, right) = (Maps::new(arguments, 0)?, Maps::new(arguments, 1)?);
    let keys = Keys::new(&[left.keys(), right.keys()])?;
    let values = Keys::new(&[left.values(), right.values()])?;
    let nulls = left.values();
    booleans(arguments.rows, |row| {
        let (left, right) = (left.range(row)?, right.range(row)?);
        if left.len() != right.len() {
            return Some(false);
        }
        let value_of = |key: usize| {
            // Equal maps mostly have one order.
            let same = right.start + (key - left.start);
            let has = |place: &usize| keys.equal((0, key), (1, *place));
            if has(&same) { Some(same) } else { right.clone().find(has) }
        };
        let has_equal = |key: usize| {
            let other = value_of(key).filter(|_| !nulls.is_null(key));
            other.is_some_and(|other| values.equal((0, key), (1, other)))
        };
        Some(left.clone().all(has_equal))
    })
}

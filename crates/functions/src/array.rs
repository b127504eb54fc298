//! Functions of arrays. Elements are equal as SQL's `=` has it: NaN equals nothing, and `0.0 = -0.0`. NULL is
//! the element NULL.

pub(crate) mod build;
pub(crate) mod keys;
mod order;
mod percentile;
mod sets;
pub(crate) mod types;

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Int32Type};
use datafusion_common::Result;
use datafusion_expr::ReturnFieldArgs;

use self::build::Lists;
use self::keys::Keys;
pub(crate) use self::types::coerce;
use crate::arguments::{Arguments, booleans, primitives, try_texts};
use crate::definition::{Definition, Kind, Returns, failure, function};
use crate::pad::Limit;

const ONE: &[&[Kind]] = &[&[Kind::List]];
const WITH_ELEMENT: &[&[Kind]] = &[&[Kind::List, Kind::Element]];
const TWO: &[&[Kind]] = &[&[Kind::CommonList, Kind::CommonList]];
const SLICE: &[&[Kind]] = &[&[Kind::List, Kind::Integer], &[Kind::List, Kind::Integer, Kind::Integer]];
const SORT: &[&[Kind]] = &[ONE[0], &[Kind::List, Kind::Flag], &[Kind::List, Kind::Flag, Kind::Flag]];
const JOIN: &[&[Kind]] = &[&[Kind::List, Kind::Text], &[Kind::List, Kind::Text, Kind::Text]];

pub(crate) const DEFINITIONS: &[Definition] = &[
    // ARRAY[a, b, ...].
    function("make_array", &[&[Kind::Common]], Returns::Of(types::array_of), build::make_array)
        .never_fails()
        .variadic(),
    function("cardinality", &[&[Kind::Array], &[Kind::Map]], Returns::Int, cardinality).never_fails(),
    function("element", &[&[Kind::Array]], Returns::Of(types::element), element),
    function("array_contains", WITH_ELEMENT, Returns::Boolean, contains).never_fails(),
    function("array_position", WITH_ELEMENT, Returns::Int, position).never_fails(),
    function("array_remove", WITH_ELEMENT, Returns::First, sets::remove).never_fails(),
    function("array_append", WITH_ELEMENT, Returns::First, |a| build::extend(a, false)).never_fails(),
    function("array_prepend", WITH_ELEMENT, Returns::First, |a| build::extend(a, true)).never_fails(),
    function("array_distinct", ONE, Returns::First, sets::distinct).never_fails(),
    function("array_union", TWO, Returns::First, sets::union).never_fails(),
    function("array_intersect", TWO, Returns::First, sets::intersect).never_fails(),
    function("array_except", TWO, Returns::First, sets::except).never_fails(),
    function("array_concat", &[&[Kind::CommonList]], Returns::First, build::concat).never_fails().variadic(),
    function("array_reverse", ONE, Returns::First, build::reverse).never_fails(),
    function("array_slice", SLICE, Returns::First, build::slice).never_fails(),
    function("array_sort", SORT, Returns::Of(types::sorted), order::sort).never_fails(),
    function("array_max", ONE, Returns::Of(types::compared), |a| order::extreme(a, |new, best| new > best))
        .never_fails(),
    function("array_min", ONE, Returns::Of(types::compared), |a| order::extreme(a, |new, best| new < best))
        .never_fails(),
    function("array_join", JOIN, Returns::Of(joined), join).fails_if(|call| !call.is_short(1) || !call.is_short(2)),
    function("$percentile", &[&[Kind::List, Kind::Any]], Returns::Of(percentile::returned), percentile::percentile),
    function("split", &[&[Kind::Text, Kind::Text]], Returns::Of(|_| Ok(types::list_of(DataType::Utf8View))), split)
        .never_fails(),
];

/// Whether a function compares elements. Maps are not compared.
pub(crate) fn compares_elements(name: &str) -> bool {
    let names = ["contains", "position", "remove", "distinct", "union", "intersect", "except"];
    name.strip_prefix("array_").is_some_and(|name| names.contains(&name))
}

fn cardinality(arguments: &Arguments) -> Result<ArrayRef> {
    if arguments.array(0).as_map_opt().is_some() {
        return crate::map::cardinality(arguments);
    }
    let lists = Lists::new(arguments, 0)?;
    primitives::<Int32Type>(arguments.rows, |row| i32::try_from(lists.range(row)?.len()).ok())
}

/// The only element; NULL if there is none.
fn element(arguments: &Arguments) -> Result<ArrayRef> {
    let lists = Lists::new(arguments, 0)?;
    let index = |row: usize| match lists.range(row) {
        Some(range) if range.len() > 1 => {
            let message = format!("ELEMENT of an array of {} elements: it takes one at most; use a[1]", range.len());
            Err(failure(message))
        }
        Some(range) if range.len() == 1 => Ok(u64::try_from(range.start).ok()),
        _ => Ok(None),
    };
    let indexes = (0..arguments.rows).map(index).collect::<Result<UInt64Array>>()?;
    Ok(take(lists.values(), &indexes, None)?)
}

fn contains(arguments: &Arguments) -> Result<ArrayRef> {
    let lists = Lists::new(arguments, 0)?;
    let keys = Keys::new(&[lists.values(), arguments.array(1)])?;
    booleans(arguments.rows, |row| {
        let element = arguments.index(1, row);
        Some(lists.range(row)?.any(|index| keys.equal((0, index), (1, element))))
    })
}

/// The first place of an element, from 1 on; 0 if the array does not have it.
fn position(arguments: &Arguments) -> Result<ArrayRef> {
    let lists = Lists::new(arguments, 0)?;
    let wanted = arguments.array(1);
    let keys = Keys::new(&[lists.values(), wanted])?;
    primitives::<Int32Type>(arguments.rows, |row| {
        let (mut range, element) = (lists.range(row)?, arguments.index(1, row));
        if wanted.is_null(element) {
            return None;
        }
        let place = range.position(|index| keys.equal((0, index), (1, element)));
        i32::try_from(place.map_or(0, |place| place + 1)).ok()
    })
}

fn joined(args: &ReturnFieldArgs) -> Result<DataType> {
    match types::element(args)? {
        text if text.is_string() => Ok(DataType::Utf8View),
        _ => Err(types::refused("ARRAY_JOIN takes an ARRAY<STRING>; write CAST(a AS ARRAY<STRING>)")),
    }
}

/// The elements with a text between them. A NULL is left out, or replaced by the third text.
fn join(arguments: &Arguments) -> Result<ArrayRef> {
    let lists = Lists::new(arguments, 0)?;
    let values = lists.values().as_string_view();
    let (between, null) = (arguments.text(1), (arguments.len() > 2).then(|| arguments.text(2)));
    try_texts(arguments, |row, out| {
        let (Some(range), Some(between)) = (lists.range(row), between.get(row)) else { return Ok(None) };
        let null = match &null {
            Some(null) => match null.get(row) {
                Some(null) => Some(null),
                None => return Ok(None),
            },
            None => None,
        };
        let given = range.clone().map(|index| values.value(index).len()).sum::<usize>() + range.len();
        let limit = Limit::new("ARRAY_JOIN", given + between.len() + null.map_or(0, str::len));
        let elements = range.filter_map(|index| values.is_valid(index).then(|| values.value(index)).or(null));
        for (place, element) in elements.enumerate() {
            if place > 0 {
                out.push_str(between);
            }
            out.push_str(element);
            limit.check(out)?;
        }
        Ok(Some(()))
    })
}

/// The parts of a text between separators. An empty separator divides it into UTF-16 units, of which half a
/// character is shown as `?`. An empty text has no parts.
fn split(arguments: &Arguments) -> Result<ArrayRef> {
    let (text, separator) = (arguments.text(0), arguments.text(1));
    build::texts(arguments, |row, parts| {
        let (text, separator) = (text.get(row)?, separator.get(row)?);
        if text.is_empty() {
            return Some(());
        }
        if separator.is_empty() {
            for c in text.chars() {
                match c.len_utf16() {
                    1 => parts.append_value(c.encode_utf8(&mut [0; 4])),
                    _ => (0..2).for_each(|_| parts.append_value("?")),
                }
            }
            return Some(());
        }
        text.split(separator).for_each(|part| parts.append_value(part));
        Some(())
    })
}

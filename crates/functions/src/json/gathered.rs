//! `JSON_ARRAYAGG` and `JSON_OBJECTAGG`: one document of the values that `ARRAY_AGG` has gathered of a group.
//! Elements of arrays keep its order. Members of objects are sorted by their names, as in Flink.

use std::collections::BTreeSet;

use arrow::array::{Array, ArrayRef, AsArray, ListArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion_common::Result;

use super::build::{ABSENT, Member, word};
use super::scan::{Malformed, Scanner};
use super::write::{Writer, comma};
use crate::arguments::{Arguments, try_texts};
use crate::array::build::{part, range};
use crate::definition::failure;

/// The lists of an argument, and their elements. A group without values has none.
fn lists<'a>(arguments: &'a Arguments, place: usize) -> Option<(&'a ListArray, ArrayRef)> {
    let lists = arguments.array(place).as_list_opt::<i32>()?;
    Some((lists, part(lists.values(), lists.value_offsets())))
}

/// Takes what becomes of NULL, the word that says what the elements are, and the elements.
pub(super) fn array(arguments: &Arguments) -> Result<ArrayRef> {
    let absent = word(arguments, 0) == ABSENT;
    let lists = match lists(arguments, 2) {
        Some((lists, elements)) => Some((lists, Member::new(&word(arguments, 1), &elements)?)),
        None => None,
    };
    try_texts(arguments, |row, out| {
        let row = arguments.index(2, row);
        out.push('[');
        if let Some((lists, elements)) = lists.as_ref().filter(|(lists, _)| lists.is_valid(row)) {
            let there = range(lists.value_offsets(), row).filter(|item| !absent || !elements.is_null(*item));
            for item in there {
                comma(out);
                elements.write(item, out)?;
            }
        }
        out.push(']');
        Ok(Some(()))
    })
}

/// Takes the members, each as the array of its key and its value.
pub(super) fn object(arguments: &Arguments) -> Result<ArrayRef> {
    let lists = match lists(arguments, 0) {
        Some((lists, members)) => Some((lists, cast(&members, &DataType::Utf8View)?)),
        None => None,
    };
    let lists = lists.as_ref().map(|(lists, members)| (*lists, members.as_string_view()));
    let mut object = String::new();
    try_texts(arguments, |row, out| {
        let row = arguments.index(0, row);
        object.clear();
        object.push('{');
        let mut keys = BTreeSet::new();
        if let Some((lists, members)) = lists.filter(|(lists, _)| lists.is_valid(row)) {
            for member in range(lists.value_offsets(), row) {
                let (key, value) = divided(members.value(member)).map_err(|_| failure("a member is no array"))?;
                if key == "null" {
                    return Err(failure("a key of JSON_OBJECTAGG is NULL; leave it out: FILTER (WHERE k IS NOT NULL)"));
                }
                if !keys.insert(key) {
                    return Err(failure(format!("the key {key} of JSON_OBJECTAGG comes twice in a group")));
                }
                comma(&mut object);
                object.extend([key, ":", value]);
            }
        }
        object.push('}');
        Writer::default().value(&object, out).map_err(|_| failure("the members make no object"))?;
        Ok(Some(()))
    })
}

/// The key and the value of `[key,value]`.
fn divided(member: &str) -> std::result::Result<(&str, &str), Malformed> {
    let inner = member.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).ok_or(Malformed)?;
    let key = Scanner::new(inner).value()?;
    Ok((key, inner.get(key.len() + 1..).ok_or(Malformed)?))
}

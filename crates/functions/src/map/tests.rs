use arrow::array::{Int64Array, Int64Builder, MapArray, MapBuilder, StringBuilder, StringViewArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl};

use super::*;

type Rows<'a> = &'a [Option<&'a [(&'a str, Option<i64>)]>];

/// A column of maps of texts to numbers.
fn column(rows: Rows) -> ArrayRef {
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for row in rows {
        for (key, value) in row.unwrap_or_default() {
            maps.keys().append_value(key);
            maps.values().append_option(*value);
        }
        maps.append(row.is_some()).expect("a map");
    }
    let plain = map_type(DataType::Utf8View, DataType::Int64, true);
    cast(&maps.finish(), &plain).expect("a map")
}

/// The result of a function over columns.
fn call(name: &str, columns: &[ArrayRef]) -> Result<ArrayRef> {
    let definition = DEFINITIONS.iter().chain(crate::item::DEFINITIONS).find(|definition| definition.name == name);
    let definition = definition.expect("a function");
    let fields: Vec<FieldRef> =
        columns.iter().map(|column| Arc::new(Field::new("a", column.data_type().clone(), true))).collect();
    let constants = vec![None; columns.len()];
    let return_field =
        definition.return_field_from_args(ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &constants })?;
    let result = definition.invoke_with_args(ScalarFunctionArgs {
        args: columns.iter().cloned().map(ColumnarValue::Array).collect(),
        arg_fields: fields,
        number_rows: columns[0].len(),
        return_field,
        config_options: Arc::default(),
    })?;
    match result {
        ColumnarValue::Array(array) => Ok(array),
        ColumnarValue::Scalar(value) => panic!("{value} is no column"),
    }
}

fn check(result: Result<ArrayRef>, expected: Rows) {
    let (result, expected) = (result.expect("a column"), column(expected));
    assert_eq!(result.as_map(), expected.as_map());
}

fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(values.iter().collect::<StringViewArray>())
}

/// The second and the third row of a column, and NULL with an entry that nobody sees.
fn slice() -> ArrayRef {
    let rows = column(&[
        Some(&[("a", Some(1)), ("b", Some(2))]),
        Some(&[("b", Some(3)), ("c", None)]),
        Some(&[("b", Some(4))]),
        Some(&[("a", Some(5))]),
    ]);
    let (field, offsets, entries, _, ordered) = rows.as_map().clone().into_parts();
    let nulls = vec![true, true, false, true].into();
    Arc::new(MapArray::new(field, offsets, entries, Some(nulls), ordered).slice(1, 3))
}

#[test]
fn a_slice_of_a_column_has_its_own_entries() {
    let found = call("item", &[slice(), texts(&[Some("b"), Some("b"), Some("b")])]).expect("values");
    assert_eq!(found.as_primitive::<Int64Type>(), &Int64Array::from(vec![Some(3), None, None]));
    let found = call("item", &[slice(), texts(&[Some("a"), None, Some("a")])]).expect("values");
    assert_eq!(found.as_primitive::<Int64Type>(), &Int64Array::from(vec![None, None, Some(5)]));
    let keys = call("map_keys", &[slice()]).expect("keys");
    assert_eq!(keys.as_list::<i32>().value(0).as_string_view(), &StringViewArray::from(vec!["b", "c"]));
    assert!(keys.is_null(1) && keys.as_list::<i32>().value(2).len() == 1);
    let other = column(&[Some(&[("c", Some(7))]), Some(&[]), Some(&[])]);
    check(
        call("map_union", &[slice(), other]),
        &[Some(&[("c", Some(7)), ("b", Some(3))]), None, Some(&[("a", Some(5))])],
    );
}

#[test]
fn the_order_of_entries_means_nothing_to_equality() {
    let left = column(&[
        Some(&[("a", Some(1)), ("b", Some(2))]),
        Some(&[("a", Some(1)), ("b", Some(2))]),
        Some(&[("a", Some(1))]),
        Some(&[("a", None)]),
        Some(&[]),
        None,
    ]);
    let right = column(&[
        Some(&[("b", Some(2)), ("a", Some(1))]),
        Some(&[("b", Some(1)), ("a", Some(2))]),
        Some(&[("a", Some(1)), ("b", Some(2))]),
        Some(&[("a", None)]),
        Some(&[]),
        Some(&[]),
    ]);
    let equal = call("map_equal", &[left, right]).expect("truth values");
    let equal: Vec<_> = equal.as_boolean().iter().collect();
    assert_eq!(equal, [Some(true), Some(false), Some(false), Some(false), Some(true), None]);
}

/// More keys than are searched one by one.
#[test]
fn each_of_many_keys_is_there_once() {
    let names: Vec<String> = (0..50).map(|number| format!("key {}", number % 40)).collect();
    let entries: Vec<(&str, Option<i64>)> =
        names.iter().enumerate().map(|(place, name)| (name.as_str(), i64::try_from(place).ok())).collect();
    let maps = column(&[Some(&entries), Some(&entries[..1])]);
    let parts = [call("map_keys", &[Arc::clone(&maps)]), call("map_values", &[Arc::clone(&maps)])];
    let parts = parts.map(|part| part.expect("an array"));
    let last =
        |(place, name): (usize, &'static str)| (name, i64::try_from(place + if place < 10 { 40 } else { 0 }).ok());
    let names: Vec<&'static str> = (0..40).map(|number| &*format!("key {number}").leak()).collect();
    let once: Vec<_> = names.into_iter().enumerate().map(last).collect();
    check(call("map_from_arrays", &parts), &[Some(&once), Some(&[("key 0", Some(0))])]);
    let nothing = column(&[Some(&[]), Some(&[])]);
    let first: Vec<_> = entries[..40].to_vec();
    check(call("map_union", &[maps, nothing]), &[Some(&first), Some(&[("key 0", Some(0))])]);
}

#[test]
fn a_key_is_not_null() {
    let (keys, values) = (texts(&[Some("a"), None]), Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef);
    let error = call("make_map", &[keys.clone(), Arc::clone(&values)]).expect_err("a key is NULL").to_string();
    assert!(error.contains("a key of a MAP is NULL"), "{error}");
    check(
        call("make_map", &[keys.slice(0, 1), values.slice(0, 1), texts(&[Some("a")]), values.slice(1, 1)]),
        &[Some(&[("a", Some(2))])],
    );
}

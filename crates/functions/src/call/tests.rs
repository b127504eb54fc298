use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Builder, MapBuilder, StringViewBuilder};
use arrow::datatypes::{Field, FieldRef};
use datafusion_common::ScalarValue;
use datafusion_common::config::ConfigOptions;
use datafusion_expr::type_coercion::functions::fields_with_udf;
use datafusion_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF};

use super::*;
use crate::scalar_functions;

#[test]
fn functions_of_a_zone_are_functions() {
    for (name, (_, zone)) in known() {
        let other = match zone {
            ZoneUse::First(other) | ZoneUse::Last(other) => other,
            ZoneUse::None | ZoneUse::LocalTime => name,
        };
        assert!(scalar_functions().contains_key(*other), "{other}");
    }
    assert!(LIBRARY.iter().all(|of| FAMILIES.into_iter().flatten().all(|own| own.name != of.name)), "a name twice");
}

#[test]
fn clauses_decide_whether_json_functions_fail() {
    let text = DataType::Utf8View;
    let path = [None, Some("$.a")];
    assert!(!may_fail("json_value", &path, &text) && !may_fail("json_query", &path, &text));
    let value = [None, Some("$.a"), None, None, Some("")];
    assert!(!may_fail("json_value", &value, &text) && may_fail("json_value", &value, &DataType::Int32));
    assert!(may_fail("json_value", &[None, Some("$.a"), None, None, Some("EMPTY")], &text));
    assert!(may_fail("json_exists", &[None, Some("$.a"), Some("ERROR")], &DataType::Boolean));
    assert!(may_fail("regexp", &[None, None], &DataType::Boolean) && !may_fail("regexp", &path, &DataType::Boolean));
}

#[test]
fn texts_that_may_grow_without_bound_are_known() {
    let text = DataType::Utf8View;
    let long = "x".repeat(LONG_CONSTANT + 1);
    assert!(may_fail("replace", &[None, Some("a"), None], &text));
    assert!(may_fail("replace", &[None, Some("a"), Some("a text of seventeen")], &text));
    assert!(!may_fail("replace", &[None, None, Some("b")], &text));
    assert!(may_fail("regexp_replace", &[None, Some("a"), None], &text));
    assert!(!may_fail("regexp_replace", &[None, Some("a"), Some("b")], &text));
    assert!(may_fail("array_join", &[None, None], &text) && !may_fail("array_join", &[None, Some(",")], &text));
    assert!(may_fail("concat", &[Some(&long), None], &text) && !may_fail("concat", &[Some("x"), None], &text));
    assert!(!may_fail("char_length", &[Some(&long)], &DataType::Int32));
}

/// The text would have 1 TB.
#[test]
fn a_text_that_grows_without_bound_is_refused_before_it_is_made() {
    let long = ScalarValue::Utf8View(Some("a".repeat(1 << 20)));
    let one = ScalarValue::Utf8View(Some("a".into()));
    for name in ["replace", "regexp_replace"] {
        let function = &scalar_functions()[name];
        let values = [long.clone(), one.clone(), long.clone()];
        let field = Arc::new(Field::new("a", DataType::Utf8View, true));
        let error = function.invoke_with_args(ScalarFunctionArgs {
            args: values.into_iter().map(ColumnarValue::Scalar).collect(),
            arg_fields: vec![Arc::clone(&field); 3],
            number_rows: 1,
            return_field: field,
            config_options: Arc::new(ConfigOptions::default()),
        });
        let error = error.expect_err("too long").strip_backtrace();
        assert!(error.contains("gives a text of more than 67108864 bytes"), "{error}");
    }
}

/// Values of all types, among them the ends of what a type can be.
fn values() -> Vec<ScalarValue> {
    let text = |text: &str| ScalarValue::Utf8View(Some(text.into()));
    let list = |elements: &[ScalarValue], data_type: &DataType| {
        ScalarValue::List(ScalarValue::new_list_nullable(elements, data_type))
    };
    let map = |value: Option<i64>| {
        let mut maps = MapBuilder::new(None, StringViewBuilder::new(), Int64Builder::new());
        maps.keys().append_value("a");
        maps.values().append_option(value);
        maps.append(true).expect("a map");
        let plain = crate::map_type(DataType::Utf8View, DataType::Int64, true);
        ScalarValue::Map(Arc::new(maps.finish())).cast_to(&plain).expect("a map")
    };
    let fields = vec![Field::new("a", DataType::Int64, true)];
    let row = ScalarValue::try_new_null(&DataType::Struct(fields.into()));
    vec![
        text(""),
        text("a"),
        text("$.a"),
        text(&"aé😀,\"b\\\t".repeat(30)),
        ScalarValue::Utf8View(None),
        ScalarValue::Binary(Some(vec![0, 255])),
        ScalarValue::Int64(Some(i64::MIN)),
        ScalarValue::Int64(Some(2)),
        ScalarValue::Int64(Some(i64::MAX)),
        ScalarValue::Int32(Some(i32::MIN)),
        ScalarValue::Float64(Some(f64::NAN)),
        ScalarValue::Float64(Some(f64::MAX)),
        ScalarValue::Float64(Some(-0.0)),
        ScalarValue::Decimal128(Some(10_i128.pow(38) - 1), 38, 0),
        ScalarValue::TimestampMillisecond(Some(i64::MIN), None),
        ScalarValue::TimestampMillisecond(Some(i64::MAX), None),
        ScalarValue::TimestampNanosecond(Some(-1), None),
        ScalarValue::Date32(Some(i32::MIN)),
        ScalarValue::Boolean(Some(false)),
        list(&[ScalarValue::Int64(Some(1)), ScalarValue::Int64(None)], &DataType::Int64),
        list(&[text("a"), text("b")], &DataType::Utf8View),
        map(None),
        map(Some(i64::MAX)),
        row.expect("a row"),
        text("Europe/Berlin"),
    ]
}

/// Whether the planner lets such a call pass: a JSON path and the clauses after it are constants, and the
/// path is valid. A map has no fields. The planner writes the zones.
fn is_planned(name: &str, given: &[ScalarValue], constant: &[bool]) -> bool {
    let constants = constant.iter().skip(1).all(|constant| *constant);
    let text = |index: usize| given.get(index).and_then(|value| value.try_as_str().flatten());
    match name {
        "is_json" => constants,
        "get_field" => constants && !matches!(given.first(), Some(ScalarValue::Map(_))),
        crate::LOCAL_TIME | crate::INSTANT => text(1) == Some("Europe/Berlin"),
        "json_value" | "json_exists" | "json_query" => {
            constants && text(1).is_some_and(|path| crate::check_json_path(path).is_ok())
        }
        _ => true,
    }
}

/// Calls the function; `None` if it does not take such arguments, or if it may fail.
fn call(name: &str, function: &Arc<ScalarUDF>, given: &[ScalarValue], constant: &[bool]) -> Option<Result<(), String>> {
    let field = |value: &ScalarValue| Arc::new(Field::new("a", value.data_type(), true)) as FieldRef;
    let fields = fields_with_udf(&given.iter().map(field).collect::<Vec<_>>(), function.as_ref()).ok()?;
    let cast = |(value, field): (&ScalarValue, &FieldRef)| value.cast_to(field.data_type()).ok();
    let values: Vec<ScalarValue> = given.iter().zip(&fields).map(cast).collect::<Option<_>>()?;
    let scalars: Vec<Option<&ScalarValue>> = values.iter().zip(constant).map(|(v, c)| c.then_some(v)).collect();
    let types = ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &scalars };
    let return_field = function.return_field_from_args(types).ok()?;
    let texts: Vec<Option<&str>> = scalars.iter().map(|value| value.and_then(|v| v.try_as_str().flatten())).collect();
    if may_fail(name, &texts, return_field.data_type()) {
        return None;
    }
    let rows = 3;
    let arg = |(value, constant): (&ScalarValue, &bool)| match constant {
        true => ColumnarValue::Scalar(value.clone()),
        false => ColumnarValue::Array(value.to_array_of_size(rows).expect("an array") as ArrayRef),
    };
    let result = function.invoke_with_args(ScalarFunctionArgs {
        args: values.iter().zip(constant).map(arg).collect(),
        arg_fields: fields,
        number_rows: rows,
        return_field,
        config_options: Arc::new(ConfigOptions::default()),
    });
    Some(result.map(|_| ()).map_err(|error| error.strip_backtrace()))
}

/// Lists of values, as many as the function may take.
fn lists_of(values: &[ScalarValue]) -> Vec<Vec<ScalarValue>> {
    let mut lists = vec![Vec::new()];
    let mut longest = vec![Vec::new()];
    // Only texts, bytes and whole numbers come in threes.
    for choices in [values, values, &values[..9]] {
        let longer = |list: &Vec<ScalarValue>| {
            let list = list.clone();
            choices.iter().map(move |value| [list.clone(), vec![value.clone()]].concat()).collect::<Vec<_>>()
        };
        longest = longest.iter().filter(|list| list.iter().all(|v| choices.contains(v))).flat_map(longer).collect();
        lists.extend(longest.iter().cloned());
    }
    lists
}

/// In a test, texts beyond 1 KiB need arguments that are as long.
#[test]
fn functions_that_count_as_certain_give_a_value() {
    let lists = lists_of(&values());
    let (mut failed, mut silent) = (std::collections::BTreeMap::new(), Vec::new());
    for (name, _) in known().iter().filter(|(_, (fails, _))| matches!(fails, Fails::Never | Fails::If(_))) {
        let Some(function) = scalar_functions().get(*name) else { panic!("{name} is no function") };
        let mut answered = 0;
        for given in &lists {
            // Constants at one place, at all others, and at none.
            let one = |place| (0..given.len()).map(|index| index == place).collect::<Vec<_>>();
            let other = |place| (0..given.len()).map(|index| index != place).collect();
            let places = (0..given.len()).flat_map(|place| [one(place), other(place)]);
            for constant in
                places.chain([vec![false; given.len()]]).filter(|constant| is_planned(name, given, constant))
            {
                let Some(result) = call(name, function, given, &constant) else { continue };
                answered += 1;
                if let Err(error) = result {
                    failed.entry(*name).or_insert(format!("{given:?} {constant:?}: {error}"));
                }
            }
        }
        if answered == 0 {
            silent.push(*name);
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(silent.is_empty(), "{silent:?}");
}

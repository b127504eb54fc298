use arrow::array::{Int64Builder, MapBuilder};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::ScalarValue;
use datafusion_common::config::ConfigOptions;
use datafusion_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl};

use super::*;
use crate::definition::Kind;

const DECIMAL_MAX: i128 = 10_i128.pow(38) - 1;

/// Values at the ends of what a kind of argument can be.
fn extremes(kind: Kind) -> Vec<ScalarValue> {
    let moments = |value: i64| {
        let days = i32::try_from(value.clamp(i32::MIN.into(), i32::MAX.into())).expect("clamped");
        [
            ScalarValue::TimestampMillisecond(Some(value), None),
            ScalarValue::TimestampNanosecond(Some(value), None),
            ScalarValue::Date32(Some(days)),
        ]
    };
    match kind {
        Kind::Text => ["", "aé😀,b", "YEAR", "$[-1]"].map(|text| ScalarValue::Utf8View(Some(text.into()))).to_vec(),
        Kind::TextOrBytes => vec![ScalarValue::Binary(Some(vec![0, 255]))],
        Kind::Integer => [i64::MIN, i32::MIN.into(), -1, 0, 2, i32::MAX.into(), i64::MAX]
            .map(|number| ScalarValue::Int64(Some(number)))
            .to_vec(),
        Kind::Double => [f64::NAN, f64::NEG_INFINITY, -0.0, f64::MAX, 5e-324]
            .map(|number| ScalarValue::Float64(Some(number)))
            .to_vec(),
        Kind::Number => vec![
            ScalarValue::Int8(Some(i8::MIN)),
            ScalarValue::Int32(Some(i32::MAX)),
            ScalarValue::Int64(Some(i64::MIN)),
            ScalarValue::Int64(Some(i64::MAX)),
            ScalarValue::Float32(Some(f32::NAN)),
            ScalarValue::Float64(Some(f64::MAX)),
            ScalarValue::Decimal128(Some(DECIMAL_MAX), 38, 0),
            ScalarValue::Decimal128(Some(-DECIMAL_MAX), 38, 38),
        ],
        Kind::Moment | Kind::Clock => [i64::MIN, -1, 0, i64::MAX].into_iter().flat_map(moments).collect(),
        Kind::Any => vec![ScalarValue::Utf8View(None)],
        Kind::Array | Kind::List | Kind::CommonList => {
            let elements = [Some(i64::MIN), None, Some(1), Some(1)].map(ScalarValue::Int64);
            let list = |elements| ScalarValue::List(ScalarValue::new_list_nullable(elements, &DataType::Int64));
            vec![list(&elements), list(&[]), list(&elements[..1])]
        }
        Kind::Map | Kind::CommonMap => {
            let mut maps = MapBuilder::new(None, Int64Builder::new(), Int64Builder::new());
            maps.keys().append_slice(&[i64::MIN, i64::MAX]);
            maps.values().append_slice(&[1, 2]);
            maps.append(true).expect("a map");
            let plain = map_type(DataType::Int64, DataType::Int64, true);
            let map = ScalarValue::Map(Arc::new(maps.finish())).cast_to(&plain).expect("a map");
            vec![map, ScalarValue::try_new_null(&plain).expect("NULL")]
        }
        Kind::Flag => vec![ScalarValue::Boolean(Some(true)), ScalarValue::Boolean(None)],
        Kind::Alike | Kind::Common | Kind::Element | Kind::Key | Kind::KeyOrValue => {
            [i64::MIN, i64::MAX].map(|number| ScalarValue::Int64(Some(number))).to_vec()
        }
    }
}

/// Calls a function; whether it gives a value of its type.
fn call(definition: &Definition, values: &[ScalarValue]) -> Option<()> {
    let fields: Vec<FieldRef> = values.iter().map(|value| Arc::new(Field::new("a", value.data_type(), true))).collect();
    let constants: Vec<Option<&ScalarValue>> = values.iter().map(Some).collect();
    let types = ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &constants };
    let return_field = definition.return_field_from_args(types).ok()?;
    let expected: DataType = return_field.data_type().clone();
    let result = definition.invoke_with_args(ScalarFunctionArgs {
        args: values.iter().cloned().map(ColumnarValue::Scalar).collect(),
        arg_fields: fields,
        number_rows: 1,
        return_field,
        config_options: Arc::new(ConfigOptions::default()),
    });
    assert_eq!(result.ok()?.data_type(), expected, "{} of {values:?}", definition.name);
    Some(())
}

#[test]
fn extreme_arguments_give_a_value_or_an_error() {
    let mut answered = 0;
    for definition in FAMILIES.into_iter().flatten() {
        for kinds in definition.takes {
            let choices: Vec<Vec<ScalarValue>> = kinds.iter().map(|kind| extremes(*kind)).collect();
            for mut number in 0..choices.iter().map(Vec::len).product::<usize>() {
                let mut values = Vec::new();
                for choice in &choices {
                    values.push(choice[number % choice.len()].clone());
                    number /= choice.len();
                }
                answered += usize::from(call(definition, &values).is_some());
            }
        }
    }
    assert!(answered > 1000, "most calls give a value, not {answered}");
}

#[test]
fn a_decimal_that_is_rounded_beyond_its_digits_is_null() {
    let scalar = |value: &str, arguments: Vec<ScalarValue>| {
        let function = scalar_functions()[value].clone();
        let fields: Vec<FieldRef> =
            arguments.iter().map(|value| Arc::new(Field::new("a", value.data_type(), true))).collect();
        let constants: Vec<Option<&ScalarValue>> = arguments.iter().map(Some).collect();
        let types = ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &constants };
        let return_field = function.return_field_from_args(types).expect("a type");
        let call = ScalarFunctionArgs {
            args: arguments.into_iter().map(ColumnarValue::Scalar).collect(),
            arg_fields: fields,
            number_rows: 1,
            return_field,
            config_options: Arc::new(ConfigOptions::default()),
        };
        match function.invoke_with_args(call).expect("a value") {
            ColumnarValue::Scalar(value) => value,
            ColumnarValue::Array(_) => panic!("constants give a constant"),
        }
    };
    let number = ScalarValue::Decimal128(Some(DECIMAL_MAX), 38, 0);
    let places = |places| ScalarValue::Int64(Some(places));
    assert!(scalar("round", vec![number.clone(), places(-1)]).is_null());
    assert_eq!(scalar("truncate", vec![number, places(-1)]), ScalarValue::Decimal128(Some(DECIMAL_MAX - 9), 38, 0));
}

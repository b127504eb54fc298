//! Values against what their options say.

use std::sync::Arc;

use anabranch_operators::Polled;
use anabranch_operators::testing::context;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{concat_batches, max, min};
use arrow::datatypes::{
    DataType, Decimal128Type, Field, Float64Type, Int8Type, Int64Type, Schema, TimeUnit, TimestampMillisecondType,
};

use super::*;

fn declared(columns: &[(&str, DataType)]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|(name, t)| Field::new(*name, t.clone(), true)).collect::<Vec<_>>()))
}

fn spec(options: &[(&str, &str)]) -> ConnectorSpec {
    let always = [("rows-per-second", "unlimited"), ("number-of-rows", "2000"), ("seed", "3"), ("partitions", "1")];
    ConnectorSpec::new("datagen", &[&always, options].concat())
}

/// A reader of a table.
fn open(columns: &SchemaRef, options: &[(&str, &str)], from: Option<&Positions>) -> Result<Box<dyn Source>> {
    let source = SourceSpec::new("t", spec(options), Arc::clone(columns));
    DatagenConnector.source(&source, &context(0, 1, 300), from)
}

/// All rows of a table.
fn rows(columns: &SchemaRef, options: &[(&str, &str)]) -> RecordBatch {
    let mut source = open(columns, options, None).unwrap();
    let mut batches = Vec::new();
    loop {
        match source.poll(std::time::Duration::ZERO).unwrap() {
            Polled::Rows(rows) => batches.push(rows.batch),
            Polled::End => return concat_batches(columns, &batches).unwrap(),
            _ => {}
        }
    }
}

fn column(data_type: DataType, options: &[(&str, &str)]) -> ArrayRef {
    Arc::clone(rows(&declared(&[("x", data_type)]), options).column(0))
}

fn refused(data_type: DataType, options: &[(&str, &str)]) -> String {
    DatagenConnector.describe(&spec(options), &declared(&[("x", data_type)])).unwrap_err().to_string()
}

#[test]
fn numbers_are_within_their_bounds_and_reach_them() {
    let bytes = column(DataType::Int8, &[]);
    let bytes = bytes.as_primitive::<Int8Type>();
    assert_eq!((min(bytes), max(bytes)), (Some(i8::MIN), Some(i8::MAX)));
    let longs = column(DataType::Int64, &[("fields.x.min", "-3"), ("fields.x.max", "4")]);
    let longs = longs.as_primitive::<Int64Type>();
    assert_eq!((min(longs), max(longs)), (Some(-3), Some(4)));
    let floats = column(DataType::Float64, &[("fields.x.min", "-1e308"), ("fields.x.max", "1.5e308")]);
    let values = floats.as_primitive::<Float64Type>().values();
    assert!(values.iter().all(|value| (-1e308..1.5e308).contains(value)));
    assert!(values.iter().any(|value| *value < -9e307) && values.iter().any(|value| *value > 1.4e308));
    let decimals = column(DataType::Decimal128(5, 2), &[("fields.x.min", "-0.01"), ("fields.x.max", "0.02")]);
    let decimals = decimals.as_primitive::<Decimal128Type>();
    assert_eq!((min(decimals), max(decimals)), (Some(-1), Some(2)));
}

#[test]
fn texts_have_their_length() {
    let texts = column(DataType::Utf8View, &[("fields.x.length", "21")]);
    let texts: Vec<&str> = texts.as_string_view().iter().flatten().collect();
    assert!(texts.iter().all(|text| text.len() == 21 && text.bytes().all(|digit| digit.is_ascii_hexdigit())));
    assert_eq!(texts.iter().collect::<std::collections::HashSet<_>>().len(), 2000);
    let bytes = column(DataType::Binary, &[("fields.x.length", "9"), ("fields.x.var-len", "true")]);
    let lengths: std::collections::BTreeSet<usize> =
        bytes.as_binary::<i32>().iter().flatten().map(<[u8]>::len).collect();
    assert_eq!(lengths, (1..=9).collect());
}

#[test]
fn times_are_those_of_the_rows_or_earlier() {
    let time = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let exact = column(time.clone(), &[]);
    let start = super::super::load::DEFAULT_START_MS;
    let exact = exact.as_primitive::<TimestampMillisecondType>();
    // 100 rows are a millisecond.
    assert_eq!((exact.value(0), exact.value(1999)), (start, start + 19));
    let past = column(time, &[("fields.x.max-past", "1 s")]);
    let before: Vec<i64> = past
        .as_primitive::<TimestampMillisecondType>()
        .iter()
        .flatten()
        .zip(exact.values())
        .map(|(p, e)| e - p)
        .collect();
    assert!(before.iter().all(|ms| (0..=1000).contains(ms)) && before.iter().any(|ms| *ms > 900));
    for data_type in [DataType::Date32, DataType::Time32(TimeUnit::Second), DataType::Time64(TimeUnit::Nanosecond)] {
        assert_eq!(column(data_type.clone(), &[]).data_type(), &data_type);
    }
}

#[test]
fn a_table_ends_with_its_shortest_sequence() {
    let columns = declared(&[("a", DataType::Int64), ("b", DataType::Utf8View), ("c", DataType::Decimal128(6, 2))]);
    let sequence = |name: &'static str, start, end| {
        [
            (format!("fields.{name}.kind"), "sequence"),
            (format!("fields.{name}.start"), start),
            (format!("fields.{name}.end"), end),
        ]
    };
    let options = [sequence("a", "-2", "5000"), sequence("b", "7", "11"), sequence("c", "0", "9")].concat();
    let options: Vec<(&str, &str)> = options.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let rows = rows(&columns, &options);
    assert_eq!(rows.column(0).as_primitive::<Int64Type>().values().to_vec(), [-2, -1, 0, 1, 2]);
    assert_eq!(rows.column(1).as_string_view().iter().flatten().collect::<Vec<_>>(), ["7", "8", "9", "10", "11"]);
    assert_eq!(rows.column(2).as_primitive::<Decimal128Type>().values().to_vec(), [0, 100, 200, 300, 400]);
}

#[test]
fn some_values_are_null() {
    let count = |rate| {
        let options = [("fields.x.null-rate", rate), ("fields.x.length", "4")];
        column(DataType::Utf8View, &options).null_count()
    };
    assert_eq!((count("0"), count("1")), (0, 2000));
    assert!((400..600).contains(&count("0.25")));
    let columns = Arc::new(Schema::new(vec![Field::new("x", DataType::Int32, false)]));
    let error = DatagenConnector.describe(&spec(&[("fields.x.null-rate", "0.1")]), &columns).unwrap_err().to_string();
    assert!(error.contains("'fields.x.null-rate' is 0.1, but it is NOT NULL"), "{error}");
}

#[test]
fn nested_values_have_options_of_their_own() {
    let item = Field::new("item", DataType::Int64, true);
    let entries = vec![Field::new("key", DataType::Int8, false), Field::new("value", DataType::Boolean, true)];
    let entries = Field::new("entries", DataType::Struct(entries.into()), false);
    let row = vec![Field::new("n", DataType::Int64, true), Field::new("s", DataType::Utf8View, true)];
    let columns = declared(&[
        ("l", DataType::List(Arc::new(item))),
        ("m", DataType::Map(Arc::new(entries), false)),
        ("r", DataType::Struct(row.into())),
    ]);
    let options = [
        ("fields.l.length", "5"),
        ("fields.l.element.min", "1"),
        ("fields.l.element.max", "6"),
        ("fields.l.null-rate", "0.5"),
        ("fields.m.key.min", "0"),
        ("fields.m.key.max", "1"),
        ("fields.r.n.min", "9"),
        ("fields.r.n.max", "9"),
        ("fields.r.s.length", "2"),
    ];
    let rows = rows(&columns, &options);
    let lists = rows.column(0).as_list::<i32>();
    assert!((800..1200).contains(&lists.null_count()));
    assert!(lists.iter().flatten().all(|list| list.len() == 5));
    let items = lists.values().as_primitive::<Int64Type>();
    assert_eq!((min(items), max(items)), (Some(1), Some(6)));
    // Two keys at most, although there are three entries.
    let sizes: std::collections::BTreeSet<usize> =
        rows.column(1).as_map().iter().flatten().map(|map| map.len()).collect();
    assert_eq!(sizes, [1, 2].into());
    let row = rows.column(2).as_struct();
    assert!(row.column(0).as_primitive::<Int64Type>().values().iter().all(|n| *n == 9));
    assert!(row.column(1).as_string_view().iter().flatten().all(|text| text.len() == 2));
}

#[test]
fn long_texts_make_small_batches() {
    let columns = declared(&[("x", DataType::Utf8View)]);
    let (_, wide) = read(&spec(&[("fields.x.length", "1048576")]), &columns).unwrap();
    assert_eq!(wide[0].bytes(), 1 << 20);
    let rows = rows(&columns, &[("fields.x.length", "1048576"), ("number-of-rows", "9")]);
    assert_eq!(rows.num_rows(), 9);
}

#[test]
fn a_row_that_would_take_too_much_memory_is_refused() {
    let list = |item| DataType::List(Arc::new(Field::new("item", item, true)));
    let lengths = [("fields.x.length", "1048576"), ("fields.x.element.length", "1048576")];
    for item in [DataType::Utf8View, list(DataType::Int8), list(list(DataType::Utf8View))] {
        let error = refused(list(item), &lengths);
        assert!(error.contains("most of it in column 'x'; the most is 64"), "{error}");
        assert!(error.contains("make a 'length' smaller"), "{error}");
    }
    let empty = [("fields.x.element.element.length", "0")];
    assert!(
        refused(list(list(DataType::Utf8View)), &[lengths.as_slice(), &empty].concat()).contains("a row would take")
    );
    let columns = declared(&[("x", list(DataType::Int8))]);
    DatagenConnector.describe(&spec(&[("fields.x.length", "1048576")]), &columns).unwrap();
}

#[test]
fn a_position_is_of_the_options_with_which_it_was_taken() {
    let columns = declared(&[("x", DataType::Int64), ("y", DataType::Int64)]);
    let sequence = [("fields.y.kind", "sequence"), ("fields.y.start", "1"), ("fields.y.end", "90")];
    let at = |max: &'static str| [&[("fields.x.min", "1"), ("fields.x.max", max)], sequence.as_slice()].concat();
    let from = open(&columns, &at("7"), None).unwrap().positions().unwrap();
    open(&columns, &at("7"), Some(&from)).unwrap();
    // The table may end later.
    let longer: Vec<_> =
        at("7").into_iter().map(|(name, value)| (name, if value == "90" { "99" } else { value })).collect();
    open(&columns, &longer, Some(&from)).unwrap();
    for other in [at("8"), at("7")[1..].to_vec(), sequence.to_vec()] {
        let error = open(&columns, &other, Some(&from)).err().unwrap().to_string();
        assert!(
            error.contains("table t: partition 0 of 1: the checkpoint is of a table with other options 'fields.*'"),
            "{error}"
        );
        assert!(error.contains("declare the table as it was"), "{error}");
    }
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let check = |data_type: DataType, options: &[(&str, &str)], expected: &str| {
        let error = refused(data_type, options);
        assert!(error.contains(expected), "{error}");
    };
    check(DataType::Int8, &[("fields.x.min", "-129")], "option 'fields.x.min' is '-129'");
    check(DataType::Int64, &[("fields.x.min", "2"), ("fields.x.max", "1")], "'fields.x.min' is above 'fields.x.max'");
    check(DataType::Int64, &[("fields.x.length", "2")], "option 'fields.x.length' names no column, or does not fit");
    check(DataType::Int64, &[("fields.y.min", "2")], "option 'fields.y.min' names no column");
    check(DataType::Int64, &[("fields.x.kind", "any")], "option 'fields.x.kind' is 'any'");
    check(
        DataType::Int64,
        &[("fields.x.kind", "sequence"), ("fields.x.start", "1")],
        "needs the option 'fields.x.end'",
    );
    let sequence = [("fields.x.kind", "sequence"), ("fields.x.start", "1"), ("fields.x.end", "200")];
    check(DataType::Int8, &sequence, "'fields.x.end' is 200, which does not fit TINYINT");
    check(DataType::Boolean, &sequence, "but it is BOOLEAN");
    check(DataType::Decimal128(4, 2), &[("fields.x.max", "100")], "a number that fits DECIMAL(4, 2)");
    check(DataType::Utf8View, &[("fields.x.length", "9999999")], "a whole number up to");
    check(DataType::Null, &[], "connector 'datagen' cannot generate");
}

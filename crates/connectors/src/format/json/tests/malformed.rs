//! Records that are malformed: each is reported with its place, and the others are not affected.

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, TimeUnit};

use super::*;

fn columns() -> Vec<(&'static str, DataType)> {
    vec![
        ("n", DataType::Int64),
        ("t", DataType::Utf8View),
        ("i8", DataType::Int8),
        ("f", DataType::Float64),
        ("b", DataType::Boolean),
        ("d", DataType::Decimal128(4, 1)),
        ("ts", DataType::Timestamp(TimeUnit::Millisecond, None)),
        ("date", DataType::Date32),
        ("time", DataType::Time32(TimeUnit::Second)),
        ("bytes", DataType::Binary),
        ("s", DataType::Struct(fields(&[("x", DataType::Int64)]))),
        ("l", list(DataType::Int64)),
    ]
}

/// The record is malformed with this message, at any place among good ones.
fn check(record: &[u8], message: &str) {
    let good = br#"{"n":1,"t":"text","other":"more"}"#.as_slice();
    for input in [vec![record], vec![good, record, good], vec![record, record, good], vec![good, good, record]] {
        let decoded = decode(&schema(&columns()), &records(&input), &JsonOptions::default());
        let bad: Vec<(usize, String)> =
            (0..input.len()).filter(|index| input[*index] == record).map(|index| (index, message.to_owned())).collect();
        assert_eq!(decoded.malformed, bad, "{}", String::from_utf8_lossy(record));
        assert_eq!(decoded.batch.num_rows(), input.len() - bad.len());
        assert!(decoded.batch.column(0).as_primitive::<Int64Type>().iter().all(|n| n == Some(1)));
        assert!(decoded.batch.column(1).as_string_view().iter().all(|t| t == Some("text")));
    }
}

#[test]
fn structure() {
    for (record, message) in [
        ("", "the record is empty: an object is missing at byte 0"),
        (" \n", "the record is empty: an object is missing at byte 2"),
        ("[1]", "expected an object, found an array at byte 0"),
        ("7", "expected an object, found 7 at byte 0"),
        ("{", "expected a key in quotes, found the end of the record at byte 1"),
        ("{\"n\":1", "expected ',' or '}', found the end of the record at byte 6"),
        ("{\"n\":1,}", "expected a key in quotes, found } at byte 7"),
        ("{\"n\":1,\"t\":\"te", "column 't': unterminated string starting at byte 11"),
        ("{\"n\":1 \"t\":2}", "expected ',' or '}', found \"t\" at byte 7"),
        ("{\"n\":\u{1b}}", "column 'n': expected an integer, found \\u{1b} at byte 5"),
        ("{\"n\" 1}", "expected ':', found 1 at byte 5"),
        ("{n:1}", "expected a key in quotes, found n:1 at byte 1"),
        ("{\"n\":1}{\"n\":2}", "expected the end of the record, found an object at byte 7"),
        ("{\"n\":1} x", "expected the end of the record, found x at byte 8"),
        ("{\"other\":}", "expected a value, found } at byte 9"),
        ("{\"other\":tru}", "expected a value, found tru at byte 9"),
        ("{\"other\":nulls}", "expected a value, found nulls at byte 9"),
        ("{\"other\":01}", "expected a value, found 01 at byte 9"),
        ("{\"other\":1.}", "expected a value, found 1. at byte 9"),
        ("{\"other\":[1 2]}", "expected ',' or ']', found 2 at byte 12"),
        ("{\"other\":{\"a\":1]}", "expected ',' or '}', found ] at byte 15"),
        ("{\"other\":\"a\nb\"}", "control character 0x0a in a string must be escaped at byte 11"),
        ("{\"other\":\"\\x\"}", "invalid escape \\x at byte 10"),
        ("{\"other\":\"\\u12\"}", "invalid escape \\u12 at byte 10"),
        ("{\"other\":\"\\ud834 x\"}", "unpaired surrogate at byte 10"),
        ("{\"other\":\"\\udd1e\"}", "unpaired surrogate at byte 10"),
        ("{\"\\q\":1}", "invalid escape \\q at byte 2"),
    ] {
        check(record.as_bytes(), message);
    }
    check(b"{\"other\":\"ab\xff\"}", "the string is not UTF-8: invalid byte at byte 12");
    check(b"{\"t\":\"ab\xc3\"}", "column 't': the string is not UTF-8: invalid byte at byte 8");
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"n\":", "}]")] {
        let brackets = open.len() - if open.len() > 1 { 4 } else { 0 };
        for levels in [127, 128, 100_000] {
            let times = levels / brackets;
            let deep = format!("{{\"n\":1,\"t\":\"text\",\"other\":{}1{}}}", open.repeat(times), close.repeat(times));
            let decoded = decode(&schema(&columns()), &records(&[&deep, &deep]), &JsonOptions::default());
            let expected = if times * brackets > 127 { 2 } else { 0 };
            assert_eq!(decoded.malformed.len(), expected, "{open} {levels}");
            assert!(decoded.malformed.iter().all(|(_, error)| error.contains("nested more than 128 deep")));
        }
    }
}

#[test]
fn values() {
    for (value, message) in [
        ("\"n\":\"x\"", "column 'n': expected an integer, found \"x\" at byte 5"),
        ("\"n\":1.5", "column 'n': expected an integer, found 1.5 at byte 5"),
        ("\"n\":true", "column 'n': expected an integer, found true at byte 5"),
        ("\"n\":{}", "column 'n': expected an integer, found an object at byte 5"),
        ("\"n\":\"\"", "column 'n': expected an integer, found \"\" at byte 5"),
        ("\"n\":\" 1\"", "column 'n': expected an integer, found \" 1\" at byte 5"),
        (
            "\"n\":9223372036854775808",
            "column 'n': 9223372036854775808 is out of the range -9223372036854775808 to 9223372036854775807 at byte 5",
        ),
        ("\"i8\":128", "column 'i8': 128 is out of the range -128 to 127 at byte 6"),
        ("\"i8\":1e99", "column 'i8': 1e99 is out of the range -128 to 127 at byte 6"),
        ("\"t\":tru", "column 't': expected a value, found tru at byte 5"),
        ("\"t\":[1,{]", "column 't': expected a key in quotes, found ] at byte 9"),
        ("\"t\":?", "column 't': expected a string, found ? at byte 5"),
        ("\"t\":\"\\uzzzz\"", "column 't': invalid escape \\uzzzz at byte 6"),
        ("\"f\":1e999", "column 'f': 1e999 is out of the range of floating-point numbers at byte 5"),
        ("\"f\":NaN", "column 'f': expected a number, found NaN at byte 5"),
        ("\"f\":\"inf\"", "column 'f': expected a number, found \"inf\" at byte 5"),
        ("\"b\":1", "column 'b': expected a boolean, found 1 at byte 5"),
        ("\"b\":\"TRUE\"", "column 'b': expected a boolean, found \"TRUE\" at byte 5"),
        ("\"d\":1000", "column 'd': 1000 is out of the range of DECIMAL(4, 1) at byte 5"),
        ("\"d\":999.95", "column 'd': 999.95 is out of the range of DECIMAL(4, 1) at byte 5"),
        (
            "\"ts\":\"2020\\u002d01\"",
            "column 'ts': expected a timestamp or epoch milliseconds, found \"2020\\u002d01\" at byte 6",
        ),
        ("\"ts\":1.5", "column 'ts': expected a timestamp or epoch milliseconds, found 1.5 at byte 6"),
        (
            "\"ts\":1700000000123456",
            "column 'ts': 1700000000123456 is out of the range of epoch milliseconds, the years 0 to 9999 at byte 6",
        ),
        ("\"time\":\"24:00:00\"", "column 'time': expected a time like \"10:20:30\", found \"24:00:00\" at byte 8"),
        ("\"time\":\"10:20\"", "column 'time': expected a time like \"10:20:30\", found \"10:20\" at byte 8"),
        ("\"time\":36000", "column 'time': expected a time like \"10:20:30\", found 36000 at byte 8"),
        ("\"date\":18000", "column 'date': expected a date like \"2020-01-31\", found 18000 at byte 8"),
        (
            "\"date\":\"2021-02-29\"",
            "column 'date': expected a date like \"2020-01-31\", found \"2021-02-29\" at byte 8",
        ),
        ("\"bytes\":\"QUJ!\"", "column 'bytes': expected a string of base64: invalid character at byte 13"),
        ("\"s\":1", "column 's': expected an object, found 1 at byte 5"),
        ("\"s\":{\"x\":\"y\"}", "column 's.x': expected an integer, found \"y\" at byte 10"),
        ("\"l\":{}", "column 'l': expected an array, found an object at byte 5"),
        ("\"l\":[1,\"y\"]", "column 'l[]': expected an integer, found \"y\" at byte 8"),
    ] {
        check(format!("{{{value}}}").as_bytes(), message);
    }
}

#[test]
fn columns_without_nulls() {
    let element = Arc::new(Field::new_list_field(DataType::Int64, false));
    let schema = Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int64, false),
        Field::new("l", DataType::List(element), true),
    ]));
    let input =
        ["{\"a\":1}", "{\"a\":null}", "{}", "{\"a\":null,\"a\":2}", "{\"a\":3,\"a\":null}", "{\"a\":4,\"l\":[null]}"];
    let decoded = decode(&schema, &records(&input), &JsonOptions::default());
    let missing = "column 'a': the value must not be null, but is null or missing in the object that ends at byte";
    assert_eq!(
        decoded.malformed,
        [
            (1, format!("{missing} 9")),
            (2, format!("{missing} 1")),
            (4, format!("{missing} 15")),
            (5, "column 'l[]': an element must not be null, but is at byte 12".to_owned()),
        ]
    );
    assert_eq!(decoded.batch.column(0).as_primitive::<Int64Type>().values(), &[1, 2]);
}

#[test]
fn null_elements() {
    let input = BinaryArray::from_opt_vec(vec![Some(b"{\"n\":1}".as_slice()), None, Some(b"{\"n\":2}")]);
    let decoded = decode(&schema(&[("n", DataType::Int64)]), &input, &JsonOptions::default());
    assert_eq!(decoded.malformed, [(1, "the record is null: an object is missing".to_owned())]);
    assert_eq!(decoded.batch.num_rows(), 2);
}

/// Values that do not fit are NULL where errors are ignored, in every way of reading; what is no JSON, or has
/// no value where one must be, is malformed still.
#[test]
fn errors_are_ignored_where_they_may_be() {
    let mut columns = fields(&columns()).to_vec();
    columns.push(Arc::new(Field::new("must", DataType::Int64, false)));
    let row = DataType::Struct(vec![Field::new("x", DataType::Int64, false)].into());
    columns.push(Arc::new(Field::new("outer", row, true)));
    let schema = Arc::new(Schema::new(columns));
    let options = JsonOptions { ignores_errors: true, ..JsonOptions::default() };
    let input = [
        r#"{"n":1,"t":"a","must":7,"s":{"x":1},"l":[1,2]}"#,
        r#"{"n":"one","t":"a","must":7,"s":{"x":1},"l":[1,2]}"#,
        r#"{"n":2,"t":{"no":"text"},"i8":1000,"must":7,"s":{"x":"one"},"l":[1,"two",3]}"#,
        r#"{"n":3,"t":"b","must":"seven"}"#,
        r#"{"n":4,"t":"b","must":8,"s":[1],"l":{"x":1},"outer":{"x":"one"}}"#,
        r#"{"n":5,"t":"b","must":9,"d":12345.6,"ts":"yesterday","date":"2024-13-01","bytes":"?","b":"maybe","f":"x"}"#,
        r#"{"n":6,"t":"b","must":9,"s":{"x":[1,}}"#,
        r#"{"n":7,"t":"c","must":7,"s":{"x":1},"l":[1,2]}"#,
        "seven",
    ];
    let decoded = decode(&schema, &records(&input), &options);
    let malformed: Vec<usize> = decoded.malformed.iter().map(|(index, _)| *index).collect();
    assert_eq!(malformed, [3, 6, 8], "{:?}", decoded.malformed);
    let expected = [
        r#"{"n":1,"t":"a","must":7,"s":{"x":1},"l":[1,2]}"#,
        r#"{"t":"a","must":7,"s":{"x":1},"l":[1,2]}"#,
        r#"{"n":2,"t":"{\"no\":\"text\"}","must":7,"s":{},"l":[1,null,3]}"#,
        r#"{"n":4,"t":"b","must":8}"#,
        r#"{"n":5,"t":"b","must":9}"#,
        r#"{"n":7,"t":"c","must":7,"s":{"x":1},"l":[1,2]}"#,
    ];
    let without_nulls = |mut row: Value| {
        if let Value::Object(fields) = &mut row {
            fields.retain(|_, value| !value.is_null());
            if let Some(Value::Object(inner)) = fields.get_mut("s") {
                inner.retain(|_, value| !value.is_null());
            }
        }
        row
    };
    let found: Vec<Value> = rows(&decoded.batch).into_iter().map(without_nulls).collect();
    let expected: Vec<Value> = expected.iter().map(|row| serde_json::from_str(row).expect("JSON")).collect();
    assert_eq!(found, expected);
}

//! Each type of column.

use arrow::array::AsArray;
use arrow::datatypes::TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};

use super::*;

fn value(data_type: DataType, text: &str, expected: &str) {
    let (record, row) = (format!("{{\"a\":{text}}}"), format!("{{\"a\":{expected}}}"));
    let (record, row) = (record.as_str(), row.as_str());
    // Alone, in a run of records like it, and with others in between.
    check(&[("a", data_type.clone())], &[record], &[row]);
    check(&[("a", data_type.clone())], &[record; 5], &[row; 5]);
    check(
        &[("a", data_type)],
        &[record, "{\"a\":null}", record, "{}", record],
        &[row, "{\"a\":null}", row, "{\"a\":null}", row],
    );
}

#[test]
fn booleans() {
    value(DataType::Boolean, "true", "true");
    value(DataType::Boolean, "false", "false");
    value(DataType::Boolean, "\"true\"", "true");
}

#[test]
fn integers() {
    value(DataType::Int8, "-128", "-128");
    value(DataType::UInt8, "255", "255");
    value(DataType::Int16, "32767", "32767");
    value(DataType::UInt16, "65535", "65535");
    value(DataType::Int32, "-2147483648", "-2147483648");
    value(DataType::UInt32, "4294967295", "4294967295");
    value(DataType::UInt64, "18446744073709551615", "18446744073709551615");
    for text in ["0", "-0", "7", "12345678", "123456789", "1234567890123456", "9223372036854775807"] {
        value(DataType::Int64, text, text.strip_prefix("-").unwrap_or(text));
        value(DataType::Int64, &format!("\"{text}\""), text.strip_prefix("-").unwrap_or(text));
    }
    value(DataType::Int64, "-9223372036854775808", "-9223372036854775808");
    value(DataType::Int64, "12.0", "12");
    value(DataType::Int64, "1.2e3", "1200");
}

#[test]
fn every_length_of_integers() {
    let digits = "9876543210987654321";
    let texts: Vec<String> =
        (1..=18).flat_map(|len| [digits[..len].to_owned(), format!("-{}", &digits[..len])]).collect();
    let input: Vec<String> = texts.iter().map(|text| format!("{{\"a\":{text}}}")).collect();
    let input: Vec<&str> = input.iter().map(String::as_str).collect();
    check(&[("a", DataType::Int64)], &input, &input);
}

#[test]
fn floating_point_numbers() {
    value(DataType::Float64, "0.1", "0.1");
    value(DataType::Float64, "-1e-7", "-1e-7");
    value(DataType::Float64, "3", "3.0");
    value(DataType::Float64, "\"2.5\"", "2.5");
    value(DataType::Float64, "\"NaN\"", "\"NaN\"");
    value(DataType::Float64, "\"-Infinity\"", "\"-Infinity\"");
    value(DataType::Float32, "0.1", "0.1");
    // Between two 32-bit numbers, just above the middle: rounding to 64 bits first would lose that.
    value(DataType::Float32, "1.00000017881393432617187499", "1.0000001");
    value(DataType::Float32, "1.00000017881393432617187501", "1.0000002");
}

#[test]
fn decimals() {
    let decimal = DataType::Decimal128(10, 2);
    value(decimal.clone(), "12.3", "12.30");
    value(decimal.clone(), "\"-0.05\"", "-0.05");
    value(decimal.clone(), "0.125", "0.13");
    value(decimal.clone(), "1e3", "1000.00");
    value(decimal, "99999999.99", "99999999.99");
}

#[test]
fn strings() {
    for data_type in [DataType::Utf8View, DataType::Utf8] {
        for len in [0, 1, 11, 12, 13, 31, 32, 33, 36, 63, 64, 65, 200] {
            let text = format!("\"{}\"", "x".repeat(len));
            value(data_type.clone(), &text, &text);
        }
        for text in [
            "\"\\\"\"",
            "\"\\\\\"",
            "\"a\\\\\\\"b\"",
            "\"\\u0041\\ud834\\udd1e\\/\\b\\f\\n\\r\\t\"",
            "\"Grüße aus 東京 \u{1d11e}\"",
            "\"\u{7f}\u{80}\"",
        ] {
            value(data_type.clone(), text, text);
        }
    }
}

#[test]
fn long_strings_are_not_copied() {
    let input =
        records(&["{\"a\":\"twelve bytes\"}", "{\"a\":\"thirteen byte\"}", "{\"a\":\"esc\\u0061ped and long\"}"]);
    let decoded = decode(&schema(&[("a", DataType::Utf8View)]), &input, &JsonOptions::default());
    let array = decoded.batch.column(0).as_string_view();
    assert_eq!(array.value(1), "thirteen byte");
    assert_eq!(array.value(1).as_ptr(), input.values()[26..].as_ptr());
    assert_eq!(array.data_buffers().len(), 2);
    assert_eq!(array.data_buffers()[0].as_ptr(), input.values().as_ptr());
    assert_eq!(array.data_buffers()[1].as_slice(), b"escaped and long");
}

#[test]
fn binary() {
    for data_type in [DataType::Binary, DataType::BinaryView] {
        value(data_type.clone(), "\"\"", "\"\"");
        value(data_type.clone(), "\"AP/+\"", "\"AP/+\"");
        value(data_type.clone(), "\"AP\\/+\"", "\"AP/+\"");
        value(data_type, "\"bG9uZ2VyIHRoYW4gdHdlbHZlIGJ5dGVz\"", "\"bG9uZ2VyIHRoYW4gdHdlbHZlIGJ5dGVz\"");
    }
}

#[test]
fn dates_and_timestamps() {
    value(DataType::Date32, "\"2020-02-29\"", "\"2020-02-29\"");
    for (unit, expected) in [
        (Second, "2023-11-14 22:13:20"),
        (Millisecond, "2023-11-14 22:13:20.123"),
        (Microsecond, "2023-11-14 22:13:20.123000"),
        (Nanosecond, "2023-11-14 22:13:20.123000000"),
    ] {
        let expected_zone = format!("\"{expected}Z\"");
        let expected = format!("\"{expected}\"");
        value(DataType::Timestamp(unit, None), "1700000000123", &expected);
        value(DataType::Timestamp(unit, None), "\"1700000000123\"", &expected);
        value(DataType::Timestamp(unit, None), "\"2023-11-14 22:13:20.123\"", &expected);
        value(DataType::Timestamp(unit, None), "\"2023-11-14T22:13:20.123Z\"", &expected);
        value(DataType::Timestamp(unit, None), "\"2023-11-15T00:13:20.123\\u002b02:00\"", &expected);
        let berlin = DataType::Timestamp(unit, Some("Europe/Berlin".into()));
        value(berlin, "\"2023-11-14 23:13:20.123\"", &expected_zone);
    }
}

#[test]
fn times_of_day() {
    for (data_type, text, expected) in [
        (DataType::Time32(Second), "10:20:30", "10:20:30"),
        (DataType::Time32(Second), "10:20:30.987", "10:20:30"),
        (DataType::Time32(Millisecond), "23:59:59.9", "23:59:59.900"),
        (DataType::Time64(Microsecond), "00:00:00", "00:00:00.000000"),
        (DataType::Time64(Nanosecond), "00:00:01.123456789", "00:00:01.123456789"),
    ] {
        value(data_type, &format!("\"{text}\""), &format!("\"{expected}\""));
    }
}

#[test]
fn objects() {
    let inner = fields(&[("x", DataType::Int32), ("y", DataType::Utf8View)]);
    let outer = DataType::Struct(fields(&[("in", DataType::Struct(inner.clone())), ("z", DataType::Boolean)]));
    value(DataType::Struct(inner), "{\"y\":\"b\",\"no\":{\"x\":2},\"x\":1}", "{\"x\":1,\"y\":\"b\"}");
    value(outer.clone(), "{\"in\":{\"x\":1},\"z\":true}", "{\"in\":{\"x\":1,\"y\":null},\"z\":true}");
    value(outer.clone(), "{\"in\":null}", "{\"in\":null,\"z\":null}");
    value(outer.clone(), "{}", "{\"in\":null,\"z\":null}");
    value(outer, "{\"in\":{}}", "{\"in\":{\"x\":null,\"y\":null},\"z\":null}");
}

#[test]
fn arrays() {
    value(list(DataType::Int64), "[]", "[]");
    value(list(DataType::Int64), "[1, null , 3]", "[1,null,3]");
    value(list(DataType::Utf8View), "[\"a\",\"longer than twelve\"]", "[\"a\",\"longer than twelve\"]");
    value(list(list(DataType::Utf8)), "[[\"a\"],[],null,[\"b\",\"c\"]]", "[[\"a\"],[],null,[\"b\",\"c\"]]");
    let object = DataType::Struct(fields(&[("x", DataType::Int32), ("l", list(DataType::Boolean))]));
    value(
        list(object),
        "[{\"x\":1},null,{\"l\":[true,false]},{\"l\":[],\"x\":5,\"l\":[true]}]",
        "[{\"x\":1,\"l\":null},null,{\"x\":null,\"l\":[true,false]},{\"x\":5,\"l\":[true]}]",
    );
}

#[test]
fn maps() {
    let numbers = map(DataType::Utf8View, DataType::Int64);
    value(numbers.clone(), "{}", "{}");
    value(numbers.clone(), "{ \"b\" : 1 , \"a\":null}", "{\"b\":1,\"a\":null}");
    value(
        numbers.clone(),
        "{\"\":1,\"longer than twelve\":2,\"\\u00e9\\\"\":3}",
        "{\"\":1,\"longer than twelve\":2,\"é\\\"\":3}",
    );
    value(map(DataType::Utf8, DataType::Utf8), "{\"a\":\"x\"}", "{\"a\":\"x\"}");
    value(map(DataType::Utf8View, list(DataType::Int64)), "{\"a\":[1,2],\"b\":[]}", "{\"a\":[1,2],\"b\":[]}");
    value(map(DataType::Utf8View, numbers.clone()), "{\"a\":{\"b\":1},\"c\":{}}", "{\"a\":{\"b\":1},\"c\":{}}");
    let object = DataType::Struct(fields(&[("m", numbers.clone()), ("x", DataType::Int64)]));
    value(list(object.clone()), "[{\"m\":{\"x\":1},\"x\":2},null]", "[{\"m\":{\"x\":1},\"x\":2},null]");
    value(map(DataType::Utf8View, object), "{\"a\":{\"x\":1}}", "{\"a\":{\"m\":null,\"x\":1}}");
    // The first of equal keys keeps its place, the last value counts.
    value(numbers.clone(), "{\"a\":1,\"b\":2,\"a\":3}", "{\"a\":3,\"b\":2}");
    let keys = |value: &dyn Fn(usize) -> usize| {
        let entries = (0..40).map(|key| format!("\"key {key}\":{}", value(key)));
        format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
    };
    let twice = keys(&|key| key).replace('}', ",\"key 7\":70}");
    value(numbers.clone(), &twice, &keys(&|key| if key == 7 { 70 } else { key }));
    value(numbers, "{\"same start 1\":1,\"same start 2\":2}", "{\"same start 1\":1,\"same start 2\":2}");
}

/// Columns of text take the text of any value, without white space that is not in a string.
#[test]
fn other_values_as_text() {
    let columns = [("t", DataType::Utf8View), ("u", DataType::Utf8), ("n", DataType::Int64)];
    let input = [
        r#"{"t":"plain","u":"plain","n":1}"#,
        r#"{"t":5,"u":-1.50,"n":2}"#,
        r#"{"t":true,"u":false,"n":3}"#,
        r#"{"t":{ "a" : [1, 2 , "x y\" z"], "b" : null },"u":[ ],"n":4}"#,
        r#"{"t":null,"n":5}"#,
        r#"{"t":"long enough not to be in its view","u":{"k": "v"},"n":6}"#,
    ];
    let expected = [
        r#"{"t":"plain","u":"plain","n":1}"#,
        r#"{"t":"5","u":"-1.50","n":2}"#,
        r#"{"t":"true","u":"false","n":3}"#,
        r#"{"t":"{\"a\":[1,2,\"x y\\\" z\"],\"b\":null}","u":"[]","n":4}"#,
        r#"{"t":null,"u":null,"n":5}"#,
        r#"{"t":"long enough not to be in its view","u":"{\"k\":\"v\"}","n":6}"#,
    ];
    check(&columns, &input, &expected);
}

/// Rows of one batch with maps, NULL, and malformed maps among them.
#[test]
fn maps_among_other_rows() {
    let columns = [("m", map(DataType::Utf8View, DataType::Utf8)), ("n", DataType::Int64)];
    let input = [
        r#"{"m":{"a":"1","b":"2"},"n":1}"#,
        r#"{"n":2}"#,
        r#"{"m":{"a":"1","b":},"n":3}"#,
        r#"{"m":{"c":"3","c":null},"n":4}"#,
        r#"{"m":{"d":"4"},"m":{"e":"5","f":"6"},"n":5}"#,
        r#"{"m":null,"n":6}"#,
        r#"{"m":{"g":"7"},"n":7}"#,
    ];
    let decoded = decode(&schema(&columns), &records(&input), &JsonOptions::default());
    let wrong = "column 'm.value': expected a string, found } at byte 18";
    assert_eq!(decoded.malformed, [(2, wrong.to_owned())]);
    let keys: Vec<_> = decoded.batch.column(0).as_map().keys().as_string_view().iter().flatten().collect();
    assert_eq!(keys, ["a", "b", "c", "e", "f", "g"]);
    let expected = [
        r#"{"m":{"a":"1","b":"2"},"n":1}"#,
        r#"{"m":null,"n":2}"#,
        r#"{"m":{"c":null},"n":4}"#,
        r#"{"m":{"e":"5","f":"6"},"n":5}"#,
        r#"{"m":null,"n":6}"#,
        r#"{"m":{"g":"7"},"n":7}"#,
    ];
    let expected: Vec<Value> = expected.iter().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert_eq!(rows(&decoded.batch), expected);
}

#[test]
fn keys_that_are_no_texts_are_refused() {
    let columns = schema(&[("m", map(DataType::Int32, DataType::Int64))]);
    for result in [JsonDecoder::new(columns.clone(), &JsonOptions::default()).err(), JsonEncoder::new(&columns).err()] {
        let message = result.unwrap().to_string();
        assert!(message.contains("column 'm': the JSON format has no MAP<INT, BIGINT>"), "{message}");
    }
}

#[test]
fn the_last_of_equal_keys_wins() {
    let columns = [
        ("a", DataType::Int64),
        ("t", DataType::Utf8),
        ("l", list(DataType::Int64)),
        ("s", DataType::Struct(fields(&[("x", DataType::Int64), ("y", DataType::Int64)]))),
    ];
    check(
        &columns,
        &[
            r#"{"a":1,"a":2,"t":"one","t":"two","l":[1,2,3],"l":[4],"s":{"x":1},"s":{"y":2}}"#,
            r#"{"a":1,"a":null,"t":null,"t":"x","l":[1],"l":null,"s":null,"s":{}}"#,
            r#"{"a":null,"\u0061":3,"t":"x","t":null,"l":null,"l":[5,6],"s":{"x":1},"s":null}"#,
        ],
        &[
            r#"{"a":2,"t":"two","l":[4],"s":{"x":null,"y":2}}"#,
            r#"{"a":null,"t":"x","l":null,"s":{"x":null,"y":null}}"#,
            r#"{"a":3,"t":null,"l":[5,6],"s":null}"#,
        ],
    );
}

#[test]
fn no_columns_give_a_count() {
    let decoded = decode(&schema(&[]), &records(&["{\"a\":1}\n", "{}", "x"]), &JsonOptions::default());
    assert_eq!((decoded.batch.num_rows(), decoded.malformed.len()), (2, 1));
}

#[test]
fn unsupported_types_name_the_column() {
    let nested = DataType::Struct(fields(&[("b", DataType::Duration(Second))]));
    for result in [
        JsonDecoder::new(schema(&[("a", nested.clone())]), &JsonOptions::default()).err(),
        JsonEncoder::new(&schema(&[("a", nested)])).err(),
    ] {
        let message = result.unwrap().to_string();
        assert!(message.contains("column 'a.b'") && message.contains("help: declare"), "{message}");
    }
    let twice = JsonDecoder::new(schema(&[("a", DataType::Int8), ("a", DataType::Int8)]), &JsonOptions::default());
    assert!(twice.err().unwrap().to_string().contains("'a'"));
}

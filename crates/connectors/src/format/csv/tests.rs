mod differential;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int64Array,
    StringViewArray, TimestampMillisecondArray,
};
use arrow::datatypes::{Schema, SchemaRef, TimeUnit};

use super::*;
use crate::format::{Decode, Decoded, Encode, batch};

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8View, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), true),
    ]))
}

fn decode(lines: &[&[u8]], projection: &[usize], options: &CsvOptions) -> (Vec<String>, Vec<(usize, String)>) {
    let records = BinaryArray::from_iter_values(lines);
    let decoded = CsvDecoder::new(&schema(), projection, options).unwrap().decode(&records).unwrap();
    let null = CsvOptions { null: "NULL".into(), delimiter: b'|', ..CsvOptions::default() };
    let rows = CsvEncoder::for_people(&null).encode(&decoded.batch).unwrap();
    (rows.iter().flatten().map(|r| String::from_utf8(r.to_vec()).unwrap()).collect(), decoded.malformed)
}

#[test]
fn fields_are_decoded_by_position() {
    let lines: [&[u8]; 4] = [
        b"1,one,2024-01-02 03:04:05.678\n",
        b"2,\"a, longer \"\"quoted\"\" field\",2024-01-02T03:04:05Z\r\n",
        b"3,\"\",\n",
        b"4,,",
    ];
    let (rows, malformed) = decode(&lines, &[0, 1, 2], &CsvOptions::default());
    assert_eq!(malformed, []);
    assert_eq!(
        rows,
        [
            "1|one|2024-01-02 03:04:05.678",
            "2|\"a, longer \"\"quoted\"\" field\"|2024-01-02 03:04:05.000",
            "3||NULL",
            "4|NULL|NULL",
        ]
    );
    let (rows, _) = decode(&lines, &[1], &CsvOptions::default());
    assert_eq!(rows, ["one", "\"a, longer \"\"quoted\"\" field\"", "", "NULL"]);
    let (rows, _) = decode(&lines[..2], &[], &CsvOptions::default());
    assert_eq!(rows.len(), 2);
}

#[test]
fn errors_are_ignored_where_they_may_be() {
    let options = CsvOptions { ignores_errors: true, ..CsvOptions::default() };
    let lines: [&[u8]; 6] =
        [b"1,one,soon", b"2,two", b"x,three,", b"4,four,2024-01-02 03:04:05,more", b"5,\"five,", b"6"];
    let (rows, malformed) = decode(&lines, &[0, 1, 2], &options);
    assert_eq!(rows, ["1|one|NULL", "2|two|NULL", "4|four|2024-01-02 03:04:05.000", "6|NULL|NULL"]);
    let malformed: Vec<usize> = malformed.into_iter().map(|(index, _)| index).collect();
    assert_eq!(malformed, [2, 4], "a number that must be there, and quotes that do not end");
}

#[test]
fn a_malformed_record_leaves_the_others_alone() {
    let check = |line: &[u8], expected: &str| {
        let (rows, malformed) = decode(&[b"1,a,", line, b"3,c,"], &[0, 1, 2], &CsvOptions::default());
        assert_eq!(rows, ["1|a|NULL", "3|c|NULL"], "{expected}");
        assert_eq!(malformed, [(1, expected.to_owned())]);
    };
    check(b"x,b,", "column 'id': 'x' is not a BIGINT");
    check(b",b,", "column 'id' is NULL, which its declaration excludes");
    check(b"2,b,yesterday", "column 'at': 'yesterday' is not a TIMESTAMP(3)");
    check(b"x,b,yesterday", "column 'id': 'x' is not a BIGINT");
    check(b"2,b", "the record has 2 fields, 3 are declared");
    check(b"2,b,,", "the record has 4 fields, 3 are declared");
    check(b"2,\"b,", "byte 2: unterminated quote");
    check(b"2,\"b\"x,", "byte 5: expected a delimiter after the closing quote");
    check(b"2,\xff,", "column 'name': not valid UTF-8");
    check(b"99999999999999999999,b,", "column 'id': '99999999999999999999' is not a BIGINT");
    check(b"\n", "the record is empty");
    check(b"", "the record is empty");
}

#[test]
fn which_records_are_malformed_does_not_depend_on_the_columns_read() {
    let lines: [&[u8]; 4] = [b"1,a,\n", b"2,\xff,\n", b"3,\"b\"x,\n", b"4,c\n"];
    let (_, expected) = decode(&lines, &[0, 1, 2], &CsvOptions::default());
    assert_eq!(expected[0], (1, "column 'name': not valid UTF-8".to_owned()));
    assert_eq!(expected.len(), 3);
    for projection in [&[][..], &[0], &[1], &[2, 0]] {
        let (_, malformed) = decode(&lines, projection, &CsvOptions::default());
        assert_eq!(malformed, expected, "{projection:?}");
    }
}

#[test]
fn a_character_cut_in_two_by_records_is_malformed_in_both() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("name", DataType::Utf8View, true)]));
    let records = BinaryArray::from_iter_values([b"a".as_slice(), b"\xc3", b"\xbc", "ü".as_bytes()]);
    let decoded = CsvDecoder::new(&schema, &[0], &CsvOptions::default()).unwrap().decode(&records).unwrap();
    assert_eq!(decoded.malformed.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(decoded.batch.num_rows(), 2);
}

#[test]
fn messages_show_values_shortened_and_without_control_characters() {
    let line = format!("\u{1b}[2J{},b,", "9".repeat(100));
    let (_, malformed) = decode(&[line.as_bytes()], &[0], &CsvOptions::default());
    let expected = format!("column 'id': '\\u{{1b}}[2J{}...' is not a BIGINT", "9".repeat(60));
    assert_eq!(malformed, [(0, expected)]);
}

#[test]
fn every_text_can_be_read_back() {
    let texts =
        ["", "NULL", "a,b", "say \"hi\"", "two\nlines", "\r", "\"", "ü", "a text longer than twelve bytes, quoted"];
    let names: ArrayRef = Arc::new(StringViewArray::from_iter(texts.iter().map(Some).chain([None])));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(-1..=8));
    let times: ArrayRef = Arc::new(TimestampMillisecondArray::from_iter_values(1_700_000_000_123..=1_700_000_000_132));
    let rows = batch(&schema(), vec![ids, names, times], 10).unwrap();
    for null in ["", "NULL", "\\N"] {
        let options = CsvOptions { null: null.into(), ..CsvOptions::default() };
        let records = CsvEncoder::new(&schema(), &options).unwrap().encode(&rows).unwrap();
        let decoded = CsvDecoder::new(&schema(), &[0, 1, 2], &options).unwrap().decode(&records).unwrap();
        assert_eq!(decoded.malformed, []);
        assert_eq!(decoded.batch, rows, "{null}");
    }
}

#[test]
fn a_single_column_is_written_only_if_its_null_is_not_a_blank_line() {
    let names: ArrayRef = Arc::new(StringViewArray::from(vec![Some(""), Some("NULL"), None, Some("a")]));
    let schema = |nullable| Arc::new(Schema::new(vec![Field::new("name", DataType::Utf8View, nullable)]));
    let error = CsvEncoder::new(&schema(true), &CsvOptions::default()).err().unwrap().to_string();
    assert!(error.contains("'name'") && error.contains("set 'csv.null'") && error.contains("NOT NULL"), "{error}");
    assert!(CsvEncoder::new(&schema(false), &CsvOptions::default()).is_ok());
    CsvDecoder::new(&schema(true), &[0], &CsvOptions::default()).unwrap();
    let records = check_back(vec![names], &CsvOptions { null: "NULL".into(), ..CsvOptions::default() });
    assert_eq!(records, ["\"\"", "\"NULL\"", "NULL", "a"]);
}

#[test]
fn nested_columns_are_refused() {
    let field = Field::new("tags", DataType::new_list(DataType::Int32, true), true);
    let schema = Arc::new(Schema::new(vec![field]));
    let error = CsvDecoder::new(&schema, &[0], &CsvOptions::default()).err().unwrap().to_string();
    assert!(error.contains("column 'tags'") && error.contains("use the format 'json'"), "{error}");
}

/// Encodes the columns, and checks that decoding restores them.
fn check_back(columns: Vec<ArrayRef>, options: &CsvOptions) -> Vec<String> {
    let fields = columns.iter().map(|column| Field::new("c", column.data_type().clone(), true));
    let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let all: Vec<_> = (0..columns.len()).collect();
    let rows = columns[0].len();
    let rows = batch(&schema, columns, rows).unwrap();
    let records = CsvEncoder::new(&schema, options).unwrap().encode(&rows).unwrap();
    let decoded = CsvDecoder::new(&schema, &all, options).unwrap().decode(&records).unwrap();
    assert_eq!(decoded.malformed, []);
    assert_eq!(decoded.batch, rows);
    records.iter().flatten().map(|record| String::from_utf8(record.to_vec()).unwrap()).collect()
}

#[test]
fn times_keep_every_digit_of_their_unit() {
    let check = |unit: TimeUnit, count: i64, expected: &str| {
        for zone in [None, Some(Arc::<str>::from("+00:00")), Some(Arc::<str>::from("UTC"))] {
            let suffix = if zone.is_some() { "Z" } else { "" };
            // Also times that follow another one of the same second.
            let counts = vec![Some(count), None, Some(count + 1), Some(count), Some(-count), Some(-count - 1), Some(0)];
            let counts: ArrayRef = Arc::new(Int64Array::from(counts));
            let times = arrow::compute::cast(&counts, &DataType::Timestamp(unit, zone)).unwrap();
            let records = check_back(vec![times, counts], &CsvOptions::default());
            assert_eq!(records[0], format!("{expected}{suffix},{count}"));
            assert_eq!(records[3], records[0]);
        }
    };
    check(TimeUnit::Second, 1_700_000_000, "2023-11-14 22:13:20");
    check(TimeUnit::Millisecond, 1_700_000_000_123, "2023-11-14 22:13:20.123");
    check(TimeUnit::Microsecond, 1_700_000_000_123_456, "2023-11-14 22:13:20.123456");
    check(TimeUnit::Microsecond, 1_700_000_000_000_001, "2023-11-14 22:13:20.000001");
    check(TimeUnit::Nanosecond, 1_700_000_000_123_456_789, "2023-11-14 22:13:20.123456789");
}

#[test]
fn every_value_of_other_types_can_be_read_back() {
    let numbers = [f64::MIN, -0.0, f64::MIN_POSITIVE, 0.1 + 0.2, f64::MAX, f64::INFINITY, f64::NEG_INFINITY];
    let floats = numbers.iter().map(|number| *number as f32);
    let count = numbers.len() as i64;
    let decimals = Decimal128Array::from_iter_values((0..i128::from(count)).map(|i| (i - 3) * 1234 - 1));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Float64Array::from_iter_values(numbers)),
        Arc::new(Float32Array::from_iter_values(floats)),
        Arc::new((0..count).map(|i| (i != 2).then_some(i % 2 == 0)).collect::<BooleanArray>()),
        Arc::new((0..count).map(|i| (i != 3).then_some(i as i32 * 9001 - 20_000)).collect::<Date32Array>()),
        Arc::new(decimals.with_precision_and_scale(38, 3).unwrap()),
        Arc::new(StringViewArray::from(vec!["\u{feff}mark", " ", "-", "inf", "0", "'", "\t"])),
    ];
    check_back(columns.clone(), &CsvOptions::default());
    // A delimiter or the text for NULL may be part of a value.
    check_back(columns.clone(), &CsvOptions { delimiter: b'-', ..CsvOptions::default() });
    check_back(columns, &CsvOptions { null: "true".into(), delimiter: b'.', ..CsvOptions::default() });
    check_back(
        vec![Arc::new(Float64Array::from_iter_values(numbers))],
        &CsvOptions { null: "inf".into(), ..CsvOptions::default() },
    );
}

#[test]
fn a_time_that_has_no_text_is_an_error_and_not_a_value() {
    use arrow::array::{ArrayRef, RecordBatch, TimestampMillisecondArray};
    let times: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![0, i64::MAX]));
    let rows = RecordBatch::try_from_iter([("at", times)]).unwrap();
    let error = CsvEncoder::for_people(&CsvOptions::default()).encode(&rows).unwrap_err().to_string();
    assert!(error.starts_with("a value of column 'at' cannot be written as text"), "{error}");
}

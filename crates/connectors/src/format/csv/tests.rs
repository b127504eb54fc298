use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, Int64Array, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::{Schema, SchemaRef, TimeUnit};

use super::*;
use crate::format::{Decode, Encode, batch};

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
    let null = CsvOptions { null: "NULL".into(), delimiter: b'|', header: false };
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
    check(b"2,\"b,", "byte 2: the quote is not closed");
    check(b"2,\"b\"x,", "byte 5: a delimiter should follow the closing quote");
    check(b"2,\xff,", "column 'name': not valid UTF-8");
    check(b"99999999999999999999,b,", "column 'id': '99999999999999999999' is not a BIGINT");
    check(b"\n", "the record is empty");
    check(b"", "the record is empty");
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
fn nested_columns_are_refused() {
    let field = Field::new("tags", DataType::new_list(DataType::Int32, true), true);
    let schema = Arc::new(Schema::new(vec![field]));
    let error = CsvDecoder::new(&schema, &[0], &CsvOptions::default()).err().unwrap().to_string();
    assert!(error.contains("column 'tags'") && error.contains("use the format 'json'"), "{error}");
}

//! Records that look alike, and records that only seem to.

use super::*;

const COLUMNS: [(&str, DataType); 2] = [("page_id", DataType::Utf8View), ("time", DataType::Int64)];

fn row(page: &str, time: i64) -> String {
    format!("{{\"page_id\":\"{page}\",\"time\":{time}}}")
}

fn same(input: &[String], expected: &[String]) {
    let input: Vec<&str> = input.iter().map(String::as_str).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check(&COLUMNS, &input, &expected);
}

#[test]
fn values_of_any_length_in_a_buffer_of_any_size() {
    for records in [1, 2, 3, 40] {
        let values: Vec<(String, String, i64)> =
            (0..records).map(|i| ("u".repeat(i * 7 % 90), "p".repeat(i * 5 % 77), 3_i64.pow(i as u32 % 38))).collect();
        let input: Vec<String> = values
            .iter()
            .map(|(user, page, time)| format!("{{\"user_id\":\"{user}\",\"page_id\":\"{page}\",\"time\":{time}}}\n"))
            .collect();
        same(&input, &values.iter().map(|(_, page, time)| row(page, *time)).collect::<Vec<_>>());
    }
}

#[test]
fn a_value_that_looks_like_the_rest_of_the_record() {
    let record = |user: &str| format!("{{\"user_id\":\"{user}\",\"page_id\":\"real\",\"time\":7}}");
    let input = [
        record("u1"),
        record("u2"),
        record(r#"\",\"page_id\":\"false\",\"time\":1}"#),
        record(r#"x\\"#),
        record(r#"\\\",\"page_id\":\"false"#),
        record(&format!("{}{}", "y".repeat(31), r#"\",\"page_id\":\"false"#)),
        record("ü\",\"page_id\":\"first"),
    ];
    let mut expected: Vec<String> = vec![row("real", 7); input.len()];
    expected[6] = row("real", 7);
    same(&input, &expected);
}

#[test]
fn keys_swapped_spaced_missing_and_null() {
    let input: Vec<String> = [
        r#"{"page_id":"a","time":1}"#,
        r#"{"page_id":"a","time":2}"#,
        r#"{"time":3,"page_id":"b"}"#,
        r#"{ "page_id" : "a" , "time" : 4 } "#,
        r#"{"page_id":"a"}"#,
        r#"{"page_id":null,"time":5}"#,
        r#"{"page_id":"a","time":null}"#,
        r#"{"page_id":"a","time":"6"}"#,
        r#"{"page_id":"a","time":7,"new":[{"x":"}"}]}"#,
        r#"{"page_id":"a","time":8,"new":{"x":"}"}}"#,
        r#"{"page_id":"a","time":9}"#,
        r#"{"page_id":"a","time":10 }"#,
        "{\"page_id\":\"a\",\"time\":11\n}",
        "\u{20}\t{\"page_id\":\"a\",\"time\":12}\r\n",
    ]
    .map(str::to_owned)
    .into();
    let time = |time: i64| row("a", time);
    let expected = [
        time(1),
        time(2),
        row("b", 3),
        time(4),
        r#"{"page_id":"a","time":null}"#.to_owned(),
        r#"{"page_id":null,"time":5}"#.to_owned(),
        r#"{"page_id":"a","time":null}"#.to_owned(),
        time(6),
        time(7),
        time(8),
        time(9),
        time(10),
        time(11),
        time(12),
    ];
    same(&input, &expected);
    let reversed = |rows: &[String]| rows.iter().rev().cloned().collect::<Vec<_>>();
    same(&reversed(&input), &reversed(&expected));
}

#[test]
fn keys_longer_than_a_comparison() {
    for len in 20..110 {
        let (key, other) = ("k".repeat(len), format!("{}x", "k".repeat(len - 1)));
        let input: Vec<String> = (0..6)
            .map(|i| format!("{{\"{}\":{{\"{key}\":\"a\"}},\"time\":{i}}}", if i == 4 { &other } else { &key }))
            .collect();
        let column = DataType::Struct(fields(&[(key.as_str(), DataType::Utf8View)]));
        let expected: Vec<String> = (0..6)
            .map(|i| if i == 4 { format!("{{\"{key}\":null}}") } else { format!("{{\"{key}\":{{\"{key}\":\"a\"}}}}") })
            .collect();
        let (input, expected): (Vec<&str>, Vec<&str>) =
            (input.iter().map(String::as_str).collect(), expected.iter().map(String::as_str).collect());
        check(&[(key.as_str(), column)], &input, &expected);
    }
}

#[test]
fn a_record_is_not_read_into_the_next() {
    let input =
        ["{\"page_id\":\"a\",\"time\":1}", "{\"page_id\":\"b", "\",\"time\":2}", "{\"page_id\":\"c\",\"time\":3}"];
    let decoded = decode(&schema(&COLUMNS), &records(&input), &JsonOptions::default());
    assert_eq!(decoded.malformed.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1, 2]);
    let input =
        ["{\"page_id\":\"a\",\"time\":1}", "{\"page_id\":\"b\",\"time\":2", "5}", "{\"page_id\":\"c\",\"time\":3"];
    let decoded = decode(&schema(&COLUMNS), &records(&input), &JsonOptions::default());
    assert_eq!(decoded.malformed.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn layouts_of_streams_without_order_are_disabled_and_enabled_again() {
    let any = |i: usize| {
        let mut keys = ["user_id", "page_id", "ad_id", "kind", "time"];
        keys.rotate_left(i % 5);
        keys[1..].rotate_left(i / 5 % 4);
        keys[2..].rotate_left(i / 20 % 3);
        let values: Vec<String> = keys
            .iter()
            .map(|key| if *key == "time" { format!("\"time\":{i}") } else { format!("\"{key}\":\"{key} {i}\"") })
            .collect();
        format!("{{{}}}", values.join(","))
    };
    let input: Vec<String> = (0..6_000).map(|i| any(if i < 5_000 { i } else { i - i % 60 })).collect();
    let time = |i: usize| if i < 5_000 { i } else { i - i % 60 };
    let expected: Vec<String> = (0..6_000).map(|i| row(&format!("page_id {}", time(i)), time(i) as i64)).collect();
    same(&input, &expected);
}

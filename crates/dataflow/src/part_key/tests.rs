use super::*;
use crate::{BinaryOp, Expr};

fn column(name: &str, data_type: TypeName) -> KeyColumn {
    KeyColumn { name: name.into(), data_type }
}

fn function(name: &str, distinct: bool, data_type: TypeName) -> KeyFunction {
    KeyFunction { name: name.into(), distinct, data_type }
}

fn k() -> KeyColumn {
    column("k", TypeName::Text)
}

fn n() -> KeyColumn {
    column("n", TypeName::Int64)
}

fn time() -> KeyColumn {
    column("t", TypeName::Instant(3, "UTC".into()))
}

fn side(updating: bool) -> KeySide {
    KeySide { updating, columns: vec![k(), n()] }
}

fn of_tables_and_aggregates() -> Vec<(PartKey, &'static str)> {
    let count = function("count", false, TypeName::Int64);
    let sum = function("sum", true, TypeName::Decimal(38, 2));
    let window = Window::Hop { size_ms: 10_000, slide_ms: 500, offset_ms: 60_000 };
    let (groups, functions) = (Groups::UpdatedRows, vec![count.clone()]);
    vec![
        (PartKey::Table { table: "events".into(), connector: "kafka".into() }, "events (kafka)"),
        (
            PartKey::WindowAggregate {
                window,
                keys: vec![k()],
                functions: vec![count, sum],
                zone: Some("Europe/Zurich".to_owned()),
            },
            "aggregate, window hop 10 s every 500 ms offset 1 min, by [k STRING]: [count() BIGINT, sum(distinct ) \
             DECIMAL(38, 2)], in the time zone Europe/Zurich",
        ),
        (
            PartKey::GroupAggregate { groups, keys: vec![k()], functions, zone: None },
            "updating aggregate of an updating stream, by [k STRING]: [count() BIGINT]",
        ),
    ]
}

fn of_joins() -> Vec<(PartKey, &'static str)> {
    let filter = Expr::Binary { op: BinaryOp::Gt, left: Box::new(Expr::Column(1)), right: Box::new(Expr::Column(3)) };
    let input = |outer: bool| KeyInput { outer, side: side(outer) };
    vec![
        (
            PartKey::StreamJoin {
                join: StreamJoinKind::Left,
                keys: 1,
                left: side(false),
                right: side(true),
                nulls_equal: true,
                versions: None,
                filter: Some(filter),
                zone: None,
            },
            "join Left by 1 columns of [k STRING, n BIGINT] and updating [k STRING, n BIGINT], NULL equals NULL, where \
             (#1 > #3)",
        ),
        (
            PartKey::MultiJoin { keys: 1, inputs: vec![input(false), input(true)], nulls_equal: false },
            "join by 1 columns of [k STRING, n BIGINT] and outer updating [k STRING, n BIGINT]",
        ),
    ]
}

fn of_rows() -> Vec<(PartKey, &'static str)> {
    let row = TypeName::Row(vec![("a b".into(), TypeName::Float64), ("c".into(), TypeName::LocalTimestamp(6))]);
    let nested = TypeName::Map(Box::new((TypeName::Date, TypeName::Array(Box::new(row)))));
    let order = [true, false].map(|descending| Ordering { descending, nulls_first: true }).to_vec();
    let frame = Frame::Range { preceding_ms: Some(3_600_000) };
    let functions = vec![function("count", false, TypeName::Int64)];
    let (columns, window) = (vec![k(), n()], Some(1));
    vec![
        (
            PartKey::Rank { limit: 3, updating: true, columns, keys: 0, order, window, zone: None },
            "first 3 of updating [k STRING, n BIGINT], 0 keys, descending; ascending, NULL first, windows by key 1",
        ),
        (
            PartKey::Deduplicate { columns: vec![column("m", nested)], keys: 1, time: None },
            "deduplicate [m MAP<DATE, ARRAY<ROW<`a b` DOUBLE, c TIMESTAMP(6)>>>], 1 keys, as they come",
        ),
        (
            PartKey::Over { frame, time: Some(1), columns: vec![k(), time()], keys: 1, functions },
            "over rows of up to 1 h before, by column 1, of [k STRING, t TIMESTAMP_LTZ(3)], 1 keys: [count() BIGINT]",
        ),
        (PartKey::Sort { time: Some(0), columns: vec![time()] }, "sort by event time 0 of [t TIMESTAMP_LTZ(3)]"),
        (PartKey::Limit { skip: 7 }, "first rows after 7"),
    ]
}

/// One key of each kind, and how people see it.
fn keys() -> Vec<(PartKey, &'static str)> {
    [of_tables_and_aggregates(), of_joins(), of_rows()].concat()
}

/// The fixture of a format of manifests is written once, and never again: a key that is written differently
/// is that of another part, whose state begins empty.
#[test]
fn the_form_of_keys_is_frozen() {
    let fixture = include_str!("../../fixtures/part-keys-1.jsonl");
    let written: Vec<String> = keys().iter().map(|(key, _)| serde_json::to_string(key).expect("JSON")).collect();
    assert_eq!(written, fixture.lines().collect::<Vec<_>>());
    for ((key, _), line) in keys().iter().zip(fixture.lines()) {
        assert_eq!(serde_json::from_str::<PartKey>(line).expect("readable"), *key);
    }
    let unknown = r#"{"kind":"limit","skip":7,"fetch":1}"#;
    assert!(serde_json::from_str::<PartKey>(unknown).is_err(), "what is not known must not be left out");
}

#[test]
fn people_read_keys_in_the_types_and_times_of_sql() {
    for (key, shown) in keys() {
        assert_eq!(key.to_string(), shown);
    }
}

#[test]
fn different_keys_have_different_digests() {
    let digests: std::collections::BTreeSet<String> = keys().iter().map(|(key, _)| key.digest()).collect();
    assert_eq!(digests.len(), keys().len());
    assert_eq!(keys()[9].0.digest(), "13d254614ada667f");
}

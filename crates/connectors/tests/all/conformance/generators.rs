//! The generators.

use std::sync::Arc;

use anabranch_connectors::{
    AdCampaignsConnector, AdEventsConnector, DatagenConnector, FakerConnector, NexmarkConnector,
};
use anabranch_dataflow::ConnectorSpec;
use anabranch_operators::Connector;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::suite::{SourceCase, check_malformed, check_source, check_waits, context, drain, drain_task, source_spec};

fn own_columns(connector: &dyn Connector, spec: &ConnectorSpec) -> SchemaRef {
    connector.describe(spec, &Arc::new(Schema::empty())).unwrap().schema.unwrap()
}

fn check(connector: &dyn Connector, spec: ConnectorSpec, row_count: usize, ascending: Option<&str>) {
    let columns = own_columns(connector, &spec);
    check_source(&SourceCase { connector, spec, columns, rows: None, row_count, ascending });
}

const LOAD: [(&str, &str); 3] = [("number-of-rows", "1003"), ("rows-per-second", "unlimited"), ("seed", "7")];

fn with(options: &[(&str, &str)]) -> ConnectorSpec {
    ConnectorSpec::new("generator", &[&LOAD, options].concat())
}

#[test]
fn ad_events() {
    check(&AdEventsConnector, with(&[]), 1003, Some("event_time"));
    check(&AdEventsConnector, with(&[("format", "json"), ("partitions", "3")]), 1003, Some("event_time"));
    check(&AdEventsConnector, with(&[("out-of-orderness", "2 s"), ("partitions", "1")]), 1003, None);
    check(&AdCampaignsConnector, ConnectorSpec::new("ad_campaigns", &[("seed", "7")]), 1000, None);
}

#[test]
fn json_events_are_the_typed_ones() {
    let columns = own_columns(&AdEventsConnector, &with(&[]));
    let all: Vec<_> = (0..columns.fields().len()).collect();
    let read = |options: &[(&str, &str)]| drain(&AdEventsConnector, &with(options), &columns, &all, 1);
    assert_eq!(read(&[("format", "json")]), read(&[]));
}

#[test]
fn columns_may_be_declared_in_any_order_and_in_kindred_types() {
    let columns = Arc::new(Schema::new(vec![
        Field::new("event_time", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        Field::new("ad_id", DataType::Utf8, true),
    ]));
    for format in [&[("format", "json")] as &[_], &[]] {
        let case = SourceCase {
            connector: &AdEventsConnector,
            spec: with(format),
            columns: columns.clone(),
            rows: None,
            row_count: 1003,
            ascending: None,
        };
        check_source(&case);
    }
}

#[test]
fn every_ad_belongs_to_a_campaign() {
    let campaigns = drain(
        &AdCampaignsConnector,
        &ConnectorSpec::new("ad_campaigns", &[("seed", "7")]),
        &own_columns(&AdCampaignsConnector, &ConnectorSpec::new("ad_campaigns", &[])),
        &[0],
        1,
    );
    let ads = campaigns.sorted();
    let columns = own_columns(&AdEventsConnector, &with(&[]));
    let events = drain(&AdEventsConnector, &with(&[]), &columns, &[columns.index_of("ad_id").unwrap()], 1);
    assert!(events.sorted().iter().all(|ad| ads.binary_search(ad).is_ok()));
}

#[test]
fn damaged_events_are_reported() {
    let spec = with(&[("format", "json"), ("malformed-every", "500"), ("partitions", "2")]);
    let columns = own_columns(&AdEventsConnector, &spec);
    let case =
        SourceCase { connector: &AdEventsConnector, spec, columns, rows: None, row_count: 1001, ascending: None };
    // Rows 499 and 999 of the table.
    check_malformed(&case, &["conformance partition 1 row 249", "conformance partition 1 row 499"]);
}

#[test]
fn nexmark() {
    check(&NexmarkConnector, with(&[]), 1003, None);
    check(&NexmarkConnector, with(&[("table", "person")]), 21, Some("id"));
    check(&NexmarkConnector, with(&[("table", "auction"), ("partitions", "3")]), 62, Some("id"));
    check(&NexmarkConnector, with(&[("table", "bid")]), 920, None);
}

#[test]
fn a_generator_waits_for_the_next_row() {
    let slow = [("rows-per-second", "1"), ("partitions", "1")];
    for connector in [&AdEventsConnector as &dyn Connector, &NexmarkConnector] {
        let spec = ConnectorSpec::new("generator", &slow);
        let columns = own_columns(connector, &spec);
        let mut source = connector.source(&source_spec(&spec, &columns, &[0]), &context(0, 1), None).unwrap();
        check_waits(source.as_mut());
        // Of a table without end a task without partitions never ends.
        let mut idle = connector.source(&source_spec(&spec, &columns, &[0]), &context(1, 2), None).unwrap();
        check_waits(idle.as_mut());
    }
}

#[test]
fn a_rate_is_kept() {
    let options = [("rows-per-second", "2000"), ("number-of-rows", "600"), ("partitions", "2")];
    let spec = ConnectorSpec::new("ad_events", &options);
    let columns = own_columns(&AdEventsConnector, &spec);
    let context = context(0, 1);
    let begin = context.clock.now();
    let mut source = AdEventsConnector.source(&source_spec(&spec, &columns, &[0]), &context, None).unwrap();
    let mut drained = crate::suite::Drained::default();
    drain_task(source.as_mut(), 0, 1, &mut drained);
    let took_ms = context.clock.now().since(begin) / 1_000_000;
    assert_eq!(drained.sorted().len(), 600);
    // The last row is due after 299.5 ms; a busy machine may take longer.
    assert!((299..3000).contains(&took_ms), "took {took_ms} ms");
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let none = Arc::new(Schema::empty());
    let check = |options: &[(&str, &str)], expected: &str| {
        let error =
            AdEventsConnector.describe(&ConnectorSpec::new("ad_events", options), &none).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(&[("partitions", "0")], "option 'partitions' is 0");
    check(&[("rows-per-second", "0")], "option 'rows-per-second' is 0");
    check(&[("rows-per-second", "fast")], "option 'rows-per-second' is 'fast'");
    check(&[("malformed-every", "10")], "add 'format' = 'json'");
    check(&[("format", "csv")], "use 'format' = 'json'");
    check(&[("start-time", "soon")], "option 'start-time' is 'soon'");
    check(&[("csv.delimiter", ";")], "unknown option 'csv.delimiter'");
    let wrong = Arc::new(Schema::new(vec![Field::new("user_id", DataType::Int64, true)]));
    let error = AdEventsConnector.describe(&ConnectorSpec::new("ad_events", &[]), &wrong).unwrap_err().to_string();
    assert!(error.contains("column 'user_id' of connector 'ad_events' is STRING, not BIGINT"), "{error}");
}

#[test]
fn datagen() {
    let entries = vec![Field::new("key", DataType::Utf8View, false), Field::new("value", DataType::Float64, true)];
    let entries = Field::new("entries", DataType::Struct(entries.into()), false);
    let columns: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8View, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        Field::new("sizes", DataType::List(Arc::new(Field::new("item", DataType::Int32, true))), true),
        Field::new("prices", DataType::Map(Arc::new(entries), false), true),
        Field::new("share", DataType::Decimal128(10, 3), true),
    ]));
    let options = [
        ("fields.id.kind", "sequence"),
        ("fields.id.start", "100"),
        ("fields.id.end", "1102"),
        ("fields.name.var-len", "true"),
        ("fields.name.null-rate", "0.2"),
        ("fields.at.max-past", "1 h"),
        ("rows-per-second", "unlimited"),
        ("start-time", "2024-01-01"),
    ];
    for partitions in ["1", "3"] {
        let options = [&options[..], &[("partitions", partitions)]].concat();
        let spec = ConnectorSpec::new("datagen", &options);
        let case = SourceCase {
            connector: &DatagenConnector,
            spec,
            columns: Arc::clone(&columns),
            rows: None,
            row_count: 1003,
            ascending: Some("id"),
        };
        check_source(&case);
    }
}

#[test]
fn faker() {
    let item = Arc::new(Field::new("item", DataType::Utf8View, true));
    let columns: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("name", DataType::Utf8View, true),
        Field::new("age", DataType::Int32, false),
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        Field::new("spells", DataType::List(item), true),
    ]));
    let options = [
        ("fields.name.expression", "#{Name.fullName} of #{regexify '(Ulm|Bonn){1}'}"),
        ("fields.name.null-rate", "0.2"),
        ("fields.age.expression", "#{number.numberBetween '0','100'}"),
        ("fields.at.expression", "#{date.past '15','SECONDS'}"),
        ("fields.spells.expression", "#{harry_potter.spell}"),
        ("fields.spells.length", "3"),
        ("rows-per-second", "unlimited"),
        ("number-of-rows", "1003"),
        ("start-time", "2024-01-01"),
    ];
    for partitions in ["1", "3"] {
        let spec = ConnectorSpec::new("faker", &[&options[..], &[("partitions", partitions)]].concat());
        let columns = Arc::clone(&columns);
        let case =
            SourceCase { connector: &FakerConnector, spec, columns, rows: None, row_count: 1003, ascending: None };
        check_source(&case);
    }
}

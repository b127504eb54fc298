//! Memory, print and blackhole.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_connectors::format::Format;
use anabranch_connectors::{BlackholeConnector, MemorySink, MemorySource, PrintConnector};
use anabranch_dataflow::ConnectorSpec;
use anabranch_operators::{Connector, Polled, Positions};
use arrow::array::BinaryArray;
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema};

use crate::rows::{batches, schema};
use crate::suite::commit::check_writes_through;
use crate::suite::resume::{positions, with_rows};
use crate::suite::{
    SourceCase, check_malformed, check_sink, check_source, context, row_texts, sink_spec, source_spec, write,
};

#[test]
fn batches_in_memory() {
    let rows: Vec<_> = batches().iter().flat_map(row_texts).collect();
    for partitions in [1, 2, 5, 8] {
        check_source(&SourceCase {
            connector: &MemorySource::batches(batches()).partitions(partitions),
            spec: ConnectorSpec::new("mine", &[]),
            columns: schema(),
            row_count: rows.len(),
            rows: Some(rows.clone()),
            ascending: Some("id"),
        });
    }
    check_source(&SourceCase {
        connector: &MemorySource::batches(batches()).partitions(2).repeat(3),
        spec: ConnectorSpec::new("mine", &[]),
        columns: schema(),
        row_count: 3 * rows.len(),
        rows: Some([rows.clone(), rows.clone(), rows].concat()),
        ascending: None,
    });
}

fn lines(count: usize) -> Vec<BinaryArray> {
    let block = |first: usize| BinaryArray::from_iter_values((first..first + 100).map(|i| format!("line {i}")));
    (0..count / 100).map(|i| block(i * 100)).collect()
}

#[test]
fn records_in_memory() {
    check_source(&SourceCase {
        connector: &MemorySource::records(lines(1000), Format::Raw(Default::default())).partitions(3),
        spec: ConnectorSpec::new("mine", &[]),
        columns: Arc::new(Schema::new(vec![Field::new("line", DataType::Utf8View, false)])),
        row_count: 1000,
        rows: Some((0..1000).map(|i| format!("line {i}")).collect()),
        ascending: None,
    });
}

#[test]
fn text_in_memory() {
    let piece = |first: usize, count: usize| Buffer::from_vec(numbered(first, count).into_bytes());
    check_source(&SourceCase {
        connector: &MemorySource::text(
            vec![piece(0, 333), piece(333, 0), piece(333, 667)],
            Format::Raw(Default::default()),
        )
        .partitions(2),
        spec: ConnectorSpec::new("mine", &[]),
        columns: Arc::new(Schema::new(vec![Field::new("line", DataType::Utf8View, false)])),
        row_count: 1000,
        rows: Some((0..1000).map(|i| format!("line {i}\n")).collect()),
        ascending: None,
    });
}

fn numbered(first: usize, count: usize) -> String {
    (first..first + count).map(|i| format!("line {i}\n")).collect()
}

#[test]
fn malformed_text_in_memory() {
    let case = SourceCase {
        connector: &MemorySource::text(
            vec![Buffer::from(b"{\"id\": 1}\n{\n{\"id\": 2}\n")],
            Format::Raw(Default::default()),
        ),
        spec: ConnectorSpec::new("mine", &[("format", "json")]),
        columns: Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)])),
        row_count: 2,
        rows: Some(vec!["1".into(), "2".into()]),
        ascending: Some("id"),
    };
    check_malformed(&case, &["conformance block 0 byte 10"]);
}

#[test]
fn malformed_records_in_memory() {
    let blocks = vec![
        BinaryArray::from_iter_values([br#"{"id": 1}"# as &[u8], b"{", br#"{"id": 2}"#]),
        BinaryArray::from_iter_values([br#"{"id": 3}"# as &[u8], br#"{"id": "x"}"#]),
    ];
    let case = SourceCase {
        connector: &MemorySource::records(blocks, Format::Raw(Default::default())).partitions(2),
        spec: ConnectorSpec::new("mine", &[("format", "json")]),
        columns: Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)])),
        row_count: 3,
        rows: Some(vec!["1".into(), "2".into(), "3".into()]),
        ascending: Some("id"),
    };
    check_malformed(&case, &["conformance block 0 record 1", "conformance block 1 record 1"]);
}

#[test]
fn collected_rows() {
    let written: usize = batches().iter().map(|b| b.num_rows()).sum();
    let (sink, rows) = MemorySink::collected();
    check_sink(&sink, &|_| ConnectorSpec::new("mine", &[]), &batches(), &|_| {
        std::mem::take(&mut *rows.lock().unwrap()).iter().flat_map(row_texts).collect()
    });
    assert!(written > 0);
}

#[test]
fn a_channel_ends_with_its_job() {
    let (sink, receiver) = MemorySink::channel(64);
    write(&sink, &ConnectorSpec::new("mine", &[]), &batches(), 2);
    // All writers are gone: the receiver sees the end although the table itself still exists.
    let rows: Vec<_> = receiver.iter().flat_map(|batch| row_texts(&batch)).collect();
    assert_eq!(rows, batches().iter().flat_map(row_texts).collect::<Vec<_>>());
    let again =
        sink.sink(&sink_spec(&ConnectorSpec::new("mine", &[]), &schema()), &context(0, 1)).err().unwrap().to_string();
    assert!(again.contains("has served its job"), "{again}");
}

#[test]
fn a_channel_without_receiver_is_an_error() {
    let (sink, receiver) = MemorySink::channel(1);
    let mut writer = sink.sink(&sink_spec(&ConnectorSpec::new("mine", &[]), &schema()), &context(0, 1)).unwrap();
    drop(receiver);
    let error = writer.write(&batches()[0]).unwrap_err().to_string();
    assert!(error.contains("the receiver of the rows of table 'conformance' is gone"), "{error}");
}

#[test]
fn blackhole_counts() {
    let connector = BlackholeConnector::default();
    write(&connector, &ConnectorSpec::new("blackhole", &[]), &batches(), 3);
    assert_eq!(connector.rows(), batches().iter().map(|b| b.num_rows() as u64).sum::<u64>());
}

#[test]
fn print_takes_rows() {
    write(&PrintConnector::default(), &ConnectorSpec::new("print", &[("print-identifier", "out")]), &batches()[..1], 2);
}

#[test]
fn a_sink_that_holds_nothing_back_writes_as_rows_come() {
    let (collecting, rows) = MemorySink::collected();
    let count = || rows.lock().unwrap().iter().map(|batch| batch.num_rows()).sum();
    check_writes_through(&collecting, &ConnectorSpec::new("mine", &[]), &batches()[2], &count);
    let blackhole = BlackholeConnector::default();
    let count = || usize::try_from(blackhole.rows()).unwrap();
    check_writes_through(&blackhole, &ConnectorSpec::new("blackhole", &[]), &batches()[2], &count);
    let lines = Lines::default();
    let writer = lines.clone();
    let print = PrintConnector::to(move |_| Box::new(writer.clone()));
    check_writes_through(&print, &ConnectorSpec::new("print", &[]), &batches()[2], &|| lines.count());
}

/// Counts the lines that are written to it.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn count(&self) -> usize {
        self.0.lock().unwrap().iter().filter(|byte| **byte == b'\n').count()
    }
}

impl Write for Lines {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn positions_are_places_in_blocks() {
    let text = Buffer::from(b"a\nb\nc\n".as_slice());
    let table = MemorySource::text(vec![text.clone(), text], Format::Raw(Default::default())).repeat(2);
    let columns = Arc::new(Schema::new(vec![Field::new("line", DataType::Utf8View, false)]));
    let reader = source_spec(&ConnectorSpec::new("mine", &[]), &columns, &[0]);
    let open = |from: Option<&Positions>| table.source(&reader, &with_rows(context(0, 1), 2), from);
    let mut source = open(None).unwrap();
    let mut at = Vec::new();
    while !matches!(source.poll(Duration::ZERO).unwrap(), Polled::End) {
        at.extend(positions(source.as_ref()).into_iter().map(|(_, position)| position));
    }
    let places = [(1, 0, 0), (1, 0, 4), (1, 1, 0), (1, 1, 4), (2, 0, 0), (2, 0, 4), (2, 1, 0), (2, 1, 4)];
    let mut expected = places.map(|(pass, block, byte)| format!("pass {pass} block {block} byte {byte}")).to_vec();
    expected.extend(["end".into(), "end".into()]);
    assert_eq!(at, expected, "the end is reported after the last row and again after the end of the partition");
    for wrong in ["pass 1 block 2 byte 0", "pass 1 block 0 byte 7", "pass 0 block 0 byte 0", "pass 1 block 0 row 0"] {
        let from = [("partition 0 of 1".to_owned(), wrong.to_owned())].into();
        let error = open(Some(&from)).err().unwrap().to_string();
        assert!(error.contains(wrong) && error.contains("cannot be read"), "{error}");
    }
}

#[test]
fn declarations_that_do_not_fit_are_refused() {
    let table = MemorySource::batches(batches());
    let check = |field: Field, expected: &str| {
        let columns = Arc::new(Schema::new(vec![field]));
        let error = table.describe(&ConnectorSpec::new("mine", &[]), &columns).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(Field::new("idd", DataType::Int64, false), "connector 'mine' has no column 'idd'");
    check(Field::new("id", DataType::Utf8View, false), "column 'id' of connector 'mine' is BIGINT, not STRING");
    check(Field::new("name", DataType::Utf8View, false), "column 'name' of connector 'mine' can be NULL");
}

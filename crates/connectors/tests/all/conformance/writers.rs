//! Writers of files: several of one table at once, and what an ended epoch promises.

use std::sync::Arc;

use anabranch_connectors::FilesystemConnector;
use anabranch_dataflow::ConnectorSpec;
use anabranch_model::Epoch;
use anabranch_operators::{Connector, Sink};
use tempfile::TempDir;

use super::folder::{names, table, visible};
use crate::rows::{batch, schema};
use crate::suite::{context, drain, row_texts, sink_spec};

fn open(table: &ConnectorSpec) -> Box<dyn Sink> {
    FilesystemConnector.sink(&sink_spec(table, &schema()), &context(0, 1)).unwrap()
}

fn expected(first: i64, count: i64) -> Vec<String> {
    let mut rows = row_texts(&batch(first, count));
    rows.sort();
    rows
}

#[test]
fn writers_with_one_task_number_take_different_names() {
    let folder = TempDir::new().unwrap();
    let table = table(folder.path(), &[("format", "json"), ("sink.rolling-interval", "0")]);
    let (mut one, mut two) = (open(&table), open(&table));
    // Hidden names that are taken, then visible ones.
    one.write(&batch(0, 10)).unwrap();
    two.write(&batch(10, 10)).unwrap();
    assert_eq!(names(folder.path()), [".part-0-0.json.inprogress", ".part-0-1.json.inprogress"]);
    one.epoch_end(Epoch(1)).unwrap();
    two.epoch_end(Epoch(1)).unwrap();
    one.write(&batch(20, 10)).unwrap();
    one.finish().unwrap();
    two.write(&batch(30, 10)).unwrap();
    two.finish().unwrap();
    assert_eq!(names(folder.path()), ["part-0-0.json", "part-0-1.json", "part-0-2.json", "part-0-3.json"]);
    assert_eq!(visible(&table), expected(0, 40));
}

#[test]
fn writers_of_one_folder_do_not_disturb_each_other() {
    let folder = TempDir::new().unwrap();
    let table = table(folder.path(), &[("format", "json"), ("sink.rolling-interval", "0")]);
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let table = table.clone();
            let write = move || {
                for round in 0..25 {
                    // Opening the table recovers files that were left behind.
                    let mut sink = open(&table);
                    for epoch in 0..4 {
                        sink.write(&batch(writer * 1000 + round * 40 + epoch * 10, 10)).unwrap();
                        sink.epoch_end(Epoch(1 + epoch.unsigned_abs())).unwrap();
                    }
                }
            };
            std::thread::Builder::new().name(format!("writer-{writer}")).spawn(write).unwrap()
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(names(folder.path()).len(), 400);
    assert_eq!(visible(&table), expected(0, 4000));
}

#[test]
fn an_ended_epoch_survives_a_killed_writer() {
    for format in ["json", "csv", "raw", "parquet"] {
        let folder = TempDir::new().unwrap();
        let table = table(folder.path(), &[("format", format)]);
        let columns = if format == "raw" { Arc::new(schema().project(&[1]).unwrap()) } else { schema() };
        let open = || FilesystemConnector.sink(&sink_spec(&table, &columns), &context(0, 1)).unwrap();
        let rows = |first: i64| match format {
            // Every fifth name is NULL, which is no line.
            "raw" => batch(first + 1, 4).project(&[1]).unwrap(),
            _ => batch(first, 10),
        };
        let mut sink = open();
        for (epoch, first) in [(1, 0), (2, 10), (3, 20)] {
            sink.write(&rows(first)).unwrap();
            sink.epoch_end(Epoch(epoch)).unwrap();
        }
        sink.epoch_end(Epoch(4)).unwrap();
        drop(sink);
        drop(open());
        let all: Vec<_> = (0..columns.fields().len()).collect();
        let drained = drain(&FilesystemConnector, &table, &columns, &all, 1);
        let mut expected: Vec<_> = [0, 10, 20].iter().flat_map(|first| row_texts(&rows(*first))).collect();
        expected.sort();
        assert_eq!(drained.sorted(), expected, "{format}");
        let hidden = names(folder.path()).into_iter().filter(|name| name.starts_with('.')).count();
        assert_eq!(hidden, 0, "{format}");
    }
}

#[test]
fn a_single_csv_column_is_written_as_it_is_read() {
    let folder = TempDir::new().unwrap();
    let columns = Arc::new(schema().project(&[1]).unwrap());
    let names = batch(0, 20).project(&[1]).unwrap();
    let table = |options: &[(&str, &str)]| table(folder.path(), &[&[("format", "csv")], options].concat());
    let refused = FilesystemConnector.sink(&sink_spec(&table(&[]), &columns), &context(0, 1));
    assert!(refused.err().unwrap().to_string().contains("set 'csv.null'"));
    let table = table(&[("csv.null", "NULL")]);
    let mut sink = FilesystemConnector.sink(&sink_spec(&table, &columns), &context(0, 1)).unwrap();
    sink.write(&names).unwrap();
    sink.finish().unwrap();
    let drained = drain(&FilesystemConnector, &table, &columns, &[0], 1);
    assert_eq!((drained.malformed.as_slice(), drained.partitions[&0].clone()), ([].as_slice(), row_texts(&names)));
}

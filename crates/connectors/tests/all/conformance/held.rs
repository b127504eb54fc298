//! Files of which some are held, as those are that are ahead of others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anabranch_connectors::FilesystemConnector;
use anabranch_dataflow::ConnectorSpec;
use anabranch_model::PartitionId;
use anabranch_operators::{Connector, Polled};
use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use parquet::arrow::ArrowWriter;
use tempfile::TempDir;

use crate::suite::resume::with_rows;
use crate::suite::{context, source_spec};

const FILES: i64 = 300;
const ROWS: i64 = 7;
/// More than this are not open at a time.
const OPEN: usize = 128;

/// How many files of a folder this process has open, if the system tells.
fn open_files(folder: &Path) -> usize {
    let Ok(open) = fs::read_dir("/proc/self/fd") else { return 0 };
    let links = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.starts_with(folder)).count()
}

fn write(path: &Path, format: &str, ids: std::ops::Range<i64>) {
    let lines = |line: &dyn Fn(i64) -> String| ids.clone().map(line).collect::<String>();
    match format {
        "json" => fs::write(path, lines(&|id| format!("{{\"id\": {id}}}\n"))).unwrap(),
        "csv" => fs::write(path, format!("id\n{}", lines(&|id| format!("{id}\n")))).unwrap(),
        _ => {
            let ids = Int64Array::from_iter_values(ids);
            let batch = RecordBatch::try_from_iter([("id", Arc::new(ids) as _)]).unwrap();
            let mut writer = ArrowWriter::try_new(fs::File::create(path).unwrap(), batch.schema(), None).unwrap();
            writer.write(&batch).unwrap();
            writer.close().unwrap();
        }
    }
}

#[test]
fn many_files_are_read_side_by_side_though_few_are_open() {
    for format in ["json", "csv", "parquet"] {
        let folder = TempDir::new().unwrap();
        for file in 0..FILES {
            write(&folder.path().join(format!("{file:03}")), format, file * ROWS..(file + 1) * ROWS);
        }
        let options = [("path", folder.path().to_str().unwrap()), ("format", format), ("csv.header", "true")];
        let options = if format == "csv" { &options[..] } else { &options[..2] };
        let columns = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
        let reader = source_spec(&ConnectorSpec::new("filesystem", options), &columns, &[0]);
        let mut source = FilesystemConnector.source(&reader, &with_rows(context(0, 1), 2), None).unwrap();
        let mut given: BTreeMap<PartitionId, Vec<i64>> = BTreeMap::new();
        let (mut ended, mut open_most) = (BTreeSet::new(), 0);
        loop {
            match source.poll(Duration::ZERO).unwrap() {
                Polled::Opened { partition, .. } => _ = given.insert(partition, Vec::new()),
                Polled::Rows(rows) => {
                    let ids = rows.batch.column(0).as_primitive::<Int64Type>().values().to_vec();
                    given.get_mut(&rows.partition).unwrap().extend(ids);
                }
                Polled::Closed(partition) => _ = ended.insert(partition),
                Polled::Pending => panic!("{format}: some file may be read"),
                Polled::End => break,
            }
            open_most = open_most.max(open_files(folder.path()));
            // Each waits for those that have given less.
            let going_on = || given.iter().filter(|(partition, _)| !ended.contains(*partition));
            let least = going_on().map(|(_, ids)| ids.len()).min().unwrap_or(0);
            let ahead = going_on().filter(|(_, ids)| ids.len() > least).map(|(partition, _)| *partition).collect();
            assert!(source.hold(&ahead).unwrap());
        }
        assert!(open_most <= OPEN, "{format}: {open_most} files are open");
        let expected: Vec<Vec<i64>> = (0..FILES).map(|file| (file * ROWS..(file + 1) * ROWS).collect()).collect();
        assert_eq!(given.into_values().collect::<Vec<_>>(), expected, "{format}");
    }
}

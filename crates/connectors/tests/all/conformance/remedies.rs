//! What messages about files advise: each test does it, and counts the rows.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anabranch_connectors::FilesystemConnector;
use anabranch_dataflow::ConnectorSpec;
use anabranch_model::{Epoch, Result};
use anabranch_operators::testing::TestHost;
use anabranch_operators::{Connector, Polled, Positions};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use flate2::write::GzEncoder;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;

use crate::rows::{batches, schema};
use crate::suite::commit::CommitCase;
use crate::suite::resume::with_rows;
use crate::suite::{context, drain, source_spec};

const ROWS: i64 = 30;

fn ids() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]))
}

fn table(path: &Path, format: &str, extra: &[(&str, &str)]) -> ConnectorSpec {
    ConnectorSpec::new("filesystem", &[&[("path", path.to_str().unwrap()), ("format", format)], extra].concat())
}

fn json(ids: std::ops::Range<i64>) -> Vec<u8> {
    ids.map(|id| format!("{{\"id\": {id}}}\n")).collect::<String>().into_bytes()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn parquet(path: &Path, ids_of: std::ops::Range<i64>) {
    let column = arrow::array::Int64Array::from_iter_values(ids_of);
    let batch = RecordBatch::try_new(ids(), vec![Arc::new(column)]).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(10)).build();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), ids(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// Reads until as many rows have come, or to the end, from positions. Returns where it stands.
fn read(spec: &ConnectorSpec, from: Option<&Positions>, rows_max: usize, seen: &mut Vec<i64>) -> Result<Positions> {
    let context = with_rows(context(0, 1), 5);
    let mut source = FilesystemConnector.source(&source_spec(spec, &ids(), &[0]), &context, from)?;
    let is_followed = spec.options.contains_key("source.monitor-interval");
    let mut found = 0;
    while found < rows_max {
        match source.poll(Duration::from_millis(20))? {
            Polled::Rows(rows) => {
                assert!(rows.malformed.is_empty());
                found += rows.batch.num_rows();
                seen.extend(rows.batch.column(0).as_primitive::<Int64Type>().values());
            }
            Polled::End => break,
            Polled::Pending if is_followed && seen.len() as i64 >= ROWS => break,
            _ => {}
        }
    }
    source.positions()
}

/// A file is read in part, and then something happens to it. The job that resumes says what; then the remedy
/// is carried out, and each row has come once.
fn check(spec: &ConnectorSpec, happens: impl FnOnce(), message: &[&str], remedy: impl FnOnce()) {
    let mut seen = Vec::new();
    let from = read(spec, None, 12, &mut seen).unwrap();
    let before = seen.len() as i64;
    assert!((1..ROWS).contains(&before), "{before} rows");
    happens();
    let error = read(spec, Some(&from), usize::MAX, &mut Vec::new()).unwrap_err().to_string();
    assert!(message.iter().all(|part| error.contains(part)), "{error}");
    remedy();
    read(spec, Some(&from), usize::MAX, &mut seen).unwrap();
    seen.sort_unstable();
    assert_eq!(seen, (0..ROWS).collect::<Vec<_>>(), "after {error}");
}

#[test]
fn a_file_that_is_gone_is_put_back() {
    for (options, message) in [
        (&[][..], "there is no such file in"),
        (&[("source.monitor-interval", "10 ms")][..], "is gone, and it had been read to"),
    ] {
        let folder = TempDir::new().unwrap();
        let (file, aside) = (folder.path().join("in/a.json"), folder.path().join("aside"));
        fs::create_dir(folder.path().join("in")).unwrap();
        fs::write(&file, json(0..ROWS)).unwrap();
        let spec = table(&folder.path().join("in"), "json", options);
        let away = || fs::rename(&file, &aside).unwrap();
        check(&spec, away, &[message, "put the file back, or start over"], || fs::rename(&aside, &file).unwrap());
    }
}

#[test]
fn a_file_that_became_shorter_is_put_back_and_new_lines_go_to_new_files() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("a.json");
    fs::write(&file, json(0..ROWS)).unwrap();
    let message = ["has become shorter", "put the former file back, and start the job again"];
    check(
        &table(folder.path(), "json", &[]),
        || fs::write(&file, json(100..101)).unwrap(),
        &message,
        || {
            fs::rename(&file, folder.path().join("new.json")).unwrap();
            fs::write(&file, json(0..ROWS)).unwrap();
        },
    );
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("a.json.gz");
    fs::write(&file, gzip(&json(0..ROWS))).unwrap();
    check(
        &table(folder.path(), "json", &[]),
        || fs::write(&file, gzip(&json(100..101))).unwrap(),
        &message,
        || {
            fs::rename(&file, folder.path().join("new.json.gz")).unwrap();
            fs::write(&file, gzip(&json(0..ROWS))).unwrap();
        },
    );
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("a.parquet");
    parquet(&file, 0..ROWS);
    let message = ["has no row", "put the former file back, and start the job again"];
    let shorter = || parquet(&file, 0..3);
    check(&table(folder.path(), "parquet", &[]), shorter, &message, || parquet(&file, 0..ROWS));
}

#[test]
fn a_compressed_file_that_is_damaged_is_written_again() {
    let whole = gzip(&json(0..ROWS));
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("a.json.gz");
    fs::write(&file, &whole).unwrap();
    let advice = "write the file again under its name, with the same text up to there";
    let cut = || fs::write(&file, &whole[..whole.len() - 12]).unwrap();
    let remedy = || fs::write(&file, gzip(&json(0..ROWS))).unwrap();
    check(&table(folder.path(), "json", &[]), cut, &["ends too early", advice], remedy);
    fs::write(&file, &whole).unwrap();
    let longer = || fs::write(&file, [whole.as_slice(), &[7; 64][..]].concat()).unwrap();
    check(&table(folder.path(), "json", &[]), longer, &["bytes after its last member", advice], remedy);
}

#[test]
fn a_foreign_file_of_the_next_name_is_moved_away() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let spec = table(&out, "json", &[]);
    let all: Vec<_> = (0..schema().fields().len()).collect();
    let read = || drain(&FilesystemConnector, &spec, &schema(), &all, 1).sorted();
    let (spec, connector) = (spec.clone(), &FilesystemConnector);
    let job = CommitCase { connector, spec, scope: "a", batches: batches(), read: &read };
    let mut sink = job.open_in(&TestHost::of_incarnation(1), 0, 1);
    let prepared = job.prepare(sink.as_mut(), &[0], 9);
    fs::write(out.join("part-a-0-9-0.json"), "").unwrap();
    let error = sink.commit(&prepared).unwrap_err().to_string();
    assert!(error.contains("part-a-0-9-0.json is there already"), "{error}");
    assert!(error.contains("move the file to another folder, and start the job again"), "{error}");
    fs::rename(out.join("part-a-0-9-0.json"), folder.path().join("elsewhere")).unwrap();
    let mut sink = job.open_in(&TestHost::of_incarnation(2), 0, 1);
    sink.commit(&prepared).unwrap();
    job.assert_visible(&[0], "after the remedy");
    let next = job.prepare(sink.as_mut(), &[1], 10);
    assert_eq!(next.epoch, Epoch(10));
    sink.commit(&next).unwrap();
    job.assert_visible(&[0, 1], "in the end");
}

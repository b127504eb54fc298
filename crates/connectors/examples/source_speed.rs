//! Rows per second of the sources that run on one thread without the outside, decoders included.
#![expect(clippy::unwrap_used, reason = "a measurement stops at the first error")]

use std::sync::Arc;
use std::time::Duration;

use anabranch_connectors::standard;
use anabranch_dataflow::{ConnectorSpec, SinkSpec, SourceSpec};
use anabranch_model::Epoch;
use anabranch_operators::{Polled, TaskContext, testing};
use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};

fn context() -> TaskContext {
    testing::context(0, 1, 8192)
}

/// Reads a bounded table to its end, prints the rate and returns the rows if they are all columns of the
/// events.
fn read(name: &str, spec: ConnectorSpec, columns: Option<&SchemaRef>, wanted: &[&str]) -> Vec<RecordBatch> {
    let connectors = standard();
    let connector = connectors.get(&spec.connector).unwrap();
    let none = Arc::new(Schema::empty());
    let traits = connector.describe(&spec, columns.unwrap_or(&none)).unwrap();
    let declared = columns.cloned().or(traits.schema).unwrap();
    let mut projection: Vec<_> = wanted.iter().map(|name| declared.index_of(name).unwrap()).collect();
    if wanted.is_empty() {
        projection = (0..declared.fields().len()).collect();
    }
    let reader = SourceSpec { projection, ..SourceSpec::new(name, spec, declared) };
    let context = context();
    let mut source = connector.source(&reader, &context, None).unwrap();
    let mut batches = Vec::new();
    let mut rows = 0;
    let keep = wanted.is_empty() && name.starts_with("ad_events");
    let begin = context.clock.now();
    loop {
        match source.poll(Duration::from_millis(100)).unwrap() {
            Polled::Rows(batch) => {
                rows += batch.batch.num_rows();
                // Kept only if something is written of it: memory that is not reused would be measured, too.
                if keep {
                    batches.push(batch.batch);
                }
            }
            Polled::End => break,
            _ => {}
        }
    }
    let seconds = context.clock.now().since(begin) as f64 / 1e9;
    println!("{name:44} {:8.2} M rows/s  {:6.1} ns/row", rows as f64 / seconds / 1e6, seconds * 1e9 / rows as f64);
    batches
}

/// Writes rows, prints the rate.
fn write(name: &str, spec: ConnectorSpec, batches: &[RecordBatch]) {
    let connectors = standard();
    let writer = SinkSpec::new(name, spec, batches[0].schema());
    let context = context();
    let mut sink = connectors.get(&writer.connector.connector).unwrap().sink(&writer, &context).unwrap();
    let begin = context.clock.now();
    for batch in batches {
        sink.write(batch).unwrap();
    }
    sink.epoch_end(Epoch::FIRST).unwrap();
    sink.finish().unwrap();
    let seconds = context.clock.now().since(begin) as f64 / 1e9;
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    println!("{name:44} {:8.2} M rows/s  {:6.1} ns/row", rows as f64 / seconds / 1e6, seconds * 1e9 / rows as f64);
}

fn main() {
    let rows = std::env::args().nth(1).unwrap_or_else(|| "1000000".into());
    let load = [("number-of-rows", rows.as_str()), ("rows-per-second", "unlimited"), ("seed", "1")];
    let main_job = ["ad_id", "event_type", "event_time"];
    read("ad_events typed, 3 columns", ConnectorSpec::new("ad_events", &load), None, &main_job);
    read(
        "ad_events json, 1 column",
        ConnectorSpec::new("ad_events", &[&load[..], &[("format", "json")]].concat()),
        None,
        &["ad_id"],
    );
    read(
        "ad_events json, 3 columns",
        ConnectorSpec::new("ad_events", &[&load[..], &[("format", "json")]].concat()),
        None,
        &main_job,
    );
    read(
        "nexmark bid, all columns",
        ConnectorSpec::new("nexmark", &[&load[..], &[("table", "bid")]].concat()),
        None,
        &[],
    );
    let ids = ["auction", "bidder", "price", "dateTime"];
    read("nexmark bid, numbers", ConnectorSpec::new("nexmark", &[&load[..], &[("table", "bid")]].concat()), None, &ids);
    let events = read("ad_events typed, all columns", ConnectorSpec::new("ad_events", &load), None, &[]);
    let schema = events[0].schema();
    let folder = tempfile::tempdir().unwrap();
    for format in ["json", "csv", "parquet"] {
        let path = folder.path().join(format);
        let table = ConnectorSpec::new("filesystem", &[("path", path.to_str().unwrap()), ("format", format)]);
        write(&format!("write {format}, 7 columns"), table.clone(), &events);
        read(&format!("read {format}, 7 columns"), table.clone(), Some(&schema), &[]);
        read(&format!("read {format}, 3 columns"), table, Some(&schema), &main_job);
    }
    let path = folder.path().join("json");
    let lines = ConnectorSpec::new("filesystem", &[("path", path.to_str().unwrap()), ("format", "raw")]);
    let line = Arc::new(schema.project(&[0]).unwrap());
    read("read raw lines", lines, Some(&line), &[]);
}

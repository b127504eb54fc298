//! Measures the Kafka connector: `cargo run --release -p anabranch-connectors --example kafka_speed SERVERS
//! [RECORDS]`.
//!
//! Writes records of 250 bytes to a new topic of four partitions with one task, in epochs of 100,000, and
//! reads them back with one task, once as they are and once as JSON with three columns. Then writes them once
//! more to another topic, exactly once, each epoch in a transaction of its own. The processor's time is that
//! of this process, the client's threads included; the broker's comes on top when it runs on the same
//! machine.

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_connectors::kafka::KafkaConnector;
use anabranch_dataflow::{ConnectorSpec, SinkSpec, SourceSpec};
use anabranch_model::Epoch;
use anabranch_operators::{Connector, Delivery, Former, Polled, TaskContext, testing};
use arrow::array::{RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

const BATCH_ROWS: usize = 8192;
const EPOCH_ROWS: usize = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let servers = arguments.next().ok_or("say where the broker is: kafka_speed HOST:PORT [RECORDS]")?;
    let records: usize = arguments.next().map_or(Ok(2_000_000), |text| text.parse())?;
    let topic = format!("speed-{}", std::process::id());

    let exact = Delivery::ExactlyOnce { scope: topic.clone(), former: Former::default() };
    measure("write", records, || write(&servers, &topic, &Delivery::AtLeastOnce, records))?;
    measure("read raw", records, || read(&servers, &topic, "raw", &[("line", DataType::Utf8View)]))?;
    let columns = [("ad_id", DataType::Utf8View), ("event_type", DataType::Utf8View), ("event_time", DataType::Int64)];
    measure("read json, 3 columns", records, || read(&servers, &topic, "json", &columns))?;
    measure("write exactly once", records, || write(&servers, &format!("{topic}-exact"), &exact, records))?;
    Ok(())
}

/// Runs `work`, which returns how many records it handled, and prints its speed.
#[expect(clippy::disallowed_methods, reason = "a measurement")]
fn measure(
    name: &str,
    expected: usize,
    work: impl FnOnce() -> Result<usize, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let (start, cpu) = (Instant::now(), cpu_seconds()?);
    let count = work()?;
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds()? - cpu);
    if count != expected {
        return Err(format!("{name}: {count} records instead of {expected}").into());
    }
    let millions = count as f64 / 1e6;
    println!("{name:22} {:6.2} M/s   {:6.2} M/s per core   {seconds:.2} s", millions / seconds, millions / cpu);
    Ok(())
}

/// The processor's time that this process has taken, in hundredths of a second as Linux counts it.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let (user, system): (f64, f64) = (fields[11].parse()?, fields[12].parse()?);
    Ok((user + system) / 100.0)
}

fn table(servers: &str, topic: &str, format: &str) -> ConnectorSpec {
    let options = [
        ("topic", topic),
        ("properties.bootstrap.servers", servers),
        ("format", format),
        ("scan.bounded.mode", "latest-offset"),
        ("sink.topic.partitions", "4"),
    ];
    ConnectorSpec::new("kafka", &options)
}

fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|(name, t)| Field::new(*name, t.clone(), true)).collect::<Vec<_>>()))
}

fn context() -> TaskContext {
    testing::context(0, 1, BATCH_ROWS)
}

fn write(servers: &str, topic: &str, delivery: &Delivery, records: usize) -> Result<usize, Box<dyn Error>> {
    let schema = schema(&[("line", DataType::Utf8View)]);
    let spec = SinkSpec::new("speed", table(servers, topic, "raw"), schema.clone());
    let mut sink = KafkaConnector.sink(&spec, &TaskContext { delivery: delivery.clone(), ..context() })?;
    let lines = StringViewArray::from_iter_values((0..BATCH_ROWS).map(|i| {
        let event = format!(
            r#"{{"user_id":"{i:036}","page_id":"{i:036}","ad_id":"{i:036}","ad_type":"banner","event_type":"view","event_time":"{}","#,
            1_700_000_000_000 + i
        );
        format!(r#"{event}"ip_address":"{:0>1$}"}}"#, "1.2.3.4", 250 - event.len() - 17)
    }));
    let batch = RecordBatch::try_new(schema, vec![Arc::new(lines)])?;
    let (mut written, mut in_epoch, mut epoch) = (0, 0, Epoch::FIRST);
    while written < records {
        let part = batch.slice(0, BATCH_ROWS.min(records - written));
        sink.write(&part)?;
        written += part.num_rows();
        in_epoch += part.num_rows();
        if in_epoch >= EPOCH_ROWS || written == records {
            if let Some(committable) = sink.prepare_commit(epoch)? {
                sink.commit(&committable)?;
            }
            (in_epoch, epoch) = (0, epoch.next());
        }
    }
    sink.finish()?;
    Ok(written)
}

fn read(servers: &str, topic: &str, format: &str, columns: &[(&str, DataType)]) -> Result<usize, Box<dyn Error>> {
    let spec = SourceSpec::new("speed", table(servers, topic, format), schema(columns));
    let mut source = KafkaConnector.source(&spec, &context(), None)?;
    let mut count = 0;
    loop {
        match source.poll(Duration::from_millis(100))? {
            Polled::Rows(rows) => {
                if let Some(malformed) = rows.malformed.first() {
                    return Err(format!("{}: {}", malformed.place, malformed.error).into());
                }
                count += black_box(rows.batch).num_rows();
            }
            Polled::End => return Ok(count),
            Polled::Opened { .. } | Polled::Closed(_) | Polled::Pending => {}
        }
    }
}

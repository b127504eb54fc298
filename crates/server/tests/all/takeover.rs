//! Two processes own one job, one after the other, and the first one continues where it was: the results in
//! files are complete.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use anabranch_connectors::FilesystemConnector;
use anabranch_dataflow::{ConnectorSpec, SinkSpec, SourceSpec, TableTraits};
use anabranch_model::{Epoch, Result};
use anabranch_operators::{Committable, Connector, Positions, Sink, Source, TaskContext};
use anabranch_server::{Engine, Settings};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

const LIMIT: Duration = Duration::from_secs(60);

/// Lets the sinks of a process commit what they prepared, or blocks them.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    is_open: bool,
    waiting: u32,
}

impl Gate {
    fn open(&self) {
        self.state.lock().expect("no panic").is_open = true;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().expect("no panic");
        state.waiting += 1;
        self.changed.notify_all();
        let passed = self.changed.wait_timeout_while(state, LIMIT, |state| !state.is_open).expect("no panic");
        assert!(!passed.1.timed_out(), "the gate stays closed");
    }

    fn wait_for_a_commit(&self) {
        let state = self.state.lock().expect("no panic");
        let waited = self.changed.wait_timeout_while(state, LIMIT, |state| state.waiting == 0).expect("no panic");
        assert!(!waited.1.timed_out(), "nothing is committed");
    }
}

/// Tables of files whose commits wait at a gate.
struct Gated(Arc<Gate>);

struct GatedSink {
    sink: Box<dyn Sink>,
    prepared: Vec<Epoch>,
    gate: Arc<Gate>,
}

impl Connector for Gated {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        FilesystemConnector.describe(spec, columns)
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        FilesystemConnector.source(spec, context, from)
    }

    fn sink(&self, spec: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>> {
        let sink = FilesystemConnector.sink(spec, context)?;
        Ok(Box::new(GatedSink { sink, prepared: Vec::new(), gate: Arc::clone(&self.0) }))
    }
}

impl Sink for GatedSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.sink.write(batch)
    }

    fn epoch_end(&mut self, epoch: Epoch) -> Result<()> {
        self.sink.epoch_end(epoch)
    }

    fn prepare_commit(&mut self, epoch: Epoch) -> Result<Option<Committable>> {
        let prepared = self.sink.prepare_commit(epoch)?;
        self.prepared.extend(prepared.as_ref().map(|prepared| prepared.epoch));
        Ok(prepared)
    }

    fn commit(&mut self, committable: &Committable) -> Result<()> {
        if self.prepared.contains(&committable.epoch) {
            self.gate.pass();
        }
        self.sink.commit(committable)
    }

    fn finish(&mut self) -> Result<()> {
        self.sink.finish()
    }
}

fn engine(gate: &Arc<Gate>) -> Engine {
    let mut engine = Engine::default();
    engine.register("gated", Arc::new(Gated(Arc::clone(gate))));
    engine
}

fn sql(connector: &str, out: &Path) -> String {
    format!(
        "CREATE TABLE events (user_id STRING, ad_id STRING, event_time BIGINT)
           WITH ('connector' = 'ad_events', 'rows-per-second' = '20000', 'number-of-rows' = '20000',
                 'start-time' = '2026-01-01 00:00:00');
         CREATE TABLE results (user_id STRING, ad_id STRING, event_time BIGINT)
           WITH ('connector' = '{connector}', 'path' = '{}', 'format' = 'json');
         INSERT INTO results SELECT user_id, ad_id, event_time FROM events;",
        out.display()
    )
}

fn lines(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("folder").map(|entry| entry.expect("readable"));
    let visible = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    let texts = visible.map(|entry| fs::read_to_string(entry.path()).expect("text"));
    let mut lines: Vec<_> = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_process_that_commits_late_takes_no_files_from_the_one_that_has_taken_over() {
    let folder = tempfile::tempdir().expect("folder");
    let state = folder.path().join("state").display().to_string();
    let set = [("checkpoint-directory", state.as_str()), ("checkpoint-interval", "20 ms"), ("epoch-interval", "5 ms")];
    let set = set.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let settings = Settings { parallelism: Some(1), set, ..Settings::default() };
    let out = folder.path().join("out");
    let (gates, query) = ([Arc::new(Gate::default()), Arc::new(Gate::default())], sql("gated", &out));

    let first = engine(&gates[0]).run(&query, &settings).expect("a job");
    gates[0].wait_for_a_commit();
    let second = engine(&gates[1]).run(&query, &settings).expect("the same job, taken over");
    // A checkpoint of the second one is complete, and its files are still hidden.
    gates[1].wait_for_a_commit();
    gates[0].open();
    assert!(first.wait_timeout(LIMIT), "the first one continues");
    let error = first.wait().expect_err("it has lost the job").to_string();
    assert!(error.contains("another process has taken the job over"), "{error}");
    gates[1].open();
    assert!(second.wait_timeout(LIMIT), "the job hangs");
    assert_eq!(second.restarts(), Vec::<String>::new());
    second.wait().expect("the second one owns the job");

    let alone = folder.path().join("alone");
    let job = Engine::default().run(&sql("filesystem", &alone), &Settings::default()).expect("a job");
    job.wait().expect("it ends");
    let (is, expected) = (lines(&out), lines(&alone));
    assert_eq!((is.len(), expected.len()), (20_000, 20_000));
    assert!(is == expected, "other rows");
}

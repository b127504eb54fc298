//! Golden queries killed and restored: at random moments, again and again, at another parallelism each time, until they
//! come to their end. What is visible then is what a run without failures gives.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_dataflow::{ConnectorSpec, SinkSpec, SourceSpec, TableTraits};
use anabranch_model::{Epoch, Error, Result, Rng};
use anabranch_operators::{Committable, Connector, Delivery, Positions, Sink, Source, TaskContext};
use anabranch_server::{Engine, Settings};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// Every golden query but those of errors.
fn queries() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .expect("tests/golden exists")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "sql") && path.with_extension("out").exists())
        .collect();
    paths.sort();
    paths
}

/// A table outside: what has been committed survives every job, and nothing else does.
#[derive(Clone, Default)]
struct Outside {
    visible: Arc<Mutex<Visible>>,
}

#[derive(Default)]
struct Visible {
    lines: Vec<String>,
    /// What was committed, by scope and preparing task.
    committed: BTreeSet<(String, u32, Epoch)>,
}

struct OutsideSink {
    scope: String,
    task: u32,
    lines: Vec<String>,
    visible: Arc<Mutex<Visible>>,
}

impl Connector for Outside {
    fn describe(&self, _: &ConnectorSpec, _: &SchemaRef) -> Result<TableTraits> {
        Ok(TableTraits { bounded: true, readable: false, writable: true, max_readers: None, schema: None })
    }

    fn source(&self, _: &SourceSpec, _: &TaskContext, _: Option<&Positions>) -> Result<Box<dyn Source>> {
        Err(Error::user("this table can only be written"))
    }

    fn sink(&self, spec: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>> {
        let Delivery::ExactlyOnce { scope } = &context.delivery else {
            return Err(Error::internal(format!("table {}: rows are to be written as they come", spec.table)));
        };
        let (scope, task, visible) = (scope.clone(), context.index, Arc::clone(&self.visible));
        Ok(Box::new(OutsideSink { scope, task, lines: Vec::new(), visible }))
    }
}

impl Sink for OutsideSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let options = FormatOptions::default().with_null("NULL");
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|c| ArrayFormatter::try_new(c, &options))
            .collect::<std::result::Result<_, _>>()?;
        let line = |row: usize| columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join(" | ");
        self.lines.extend((0..batch.num_rows()).map(line));
        Ok(())
    }

    fn epoch_end(&mut self, _: Epoch) -> Result<()> {
        Err(Error::internal("an epoch's end hands over what only a checkpoint may"))
    }

    fn prepare_commit(&mut self, epoch: Epoch) -> Result<Option<Committable>> {
        let content = std::mem::take(&mut self.lines).join("\n").into_bytes();
        Ok((!content.is_empty()).then_some(Committable { epoch, task: self.task, content }))
    }

    fn commit(&mut self, committable: &Committable) -> Result<()> {
        let mut visible = self.visible.lock().expect("no panic");
        if visible.committed.insert((self.scope.clone(), committable.task, committable.epoch)) {
            let text = String::from_utf8(committable.content.clone()).expect("lines");
            visible.lines.extend(text.lines().map(str::to_owned));
        }
        Ok(())
    }
}

/// Runs until the query ends by itself, killing it meanwhile. Returns the visible rows and how often it was killed.
fn run(sql: &str, seed: u64) -> (String, u32) {
    let mut rng = Rng::new(seed);
    let folder = tempfile::tempdir().expect("folder");
    let outside = Outside::default();
    let mut engine = Engine::default();
    engine.register("collect", Arc::new(outside.clone()));
    let mut kills = 0;
    loop {
        let set = [
            ("checkpoint-directory", folder.path().to_str().expect("text").to_owned()),
            ("checkpoint-interval", ["0", "3 ms"][rng.below(2) as usize].to_owned()),
            ("epoch-interval", "1 ms".to_owned()),
            ("batch-rows", (1 + rng.below(4)).to_string()),
            ("channel-bytes", "300".to_owned()),
        ];
        let set = set.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let settings = Settings { parallelism: Some(1 + rng.below(3) as u32), set, ..Settings::default() };
        let job = engine.run(sql, &settings).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let patience = if kills < 25 { Duration::from_micros(rng.below(30_000)) } else { Duration::from_secs(60) };
        if job.wait_timeout(patience) {
            job.wait().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            break;
        }
        assert!(kills < 25, "seed {seed}: the job hangs");
        kills += 1;
        drop(job);
    }
    let mut lines = outside.visible.lock().expect("no panic").lines.clone();
    lines.sort();
    lines.push(String::new());
    (lines.join("\n"), kills)
}

#[test]
fn golden_queries_survive_being_killed_anywhere() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/data");
    let only = std::env::var("ANABRANCH_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let mut kills = 0;
    for path in queries() {
        let sql = fs::read_to_string(&path).expect("readable").replace("$DATA", &data.display().to_string());
        let expected = fs::read_to_string(path.with_extension("out")).expect("readable");
        for seed in only.map_or(0..6, |seed| seed..seed + 1) {
            println!("{} seed {seed}", path.display());
            let (rows, killed) = run(&sql, seed);
            assert_eq!(rows, expected, "{} seed {seed}, killed {killed} times", path.display());
            kills += killed;
        }
    }
    assert!(kills > 20, "nothing was killed: {kills}");
}

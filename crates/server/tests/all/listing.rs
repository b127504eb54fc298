//! A folder that is read once, and changes while the job starts: all tasks read the files of the same
//! listing.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use anabranch_connectors::FilesystemConnector;
use anabranch_dataflow::{ConnectorSpec, SinkSpec, SourceSpec, TableTraits};
use anabranch_model::Result;
use anabranch_operators::{Connector, Positions, Sink, Source, TaskContext};
use anabranch_server::{Engine, Settings};
use arrow::datatypes::SchemaRef;

/// Tables of files. Whenever a task has opened one, a new file appears that comes before all others.
#[derive(Default)]
struct Growing(AtomicU32);

impl Connector for Growing {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        FilesystemConnector.describe(spec, columns)
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        let source = FilesystemConnector.source(spec, context, from)?;
        let number = self.0.fetch_add(1, SeqCst);
        let path = Path::new(&spec.connector.options["path"]).join(format!("0{number}.json"));
        fs::write(path, format!("{{\"id\": {}}}\n", 1000 + number)).expect("written");
        Ok(source)
    }

    fn sink(&self, spec: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>> {
        FilesystemConnector.sink(spec, context)
    }
}

fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).expect("folder").map(|entry| entry.expect("readable"));
    let visible = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    let text: String = visible.map(|entry| fs::read_to_string(entry.path()).expect("text")).collect();
    let digits = |line: &str| line.chars().filter(char::is_ascii_digit).collect::<String>();
    let mut numbers: Vec<u32> = text.lines().map(|line| digits(line).parse().expect("a number")).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn no_file_is_read_twice_or_missed_when_others_appear_meanwhile() {
    let folder = tempfile::tempdir().expect("folder");
    let (input, out) = (folder.path().join("in"), folder.path().join("out"));
    fs::create_dir(&input).expect("folder");
    for id in 10..20 {
        fs::write(input.join(format!("{id}.json")), format!("{{\"id\": {id}}}\n")).expect("written");
    }
    let sql = format!(
        "CREATE TABLE numbers (id BIGINT) WITH ('connector' = 'growing', 'path' = '{}', 'format' = 'json');
         CREATE TABLE results (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json');
         INSERT INTO results SELECT id FROM numbers;",
        input.display(),
        out.display()
    );
    let growing = Arc::new(Growing::default());
    let mut engine = Engine::default();
    engine.register("growing", growing.clone());
    let settings = Settings { parallelism: Some(4), ..Settings::default() };
    engine.run(&sql, &settings).expect("a job").wait().expect("it ends");
    assert_eq!(growing.0.load(SeqCst), 4, "tasks that opened the table");
    assert_eq!(numbers(&out), (10..20).collect::<Vec<_>>());
}

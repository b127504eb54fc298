//! What every connector must do, whatever it reads and writes. Each function checks one table.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::{ConnectorSpec, OnMalformed, SinkSpec, SourceSpec};
use anabranch_model::{Clock, Epoch, SystemClock};
use anabranch_operators::{
    Connector, Delivery, Former, Malformed, Polled, Positions, Sink, Source, TaskContext, testing,
};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::util::display::{ArrayFormatter, FormatOptions};

pub(crate) mod commit;
pub(crate) mod resume;

/// Rows per batch: small, so that tables of a test need several.
pub(crate) const BATCH_ROWS: usize = 64;
/// No test waits longer for a table.
const PATIENCE: Duration = Duration::from_secs(60);

/// A bounded table and what is known of it.
pub(crate) struct SourceCase<'a> {
    pub(crate) connector: &'a dyn Connector,
    pub(crate) spec: ConnectorSpec,
    pub(crate) columns: SchemaRef,
    /// Rows as [`row_texts`] gives them, in any order; `None` if only their number is known.
    pub(crate) rows: Option<Vec<String>>,
    /// How many rows there are.
    pub(crate) row_count: usize,
    /// A column whose numbers ascend within each partition.
    pub(crate) ascending: Option<&'a str>,
}

impl SourceCase<'_> {
    /// Checks that these are the rows of the table.
    fn check_rows(&self, drained: &Drained) {
        let rows = drained.sorted();
        assert_eq!(rows.len(), self.row_count);
        if let Some(mut expected) = self.rows.clone() {
            expected.sort();
            assert_eq!(rows, expected);
        }
    }
}

pub(crate) fn context(index: u32, parallelism: u32) -> TaskContext {
    testing::context(index, parallelism, BATCH_ROWS)
}

/// The context of a task that writes exactly once, in the first incarnation of its job.
pub(crate) fn exact_context(index: u32, parallelism: u32, scope: &str) -> TaskContext {
    TaskContext {
        delivery: Delivery::ExactlyOnce { scope: scope.into(), former: Former::default() },
        ..context(index, parallelism)
    }
}

/// A reader of columns of a table.
pub(crate) fn source_spec(spec: &ConnectorSpec, columns: &SchemaRef, projection: &[usize]) -> SourceSpec {
    SourceSpec {
        projection: projection.to_vec(),
        on_malformed: OnMalformed::Skip,
        ..SourceSpec::new("conformance", spec.clone(), columns.clone())
    }
}

pub(crate) fn sink_spec(spec: &ConnectorSpec, schema: &SchemaRef) -> SinkSpec {
    SinkSpec::new("conformance", spec.clone(), schema.clone())
}

/// Each row as text.
pub(crate) fn row_texts(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::new().with_null("\u{2205}");
    let columns: Vec<_> = batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options).unwrap()).collect();
    let row = |row: usize| columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join("|");
    (0..batch.num_rows()).map(row).collect()
}

/// Rows of each partition in their order, and what was malformed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Drained {
    pub(crate) partitions: BTreeMap<u32, Vec<String>>,
    pub(crate) malformed: Vec<Malformed>,
}

impl Drained {
    /// All rows, sorted.
    pub(crate) fn sorted(&self) -> Vec<String> {
        let mut rows: Vec<_> = self.partitions.values().flatten().cloned().collect();
        rows.sort();
        rows
    }
}

/// Reads one task to its end and checks that it keeps to the protocol.
pub(crate) fn drain_task(source: &mut dyn Source, index: u32, parallelism: u32, drained: &mut Drained) {
    let clock = SystemClock::new();
    let mut open = BTreeMap::new();
    loop {
        assert!(clock.now().0 < PATIENCE.as_nanos() as u64, "the table does not end: {drained:?}");
        match source.poll(Duration::from_millis(20)).unwrap() {
            Polled::Opened { partition, name } => {
                let positions = source.positions().unwrap();
                assert!(positions.contains_key(&name), "the partition {name} has no position in {positions:?}");
                assert_eq!(partition.0 % parallelism, index, "the partition is another task's");
                assert!(!drained.partitions.contains_key(&partition.0), "the partition is opened twice");
                drained.partitions.insert(partition.0, Vec::new());
                open.insert(partition.0, ());
            }
            Polled::Rows(rows) => {
                assert!(open.contains_key(&rows.partition.0), "rows of a partition that is not open");
                let records = rows.batch.num_rows() + rows.malformed.len();
                assert!(records <= BATCH_ROWS, "a batch of {records} records");
                drained.partitions.entry(rows.partition.0).or_default().extend(row_texts(&rows.batch));
                drained.malformed.extend(rows.malformed);
            }
            Polled::Closed(partition) => {
                assert!(open.remove(&partition.0).is_some(), "a partition is closed that is not open");
            }
            Polled::Pending => {}
            Polled::End => {
                assert!(open.is_empty(), "the table ends before its partitions {open:?}");
                assert!(matches!(source.poll(Duration::ZERO).unwrap(), Polled::End), "something follows the end");
                return;
            }
        }
    }
}

/// Reads a bounded table with `parallelism` tasks.
pub(crate) fn drain(
    connector: &dyn Connector,
    spec: &ConnectorSpec,
    columns: &SchemaRef,
    projection: &[usize],
    parallelism: u32,
) -> Drained {
    let mut drained = Drained::default();
    let reader = source_spec(spec, columns, projection);
    let expected = Arc::new(columns.project(projection).unwrap());
    for index in 0..parallelism {
        let source = connector.source(&reader, &context(index, parallelism), None).unwrap();
        let mut source = CheckedSchema { source, expected: expected.clone() };
        drain_task(&mut source, index, parallelism, &mut drained);
    }
    drained
}

/// A source whose batches must have the projected schema.
struct CheckedSchema {
    source: Box<dyn Source>,
    expected: SchemaRef,
}

impl Source for CheckedSchema {
    fn poll(&mut self, wait: Duration) -> anabranch_model::Result<Polled> {
        let polled = self.source.poll(wait)?;
        if let Polled::Rows(rows) = &polled {
            assert_eq!(rows.batch.schema(), self.expected);
        }
        Ok(polled)
    }

    fn positions(&self) -> anabranch_model::Result<Positions> {
        self.source.positions()
    }
}

/// Checks a bounded table: its declaration, every row exactly once and in order at any parallelism, any
/// columns.
pub(crate) fn check_source(case: &SourceCase<'_>) {
    let traits = case.connector.describe(&case.spec, &case.columns).unwrap();
    assert!(traits.bounded && traits.readable);
    check_unknown_option(case.connector, &case.spec, &case.columns);
    let all: Vec<_> = (0..case.columns.fields().len()).collect();
    let alone = drain(case.connector, &case.spec, &case.columns, &all, 1);
    assert_eq!(alone.malformed, []);
    case.check_rows(&alone);
    for parallelism in [2, 3, 7] {
        let together = drain(case.connector, &case.spec, &case.columns, &all, parallelism);
        assert_eq!(together, alone, "{parallelism} tasks read something else than one");
    }
    if let Some(name) = case.ascending {
        check_ascending(case, name);
    }
    check_projections(case, &alone);
    resume::check_resumes(case, &alone);
}

fn check_ascending(case: &SourceCase<'_>, name: &str) {
    let column = case.columns.index_of(name).unwrap();
    let drained = drain(case.connector, &case.spec, &case.columns, &[column], 2);
    for (partition, rows) in &drained.partitions {
        let numbers: Vec<i64> = rows.iter().map(|row| row.parse().unwrap()).collect();
        assert!(numbers.is_sorted(), "partition {partition} is not in order: {numbers:?}");
    }
}

/// No column, each alone, and all but each: the values are those of the whole rows.
fn check_projections(case: &SourceCase<'_>, whole: &Drained) {
    let all: Vec<usize> = (0..case.columns.fields().len()).collect();
    let mut projections = vec![Vec::new()];
    projections.extend(all.iter().map(|column| vec![*column]));
    projections.extend(all.iter().map(|column| all.iter().copied().filter(|other| other != column).collect()));
    for projection in projections {
        let drained = drain(case.connector, &case.spec, &case.columns, &projection, 1);
        let select = |row: &String| {
            let values: Vec<_> = row.split('|').collect();
            projection.iter().map(|column| values[*column]).collect::<Vec<_>>().join("|")
        };
        let selected = |rows: &Vec<String>| rows.iter().map(select).collect::<Vec<_>>();
        let expected: BTreeMap<u32, _> = whole.partitions.iter().map(|(id, rows)| (*id, selected(rows))).collect();
        assert_eq!(drained.partitions, expected, "columns {projection:?}");
    }
}

/// Checks that an option that does not exist is refused by its name.
pub(crate) fn check_unknown_option(connector: &dyn Connector, spec: &ConnectorSpec, columns: &SchemaRef) {
    let mut spec = spec.clone();
    spec.options.insert("no-such-option".into(), "1".into());
    let error = connector.describe(&spec, columns).unwrap_err().to_string();
    assert!(error.contains("unknown option 'no-such-option'") && error.contains("known options"), "{error}");
}

/// Checks a bounded table with damaged records: each is reported with its place, the other rows are
/// unaffected.
pub(crate) fn check_malformed(case: &SourceCase<'_>, places: &[&str]) {
    let all: Vec<_> = (0..case.columns.fields().len()).collect();
    for parallelism in [1, 2] {
        let drained = drain(case.connector, &case.spec, &case.columns, &all, parallelism);
        let mut found: Vec<_> = drained.malformed.iter().map(|m| m.place.as_str()).collect();
        let mut expected = places.to_vec();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
        assert!(drained.malformed.iter().all(|m| !m.error.is_empty()), "{:?}", drained.malformed);
        case.check_rows(&drained);
    }
}

/// Checks that a reader for which nothing comes waits about as long as it may, and no longer.
pub(crate) fn check_waits(source: &mut dyn Source) {
    let clock = SystemClock::new();
    let timed = |source: &mut dyn Source, wait| {
        let before = clock.now();
        let polled = source.poll(wait).unwrap();
        (polled, Duration::from_nanos(clock.now().since(before)))
    };
    let mut polls = 0;
    while !matches!(source.poll(Duration::ZERO).unwrap(), Polled::Pending) {
        polls += 1;
        assert!(polls < 1000, "rows come all the time");
    }
    // A busy machine may delay any one of them, so they are repeated until one is short.
    let start = clock.now();
    let mut short = |wait, limit| loop {
        let (polled, took) = timed(source, wait);
        assert!(matches!(polled, Polled::Pending), "{polled:?}");
        if took < limit {
            return took;
        }
        let passed = Duration::from_nanos(clock.now().since(start));
        assert!(passed < PATIENCE, "a poll that may wait {wait:?} took {took:?}");
    };
    for _ in 0..5 {
        let took = short(Duration::from_millis(60), Duration::from_secs(2));
        assert!(took >= Duration::from_millis(50), "waited only {took:?}");
    }
    short(Duration::ZERO, Duration::from_secs(1));
}

/// Writes rows with `parallelism` tasks in several epochs, some of them empty.
pub(crate) fn write(connector: &dyn Connector, spec: &ConnectorSpec, batches: &[RecordBatch], parallelism: u32) {
    let schema = batches[0].schema();
    let traits = connector.describe(spec, &schema).unwrap();
    assert!(traits.writable);
    check_unknown_option(connector, spec, &schema);
    let writer = sink_spec(spec, &schema);
    let open = |index| connector.sink(&writer, &context(index, parallelism)).unwrap();
    let mut sinks: Vec<_> = (0..parallelism).map(open).collect();
    let mut epoch = Epoch::FIRST;
    let mut end_epoch = |sinks: &mut Vec<Box<dyn Sink>>| {
        sinks.iter_mut().for_each(|sink| sink.epoch_end(epoch).unwrap());
        epoch = epoch.next();
    };
    end_epoch(&mut sinks);
    for (index, batch) in batches.iter().enumerate() {
        let sink = &mut sinks[index % parallelism as usize];
        sink.write(&batch.slice(0, 0)).unwrap();
        sink.write(batch).unwrap();
        sink.flush().unwrap();
        if index % 2 == 0 {
            end_epoch(&mut sinks);
        }
    }
    end_epoch(&mut sinks);
    end_epoch(&mut sinks);
    sinks.iter_mut().for_each(|sink| sink.finish().unwrap());
}

/// Checks a sink: what was written can be read again, once `read` finds it as rows.
pub(crate) fn check_sink(
    connector: &dyn Connector,
    spec: &dyn Fn(u32) -> ConnectorSpec,
    batches: &[RecordBatch],
    read: &dyn Fn(u32) -> Vec<String>,
) {
    let mut expected: Vec<_> = batches.iter().flat_map(row_texts).collect();
    expected.sort();
    for parallelism in 1..=3 {
        write(connector, &spec(parallelism), batches, parallelism);
        let mut rows = read(parallelism);
        rows.sort();
        assert_eq!(rows, expected, "written by {parallelism} tasks");
    }
}

//! Event time against the definition: which rows are late, and what the windows contain, for any size of
//! batches and epochs, any number of tasks, and any order of partitions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anabranch_connectors::MemorySink;
use anabranch_dataflow::{ConnectorSpec, SourceSpec, TableTraits};
use anabranch_model::{PartitionId, Result, Rng, TaskMetrics};
use anabranch_operators::{Connector, Polled, Positions, Rows, Source, TaskContext};
use anabranch_server::{Engine, Settings};
use arrow::array::{Array, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{Int64Type, SchemaRef};

/// A record: a key and an event time.
type Record = (i64, Option<i64>);
/// Rows of each key and window.
type Counts = BTreeMap<(i64, i64), i64>;

/// Partitions, which each task reads in a different order.
#[derive(Clone)]
struct Partitions {
    records: Arc<Vec<Vec<Record>>>,
    /// The seed of the order.
    seed: u64,
}

struct Reader {
    /// Partitions that have not been announced.
    unopened: Vec<u32>,
    /// The remaining records of each open partition.
    open: BTreeMap<u32, std::vec::IntoIter<Record>>,
    batch_rows: usize,
    rng: Rng,
}

fn batch(records: &[Record]) -> RecordBatch {
    let keys = Int64Array::from_iter_values(records.iter().map(|(key, _)| *key));
    let times: Int64Array = records.iter().map(|(_, time)| *time).collect();
    let columns: [(&str, Arc<dyn Array>, bool); 2] = [("id", Arc::new(keys), false), ("at", Arc::new(times), true)];
    RecordBatch::try_from_iter_with_nullable(columns).expect("a batch")
}

impl Source for Reader {
    fn poll(&mut self, wait: Duration) -> Result<Polled> {
        if let Some(id) = self.unopened.pop() {
            return Ok(Polled::Opened { partition: PartitionId(id), name: id.to_string() });
        }
        if self.open.is_empty() {
            return Ok(Polled::End);
        }
        if self.rng.below(6) == 0 {
            anabranch_model::pause(wait.min(Duration::from_millis(self.rng.below(3))));
            return Ok(Polled::Pending);
        }
        let chosen = *self.open.keys().nth(self.rng.below(self.open.len() as u64) as usize).expect("one is open");
        let rows = 1 + self.rng.below(self.batch_rows as u64) as usize;
        let left = self.open.get_mut(&chosen).expect("it is open");
        let records: Vec<Record> = left.take(rows).collect();
        if records.is_empty() {
            self.open.remove(&chosen);
            return Ok(Polled::Closed(PartitionId(chosen)));
        }
        Ok(Polled::Rows(Rows { partition: PartitionId(chosen), batch: batch(&records), malformed: Vec::new() }))
    }

    fn positions(&self) -> Result<Positions> {
        Ok(Positions::new())
    }
}

impl Connector for Partitions {
    fn describe(&self, _: &ConnectorSpec, _: &SchemaRef) -> Result<TableTraits> {
        let (schema, max_readers) = (Some(batch(&[]).schema()), Some(self.records.len() as u32));
        Ok(TableTraits {
            bounded: true,
            readable: true,
            writable: false,
            max_readers,
            schema,
            ..TableTraits::default()
        })
    }

    fn source(&self, _: &SourceSpec, context: &TaskContext, _: Option<&Positions>) -> Result<Box<dyn Source>> {
        let own = (0..self.records.len() as u32).filter(|id| id % context.parallelism == context.index);
        let open = own.clone().map(|id| (id, self.records[id as usize].clone().into_iter())).collect();
        let rng = Rng::new(self.seed ^ u64::from(context.index) << 32);
        Ok(Box::new(Reader { unopened: own.collect(), open, batch_rows: context.batch_rows, rng }))
    }
}

/// The result of a run.
#[derive(Debug, PartialEq)]
struct Outcome {
    counts: Counts,
    late: u64,
    /// The rows of the table for late rows.
    late_rows: BTreeMap<Record, u64>,
    without_event_time: u64,
}

/// The table's options and how far its records are out of order.
struct Declared {
    delay_ms: i64,
    options: &'static str,
}

const SIZE_MS: i64 = 10;
const LATE_DROPPED: &str = ", 'scan.watermark.lateness' = 'partition'";
const LATE_WRITTEN: &str = ", 'scan.watermark.lateness' = 'partition', 'scan.watermark.late-table' = 'late'";

/// Runs a count by key and window once.
fn run(records: &[Vec<Record>], declared: &Declared, seed: u64) -> Outcome {
    let query = format!(
        "CREATE TABLE results (id BIGINT, at BIGINT, n BIGINT) WITH ('connector' = 'results');
         INSERT INTO results
         SELECT id, EXTRACT(EPOCH FROM window_start) * 1000 + EXTRACT(MILLISECOND FROM window_start) AS at, n FROM (
           SELECT id, window_start, COUNT(*) AS n
           FROM TABLE(TUMBLE(TABLE records, DESCRIPTOR(ts), INTERVAL '0.0{SIZE_MS}' SECOND))
           GROUP BY id, window_start, window_end);"
    );
    let (rows, late, tasks) = run_query(&query, records, declared, seed);
    let mut counts = Counts::new();
    for batch in &rows {
        let column = |index: usize| batch.column(index).as_primitive::<Int64Type>().values();
        for row in 0..batch.num_rows() {
            let again = counts.insert((column(0)[row], column(1)[row]), column(2)[row]);
            assert_eq!(again, None, "a window fired twice");
        }
    }
    let mut late_rows = BTreeMap::new();
    for batch in &late {
        let [ids, times] = [0, 1].map(|column| batch.column(column).as_primitive::<Int64Type>());
        for (id, time) in ids.values().iter().zip(times) {
            *late_rows.entry((*id, time)).or_default() += 1;
        }
    }
    Outcome {
        counts,
        late_rows,
        late: tasks.iter().map(|task| task.late_rows).sum(),
        without_event_time: tasks.iter().map(|task| task.rows_without_event_time).sum(),
    }
}

/// Runs a query of the records once; everything that must not matter is drawn from `seed`.
fn run_query(
    query: &str,
    records: &[Vec<Record>],
    declared: &Declared,
    seed: u64,
) -> (Vec<RecordBatch>, Vec<RecordBatch>, Vec<TaskMetrics>) {
    let Declared { delay_ms, options } = declared;
    let sql = format!(
        "CREATE TABLE records (id BIGINT NOT NULL, at BIGINT, ts AS TO_TIMESTAMP_LTZ(at, 3),
           WATERMARK FOR ts AS ts - INTERVAL '0.{delay_ms:03}' SECOND) WITH ('connector' = 'partitions'{options});
         CREATE TABLE late (id BIGINT, at BIGINT) WITH ('connector' = 'late');
         {query}"
    );
    let mut rng = Rng::new(seed);
    let (sink, rows) = MemorySink::collected();
    let (late_sink, late) = MemorySink::collected();
    let mut engine = Engine::default();
    engine.register("partitions", Arc::new(Partitions { records: Arc::new(records.to_vec()), seed }));
    engine.register("results", Arc::new(sink));
    engine.register("late", Arc::new(late_sink));
    let pick = |rng: &mut Rng, of: [&str; 3]| of[rng.below(3) as usize].to_owned();
    let set = vec![
        ("batch-rows".to_owned(), pick(&mut rng, ["1", "7", "200"])),
        ("epoch-interval".to_owned(), pick(&mut rng, ["1 ms", "10 ms", "1 min"])),
        ("buffer-timeout".to_owned(), pick(&mut rng, ["0", "1 ms", "10 ms"])),
    ];
    let settings = Settings { parallelism: Some(1 + rng.below(4) as u32), set, ..Settings::default() };
    let plan = engine.plan(&sql, &settings).expect("a plan").plan.expect("an insert");
    let job = engine.start(&plan).expect("a job");
    assert!(job.wait_timeout(Duration::from_secs(60)), "the job hangs");
    let tasks = job.wait().expect("the job ends").tasks;
    let [rows, late] = [rows, late].map(|rows| rows.lock().expect("no panic").clone());
    (rows, late, tasks)
}

/// Records with growing times, each up to `disorder_ms` earlier than in order.
fn records(rng: &mut Rng, disorder_ms: i64, nulls: bool) -> Vec<Vec<Record>> {
    let partitions = 1 + rng.below(5);
    let partition = |_| {
        let (count, start, step) = (100 + rng.below(200), rng.below(400) as i64 - 200, 1 + rng.below(3));
        let mut latest = start;
        let record = |_| {
            latest += rng.below(step + 1) as i64;
            let time = latest - rng.below(disorder_ms as u64 + 1) as i64;
            (rng.below(5) as i64, Some(time).filter(|_| !nulls || rng.below(10) > 0))
        };
        (0..count).map(record).collect()
    };
    (0..partitions).map(partition).collect()
}

/// The definition: a row is late if it is further behind an earlier row of its partition than the bound.
fn expected(records: &[Vec<Record>], delay_ms: i64) -> Outcome {
    let mut outcome = Outcome { counts: Counts::new(), late: 0, late_rows: BTreeMap::new(), without_event_time: 0 };
    for partition in records {
        let mut latest = i64::MIN;
        for (key, time) in partition {
            let Some(time) = *time else {
                outcome.without_event_time += 1;
                continue;
            };
            if time < latest.saturating_sub(delay_ms) {
                outcome.late += 1;
                *outcome.late_rows.entry((*key, Some(time))).or_default() += 1;
            } else {
                *outcome.counts.entry((*key, time.div_euclid(SIZE_MS) * SIZE_MS)).or_default() += 1;
            }
            latest = latest.max(time);
        }
    }
    outcome
}

#[test]
fn rows_within_the_declared_bound_are_never_late() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let delay_ms = rng.below(30) as i64;
        let records = records(&mut rng, delay_ms, false);
        let declared = Declared { delay_ms, options: "" };
        let definition = expected(&records, delay_ms);
        assert_eq!(definition.late, 0);
        assert_eq!(run(&records, &declared, seed), definition, "seed {seed}");
    }
}

#[test]
fn lateness_by_partition_repeats_exactly() {
    let mut late = 0;
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let delay_ms = rng.below(10) as i64;
        let records = records(&mut rng, 3 * delay_ms + 5, true);
        let options = [LATE_DROPPED, LATE_WRITTEN][seed as usize % 2];
        let mut definition = expected(&records, delay_ms);
        if options == LATE_DROPPED {
            definition.late_rows.clear();
        }
        late += definition.late;
        assert_eq!(run(&records, &Declared { delay_ms, options }, seed), definition, "seed {seed}");
    }
    assert!(late > 1000, "{late} late rows are too few to test with");
}

/// Which rows beyond the bound count depends on timing, but each row is either in a result or counted as
/// late.
#[test]
fn every_row_is_in_a_result_or_counted_once() {
    for (seed, options) in (0..40).zip(["", ", 'scan.idle-timeout' = '1 ms'"].into_iter().cycle()) {
        let mut rng = Rng::new(seed);
        let delay_ms = rng.below(5) as i64;
        let records = records(&mut rng, 60, true);
        let outcome = run(&records, &Declared { delay_ms, options }, seed);
        let rows: usize = records.iter().map(Vec::len).sum();
        let counted: i64 = outcome.counts.values().sum();
        let without = records.iter().flatten().filter(|(_, time)| time.is_none()).count() as u64;
        assert_eq!(outcome.without_event_time, without, "seed {seed}");
        assert_eq!(counted as u64 + outcome.late + without, rows as u64, "seed {seed}: {outcome:?}");
    }
}

#[test]
fn rows_reach_the_table_in_the_order_of_event_time() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let delay_ms = rng.below(30) as i64;
        let records = records(&mut rng, delay_ms, false);
        let query = "CREATE TABLE results (id BIGINT, at BIGINT) WITH ('connector' = 'results');
             INSERT INTO results SELECT id, at FROM records ORDER BY ts, id DESC;";
        let (rows, _, _) = run_query(query, &records, &Declared { delay_ms, options: "" }, seed);
        let column =
            |batch: &RecordBatch, index: usize| batch.column(index).as_primitive::<Int64Type>().values().to_vec();
        let found: Vec<Record> = rows
            .iter()
            .flat_map(|batch| column(batch, 0).into_iter().zip(column(batch, 1).into_iter().map(Some)))
            .collect();
        let mut expected: Vec<Record> = records.into_iter().flatten().collect();
        expected.sort_by_key(|(id, at)| (*at, -id));
        assert_eq!(found, expected, "seed {seed}");
    }
}

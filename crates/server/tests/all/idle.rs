//! An idle partition no longer holds event time back, and loses nothing.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_connectors::MemorySink;
use anabranch_dataflow::{ConnectorSpec, SourceSpec, TableTraits};
use anabranch_model::{Error, PartitionId, Result};
use anabranch_operators::{Connector, Polled, Positions, Rows, Source, TaskContext};
use anabranch_server::{Engine, Settings};
use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{Int64Type, SchemaRef};

const SQL: &str = "
CREATE TABLE events (id BIGINT, event_time BIGINT, ts AS TO_TIMESTAMP_LTZ(event_time, 3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'two_partitions');
CREATE TABLE results (id BIGINT, occurrences BIGINT) WITH ('connector' = 'results');
INSERT INTO results
SELECT id, COUNT(*) AS occurrences FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND))
GROUP BY id, window_start, window_end;";

/// Longer than it takes a message to reach the next stage.
const LOOKS: u32 = 20;
const LOOK: Duration = Duration::from_millis(10);
/// Nothing that works takes this long.
const LIMIT: Duration = Duration::from_secs(120);

/// Partition 0 has early rows and then none; partition 1 waits for that and has late ones. Each step names
/// its precondition.
#[derive(Clone, Default)]
struct TwoPartitions {
    step: Arc<AtomicU32>,
}

struct Reader {
    index: u32,
    script: Vec<(u32, Polled)>,
    step: Arc<AtomicU32>,
    looks: u32,
}

fn rows(index: u32, event_time: i64) -> Polled {
    let (ids, times) = (Int64Array::from_iter_values(0..50), Int64Array::from_value(event_time, 50));
    let batch = RecordBatch::try_from_iter([("id", Arc::new(ids) as _), ("event_time", Arc::new(times) as _)]);
    Polled::Rows(Rows { partition: PartitionId(index), batch: batch.expect("rows"), malformed: Vec::new() })
}

impl Source for Reader {
    fn poll(&mut self, wait: Duration) -> Result<Polled> {
        let step = self.step.load(SeqCst);
        let due = self.script.first().is_some_and(|(at, _)| *at <= step);
        if due {
            self.looks = 0;
            return Ok(self.script.remove(0).1);
        }
        // A partition with nothing left to do at this step lets the other one continue, after a while.
        self.looks += 1;
        if step % 2 == self.index && self.looks == LOOKS {
            self.step.store(step + 1, SeqCst);
        }
        anabranch_model::pause(wait.min(LOOK));
        Ok(Polled::Pending)
    }

    fn positions(&self) -> Result<Positions> {
        Ok(Positions::new())
    }
}

impl Connector for TwoPartitions {
    fn describe(&self, _: &ConnectorSpec, _: &SchemaRef) -> Result<TableTraits> {
        let schema = match rows(0, 0) {
            Polled::Rows(rows) => Some(rows.batch.schema()),
            _ => None,
        };
        Ok(TableTraits {
            bounded: true,
            readable: true,
            writable: false,
            max_readers: Some(2),
            schema,
            ..TableTraits::default()
        })
    }

    fn source(&self, _: &SourceSpec, context: &TaskContext, _: Option<&Positions>) -> Result<Box<dyn Source>> {
        let id = PartitionId(context.index);
        let opened = Polled::Opened { partition: id, name: context.index.to_string() };
        let script = match context.index {
            0 => vec![(0, opened), (0, rows(0, 1_000)), (0, Polled::Closed(id)), (2, Polled::End)],
            _ => vec![(0, opened), (1, rows(1, 1_000_000)), (2, Polled::End)],
        };
        Ok(Box::new(Reader { index: context.index, script, step: Arc::clone(&self.step), looks: 0 }))
    }
}

#[test]
fn rows_of_a_partition_that_became_idle_are_not_late() {
    let (sink, rows) = MemorySink::collected();
    let mut engine = Engine::default();
    engine.register("two_partitions", Arc::new(TwoPartitions::default()));
    engine.register("results", Arc::new(sink));
    // No epoch may end meanwhile, because at its end operators flush.
    let set = vec![("epoch-interval".to_owned(), "1 min".to_owned())];
    let settings = Settings { parallelism: Some(2), set, ..Settings::default() };
    let plan = engine.plan(SQL, &settings).expect("a plan").plan.expect("an insert");
    let job = engine.start(&plan).expect("a job");
    assert!(job.wait_timeout(LIMIT), "the job hangs");
    let summary = job.wait().expect("the job ends");
    assert_eq!(summary.tasks.iter().map(|task| task.late_rows).sum::<u64>(), 0);
    let rows = rows.lock().expect("no panic");
    let counted: i64 =
        rows.iter().flat_map(|batch| batch.column(1).as_primitive::<Int64Type>().values().to_vec()).sum();
    assert_eq!(counted, 100);
}

/// Tables that stay open until a result was seen: a quiet one, which becomes idle, and an active one.
#[derive(Clone)]
struct UntilResult {
    results: Arc<Mutex<Vec<RecordBatch>>>,
}

struct OpenReader {
    script: Vec<Polled>,
    results: Arc<Mutex<Vec<RecordBatch>>>,
    polls_left: u32,
}

impl Source for OpenReader {
    fn poll(&mut self, wait: Duration) -> Result<Polled> {
        if !self.script.is_empty() {
            return Ok(self.script.remove(0));
        }
        if !self.results.lock().expect("no panic").is_empty() {
            return Ok(Polled::End);
        }
        self.polls_left = self.polls_left.checked_sub(1).ok_or_else(|| Error::user("no window has fired"))?;
        anabranch_model::pause(wait.min(LOOK));
        Ok(Polled::Pending)
    }

    fn positions(&self) -> Result<Positions> {
        Ok(Positions::new())
    }
}

impl Connector for UntilResult {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        TwoPartitions::default().describe(spec, columns)
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, _: Option<&Positions>) -> Result<Box<dyn Source>> {
        let opened = |index: u32| Polled::Opened { partition: PartitionId(index), name: index.to_string() };
        let quiet = || vec![opened(0), rows(0, 1_000)];
        let lively = |index| vec![opened(index), rows(index, 2_000), rows(index, 1_000_000)];
        let script = match (spec.table.as_str(), context.index) {
            ("both" | "quiet", 0) => quiet(),
            ("both", _) => lively(context.index),
            ("lively", 0) => lively(0),
            _ => Vec::new(),
        };
        Ok(Box::new(OpenReader {
            script,
            results: Arc::clone(&self.results),
            polls_left: (LIMIT.as_millis() / LOOK.as_millis()) as u32,
        }))
    }
}

/// Runs a query until it has a result while every source is still open.
fn fires_while_open(tables: &[&str], query: &str) {
    let table = |name: &&str| {
        format!(
            "CREATE TABLE {name} (id BIGINT, event_time BIGINT, ts AS TO_TIMESTAMP_LTZ(event_time, 3),
               WATERMARK FOR ts AS ts) WITH ('connector' = 'until_result', 'scan.idle-timeout' = '20 ms');"
        )
    };
    let sql = format!(
        "{} CREATE TABLE results (id BIGINT, occurrences BIGINT) WITH ('connector' = 'results'); INSERT INTO results {query};",
        tables.iter().map(table).collect::<String>()
    );
    let (sink, results) = MemorySink::collected();
    let mut engine = Engine::default();
    engine.register("until_result", Arc::new(UntilResult { results }));
    engine.register("results", Arc::new(sink));
    let settings = Settings { parallelism: Some(2), ..Settings::default() };
    let plan = engine.plan(&sql, &settings).expect("a plan").plan.expect("an insert");
    let job = engine.start(&plan).expect("a job");
    assert!(job.wait_timeout(LIMIT), "the job hangs");
    job.wait().expect("a window fires while one input is idle and open");
}

#[test]
fn a_window_fires_while_one_input_is_idle_and_open() {
    fires_while_open(
        &["both"],
        "SELECT id, COUNT(*) FROM TABLE(TUMBLE(TABLE both, DESCRIPTOR(ts), INTERVAL '10' SECOND))
         GROUP BY id, window_start, window_end",
    );
}

#[test]
fn idleness_passes_through_the_stages_between() {
    let first = |table: &str| {
        format!(
            "SELECT id, COUNT(*) AS n, window_time AS at
             FROM TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(ts), INTERVAL '10' SECOND))
             GROUP BY id, window_start, window_end, window_time"
        )
    };
    fires_while_open(
        &["quiet", "lively"],
        &format!(
            "WITH firsts AS ({} UNION ALL {})
             SELECT n, COUNT(*) FROM TABLE(TUMBLE(TABLE firsts, DESCRIPTOR(at), INTERVAL '20' SECOND))
             GROUP BY n, window_start, window_end",
            first("quiet"),
            first("lively")
        ),
    );
}

/// The longest wait of a source that cannot be interrupted.
const USUAL: Duration = Duration::from_millis(200);

/// A table without rows that ends as soon as its task lets it wait for long.
struct Patient {
    at_host: bool,
    longest: Arc<Mutex<Duration>>,
    polls_left: u32,
    has_opened: bool,
}

impl Source for Patient {
    fn poll(&mut self, wait: Duration) -> Result<Polled> {
        if !std::mem::replace(&mut self.has_opened, true) {
            return Ok(Polled::Opened { partition: PartitionId(0), name: "0".into() });
        }
        let mut longest = self.longest.lock().expect("no panic");
        *longest = wait.max(*longest);
        self.polls_left -= 1;
        if self.polls_left == 0 || *longest > USUAL {
            return Ok(Polled::End);
        }
        drop(longest);
        anabranch_model::pause(LOOK);
        Ok(Polled::Pending)
    }

    fn waits_at_host(&self) -> bool {
        self.at_host
    }

    fn positions(&self) -> Result<Positions> {
        Ok(Positions::new())
    }
}

#[derive(Clone)]
struct Patience {
    at_host: bool,
    longest: Arc<Mutex<Duration>>,
}

impl Connector for Patience {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        TwoPartitions::default().describe(spec, columns)
    }

    fn source(&self, _: &SourceSpec, _: &TaskContext, _: Option<&Positions>) -> Result<Box<dyn Source>> {
        let Patience { at_host, longest } = self.clone();
        let polls_left = if at_host { (LIMIT.as_millis() / LOOK.as_millis()) as u32 } else { LOOKS };
        Ok(Box::new(Patient { at_host, longest, polls_left, has_opened: false }))
    }
}

#[test]
fn a_source_whose_wait_can_be_ended_waits_for_longer() {
    let longest = |at_host: bool| {
        let longest = Arc::<Mutex<Duration>>::default();
        let mut engine = Engine::default();
        engine.register("two_partitions", Arc::new(Patience { at_host, longest: Arc::clone(&longest) }));
        engine.register("results", Arc::new(MemorySink::collected().0));
        let settings = Settings { parallelism: Some(1), ..Settings::default() };
        let plan = engine.plan(SQL, &settings).expect("a plan").plan.expect("an insert");
        let job = engine.start(&plan).expect("a job");
        assert!(job.wait_timeout(LIMIT), "the job hangs");
        job.wait().expect("the job ends");
        *longest.lock().expect("no panic")
    };
    assert!(longest(false) <= USUAL);
    assert!(longest(true) > USUAL);
}

//! Tables that are aligned: none reads further ahead of the slowest than it may, whatever runs where, and
//! what a join keeps stays small.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_connectors::MemorySink;
use anabranch_dataflow::{ConnectorSpec, SourceSpec, TableTraits};
use anabranch_model::{PartitionId, Result, Rng};
use anabranch_operators::{Connector, Polled, Positions, Rows, Source, TaskContext};
use anabranch_server::{Engine, Settings};
use anabranch_state::{Access, Contents, Store};
use arrow::array::{Array, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{Int64Type, SchemaRef};

const LIMIT: Duration = Duration::from_secs(60);

/// A partition of a table.
type Place = (&'static str, u32);

/// What the readers of all tables have given, and may give.
#[derive(Default)]
struct Seen {
    /// The time of the newest row of each partition that has not ended, `None` if it has not given any.
    /// Silent ones are not here.
    given: BTreeMap<Place, Option<i64>>,
    /// No partition of this table gives rows of a later time.
    upto: BTreeMap<&'static str, i64>,
    /// Partitions that give nothing yet.
    silent: BTreeSet<Place>,
}

/// A table whose partitions have a row for each of some numbers, which are their event times.
#[derive(Clone)]
struct Numbers {
    table: &'static str,
    times: Vec<Vec<i64>>,
    /// In milliseconds: how far a partition may be ahead of all others, if that is known of each.
    drift: Option<i64>,
    seen: Arc<Mutex<Seen>>,
    seed: u64,
}

struct Reader {
    of: Numbers,
    unopened: Vec<u32>,
    /// The number of rows that each open partition has given.
    open: BTreeMap<u32, usize>,
    ended: BTreeSet<u32>,
    has_given: BTreeSet<u32>,
    held: BTreeSet<PartitionId>,
    batch_rows: usize,
    rng: Rng,
}

fn batch(times: &[i64]) -> RecordBatch {
    let column: Arc<dyn Array> = Arc::new(Int64Array::from(times.to_vec()));
    RecordBatch::try_from_iter([("ms", column)]).expect("a batch")
}

impl Reader {
    /// Gives the next rows of a partition, which must not be ahead of others.
    fn give(&mut self, id: u32) -> Option<Polled> {
        let Numbers { table, times, drift, seen, .. } = &self.of;
        let mut seen = seen.lock().expect("no panic");
        let (times, at) = (&times[id as usize], self.open[&id]);
        if seen.silent.contains(&(*table, id)) {
            return None;
        }
        let upto = seen.upto.get(table).copied().unwrap_or(i64::MAX);
        let may = times[at..].iter().take_while(|time| **time <= upto).take(self.batch_rows).count();
        if at == times.len() {
            // One that was silent ends with the others.
            if times.is_empty() && !seen.given.is_empty() {
                return None;
            }
            seen.given.remove(&(*table, id));
            self.open.remove(&id);
            self.ended.insert(id);
            return Some(Polled::Closed(PartitionId(id)));
        }
        let rows = times[at..at + may].to_vec();
        let last = *rows.last()?;
        let own = seen.given.get(&(*table, id)).copied().flatten();
        let slowest = seen.given.values().map(|time| time.unwrap_or(i64::MIN)).min();
        // How far the others are is not known before the first batch.
        let is_first = !self.has_given.contains(&id);
        if let (Some(own), Some(slowest), Some(drift)) = (own.filter(|_| !is_first), slowest, *drift) {
            assert!(own <= slowest.saturating_add(drift), "{table} {id} at {own}: {:?}", seen.given);
        }
        seen.given.insert((table, id), Some(last));
        self.has_given.insert(id);
        self.open.insert(id, at + may);
        Some(Polled::Rows(Rows { partition: PartitionId(id), batch: batch(&rows), malformed: Vec::new() }))
    }
}

impl Source for Reader {
    fn poll(&mut self, wait: Duration) -> Result<Polled> {
        if let Some(id) = self.unopened.pop() {
            return Ok(Polled::Opened { partition: PartitionId(id), name: id.to_string() });
        }
        if self.open.is_empty() {
            return Ok(Polled::End);
        }
        let free: Vec<u32> = self.open.keys().copied().filter(|id| !self.held.contains(&PartitionId(*id))).collect();
        if !free.is_empty() && self.rng.below(6) > 0 {
            let chosen = free[self.rng.below(free.len() as u64) as usize];
            if let Some(polled) = self.give(chosen) {
                return Ok(polled);
            }
        }
        anabranch_model::pause(wait.min(Duration::from_millis(self.rng.below(3))));
        Ok(Polled::Pending)
    }

    fn hold(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<bool> {
        self.held.clone_from(partitions);
        Ok(true)
    }

    fn positions(&self) -> Result<Positions> {
        let ended = self.ended.iter().map(|id| (id.to_string(), self.of.times[*id as usize].len().to_string()));
        Ok(self.open.iter().map(|(id, at)| (id.to_string(), at.to_string())).chain(ended).collect())
    }
}

impl Connector for Numbers {
    fn describe(&self, _: &ConnectorSpec, _: &SchemaRef) -> Result<TableTraits> {
        let max_readers = Some(self.times.len() as u32);
        // Neither table is read to its end before the other.
        Ok(TableTraits { bounded: false, readable: true, writable: false, max_readers, ..TableTraits::default() })
    }

    fn source(&self, _: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        let own = (0..self.times.len() as u32).filter(|id| id % context.parallelism == context.index);
        let at = |id: &u32| from.and_then(|from| from.get(&id.to_string())?.parse().ok()).unwrap_or(0);
        let open: BTreeMap<u32, usize> = own.map(|id| (id, at(&id))).collect();
        let mut seen = self.seen.lock().expect("no panic");
        for (id, at) in &open {
            let times = &self.times[*id as usize];
            if !times.is_empty() {
                let last = at.checked_sub(1).map(|last| times[last]);
                seen.given.insert((self.table, *id), last);
            }
        }
        Ok(Box::new(Reader {
            of: self.clone(),
            unopened: open.keys().copied().collect(),
            open,
            ended: BTreeSet::new(),
            has_given: BTreeSet::new(),
            held: BTreeSet::new(),
            batch_rows: context.batch_rows,
            rng: Rng::new(self.seed ^ u64::from(context.index) << 32),
        }))
    }
}

/// A join of the rows of both tables that are at most a second apart.
fn script(drift: i64, options: &str) -> String {
    let table = |name: &str| {
        format!(
            "CREATE TABLE {name} (ms BIGINT NOT NULL, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts)
             WITH ('connector' = '{name}', 'scan.watermark.alignment.group' = 'g',
                   'scan.watermark.alignment.max-drift' = '{drift} ms'{options});"
        )
    };
    format!(
        "{} {} CREATE TABLE results (a BIGINT, b BIGINT) WITH ('connector' = 'results');
         INSERT INTO results SELECT fast.ms, slow.ms FROM fast JOIN slow
         ON fast.ms % 7 = slow.ms % 7 AND fast.ts BETWEEN slow.ts - INTERVAL '1' SECOND AND slow.ts + INTERVAL '1' SECOND;",
        table("fast"),
        table("slow")
    )
}

fn expected(fast: &[Vec<i64>], slow: &[Vec<i64>]) -> BTreeSet<(i64, i64)> {
    let pairs = |a: i64| slow.iter().flatten().map(move |b| (a, *b));
    let all = fast.iter().flatten().flat_map(|a| pairs(*a));
    all.filter(|(a, b)| a % 7 == b % 7 && (a - b).abs() <= 1000).collect()
}

fn pairs(rows: &Mutex<Vec<RecordBatch>>) -> BTreeSet<(i64, i64)> {
    let mut pairs = BTreeSet::new();
    for batch in rows.lock().expect("no panic").iter() {
        let [a, b] = [0, 1].map(|column| batch.column(column).as_primitive::<Int64Type>().values());
        pairs.extend(a.iter().copied().zip(b.iter().copied()));
    }
    pairs
}

/// `partitions` partitions with rows up to `end`, and perhaps a silent one.
fn numbers(rng: &mut Rng, partitions: u64, end: u64, silent: bool) -> Vec<Vec<i64>> {
    let mut times: Vec<Vec<i64>> = (0..partitions)
        .map(|_| {
            let (first, step) = (rng.below(end / 2), 1 + rng.below(40));
            (first..end).step_by(step as usize).map(|time| time as i64).collect()
        })
        .collect();
    if silent {
        times.push(Vec::new());
    }
    times
}

#[test]
fn no_partition_reads_further_ahead_than_it_may_and_all_end() {
    for seed in 0..12 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let silent = rng.below(3) == 0;
        let drift = [0, 1, 50, 700][rng.below(4) as usize];
        let (of_fast, of_slow) = (1 + rng.below(4), 1 + rng.below(3));
        let (fast, slow) = (numbers(&mut rng, of_fast, 1500, false), numbers(&mut rng, of_slow, 1100, silent));
        let seen = Arc::<Mutex<Seen>>::default();
        let mut engine = Engine::default();
        for (table, times) in [("fast", &fast), ("slow", &slow)] {
            // With an idle timeout, a partition that is read slowly may be idle, and nobody waits for it.
            let drift = (!silent).then_some(drift);
            let numbers = Numbers { table, times: times.clone(), drift, seen: Arc::clone(&seen), seed };
            engine.register(table, Arc::new(numbers));
        }
        let (sink, rows) = MemorySink::collected();
        engine.register("results", Arc::new(sink));
        let set = vec![
            ("batch-rows".to_owned(), ["1", "7", "200"][rng.below(3) as usize].to_owned()),
            ("epoch-interval".to_owned(), ["1 ms", "20 ms"][rng.below(2) as usize].to_owned()),
        ];
        let settings = Settings { parallelism: Some(1 + rng.below(3) as u32), set, ..Settings::default() };
        let options = if silent { ", 'scan.idle-timeout' = '20 ms'" } else { "" };
        let job = engine.run(&script(drift, options), &settings).expect("a job");
        assert!(job.wait_timeout(LIMIT), "seed {seed}: the job hangs");
        job.wait().expect("the job ends");
        let (given, expected) = (pairs(&rows), expected(&fast, &slow));
        assert!(if silent { given.is_subset(&expected) } else { given == expected }, "seed {seed}");
    }
}

/// One table is far ahead of the other, which gives its rows little by little. The join keeps what the drift
/// allows; checkpoints go on while the fast table pauses, and a job that resumes from one pauses it again.
#[test]
fn a_join_of_tables_that_are_far_apart_keeps_few_rows() {
    const DRIFT: i64 = 2000;
    const BATCH: i64 = 10;
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().to_str().expect("text").to_owned();
    let fast: Vec<Vec<i64>> = vec![(0..40_000).step_by(10).collect()];
    let slow: Vec<Vec<i64>> = vec![(0..40_000).step_by(100).collect()];
    let seen = Arc::<Mutex<Seen>>::default();
    let (sink, rows) = MemorySink::collected();
    let sink = Arc::new(sink);
    let engine = || {
        let mut engine = Engine::default();
        for (table, times) in [("fast", &fast), ("slow", &slow)] {
            let numbers = Numbers { table, times: times.clone(), drift: Some(DRIFT), seen: Arc::clone(&seen), seed: 1 };
            engine.register(table, Arc::new(numbers));
        }
        engine.register("results", sink.clone());
        engine
    };
    let start = |parallelism: u32| {
        let set = [
            ("checkpoint-directory", directory.as_str()),
            ("checkpoint-interval", "1 h"),
            ("epoch-interval", "5 ms"),
            ("batch-rows", "10"),
        ];
        let set = set.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let settings = Settings { parallelism: Some(parallelism), set, ..Settings::default() };
        engine().run(&script(DRIFT, ""), &settings).expect("a job")
    };
    for (parallelism, upto) in [(2, 10_000), (1, 20_000), (3, 30_000)] {
        seen.lock().expect("no panic").upto.insert("slow", upto);
        let job = start(parallelism);
        // Of a source that is as far ahead as it may be, the next batch would be too much.
        let may = upto + DRIFT - BATCH * 10;
        let is_far = || seen.lock().expect("no panic").given.get(&("fast", 0)).copied().flatten() >= Some(may);
        let mut looks = 0;
        while !is_far() {
            looks += 1;
            assert!(looks < 6000 && !job.wait_timeout(Duration::from_millis(10)), "it does not go on");
        }
        for _ in 0..2 {
            job.checkpoint_now().expect("a checkpoint while a source pauses");
        }
        drop(job);
        let store = Store::open(&directory, &Access::default()).expect("a store");
        let contents = Contents::read(&store).expect("contents");
        let manifest = &contents.newest().expect("a checkpoint").manifest;
        let files = manifest.tasks.iter().flat_map(|task| &task.operators).flat_map(|operator| &operator.files);
        let kept: u64 = files.map(|file| file.rows).sum();
        // Per second, the tables have 100 rows and 10. A row stays for a second after its own time, and the
        // drift is 2 s.
        assert!((100..700).contains(&kept), "{kept} rows are kept at {upto}");
    }
    seen.lock().expect("no panic").upto.clear();
    let job = start(2);
    assert!(job.wait_timeout(LIMIT), "the job hangs");
    job.wait().expect("the job ends");
    assert_eq!(pairs(&rows), expected(&fast, &slow));
}

/// One partition of the fast table is as far ahead as it may be, and the other one was silent until then.
#[test]
fn rows_of_an_idle_partition_are_read_while_all_others_are_ahead() {
    const DRIFT: i64 = 2000;
    let fast: Vec<Vec<i64>> = vec![(0..40_000).step_by(10).collect(), (500..9000).step_by(10).collect()];
    let slow: Vec<Vec<i64>> = vec![(0..40_000).step_by(100).collect()];
    let seen = Arc::<Mutex<Seen>>::default();
    let (sink, rows) = MemorySink::collected();
    let mut engine = Engine::default();
    for (table, times) in [("fast", &fast), ("slow", &slow)] {
        let numbers = Numbers { table, times: times.clone(), drift: None, seen: Arc::clone(&seen), seed: 3 };
        engine.register(table, Arc::new(numbers));
    }
    engine.register("results", Arc::new(sink));
    seen.lock().expect("no panic").upto.insert("slow", 10_000);
    seen.lock().expect("no panic").silent.insert(("fast", 1));
    let set = [("epoch-interval", "5 ms"), ("batch-rows", "10")].map(|(name, value)| (name.into(), value.into()));
    let settings = Settings { parallelism: Some(1), set: set.to_vec(), ..Settings::default() };
    // Only of the fast table, which is declared first.
    let with_timeout = "'2000 ms', 'scan.idle-timeout' = '300 ms'";
    let job = engine.run(&script(DRIFT, "").replacen("'2000 ms'", with_timeout, 1), &settings).expect("a job");
    let given = |partition| seen.lock().expect("no panic").given.get(&("fast", partition)).copied().flatten();
    let wait = |what: &str, is_so: &dyn Fn() -> bool| {
        let mut looks = 0;
        while !is_so() {
            looks += 1;
            assert!(looks < 2000 && !job.wait_timeout(Duration::from_millis(10)), "{what}: {:?}", given(0));
        }
    };
    wait("the fast partition goes on without the silent one", &|| given(0) >= Some(10_000 + DRIFT - 100));
    seen.lock().expect("no panic").silent.clear();
    wait("the other one is read to its end", &|| !seen.lock().expect("no panic").given.contains_key(&("fast", 1)));
    assert!(given(0) <= Some(10_000 + DRIFT + 100), "nothing else has caught up");
    seen.lock().expect("no panic").upto.clear();
    assert!(job.wait_timeout(LIMIT), "the job hangs");
    job.wait().expect("the job ends");
    assert!(pairs(&rows).is_subset(&expected(&fast, &slow)));
}

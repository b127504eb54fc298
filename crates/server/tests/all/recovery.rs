//! Golden queries cancelled and restored: at random times, again and again, at another parallelism each time,
//! until they end. The visible results must be those of a run without failures.
//!
//! A cancelled job takes no last checkpoint, but its threads end in order. `crates/cli/tests/all/chaos` kills
//! processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_dataflow::{
    ConnectorSpec, OperatorSpec, Plan, SinkSpec, Stage, StateBackendKind, TableTraits, Updates, WEIGHT,
};
use anabranch_model::{Epoch, Error, Result, Rng};
use anabranch_operators::{Committable, Connector, Delivery, Sink, TaskContext};
use anabranch_server::{Access, Engine, Settings};
use anabranch_state::{Contents, Manifest, Store};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// Nothing that works takes this long.
const LIMIT: Duration = Duration::from_secs(600);
/// Golden queries of a part that run at the same time.
const THREADS: u32 = 2;
/// Of each query; `ANABRANCH_SEEDS` is another number, and 6 in `make chaos`.
const SEEDS: u64 = 2;

/// An external table: committed rows survive every job, and nothing else does.
#[derive(Clone, Default)]
struct Outside {
    visible: Arc<Mutex<Visible>>,
    /// Number of writes that still fail, for a temporary reason.
    failures: Arc<AtomicU32>,
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
    failures: Arc<AtomicU32>,
}

impl Outside {
    /// The visible rows, sorted. Each counts as often as its weights say.
    fn rows(&self) -> String {
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        for line in &self.visible.lock().expect("no panic").lines {
            let (weight, row) = line.split_once('\t').expect("a weight");
            *counts.entry(row.to_owned()).or_default() += weight.parse::<i64>().expect("a number");
        }
        let rows =
            counts.into_iter().flat_map(|(row, count)| vec![row; usize::try_from(count).expect("at least none")]);
        rows.map(|row| row + "\n").collect()
    }
}

impl Connector for Outside {
    fn describe(&self, _: &ConnectorSpec, _: &SchemaRef) -> Result<TableTraits> {
        Ok(TableTraits {
            bounded: true,
            readable: false,
            writable: true,
            max_readers: None,
            schema: None,
            updates: Updates::Written,
            ..TableTraits::default()
        })
    }

    fn sink(&self, spec: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>> {
        let Delivery::ExactlyOnce { scope, .. } = &context.delivery else {
            return Err(Error::internal(format!("table {}: rows are to be written as they come", spec.table)));
        };
        let (visible, failures) = (Arc::clone(&self.visible), Arc::clone(&self.failures));
        let (scope, task) = (scope.clone(), context.index);
        Ok(Box::new(OutsideSink { scope, task, lines: Vec::new(), visible, failures }))
    }
}

impl Sink for OutsideSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.failures.try_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Err(Error::outside("the table does not answer"));
        }
        let options = FormatOptions::default().with_null("NULL");
        let schema = batch.schema();
        let weights = batch.column_by_name(WEIGHT).map(|weights| weights.as_primitive::<Int64Type>());
        let columns: Vec<_> = schema
            .fields()
            .iter()
            .zip(batch.columns())
            .filter(|(field, _)| field.name() != WEIGHT)
            .map(|(_, column)| ArrayFormatter::try_new(column, &options))
            .collect::<std::result::Result<_, _>>()?;
        let row_text = |row: usize| columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join(" | ");
        let line = |row| format!("{}\t{}", weights.map_or(1, |weights| weights.value(row)), row_text(row));
        self.lines.extend((0..batch.num_rows()).map(line));
        Ok(())
    }

    fn epoch_end(&mut self, _: Epoch) -> Result<()> {
        Err(Error::internal("an epoch's end writes what only a checkpoint may make visible"))
    }

    fn prepare_commit(&mut self, epoch: Epoch) -> Result<Option<Committable>> {
        let content = std::mem::take(&mut self.lines).join("\n").into_bytes();
        Ok((!content.is_empty()).then_some(Committable { epoch, task: self.task, content: content.into() }))
    }

    fn commit(&mut self, committable: &Committable) -> Result<()> {
        let mut visible = self.visible.lock().expect("no panic");
        if visible.committed.insert((self.scope.clone(), committable.task, committable.epoch)) {
            let text = String::from_utf8(committable.content.to_vec()).expect("lines");
            visible.lines.extend(text.lines().map(str::to_owned));
        }
        Ok(())
    }
}

/// The checkpoints of a job that is cancelled, and the longest time that it lives.
struct Kept {
    directory: String,
    state_directory: Option<PathBuf>,
    life: Duration,
}

/// The plan of a query for each parallelism up to 3. A start only changes its options: planning it each time
/// would take most of the test's time.
fn plans(sql: &str) -> Vec<Plan> {
    let plan = |parallelism| {
        let set = vec![("checkpoint-directory".to_owned(), "drawn later".to_owned())];
        let settings = Settings { parallelism: Some(parallelism), set, ..Settings::default() };
        engine(&Outside::default()).plan(sql, &settings).expect("a plan").plan.expect("an insert")
    };
    (1..=3).map(plan).collect()
}

/// Runs until the query ends by itself, and cancels it meanwhile. Returns the visible rows and the number of
/// cancellations.
fn run(plans: &[Plan], seed: u64, kept: &Kept) -> (String, u32) {
    let mut rng = Rng::new(seed);
    let outside = Outside::default();
    let engine = engine(&outside);
    let life_us = kept.life.as_micros() as u64;
    let mut cancels = 0;
    loop {
        let mut plan = plans[rng.below(plans.len() as u64) as usize].clone();
        let options = &mut plan.options;
        let checkpoints = options.checkpoints.as_mut().expect("a directory is set");
        checkpoints.directory.clone_from(&kept.directory);
        checkpoints.interval = Duration::from_millis([0, 3][rng.below(2) as usize]);
        options.state_directory.clone_from(&kept.state_directory);
        options.epoch_interval = Duration::from_millis(1);
        options.batch_rows = 1 + rng.below(4) as usize;
        options.channel_bytes = 300;
        // Each backend continues with what the other has written. Static tables must fit into memory.
        let must_fit = |stage: &Stage| stage.operators.iter().any(|o| matches!(o, OperatorSpec::StaticJoin(_)));
        if rng.below(2) == 0 && !plan.stages.iter().any(must_fit) {
            options.state_backend = StateBackendKind::Disk;
            options.state_bytes = [8_000, 40_000][rng.below(2) as usize];
        }
        let job = engine.start(&plan).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let patience = if cancels < 25 { Duration::from_micros(rng.below(life_us)) } else { LIMIT };
        if job.wait_timeout(patience) {
            job.wait().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            break;
        }
        assert!(cancels < 25, "seed {seed}: the job hangs");
        cancels += 1;
        drop(job);
    }
    (outside.rows(), cancels)
}

mod golden_queries_survive_being_cancelled_anywhere {
    crate::golden::in_parts!(super::check_part);
}

fn check_part(part: usize) {
    let data = Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../../tests/golden/data");
    let number = |variable| std::env::var(variable).ok().and_then(|text| text.parse::<u64>().ok());
    let (only, seeds) = (number("ANABRANCH_SEED"), number("ANABRANCH_SEEDS").unwrap_or(SEEDS));
    // Queries with errors have no results.
    let cases: Vec<(PathBuf, u64)> = crate::golden::queries(part)
        .into_iter()
        .filter(|path| path.with_extension("out").exists())
        .flat_map(|path| only.map_or(0..seeds, |seed| seed..seed + 1).map(move |seed| (path.clone(), seed)))
        .collect();
    let (next, cancels) = (AtomicUsize::new(0), AtomicU32::new(0));
    let work = || {
        let mut planned: Option<(&Path, Vec<Plan>)> = None;
        while let Some((path, seed)) = cases.get(next.fetch_add(1, SeqCst)) {
            println!("{} seed {seed}", path.display());
            let plans = match planned.take() {
                Some((of, plans)) if of == path => plans,
                _ => plans(&fs::read_to_string(path).expect("readable").replace("$DATA", &data.display().to_string())),
            };
            let expected = fs::read_to_string(path.with_extension("out")).expect("readable");
            let folder = tempfile::tempdir().expect("folder");
            let directory = folder.path().to_str().expect("text").to_owned();
            let kept = Kept { directory, state_directory: None, life: Duration::from_millis(30) };
            let (rows, cancelled) = run(&plans, *seed, &kept);
            assert_eq!(rows, expected, "{} seed {seed}, cancelled {cancelled} times", path.display());
            cancels.fetch_add(cancelled, SeqCst);
            planned = Some((path, plans));
        }
    };
    // A run waits more than it computes.
    std::thread::scope(|scope| {
        let named = |n: u32| std::thread::Builder::new().name(format!("runs {n}")).spawn_scoped(scope, work);
        let threads: Vec<_> = (0..THREADS).map(|n| named(n).expect("a thread")).collect();
        for thread in threads {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    let cancels = cancels.into_inner();
    assert!(cancels > 3 || cases.len() < 10, "nothing was cancelled: {cancels}");
}

/// The same in an object store with local copies.
#[test]
fn a_golden_query_survives_with_its_checkpoints_in_s3() {
    let golden = Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../../tests/golden");
    let path = golden.join("tumble_all_aggregates.sql");
    let data = golden.join("data").display().to_string();
    let sql = fs::read_to_string(&path).expect("readable").replace("$DATA", &data);
    let expected = fs::read_to_string(path.with_extension("out")).expect("readable");
    let plans = plans(&sql);
    let mut cancels = 0;
    for seed in 0..6 {
        let nearby = tempfile::tempdir().expect("folder");
        let state_directory = Some(nearby.path().to_owned());
        let directory = crate::s3::shared().place(&format!("golden-{seed}"));
        let (rows, cancelled) =
            run(&plans, seed, &Kept { directory, state_directory, life: Duration::from_millis(15) });
        assert_eq!(rows, expected, "seed {seed}, cancelled {cancelled} times");
        assert!(nearby.path().join("copies").exists(), "nothing is copied");
        cancels += cancelled;
    }
    assert!(cancels > 3, "nothing was cancelled: {cancels}");
}

#[test]
fn a_failure_that_passes_is_survived_within_the_process() {
    let folder = Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../../tests/golden");
    let data = folder.join("data").display().to_string();
    let path = folder.join("tumble_all_aggregates.sql");
    let sql = fs::read_to_string(&path).expect("readable").replace("$DATA", &data);
    let expected = fs::read_to_string(path.with_extension("out")).expect("readable");
    let directory = tempfile::tempdir().expect("folder");
    let settings = |attempts: u32| {
        let directory = directory.path().join(attempts.to_string()).display().to_string();
        let set = [
            ("checkpoint-directory", directory),
            ("restart-attempts", attempts.to_string()),
            ("epoch-interval", "1 ms".to_owned()),
            ("batch-rows", "2".to_owned()),
        ];
        let set = set.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Settings { parallelism: Some(2), set, ..Settings::default() }
    };
    let outside = Outside::default();
    let engine = engine(&outside);

    outside.failures.store(3, SeqCst);
    let job = engine.run(&sql, &settings(5)).expect("a job");
    assert!(job.wait_timeout(LIMIT), "the job hangs");
    assert!((1..=3).contains(&job.restarts().len()), "{:?}", job.restarts());
    job.wait().expect("the failures have passed");
    assert_eq!(outside.rows(), expected);

    outside.failures.store(1000, SeqCst);
    let job = engine.run(&sql, &settings(1)).expect("a job");
    let error = job.wait().expect_err("the attempts are used up").to_string();
    assert!(error.contains("the table does not answer"), "{error}");
}

/// A job that does not end: events from a generator, counted in windows.
const UNENDING: &str = "
CREATE TABLE events (ad_id STRING, event_time BIGINT, ts AS TO_TIMESTAMP_LTZ(event_time, 3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'ad_events', 'rows-per-second' = '2000', 'start-time' = '2026-01-01 00:00:00');
CREATE TABLE results (window_start TIMESTAMP_LTZ(3), n BIGINT) WITH ('connector' = 'collect');
INSERT INTO results
SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND))
GROUP BY window_start, window_end;";

fn unending(directory: &Path) -> Settings {
    let set = [
        ("checkpoint-directory", directory.to_str().expect("text")),
        ("checkpoint-interval", "10 ms"),
        ("epoch-interval", "5 ms"),
        ("job-name", "unending"),
    ];
    let set = set.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    Settings { parallelism: Some(2), set, ..Settings::default() }
}

fn engine(outside: &Outside) -> Engine {
    let mut engine = Engine::default();
    engine.register("collect", Arc::new(outside.clone()));
    engine.set_access(Access::new(crate::s3::Server::variables()));
    engine
}

/// Waits until the directory has had this many checkpoints since its creation.
fn wait_for_checkpoints(directory: &Path, count: u64) {
    let slice = Duration::from_millis(50);
    for _ in 0..LIMIT.as_millis() / slice.as_millis() {
        let entries = fs::read_dir(directory.join("log")).into_iter().flatten();
        let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.split_once('.')?.0.parse().ok());
        if numbers.max() >= Some(count + 1) {
            return;
        }
        anabranch_model::pause(slice);
    }
    panic!("there are no checkpoints");
}

fn newest_manifest(directory: &Path) -> PathBuf {
    let entries = fs::read_dir(directory.join("manifests")).expect("manifests");
    let paths = entries.map(|entry| entry.expect("readable").path());
    paths.max_by_key(|path| path.metadata().expect("metadata").modified().expect("time")).expect("a manifest")
}

#[test]
fn of_two_processes_on_one_directory_the_later_one_owns_the_job() {
    let folder = tempfile::tempdir().expect("folder");
    let outside = Outside::default();
    let first = engine(&outside).run(UNENDING, &unending(folder.path())).expect("a job");
    wait_for_checkpoints(folder.path(), 2);
    let second = engine(&outside).run(UNENDING, &unending(folder.path())).expect("a job");
    assert!(first.wait_timeout(LIMIT), "the first one continues");
    let error = first.wait().expect_err("it has lost the job").to_string();
    assert!(error.contains("another process has taken the job over"), "{error}");
    second.stop();
    assert!(second.wait_timeout(LIMIT), "the job hangs");
    second.wait().expect("the second one owns the job");
}

#[test]
fn a_damaged_checkpoint_is_skipped_and_without_an_undamaged_one_the_job_says_so() {
    let folder = tempfile::tempdir().expect("folder");
    let outside = Outside::default();
    let job = engine(&outside).run(UNENDING, &unending(folder.path())).expect("a job");
    wait_for_checkpoints(folder.path(), 10);
    drop(job);
    let store = Store::open(folder.path().to_str().expect("text"), &Access::default()).expect("store");
    let kept = || Contents::read(&store).expect("contents").checkpoints;
    let before = kept().into_iter().nth_back(1).expect("two checkpoints").manifest;
    let mut content = fs::read(newest_manifest(folder.path())).expect("content");
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(newest_manifest(folder.path()), content).expect("damaged");
    let job = engine(&outside).run(UNENDING, &unending(folder.path())).expect("the one before it is undamaged");
    job.stop();
    job.wait().expect("a stop is not a failure");
    // It has not begun anew: then its epochs and its windows would begin anew, too.
    let after = kept().pop().expect("a checkpoint").manifest;
    let watermark = |manifest: &Manifest| {
        let operators = manifest.tasks.iter().flat_map(|task| &task.operators);
        operators.map(|operator| operator.watermark_ms).max()
    };
    assert!(
        after.incarnation > before.incarnation && after.epoch > before.epoch,
        "{} after {}",
        after.epoch,
        before.epoch
    );
    assert!(watermark(&after) >= watermark(&before), "{:?} after {:?}", watermark(&after), watermark(&before));

    for entry in fs::read_dir(folder.path().join("manifests")).expect("manifests") {
        fs::write(entry.expect("readable").path(), "nothing").expect("damaged");
    }
    let error =
        engine(&outside).run(UNENDING, &unending(folder.path())).err().expect("nothing to resume from").to_string();
    assert!(error.contains("damaged") && error.contains("manifests/") && error.contains("help:"), "{error}");
}

#[test]
fn another_query_does_not_restore_a_checkpoint() {
    let folder = tempfile::tempdir().expect("folder");
    let outside = Outside::default();
    let job = engine(&outside).run(UNENDING, &unending(folder.path())).expect("a job");
    wait_for_checkpoints(folder.path(), 1);
    job.stop();
    job.wait().expect("a stop is not a failure");
    let other = UNENDING.replace("INTERVAL '1' SECOND", "INTERVAL '2' SECOND");
    let error = engine(&outside).run(&other, &unending(folder.path())).err().expect("refused").to_string();
    assert!(error.contains("window tumble 1 s") && error.contains("window tumble 2 s"), "{error}");
    let filtered = UNENDING.replace("GROUP BY window_start", "WHERE ad_id > '5' GROUP BY window_start");
    let job = engine(&outside).run(&filtered, &unending(folder.path())).expect("a filter has no state");
    job.stop();
    job.wait().expect("a stop is not a failure");
}

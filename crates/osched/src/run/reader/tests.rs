//! Engines that do not answer.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender};

use anabranch_model::{ManualClock, SystemClock, pause};
use anabranch_schedule::{Operator, OperatorIndex, Query, QueryIndex, Role, Task, Thread};

use super::*;
use crate::config::Config;
use crate::run::watched::ANSWER_MAX;
use crate::run::{Environment, Osched};

/// Answers once for each message, and waits for the next one.
struct Gated {
    gate: Receiver<Result<()>>,
    reads: Arc<AtomicUsize>,
}

impl Driver for Gated {
    fn look(&mut self) -> Result<Graph> {
        Ok(Graph {
            queries: vec![Query { name: "query".to_owned() }],
            operators: vec![Operator { query: QueryIndex(0), name: "operator".to_owned(), role: Role::Source }],
            tasks: vec![Task { query: QueryIndex(0), name: "task".to_owned(), runs: vec![OperatorIndex(0)] }],
            ..Graph::default()
        })
    }

    fn read(&mut self, now: Nanos) -> Result<Readings> {
        self.reads.fetch_add(1, Relaxed);
        // Without a sender the test is over.
        self.gate.recv().unwrap_or(Ok(())).inspect_err(|error| assert!(error.message() != PANIC, "as asked"))?;
        Ok(Readings { at: now, values: Vec::new() })
    }

    fn offers(&self) -> Vec<Metric> {
        vec![Metric::QueueRows]
    }
}

/// A driver that is told to fail so panics.
const PANIC: &str = "panic";

fn gated() -> (Sender<Result<()>>, Box<dyn Driver>) {
    let (gate, driver) = counted(&Arc::default());
    (gate, driver)
}

fn counted(reads: &Arc<AtomicUsize>) -> (Sender<Result<()>>, Box<dyn Driver>) {
    let (gate, receiver) = channel();
    (gate, Box::new(Gated { gate: receiver, reads: Arc::clone(reads) }))
}

#[test]
fn a_busy_engine_is_asked_once() {
    let (gate, driver) = gated();
    let kernel = Proc::new().expect("a kernel");
    let mut reader = Reader::start("engine", driver, kernel, Arc::new(SystemClock::new())).expect("a thread");
    assert!(reader.answer(Duration::ZERO).is_none(), "nobody has asked");
    assert!(reader.ask(Nanos(1)));
    assert!(!reader.ask(Nanos(1)), "the answer is owed already");
    assert!(reader.answer(Duration::ZERO).is_none());
    gate.send(Ok(())).expect("it waits");
    let answer = reader.answer(Duration::MAX).expect("an answer").expect("readings");
    let graph = answer.graph.expect("the first answer says what runs");
    assert_eq!((graph.tasks.len(), answer.offers.contains(&Metric::QueueRows)), (1, true));
    assert!(reader.ask(Nanos(1)));
    gate.send(Err(Error::outside("away"))).expect("it waits");
    assert!(reader.answer(Duration::MAX).expect("an answer").is_err());
    assert!(reader.ask(Nanos(1)));
    gate.send(Ok(())).expect("it waits");
    let back = reader.answer(Duration::MAX).expect("an answer").expect("readings");
    assert!(back.graph.is_some(), "after a failure it may be another process");
}

/// Three tasks with a thread each, of which it does not know who runs the first two.
struct Alike;

impl Driver for Alike {
    fn look(&mut self) -> Result<Graph> {
        let task = |name: &str| Task { query: QueryIndex(0), name: name.to_owned(), runs: vec![OperatorIndex(0)] };
        let thread = |(at, tid)| {
            let id = ThreadId { pid: 42, process_start: 700, tid, start: 800 };
            Thread { id, name: "map".to_owned(), kind: ThreadKind::Task(TaskIndex(at)) }
        };
        Ok(Graph {
            queries: vec![Query { name: "query".to_owned() }],
            operators: vec![Operator { query: QueryIndex(0), name: "operator".to_owned(), role: Role::Source }],
            tasks: ["a", "b", "c"].map(task).to_vec(),
            threads: [43, 44, 45].into_iter().enumerate().map(thread).collect(),
            alike: vec![vec![TaskIndex(0), TaskIndex(1)]],
            ..Graph::default()
        })
    }

    fn read(&mut self, now: Nanos) -> Result<Readings> {
        Ok(Readings { at: now, values: Vec::new() })
    }

    fn offers(&self) -> Vec<Metric> {
        Vec::new()
    }
}

#[test]
fn tasks_whose_threads_cannot_be_distinguished_share_their_mean_processor_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |path: &str, text: &str| {
        let path = folder.path().join("42").join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    };
    let stat = |number: u32, start: u32| format!("{number} (x) S 1 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 {start} 0 0");
    write("stat", &stat(42, 700));
    for (tid, usage) in [(43, "100 10 1"), (44, "300 30 1"), (45, "7 1 1")] {
        write(&format!("task/{tid}/stat"), &stat(tid, 800));
        write(&format!("task/{tid}/schedstat"), usage);
    }
    let kernel = Proc::at(folder.path(), Proc::new().expect("a kernel").cgroups().clone());
    let mut engine = Engine::new(Box::new(Alike), kernel, Arc::new(ManualClock::default()));
    let readings = engine.answer().expect("readings").readings;
    let of = |metric| -> Vec<f64> {
        let found = readings.values.iter().filter(|reading| reading.metric == metric);
        found.map(|reading| reading.value).collect()
    };
    assert_eq!((of(Metric::CpuNs), of(Metric::WaitNs)), (vec![200.0, 200.0, 7.0], vec![20.0, 20.0, 1.0]));
}

/// A scheduler that writes nothing. Its machine does not tell of pressure, so it decides at each period.
fn start(targets: &[&str], drivers: Vec<Box<dyn Driver>>, clock: &Arc<ManualClock>) -> Result<Osched> {
    let target = |name: &&str| format!("[[target]]\nname = '{name}'\nengine = 'process'\nprocess = '1'\n");
    let targets: String = targets.iter().map(target).collect();
    let config = format!("{targets}[[policy]]\npriority = 'queue-size'\nperiod = '20 ms'\n");
    let kernel = Proc::new().expect("a kernel");
    let environment = Environment {
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        kernel: Proc::at("/sys/kernel", kernel.cgroups().clone()),
        formulas: |expression| Err(Error::user(format!("no formulas here: {expression}"))),
        guardian: |_: &Path| Command::new("true"),
        drivers,
        dry_run: true,
    };
    Osched::start(Config::parse(&config).expect("a configuration"), environment)
}

fn failing(osched: &Osched) -> BTreeSet<String> {
    let status = osched.status();
    let status = status.lock().expect("a status");
    status.targets.iter().filter(|target| target.failure.is_some()).map(|target| target.name.clone()).collect()
}

#[test]
fn a_driver_that_panics_fails_each_time() {
    let (gate, driver) = gated();
    let kernel = Proc::new().expect("a kernel");
    let mut reader = Reader::start("engine", driver, kernel, Arc::new(ManualClock::default())).expect("a thread");
    gate.send(Err(Error::outside(PANIC))).expect("it waits");
    for _ in 0..3 {
        assert!(reader.ask(Nanos(1)));
        assert!(reader.answer(Duration::MAX).expect("an answer").is_err());
    }
}

#[test]
fn an_engine_that_answers_the_third_time_is_taken() {
    let clock = Arc::default();
    let (gate, driver) = gated();
    for answer in [Err(Error::outside("busy")), Err(Error::outside("busy")), Ok(())] {
        gate.send(answer).expect("it waits");
    }
    start(&["only"], vec![driver], &clock).expect("it has answered").end().expect("the end");
    let (gate, driver) = gated();
    (0..3).for_each(|_| gate.send(Err(Error::outside("away"))).expect("it waits"));
    let error = start(&["only"], vec![driver], &clock).err().expect("refused").to_string();
    assert!(error.contains("target 'only'") && error.contains("away"), "{error}");
}

#[test]
fn an_engine_that_hangs_does_not_hold_the_others_and_fails_after_a_while() {
    let (clock, reads) = (Arc::<ManualClock>::default(), Arc::default());
    let (hanging, first) = gated();
    let (answering, second) = counted(&reads);
    // Both are there at the start. Later only the second one answers.
    hanging.send(Ok(())).expect("it waits");
    (0..10_000).for_each(|_| answering.send(Ok(())).expect("it waits"));
    let mut osched = start(&["first", "second"], vec![first, second], &clock).expect("both answer");
    for _ in 0..10 {
        clock.advance(Duration::from_millis(25));
        osched.step().expect("a step");
    }
    assert!(reads.load(Relaxed) >= 5, "the second one is read: {reads:?}");
    assert!(failing(&osched).is_empty(), "a late answer is no failure yet");
    clock.advance(ANSWER_MAX);
    osched.step().expect("a step");
    assert_eq!(failing(&osched), BTreeSet::from(["first".to_owned()]));
    // It answers again.
    hanging.send(Ok(())).expect("it waits");
    (0..1_000).for_each(|_| hanging.send(Ok(())).expect("it waits"));
    for _ in 0..3_000 {
        clock.advance(Duration::from_millis(25));
        osched.step().expect("a step");
        if failing(&osched).is_empty() {
            osched.end().expect("the end");
            return;
        }
        pause(Duration::from_millis(10));
    }
    panic!("{:?} do not come back", failing(&osched));
}

use std::io::Write as _;
use std::net::TcpStream;

use anabranch_model::{ManualClock, pause};
use anabranch_schedule::{Role, ThreadKind};

use super::*;
use crate::driver::local::tests::{Machine, fixture, id};
use crate::kernel::NamedThread;

const SECOND: u64 = 1_000_000_000;

/// A local cluster with two topologies, as it was recorded.
fn start() -> (Storm, Machine, Arc<ManualClock>) {
    let machine = Machine::default();
    machine.add_dump(16_093, "java -cp storm/lib/* Topo 12003", &fixture("storm-2.8/dump.txt"), 1_795_958_620_000);
    let (storm, clock) = listen(&machine, options());
    (storm, machine, clock)
}

fn options() -> StormOptions {
    let graphite = "127.0.0.1:0".parse().expect("an address");
    StormOptions { graphite, process: String::new(), inputs: BTreeMap::new() }
}

fn listen(machine: &Machine, options: StormOptions) -> (Storm, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let storm = Storm::start(options, Box::new(machine.clone()), Arc::clone(&clock) as Arc<dyn Clock>);
    (storm.expect("a free port"), clock)
}

/// Pushes a text as a reporter does, and waits until all of it has come in.
fn push(storm: &Storm, text: &str) {
    let lines = |received: crate::graphite::Received| received.taken + received.unwanted + received.rubbish;
    let before = lines(storm.graphite.received());
    let mut stream = TcpStream::connect(storm.graphite.address()).expect("a connection");
    stream.write_all(text.as_bytes()).expect("sent");
    let expected = before + text.lines().count() as u64;
    for _ in 0..3_000 {
        if lines(storm.graphite.received()) == expected {
            return;
        }
        pause(Duration::from_millis(10));
    }
    panic!("{:?} of {expected}", storm.graphite.received());
}

fn task(graph: &Graph, name: &str) -> TaskIndex {
    let found = (0..graph.tasks.len()).map(TaskIndex).find(|task| graph.full_name(*task) == name);
    found.unwrap_or_else(|| panic!("no task {name}"))
}

fn values(storm: &mut Storm) -> BTreeMap<(usize, Metric), f64> {
    let readings = storm.read(Nanos(3)).expect("readings");
    assert_eq!(readings.at, Nanos(3));
    let values: BTreeMap<(usize, Metric), f64> =
        readings.values.iter().map(|r| ((r.task.0, r.metric), r.value)).collect();
    assert_eq!(values.len(), readings.values.len(), "each pair once");
    values
}

#[test]
fn the_first_look_waits_for_the_first_push() {
    let machine = Machine::default();
    machine.add_dump(16_093, "java -cp storm/lib/* Topo 12003", &fixture("storm-2.8/dump.txt"), 1_795_958_620_000);
    let mut storm = Storm::new(options(), Box::new(machine)).expect("a free port");
    let address = storm.graphite.address();
    let looks = std::thread::Builder::new().name("looks".into());
    let looks = looks.spawn(move || (storm.look().expect("topologies"), storm.offers())).expect("a thread");
    let mut stream = TcpStream::connect(address).expect("a connection");
    // It waits; and then for the other topology, whose executors are here too.
    for file in ["storm-2.8/topo-a-later.txt", "storm-2.8/topo-b-later.txt"] {
        pause(2 * PUSH_ENDS);
        stream.write_all(fixture(file).as_bytes()).expect("sent");
    }
    let (graph, offers) = looks.join().expect("no panic");
    assert!(graph.queries.len() == 2 && offers.contains(&Metric::QueueRows), "{offers:?}");
}

#[test]
fn recorded_topologies_become_queries_operators_and_tasks() {
    let (mut storm, _, _) = start();
    push(&storm, &fixture("storm-2.8/topo-a-later.txt"));
    push(&storm, &fixture("storm-2.8/topo-b-later.txt"));
    assert!(storm.is_stale());
    let graph = storm.look().expect("topologies");
    assert!(!storm.is_stale());
    let queries: Vec<&str> = graph.queries.iter().map(|query| query.name.as_str()).collect();
    assert_eq!(queries, ["topo-a", "topo-b"]);
    let operators: Vec<(usize, &str, Role)> =
        graph.operators.iter().map(|operator| (operator.query.0, operator.name.as_str(), operator.role)).collect();
    let of_a = [
        ("left", Role::Inner),
        ("numbers", Role::Source),
        ("out", Role::Sink),
        ("right", Role::Inner),
        ("step.one", Role::Inner),
    ];
    assert_eq!(operators[..5], of_a.map(|(name, role)| (0, name, role)));
    assert_eq!((operators.len(), operators[9].1), (10, "b-step.one"));
    let name = |operator: anabranch_schedule::OperatorIndex| graph.operators[operator.0].name.as_str();
    let mut edges: Vec<(&str, &str)> = graph.edges[..5].iter().map(|edge| (name(edge.from), name(edge.to))).collect();
    edges.sort_unstable();
    assert_eq!(
        edges,
        [("left", "out"), ("numbers", "step.one"), ("right", "out"), ("step.one", "left"), ("step.one", "right")]
    );
    // Seven executors each; that of several tasks is one task here.
    assert_eq!(graph.tasks.len(), 14);
    let step = task(&graph, "topo-b/b-step.one [7, 8]");
    let of = |kind| {
        graph.threads.iter().filter(|thread| thread.kind == kind).map(|thread| thread.name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(of(ThreadKind::Task(step)), ["Thread-71-b-step.one-executor[7, 8]"]);
    let engine = of(ThreadKind::Engine);
    assert!(
        engine.contains(&"Thread-68-__acker-executor[1, 1]")
            && engine.contains(&"metrics-graphite-reporter-1-thread-1")
    );
    assert_eq!(graph.threads.len(), engine.len() + 14);
}

#[test]
fn rows_and_queues_are_read_per_executor() {
    let (mut storm, _, _) = start();
    push(&storm, &fixture("storm-2.8/topo-a-later.txt"));
    let graph = storm.look().expect("a topology");
    let values = values(&mut storm);
    let value = |name: &str, metric| values.get(&(task(&graph, name).0, metric)).copied();
    let sum = |names: &[&str], metric| -> f64 { names.iter().map(|name| value(name, metric).expect(name)).sum() };
    let steps = ["topo-a/step.one [7, 8]", "topo-a/step.one [9, 10]"];
    // Each row goes to two bolts, and each of one of these to both tasks of the last. Storm counts samples of
    // 20.
    let out = sum(&steps, Metric::RowsOut);
    let received = sum(&["topo-a/left [2, 2]", "topo-a/right [6, 6]"], Metric::RowsIn);
    assert!(out > 50_000.0 && (out / received - 1.0).abs() < 0.05, "{out} {received}");
    let merged = sum(&["topo-a/left [2, 2]", "topo-a/right [6, 6]"], Metric::RowsOut);
    let last = sum(&["topo-a/out [4, 4]", "topo-a/out [5, 5]"], Metric::RowsIn);
    assert!((merged / last - 1.0).abs() < 0.05, "{merged} {last}");
    // The tasks of an executor share a queue: it is not counted twice.
    let line = |metric: &str, number: u32, value: f64| {
        format!(
            "storm.worker.topo-a-1-1795958578.localhost.step_one.{number}.1027-receive-queue-{metric} \
             {value} 1795958680\n"
        )
    };
    push(&storm, &(line("population", 7, 30.0) + &line("population", 8, 30.0) + &line("sojourn_time_ms", 8, 4.5)));
    let readings = storm.read(Nanos(4)).expect("readings");
    let of = |metric| {
        let found =
            readings.values.iter().find(|reading| reading.task == task(&graph, steps[0]) && reading.metric == metric);
        found.map(|reading| reading.value)
    };
    assert_eq!((of(Metric::QueueRows), of(Metric::QueuedMs)), (Some(30.0), Some(4.5)));
    // The queue of a spout holds acknowledgements.
    assert_eq!(value("topo-a/numbers [3, 3]", Metric::QueueRows), None);
    assert_eq!(value("topo-a/numbers [3, 3]", Metric::RowsIn), None);
    assert!(value("topo-a/numbers [3, 3]", Metric::RowsOut).is_some());
    let expected = [Metric::RowsIn, Metric::RowsOut, Metric::QueueRows, Metric::QueueShare, Metric::QueuedMs];
    assert_eq!(storm.offers(), expected);
}

/// A counter that was read is not read again before it comes again: rates would be zero in between.
#[test]
fn counters_are_read_once_for_each_push() {
    let (mut storm, _, clock) = start();
    push(&storm, &fixture("storm-2.8/topo-a-earlier.txt"));
    let graph = storm.look().expect("a topology");
    let place = (task(&graph, "topo-a/left [2, 2]").0, Metric::RowsIn);
    clock.advance(Duration::from_millis(50));
    let first = values(&mut storm);
    clock.advance(Duration::from_millis(50));
    let second = values(&mut storm);
    assert!(first.contains_key(&place) && !second.contains_key(&place));
    assert!(second.contains_key(&(place.0, Metric::QueueRows)), "gauges stay");
    push(&storm, &fixture("storm-2.8/topo-a-later.txt"));
    clock.advance(Duration::from_millis(50));
    assert!(values(&mut storm)[&place] > first[&place]);
}

#[test]
fn an_engine_that_goes_silent_is_an_error_and_is_forgotten() {
    let (mut storm, _, clock) = start();
    assert!(values(&mut storm).is_empty(), "nothing has come yet");
    let advice = storm.advice().join("\n");
    let port = format!("graphite.port: {}", storm.graphite.address().port());
    for words in ["GraphiteStormReporter", &port, "topology.max.spout.pending"] {
        assert!(advice.contains(words), "{advice}");
    }
    push(&storm, &fixture("storm-2.8/topo-a-later.txt"));
    assert_eq!(storm.look().expect("a topology").queries.len(), 1);
    clock.advance(Duration::from_secs(20));
    assert!(!values(&mut storm).is_empty(), "reporters push every 10 s by default");
    clock.advance(Duration::from_secs(10));
    let error = storm.read(Nanos(5)).expect_err("silent").to_string();
    assert!(error.contains("30 s") && error.contains("graphite port") && error.contains("help: "), "{error}");
    clock.advance(Duration::from_nanos(40 * SECOND));
    assert_eq!(storm.look().expect("threads").queries.len(), 0);
    push(&storm, &fixture("storm-2.8/topo-a-later.txt"));
    assert!(storm.is_stale());
    assert_eq!(storm.look().expect("a topology").tasks.len(), 7);
}

/// Before its metrics come, a worker's topology is known from its command line. Edges may be configured.
#[test]
fn a_worker_is_known_by_its_command_line() {
    let machine = Machine::default();
    let thread = |tid, name: &str| NamedThread { id: id(5, tid, 1), name: name.to_owned() };
    let threads =
        vec![thread(6, "Thread-1-a-executor[1, 1]"), thread(7, "Thread-2-b-executor[2, 3]"), thread(8, "main")];
    machine.add(5, "java -cp storm.jar org.apache.storm.daemon.worker.Worker syn-1-1795958578 s 6700 w", threads);
    let inputs = BTreeMap::from([("b".to_owned(), vec!["a".to_owned()])]);
    let (mut storm, _) = listen(&machine, StormOptions { inputs, ..options() });
    let graph = storm.look().expect("a worker");
    assert_eq!(graph.queries[0].name, "syn");
    assert_eq!(graph.edges.len(), 1);
    assert_eq!([graph.operators[0].role, graph.operators[1].role], [Role::Source, Role::Sink]);
    assert_eq!(graph.threads.iter().filter(|thread| thread.kind == ThreadKind::Engine).count(), 1);
}

/// Two topologies of one process with components of the same names and numbers.
#[test]
fn threads_of_either_of_two_topologies_are_left_alone() {
    let (mut storm, _, _) = start();
    let a = fixture("storm-2.8/topo-a-later.txt");
    push(&storm, &a);
    push(&storm, &a.replace("topo-a-1", "topo-c-3"));
    let graph = storm.look().expect("topologies");
    assert!(graph.tasks.is_empty() && !graph.threads.is_empty());
    let is_put_first = |name: &str| graph.threads.iter().any(|thread| thread.name == name);
    assert!(is_put_first("Thread-68-__acker-executor[1, 1]") && !is_put_first("Thread-72-step.one-executor[7, 8]"));
    let told = storm.left_alone().join("\n");
    assert!(told.contains("executor[7, 8]' belong to different topologies"), "{told}");
    // The remedy: the components have different names.
    let (mut storm, _, _) = start();
    push(&storm, &a);
    push(&storm, &fixture("storm-2.8/topo-b-later.txt"));
    let graph = storm.look().expect("topologies");
    assert!(graph.tasks.len() == 14 && storm.left_alone().is_empty(), "{:?}", storm.left_alone());
}

#[test]
fn rubbish_at_the_port_changes_nothing() {
    let (mut storm, _, _) = start();
    push(
        &storm,
        "GET / HTTP/1.1\nHost: x\nstorm.worker. 1 1\nstorm.worker.a.b.c.d 1 1\n\
         storm.worker.t.h.c.1.1-receive-queue-population NaN 1\n",
    );
    assert_eq!(storm.graphite.received().taken, 0);
    assert!(!storm.is_stale() && storm.offers().is_empty() && values(&mut storm).is_empty());
}

#[test]
fn a_pattern_that_is_none_is_refused() {
    let error = Storm::new(StormOptions { process: "(".to_owned(), ..options() }, Box::new(Machine::default()))
        .err()
        .expect("refused")
        .to_string();
    assert!(error.contains("process = '('") && error.contains("help: "), "{error}");
}

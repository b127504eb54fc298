use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Latch, SystemClock};

use super::*;
use crate::driver::local::ThisMachine;
use crate::driver::local::tests::{Machine, id};
use crate::kernel::Proc;

fn machine(names: &[&str]) -> Machine {
    let machine = Machine::default();
    let thread = |(index, name): (usize, &&str)| NamedThread { id: id(5, index as u32, 1), name: (*name).to_owned() };
    machine.add(5, "/usr/bin/app --tenant=red", names.iter().enumerate().map(thread).collect());
    machine
}

fn options(process: &str, threads: Option<&str>) -> ProcessOptions {
    ProcessOptions { process: process.to_owned(), threads: threads.map(str::to_owned), inputs: BTreeMap::new() }
}

fn look(process: &str, threads: Option<&str>, machine: &Machine) -> Result<Graph> {
    let options = options(process, threads);
    OtherProcess::new(options, Box::new(machine.clone()))?.look()
}

fn tasks(graph: &Graph) -> Vec<String> {
    (0..graph.tasks.len()).map(|task| graph.full_name(TaskIndex(task))).collect()
}

#[test]
fn groups_of_the_pattern_name_tasks_queries_and_helpers() {
    let machine = machine(&["work-a-1", "work-a-2", "work-b-1", "flush work-a-1", "main"]);
    let graph =
        look("tenant=(?P<query>[a-z]+)", Some("^(?P<helper>flush )?work-(?P<task>[a-z]+)"), &machine).expect("threads");
    assert_eq!(tasks(&graph), ["red/a", "red/b"]);
    let kinds: Vec<ThreadKind> = graph.threads.iter().map(|thread| thread.kind).collect();
    let (a, b) = (TaskIndex(0), TaskIndex(1));
    let expected =
        [ThreadKind::Task(a), ThreadKind::Task(a), ThreadKind::Task(b), ThreadKind::Helper(a), ThreadKind::Engine];
    assert_eq!(kinds, expected);
    let queries = look("app", Some("work-(?P<query>[a-z])-(?P<task>[0-9])"), &machine).expect("threads");
    assert_eq!(tasks(&queries), ["a/1", "a/2", "b/1"]);
}

#[test]
fn without_a_pattern_threads_of_one_name_are_a_task() {
    let graph = look("5", None, &machine(&["worker-1", "worker-2", "io 0", "77"])).expect("threads");
    assert_eq!(tasks(&graph), ["app/77", "app/io", "app/worker"]);
    assert_eq!(graph.threads[0].kind, graph.threads[1].kind);
}

/// Two processes with tasks of the same names: rows stay within each. A name that no task has is told; the
/// remedy is followed.
#[test]
fn inputs_connect_the_tasks_of_each_query() {
    let machine = machine(&["read-1", "map-1", "map-2", "write-1"]);
    let second = |index: u32, name: &str| NamedThread { id: id(6, index, 1), name: name.to_owned() };
    machine.add(6, "/usr/bin/app", vec![second(0, "read-1"), second(1, "map-1")]);
    let look = |of_map: &str| {
        let inputs = [("map", of_map), ("write", "map")].map(|(to, from)| (to.to_owned(), vec![from.to_owned()]));
        let options = ProcessOptions { inputs: inputs.into(), ..options("app", None) };
        let mut driver = OtherProcess::new(options, Box::new(machine.clone())).expect("options");
        (driver.look().expect("threads"), driver.advice())
    };
    let (graph, advice) = look("source");
    assert_eq!(advice, ["no thread runs the task 'source' of 'inputs': the tasks are map, read, write"]);
    assert_eq!(graph.edges.len(), 1);
    let (graph, advice) = look("read");
    assert!(advice.is_empty(), "{advice:?}");
    let name = |at: OperatorIndex| (graph.operators[at.0].query.0, graph.operators[at.0].name.as_str());
    let mut edges: Vec<_> = graph.edges.iter().map(|edge| (name(edge.from), name(edge.to))).collect();
    edges.sort_unstable();
    assert_eq!(edges, [((0, "map"), (0, "write")), ((0, "read"), (0, "map")), ((1, "read"), (1, "map"))]);
    let roles: Vec<_> = graph.operators.iter().map(|operator| (operator.name.as_str(), operator.role)).collect();
    let (source, inner, sink) = (Role::Source, Role::Inner, Role::Sink);
    assert_eq!(roles, [("map", inner), ("read", source), ("write", sink), ("map", sink), ("read", source)]);
}

#[test]
fn processes_that_start_later_are_followed() {
    let machine = machine(&["worker-1"]);
    let mut driver = OtherProcess::new(options("app", None), Box::new(machine.clone())).expect("options");
    driver.look().expect("a process");
    driver.read(Nanos(0).plus(SEARCH)).expect("readings");
    assert!(!driver.is_stale());
    machine.add(6, "/usr/bin/app --tenant=blue", vec![NamedThread { id: id(6, 1, 1), name: "worker-1".to_owned() }]);
    driver.read(Nanos(1).plus(SEARCH)).expect("readings");
    assert!(!driver.is_stale(), "a search costs time, so there is one per second");
    driver.read(Nanos(1).plus(2 * SEARCH)).expect("readings");
    assert!(driver.is_stale());
    assert_eq!(tasks(&driver.look().expect("both")), ["app/worker", "app 6/worker"]);
    assert!(!driver.is_stale());
}

#[test]
fn what_cannot_be_meant_is_refused_with_a_remedy() {
    let machine = machine(&["main"]);
    for (process, threads, words) in [
        ("no such program", None, "matches 'no such program'"),
        ("6,7", None, "number [6, 7]"),
        ("", None, "empty"),
        ("app(", None, "process = 'app('"),
        ("app", Some("work"), "does not name the task"),
        ("app", Some("(?P<task>x"), "threads = "),
    ] {
        let error = look(process, threads, &machine).expect_err(words).to_string();
        assert!(error.contains(words) && error.contains("help: "), "{error}");
    }
}

/// Real threads of a real process: they come, and they end.
#[test]
fn threads_of_this_machine_are_followed() {
    // The test's own process is left out of the search, so a child is started whose threads are known: a
    // shell has one.
    let mut child = std::process::Command::new("sleep").arg("600.125").spawn().expect("sleep");
    let local = ThisMachine::new(Proc::new().expect("Linux"), Arc::new(SystemClock::new()));
    let options = options(&child.id().to_string(), Some("(?P<task>sleep)"));
    let mut driver = OtherProcess::new(options, Box::new(local)).expect("options");
    let has_begun = |graph: &Graph| graph.tasks.len() == 1;
    let mut graph = driver.look().expect("a process");
    // Until it runs its program, the child has this one's name.
    for _ in 0..3_000 {
        if has_begun(&graph) {
            break;
        }
        Latch::default().wait(Duration::from_millis(10));
        graph = driver.look().expect("a process");
    }
    assert_eq!(tasks(&graph), ["sleep/sleep"]);
    assert_eq!((graph.threads.len(), graph.threads[0].id.tid), (1, child.id()));
    assert!(driver.read(Nanos(1)).expect("nothing").values.is_empty());
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert!(driver.look().is_err());
}

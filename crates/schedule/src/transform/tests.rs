use super::*;
use crate::tests::{each_seed, graph, random_graph, unit};
use crate::{Readings, ThreadId};

const PLAIN: Transform = Transform { grouping: Grouping::None, aggregate: Aggregate::Max, engine_first: false };

fn nodes(graph: &Graph, level: Level) -> Nodes {
    Nodes::new(graph, &Readings::default(), level)
}

#[test]
fn a_task_takes_the_highest_of_its_operators_and_all_tasks_that_of_their_operator() {
    let graph = graph(&[("read", 1), ("parse+count", 2), ("write", 1)], &[("read", "parse"), ("count", "write")]);
    let operators = nodes(&graph, Level::Operator);
    assert_eq!(to_tasks(&graph, &operators, &[1.0, 5.0, 3.0, 2.0]), [1.0, 5.0, 5.0, 2.0]);
    assert_eq!(to_tasks(&graph, &operators, &[1.0, f64::NAN, 3.0, 2.0]), [1.0, 3.0, 3.0, 2.0]);
    assert!(to_tasks(&graph, &operators, &[1.0, f64::NAN, f64::NAN, 2.0])[1].is_nan());
    assert_eq!(to_tasks(&graph, &nodes(&graph, Level::Task), &[1.0, 2.0, 3.0, 4.0]), [1.0, 2.0, 3.0, 4.0]);
}

/// Any of the set's threads may run its most urgent task.
#[test]
fn tasks_whose_threads_cannot_be_told_apart_share_the_highest_priority() {
    let mut graph = graph(&[("read", 1), ("left", 1), ("right", 1), ("write", 1)], &[("read", "left")]);
    graph.alike.push(vec![TaskIndex(1), TaskIndex(2)]);
    let tasks = nodes(&graph, Level::Task);
    assert_eq!(to_tasks(&graph, &tasks, &[9.0, 2.0, 5.0, 1.0]), [9.0, 5.0, 5.0, 1.0]);
    assert_eq!(to_tasks(&graph, &tasks, &[9.0, f64::NAN, 5.0, 1.0]), [9.0, 5.0, 5.0, 1.0]);
    assert!(to_tasks(&graph, &tasks, &[9.0, f64::NAN, f64::NAN, 1.0])[1].is_nan());
    assert_eq!(to_tasks(&graph, &nodes(&graph, Level::Operator), &[9.0, 2.0, 5.0, 1.0]), [9.0, 5.0, 5.0, 1.0]);
}

#[test]
fn transformed_priorities_are_naive_ones() {
    each_seed(200, |rng| {
        let graph = random_graph(rng);
        let priorities: Vec<f64> = graph.operators.iter().map(|_| unit(rng)).collect();
        let tasks = to_tasks(&graph, &nodes(&graph, Level::Operator), &priorities);
        // Algorithm 2 as it is written: over logical operators, then over the physical ones of each.
        let mut output = vec![f64::NEG_INFINITY; graph.tasks.len()];
        for (operator, priority) in priorities.iter().enumerate() {
            for (task, place) in graph.tasks.iter().zip(&mut output) {
                if task.runs.iter().any(|runs| runs.0 == operator) {
                    *place = place.max(*priority);
                }
            }
        }
        assert_eq!(tasks, output);
    });
}

#[test]
fn helpers_go_with_their_task_and_the_engine_before_all() {
    let graph = graph(&[("read", 1), ("write", 1)], &[("read", "write")]);
    let priorities = [7.0, 9.0];
    let of = |transform: Transform| transform.to_schedule(&graph, &priorities);
    let value = |schedule: &Schedule, tid: u32| {
        schedule.threads.get(&ThreadId { pid: 7, process_start: 1, tid, start: 2 }).copied()
    };
    let schedule = of(PLAIN);
    let found = [100, 101, 102, 100_099].map(|tid| value(&schedule, tid));
    assert_eq!(found, [Some(7.0), Some(7.0), Some(9.0), None]);
    assert!(schedule.groups.is_empty());
    let schedule = of(Transform { engine_first: true, ..PLAIN });
    assert_eq!(value(&schedule, 100_099), Some(f64::INFINITY));
    let unknown = PLAIN.to_schedule(&graph, &[1.0]);
    assert!(value(&unknown, 102).is_some_and(f64::is_nan), "unknown, and in the schedule");
}

/// s -> p -> a -> x, p -> b -> y; x and y are sinks; r -> b.
fn branches() -> Graph {
    graph(
        &[("s", 1), ("p", 1), ("a", 2), ("x", 1), ("b", 1), ("y", 1), ("r", 1)],
        &[("s", "p"), ("p", "a"), ("a", "x"), ("p", "b"), ("b", "y"), ("r", "b")],
    )
}

#[test]
fn branches_are_what_reaches_the_same_sinks() {
    let graph = branches();
    let transform = Transform { grouping: Grouping::Branch, aggregate: Aggregate::Sum, engine_first: true };
    let schedule = transform.to_schedule(&graph, &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]);
    let groups: Vec<(&str, f64)> =
        schedule.groups.iter().map(|(name, group)| (name.as_str(), group.priority)).collect();
    assert_eq!(groups, [("q/a", 4.0 + 8.0 + 16.0), ("q/b", 32.0 + 64.0 + 128.0), ("q/p", 1.0 + 2.0)]);
}

#[test]
fn the_priority_of_a_group_is_the_sum_the_greatest_or_the_mean_of_the_known_ones() {
    let graph = branches();
    let priorities = [1.0, 2.0, 4.0, 8.0, f64::NAN, 32.0, 64.0, f64::NAN];
    for (aggregate, expected) in [(Aggregate::Sum, 111.0), (Aggregate::Max, 64.0), (Aggregate::Mean, 18.5)] {
        let transform = Transform { grouping: Grouping::Query, aggregate, engine_first: false };
        assert_eq!(transform.to_schedule(&graph, &priorities).groups["q"].priority, expected, "{aggregate:?}");
        let unknown = transform.to_schedule(&graph, &[f64::NAN; 8]);
        assert!(unknown.groups["q"].priority.is_nan());
    }
}

#[test]
fn each_thread_of_a_task_is_in_one_group_and_numbers_do_not_matter() {
    each_seed(100, |rng| {
        let graph = random_graph(rng);
        let priorities: Vec<f64> = graph.tasks.iter().map(|_| unit(rng)).collect();
        for grouping in [Grouping::Query, Grouping::Branch, Grouping::Task] {
            let transform = Transform { grouping, aggregate: Aggregate::Max, engine_first: true };
            let schedule = transform.to_schedule(&graph, &priorities);
            let grouped: Vec<ThreadId> =
                schedule.groups.values().flat_map(|group| group.threads.iter().copied()).collect();
            let unique: BTreeSet<ThreadId> = grouped.iter().copied().collect();
            let working: BTreeSet<ThreadId> = graph.threads_of_tasks().concat().into_iter().collect();
            assert_eq!((unique.len(), &unique), (grouped.len(), &working), "{grouping:?}");

            let (mut turned, mut other) = (graph.clone(), priorities.clone());
            turned.tasks.reverse();
            other.reverse();
            let last = graph.tasks.len() - 1;
            for thread in &mut turned.threads {
                if let ThreadKind::Task(task) | ThreadKind::Helper(task) = &mut thread.kind {
                    task.0 = last - task.0;
                }
            }
            assert_eq!(transform.to_schedule(&turned, &other), schedule, "{grouping:?}");
        }
    });
}

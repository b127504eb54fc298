use super::*;
use crate::tests::{each_seed, graph, random_graph, unit};
use crate::{Edge, OperatorIndex};

fn readings(values: &[(usize, Metric, f64)]) -> Readings {
    let mut readings = Readings::default();
    values.iter().for_each(|(task, metric, value)| readings.add(TaskIndex(*task), *metric, *value));
    readings
}

#[test]
fn tasks_of_connected_operators_are_connected_and_fused_ones_are_one_node() {
    let graph = graph(&[("read+parse", 2), ("count", 3), ("write", 1)], &[("parse", "count"), ("count", "write")]);
    let tasks = Nodes::new(&graph, &Readings::default(), Level::Task);
    let names: Vec<&str> = tasks.all().iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["q/read+parse 0", "q/read+parse 1", "q/count 0", "q/count 1", "q/count 2", "q/write 0"]);
    assert_eq!(tasks.node(0).downstream, [2, 3, 4]);
    assert_eq!(tasks.node(5).upstream, [2, 3, 4]);
    assert_eq!((tasks.node(0).role, tasks.node(2).role, tasks.node(5).role), (Role::Source, Role::Inner, Role::Sink));
    let siblings: Vec<usize> = tasks.all().iter().map(|node| node.siblings).collect();
    assert_eq!(siblings, [0, 0, 1, 1, 1, 2]);
    let operators = Nodes::new(&graph, &Readings::default(), Level::Operator);
    assert_eq!((operators.len(), operators.node(1).name.as_str()), (4, "q/parse"));
    assert_eq!((operators.node(1).upstream.as_slice(), operators.node(1).downstream.as_slice()), (&[0][..], &[2][..]));
    assert_eq!(operators.node(2).tasks, [TaskIndex(2), TaskIndex(3), TaskIndex(4)]);
}

#[test]
fn an_operator_has_the_sum_of_amounts_the_greatest_age_and_the_least_time_left() {
    let graph = graph(&[("read", 1), ("count", 2)], &[("read", "count")]);
    let values = [
        (1, Metric::QueueRows, 10.0),
        (2, Metric::QueueRows, 5.0),
        (1, Metric::AgeMs, 3.0),
        (2, Metric::AgeMs, 9.0),
        (1, Metric::UntilWindowMs, 3.0),
        (2, Metric::UntilWindowMs, 9.0),
        (1, Metric::RowsIn, 10.0),
        (1, Metric::WaitShare, 0.5),
    ];
    let nodes = Nodes::new(&graph, &readings(&values), Level::Operator);
    let value = |metric: Metric| nodes.reading(metric).expect("a column")[1];
    assert_eq!((value(Metric::QueueRows), value(Metric::AgeMs), value(Metric::UntilWindowMs)), (15.0, 9.0, 3.0));
    assert_eq!(value(Metric::WaitShare), 0.5, "the known ones of a gauge");
    assert!(value(Metric::RowsIn).is_nan(), "a counter without one task would look like a restart");
    assert!(nodes.reading(Metric::QueueRows).expect("a column")[0].is_nan());
    assert!(nodes.reading(Metric::QueueBytes).is_none(), "nobody reported it");
}

#[test]
fn readings_of_a_chain_are_divided_among_its_operators() {
    let graph = graph(&[("read", 1), ("parse+filter+map", 1)], &[("read", "parse")]);
    let values = [
        (1, Metric::QueueRows, 10.0),
        (1, Metric::RowsIn, 100.0),
        (1, Metric::RowsOut, 40.0),
        (1, Metric::CpuShare, 0.6),
        (1, Metric::EpochsBehind, 2.0),
    ];
    let nodes = Nodes::new(&graph, &readings(&values), Level::Operator);
    let chain = |metric: Metric| nodes.reading(metric).expect("a column")[1..].to_vec();
    assert_eq!(chain(Metric::RowsIn), [100.0; 3], "rows inside of a chain are not counted");
    assert_eq!(chain(Metric::RowsOut), [100.0, 100.0, 40.0]);
    assert!(chain(Metric::CpuShare).iter().all(|share| (share - 0.2).abs() < 1e-12));
    assert_eq!(chain(Metric::EpochsBehind), [2.0; 3]);
    let queues = chain(Metric::QueueRows);
    assert!(queues[0] == 10.0 && queues[1].is_nan() && queues[2].is_nan(), "{queues:?}");
}

#[test]
fn a_fused_source_that_does_not_count_its_input_passes_on_what_the_chain_emits() {
    let graph = graph(&[("read+parse", 1), ("write", 1)], &[("parse", "write")]);
    for read in [None, Some(0.0)] {
        let mut values = vec![(0, Metric::OutRate, 40.0)];
        values.extend(read.map(|rate| (0, Metric::InRate, rate)));
        let nodes = Nodes::new(&graph, &readings(&values), Level::Operator);
        assert_eq!(nodes.reading(Metric::OutRate).expect("a column")[..2], [40.0, 40.0], "{read:?}");
    }
}

#[test]
fn an_edge_that_closes_a_cycle_is_left_out() {
    let mut graph = graph(&[("a", 1), ("b", 1), ("c", 1)], &[("a", "b"), ("b", "c")]);
    graph.edges.push(Edge { from: OperatorIndex(2), to: OperatorIndex(1) });
    let nodes = Nodes::new(&graph, &Readings::default(), Level::Task);
    assert_eq!(nodes.order(), [0, 1, 2]);
    assert_eq!((nodes.node(1).upstream.as_slice(), nodes.node(2).downstream.len()), (&[0][..], 0));
}

#[test]
fn an_order_has_each_node_after_its_upstream_and_sums_are_kept() {
    each_seed(200, |rng| {
        let graph = random_graph(rng);
        let mut values = Vec::new();
        for task in 0..graph.tasks.len() {
            values.push((task, Metric::CpuShare, unit(rng)));
            values.push((task, Metric::QueueRows, unit(rng)));
        }
        let (tasks, operators) = (
            Nodes::new(&graph, &readings(&values), Level::Task),
            Nodes::new(&graph, &readings(&values), Level::Operator),
        );
        for nodes in [&tasks, &operators] {
            let again = Nodes::new(&graph, &Readings::default(), nodes.level()).later(&graph, &readings(&values));
            assert_eq!((again.all(), again.order()), (nodes.all(), nodes.order()));
            assert_eq!(format!("{:?}", again.columns), format!("{:?}", nodes.columns));
            let mut place = vec![usize::MAX; nodes.len()];
            nodes.order().iter().enumerate().for_each(|(at, node)| place[*node] = at);
            for (node, at) in nodes.all().iter().zip(&place) {
                assert!(node.upstream.iter().all(|from| place[*from] < *at));
            }
        }
        for metric in [Metric::CpuShare, Metric::QueueRows] {
            let sum = |nodes: &Nodes| -> f64 {
                nodes.reading(metric).expect("a column").iter().filter(|value| !value.is_nan()).sum()
            };
            assert!((sum(&tasks) - sum(&operators)).abs() < 1e-9, "{metric:?}");
        }
    });
}

//! The provider against naive recomputation: no cache, no order, each path on its own.

use super::{close, readings};
use crate::tests::{each_seed, random_graph, unit};
use crate::{Level, Metric, Nodes, Provider};

/// All walks that begin at a node, each as the nodes on it; with `to_the_end` only those that cannot go on.
fn walks(next: &dyn Fn(usize) -> Vec<usize>, from: usize, to_the_end: bool) -> Vec<Vec<usize>> {
    let following = next(from);
    let mut all: Vec<Vec<usize>> = Vec::new();
    if !to_the_end || following.is_empty() {
        all.push(vec![from]);
    }
    for to in following {
        for walk in walks(next, to, to_the_end) {
            all.push(std::iter::once(from).chain(walk).collect());
        }
    }
    all
}

struct Naive<'a> {
    nodes: &'a Nodes,
    taken: &'a [f64],
    emitted: &'a [f64],
    used: &'a [f64],
    queue: &'a [f64],
}

impl Naive<'_> {
    fn selectivity(&self, node: usize) -> f64 {
        if self.nodes.is_end(node) { 1.0 } else { self.emitted[node] / self.taken[node] }
    }

    fn cost(&self, node: usize) -> f64 {
        self.used[node] / self.taken[node] * 1e9
    }

    fn flow(&self, from: usize, to: usize) -> f64 {
        let into: f64 = self.nodes.node(to).upstream.iter().map(|from| self.emitted[*from]).sum();
        self.taken[to] * self.emitted[from] / into
    }

    fn share(&self, from: usize, to: usize) -> f64 {
        let all: f64 = self.nodes.node(from).downstream.iter().map(|to| self.flow(from, *to)).sum();
        self.flow(from, to) / all
    }

    /// Rows that arrive at the end of a walk per row that arrives at its begin.
    fn arrives(&self, walk: &[usize]) -> f64 {
        walk.windows(2).map(|step| self.selectivity(step[0]) * self.share(step[0], step[1])).product()
    }

    fn path_selectivity(&self, node: usize) -> f64 {
        let down = |node: usize| self.nodes.node(node).downstream.clone();
        let ends = walks(&down, node, true);
        ends.iter().map(|walk| self.arrives(walk) * self.selectivity(walk[walk.len() - 1])).sum()
    }

    fn path_cost(&self, node: usize) -> f64 {
        let down = |node: usize| self.nodes.node(node).downstream.clone();
        walks(&down, node, false).iter().map(|walk| self.arrives(walk) * self.cost(walk[walk.len() - 1])).sum()
    }

    fn distance(&self, node: usize) -> f64 {
        let down = |node: usize| self.nodes.node(node).downstream.clone();
        walks(&down, node, true).iter().map(|walk| walk.len() - 1).max().expect("a walk") as f64
    }

    fn age(&self, node: usize) -> f64 {
        let up = |node: usize| self.nodes.node(node).upstream.clone();
        let time = |walk: &Vec<usize>| walk.iter().map(|at| 1e3 * self.queue[*at] / self.taken[*at]).sum();
        walks(&up, node, true).iter().map(time).fold(0.0, f64::max)
    }

    fn relief(&self, node: usize) -> f64 {
        let behind: f64 =
            self.nodes.node(node).downstream.iter().map(|to| self.share(node, *to) * self.queue[*to]).sum();
        (self.queue[node] - self.selectivity(node) * behind) / self.cost(node) * 1e9
    }
}

#[test]
fn each_metric_is_what_naive_recomputation_gives() {
    each_seed(150, |rng| {
        let graph = random_graph(rng);
        let mut values = Vec::new();
        for task in 0..graph.tasks.len() {
            for (metric, scale) in [(Metric::InRate, 1000.0), (Metric::OutRate, 1000.0), (Metric::CpuShare, 1.0)] {
                values.push((task, metric, scale * (0.01 + unit(rng))));
            }
            values.push((task, Metric::QueueRows, 50.0 * unit(rng)));
        }
        let offered = [Metric::RowsIn, Metric::RowsOut, Metric::CpuNs, Metric::QueueRows];
        let wanted = [Metric::PathRate, Metric::DistanceToSink, Metric::AgeMs, Metric::Relief];
        let nodes = Nodes::new(&graph, &readings(&values), Level::Task);
        let column = |metric| nodes.reading(metric).expect("it was read");
        let naive = Naive {
            nodes: &nodes,
            taken: column(Metric::InRate),
            emitted: column(Metric::OutRate),
            used: column(Metric::CpuShare),
            queue: column(Metric::QueueRows),
        };
        let metrics = Provider::new(offered, wanted).expect("all can be had").evaluate(&nodes);
        let check = |metric: Metric, naive: &dyn Fn(usize) -> f64| {
            println!("{metric:?}");
            let expected: Vec<f64> = (0..nodes.len()).map(naive).collect();
            close(metrics.column(metric).expect("it was computed"), &expected);
        };
        check(Metric::Selectivity, &|node| naive.selectivity(node));
        check(Metric::CostNs, &|node| naive.cost(node));
        check(Metric::PathSelectivity, &|node| naive.path_selectivity(node));
        check(Metric::PathCostNs, &|node| naive.path_cost(node));
        check(Metric::PathRate, &|node| naive.path_selectivity(node) / naive.path_cost(node) * 1e9);
        check(Metric::DistanceToSink, &|node| naive.distance(node));
        check(Metric::AgeMs, &|node| naive.age(node));
        check(Metric::Relief, &|node| naive.relief(node));
    });
}

#[test]
fn the_numbers_of_nodes_do_not_matter() {
    each_seed(100, |rng| {
        let graph = random_graph(rng);
        let mut values = Vec::new();
        for task in 0..graph.tasks.len() {
            for metric in [Metric::InRate, Metric::OutRate, Metric::CpuShare, Metric::QueueRows] {
                values.push((task, metric, 2.0 + 100.0 * unit(rng)));
            }
        }
        let last = graph.tasks.len() - 1;
        let mut turned = graph.clone();
        turned.tasks.reverse();
        let turned_values: Vec<_> = values.iter().map(|(task, metric, value)| (last - task, *metric, *value)).collect();
        let evaluate = |graph, values: &[(usize, Metric, f64)]| {
            let offered = [Metric::RowsIn, Metric::RowsOut, Metric::CpuNs, Metric::QueueRows];
            let wanted = [Metric::PathRate, Metric::Relief, Metric::AgeMs, Metric::DistanceToSink];
            let mut provider = Provider::new(offered, wanted).expect("all can be had");
            provider.evaluate(&Nodes::new(graph, &readings(values), Level::Task))
        };
        let (straight, turned) = (evaluate(&graph, &values), evaluate(&turned, &turned_values));
        for (metric, column) in straight.iter() {
            let mut other = turned.column(metric).expect("the same metrics").to_vec();
            other.reverse();
            println!("{metric:?}");
            close(column, &other);
        }
    });
}

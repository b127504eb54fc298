//! The workload SYN of the paper (section 6.4): queries of five operators with random cost and selectivity.

use anabranch_model::Rng;

use super::{Machine, Results, SimTask};
use crate::Graph;
use crate::tests::{graph, unit};

const OPERATORS: usize = 5;

/// Queries of a source, five operators of 20 to 200 us and a selectivity of 0.6 to 1.4, and a sink, on
/// `cores`. The rate of arrivals is the same for all queries, and such that they need `load` times the cores.
pub(super) fn syn(queries: usize, cores: f64, load: f64, rng: &mut Rng) -> Machine {
    let names: Vec<Vec<String>> =
        (0..queries).map(|query| (0..OPERATORS + 2).map(|place| format!("q{query}o{place}")).collect()).collect();
    let chains: Vec<(&str, usize)> = names.iter().flatten().map(|name| (name.as_str(), 1)).collect();
    let pairs = names.iter().flat_map(|query| query.windows(2));
    let edges: Vec<(&str, &str)> = pairs.map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    let mut tasks = Vec::new();
    let (mut sources, mut needed_ns) = (Vec::new(), 0.0);
    for _ in 0..queries {
        let mut rows = 1.0;
        sources.push(tasks.len());
        for place in 0..OPERATORS + 2 {
            let inner = (1..=OPERATORS).contains(&place);
            let cost_ns = if inner { 20e3 + 180e3 * unit(rng) } else { 5e3 };
            let selectivity = if inner { 0.6 + 0.8 * unit(rng) } else { 1.0 };
            needed_ns += rows * cost_ns;
            rows *= selectivity;
            let mut task = SimTask::new(cost_ns, selectivity);
            if place <= OPERATORS {
                task.downstream.push(tasks.len() + 1);
            }
            tasks.push(task);
        }
    }
    let per_second = load * cores * 1e9 / needed_ns;
    let arrivals = sources.into_iter().map(|source| (source, per_second)).collect();
    machine(graph(&chains, &edges), tasks, arrivals, cores)
}

fn machine(graph: Graph, tasks: Vec<SimTask>, arrivals: Vec<(usize, f64)>, cores: f64) -> Machine {
    assert_eq!(graph.tasks.len(), tasks.len(), "one task per operator");
    Machine { graph, tasks, arrivals, cores, now_ns: 0, results: Results::default() }
}

//! Graphs for tests: by hand and by chance.

use anabranch_model::Rng;

use crate::{
    Edge, Graph, Operator, OperatorIndex, Query, QueryIndex, Role, Task, TaskIndex, Thread, ThreadId, ThreadKind,
};

/// Runs a test once for each of the first seeds. The last seed that is printed is the one that failed.
pub(crate) fn each_seed(seeds: u64, test: impl Fn(&mut Rng)) {
    for seed in 0..seeds {
        println!("seed {seed}");
        test(&mut Rng::new(seed));
    }
}

/// A number from 0 to 1.
pub(crate) fn unit(rng: &mut Rng) -> f64 {
    rng.below(1 << 53) as f64 / (1_u64 << 53) as f64
}

/// A graph of one query from `name` or `name x parallelism` per chain, with operators of a chain joined by
/// `+`, and edges between operators. Operators without input are sources, those without output sinks.
pub(crate) fn graph(chains: &[(&str, usize)], edges: &[(&str, &str)]) -> Graph {
    let mut graph = Graph { queries: vec![Query { name: "q".to_string() }], ..Graph::default() };
    for (chain, parallelism) in chains {
        let begin = graph.operators.len();
        for name in chain.split('+') {
            let (query, name) = (QueryIndex(0), name.to_string());
            graph.operators.push(Operator { query, name, role: Role::Inner });
        }
        let runs: Vec<OperatorIndex> = (begin..graph.operators.len()).map(OperatorIndex).collect();
        graph.edges.extend(runs.windows(2).map(|pair| Edge { from: pair[0], to: pair[1] }));
        for replica in 0..*parallelism {
            let (query, name) = (QueryIndex(0), format!("{chain} {replica}"));
            graph.tasks.push(Task { query, name, runs: runs.clone() });
        }
    }
    let place = |name: &str| {
        OperatorIndex(graph.operators.iter().position(|operator| operator.name == name).expect("an operator's name"))
    };
    let named: Vec<Edge> = edges.iter().map(|(from, to)| Edge { from: place(from), to: place(to) }).collect();
    graph.edges.extend(named);
    set_roles(&mut graph);
    add_threads(&mut graph);
    graph
}

/// Up to three queries of up to nine operators with fan-out and joins, some fused, some parallel, with helper
/// threads and threads of the engine.
pub(crate) fn random_graph(rng: &mut Rng) -> Graph {
    let mut graph = Graph::default();
    for query in 0..=rng.below(3) as usize {
        graph.queries.push(Query { name: format!("q{query}") });
        let begin = graph.operators.len();
        for place in 0..3 + rng.below(7) as usize {
            let name = format!("o{place}");
            graph.operators.push(Operator { query: QueryIndex(query), name, role: Role::Inner });
            for _ in 0..=rng.below(2).min(place as u64) {
                if place > 0 {
                    let from = OperatorIndex(begin + rng.below(place as u64) as usize);
                    graph.edges.push(Edge { from, to: OperatorIndex(begin + place) });
                }
            }
        }
    }
    graph.edges.sort_unstable();
    graph.edges.dedup();
    set_roles(&mut graph);
    fuse(&mut graph, rng);
    add_threads(&mut graph);
    graph
}

/// Gives each operator tasks; about a third of the operators with one input that has one output are fused
/// with it.
fn fuse(graph: &mut Graph, rng: &mut Rng) {
    let mut chains: Vec<Vec<OperatorIndex>> = Vec::new();
    for operator in (0..graph.operators.len()).map(OperatorIndex) {
        let inputs: Vec<OperatorIndex> = graph.edges.iter().filter(|e| e.to == operator).map(|e| e.from).collect();
        let outputs = |of: OperatorIndex| graph.edges.iter().filter(|edge| edge.from == of).count();
        let chain = match inputs[..] {
            [input] if outputs(input) == 1 && rng.below(3) == 0 => {
                chains.iter_mut().find(|chain| chain.last() == Some(&input))
            }
            _ => None,
        };
        match chain {
            Some(chain) => chain.push(operator),
            None => chains.push(vec![operator]),
        }
    }
    for (place, runs) in chains.into_iter().enumerate() {
        let query = graph.operators[runs[0].0].query;
        for replica in 0..=rng.below(3) {
            graph.tasks.push(Task { query, name: format!("t{place} {replica}"), runs: runs.clone() });
        }
    }
}

fn set_roles(graph: &mut Graph) {
    for place in (0..graph.operators.len()).map(OperatorIndex) {
        let (input, output) =
            (graph.edges.iter().any(|edge| edge.to == place), graph.edges.iter().any(|edge| edge.from == place));
        graph.operators[place.0].role = match (input, output) {
            (false, _) => Role::Source,
            (true, false) => Role::Sink,
            (true, true) => Role::Inner,
        };
    }
}

/// A thread per task, a helper for every third one, and one of the engine.
fn add_threads(graph: &mut Graph) {
    let id = |tid: usize| ThreadId { pid: 7, process_start: 1, tid: 100 + tid as u32, start: 2 };
    for task in 0..graph.tasks.len() {
        graph.threads.push(Thread { id: id(2 * task), name: String::new(), kind: ThreadKind::Task(TaskIndex(task)) });
        if task % 3 == 0 {
            let kind = ThreadKind::Helper(TaskIndex(task));
            graph.threads.push(Thread { id: id(2 * task + 1), name: String::new(), kind });
        }
    }
    graph.threads.push(Thread { id: id(99_999), name: "GC".to_string(), kind: ThreadKind::Engine });
}

//! From Flink's jobs to entities: a job is a query, an operator of a chain an operator, a subtask of a vertex
//! a task.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_schedule::{Edge, Graph, Operator, OperatorIndex, Query, QueryIndex, Role, Task, TaskIndex};

use super::chain::{self, Link};
use super::rest::{Job, PlanInput, PlanNode};
use crate::driver::set_roles;

/// Digits of an identifier that tell jobs of one name apart.
const SHORT_ID: usize = 8;
/// What distributes each row to all tasks of the receiver.
const BROADCAST: &str = "BROADCAST";

/// Where a task is in the metrics: job, vertex, and subtask.
pub(super) type Place = (String, String, usize);

/// A vertex of the graph.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct VertexPlace {
    pub(super) job: String,
    pub(super) vertex: String,
    /// As Flink names its threads.
    pub(super) name: String,
    /// The tasks, by subtask.
    pub(super) tasks: Vec<TaskIndex>,
    /// How its counter of emitted rows becomes rows received.
    pub(super) outputs: Outputs,
    /// Milliseconds between two ends of its windows.
    pub(super) window_step_ms: Option<i64>,
    /// Whether it gets rows from another vertex.
    pub(super) receives: bool,
    /// The vertex that it gets all its rows from, if it is one.
    pub(super) only_input: Option<String>,
    /// How many vertices get its rows.
    pub(super) receivers: usize,
}

/// Flink counts a row once for each operator that emits it, whatever the number of vertices that receive it
/// and of their tasks (measured with 1.20.1 and 2.3.0). What counts here is how often rows are received.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outputs {
    /// Rows received for each row counted.
    Factor(f64),
    /// Several operators of the chain may emit, and the plan does not tell which: rows received for each row
    /// counted are at least `low`, if each edge has an operator of its own, and at most `high`, if all edges
    /// have the same one.
    Between { low: f64, high: f64 },
}

/// The graph without threads.
#[derive(Clone, Debug, Default)]
pub(super) struct Built {
    pub(super) graph: Graph,
    pub(super) vertices: Vec<VertexPlace>,
    pub(super) places: BTreeMap<Place, TaskIndex>,
}

/// Builds entities of all jobs.
pub(super) fn build(jobs: &[Job]) -> Built {
    let mut built = Built::default();
    for job in jobs {
        let is_only = jobs.iter().filter(|other| other.name == job.name).count() == 1;
        let short = &job.jid[..job.jid.floor_char_boundary(SHORT_ID)];
        let name = if is_only { job.name.clone() } else { format!("{}@{short}", job.name) };
        let query = QueryIndex(built.graph.queries.len());
        built.graph.queries.push(Query { name });
        add_job(job, query, &mut built);
    }
    built
}

/// Operators of one vertex.
struct Chain {
    /// Place of the first one in the graph.
    first: usize,
    links: Vec<Link>,
}

impl Chain {
    fn all(&self) -> impl Iterator<Item = OperatorIndex> + use<> {
        (self.first..self.first + self.links.len()).map(OperatorIndex)
    }

    /// Where rows come in.
    fn heads(&self) -> impl Iterator<Item = OperatorIndex> + '_ {
        self.all().filter(|operator| self.links[operator.0 - self.first].parent.is_none())
    }

    /// Where rows go out to other vertices. The plan does not tell: operators that emit to none of the chain
    /// and are no sinks, else the last.
    fn tails(&self) -> Vec<OperatorIndex> {
        let is_leaf = |index: usize| !self.links.iter().any(|link| link.parent == Some(index));
        let is_sink =
            |name: &str| name.starts_with("Sink: ") || name.ends_with(": Writer") || name.ends_with(": Committer");
        let leaves = (0..self.links.len()).filter(|index| is_leaf(*index) && !is_sink(&self.links[*index].name));
        let leaves: Vec<OperatorIndex> = leaves.map(|index| OperatorIndex(self.first + index)).collect();
        if leaves.is_empty() { self.all().last().into_iter().collect() } else { leaves }
    }
}

fn add_job(job: &Job, query: QueryIndex, built: &mut Built) {
    let nodes: BTreeMap<&str, &PlanNode> = job.plan.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let first_operator = built.graph.operators.len();
    let mut names = Names::default();
    let mut chains: BTreeMap<&str, Chain> = BTreeMap::new();
    for vertex in &job.vertices {
        let description = nodes.get(vertex.id.as_str()).map_or("", |node| node.description.as_str());
        let links = chain::operators(&vertex.name, description);
        let first = built.graph.operators.len();
        for link in &links {
            let name = names.unique(&link.name);
            built.graph.operators.push(Operator { query, name, role: Role::Inner });
            let parent = link.parent.map(|parent| OperatorIndex(first + parent));
            let to = OperatorIndex(built.graph.operators.len() - 1);
            built.graph.edges.extend(parent.map(|from| Edge { from, to }));
        }
        chains.insert(&vertex.id, Chain { first, links });
    }
    for node in &job.plan.nodes {
        for (from, to) in
            node.inputs.iter().filter_map(|input| chains.get(input.id.as_str()).zip(chains.get(node.id.as_str())))
        {
            let tails = from.tails();
            built.graph.edges.extend(to.heads().flat_map(|to| tails.iter().map(move |from| Edge { from: *from, to })));
        }
    }
    built.graph.edges.sort_unstable();
    built.graph.edges.dedup();
    set_roles(&mut built.graph, first_operator);
    add_tasks(job, query, &nodes, &chains, built);
}

fn add_tasks(
    job: &Job,
    query: QueryIndex,
    nodes: &BTreeMap<&str, &PlanNode>,
    chains: &BTreeMap<&str, Chain>,
    built: &mut Built,
) {
    let mut names = Names::default();
    for vertex in &job.vertices {
        let name = names.unique(&vertex.name);
        let Some(chain) = chains.get(vertex.id.as_str()) else { continue };
        let mut tasks = Vec::new();
        for subtask in 0..vertex.parallelism {
            let task = TaskIndex(built.graph.tasks.len());
            let name = format!("{name} ({}/{})", subtask + 1, vertex.parallelism);
            built.graph.tasks.push(Task { query, name, runs: chain.all().collect() });
            built.places.insert((job.jid.clone(), vertex.id.clone(), subtask), task);
            tasks.push(task);
        }
        let description = nodes.get(vertex.id.as_str()).map_or("", |node| node.description.as_str());
        let inputs: BTreeSet<&str> = inputs_of(nodes, &vertex.id).map(|input| input.id.as_str()).collect();
        let only = inputs.first().filter(|_| inputs.len() == 1);
        built.vertices.push(VertexPlace {
            job: job.jid.clone(),
            vertex: vertex.id.clone(),
            name: vertex.name.clone(),
            tasks,
            outputs: outputs(job, &vertex.id, chain.links.len()),
            window_step_ms: super::windows::step_ms(description),
            receives: !inputs.is_empty(),
            only_input: only.map(|input| (*input).to_owned()),
            receivers: nodes.keys().filter(|id| inputs_of(nodes, id).any(|input| input.id == vertex.id)).count(),
        });
    }
}

fn inputs_of<'a>(nodes: &BTreeMap<&str, &'a PlanNode>, vertex: &str) -> impl Iterator<Item = &'a PlanInput> + use<'a> {
    nodes.get(vertex).map(|node| node.inputs.iter()).into_iter().flatten()
}

/// How often a row that a vertex emits is received.
fn outputs(job: &Job, vertex: &str, operators: usize) -> Outputs {
    let parallelism =
        |id: &str| job.vertices.iter().find(|vertex| vertex.id == id).map_or(1, |vertex| vertex.parallelism);
    let mut weights = Vec::new();
    for node in &job.plan.nodes {
        for input in node.inputs.iter().filter(|input| input.id == vertex) {
            weights.push(if input.ship_strategy == BROADCAST { parallelism(&node.id) as f64 } else { 1.0 });
        }
    }
    let all: f64 = weights.iter().sum();
    match weights.len() {
        0 => Outputs::Factor(1.0),
        1 => Outputs::Factor(all),
        _ if operators == 1 => Outputs::Factor(all),
        edges => Outputs::Between { low: all / edges as f64, high: all },
    }
}

/// Makes names unique by numbers behind those that occur again.
#[derive(Default)]
struct Names(BTreeMap<String, usize>);

impl Names {
    fn unique(&mut self, name: &str) -> String {
        let count = self.0.entry(name.to_owned()).or_default();
        *count += 1;
        if *count == 1 { name.to_owned() } else { format!("{name} #{count}") }
    }
}

//! From Storm's topologies, executors and metrics to entities.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_schedule::{
    Edge, Graph, Operator, OperatorIndex, Query, QueryIndex, Role, Task, TaskIndex, Thread, ThreadId, ThreadKind,
};

use super::executor::{Executor, executor, may_be_executor, name_of};
use super::line::{is_internal, plain};
use super::store::Topology;
use crate::driver::local::ProcessThreads;
use crate::driver::set_roles;
use crate::kernel::NamedThread;

/// One process with executors.
pub(super) struct Host {
    /// The topology of a worker. None: the process has workers of several, as a local cluster has.
    pub(super) topology: Option<String>,
    pub(super) threads: ProcessThreads,
}

/// Where the readings of a task are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) topology: String,
    pub(super) executor: Executor,
    pub(super) role: Role,
}

/// The graph, with the places of its tasks.
#[derive(Clone, Debug, Default)]
pub(super) struct Built {
    pub(super) graph: Graph,
    /// In the order of the tasks.
    pub(super) places: Vec<Place>,
    /// Threads that are left alone, and why.
    pub(super) left_alone: Vec<String>,
}

/// An executor with its thread.
type Found = (Executor, ThreadId);

/// Builds entities of the topologies that have threads here. `inputs` are edges beside those of the metrics.
pub(super) fn build(
    topologies: &BTreeMap<String, Topology>,
    hosts: &[Host],
    inputs: &BTreeMap<String, Vec<String>>,
) -> Built {
    let mut built = Built::default();
    let mut of_topologies: BTreeMap<&str, Vec<Found>> = BTreeMap::new();
    let mut unclear = BTreeSet::new();
    let (mut cut, mut left_alone) = (0, BTreeSet::new());
    for host in hosts {
        let may_be = |thread: &&NamedThread| host.threads.are_cut && may_be_executor(&thread.name);
        for thread in host.threads.threads.iter().filter(may_be) {
            cut += 1;
            left_alone.insert(thread.id);
        }
        for thread in &host.threads.threads {
            let Some(found) = executor(&thread.name).filter(|found| !is_internal(&found.component)) else { continue };
            let candidates: Vec<&str> = match &host.topology {
                Some(topology) => vec![topology],
                None => topologies
                    .iter()
                    .filter(|(_, of)| of.has(&found.component, found.tasks.clone()))
                    .map(|(id, _)| id.as_str())
                    .collect(),
            };
            match candidates[..] {
                [topology] => of_topologies.entry(topology).or_default().push((found, thread.id)),
                // Its metrics come later.
                [] => drop(left_alone.insert(thread.id)),
                _ => {
                    left_alone.insert(thread.id);
                    unclear.insert(thread.name.clone());
                }
            }
        }
    }
    let mut kinds = BTreeMap::new();
    for (topology, mut executors) in of_topologies {
        executors.sort_by(|(a, _), (b, _)| (&a.component, a.tasks.start()).cmp(&(&b.component, b.tasks.start())));
        add_topology(topology, topologies.get(topology), &executors, inputs, &mut built, &mut kinds);
    }
    let all = hosts.iter().flat_map(|host| &host.threads.threads);
    for thread in all.filter(|thread| !left_alone.contains(&thread.id)) {
        let kind = kinds.get(&thread.id).copied().unwrap_or(ThreadKind::Engine);
        built.graph.threads.push(Thread { id: thread.id, name: thread.name.clone(), kind });
    }
    built.left_alone.extend(unclear.iter().map(|name| {
        format!(
            "the threads '{name}' belong to different topologies in one process, so they are left alone: \
             give the components different names"
        )
    }));
    if cut > 0 {
        built
            .left_alone
            .push(format!("{cut} threads may be executors, but their names are cut, so they are left alone"));
    }
    built
}

fn add_topology(
    id: &str,
    topology: Option<&Topology>,
    executors: &[Found],
    inputs: &BTreeMap<String, Vec<String>>,
    built: &mut Built,
    kinds: &mut BTreeMap<ThreadId, ThreadKind>,
) {
    let graph = &mut built.graph;
    let is_known = |name: &str, graph: &Graph| graph.queries.iter().any(|query| query.name == name);
    // A topology that was submitted again while the old one ends has the same name.
    let name = if is_known(name_of(id), graph) { id } else { name_of(id) };
    let query = QueryIndex(graph.queries.len());
    graph.queries.push(Query { name: name.to_owned() });
    let edges = edges(topology, executors, inputs);
    let first = graph.operators.len();
    let names: BTreeSet<&String> = executors
        .iter()
        .map(|(executor, _)| &executor.component)
        .chain(edges.iter().flat_map(|(from, to)| [from, to]))
        .collect();
    let place = |name: &String| OperatorIndex(first + names.iter().position(|known| *known == name).unwrap_or(0));
    graph.operators.extend(names.iter().map(|name| Operator { query, name: (*name).clone(), role: Role::Inner }));
    graph.edges.extend(edges.iter().map(|(from, to)| Edge { from: place(from), to: place(to) }));
    set_roles(graph, first);
    for (executor, thread) in executors {
        let task = TaskIndex(graph.tasks.len());
        let (first, last) = (executor.tasks.start(), executor.tasks.end());
        let name = format!("{} [{first}, {last}]", executor.component);
        let operator = place(&executor.component);
        graph.tasks.push(Task { query, name, runs: vec![operator] });
        kinds.insert(*thread, ThreadKind::Task(task));
        let role = graph.operators[operator.0].role;
        built.places.push(Place { topology: id.to_owned(), executor: executor.clone(), role });
    }
}

/// Edges between components as they are named. All edges of a cycle stay: metrics over paths leave one out.
fn edges(
    topology: Option<&Topology>,
    executors: &[Found],
    inputs: &BTreeMap<String, Vec<String>>,
) -> BTreeSet<(String, String)> {
    let measured = topology.map(Topology::edges).unwrap_or_default();
    // The names of receivers come from paths, where dots are underscores.
    let raw = |component: &String| {
        let of_threads = executors.iter().map(|(executor, _)| &executor.component);
        let of_edges = measured.iter().map(|(from, _)| from);
        of_threads.chain(of_edges).find(|name| plain(name) == *component).unwrap_or(component).clone()
    };
    let mut edges: BTreeSet<(String, String)> = measured.iter().map(|(from, to)| (from.clone(), raw(to))).collect();
    let is_here = |name: &String| executors.iter().any(|(executor, _)| executor.component == *name);
    for (to, from) in inputs.iter().filter(|(to, _)| is_here(to)) {
        edges.extend(from.iter().map(|from| (from.clone(), to.clone())));
    }
    edges
}

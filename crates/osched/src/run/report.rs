//! What `check` and `targets` say.

use std::collections::BTreeSet;
use std::sync::Arc;

use anabranch_model::{Clock, Result};
use anabranch_schedule::{Graph, OperatorIndex, ThreadKind};

use super::Formulas;
use super::applied::{policy_of, prepare};
use super::setup::watched;
use crate::config::Config;
use crate::driver::Driver;
use crate::kernel::Proc;

/// What each target offers, and for each policy whether its metrics are there, or what is missing.
/// Errors: a thread cannot be started.
pub fn check(
    config: &Config,
    drivers: Vec<Box<dyn Driver>>,
    formulas: Formulas,
    kernel: &Proc,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for (target, mut watched) in config.targets.iter().zip(watched(config, drivers, kernel, clock)?) {
        if let Some(failure) = watched.failure() {
            lines.push(format!("target {}: {failure}", target.name));
            continue;
        }
        let status = watched.status();
        let counts = format!("{} queries, {} tasks, {} threads", status.queries, status.tasks, status.threads);
        let offered: Vec<&str> = watched.offers.iter().map(|metric| metric.name()).collect();
        lines.push(format!("target {} ({}): {counts}", target.name, target.engine.name()));
        lines.push(format!("  it reports {}", offered.join(", ")));
        lines.extend(watched.left_alone.iter().chain(&watched.advice).map(|line| format!("  {line}")));
        for policy in config.policies.iter().filter(|policy| policy.targets.contains(&target.name)) {
            let prepared = policy_of(policy, formulas).and_then(|of| prepare(policy, of.as_ref(), &mut watched));
            lines.push(match prepared {
                Ok(()) => format!("  policy {}: all that it needs is there", policy.name),
                Err(error) => format!("  policy {}: {error}", policy.name),
            });
        }
    }
    Ok(lines)
}

/// The queries of a graph with their operators, tasks and threads.
#[must_use]
pub fn list(graph: &Graph) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, query) in graph.queries.iter().enumerate() {
        lines.push(format!("query {}", query.name));
        let of_query = |at: &OperatorIndex| graph.operators[at.0].query.0 == index;
        for at in (0..graph.operators.len()).map(OperatorIndex).filter(of_query) {
            let behind = graph.edges.iter().filter(|edge| edge.from == at);
            let behind: Vec<&str> = behind.map(|edge| graph.operators[edge.to.0].name.as_str()).collect();
            let to = if behind.is_empty() { String::new() } else { format!(" -> {}", behind.join(", ")) };
            lines.push(format!("  operator {}{to}", graph.operators[at.0].name));
        }
        for (place, task) in graph.tasks.iter().enumerate().filter(|(_, task)| task.query.0 == index) {
            let threads = graph.threads.iter().filter_map(|thread| match thread.kind {
                ThreadKind::Task(at) if at.0 == place => Some(thread.id.tid.to_string()),
                ThreadKind::Helper(at) if at.0 == place => Some(format!("{} (helps)", thread.id.tid)),
                _ => None,
            });
            let threads: Vec<String> = threads.collect();
            let threads = if threads.is_empty() { "none that osched orders".to_owned() } else { threads.join(", ") };
            lines.push(format!("  task {}: threads {threads}", task.name));
        }
    }
    let engine = graph.threads.iter().filter(|thread| thread.kind == ThreadKind::Engine);
    let processes: BTreeSet<u32> = graph.threads.iter().map(|thread| thread.id.pid).collect();
    lines.push(format!("{} further threads of {} processes, which go before tasks", engine.count(), processes.len()));
    lines
}

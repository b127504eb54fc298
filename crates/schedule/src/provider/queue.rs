//! Rows in a queue from counters on both sides of it: emitted upstream less received here.
//!
//! Engines count neither per edge nor from the same moment, so three things are estimated.
//!
//! * **The baseline.** The difference of two counters is the queue plus a constant: tasks that were restarted
//!   or added count from zero. At the first look a difference that a queue can have ([`PLAUSIBLE_ROWS`]) is
//!   taken as it is, and any other one as an empty queue. A lower difference later means that the baseline
//!   was too high, and becomes the baseline. Where the engine reports batches, a queue without a batch is
//!   empty, and the difference is the baseline.
//! * **Fan-out.** An engine counts the rows that a node emits over all outputs. We take them as copied to
//!   all, so each output gets the same number, until one output has received more than that: then rows are
//!   routed, and each output gets a share by what it has received.
//! * **Parallel tasks.** Which of them an emitted row goes to is not counted, so the queue of an operator is
//!   divided evenly among its tasks.
//!
//! Limits: a backlog that stood at the first look above the plausible size counts from there on only.
//! Counters that are read at different moments make the queue too large by up to the rows that pass between
//! these moments.

use std::collections::BTreeSet;

use super::Scene;
use super::memory::{Memory, Standing};
use crate::Metric::{QueueBatches, RowsIn, RowsOut};
use crate::{Nodes, Role};

/// The greatest difference of counters at the first look that is taken as a queue. Engines that do not report
/// rows themselves bound their queues by buffers, which hold thousands of rows.
const PLAUSIBLE_ROWS: f64 = 50_000.0;

/// By how much an output may exceed an equal part of what was emitted, because counters are read one after
/// another.
const SLACK_SHARE: f64 = 0.01;
const SLACK_ROWS: f64 = 100.0;

/// Parallel tasks, which share their input: the unit of this estimate.
struct Group {
    members: Vec<usize>,
    upstream: BTreeSet<usize>,
    downstream: BTreeSet<usize>,
    received: f64,
    emitted: f64,
}

/// Rows that wait before each node; 0 for sources, whose input is outside of the query.
pub(super) fn from_counters(scene: &mut Scene) -> Vec<f64> {
    let nodes = scene.nodes;
    let groups = groups(nodes, scene.get(RowsIn), scene.get(RowsOut));
    let batches = scene.find(QueueBatches);
    scene.memory.retain_queues(nodes);
    find_routed(nodes, &groups, scene.memory);
    let mut queues = vec![f64::NAN; nodes.len()];
    for group in &groups {
        let Some(&first) = group.members.first() else { continue };
        let rows = match nodes.node(first).role {
            Role::Source => 0.0,
            _ if group.upstream.is_empty() => f64::NAN,
            _ => {
                let empty = batches.is_some_and(|batches| group.members.iter().all(|node| batches[*node] == 0.0));
                rows_before(nodes, &groups, group, empty, scene.memory)
            }
        };
        for &node in &group.members {
            queues[node] = rows / group.members.len() as f64;
        }
    }
    queues
}

fn groups(nodes: &Nodes, received: &[f64], emitted: &[f64]) -> Vec<Group> {
    let count = nodes.all().iter().map(|node| node.siblings + 1).max().unwrap_or(0);
    let empty = || Group {
        members: Vec::new(),
        upstream: BTreeSet::new(),
        downstream: BTreeSet::new(),
        received: 0.0,
        emitted: 0.0,
    };
    let mut groups: Vec<Group> = std::iter::repeat_with(empty).take(count).collect();
    for (place, node) in nodes.all().iter().enumerate() {
        let group = &mut groups[node.siblings];
        group.members.push(place);
        group.upstream.extend(node.upstream.iter().map(|from| nodes.node(*from).siblings));
        group.downstream.extend(node.downstream.iter().map(|to| nodes.node(*to).siblings));
        group.received += received[place];
        group.emitted += emitted[place];
    }
    groups
}

/// Marks the groups that do not copy their rows to all outputs. The queues behind them are measured anew.
fn find_routed(nodes: &Nodes, groups: &[Group], memory: &mut Memory) {
    for group in groups.iter().filter(|group| group.downstream.len() > 1) {
        let name = name_of(nodes, group);
        let part = group.emitted / group.downstream.len() as f64;
        let exceeds = |to: &usize| {
            groups[*to].upstream.len() == 1 && groups[*to].received > part * (1.0 + SLACK_SHARE) + SLACK_ROWS
        };
        if !memory.is_routed(name) && group.downstream.iter().any(exceeds) {
            memory.set_routed(name);
            for to in &group.downstream {
                memory.forget_standing(name_of(nodes, &groups[*to]));
            }
        }
    }
}

fn rows_before(nodes: &Nodes, groups: &[Group], group: &Group, empty: bool, memory: &mut Memory) -> f64 {
    let sent: f64 = group.upstream.iter().map(|from| sent(nodes, groups, *from, group, memory)).sum();
    let difference = sent - group.received;
    if !difference.is_finite() {
        return f64::NAN;
    }
    let name = name_of(nodes, group);
    let emitted = group.upstream.iter().map(|from| groups[*from].emitted).sum();
    let tasks = (group.upstream.iter().map(|from| groups[*from].members.len()).sum(), group.members.len());
    let baseline = match memory.standing(name) {
        _ if empty => difference,
        Some(former) if former.tasks == tasks && emitted >= former.emitted && group.received >= former.received => {
            former.baseline.min(difference)
        }
        _ if (0.0..=PLAUSIBLE_ROWS).contains(&difference) => 0.0,
        _ => difference,
    };
    memory.set_standing(name, Standing { baseline, emitted, received: group.received, tasks });
    (difference - baseline).max(0.0)
}

/// Rows that one group has sent to another one.
fn sent(nodes: &Nodes, groups: &[Group], from: usize, to: &Group, memory: &Memory) -> f64 {
    let from = &groups[from];
    let outputs = from.downstream.len() as f64;
    if outputs > 1.0 && memory.is_routed(name_of(nodes, from)) {
        let received: f64 = from.downstream.iter().map(|output| groups[*output].received).sum();
        return if received > 0.0 { from.emitted * to.received / received } else { from.emitted / outputs };
    }
    from.emitted / outputs
}

/// A group is called by its first member.
fn name_of<'a>(nodes: &'a Nodes, group: &Group) -> &'a str {
    group.members.first().map_or("", |first| nodes.node(*first).name.as_str())
}

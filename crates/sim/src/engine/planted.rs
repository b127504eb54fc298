//! Bugs that are planted on purpose, where the parts of a job meet each other or their surroundings. The
//! product knows nothing of them.

use std::collections::BTreeMap;

use anabranch_model::{Envelope, Rng};
use anabranch_operators::StateChange;
use anabranch_runtime::stepped::Tasks;

use super::outside::Shared;
use crate::Mutation;

/// Steps the tasks of a worker, and plants a bug between them if there is one.
pub(super) struct Hand {
    mutation: Option<Mutation>,
    /// The plan is about to change.
    pub(super) switches: bool,
    /// By task and channel, the rows that the next marker may pass, or has passed.
    held: BTreeMap<(usize, usize), Held>,
}

struct Held {
    rows: Envelope,
    overtaken: bool,
}

impl Hand {
    pub(super) fn new(mutation: Option<Mutation>) -> Hand {
        Hand { mutation, switches: false, held: BTreeMap::new() }
    }

    /// One step of a task. False if it did nothing.
    fn step(&mut self, tasks: &mut Tasks<'_>, task: usize, channel: usize) -> bool {
        if matches!(self.mutation, Some(Mutation::MarkerOvertakes | Mutation::StateBeforeLastRows))
            && let Some(envelope) = tasks.take(task, channel)
        {
            tasks.give(task, channel, self.overtake(task, channel, envelope));
        }
        tasks.step(task, channel)
    }

    /// Some steps of a task on one of its channels. Sources are slow, so that there is work in many epochs.
    pub(super) fn steps(&mut self, tasks: &mut Tasks<'_>, task: usize, rng: &mut Rng, shared: &Shared) {
        let channels = tasks.channels(task) as u64;
        let channel = rng.below(channels.max(1)) as usize;
        let steps = if channels == 0 { 1 } else { 1 + rng.below(8) };
        for _ in 0..steps {
            shared.lock().poll_rows = 1 + rng.below(8) as usize;
            if !self.step(tasks, task, channel) {
                break;
            }
        }
    }

    fn overtake(&mut self, task: usize, channel: usize, envelope: Envelope) -> Vec<Envelope> {
        let held = self.held.remove(&(task, channel));
        let overtakes = self.mutation == Some(Mutation::MarkerOvertakes);
        match (held, envelope) {
            // The rows find no task.
            (Some(_), Envelope::Marker(marker)) if marker.kind.closes() && self.switches && !overtakes => {
                vec![Envelope::Marker(marker)]
            }
            (Some(Held { rows, overtaken: false }), Envelope::Marker(marker)) if !marker.kind.closes() && overtakes => {
                self.held.insert((task, channel), Held { rows, overtaken: true });
                vec![Envelope::Marker(marker)]
            }
            (held, rows @ Envelope::Batch(_)) => {
                self.held.insert((task, channel), Held { rows, overtaken: false });
                held.into_iter().map(|held| held.rows).collect()
            }
            (held, other) => held.into_iter().map(|held| held.rows).chain([other]).collect(),
        }
    }

    /// The recorder writes the next snapshot. False if there is none.
    pub(super) fn record(&self, tasks: &mut Tasks<'_>) -> bool {
        let Some(mut snapshot) = tasks.snapshot() else { return false };
        if let Some(mutation) = self.mutation {
            snapshot.changes().for_each(|change| alter(mutation, change));
        }
        let all = tasks.ids();
        for report in tasks.write(snapshot) {
            if self.mutation == Some(Mutation::CommitBeforeAllAcknowledged) {
                let others: Vec<_> = all.iter().filter_map(|other| report.of_other(*other)).collect();
                others.into_iter().for_each(|other| tasks.deliver(other));
            }
            tasks.deliver(report);
        }
        true
    }
}

fn alter(mutation: Mutation, change: &mut StateChange) {
    match mutation {
        // A complete state is not a change.
        Mutation::DeltaLost if !change.complete => change.rows.clear(),
        Mutation::DeltaTwice => change.rows.extend(change.rows.clone()),
        Mutation::RunLost => change.runs.truncate(change.runs.len().saturating_sub(1)),
        _ => {}
    }
}

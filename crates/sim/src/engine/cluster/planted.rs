//! Bugs that are planted in what coordinators and workers tell each other.

use std::collections::BTreeMap;

use anabranch_dataflow::Plan;
use anabranch_model::{Epoch, Incarnation, PlanVersion, TaskId};
use anabranch_protocol::coordinator::Then;
use anabranch_protocol::membership::{Process, WorkerId};
use anabranch_protocol::message::{Downward, Upward};
use anabranch_protocol::worker::{Fence, FromCoordinator, Order, Snapshots, Summary, Term, ToCoordinator};
use anabranch_runtime::messages::{FromWorker, ToWorker};
use anabranch_state::TaskState;

use crate::Mutation;

/// Reports of a worker that are remembered.
const REPORTED: usize = 8;

/// Carries messages, and plants a bug in them if there is one.
pub(super) struct Carrier {
    mutation: Option<Mutation>,
    /// The last group granted to each worker, and for which tasks.
    granted: BTreeMap<WorkerId, (Fence, Epoch)>,
    /// The last snapshots that a worker has reported, and in which incarnation.
    reported: BTreeMap<Process, Vec<(Incarnation, Snapshots<TaskState>)>>,
    /// The first worker of an incarnation by a changed plan.
    shifted: Option<(Incarnation, WorkerId)>,
    /// A task that another worker claims too.
    claimed: Option<(Incarnation, WorkerId, TaskId)>,
    /// Of each worker, the newest fence of its summaries and the newest checkpoint that it has reported.
    newest: BTreeMap<WorkerId, (Fence, Epoch)>,
    /// Tasks that their workers were told to end: of this incarnation and of all before.
    cancelled: BTreeMap<WorkerId, Incarnation>,
    /// The newest incarnation that workers were told of.
    told: Incarnation,
    /// The newest incarnation whose tasks have ended with their lease or with their job, or were to end for
    /// the next version of the plan.
    pub(super) ends: Incarnation,
}

impl Carrier {
    pub(super) fn new(mutation: Option<Mutation>) -> Carrier {
        Carrier {
            mutation,
            granted: BTreeMap::new(),
            reported: BTreeMap::new(),
            shifted: None,
            claimed: None,
            newest: BTreeMap::new(),
            cancelled: BTreeMap::new(),
            told: Incarnation(0),
            ends: Incarnation(0),
        }
    }

    /// A message of a coordinator arrives at a worker's process, which has taken messages of the term
    /// `newest` before. Returns the term that the process sees.
    pub(super) fn routed(&self, term: Term, newest: Term, mut message: ToWorker) -> (Term, ToWorker) {
        if self.mutation != Some(Mutation::OlderTermTaken) || term >= newest {
            return (term, message);
        }
        if let ToWorker::Protocol(protocol) = &mut message
            && let Downward::Order(protocol) = &mut **protocol
        {
            protocol.fence.term = newest;
        }
        (newest, message)
    }

    /// A message arrives at a worker. Returns what it gets.
    pub(super) fn down(&mut self, worker: WorkerId, mut message: ToWorker) -> Vec<ToWorker> {
        let mut more = Vec::new();
        if let ToWorker::Protocol(protocol) = &mut message
            && let Downward::Order(protocol) = &mut **protocol
        {
            let fence = protocol.fence;
            self.told = self.told.max(fence.incarnation);
            let before = Incarnation(fence.incarnation.0 - u64::from(protocol.order != Some(Order::Cancel)));
            let cancelled = self.cancelled.entry(worker).or_insert(before);
            *cancelled = before.max(*cancelled);
            if let Some(Order::Grant { then: Then::Switch, .. }) = protocol.order {
                self.ends = self.ends.max(fence.incarnation);
            }
            match (self.mutation, &mut protocol.order) {
                (Some(Mutation::OlderOrderTaken), Some(Order::Grant { group, checkpoint: true, .. })) => {
                    self.granted.insert(worker, (fence, group.last));
                }
                (Some(Mutation::OlderOrderTaken), Some(Order::Start { .. })) => {
                    // The checkpoint of an older incarnation may be in the log by now, but not that of this
                    // one.
                    let older = self.granted.get(&worker).filter(|(old, _)| old.incarnation < fence.incarnation);
                    if let Some((_, epoch)) = older {
                        let order = Some(Order::CheckpointDone(*epoch));
                        let older = FromCoordinator { order, ..protocol.clone() };
                        more.push(ToWorker::Protocol(Box::new(Downward::Order(older))));
                    }
                }
                (Some(Mutation::ClaimedTwice), Some(Order::Start { tasks, .. })) => {
                    match self.claimed.filter(|(incarnation, ..)| *incarnation == fence.incarnation) {
                        Some((_, other, task)) if other != worker => drop(tasks.all.insert(task)),
                        Some(_) => {}
                        None => {
                            let first = tasks.sources.first().or(tasks.all.first());
                            self.claimed = first.map(|task| (fence.incarnation, worker, *task));
                        }
                    }
                }
                _ => {}
            }
        }
        if self.mutation == Some(Mutation::KeyGroupsTwice)
            && let ToWorker::Deploy(deploy) = &mut message
            && !deploy.prepares
            && deploy.plan.version > PlanVersion(1)
            && is_first(&mut self.shifted, deploy.incarnation, worker)
        {
            shift_key_groups(&mut deploy.plan);
        }
        more.insert(0, message);
        more
    }

    /// A coordinator has ended the job. Another one that knew of its tasks may adopt them before it learns
    /// that they are gone.
    pub(super) fn forgotten(&mut self) {
        self.ends = self.ends.max(self.told);
    }

    /// A message of a worker arrives at the coordinator. Returns what that gets.
    pub(super) fn up(&mut self, process: Process, mut message: FromWorker) -> Vec<FromWorker> {
        if let FromWorker::Protocol(upward) = &mut message
            && let Upward::Summary(ToCoordinator { fence, summary }) = &mut **upward
        {
            let fence = *fence;
            let incarnation = fence.incarnation;
            let was_told = self.cancelled.get(&process.worker).is_some_and(|cancelled| *cancelled >= incarnation);
            if summary.cancelled && !was_told {
                self.ends = self.ends.max(incarnation);
            }
            match self.mutation {
                Some(Mutation::AdoptionUnreported) => self.unreported(process.worker, fence, summary),
                // It counts as received, and is not repeated.
                Some(Mutation::SummaryLost) => summary.last.clear(),
                Some(Mutation::OlderReportTaken) => {
                    let reported = self.reported.entry(process).or_default();
                    let own = summary.checkpoints.clone();
                    let older = reported.iter().filter(|(of, _)| *of < incarnation).map(|(_, snapshots)| snapshots);
                    summary.checkpoints.extend(older.cloned());
                    reported.extend(own.into_iter().map(|snapshots| (incarnation, snapshots)));
                    reported.drain(..reported.len().saturating_sub(REPORTED));
                }
                _ => {}
            }
        }
        vec![message]
    }

    /// What a worker has reported to the coordinator before counts as known to the one that adopts its tasks.
    fn unreported(&mut self, worker: WorkerId, fence: Fence, summary: &mut Summary<TaskState>) {
        let newest = summary.checkpoints.iter().map(|snapshots| snapshots.epoch).max().unwrap_or(Epoch(0));
        match self.newest.get_mut(&worker).filter(|(known, _)| known.incarnation == fence.incarnation) {
            Some((known, reported)) if known.term == fence.term => *reported = newest.max(*reported),
            Some((known, reported)) if known.term < fence.term => {
                summary.checkpoints.retain(|snapshots| snapshots.epoch > *reported);
                summary.groups.clear();
            }
            Some(_) => {}
            None => drop(self.newest.insert(worker, (fence, newest))),
        }
    }
}

/// Whether a worker is the first one of an incarnation of which this is asked.
fn is_first(first: &mut Option<(Incarnation, WorkerId)>, incarnation: Incarnation, worker: WorkerId) -> bool {
    let known = first.filter(|(of, _)| *of >= incarnation);
    *first.insert(known.unwrap_or((incarnation, worker))) == (incarnation, worker)
}

/// The first task of each stage takes key groups from the second.
fn shift_key_groups(plan: &mut Plan) {
    let Ok(mut assignment) = serde_json::to_value(&plan.assignment) else { return };
    let stages = assignment["key_groups"].as_object_mut().into_iter().flatten();
    for ranges in stages.filter_map(|(_, ranges)| ranges.as_array_mut()).filter(|ranges| ranges.len() > 1) {
        let bounds = ["first", "end"].map(|bound| ranges[1][bound].as_u64().unwrap_or(0));
        let moved = bounds[0].midpoint(bounds[1]);
        (ranges[0]["end"], ranges[1]["first"]) = (moved.into(), moved.into());
    }
    // What cannot be read stays as it is, and the bug is not found.
    plan.assignment = serde_json::from_value(assignment).unwrap_or_else(|_| plan.assignment.clone());
}

//! How a checkpoint's time is divided into phases, and which task held it up.
//!
//! The clocks of processes differ, so times of different processes are never compared. A task measures by the
//! clock of its own process, from the time at which the process has received the request. The coordinator
//! measures by its clock from the request to the last acknowledgement, and from there to the commit. The
//! transfer of both messages counts as writing.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_model::{Epoch, Nanos, TaskId};
use anabranch_protocol::membership::Process;
use serde::{Deserialize, Serialize};

/// A checkpoint's time, divided: the parts add up to the time from its request to its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phases {
    /// From the request until the last source had cut the epoch: the boundary follows its rows. The rest of
    /// the group of epochs is included.
    pub request: Duration,
    /// Until the last task had taken its snapshot: the boundary had arrived at all of its inputs, and
    /// everything before was processed.
    pub alignment: Duration,
    /// Until the coordinator had the last acknowledgement of a written snapshot.
    pub write: Duration,
    /// Until the entry in the job's log was durable.
    pub commit: Duration,
    /// The task that took the longest in a single phase.
    pub slowest: Slowest,
}

/// A task that delayed a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slowest {
    /// The task.
    pub task: TaskId,
    /// The process that ran it.
    pub process: Process,
    /// The phase.
    pub phase: TaskPhase,
    /// Its duration, without waiting for other tasks.
    pub took: Duration,
}

/// A phase of a checkpoint that depends on a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskPhase {
    /// A source cut the epoch, measured from the time at which it was due.
    Request,
    /// The task took its snapshot, measured from the arrival of the boundary at the last of its inputs, or
    /// from its own cut.
    Alignment,
    /// The task's snapshot was written, measured from the beginning of the write.
    Write,
}

/// A task's measurements of a checkpoint, in nanoseconds since its process has received the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// The task.
    pub task: TaskId,
    /// The epoch that ends with the checkpoint.
    pub epoch: Epoch,
    /// For a task with a source: its cut was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_ns: Option<u64>,
    /// It had cut the epoch, or the boundary had arrived at the last of its inputs: from here on it waited
    /// for no other task.
    pub entered_ns: u64,
    /// It had taken its snapshot, and a sink had prepared its results.
    pub taken_ns: u64,
    /// The recorder began to write the snapshot.
    pub begun_ns: u64,
    /// The snapshot was written.
    pub written_ns: u64,
}

/// The boundary of a checkpoint that has entered a task, by the clock of its process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Boundary {
    pub(crate) epoch: Epoch,
    /// See [`Passage::due_ns`].
    pub(crate) due: Option<Nanos>,
    /// See [`Passage::entered_ns`].
    pub(crate) entered: Nanos,
}

/// The boundary of a checkpoint at a task that has taken its snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passing {
    /// The process had received the request.
    pub(crate) requested: Nanos,
    pub(crate) boundary: Boundary,
    /// See [`Passage::taken_ns`].
    pub(crate) taken: Nanos,
}

impl Passing {
    /// The measurements of a snapshot that was written from `begun` until `now`.
    pub(crate) fn written(self, task: TaskId, begun: Nanos, now: Nanos) -> Passage {
        let Passing { requested, boundary: Boundary { epoch, due, entered }, taken } = self;
        let [entered_ns, taken_ns, begun_ns, written_ns] = [entered, taken, begun, now].map(|at| at.since(requested));
        // A source may cut before its time, because others do.
        let due_ns = due.map(|due| due.min(entered).since(requested));
        Passage { task, epoch, due_ns, entered_ns, taken_ns, begun_ns, written_ns }
    }
}

/// The checkpoints that were requested and are neither committed nor abandoned.
#[derive(Debug, Default)]
pub(crate) struct Measuring(BTreeMap<Epoch, Measured>);

#[derive(Debug)]
struct Measured {
    requested: Nanos,
    /// Since the request: the last source had cut the epoch.
    cut: Option<Duration>,
    /// Since the request: the last task had taken its snapshot.
    taken: Duration,
    slowest: Option<Slowest>,
    acknowledged: Option<Nanos>,
}

impl Measuring {
    /// The group that ends with this epoch was granted, with a checkpoint.
    pub(crate) fn requested(&mut self, epoch: Epoch, now: Nanos) {
        let none = Measured { requested: now, cut: None, taken: Duration::ZERO, slowest: None, acknowledged: None };
        self.0.entry(epoch).or_insert(none);
    }

    /// A task of a process has written its snapshot. The order of tasks does not matter, and repetitions
    /// change nothing.
    pub(crate) fn passed(&mut self, process: Process, passage: &Passage) {
        if let Some(measured) = self.0.get_mut(&passage.epoch) {
            measured.passed(process, passage);
        }
    }

    /// Every task has acknowledged the checkpoint, or had finished before.
    pub(crate) fn acknowledged(&mut self, epoch: Epoch, now: Nanos) {
        if let Some(measured) = self.0.get_mut(&epoch) {
            measured.acknowledged.get_or_insert(now);
        }
    }

    /// The checkpoint is committed, so no earlier one will be. Returns its duration, and its phases if tasks
    /// have measured them. `None`: it was not requested here.
    pub(crate) fn committed(&mut self, epoch: Epoch, now: Nanos) -> Option<(Duration, Option<Phases>)> {
        let later = self.0.split_off(&epoch.next());
        let measured = std::mem::replace(&mut self.0, later).remove(&epoch)?;
        Some((now.after(measured.requested), measured.phases(now)))
    }

    /// The checkpoint is abandoned. Returns its duration, if it was requested here.
    pub(crate) fn abandoned(&mut self, epoch: Epoch, now: Nanos) -> Option<Duration> {
        self.0.remove(&epoch).map(|measured| now.after(measured.requested))
    }

    /// The tasks start again: none of the pending checkpoints will be committed.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Measured {
    fn passed(&mut self, process: Process, passage: &Passage) {
        let Passage { task, due_ns, entered_ns, taken_ns, begun_ns, written_ns, .. } = *passage;
        self.taken = self.taken.max(Duration::from_nanos(taken_ns));
        self.cut = self.cut.max(due_ns.map(|_| Duration::from_nanos(entered_ns)));
        for (phase, from, to) in [
            (TaskPhase::Request, due_ns.unwrap_or(entered_ns), entered_ns),
            (TaskPhase::Alignment, entered_ns, taken_ns),
            (TaskPhase::Write, begun_ns, written_ns),
        ] {
            let took = Duration::from_nanos(to.saturating_sub(from));
            if self.slowest.is_none_or(|known| known.took < took) {
                self.slowest = Some(Slowest { task, process, phase, took });
            }
        }
    }

    /// If no source has measured anything, the time before the last acknowledgement cannot be divided.
    fn phases(&self, now: Nanos) -> Option<Phases> {
        let (cut, slowest, acknowledged) = (self.cut?, self.slowest?, self.acknowledged?);
        let all = acknowledged.after(self.requested);
        let cut = cut.min(all);
        let taken = self.taken.min(all).max(cut);
        let (alignment, write) = (taken - cut, all - taken);
        Some(Phases { request: cut, alignment, write, commit: now.after(acknowledged), slowest })
    }
}

#[cfg(test)]
mod tests;

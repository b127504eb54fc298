//! A job on one thread: its tasks do a step when the caller says so, and nothing happens in between.
//!
//! This is how a simulation drives a job. The tasks, channels, snapshots and the recorder are those that threads drive; only
//! who waits for what is different. A full channel does not stop a step, but the next one of its sender.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use anabranch_dataflow::Plan;
use anabranch_model::{Clock, Error, Result, TaskMetrics};
use anabranch_operators::Connectors;
use anabranch_state::TaskState;

use crate::TakenOver;
use crate::control::Control;
use crate::inbox_task::Step;
use crate::job::{Parts, Task, TaskView, build};
use crate::recorder::Recorder;
use crate::snapshot::Snapshot;

/// A bug that is put in on purpose, to see that a simulation finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The first acknowledgement of a checkpoint counts for every task.
    CommitBeforeAllAcknowledged,
    /// On a channel, a marker passes the rows in front of it.
    MarkerOvertakes,
    /// A change of an operator's state is not written.
    DeltaLost,
    /// A change of an operator's state is written twice.
    DeltaTwice,
}

/// A job whose tasks are stepped.
pub struct SteppedJob {
    control: Arc<Control>,
    clock: Arc<dyn Clock>,
    views: Vec<TaskView>,
    /// `None` when a task has ended.
    tasks: Vec<Option<Task>>,
    recorder: Option<(Recorder, Receiver<Snapshot>)>,
    /// What the recorder has still to take up. The tasks' channel is emptied after each step: nobody could wait for room in it.
    snapshots: VecDeque<Snapshot>,
    /// Bytes that may wait on a channel when its sender does a step.
    channel_bytes: usize,
    fault: Option<Fault>,
}

impl SteppedJob {
    /// Makes the tasks of a plan; sinks make visible what the checkpoint taken over holds.
    pub fn start(
        plan: &Plan,
        connectors: &Connectors,
        clock: Arc<dyn Clock>,
        taken_over: Option<TakenOver>,
        fault: Option<Fault>,
    ) -> Result<SteppedJob> {
        let mut unbounded = plan.clone();
        unbounded.options.channel_bytes = usize::MAX;
        let Parts { control, tasks, recorder } = build(&unbounded, connectors, &clock, taken_over)?;
        let (views, tasks) = tasks.into_iter().map(|(view, task)| (view, Some(task))).unzip();
        let channel_bytes = plan.options.channel_bytes;
        let snapshots = VecDeque::new();
        Ok(SteppedJob { control, clock, views, tasks, recorder, snapshots, channel_bytes, fault })
    }

    /// Number of tasks, those that have ended included.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Number of channels into the main input of a task; 0 if it reads a source or has ended.
    #[must_use]
    pub fn channels(&self, task: usize) -> usize {
        match &self.tasks[task] {
            Some(Task::Inbox(task)) => task.channels(),
            _ => 0,
        }
    }

    /// One step of a task: it polls its source once, or takes the next envelope of this channel. False if it did nothing,
    /// because it has ended or has no room downstream. An error is the job's failure.
    pub fn step(&mut self, task: usize, channel: usize) -> bool {
        let Some(running) = &mut self.tasks[task] else { return false };
        if running.parts().chain.queued_bytes() > self.channel_bytes {
            return false;
        }
        let stepped = match running {
            Task::Source(source) => source.step(),
            Task::Inbox(inbox) => {
                if self.fault == Some(Fault::MarkerOvertakes) {
                    inbox.inbox().let_marker_overtake(channel);
                }
                inbox.step(channel)
            }
        };
        self.snapshots.extend(self.recorder.iter().flat_map(|(_, sent)| sent.try_iter()));
        match stepped {
            Ok(Step::Goes) => return true,
            Ok(Step::Ended) => {}
            Err(error) => {
                let TaskView { id, stage_name, .. } = &self.views[task];
                self.control.fail(error.at(format!("{id} ({stage_name})")));
            }
        }
        self.tasks[task] = None;
        self.control.task_ended();
        true
    }

    /// The recorder takes up the next snapshot, and commits what is complete by it. False if there was none.
    pub fn record(&mut self) -> bool {
        let Some((recorder, _)) = &mut self.recorder else { return false };
        let Some(mut snapshot) = self.snapshots.pop_front() else { return false };
        spoil(&mut snapshot, self.fault);
        let epoch = snapshot.epoch;
        let recorded = recorder.record(snapshot).and_then(|state| {
            if self.fault == Some(Fault::CommitBeforeAllAcknowledged) {
                for view in self.views.iter().filter(|view| view.id != state.task) {
                    let nothing =
                        TaskState { task: view.id, finished: false, source: None, operators: vec![], sink: None };
                    recorder.acknowledge(epoch, nothing, &self.control)?;
                }
            }
            recorder.acknowledge(epoch, state, &self.control)
        });
        if let Err(error) = recorded {
            self.control.fail(error.at("checkpoint"));
        }
        true
    }

    /// Gives up a checkpoint that takes too long.
    pub fn look(&self) {
        self.control.look_at_checkpoint();
    }

    /// Asks the job to stop at the end of an epoch.
    pub fn stop(&self) {
        self.control.tell(anabranch_protocol::Input::Stop);
    }

    /// Whether the job has ended: all is done and recorded, or it has failed. Then there may still be snapshots to record.
    #[must_use]
    pub fn outcome(&self) -> Option<Result<()>> {
        if self.control.is_cancelled() {
            return Some(Err(self.control.take_failure().unwrap_or_else(|| Error::internal("the failure was taken"))));
        }
        (self.tasks.iter().all(Option::is_none) && self.snapshots.is_empty()).then_some(Ok(()))
    }

    /// A reading of every task, in order of stages.
    #[must_use]
    pub fn metrics(&self) -> Vec<TaskMetrics> {
        let now = self.clock.now();
        self.views.iter().map(|view| view.metrics(now)).collect()
    }
}

/// Changes a snapshot as a bug would.
fn spoil(snapshot: &mut Snapshot, fault: Option<Fault>) {
    for (_, _, change) in &mut snapshot.operators {
        match fault {
            // All of a state at once is not a change.
            Some(Fault::DeltaLost) if !change.complete => change.rows.clear(),
            Some(Fault::DeltaTwice) => change.rows.extend(change.rows.clone()),
            _ => {}
        }
    }
}

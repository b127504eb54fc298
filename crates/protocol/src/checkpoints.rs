//! Checkpoints: one at a time, at the end of a group of epochs, complete when every task has acknowledged it.
//!
//! | state | input | next | command |
//! |---|---|---|---|
//! | idle | a group is granted and the interval has passed | pending | the group's last epoch is a checkpoint |
//! | pending | a task acknowledges, others have not | pending | - |
//! | pending | the last task acknowledges | committing | commit |
//! | committing | committed | idle | checkpoint done |
//! | committing | commit failed | idle | - ; fail, when too many failed in a row |
//! | pending | no acknowledgement of all in time | idle | - ; fail, when too many failed in a row |
//! | idle, pending | the last task has finished | committing | commit, with every task's last snapshot |
//!
//! A task that has finished acknowledges once, with the snapshot that stands for it in every later checkpoint. The last
//! checkpoint of a job consists of such snapshots only; its epoch is the latest that a task ended with.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::{Epoch, Nanos, TaskId};

/// How often, and how patiently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointConfig {
    /// Time between the beginnings of two checkpoints, in nanoseconds; they begin with groups, so it may be longer.
    pub interval_ns: u64,
    /// Time that a checkpoint may take from its grant to its last acknowledgement, in nanoseconds.
    pub timeout_ns: u64,
    /// Failures in a row that the job bears.
    pub failures_tolerated: u32,
}

/// What the machine wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointCommand<S> {
    /// Every task has acknowledged: make it durable, once, and say how that went.
    Commit {
        /// The checkpoint's epoch.
        epoch: Epoch,
        /// Each task's snapshot.
        tasks: BTreeMap<TaskId, S>,
    },
    /// The checkpoint is durable.
    Done(Epoch),
    /// Too many failures in a row.
    Fail,
}

/// The checkpoints of one incarnation of a job. `S` is what an acknowledgement carries.
#[derive(Debug)]
pub struct Checkpoints<S> {
    config: CheckpointConfig,
    tasks: BTreeSet<TaskId>,
    finished: BTreeMap<TaskId, (Epoch, S)>,
    state: State<S>,
    last_begun: Nanos,
    last_done: Epoch,
    failures: u32,
}

#[derive(Debug)]
enum State<S> {
    Idle,
    Pending { epoch: Epoch, begun: Nanos, acknowledged: BTreeMap<TaskId, S> },
    Committing { epoch: Epoch },
}

impl<S: Clone> Checkpoints<S> {
    /// For these tasks, which go on behind the epoch `after`.
    pub fn new(config: CheckpointConfig, tasks: impl IntoIterator<Item = TaskId>, after: Epoch, now: Nanos) -> Self {
        Checkpoints {
            config,
            tasks: tasks.into_iter().collect(),
            finished: BTreeMap::new(),
            state: State::Idle,
            last_begun: now,
            last_done: after,
            failures: 0,
        }
    }

    /// Whether the group that is granted now shall end with a checkpoint; if so, it is pending from now on.
    pub fn begin(&mut self, last_of_group: Epoch, now: Nanos) -> bool {
        let due = now.since(self.last_begun) >= self.config.interval_ns;
        if !due || !matches!(self.state, State::Idle) {
            return false;
        }
        self.last_begun = now;
        self.state = State::Pending { epoch: last_of_group, begun: now, acknowledged: BTreeMap::new() };
        true
    }

    /// A task has taken and stored its snapshot at the end of `epoch`.
    pub fn acknowledge(
        &mut self,
        task: TaskId,
        epoch: Epoch,
        finished: bool,
        snapshot: S,
    ) -> Option<CheckpointCommand<S>> {
        if !self.tasks.contains(&task) {
            return None;
        }
        if finished {
            self.finished.entry(task).or_insert((epoch, snapshot));
        } else if let State::Pending { epoch: pending, acknowledged, .. } = &mut self.state
            && *pending == epoch
        {
            acknowledged.insert(task, snapshot);
        }
        self.commit_if_complete()
    }

    fn commit_if_complete(&mut self) -> Option<CheckpointCommand<S>> {
        let last = self.finished.values().map(|(epoch, _)| *epoch).max();
        let (epoch, mut tasks) = match &mut self.state {
            State::Committing { .. } => return None,
            // All have finished: nobody will come to the pending epoch, if it lies ahead.
            _ if self.finished.len() == self.tasks.len() => (last?, BTreeMap::new()),
            State::Idle => return None,
            State::Pending { epoch, acknowledged, .. } => {
                let known = |task: &TaskId| {
                    acknowledged.contains_key(task) || self.finished.get(task).is_some_and(|(last, _)| last <= epoch)
                };
                if !self.tasks.iter().all(known) {
                    return None;
                }
                (*epoch, std::mem::take(acknowledged))
            }
        };
        if epoch <= self.last_done {
            return None;
        }
        for (task, (_, snapshot)) in &self.finished {
            tasks.entry(*task).or_insert_with(|| snapshot.clone());
        }
        self.state = State::Committing { epoch };
        Some(CheckpointCommand::Commit { epoch, tasks })
    }

    /// The checkpoint of `epoch` is durable, or could not be made so.
    pub fn committed(&mut self, epoch: Epoch, durable: bool) -> Vec<CheckpointCommand<S>> {
        if !matches!(self.state, State::Committing { epoch: committing } if committing == epoch) {
            return Vec::new();
        }
        self.state = State::Idle;
        let mut commands = Vec::new();
        match durable {
            true => {
                self.failures = 0;
                self.last_done = epoch;
                commands.push(CheckpointCommand::Done(epoch));
            }
            false => commands.extend(self.failed()),
        }
        // Meanwhile the last task may have finished.
        commands.extend(self.commit_if_complete());
        commands
    }

    /// Gives up a checkpoint that takes too long.
    pub fn look(&mut self, now: Nanos) -> Option<CheckpointCommand<S>> {
        match self.state {
            State::Pending { begun, .. } if now.since(begun) >= self.config.timeout_ns => {
                self.state = State::Idle;
                self.failed()
            }
            _ => None,
        }
    }

    fn failed(&mut self) -> Option<CheckpointCommand<S>> {
        self.failures += 1;
        (self.failures > self.config.failures_tolerated).then_some(CheckpointCommand::Fail)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::StageId;

    use super::*;

    fn task(index: u32) -> TaskId {
        TaskId { stage: StageId(0), index }
    }

    fn new() -> Checkpoints<u32> {
        let config = CheckpointConfig { interval_ns: 10, timeout_ns: 100, failures_tolerated: 1 };
        Checkpoints::new(config, [task(0), task(1)], Epoch(0), Nanos(0))
    }

    fn commit(epoch: u64, snapshots: [u32; 2]) -> CheckpointCommand<u32> {
        let tasks = snapshots.into_iter().enumerate().map(|(index, s)| (task(index as u32), s)).collect();
        CheckpointCommand::Commit { epoch: Epoch(epoch), tasks }
    }

    #[test]
    fn all_tasks_acknowledge_before_a_commit_and_one_is_under_way_at_a_time() {
        let mut checkpoints = new();
        assert!(!checkpoints.begin(Epoch(5), Nanos(9)), "the interval has not passed");
        assert!(checkpoints.begin(Epoch(5), Nanos(10)));
        assert!(!checkpoints.begin(Epoch(10), Nanos(30)), "one is pending");
        assert_eq!(checkpoints.acknowledge(task(0), Epoch(4), false, 1), None, "another epoch");
        assert_eq!(checkpoints.acknowledge(task(0), Epoch(5), false, 2), None);
        assert_eq!(checkpoints.acknowledge(task(0), Epoch(5), false, 2), None, "told twice");
        assert_eq!(checkpoints.acknowledge(task(9), Epoch(5), false, 2), None, "unknown task");
        assert_eq!(checkpoints.acknowledge(task(1), Epoch(5), false, 3), Some(commit(5, [2, 3])));
        assert!(!checkpoints.begin(Epoch(10), Nanos(30)), "one is being committed");
        assert_eq!(checkpoints.acknowledge(task(1), Epoch(5), false, 3), None, "late");
        assert_eq!(checkpoints.committed(Epoch(4), true), []);
        assert_eq!(checkpoints.committed(Epoch(5), true), [CheckpointCommand::Done(Epoch(5))]);
        assert_eq!(checkpoints.committed(Epoch(5), true), []);
        assert!(checkpoints.begin(Epoch(20), Nanos(31)));
    }

    #[test]
    fn finished_tasks_count_with_their_last_snapshot_and_make_the_last_checkpoint() {
        let mut checkpoints = new();
        assert_eq!(checkpoints.acknowledge(task(0), Epoch(3), true, 7), None);
        assert!(checkpoints.begin(Epoch(5), Nanos(10)));
        assert_eq!(checkpoints.acknowledge(task(1), Epoch(5), false, 8), Some(commit(5, [7, 8])));
        assert_eq!(checkpoints.acknowledge(task(1), Epoch(6), true, 9), None, "one is being committed");
        let commands = checkpoints.committed(Epoch(5), true);
        assert_eq!(commands, [CheckpointCommand::Done(Epoch(5)), commit(6, [7, 9])]);
        assert_eq!(checkpoints.committed(Epoch(6), true), [CheckpointCommand::Done(Epoch(6))]);
        assert!(checkpoints.commit_if_complete().is_none(), "there is nothing left to commit");
    }

    #[test]
    fn failures_are_borne_up_to_a_number_in_a_row() {
        let mut checkpoints = new();
        let mut now = 0;
        let mut fail = |checkpoints: &mut Checkpoints<u32>, by_time: bool| {
            now += 1000;
            assert!(checkpoints.begin(Epoch(now), Nanos(now)));
            if by_time {
                assert_eq!(checkpoints.look(Nanos(now + 99)), None);
                return checkpoints.look(Nanos(now + 100));
            }
            checkpoints.acknowledge(task(0), Epoch(now), false, 1);
            assert!(checkpoints.acknowledge(task(1), Epoch(now), false, 1).is_some());
            checkpoints.committed(Epoch(now), false).pop()
        };
        assert_eq!(fail(&mut checkpoints, true), None);
        assert_eq!(fail(&mut checkpoints, false), Some(CheckpointCommand::Fail));
    }
}

//! Grants of groups of epochs (Drizzle's group scheduling), and the stop of a job at an epoch boundary.
//!
//! Sources may cut epochs only as far as they were granted, and are granted the next group when all of them are in
//! the second half of the last one, so that in steady state none ever waits. A source that has used up its grant
//! goes on reading in its last epoch; it only cuts later.
//!
//! | state | input | next | command |
//! |---|---|---|---|
//! | running | every live source has cut half of the group | running | grant the next group |
//! | running | stop | stopping | stop after the epoch that follows on the last one granted: some sources are in it |
//! | any | the slowest sink ended a later epoch | same | epoch done |
//! | any | the last sink finished | same | every epoch is done |
//! | any | rows are dropped | same | none is done any more |

use std::collections::{BTreeMap, VecDeque};

use anabranch_model::{Epoch, Group, TaskId};

/// What the driver tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A source cut this epoch.
    EpochCut(TaskId, Epoch),
    /// A sink handed over everything up to the end of this epoch.
    EpochEnded(TaskId, Epoch),
    /// A source has cut its last epoch: it no longer takes grants.
    SourceFinished(TaskId),
    /// A sink has handed over everything that it will ever get.
    SinkFinished(TaskId),
    /// A task drops rows that it cannot process, because the job stops: from here on nothing is done.
    Dropped,
    /// The job shall stop.
    Stop,
}

/// What the driver shall do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Sources may cut the epochs of this group, which follows on the last one granted.
    Grant(Group),
    /// Sources cut at once up to the end of this epoch, and end there.
    StopAfter(Epoch),
    /// Every sink has handed over everything up to the end of this epoch.
    EpochDone(Epoch),
    /// No later epoch will be done.
    NoneDone,
}

/// The granting side of a coordinator.
#[derive(Debug)]
pub struct Grants {
    group_epochs: u64,
    granted: Epoch,
    /// Last epoch cut by each source that still runs.
    sources: BTreeMap<TaskId, Epoch>,
    /// Last epoch ended by each sink.
    sinks: BTreeMap<TaskId, Epoch>,
    done: Epoch,
    dropped: bool,
    stopping: bool,
    commands: VecDeque<Command>,
}

impl Grants {
    /// Grants for these source and sink tasks in groups of `group_epochs`, of epochs that follow on `after`; the first group
    /// is granted at once.
    pub fn new(
        sources: impl IntoIterator<Item = TaskId>,
        sinks: impl IntoIterator<Item = TaskId>,
        group_epochs: u64,
        after: Epoch,
    ) -> Self {
        let mut grants = Grants {
            group_epochs: group_epochs.max(1),
            granted: after,
            sources: sources.into_iter().map(|task| (task, after)).collect(),
            sinks: sinks.into_iter().map(|task| (task, after)).collect(),
            done: after,
            dropped: false,
            stopping: false,
            commands: VecDeque::new(),
        };
        grants.grant();
        grants
    }

    /// Takes a message in; what follows from it is then in [`Grants::poll`]. Old messages change nothing.
    pub fn handle(&mut self, input: Input) {
        match input {
            Input::EpochCut(task, epoch) => {
                if let Some(cut) = self.sources.get_mut(&task) {
                    *cut = epoch.max(*cut);
                }
                self.grant_if_due();
            }
            Input::SourceFinished(task) => {
                self.sources.remove(&task);
                self.grant_if_due();
            }
            Input::EpochEnded(task, epoch) => self.epoch_ended(task, epoch),
            Input::SinkFinished(task) => self.epoch_ended(task, Epoch(u64::MAX)),
            Input::Dropped => {
                if !std::mem::replace(&mut self.dropped, true) {
                    self.commands.push_back(Command::NoneDone);
                }
            }
            Input::Stop => {
                if !self.stopping {
                    self.stopping = true;
                    self.commands.push_back(Command::StopAfter(self.granted.next()));
                }
            }
        }
    }

    /// The next command, if any.
    pub fn poll(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    fn epoch_ended(&mut self, task: TaskId, epoch: Epoch) {
        if let Some(ended) = self.sinks.get_mut(&task) {
            *ended = epoch.max(*ended);
        }
        let done = self.sinks.values().copied().min().unwrap_or(self.done);
        if done > self.done && !self.dropped {
            self.done = done;
            self.commands.push_back(Command::EpochDone(done));
        }
    }

    fn grant_if_due(&mut self) {
        let Some(slowest) = self.sources.values().min() else { return };
        if !self.stopping && slowest.0 + self.group_epochs.div_ceil(2) >= self.granted.0 {
            self.grant();
        }
    }

    fn grant(&mut self) {
        let group = Group { first: self.granted.next(), last: Epoch(self.granted.0 + self.group_epochs) };
        self.granted = group.last;
        self.commands.push_back(Command::Grant(group));
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::{Rng, StageId};

    use super::*;

    fn task(index: u32) -> TaskId {
        TaskId { stage: StageId(0), index }
    }

    fn drain(grants: &mut Grants) -> Vec<Command> {
        std::iter::from_fn(|| grants.poll()).collect()
    }

    #[test]
    fn the_next_group_is_granted_once_and_before_the_last_one_ends() {
        let mut grants = Grants::new([task(0), task(1)], [task(2)], 4, Epoch(0));
        assert_eq!(drain(&mut grants), [Command::Grant(Group { first: Epoch(1), last: Epoch(4) })]);
        grants.handle(Input::EpochCut(task(0), Epoch(3)));
        grants.handle(Input::EpochCut(task(1), Epoch(1)));
        assert_eq!(drain(&mut grants), []);
        grants.handle(Input::EpochCut(task(1), Epoch(2)));
        assert_eq!(drain(&mut grants), [Command::Grant(Group { first: Epoch(5), last: Epoch(8) })]);
        grants.handle(Input::EpochCut(task(1), Epoch(2)));
        assert_eq!(drain(&mut grants), []);
    }

    #[test]
    fn all_sources_stop_after_the_same_epoch_and_nothing_is_granted_beyond() {
        let mut grants = Grants::new([task(0), task(1)], [task(2)], 10, Epoch(0));
        drain(&mut grants);
        grants.handle(Input::Stop);
        grants.handle(Input::Stop);
        grants.handle(Input::EpochCut(task(0), Epoch(9)));
        grants.handle(Input::EpochCut(task(1), Epoch(9)));
        assert_eq!(drain(&mut grants), [Command::StopAfter(Epoch(11))]);
    }

    #[test]
    fn nothing_is_done_after_rows_were_dropped() {
        let mut grants = Grants::new([task(0)], [task(1)], 10, Epoch(0));
        drain(&mut grants);
        grants.handle(Input::EpochEnded(task(1), Epoch(1)));
        grants.handle(Input::Dropped);
        grants.handle(Input::EpochEnded(task(1), Epoch(2)));
        grants.handle(Input::Dropped);
        grants.handle(Input::SinkFinished(task(1)));
        assert_eq!(drain(&mut grants), [Command::EpochDone(Epoch(1)), Command::NoneDone]);
    }

    #[test]
    fn groups_follow_on_each_other_and_done_only_grows_under_any_order_of_messages() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut grants = Grants::new((0..3).map(task), (3..5).map(task), 1 + rng.below(8), Epoch(0));
            let (mut last, mut done) = (Epoch(0), Epoch(0));
            let mut cut = [0_u64; 3];
            let mut ended = [0_u64; 2];
            for _ in 0..500 {
                let source = rng.below(3) as usize;
                if cut[source] < last.0 {
                    cut[source] += 1;
                }
                let sink = rng.below(2) as usize;
                if ended[sink] < cut.iter().copied().min().unwrap_or(0) {
                    ended[sink] += 1;
                }
                // Messages may be repeated and may be older than what was said before.
                let stale = rng.below(2);
                grants.handle(Input::EpochCut(task(source as u32), Epoch(cut[source].saturating_sub(stale))));
                grants.handle(Input::EpochEnded(task(3 + sink as u32), Epoch(ended[sink].saturating_sub(stale))));
                for command in drain(&mut grants) {
                    match command {
                        Command::Grant(group) => {
                            assert_eq!(group.first, last.next(), "seed {seed}");
                            last = group.last;
                        }
                        Command::EpochDone(epoch) => {
                            assert!(epoch > done && epoch.0 <= ended[0].min(ended[1]), "seed {seed}");
                            done = epoch;
                        }
                        Command::StopAfter(_) | Command::NoneDone => unreachable!("nobody asked"),
                    }
                }
            }
            assert!(last.0 > 20 && done.0 > 5, "seed {seed} makes progress");
        }
    }
}

//! The truth about a run, which no process in it knows, and the checks against it.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::{Epoch, Group, Incarnation, PlanVersion, TaskId};
use anabranch_protocol::coordinator::{Checkpoint, Entry, Owner};
use anabranch_protocol::membership::Process;

use crate::Checked;
use crate::scenario::Scenario;
use crate::task::End;

/// A checkpoint's name.
pub(crate) type CheckpointId = (Incarnation, Epoch);

/// The true state of a run.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    /// Entries of the log as first written.
    log: BTreeMap<u64, Entry<End>>,
    /// The job has ended, and its log records that.
    ended: Option<Incarnation>,
    /// Incarnations in the log, each with the version of its plan and the newest checkpoint before it.
    begun: BTreeMap<Incarnation, (PlanVersion, Option<CheckpointId>)>,
    /// Committed checkpoints.
    checkpoints: BTreeMap<CheckpointId, Checkpoint<End>>,
    /// Those whose files may be deleted.
    pub(crate) forgotten: BTreeSet<CheckpointId>,
    /// The epochs that each task has ended.
    ends: BTreeMap<(Incarnation, TaskId), BTreeMap<Epoch, End>>,
    /// Granted epochs of each incarnation, and whether each ends with a checkpoint. A coordinator that does
    /// not know yet that it is fenced may grant otherwise than its successor.
    granted: BTreeMap<(Incarnation, Epoch), BTreeSet<bool>>,
    /// Whether the marker of an epoch requests a snapshot: at all sources the same.
    markers: BTreeMap<(Incarnation, Epoch), bool>,
    /// Who has the job.
    owner: Option<Owner>,
    /// Processes with tasks of an incarnation that its coordinator has declared lost.
    lost: BTreeSet<(Incarnation, Process)>,
    /// The newest checkpoint that each sink has made visible.
    shown: BTreeMap<TaskId, Epoch>,
}

impl Truth {
    /// A coordinator grants a group.
    pub(crate) fn grants(&mut self, incarnation: Incarnation, group: Group, checkpoint: bool) {
        for epoch in (group.first.0..=group.last.0).map(Epoch) {
            self.granted.entry((incarnation, epoch)).or_default().insert(checkpoint && epoch == group.last);
        }
    }

    /// A coordinator has declared a process of an incarnation lost. It counts if no other has the job.
    pub(crate) fn loses(&mut self, owner: Owner, incarnation: Incarnation, process: Process) {
        if self.owner == Some(owner) {
            self.lost.insert((incarnation, process));
        }
    }

    /// A task does something: its process is not lost, so that another one may have its work.
    pub(crate) fn acts(&self, incarnation: Incarnation, process: Process, task: TaskId) -> Checked {
        match self.lost.contains(&(incarnation, process)) {
            false => Ok(()),
            true => Err(("lease", format!("{task} of incarnation {} acts in lost {process:?}", incarnation.0))),
        }
    }

    /// What a task has ended by this epoch, if that is this epoch or its last one.
    pub(crate) fn end_by(&self, incarnation: Incarnation, task: TaskId, epoch: Epoch) -> Option<End> {
        let (_, end) = self.ends.get(&(incarnation, task))?.range(..=epoch).next_back()?;
        (end.epoch == epoch || end.closes).then_some(*end)
    }

    /// A task ends an epoch.
    pub(crate) fn ends(&mut self, end: End, scenario: &Scenario) -> Checked {
        let End { incarnation, task, epoch, snapshot, closes, .. } = end;
        if let Some(records) = scenario.records(task) {
            let granted = self.granted.get(&(incarnation, epoch));
            let wrong = |said: String| Err(("grant", format!("{task} ends {end:?}, but {said}")));
            if !closes {
                let others = *self.markers.entry((incarnation, epoch)).or_insert(snapshot);
                if others != snapshot || !granted.is_some_and(|granted| granted.contains(&snapshot)) {
                    return wrong(format!("the grant says {granted:?}, and another source {others}"));
                }
            }
            // Only a source without further records may do so.
            if closes && end.position < records && granted.is_none() {
                return wrong("the epoch was not granted".into());
            }
        }
        match self.ends.entry((incarnation, task)).or_default().insert(epoch, end) {
            None => Ok(()),
            Some(_) => Err(("fencing", format!("{task} ran twice in incarnation {} ({epoch})", incarnation.0))),
        }
    }

    /// The newest incarnation in the log, and the version of its plan.
    fn newest(&self) -> (Incarnation, PlanVersion) {
        let begun = self.begun.last_key_value().map(|(incarnation, (version, _))| (*incarnation, *version));
        begun.unwrap_or((Incarnation(0), PlanVersion(1)))
    }

    /// An entry was written to the log.
    pub(crate) fn logged(&mut self, sequence: u64, entry: &Entry<End>, scenario: &Scenario) -> Checked {
        if let Some(first) = self.log.get(&sequence) {
            return match first == entry {
                true => Ok(()),
                false => Err(("commit", format!("entry {sequence} was written twice: {first:?}, then {entry:?}"))),
            };
        }
        if self.log.last_key_value().is_some_and(|(last, _)| *last > sequence) {
            return Err(("commit", format!("entry {sequence} came after later ones: {entry:?}")));
        }
        self.log.insert(sequence, entry.clone());
        if self.ended.is_some() {
            return Err(("ended", format!("after the job had ended came {entry:?}")));
        }
        let (newest, version) = self.newest();
        if entry.incarnation() < newest {
            return Err(("fencing", format!("after incarnation {} came {entry:?}", newest.0)));
        }
        match entry {
            Entry::Begins(_, _, next) if *next < version => {
                Err(("change", format!("version {} begins after version {}", next.0, version.0)))
            }
            Entry::Begins(incarnation, ..) if *incarnation == newest => {
                Err(("fencing", format!("incarnation {} began twice", incarnation.0)))
            }
            Entry::Begins(incarnation, owner, version) => {
                self.owner = Some(*owner);
                self.begun.insert(*incarnation, (*version, self.checkpoints.keys().next_back().copied()));
                Ok(())
            }
            Entry::Adopts(incarnation, _) if *incarnation != newest => {
                Err(("fencing", format!("incarnation {} is adopted after {}", incarnation.0, newest.0)))
            }
            Entry::Adopts(_, owner) => {
                // What the coordinator before has declared lost goes on, if its successor finds it.
                self.owner = Some(*owner);
                self.lost.clear();
                Ok(())
            }
            Entry::Checkpoint(checkpoint) => self.commits(checkpoint, scenario),
            Entry::Ended(incarnation) => {
                self.ended = Some(*incarnation);
                self.finished(*incarnation, false, scenario)
            }
            Entry::Unusable(_) => Err(("commit", "an entry was written that is never written".into())),
        }
    }

    /// A checkpoint is committed: it has what each task took at its epoch, or at the task's last one before.
    fn commits(&mut self, checkpoint: &Checkpoint<End>, scenario: &Scenario) -> Checked {
        let Checkpoint { epoch, incarnation, version, tasks } = checkpoint;
        let (_, present) = self.newest();
        if *version != present {
            return Err(("change", format!("{epoch} is committed by version {}, not {}", version.0, present.0)));
        }
        if self.checkpoints.keys().any(|(_, committed)| committed >= epoch) {
            return Err(("commit", format!("{epoch} is committed again or after a later one")));
        }
        for task in scenario.tasks(*version).all {
            let end = self.end_by(*incarnation, task, *epoch).filter(|end| end.snapshot || end.closes);
            if end.is_none() || tasks.get(&task) != end.as_ref() {
                let has = tasks.get(&task);
                return Err(("commit", format!("{epoch} is committed with {has:?} of {task}, which has {end:?}")));
            }
        }
        self.checkpoints.insert((*incarnation, *epoch), checkpoint.clone());
        Ok(())
    }

    /// A task restores a checkpoint. Returns whether its files are there, as they must be: of an old
    /// incarnation they may have been deleted since.
    pub(crate) fn restores(&self, incarnation: Incarnation, from: Option<CheckpointId>) -> Checked<bool> {
        let newest = self.begun.get(&incarnation).and_then(|(_, newest)| *newest);
        if from != newest {
            let text = format!("incarnation {} starts from {from:?}, the newest was {newest:?}", incarnation.0);
            return Err(("restore", text));
        }
        match from.filter(|from| self.forgotten.contains(from)) {
            Some(from) if incarnation >= self.newest().0 => {
                Err(("restore", format!("incarnation {} needs {from:?}, whose files are gone", incarnation.0)))
            }
            gone => Ok(gone.is_none()),
        }
    }

    /// A sink has made visible what a checkpoint contains.
    pub(crate) fn shows(&mut self, sink: TaskId, checkpoint: CheckpointId) -> Checked {
        if !self.checkpoints.contains_key(&checkpoint) {
            return Err(("prefix", format!("{sink} shows {checkpoint:?}, which is not committed")));
        }
        let shown = self.shown.entry(sink).or_insert(checkpoint.1);
        *shown = checkpoint.1.max(*shown);
        Ok(())
    }

    /// An incarnation has ended the job: what its last checkpoint contains is visible at every sink, and if
    /// the job was not stopped, it contains everything. (A stopped job may be resumed by a coordinator that
    /// has not received the stop.)
    pub(crate) fn finished(&self, incarnation: Incarnation, stopped: bool, scenario: &Scenario) -> Checked {
        // If the job had ended before, the incarnation that ended it.
        let incarnation = self.ended.filter(|_| incarnation == Incarnation(0)).unwrap_or(incarnation);
        let mut own = self.checkpoints.range((incarnation, Epoch(0))..=(incarnation, Epoch(u64::MAX)));
        let Some((_, Checkpoint { tasks, .. })) = own.next_back() else {
            return Err(("prefix", format!("incarnation {} ended without a checkpoint", incarnation.0)));
        };
        for (task, end) in tasks {
            let unread = scenario.records(*task).is_some_and(|records| end.position < records);
            let hidden = task.stage.0 == 2 && self.shown.get(task).is_none_or(|shown| *shown < end.epoch);
            if hidden || (unread && !stopped) {
                return Err(("prefix", format!("the job has ended with {end:?}: hidden {hidden}, unread {unread}")));
            }
        }
        Ok(())
    }
}

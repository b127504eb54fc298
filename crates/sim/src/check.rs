//! The truth about a run, which no process in it knows, and the checks against it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anabranch_model::{Epoch, Group, Incarnation, Nanos, PlanVersion, StageId, TaskId};
use anabranch_protocol::coordinator::{Checkpoint, Entry, Owner};
use anabranch_protocol::membership::{Member, Process};

use crate::event::Handle;
use crate::scenario::Scenario;
use crate::store::Store;
use crate::task::Marker;

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its name: `prefix`, `commit`, `fencing`, `progress`, `restore`, `request`, `ended`, `grant`, `lease`,
    /// `placement`.
    pub invariant: &'static str,
    /// What was wrong.
    pub message: String,
    /// When, in virtual time.
    pub at: Nanos,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} violated at {} us: {}", self.invariant, self.at.0 / 1000, self.message)
    }
}

type Acknowledgements = BTreeMap<Epoch, (Handle, bool)>;

/// The true state of a run.
#[derive(Debug)]
pub(crate) struct Truth {
    /// Entries of the log as first written.
    log: BTreeMap<u64, Entry<Handle>>,
    /// The job has ended, and its log records that.
    ended: Option<Incarnation>,
    /// The newest incarnation in the log.
    pub(crate) newest: Incarnation,
    /// The version of its plan.
    version: PlanVersion,
    committed: BTreeSet<Epoch>,
    /// Positions of the sources at each committed checkpoint.
    positions: BTreeMap<(Incarnation, Epoch), Vec<usize>>,
    cuts: BTreeMap<(Incarnation, TaskId), BTreeMap<Epoch, usize>>,
    /// Granted epochs of each incarnation, and whether each ends with a checkpoint. A coordinator that does
    /// not know yet that it is fenced may grant otherwise than its successor.
    granted: BTreeMap<(Incarnation, Epoch), BTreeSet<bool>>,
    /// Whether the marker of an epoch requests a snapshot: at all sources the same.
    markers: BTreeMap<(Incarnation, Epoch), bool>,
    /// Who has the job.
    owner: Option<Owner>,
    /// Processes with tasks of an incarnation that its coordinator has declared lost.
    lost: BTreeSet<(Incarnation, Process)>,
    acknowledged: BTreeMap<(Incarnation, TaskId), Acknowledgements>,
    /// The newest checkpoint that each sink has made visible.
    shown: BTreeMap<u32, Epoch>,
}

type Checked = Result<(), (&'static str, String)>;

impl Truth {
    pub(crate) fn new() -> Self {
        Truth {
            version: PlanVersion(1),
            log: BTreeMap::new(),
            ended: None,
            newest: Incarnation(0),
            committed: BTreeSet::new(),
            positions: BTreeMap::new(),
            cuts: BTreeMap::new(),
            granted: BTreeMap::new(),
            markers: BTreeMap::new(),
            owner: None,
            lost: BTreeSet::new(),
            acknowledged: BTreeMap::new(),
            shown: BTreeMap::new(),
        }
    }

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

    /// A source cuts an epoch. Only one that is `at_end` may do so without a grant.
    pub(crate) fn cut(
        &mut self,
        incarnation: Incarnation,
        source: TaskId,
        marker: Marker,
        (position, at_end): (usize, bool),
    ) -> Checked {
        let epoch = marker.epoch;
        let granted = self.granted.get(&(incarnation, epoch));
        if !marker.closes {
            let others = *self.markers.entry((incarnation, epoch)).or_insert(marker.snapshot);
            if others != marker.snapshot || !granted.is_some_and(|granted| granted.contains(&marker.snapshot)) {
                let said = format!("the grant says {granted:?}, and another source {others}");
                return Err(("grant", format!("{source} cuts {marker:?}, but {said}")));
            }
        }
        if marker.closes && !at_end && granted.is_none() {
            return Err(("grant", format!("{source} ends with {epoch}, which was not granted")));
        }
        let before = self.cuts.entry((incarnation, source)).or_default().insert(epoch, position);
        match before {
            None => Ok(()),
            Some(_) => Err(("fencing", format!("{source} ran twice in incarnation {} ({epoch})", incarnation.0))),
        }
    }

    pub(crate) fn acknowledged(
        &mut self,
        incarnation: Incarnation,
        task: TaskId,
        epoch: Epoch,
        snapshot: Handle,
        finished: bool,
    ) {
        self.acknowledged.entry((incarnation, task)).or_default().entry(epoch).or_insert((snapshot, finished));
    }

    /// An entry was written to the log.
    pub(crate) fn logged(
        &mut self,
        sequence: u64,
        entry: &Entry<Handle>,
        scenario: &Scenario,
        store: &Store,
    ) -> Checked {
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
        if entry.incarnation() < self.newest {
            return Err(("fencing", format!("after incarnation {} came {entry:?}", self.newest.0)));
        }
        match entry {
            Entry::Begins(_, _, version) if *version < self.version => {
                Err(("change", format!("version {} begins after version {}", version.0, self.version.0)))
            }
            Entry::Begins(incarnation, owner, version) => {
                (self.owner, self.version) = (Some(*owner), *version);
                if *incarnation == self.newest {
                    return Err(("fencing", format!("incarnation {} began twice", incarnation.0)));
                }
                self.newest = *incarnation;
                Ok(())
            }
            Entry::Adopts(incarnation, _) if *incarnation != self.newest => {
                Err(("fencing", format!("incarnation {} is adopted after {}", incarnation.0, self.newest.0)))
            }
            Entry::Adopts(_, owner) => {
                // What the coordinator before has declared lost goes on, if its successor finds it.
                self.owner = Some(*owner);
                self.lost.clear();
                Ok(())
            }
            Entry::Checkpoint(checkpoint) => self.checkpoint(checkpoint, scenario, store),
            Entry::Ended(incarnation) => {
                self.ended = Some(*incarnation);
                let all: Vec<usize> = scenario.records.iter().map(Vec::len).collect();
                compare(scenario, &all, None, store, "the end that the log speaks of")
            }
            Entry::Unusable(_) => Ok(()),
        }
    }

    fn checkpoint(&mut self, checkpoint: &Checkpoint<Handle>, scenario: &Scenario, store: &Store) -> Checked {
        let Checkpoint { epoch, incarnation, version, tasks } = checkpoint;
        if *version != self.version {
            return Err(("change", format!("{epoch} is committed by version {}, not {}", version.0, self.version.0)));
        }
        if !self.committed.insert(*epoch) || self.committed.last() != Some(epoch) {
            return Err(("commit", format!("{epoch} is committed again or after a later one")));
        }
        for task in scenario.tasks(*version).all {
            let said = self.acknowledged.get(&(*incarnation, task));
            let last = said.and_then(|said| said.range(..=*epoch).next_back());
            let counts = |(at, (_, finished)): &(&Epoch, &(Handle, bool))| *at == epoch || *finished;
            let Some((_, (snapshot, _))) = last.filter(counts) else {
                return Err(("commit", format!("{task} has not acknowledged {epoch}, which is committed")));
            };
            if tasks.get(&task) != Some(snapshot) {
                return Err(("commit", format!("the checkpoint of {epoch} has not what {task} acknowledged")));
            }
            if !matches!(store.objects.get(snapshot), Some(Some(_))) {
                return Err(("commit", format!("the snapshot of {task} at {epoch} is not whole")));
            }
        }
        let position = |source| {
            let cuts = self.cuts.get(&(*incarnation, Scenario::source(source)))?;
            cuts.range(..=*epoch).next_back().map(|(_, position)| *position)
        };
        let positions: Option<Vec<usize>> = (0..scenario.sources).map(position).collect();
        let Some(positions) = positions else {
            return Err(("commit", format!("a source has not cut {epoch}, which is committed")));
        };
        self.positions.insert((*incarnation, *epoch), positions);
        Ok(())
    }

    /// A sink has made visible what a checkpoint contains: its part of the table must be the result of the
    /// inputs up to the cuts.
    pub(crate) fn published(
        &mut self,
        sink: u32,
        checkpoint: (Incarnation, Epoch),
        new_rows: usize,
        scenario: &Scenario,
        store: &Store,
    ) -> Checked {
        let Some(positions) = self.positions.get(&checkpoint) else {
            return Err(("prefix", format!("sink {sink} shows {}, which is not committed", checkpoint.1)));
        };
        let shown = self.shown.entry(sink).or_insert(checkpoint.1);
        if checkpoint.1 < *shown {
            return match new_rows {
                0 => Ok(()),
                _ => Err(("prefix", format!("sink {sink} shows rows of {} after {shown}", checkpoint.1))),
            };
        }
        *shown = checkpoint.1;
        compare(scenario, positions, Some(sink), store, &format!("sink {sink} after {}", checkpoint.1))
    }

    /// An incarnation reports that the job has ended: its last checkpoint is visible at every sink, and if
    /// the job was not stopped, all results are. (A stopped job may be resumed by a coordinator that has not
    /// received the stop.)
    pub(crate) fn finished(
        &self,
        incarnation: Incarnation,
        stopped: bool,
        scenario: &Scenario,
        store: &Store,
    ) -> Checked {
        // If the job had ended before, the incarnation that ended it.
        let incarnation = self.ended.filter(|_| incarnation == Incarnation(0)).unwrap_or(incarnation);
        let last = self.positions.range((incarnation, Epoch(0))..=(incarnation, Epoch(u64::MAX))).next_back();
        let Some(((_, epoch), positions)) = last else {
            return Err(("prefix", format!("incarnation {} ended without a checkpoint", incarnation.0)));
        };
        // A rival may have made more visible already.
        for sink in (0..scenario.sinks).filter(|sink| self.shown.get(sink).is_none_or(|shown| shown <= epoch)) {
            compare(scenario, positions, Some(sink), store, &format!("sink {sink} at the end"))?;
        }
        let all: Vec<usize> = scenario.records.iter().map(Vec::len).collect();
        if stopped { Ok(()) } else { compare(scenario, &all, None, store, "the end") }
    }

    /// Whether an incarnation is certainly over.
    pub(crate) fn is_old(&self, incarnation: Incarnation) -> bool {
        incarnation < self.newest
    }
}

/// A placement uses each slot for at most one task of a stage, and the label that a stage needs.
pub(crate) fn placed(scenario: &Scenario, members: &[Member], placement: &BTreeMap<TaskId, Process>) -> Checked {
    let wrong = |text: String| Err(("placement", text));
    if !placement.keys().eq(scenario.tasks(PlanVersion(1)).all.iter()) {
        return wrong(format!("not every task has one process: {placement:?}"));
    }
    for stage in scenario.stages() {
        let of_stage = placement.iter().filter(|(task, _)| task.stage == stage.id);
        let mut used: BTreeMap<Process, u32> = BTreeMap::new();
        of_stage.for_each(|(_, process)| *used.entry(*process).or_default() += 1);
        for (process, tasks) in used {
            let Some(member) = members.iter().find(|member| member.process == process) else {
                return wrong(format!("{process:?} is no member"));
            };
            if tasks > member.slots || stage.label.as_ref().is_some_and(|label| !member.labels.contains(label)) {
                return wrong(format!("{process:?} does not suit {tasks} tasks of {}", stage.id));
            }
        }
    }
    Ok(())
}

/// Tasks that were nowhere before are spread over the slots beside those of other jobs, unless these have
/// taken all: none would have more room at a worker with a free slot for each stage.
pub(crate) fn spread(scenario: &Scenario, members: &[Member], placement: &BTreeMap<TaskId, Process>) -> Checked {
    let others = scenario.others(members);
    if scenario.labelled_sinks || members.iter().all(|member| others[&member.process] >= member.slots) {
        return Ok(());
    }
    let own = |member: &Member, stage: StageId| {
        let here = |(task, process): &(&TaskId, &Process)| **process == member.process && task.stage == stage;
        placement.iter().filter(here).count() as u32
    };
    let stages = scenario.stages();
    let slots = |member: &Member| stages.iter().map(|stage| own(member, stage.id)).max().unwrap_or(0);
    let taken = |member: &Member| others[&member.process] + slots(member);
    for full in members.iter().filter(|member| slots(member) > 0) {
        for empty in members.iter().filter(|member| slots(member) < member.slots) {
            if taken(full) * empty.slots > (taken(empty) + 1) * full.slots {
                return Err(("placement", format!("{empty:?} had more room than {full:?}: {placement:?}")));
            }
        }
    }
    Ok(())
}

/// Compares the visible rows, of one sink or of all, with the results of the records up to these positions.
fn compare(scenario: &Scenario, positions: &[usize], sink: Option<u32>, store: &Store, place: &str) -> Checked {
    let of_sink = |key: u8| sink.is_none_or(|sink| u32::from(key) % scenario.sinks == sink);
    let mut expected: BTreeMap<u8, u64> = BTreeMap::new();
    for (records, position) in scenario.records.iter().zip(positions) {
        for key in records[..*position].iter().filter(|key| of_sink(**key)) {
            *expected.entry(*key).or_default() += 1;
        }
    }
    let mut visible: BTreeMap<u8, BTreeSet<u64>> = BTreeMap::new();
    for (key, count) in store.visible.iter().filter(|(key, _)| of_sink(*key)) {
        if !visible.entry(*key).or_default().insert(*count) {
            return Err(("prefix", format!("{place}: key {key} has its count {count} twice")));
        }
    }
    for key in expected.keys().chain(visible.keys()) {
        let due = expected.get(key).copied().unwrap_or(0);
        let counts = visible.get(key);
        let (number, last) = (counts.map_or(0, BTreeSet::len) as u64, counts.and_then(BTreeSet::last).unwrap_or(&0));
        if number != due || *last != due {
            return Err(("prefix", format!("{place}: key {key} has {number} counts up to {last}, not {due}")));
        }
    }
    Ok(())
}

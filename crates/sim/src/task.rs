//! What one task does: a source cuts the epochs that it may, a counter and a sink align markers and hold
//! state. There is no time and no failure here; the result of a step is a list of outputs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_model::{Epoch, Group, Incarnation, TaskId};
use anabranch_protocol::coordinator::{Pace, Report};

use crate::Mutation;
use crate::event::{Handle, Prepared};
use crate::scenario::Scenario;
use crate::store::Committable;

/// One element of a channel.
#[derive(Clone, Debug)]
pub(crate) enum Envelope {
    /// Keys, from a source.
    Keys(Vec<u8>),
    /// Keys with their counts, from a counter.
    Counts(Vec<(u8, u64)>),
    Marker(Marker),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    pub(crate) epoch: Epoch,
    pub(crate) snapshot: bool,
    pub(crate) closes: bool,
}

/// A task's state, as in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Source { position: usize },
    Counter { counts: BTreeMap<u8, u64> },
    Sink { pending: Vec<Committable> },
}

/// An output of a step.
#[derive(Debug)]
pub(crate) enum Output {
    Send(TaskId, Envelope),
    Report(Report<Handle>),
    /// The true position at a cut and its marker, for the checks.
    Cut(Marker, usize),
    Snapshot {
        epoch: Epoch,
        finished: bool,
        state: State,
        prepared: Vec<Prepared>,
    },
}

/// What the tasks of an incarnation in one process know. Their worker gives it to them in the order of
/// epochs.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    pub(crate) granted: Epoch,
    pub(crate) checkpoints: BTreeSet<Epoch>,
    /// Sources cut all epochs up to this one in their next turn.
    pub(crate) at_once: Epoch,
    pub(crate) stop_after: Option<Epoch>,
    pub(crate) done: Epoch,
}

impl Control {
    pub(crate) fn new(from: Epoch) -> Self {
        Control { granted: from, checkpoints: BTreeSet::new(), at_once: from, stop_after: None, done: from }
    }

    pub(crate) fn grant(&mut self, group: Group, pace: Pace, checkpoint: bool, ends: bool) {
        self.granted = group.last.max(self.granted);
        if pace == Pace::AtOnce {
            self.at_once = group.last.max(self.at_once);
        }
        self.checkpoints.extend(checkpoint.then_some(group.last));
        self.stop_after = self.stop_after.or(ends.then_some(group.last));
    }
}

#[derive(Debug, Default)]
struct Input {
    queue: VecDeque<Envelope>,
    marker: Option<Marker>,
    closed: bool,
}

#[derive(Debug)]
enum Kind {
    Source {
        position: usize,
        batch_start: usize,
        /// Records were read in this epoch.
        active: bool,
    },
    Counter {
        counts: BTreeMap<u8, u64>,
    },
    Sink {
        rows: Vec<(u8, u64)>,
        pending: Vec<Committable>,
        /// Of the pending ones, those that may not be durable yet. An acknowledgement covers everything that
        /// the snapshot names, including what was prepared for a checkpoint whose own write is still in
        /// progress.
        unsafe_yet: Vec<Prepared>,
    },
}

/// One task while it runs.
#[derive(Debug)]
pub(crate) struct Task {
    id: TaskId,
    incarnation: Incarnation,
    kind: Kind,
    /// Restored; before that, input waits.
    pub(crate) ready: bool,
    epoch: Epoch,
    inputs: BTreeMap<TaskId, Input>,
    downstream: Vec<TaskId>,
    /// The last epoch.
    pub(crate) ended: Option<Epoch>,
    /// The last snapshot is durable.
    pub(crate) acknowledged_end: bool,
}

impl Task {
    pub(crate) fn new(scenario: &Scenario, id: TaskId, incarnation: Incarnation, from: Epoch) -> Self {
        let kind = match id.stage.0 {
            0 => Kind::Source { position: 0, batch_start: 0, active: false },
            1 => Kind::Counter { counts: BTreeMap::new() },
            _ => Kind::Sink { rows: Vec::new(), pending: Vec::new(), unsafe_yet: Vec::new() },
        };
        Task {
            id,
            incarnation,
            kind,
            ready: false,
            epoch: from.next(),
            inputs: scenario.upstream(id).into_iter().map(|from| (from, Input::default())).collect(),
            downstream: scenario.downstream(id),
            ended: None,
            acknowledged_end: false,
        }
    }

    /// Restores a snapshot. Returns whether it is of this kind of task.
    pub(crate) fn restore(&mut self, state: &State) -> bool {
        match (&mut self.kind, state) {
            (Kind::Source { position, batch_start, .. }, State::Source { position: saved }) => {
                (*position, *batch_start) = (*saved, *saved);
            }
            (Kind::Counter { counts }, State::Counter { counts: saved }) => counts.clone_from(saved),
            (Kind::Sink { pending, .. }, State::Sink { pending: saved }) => pending.clone_from(saved),
            _ => return false,
        }
        true
    }

    pub(crate) fn is_source(&self) -> bool {
        matches!(self.kind, Kind::Source { .. })
    }

    pub(crate) fn is_sink(&self) -> bool {
        matches!(self.kind, Kind::Sink { .. })
    }

    /// What a sink has prepared and not made visible, up to an epoch.
    pub(crate) fn pending(&self, upto: Epoch) -> Vec<Committable> {
        match &self.kind {
            Kind::Sink { pending, .. } => pending.iter().filter(|c| c.epoch <= upto).copied().collect(),
            _ => Vec::new(),
        }
    }

    /// A write has made these durable.
    pub(crate) fn safe(&mut self, prepared: &[Prepared]) {
        if let Kind::Sink { unsafe_yet, .. } = &mut self.kind {
            unsafe_yet.retain(|kept| !prepared.contains(kept));
        }
    }

    pub(crate) fn published(&mut self, committables: &[Committable]) {
        if let Kind::Sink { pending, .. } = &mut self.kind {
            pending.retain(|c| !committables.contains(c));
        }
    }

    /// One turn of a source: perhaps a cut, then perhaps a batch of up to `batch` records.
    pub(crate) fn turn(
        &mut self,
        control: &Control,
        records: &[u8],
        cut: bool,
        batch: usize,
        mutation: Option<Mutation>,
    ) -> Vec<Output> {
        let mut out = Vec::new();
        if let Some(last) = control.stop_after {
            while self.epoch < last {
                self.cut(control, false, mutation, &mut out);
            }
            self.cut(control, true, mutation, &mut out);
            return out;
        }
        while self.epoch <= control.at_once {
            self.cut(control, false, mutation, &mut out);
        }
        if cut && self.epoch <= control.granted {
            self.cut(control, false, mutation, &mut out);
        }
        let Kind::Source { position, batch_start, active } = &mut self.kind else { return out };
        if cut && *active && self.epoch > control.granted {
            out.push(Output::Report(Report::Active(self.epoch)));
        }
        let end = (*position + batch).min(records.len());
        let keys = &records[*position..end];
        for (index, to) in self.downstream.iter().enumerate() {
            let to_this = |key: &u8| usize::from(*key) % self.downstream.len() == index;
            let keys: Vec<u8> = keys.iter().copied().filter(to_this).collect();
            if !keys.is_empty() {
                out.push(Output::Send(*to, Envelope::Keys(keys)));
            }
        }
        *active |= end > *position;
        (*batch_start, *position) = (*position, end);
        if end == records.len() {
            self.cut(control, true, mutation, &mut out);
        }
        out
    }

    fn cut(&mut self, control: &Control, closes: bool, mutation: Option<Mutation>, out: &mut Vec<Output>) {
        let Kind::Source { position, batch_start, active } = self.kind else { return };
        let epoch = self.epoch;
        let marker = Marker { epoch, snapshot: control.checkpoints.contains(&epoch), closes };
        out.push(Output::Cut(marker, position));
        if active {
            out.push(Output::Report(Report::Active(epoch)));
        }
        out.push(Output::Report(Report::EpochCut(epoch)));
        if closes {
            out.push(Output::Report(Report::SourceFinished));
        }
        let saved = if mutation == Some(Mutation::PositionOneBatchLate) { batch_start } else { position };
        self.end_epoch(marker, || State::Source { position: saved }, Vec::new(), out);
    }

    /// Passes the marker on, and takes a snapshot if the marker requests one or nothing follows.
    fn end_epoch(
        &mut self,
        marker: Marker,
        state: impl FnOnce() -> State,
        prepared: Vec<Prepared>,
        out: &mut Vec<Output>,
    ) {
        out.extend(self.downstream.iter().map(|to| Output::Send(*to, Envelope::Marker(marker))));
        if marker.snapshot || marker.closes {
            let (epoch, finished) = (marker.epoch, marker.closes);
            out.push(Output::Snapshot { epoch, finished, state: state(), prepared });
        }
        if let Kind::Source { active, .. } = &mut self.kind {
            *active = false;
        }
        self.epoch = marker.epoch.next();
        self.ended = marker.closes.then_some(marker.epoch);
    }

    /// An envelope has arrived on a channel.
    pub(crate) fn receive(&mut self, from: TaskId, envelope: Envelope) {
        if let Some(input) = self.inputs.get_mut(&from) {
            input.queue.push_back(envelope);
        }
    }

    /// Processes the input, as far as no channel waits for the others' markers.
    pub(crate) fn process(&mut self) -> Vec<Output> {
        let mut out = Vec::new();
        while self.ready {
            let open = |input: &&mut Input| input.marker.is_none() && !input.queue.is_empty();
            let Some(input) = self.inputs.values_mut().find(open) else { break };
            match input.queue.pop_front() {
                Some(Envelope::Marker(marker)) => {
                    input.marker = Some(marker);
                    self.align(&mut out);
                }
                Some(rows) => self.rows(rows, &mut out),
                None => {}
            }
        }
        out
    }

    fn rows(&mut self, rows: Envelope, out: &mut Vec<Output>) {
        match (&mut self.kind, rows) {
            (Kind::Counter { counts }, Envelope::Keys(keys)) => {
                let mut to_sinks: BTreeMap<TaskId, Vec<(u8, u64)>> = BTreeMap::new();
                for key in keys {
                    let count = counts.entry(key).or_default();
                    *count += 1;
                    let sink = self.downstream[usize::from(key) % self.downstream.len()];
                    to_sinks.entry(sink).or_default().push((key, *count));
                }
                out.extend(to_sinks.into_iter().map(|(to, rows)| Output::Send(to, Envelope::Counts(rows))));
            }
            (Kind::Sink { rows, .. }, Envelope::Counts(counts)) => rows.extend(counts),
            _ => {}
        }
    }

    /// When every open channel has its marker, the epoch ends. If one marker requests a snapshot, the epoch
    /// has one: a source that has ended did not know yet what its last epoch would be.
    fn align(&mut self, out: &mut Vec<Output>) {
        if self.inputs.values().any(|input| !input.closed && input.marker.is_none()) {
            return;
        }
        let mut snapshot = false;
        for input in self.inputs.values_mut() {
            if let Some(marker) = input.marker.take() {
                snapshot |= marker.snapshot;
                input.closed |= marker.closes;
            }
        }
        let closes = self.inputs.values().all(|input| input.closed);
        let marker = Marker { epoch: self.epoch, snapshot, closes };
        let mut prepared = Vec::new();
        let state = match &mut self.kind {
            Kind::Counter { counts } => State::Counter { counts: counts.clone() },
            Kind::Sink { rows, pending, unsafe_yet } => {
                out.push(Output::Report(Report::EpochEnded(marker.epoch)));
                if (snapshot || closes) && !rows.is_empty() {
                    let committable =
                        Committable { epoch: marker.epoch, incarnation: self.incarnation, task: self.id.index };
                    pending.push(committable);
                    unsafe_yet.push((committable, std::mem::take(rows)));
                }
                prepared.clone_from(unsafe_yet);
                if closes {
                    out.push(Output::Report(Report::SinkFinished));
                }
                State::Sink { pending: pending.clone() }
            }
            Kind::Source { .. } => return,
        };
        self.end_epoch(marker, || state, prepared, out);
    }
}

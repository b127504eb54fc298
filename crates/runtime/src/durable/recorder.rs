//! Writes the snapshots of a worker's tasks, on a separate thread while the tasks continue.
//!
//! A task's snapshot becomes files: the changes of each operator, and what its sink has prepared. The list of
//! an operator's files grows until a snapshot is complete, or until the panes of the oldest files are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use anabranch_dataflow::{Assignment, Identities, Plan};
use anabranch_model::{Clock, Epoch, Error, Incarnation, KeyGroupRange, OperatorId, Result, StageId, TaskId};
use anabranch_operators::{Committable, StateChange, StateShape, event_times};
use anabranch_protocol::coordinator::Report;
use anabranch_state::{
    Blob, OperatorState, Prepared, SinkState, SourceState, StateFile, Store, TaskState, encode_rows, pieces,
};

use crate::task::mail::{FromTask, Mail};
use crate::task::snapshot::{OperatorFiles, OperatorSnapshot, Snapshot};

/// The writing side of the checkpoints of one incarnation at one worker.
pub(crate) struct Recorder {
    store: Store,
    identities: Identities,
    assignment: Assignment,
    /// Stages without any part in checkpoints.
    static_stages: BTreeSet<StageId>,
    incarnation: Incarnation,
    clock: Arc<dyn Clock>,
    files: BTreeMap<(TaskId, OperatorId), OperatorFiles>,
    /// Prepared results that are not visible yet, as stored, by their task and kind of sink.
    prepared: BTreeMap<(TaskId, &'static str), BTreeMap<Epoch, Blob>>,
    /// State files, each with the epoch of the first snapshot that no longer refers to it.
    dropped: Vec<(Epoch, String)>,
    /// Approximate largest size of a file of changes.
    file_bytes: usize,
}

impl Recorder {
    pub(crate) fn new(store: Store, plan: &Plan, incarnation: Incarnation, clock: Arc<dyn Clock>) -> Recorder {
        Recorder {
            store,
            identities: plan.identities.clone(),
            assignment: plan.assignment.clone(),
            static_stages: plan.static_stages(),
            incarnation,
            clock,
            files: BTreeMap::new(),
            prepared: BTreeMap::new(),
            dropped: Vec::new(),
            file_bytes: plan.options.thresholds.state_file_bytes,
        }
    }

    /// Works until all senders of snapshots are gone. Snapshots wait in memory: at most one for each task and
    /// pending checkpoint.
    pub(crate) fn run(mut self, snapshots: &Receiver<Snapshot>, mail: &dyn Mail) -> Recorder {
        while let Ok(snapshot) = snapshots.recv() {
            self.work(snapshot, |message| mail.send(message));
        }
        self
    }

    /// An operator continues with these files of the newest checkpoint.
    pub(crate) fn go_on(&mut self, task: TaskId, operator: OperatorId, files: OperatorFiles) {
        self.files.insert((task, operator), files);
    }

    pub(crate) fn into_files(self) -> BTreeMap<(TaskId, OperatorId), OperatorFiles> {
        self.files
    }

    /// Stores a snapshot and acknowledges it. A file that cannot be written fails the task: its operators
    /// will not return the same change again.
    pub(crate) fn work(&mut self, snapshot: Snapshot, mut report: impl FnMut(FromTask)) {
        // Writing takes time, and cancelling or ending a job waits for what is being written.
        if snapshot.control.is_cancelled() {
            return;
        }
        let (incarnation, task) = (self.incarnation, snapshot.task);
        let (epoch, finished) = (snapshot.epoch, snapshot.finished);
        let (control, passing, begun) = (Arc::clone(&snapshot.control), snapshot.passing, self.clock.now());
        match self.record(snapshot) {
            Ok(snapshot) => {
                if !self.dropped.is_empty() {
                    report(FromTask::Dropped(incarnation, std::mem::take(&mut self.dropped)));
                }
                if let Some(passing) = passing {
                    control.passed(passing.written(task, begun, self.clock.now()));
                }
                report(FromTask::Report(incarnation, task, Report::Acknowledged { epoch, snapshot, finished }));
            }
            Err(error) => report(FromTask::Failed(incarnation, task, error.at("checkpoint"))),
        }
    }

    fn record(&mut self, snapshot: Snapshot) -> Result<TaskState> {
        let Snapshot { task, epoch, finished, source, operators, prepared, .. } = snapshot;
        let stage = task.stage;
        let mut states = Vec::with_capacity(operators.len());
        for OperatorSnapshot { place, tables, watermark } in operators {
            let Some(id) = self.identities.state(stage, place) else {
                if self.static_stages.contains(&stage) {
                    continue;
                }
                let what = format!("operator {place} of {stage} has state that no checkpoint would contain");
                return Err(Error::internal(what));
            };
            let files = self.record_operator(task, epoch, id, tables)?;
            states.push(OperatorState { number: id.number, watermark_ms: watermark.0, files });
        }
        let source = match self.identities.source(stage) {
            Some(id) => Some(SourceState {
                number: id.number,
                positions: source.positions,
                watermarks_ms: source.partition_watermarks.into_iter().map(|(name, time)| (name, time.0)).collect(),
                event_time: source.event_time,
                dead_letters: self.record_prepared(task, "dead", source.dead_letters)?,
                late_rows: self.record_prepared(task, "late", source.late_rows)?,
            }),
            None => None,
        };
        let sink = match self.identities.sink(stage) {
            Some(id) => Some(SinkState { number: id.number, prepared: self.record_prepared(task, "rows", prepared)? }),
            None => None,
        };
        Ok(TaskState { task, finished, source, operators: states, sink })
    }

    fn record_operator(
        &mut self,
        task: TaskId,
        epoch: Epoch,
        operator: OperatorId,
        tables: Vec<(StateShape, StateChange)>,
    ) -> Result<Vec<StateFile>> {
        let (incarnation, stage, index) = (self.incarnation.0, task.stage.0, task.index);
        let name = format!("state/{incarnation}-{}-{stage}.{index}-{}", epoch.0, operator.number);
        let key_groups = self.assignment.of_task(task);
        let mut files = self.files.remove(&(task, operator)).unwrap_or_default();
        let before: BTreeSet<String> = files.all().map(|file| file.blob.name.clone()).collect();
        for (table, (shape, change)) in tables.into_iter().enumerate() {
            let name = if table == 0 { name.clone() } else { format!("{name}t{table}") };
            self.record_table(&name, key_groups, (&shape, change), &mut files)?;
        }
        let after: BTreeSet<&str> = files.all().map(|file| file.blob.name.as_str()).collect();
        self.dropped.extend(before.into_iter().filter(|name| !after.contains(name.as_str())).map(|name| (epoch, name)));
        let all = files.all().cloned().collect();
        self.files.insert((task, operator), files);
        Ok(all)
    }

    fn record_table(
        &self,
        name: &str,
        key_groups: KeyGroupRange,
        (shape, change): (&StateShape, StateChange),
        files: &mut OperatorFiles,
    ) -> Result<()> {
        let is_own = |file: &StateFile| file.table == shape.table;
        let file = |blob, rows, last_pane_ms| StateFile {
            blob,
            rows,
            last_pane_ms,
            key_groups,
            others: None,
            table: shape.table.clone(),
        };
        let (own, others) = std::mem::take(&mut files.runs).into_iter().partition(|(_, file)| is_own(file));
        files.runs = others;
        let mut known: BTreeMap<u64, StateFile> = Vec::into_iter(own).collect();
        for run in &change.runs {
            let file = match known.remove(&run.id) {
                Some(file) => file,
                None => {
                    let blob = self.store.put(&format!("{name}-{}.arrow", run.id), run.content()?.into())?;
                    file(blob, run.rows, shape.pane.map(|_| run.pane))
                }
            };
            files.runs.push((run.id, file));
        }
        let is_needed = |file: &StateFile| file.last_pane_ms.is_none_or(|last| last >= change.first_pane.0);
        files.changes.retain(|file| !is_own(file) || !change.complete && is_needed(file));
        for (number, piece) in pieces(change.rows, self.file_bytes)?.into_iter().enumerate() {
            let mut last_pane_ms = None;
            for batch in &piece {
                if let Some(pane) = shape.pane {
                    last_pane_ms = last_pane_ms.max(event_times(batch.column(pane))?.iter().max().copied());
                }
            }
            let rows = piece.iter().map(|batch| batch.num_rows() as u64).sum();
            let content = encode_rows(&shape.schema, &piece)?;
            let more = if number == 0 { String::new() } else { format!("+{number}") };
            let blob = self.store.put(&format!("{name}{more}.arrow"), content.into())?;
            files.changes.push(file(blob, rows, last_pane_ms));
        }
        Ok(())
    }

    fn record_prepared(
        &mut self,
        task: TaskId,
        kind: &'static str,
        prepared: Vec<Committable>,
    ) -> Result<Vec<Prepared>> {
        let mut former = self.prepared.remove(&(task, kind)).unwrap_or_default();
        let mut stored = Vec::with_capacity(prepared.len());
        for Committable { epoch, task: index, content } in prepared {
            let blob = match former.remove(&epoch) {
                Some(blob) => blob,
                None => {
                    let (incarnation, stage) = (self.incarnation.0, task.stage.0);
                    let name = format!("prepared/{incarnation}-{}-{stage}.{index}-{kind}.bin", epoch.0);
                    self.store.put(&name, content)?
                }
            };
            stored.push(Prepared { epoch, task: index, blob });
        }
        if !stored.is_empty() {
            let blobs = stored.iter().map(|prepared| (prepared.epoch, prepared.blob.clone()));
            self.prepared.insert((task, kind), blobs.collect());
        }
        Ok(stored)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anabranch_dataflow::JobOptions;
    use anabranch_model::{EventTime, KeyGroups, ManualClock, Nanos, OperatorKind};
    use anabranch_state::{Access, decode_rows};
    use arrow::array::{Int64Array, RecordBatch};
    use arrow::compute::concat_batches;

    use super::*;
    use crate::task::phases::{Boundary, Passage, Passing};

    fn recorder(folder: &std::path::Path, file_bytes: usize) -> Recorder {
        recorder_at(folder, file_bytes, Arc::new(ManualClock::default()))
    }

    fn recorder_at(folder: &std::path::Path, file_bytes: usize, clock: Arc<dyn Clock>) -> Recorder {
        let store = Store::open(folder.to_str().expect("text"), &Access::default()).expect("store");
        let mut plan = Plan::new(KeyGroups(128), JobOptions::default(), Vec::new(), Vec::new());
        plan.options.thresholds.state_file_bytes = file_bytes;
        Recorder::new(store, &plan, Incarnation(1), clock)
    }

    fn rows(keys: std::ops::Range<i64>) -> RecordBatch {
        let column = Arc::new(Int64Array::from_iter_values(keys)) as _;
        RecordBatch::try_from_iter([("k", column)]).expect("rows")
    }

    /// Records a change of one operator; returns the names of its files.
    fn record(recorder: &mut Recorder, epoch: u64, rows: &RecordBatch, complete: bool) -> Vec<StateFile> {
        let task = TaskId { stage: StageId(1), index: 0 };
        let id = OperatorId { kind: OperatorKind::State, number: 0 };
        let shape = StateShape { table: String::new(), schema: rows.schema(), keys: 0..1, pane: None };
        let change = StateChange { rows: vec![rows.clone()], complete, runs: Vec::new(), first_pane: EventTime::MIN };
        recorder.record_operator(task, Epoch(epoch), id, vec![(shape, change)]).expect("recorded")
    }

    #[test]
    fn a_change_that_is_larger_than_a_file_is_in_several_of_which_none_replaces_another() {
        let folder = tempfile::tempdir().expect("folder");
        let mut recorder = recorder(folder.path(), 1000);
        let all = rows(0..1000);
        let files = record(&mut recorder, 1, &all, true);
        assert!(files.len() > 5);
        let read = files.iter().flat_map(|file| {
            let read = decode_rows(recorder.store.get_blob(&file.blob).expect("as written")).expect("rows");
            assert_eq!(read.iter().map(|batch| batch.num_rows() as u64).sum::<u64>(), file.rows);
            read
        });
        assert_eq!(concat_batches(&all.schema(), &read.collect::<Vec<_>>()).expect("one batch"), all);
    }

    fn snapshot(operators: Vec<OperatorSnapshot>, passing: Option<Passing>) -> Snapshot {
        let mail = Arc::new(crate::task::mail::Unheard);
        Snapshot {
            control: crate::task::control::Control::new(Incarnation(1), Epoch(0), mail, Vec::new(), 1),
            task: TaskId { stage: StageId(1), index: 0 },
            epoch: Epoch(1),
            finished: false,
            passing,
            source: crate::task::snapshot::SourceSnapshot::default(),
            operators,
            prepared: Vec::new(),
        }
    }

    #[test]
    fn what_a_task_measures_of_a_checkpoint_is_there_before_its_acknowledgement() {
        let folder = tempfile::tempdir().expect("folder");
        let clock = Arc::new(ManualClock::default());
        let mut recorder = recorder_at(folder.path(), 1 << 20, Arc::<ManualClock>::clone(&clock));
        clock.advance(Duration::from_nanos(70));
        let boundary = Boundary { epoch: Epoch(1), due: None, entered: Nanos(30) };
        let passing = Passing { requested: Nanos(10), boundary, taken: Nanos(40) };
        let mut measured = |passing| {
            let snapshot = snapshot(Vec::new(), passing);
            let (control, mut measured) = (Arc::clone(&snapshot.control), None);
            recorder.work(snapshot, |report| {
                assert!(matches!(report, FromTask::Report(_, _, Report::Acknowledged { .. })));
                measured = Some(control.take_passages());
            });
            measured.expect("an acknowledgement")
        };
        let task = TaskId { stage: StageId(1), index: 0 };
        let [entered_ns, taken_ns, begun_ns, written_ns] = [20, 30, 60, 60];
        let passage = Passage { task, epoch: Epoch(1), due_ns: None, entered_ns, taken_ns, begun_ns, written_ns };
        assert_eq!(measured(Some(passing)), [passage]);
        assert_eq!(measured(None), [], "no checkpoint was requested");
    }

    #[test]
    fn state_without_an_identity_is_an_error() {
        let folder = tempfile::tempdir().expect("folder");
        let mut recorder = recorder(folder.path(), 1 << 20);
        let rows = rows(0..5);
        let shape = StateShape { table: String::new(), schema: rows.schema(), keys: 0..1, pane: None };
        let change = StateChange { rows: vec![rows], complete: true, runs: Vec::new(), first_pane: EventTime::MIN };
        let operators = vec![OperatorSnapshot { place: 0, tables: vec![(shape, change)], watermark: EventTime::MIN }];
        let error = recorder.record(snapshot(operators, None)).expect_err("refused").to_string();
        assert!(error.contains("operator 0 of stage 1 has state that no checkpoint would contain"), "{error}");
    }
}

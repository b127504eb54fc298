//! Writes snapshots and the job's log, on a separate thread while the tasks continue.
//!
//! A task's snapshot becomes files: the changes of each operator, and what its sink has prepared. The list of an
//! operator's files grows until a snapshot is complete, or until the panes of the oldest files are gone. When all tasks
//! have acknowledged an epoch, the coordinator lets the recorder write the manifest and the entry in the job's log:
//! with that entry the checkpoint exists.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anabranch_dataflow::{Assignment, Identities, Plan};
use anabranch_model::{Clock, Epoch, Error, Incarnation, OperatorId, Result, StageId, TaskId};
use anabranch_operators::{Committable, StateChange, StateShape, event_times};
use anabranch_protocol::coordinator::{Answer, Command, Entry, Report};
use anabranch_state::{
    Blob, OperatorState, Prepared, SinkState, SourceState, StateFile, Store, TaskState, encode_rows, pieces,
};

use crate::driver::Message;
use crate::journal::Journal;
use crate::mailbox::Mailbox;
use crate::snapshot::{OperatorSnapshot, Snapshot};

/// Time between two checks for requests for savepoints while there is nothing to write.
const LOOK: Duration = Duration::from_millis(200);

/// Something to write. Snapshots wait here in memory: at most one of each task and pending checkpoint.
pub(crate) enum Work {
    Snapshot(Box<Snapshot>),
    /// A command of the coordinator for the log.
    Log(Box<Command<TaskState>>),
    /// The tasks of this incarnation follow; those of earlier ones are gone.
    Begin(Incarnation),
}

/// The writing side of a job's checkpoints.
pub(crate) struct Recorder {
    store: Store,
    journal: Journal,
    identities: Identities,
    assignment: Assignment,
    /// Stages of which no checkpoint has anything.
    static_stages: BTreeSet<StageId>,
    incarnation: Incarnation,
    files: BTreeMap<(TaskId, OperatorId), OperatorFiles>,
    /// What sinks have prepared and not made visible, as stored.
    prepared: BTreeMap<(TaskId, bool, Epoch), Blob>,
    /// State files, each with the epoch of the first snapshot that no longer refers to it.
    dropped: Vec<(Epoch, String)>,
    clock: Arc<dyn Clock>,
    /// Approximate largest size of a file of changes.
    file_bytes: usize,
}

/// Names of the objects to which the next checkpoint may refer.
fn in_use(
    files: &BTreeMap<(TaskId, OperatorId), OperatorFiles>,
    prepared: &BTreeMap<(TaskId, bool, Epoch), Blob>,
) -> BTreeSet<String> {
    let files = files.values().flat_map(OperatorFiles::all).map(|file| &file.blob);
    files.chain(prepared.values()).map(|blob| blob.name.clone()).collect()
}

/// State files of one operator in one task.
#[derive(Default)]
struct OperatorFiles {
    /// Files of the runs outside of its tables, with the runs' numbers. Oldest first, which is not the order of the
    /// numbers.
    runs: Vec<(u64, StateFile)>,
    /// Files of its tables: a complete one, and the changes since. Oldest first.
    changes: Vec<StateFile>,
}

impl OperatorFiles {
    fn all(&self) -> impl Iterator<Item = &StateFile> {
        self.runs.iter().map(|(_, file)| file).chain(&self.changes)
    }
}

impl Recorder {
    pub(crate) fn new(journal: Journal, plan: &Plan, incarnation: Incarnation, clock: Arc<dyn Clock>) -> Recorder {
        Recorder {
            store: journal.store.clone(),
            journal,
            identities: plan.identities.clone(),
            assignment: plan.assignment.clone(),
            static_stages: plan.static_stages(),
            incarnation,
            files: BTreeMap::new(),
            prepared: BTreeMap::new(),
            dropped: Vec::new(),
            clock,
            file_bytes: plan.options.thresholds.state_file_bytes,
        }
    }

    #[cfg(test)]
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Works until all senders of work are gone.
    pub(crate) fn run(mut self, work: &Receiver<Work>, mailbox: &Mailbox) {
        loop {
            if let Some(message) = self.look() {
                mailbox.send(message);
            }
            let work = match work.recv_timeout(LOOK) {
                Ok(work) => work,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Some(message) = self.work(work) {
                mailbox.send(message);
            }
        }
        self.journal.ended(self.incarnation);
    }

    /// Looks for a request for a savepoint, if it is time to, and requests the checkpoint that answers it.
    pub(crate) fn look(&mut self) -> Option<Message> {
        let found = self.journal.look_for_requests(self.clock.now(), || in_use(&self.files, &self.prepared));
        // The checkpoint itself is the answer; this message has no receiver.
        found.then(|| Message::Checkpoint(channel().0))
    }

    /// Does one piece of work, and returns the report of it.
    pub(crate) fn work(&mut self, work: Work) -> Option<Message> {
        match work {
            // Writing takes time, and cancelling or ending a job waits for what is being written.
            Work::Snapshot(snapshot) if snapshot.control.is_cancelled() => None,
            Work::Snapshot(snapshot) => Some(self.take(*snapshot)),
            Work::Log(command) => self.log(*command),
            Work::Begin(incarnation) => {
                self.begin(incarnation);
                None
            }
        }
    }

    fn begin(&mut self, incarnation: Incarnation) {
        self.incarnation = incarnation;
        self.files.clear();
        self.prepared.clear();
        self.dropped.clear();
        // Files that cannot be removed now only take space, and are removed at the next start.
        let _ = self.journal.remove_strays(incarnation);
    }

    /// Stores a snapshot and acknowledges it. A file that cannot be written fails the task: its operators will not
    /// return the same change again.
    fn take(&mut self, snapshot: Snapshot) -> Message {
        let (task, epoch, finished) = (snapshot.task, snapshot.epoch, snapshot.finished);
        match self.record(snapshot) {
            Ok(snapshot) => Message::Task(self.incarnation, task, Report::Acknowledged { epoch, snapshot, finished }),
            Err(error) => Message::Failed(self.incarnation, task, error.at("checkpoint")),
        }
    }

    fn log(&mut self, command: Command<TaskState>) -> Option<Message> {
        let asked = match &command {
            Command::Append(sequence, _) | Command::Read(sequence) => Some(*sequence),
            _ => None,
        };
        let in_use = match command {
            Command::Forget(..) => in_use(&self.files, &self.prepared),
            _ => BTreeSet::new(),
        };
        let committing = match &command {
            Command::Append(_, Entry::Checkpoint(checkpoint)) => Some(checkpoint.epoch),
            _ => None,
        };
        let carried_out = self.journal.carry_out(command, &in_use);
        if let (Some(epoch), Ok(Some((_, Answer::Appended)))) = (committing, &carried_out) {
            self.remove_dropped(epoch);
        }
        match (carried_out, asked) {
            (Ok(answer), _) => answer.map(|(sequence, answer)| Message::Store(sequence, answer, None)),
            (Err(error), _) if self.journal.is_broken() => Some(Message::Cancel(error)),
            (Err(error), Some(sequence)) => Some(Message::Store(sequence, Answer::Unknown, Some(error))),
            // Files that cannot be removed now only take space, and are removed at the next start.
            (Err(_), None) => None,
        }
    }

    /// Removes state files to which only abandoned checkpoints could have referred: a checkpoint of `epoch` is in the
    /// log, so none of an earlier epoch will follow. Files of an older checkpoint are removed together with it.
    fn remove_dropped(&mut self, epoch: Epoch) {
        let decided: BTreeSet<String> =
            self.dropped.extract_if(.., |(dropped, _)| *dropped <= epoch).map(|(_, name)| name).collect();
        if decided.is_empty() {
            return;
        }
        // Files that cannot be removed now only take space, and are removed at the next start.
        let _ = self.journal.remove(&decided, &in_use(&self.files, &self.prepared));
    }

    fn record(&mut self, snapshot: Snapshot) -> Result<TaskState> {
        let Snapshot { task, epoch, finished, source, operators, prepared, .. } = snapshot;
        let stage = task.stage;
        let mut states = Vec::with_capacity(operators.len());
        for OperatorSnapshot { place, shape, change, watermark } in operators {
            let Some(id) = self.identities.state(stage, place) else {
                if self.static_stages.contains(&stage) {
                    continue;
                }
                let what = format!("operator {place} of {stage} has state that no checkpoint would contain");
                return Err(Error::internal(what));
            };
            let files = self.record_operator(task, epoch, id, &shape, change)?;
            states.push(OperatorState { number: id.number, watermark_ms: watermark.0, files });
        }
        let source = match self.identities.source(stage) {
            Some(id) => Some(SourceState {
                number: id.number,
                positions: source.positions,
                watermarks_ms: source.partition_watermarks.into_iter().map(|(name, time)| (name, time.0)).collect(),
                dead_letters: self.record_prepared(task, true, source.dead_letters)?,
            }),
            None => None,
        };
        let sink = match self.identities.sink(stage) {
            Some(id) => Some(SinkState { number: id.number, prepared: self.record_prepared(task, false, prepared)? }),
            None => None,
        };
        Ok(TaskState { task, finished, source, operators: states, sink })
    }

    fn record_operator(
        &mut self,
        task: TaskId,
        epoch: Epoch,
        operator: OperatorId,
        shape: &StateShape,
        change: StateChange,
    ) -> Result<Vec<StateFile>> {
        let (incarnation, stage, index) = (self.incarnation.0, task.stage.0, task.index);
        let name = format!("state/{incarnation}-{}-{stage}.{index}-{}", epoch.0, operator.number);
        let key_groups = Some(self.assignment.of_task(task));
        let files = self.files.entry((task, operator)).or_default();
        let before: BTreeSet<String> = files.all().map(|file| file.blob.name.clone()).collect();
        let mut known: BTreeMap<u64, StateFile> = std::mem::take(&mut files.runs).into_iter().collect();
        for run in &change.runs {
            let file = match known.remove(&run.id) {
                Some(file) => file,
                None => {
                    let blob = self.store.put(&format!("{name}-{}.arrow", run.id), run.content()?.into())?;
                    StateFile { blob, rows: run.rows, last_pane_ms: shape.pane.map(|_| run.pane), key_groups }
                }
            };
            files.runs.push((run.id, file));
        }
        if change.complete {
            files.changes.clear();
        }
        files.changes.retain(|file| file.last_pane_ms.is_none_or(|last| last >= change.first_pane.0));
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
            files.changes.push(StateFile { blob, rows, last_pane_ms, key_groups });
        }
        let after: BTreeSet<&str> = files.all().map(|file| file.blob.name.as_str()).collect();
        self.dropped.extend(before.into_iter().filter(|name| !after.contains(name.as_str())).map(|name| (epoch, name)));
        Ok(files.all().cloned().collect())
    }

    fn record_prepared(&mut self, task: TaskId, dead: bool, prepared: Vec<Committable>) -> Result<Vec<Prepared>> {
        let first = prepared.first().map_or(Epoch(u64::MAX), |committable| committable.epoch);
        self.prepared.retain(|(of, kind, epoch), _| (*of, *kind) != (task, dead) || *epoch >= first);
        let mut stored = Vec::with_capacity(prepared.len());
        for Committable { epoch, task: index, content } in prepared {
            let blob = match self.prepared.get(&(task, dead, epoch)) {
                Some(blob) => blob.clone(),
                None => {
                    let kind = if dead { "dead" } else { "rows" };
                    let (incarnation, stage) = (self.incarnation.0, task.stage.0);
                    let name = format!("prepared/{incarnation}-{}-{stage}.{index}-{kind}.bin", epoch.0);
                    self.store.put(&name, content)?
                }
            };
            self.prepared.insert((task, dead, epoch), blob.clone());
            stored.push(Prepared { epoch, task: index, blob });
        }
        Ok(stored)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_dataflow::JobOptions;
    use anabranch_model::{EventTime, KeyGroups, ManualClock, OperatorKind};
    use anabranch_state::{Access, decode_rows};
    use arrow::array::{Int64Array, RecordBatch};
    use arrow::compute::concat_batches;

    use super::*;

    fn recorder(folder: &std::path::Path, file_bytes: usize) -> Recorder {
        let store = Store::open(folder.to_str().expect("text"), &Access::default()).expect("store");
        let mut plan = Plan::new(KeyGroups(128), JobOptions::default(), Vec::new(), Vec::new());
        plan.options.thresholds.state_file_bytes = file_bytes;
        let journal = Journal::new(store, "ads".into(), &plan);
        Recorder::new(journal, &plan, Incarnation(1), Arc::new(ManualClock::default()))
    }

    fn rows(keys: std::ops::Range<i64>) -> RecordBatch {
        let column = Arc::new(Int64Array::from_iter_values(keys)) as _;
        RecordBatch::try_from_iter([("k", column)]).expect("rows")
    }

    /// Records a change of one operator; returns the names of its files.
    fn record(recorder: &mut Recorder, epoch: u64, rows: &RecordBatch, complete: bool) -> Vec<StateFile> {
        let task = TaskId { stage: StageId(1), index: 0 };
        let id = OperatorId { kind: OperatorKind::State, number: 0 };
        let shape = StateShape { schema: rows.schema(), keys: 0..1, pane: None };
        let change = StateChange { rows: vec![rows.clone()], complete, runs: Vec::new(), first_pane: EventTime::MIN };
        recorder.record_operator(task, Epoch(epoch), id, &shape, change).expect("recorded")
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

    #[test]
    fn state_without_an_identity_is_an_error() {
        let folder = tempfile::tempdir().expect("folder");
        let mut recorder = recorder(folder.path(), 1 << 20);
        let rows = rows(0..5);
        let shape = StateShape { schema: rows.schema(), keys: 0..1, pane: None };
        let change = StateChange { rows: vec![rows], complete: true, runs: Vec::new(), first_pane: EventTime::MIN };
        let inboxes = Vec::new();
        let (sender, _received) = channel();
        let shared = crate::job::Shared::new(Arc::new(ManualClock::default()));
        let control = crate::control::Control::new(Incarnation(1), Epoch(0), Mailbox::new(sender, shared), inboxes);
        let snapshot = Snapshot {
            control,
            task: TaskId { stage: StageId(1), index: 0 },
            epoch: Epoch(1),
            finished: false,
            source: crate::snapshot::SourceSnapshot::default(),
            operators: vec![OperatorSnapshot { place: 0, shape, change, watermark: EventTime::MIN }],
            prepared: Vec::new(),
        };
        let error = recorder.record(snapshot).expect_err("refused").to_string();
        assert!(error.contains("operator 0 of stage 1 has state that no checkpoint would contain"), "{error}");
    }

    /// After a restart operators number their runs from 1 again, and return all of their state.
    #[test]
    fn files_of_an_earlier_incarnation_are_not_mistaken_for_those_of_a_later_one() {
        let folder = tempfile::tempdir().expect("folder");
        let mut recorder = recorder(folder.path(), 1 << 20);
        assert_eq!(record(&mut recorder, 1, &rows(0..5), true).len(), 1);
        recorder.begin(Incarnation(2));
        let files: Vec<String> =
            record(&mut recorder, 1, &rows(5..9), false).into_iter().map(|file| file.blob.name).collect();
        assert_eq!(files, ["state/2-1-1.0-0.arrow"]);
    }

    #[test]
    fn files_of_an_abandoned_checkpoint_are_removed_with_the_next_committed_one() {
        let folder = tempfile::tempdir().expect("folder");
        let mut recorder = recorder(folder.path(), 1 << 20);
        let store = recorder.store.clone();
        let record = |recorder: &mut Recorder, epoch| {
            record(recorder, epoch, &rows(7..8), true);
            store.list("state").expect("list").len()
        };
        // Neither the first one nor the second is committed.
        assert_eq!((record(&mut recorder, 1), record(&mut recorder, 2), record(&mut recorder, 3)), (1, 2, 3));
        recorder.remove_dropped(Epoch(2));
        assert_eq!(store.list("state").expect("list"), ["state/1-2-1.0-0.arrow", "state/1-3-1.0-0.arrow"]);
        recorder.remove_dropped(Epoch(3));
        assert_eq!(store.list("state").expect("list"), ["state/1-3-1.0-0.arrow"]);
    }
}

//! Writes snapshots and commits checkpoints, on a thread of its own while the tasks go on.
//!
//! A task's snapshot becomes files: of each operator what has changed, of its sink what it has prepared. The list of an
//! operator's files grows until it gives everything at once, or until the panes of the oldest are gone. When all tasks have
//! acknowledged an epoch, the manifest is written, then the entry in the job's log: with it the checkpoint exists.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use anabranch_model::{Epoch, Error, Incarnation, Result, TaskId};
use anabranch_operators::{Committable, StateChange, StateShape, event_times};
use anabranch_state::{
    Appended, Blob, Entry, FORMAT, Log, Manifest, OperatorState, Prepared, SinkState, SourceState, StateFile, Store,
    TaskState, encode_manifest, encode_rows,
};

use crate::control::{Commit, Control};
use crate::outline::Outline;
use crate::snapshot::Snapshot;

/// Time between two looks whether a checkpoint takes too long.
const LOOK: Duration = Duration::from_millis(100);
/// Checkpoints that are kept: the last one, and one before it in case the last is damaged.
const KEPT: usize = 2;

/// The writing side of a job's checkpoints.
pub(crate) struct Recorder {
    pub(crate) store: Store,
    pub(crate) log: Log,
    pub(crate) job: String,
    pub(crate) outline: Outline,
    pub(crate) incarnation: Incarnation,
    /// Number of the next entry of the log.
    pub(crate) sequence: u64,
    /// Checkpoints that are kept, oldest first.
    pub(crate) kept: Vec<Kept>,
    files: BTreeMap<(TaskId, usize), Vec<StateFile>>,
    /// What sinks have prepared and not made visible, as stored.
    prepared: BTreeMap<(TaskId, bool, Epoch), Blob>,
}

/// A committed checkpoint, and the names of everything that belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) sequence: u64,
    pub(crate) names: BTreeSet<String>,
}

impl Recorder {
    pub(crate) fn new(
        store: Store,
        job: String,
        outline: Outline,
        incarnation: Incarnation,
        sequence: u64,
        kept: Vec<Kept>,
    ) -> Recorder {
        let log = Log::new(store.clone());
        let (files, prepared) = (BTreeMap::new(), BTreeMap::new());
        Recorder { store, log, job, outline, incarnation, sequence, kept, files, prepared }
    }

    /// Works until every task has gone.
    pub(crate) fn run(mut self, snapshots: &Receiver<Snapshot>, control: &Control) {
        loop {
            match snapshots.recv_timeout(LOOK) {
                Ok(snapshot) => {
                    if let Err(error) = self.take(snapshot, control) {
                        control.fail(error.at("checkpoint"));
                    }
                }
                Err(RecvTimeoutError::Timeout) => control.look_at_checkpoint(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Stores a snapshot, acknowledges it, and commits what is complete by it. A file that cannot be written fails the job:
    /// the operator will not give the same change again.
    fn take(&mut self, snapshot: Snapshot, control: &Control) -> Result<()> {
        let epoch = snapshot.epoch;
        let state = self.record(snapshot)?;
        self.acknowledge(epoch, state, control)
    }

    pub(crate) fn acknowledge(&mut self, epoch: Epoch, state: TaskState, control: &Control) -> Result<()> {
        let mut next = control.acknowledge(epoch, state);
        while let Some(Commit { epoch, tasks }) = next {
            next = match self.commit(epoch, tasks) {
                Ok(()) => control.committed(epoch, true),
                // Somebody else goes on with the job: nothing of this one may take effect any more.
                Err(error) if error.kind() == anabranch_model::ErrorKind::User => return Err(error),
                Err(_) => control.committed(epoch, false),
            };
        }
        Ok(())
    }

    pub(crate) fn record(&mut self, snapshot: Snapshot) -> Result<TaskState> {
        let Snapshot { task, epoch, finished, watermark, source, operators, prepared } = snapshot;
        let stage = task.stage;
        let mut states = Vec::with_capacity(operators.len());
        for (place, shape, change) in operators {
            if let Some(number) = self.outline.operator(stage, place) {
                let files = self.record_operator(task, epoch, number, &shape, &change)?;
                states.push(OperatorState { number, watermark_ms: watermark.0, files });
            }
        }
        let source = match self.outline.source(stage) {
            Some(number) => Some(SourceState {
                number,
                positions: source.positions,
                watermarks_ms: source.partition_watermarks.into_iter().map(|(id, time)| (id.0, time.0)).collect(),
                dead_letters: self.record_prepared(task, true, source.dead_letters)?,
            }),
            None => None,
        };
        let sink = match self.outline.sink(stage) {
            Some(number) => Some(SinkState { number, prepared: self.record_prepared(task, false, prepared)? }),
            None => None,
        };
        Ok(TaskState { task, finished, source, operators: states, sink })
    }

    fn record_operator(
        &mut self,
        task: TaskId,
        epoch: Epoch,
        operator: usize,
        shape: &StateShape,
        change: &StateChange,
    ) -> Result<Vec<StateFile>> {
        let files = self.files.entry((task, operator)).or_default();
        if change.complete {
            files.clear();
        }
        files.retain(|file| file.last_pane_ms.is_none_or(|last| last >= change.first_pane.0));
        if !change.rows.is_empty() {
            let mut last_pane_ms = None;
            for batch in &change.rows {
                if let Some(pane) = shape.pane {
                    last_pane_ms = last_pane_ms.max(event_times(batch.column(pane))?.iter().max().copied());
                }
            }
            let rows = change.rows.iter().map(|batch| batch.num_rows() as u64).sum();
            let content = encode_rows(&shape.schema, &change.rows)?;
            let (incarnation, stage, index) = (self.incarnation.0, task.stage.0, task.index);
            let name = format!("state/{incarnation}-{}-{stage}.{index}-{operator}.arrow", epoch.0);
            let blob = self.store.put(&name, content.into())?;
            files.push(StateFile { blob, rows, last_pane_ms });
        }
        Ok(files.clone())
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
                    self.store.put(&name, content.into())?
                }
            };
            self.prepared.insert((task, dead, epoch), blob.clone());
            stored.push(Prepared { epoch, task: index, blob });
        }
        Ok(stored)
    }

    fn commit(&mut self, epoch: Epoch, tasks: BTreeMap<TaskId, TaskState>) -> Result<()> {
        let manifest = Manifest {
            format: FORMAT,
            job: self.job.clone(),
            outline: self.outline.lines.clone(),
            epoch,
            incarnation: self.incarnation,
            tasks: tasks.into_values().collect(),
        };
        let name = format!("manifests/{}-{}.txt", self.incarnation.0, epoch.0);
        let blob = self.store.put(&name, encode_manifest(&manifest)?.into())?;
        let entry = Entry::Checkpoint { incarnation: self.incarnation, epoch, manifest: blob };
        self.append(&entry)?;
        self.kept.push(Kept { sequence: self.sequence - 1, names: manifest.names().chain([name]).collect() });
        self.forget_old()
    }

    /// Appends to the log. An answer that did not come is found out about by reading.
    fn append(&mut self, entry: &Entry) -> Result<()> {
        let appended = self.log.append(self.sequence, entry);
        if !matches!(appended, Ok(Appended::Last)) {
            match self.log.read(self.sequence)? {
                Some(found) if found == *entry => {}
                Some(_) => return Err(self.lost()),
                None if matches!(appended, Ok(Appended::Taken)) => return Err(self.lost()),
                None => return appended.map(|_| ()),
            }
        }
        self.sequence += 1;
        Ok(())
    }

    fn lost(&self) -> Error {
        Error::user("another process has taken the job over")
            .at(self.store.place().to_owned())
            .remedy("let only one process run the job, or give each a place of its own for checkpoints")
    }

    /// Removes checkpoints that are no longer kept, and what belongs to them alone.
    fn forget_old(&mut self) -> Result<()> {
        while self.kept.len() > KEPT {
            let old = self.kept.remove(0);
            let mut needed: BTreeSet<&String> = self.kept.iter().flat_map(|kept| &kept.names).collect();
            needed.extend(self.files.values().flatten().map(|file| &file.blob.name));
            needed.extend(self.prepared.values().map(|blob| &blob.name));
            self.log.remove(old.sequence)?;
            for name in old.names.iter().filter(|name| !needed.contains(name)) {
                self.store.delete(name)?;
            }
        }
        Ok(())
    }
}

/// Starts the recorder's thread.
pub(crate) fn spawn(
    recorder: Recorder,
    snapshots: Receiver<Snapshot>,
    control: Arc<Control>,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    let run = move || recorder.run(&snapshots, &control);
    std::thread::Builder::new().name("checkpoints".into()).spawn(run)
}

//! A checkpoint, indexed for the tasks of a worker that resume from it. Files are read by the tasks that need
//! them.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::{EventTime, KeyGroupRange, OperatorId, OperatorKind, Result, StageId};
use anabranch_operators::{Committable, Positions};
use anabranch_state::{Prepared, StateFile, Store, TaskState, read_rows};
use arrow::array::RecordBatch;
use bytes::Bytes;

/// A checkpoint, by the identities of a plan's parts.
#[derive(Debug, Default)]
pub(crate) struct JobState {
    /// Largest number of tasks of a stage.
    pub(crate) parallelism: u32,
    pub(crate) sources: BTreeMap<OperatorId, RestoredSource>,
    pub(crate) operators: BTreeMap<OperatorId, RestoredOperator>,
    /// Prepared results of sinks, oldest first.
    pub(crate) sinks: BTreeMap<OperatorId, RestoredSink>,
}

/// The positions of a table's readers, of all tasks together.
#[derive(Clone, Debug, Default)]
pub(crate) struct RestoredSource {
    pub(crate) positions: Positions,
    pub(crate) watermarks: BTreeMap<String, EventTime>,
    /// [Identity](crate::task::event_time::identity) of that event time.
    pub(crate) event_time: Option<String>,
    pub(crate) dead_letters: RestoredSink,
    pub(crate) late_rows: RestoredSink,
}

/// The prepared results of a sink, of all tasks together.
#[derive(Clone, Debug, Default)]
pub(crate) struct RestoredSink {
    store: Option<Store>,
    /// Oldest first.
    prepared: Vec<Prepared>,
}

impl RestoredSink {
    pub(crate) fn is_empty(&self) -> bool {
        self.prepared.is_empty()
    }

    /// The share of a task, oldest first.
    pub(crate) fn of_task(&self, index: u32, parallelism: u32) -> impl Iterator<Item = Result<Committable>> {
        let own = self.prepared.iter().filter(move |prepared| prepared.task % parallelism == index);
        own.zip(self.store.iter().cycle()).map(|(prepared, store)| {
            let content = store.get_blob(&prepared.blob)?;
            Ok(Committable { epoch: prepared.epoch, task: prepared.task, content })
        })
    }

    fn add(&mut self, store: &Store, prepared: &[Prepared]) {
        self.store.get_or_insert_with(|| store.clone());
        self.prepared.extend_from_slice(prepared);
        self.prepared.sort_by_key(|prepared| prepared.epoch);
    }
}

/// State of an operator, of all its tasks together.
#[derive(Clone, Debug)]
pub(crate) struct RestoredOperator {
    /// Event time that every task had reached.
    pub(crate) watermark: EventTime,
    store: Store,
    /// Oldest first; the files of one task follow those of another.
    files: Vec<StateFile>,
}

/// A file of state, as one task refers to it: its name, and the first key group of its rows that belong to
/// the state.
pub(crate) type FileOfTask = (String, u16);

impl RestoredOperator {
    /// The files with rows of these key groups, each with the key groups that both have.
    pub(crate) fn files(&self, own: KeyGroupRange) -> impl Iterator<Item = (&StateFile, KeyGroupRange)> {
        let share = move |file: &StateFile| file.key_groups.and(own);
        self.files.iter().map(move |file| (file, share(file))).filter(|(_, share)| *share != KeyGroupRange::EMPTY)
    }

    /// Without files that were read. `None` if some of those do not belong to this state.
    pub(crate) fn without(&self, read: &BTreeSet<FileOfTask>) -> Option<RestoredOperator> {
        let left = |file: &&StateFile| !read.contains(&of_task(file));
        let files: Vec<StateFile> = self.files.iter().filter(left).cloned().collect();
        let has_all = self.files.len() - files.len() == read.len();
        has_all.then(|| RestoredOperator { watermark: self.watermark, store: self.store.clone(), files })
    }

    /// A file's content, in the given memory if possible.
    pub(crate) fn content(&self, file: &StateFile, room: Vec<u8>) -> Result<Bytes> {
        self.store.get_blob_in(&file.blob, room)
    }

    /// The rows of a file with this content, a batch at a time.
    pub(crate) fn rows(&self, file: &StateFile, content: Bytes) -> impl Iterator<Item = Result<RecordBatch>> + use<> {
        let place = format!("{}/{}", self.store.place(), file.blob.name);
        read_rows(content).map(move |rows| rows.map_err(|error| error.at(place.clone())))
    }
}

/// The identity of a file of state among the files of an operator.
pub(crate) fn of_task(file: &StateFile) -> FileOfTask {
    (file.blob.name.clone(), file.key_groups.first)
}

impl JobState {
    /// Whether there is nothing to resume from.
    pub(crate) fn is_empty(&self) -> bool {
        self.operators.is_empty() && self.sinks.is_empty() && self.sources.is_empty()
    }

    /// The snapshots of all tasks together.
    pub(crate) fn from_tasks<'a>(store: &Store, tasks: impl Iterator<Item = &'a TaskState> + Clone) -> JobState {
        let mut parallelism: BTreeMap<StageId, u32> = BTreeMap::new();
        for task in tasks.clone() {
            let tasks = parallelism.entry(task.task.stage).or_default();
            *tasks = (*tasks).max(task.task.index + 1);
        }
        let mut state =
            JobState { parallelism: parallelism.values().copied().max().unwrap_or(0), ..JobState::default() };
        for task in tasks {
            state.add(store, task);
        }
        state
    }

    /// Adds a task's snapshot.
    fn add(&mut self, store: &Store, task: &TaskState) {
        let id = |kind, number| OperatorId { kind, number };
        if let Some(source) = &task.source {
            let restored = self.sources.entry(id(OperatorKind::Source, source.number)).or_default();
            restored.positions.extend(source.positions.clone());
            restored.event_time.clone_from(&source.event_time);
            let watermarks = source.watermarks_ms.iter();
            restored.watermarks.extend(watermarks.map(|(name, ms)| (name.clone(), EventTime(*ms))));
            restored.dead_letters.add(store, &source.dead_letters);
            restored.late_rows.add(store, &source.late_rows);
        }
        for operator in &task.operators {
            let watermark = EventTime(operator.watermark_ms);
            let none = RestoredOperator { watermark, store: store.clone(), files: Vec::new() };
            let restored = self.operators.entry(id(OperatorKind::State, operator.number)).or_insert(none);
            restored.watermark = restored.watermark.min(watermark);
            restored.files.extend_from_slice(&operator.files);
        }
        if let Some(sink) = &task.sink {
            self.sinks.entry(id(OperatorKind::Sink, sink.number)).or_default().add(store, &sink.prepared);
        }
    }
}

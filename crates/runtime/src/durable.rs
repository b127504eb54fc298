//! Taking a job over: who owns it is decided in the log, what it goes on from by the newest checkpoint that is whole.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anabranch_dataflow::Plan;
use anabranch_model::{Epoch, Error, ErrorKind, EventTime, Incarnation, PartitionId, Result};
use anabranch_operators::{Committable, Positions};
use anabranch_protocol::CheckpointConfig;

use anabranch_state::{Appended, Blob, Entry, Log, Manifest, Prepared, Store, TaskState, decode_manifest, decode_rows};

use arrow::array::RecordBatch;

use crate::outline::Outline;
use crate::recorder::{Kept, Recorder};

/// Checkpoints in a row that may fail.
const FAILURES_TOLERATED: u32 = 3;

/// How a job keeps checkpoints.
#[derive(Clone, Debug)]
pub struct Checkpointing {
    /// Where.
    pub store: Store,
    /// Time between the beginnings of two checkpoints.
    pub interval: Duration,
    /// Time that one may take before it is given up.
    pub timeout: Duration,
    /// Name of the job if it does not go on from a checkpoint: no other job that ever wrote to the same places has it.
    pub new_job: String,
}

/// A job taken over from the incarnations before.
pub struct TakenOver {
    pub(crate) checkpointing: Checkpointing,
    pub(crate) recorder: Recorder,
    /// The epoch behind which the job goes on.
    pub(crate) after: Epoch,
    pub(crate) state: JobState,
    /// Why newer checkpoints than the one used could not be.
    damaged: Vec<Error>,
}

impl Checkpointing {
    pub(crate) fn config(&self) -> CheckpointConfig {
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        CheckpointConfig {
            interval_ns: ns(self.interval),
            timeout_ns: ns(self.timeout),
            failures_tolerated: FAILURES_TOLERATED,
        }
    }

    /// Takes the job over: whoever ran it before can commit nothing from here on. Reads the newest checkpoint that is whole.
    pub fn take_over(self, plan: &Plan) -> Result<TakenOver> {
        let (log, outline) = (Log::new(self.store.clone()), Outline::new(plan));
        let (incarnation, sequence) = begin(&log)?;
        let entries = log.entries()?;
        let checkpoints = entries.iter().filter_map(|(sequence, entry)| match entry {
            Entry::Checkpoint { manifest, .. } => Some((*sequence, manifest)),
            Entry::Begins { .. } => None,
        });
        let checkpoints: Vec<_> = checkpoints.collect();
        let (mut kept, mut damaged, mut found) = (Vec::new(), Vec::new(), None);
        for (number, blob) in checkpoints.iter().rev() {
            match load(&self.store, blob, &outline) {
                Ok((manifest, state)) => {
                    let names = manifest.names().chain([blob.name.clone()]).collect();
                    kept.insert(0, Kept { sequence: *number, names });
                    found.get_or_insert((manifest, state));
                }
                // What cannot be read may be damaged; what does not fit the query is for the user to decide.
                Err(error) if error.kind() == ErrorKind::Outside => damaged.push(error),
                Err(error) => return Err(error),
            }
        }
        if found.is_none()
            && let Some(error) = damaged.pop()
        {
            return Err(error);
        }
        remove_strays(&self.store, &kept, incarnation)?;
        for (number, _) in
            entries.iter().filter(|(number, _)| kept.first().is_some_and(|first| *number < first.sequence))
        {
            log.remove(*number)?;
        }
        let (job, after, state) = match found {
            // Epochs come a second time whose results are visible already: they must not be taken for the same.
            Some((manifest, state)) if !damaged.is_empty() => {
                (format!("{}-{}", manifest.job, incarnation.0), manifest.epoch, state)
            }
            Some((manifest, state)) => (manifest.job, manifest.epoch, state),
            None => (self.new_job.clone(), Epoch(0), JobState::default()),
        };
        let recorder = Recorder::new(self.store.clone(), job, outline, incarnation, sequence, kept);
        Ok(TakenOver { checkpointing: self, recorder, after, state, damaged })
    }
}

impl TakenOver {
    /// The epoch whose checkpoint the job goes on from, if there is one.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        (self.after > Epoch(0)).then_some(self.after)
    }

    /// Name of the job.
    #[must_use]
    pub fn job(&self) -> &str {
        &self.recorder.job
    }

    /// Which start of the job this is.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        self.recorder.incarnation
    }

    /// Why checkpoints that are newer than the one used could not be.
    #[must_use]
    pub fn damaged(&self) -> &[Error] {
        &self.damaged
    }
}

/// Appends the next incarnation to the log. Returns it with the number of the entry that follows.
fn begin(log: &Log) -> Result<(Incarnation, u64)> {
    loop {
        let entries = log.entries()?;
        let incarnation = |entry: &Entry| match entry {
            Entry::Begins { incarnation } | Entry::Checkpoint { incarnation, .. } => incarnation.0,
        };
        let next = Incarnation(entries.iter().map(|(_, entry)| incarnation(entry)).max().unwrap_or(0) + 1);
        let sequence = entries.last().map_or(1, |(sequence, _)| sequence + 1);
        // Somebody else may be as quick: then the log is longer, and the next number is tried.
        let entry = Entry::Begins { incarnation: next };
        if log.append(sequence, &entry)? == Appended::Last {
            log.check_refusal(sequence, &entry)?;
            return Ok((next, sequence + 1));
        }
    }
}

/// A checkpoint in memory, by the numbers of the plan's outline.
#[derive(Debug, Default)]
pub(crate) struct JobState {
    pub(crate) sources: BTreeMap<usize, RestoredSource>,
    pub(crate) operators: BTreeMap<usize, RestoredOperator>,
    /// What sinks have prepared, oldest first.
    pub(crate) sinks: BTreeMap<usize, Vec<Committable>>,
}

/// Where all tasks together stood that read a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct RestoredSource {
    pub(crate) positions: Positions,
    pub(crate) watermarks: BTreeMap<PartitionId, EventTime>,
    pub(crate) dead_letters: Vec<Committable>,
}

/// State of an operator in all its tasks together.
#[derive(Clone, Debug)]
pub(crate) struct RestoredOperator {
    /// Event time that every task had reached.
    pub(crate) watermark: EventTime,
    pub(crate) rows: Vec<RecordBatch>,
}

/// Reads a checkpoint as a whole.
fn load(store: &Store, manifest: &Blob, outline: &Outline) -> Result<(Manifest, JobState)> {
    let at = |error: Error| error.at(format!("{}/{}", store.place(), manifest.name));
    let manifest = decode_manifest(&store.get_blob(manifest)?).map_err(at)?;
    check_fits(&manifest, outline).map_err(at)?;
    let mut state = JobState::default();
    for task in &manifest.tasks {
        add_task(store, &mut state, task)?;
    }
    let dead_letters = state.sources.values_mut().map(|source| &mut source.dead_letters);
    for prepared in state.sinks.values_mut().chain(dead_letters) {
        prepared.sort_by_key(|committable| committable.epoch);
    }
    Ok((manifest, state))
}

fn add_task(store: &Store, state: &mut JobState, task: &TaskState) -> Result<()> {
    let read = |prepared: &Prepared| -> Result<Committable> {
        let content = store.get_blob(&prepared.blob)?.to_vec();
        Ok(Committable { epoch: prepared.epoch, task: prepared.task, content })
    };
    if let Some(source) = &task.source {
        let restored = state.sources.entry(source.number).or_default();
        restored.positions.extend(source.positions.clone());
        let watermarks = source.watermarks_ms.iter();
        restored.watermarks.extend(watermarks.map(|(id, ms)| (PartitionId(*id), EventTime(*ms))));
        for prepared in &source.dead_letters {
            restored.dead_letters.push(read(prepared)?);
        }
    }
    for operator in &task.operators {
        let watermark = EventTime(operator.watermark_ms);
        let none = RestoredOperator { watermark, rows: Vec::new() };
        let restored = state.operators.entry(operator.number).or_insert(none);
        restored.watermark = restored.watermark.min(watermark);
        for file in &operator.files {
            let content = store.get_blob(&file.blob)?;
            let rows = decode_rows(&content).map_err(|e| e.at(format!("{}/{}", store.place(), file.blob.name)))?;
            restored.rows.extend(rows);
        }
    }
    if let Some(sink) = &task.sink {
        let restored = state.sinks.entry(sink.number).or_default();
        for prepared in &sink.prepared {
            restored.push(read(prepared)?);
        }
    }
    Ok(())
}

/// What has state must be what had it: then every part of the checkpoint is taken up, and nothing begins empty.
fn check_fits(manifest: &Manifest, outline: &Outline) -> Result<()> {
    let (now, then) = (&outline.lines, &manifest.outline);
    if now == then {
        return Ok(());
    }
    let missing = |a: &[String], b: &[String]| a.iter().filter(|line| !b.contains(line)).cloned().collect::<Vec<_>>();
    let (lost, new) = (missing(then, now), missing(now, then));
    Err(Error::user(format!(
        "the checkpoint is of another query: it has state of [{}], the query has [{}] instead",
        lost.join("; "),
        new.join("; ")
    ))
    .remedy("go on with the query that wrote it, or give the job a new place for its checkpoints"))
}

/// Removes what earlier incarnations have left: files of no checkpoint. Files of later ones are none of our business, should we
/// have lost the job already.
fn remove_strays(store: &Store, kept: &[Kept], own: Incarnation) -> Result<()> {
    let earlier = |name: &str| {
        let file = name.rsplit('/').next()?;
        Some(file.split_once('-')?.0.parse::<u64>().ok()? < own.0)
    };
    let needed: BTreeSet<&str> = kept.iter().flat_map(|kept| &kept.names).map(String::as_str).collect();
    store.keep_copies(|name| needed.contains(name));
    for folder in ["state", "prepared", "manifests"] {
        let names = store.list(folder)?;
        for name in names.iter().filter(|name| !needed.contains(name.as_str()) && earlier(name) == Some(true)) {
            store.delete(name)?;
        }
    }
    Ok(())
}

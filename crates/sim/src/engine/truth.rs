//! The truth about a run, as no process in it knows it, and the checks against it.
//!
//! Output up to a checkpoint is a function of the inputs up to its positions. So for every checkpoint that gets into the log
//! the same query is run straight over just these inputs, on one task per stage and with nothing going wrong, and what
//! all checkpoints so far hold together must be just its rows. What becomes visible must be held by a checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch_dataflow::Plan;
use anabranch_model::{Clock, Epoch, Error, Incarnation, ManualClock, Result, TaskId};
use anabranch_operators::Positions;
use anabranch_runtime::stepped::SteppedJob;
use anabranch_state::{Blob, Entry, Manifest, Store, decode_manifest};

use super::outside::{Happened, Name, ProcessId, Shared};
use super::query::Contents;
use super::tables::{CLOSED, END, Readers, Tables, count};

/// Rounds in which a straight run has to end.
const ROUNDS: u64 = 100_000;

/// An invariant by name, and how it was broken.
pub(crate) type Checked = std::result::Result<(), (&'static str, String)>;

/// Rows, and how often each occurs.
type Counts = BTreeMap<String, usize>;

/// What is so.
pub(crate) struct Truth {
    contents: Arc<Contents>,
    /// Of the query, on one task per stage.
    plan: Plan,
    /// Tasks of each process's plan.
    tasks: BTreeMap<ProcessId, BTreeSet<TaskId>>,
    /// The process of each incarnation that began.
    began: BTreeMap<Incarnation, ProcessId>,
    /// Entries by number, as first written.
    log: BTreeMap<u64, Vec<u8>>,
    newest: Incarnation,
    ended: bool,
    newest_checkpoint: Epoch,
    pub(crate) checkpoints: u64,
    committed: BTreeSet<(Incarnation, Epoch)>,
    /// What sinks have prepared under checkpoints that are in the log.
    held: BTreeMap<Name, Vec<u8>>,
    straight: BTreeMap<Positions, Counts>,
}

impl Truth {
    pub(crate) fn new(contents: Arc<Contents>, plan: Plan) -> Self {
        Truth {
            contents,
            plan,
            tasks: BTreeMap::new(),
            began: BTreeMap::new(),
            ended: false,
            log: BTreeMap::new(),
            newest: Incarnation(0),
            newest_checkpoint: Epoch(0),
            checkpoints: 0,
            committed: BTreeSet::new(),
            held: BTreeMap::new(),
            straight: BTreeMap::new(),
        }
    }

    /// A process reaches for the job with this plan.
    pub(crate) fn starts(&mut self, process: ProcessId, plan: &Plan) {
        let tasks = |stage: &anabranch_dataflow::Stage| {
            let stage_id = stage.id;
            (0..stage.parallelism).map(move |index| TaskId { stage: stage_id, index })
        };
        self.tasks.insert(process, plan.stages.iter().flat_map(tasks).collect());
    }

    pub(crate) fn incarnations(&self) -> u64 {
        self.began.len() as u64
    }

    pub(crate) fn has_committed(&self, incarnation: Incarnation, epoch: Epoch) -> bool {
        self.committed.contains(&(incarnation, epoch))
    }

    /// The process that an incarnation is of.
    pub(crate) fn process_of(&self, incarnation: Incarnation) -> Option<ProcessId> {
        self.began.get(&incarnation).copied()
    }

    /// The process that has the job.
    pub(crate) fn owner(&self) -> Option<ProcessId> {
        self.began.get(&self.newest).copied()
    }

    /// Something has happened outside.
    pub(crate) fn observe(&mut self, happened: &Happened, shared: &Shared) -> Checked {
        match happened {
            Happened::Logged { by, name, content, replaced } => self.logged(*by, name, content, *replaced, shared),
            Happened::Committed { name, content } => match self.held.get(name) {
                Some(held) if held == content => Ok(()),
                Some(_) => Err(("prefix", format!("{name:?} becomes visible with other rows than were prepared"))),
                None => Err(("prefix", format!("{name:?} becomes visible, and no checkpoint holds it"))),
            },
            Happened::MayGiveUp(epoch) if *epoch > self.newest_checkpoint => Err((
                "give-up",
                format!("a source may give up {epoch}; the newest checkpoint is {}", self.newest_checkpoint),
            )),
            Happened::MayGiveUp(_) => Ok(()),
        }
    }

    fn logged(&mut self, by: ProcessId, name: &str, content: &[u8], replaced: bool, shared: &Shared) -> Checked {
        let number = name.rsplit('/').next().and_then(|file| file.strip_suffix(".json")?.parse::<u64>().ok());
        let Some(number) = number else { return Err(("commit", format!("the log has the entry '{name}'"))) };
        if replaced {
            return match self.log.get(&number).is_some_and(|first| first == content) {
                true => Ok(()),
                false => Err(("commit", format!("entry {number} was written over"))),
            };
        }
        if self.log.last_key_value().is_some_and(|(last, _)| number <= *last) {
            // Freed and taken again by somebody who slept: it takes it back, or is passed over for those behind it.
            return Ok(());
        }
        self.log.insert(number, content.to_vec());
        let entry: Entry = match serde_json::from_slice(content) {
            Ok(entry) => entry,
            Err(error) => return Err(("commit", format!("entry {number} cannot be read: {error}"))),
        };
        match entry {
            _ if self.ended => Err(("fencing", format!("{entry:?} comes after the job has ended"))),
            Entry::Begins { incarnation, .. } if incarnation <= self.newest => {
                Err(("fencing", format!("incarnation {} begins after {}", incarnation.0, self.newest.0)))
            }
            Entry::Begins { incarnation, .. } => {
                self.newest = incarnation;
                self.began.insert(incarnation, by);
                Ok(())
            }
            Entry::Checkpoint { incarnation, .. } | Entry::Ended { incarnation } if incarnation != self.newest => {
                Err(("fencing", format!("{entry:?} comes after incarnation {} began", self.newest.0)))
            }
            Entry::Ended { .. } => {
                self.ended = true;
                self.finished(shared)
            }
            Entry::Checkpoint { epoch, .. } if epoch <= self.newest_checkpoint => {
                Err(("commit", format!("{epoch} is committed after {}", self.newest_checkpoint)))
            }
            Entry::Checkpoint { incarnation, epoch, manifest } => {
                self.newest_checkpoint = epoch;
                self.committed.insert((incarnation, epoch));
                self.checkpoints += 1;
                self.checkpoint(&manifest, shared)
            }
        }
    }

    fn checkpoint(&mut self, blob: &Blob, shared: &Shared) -> Checked {
        let store = Store::new(shared.lock().objects.clone(), "the truth");
        let broken = |error: Error| ("commit", error.to_string());
        let manifest = store.get_blob(blob).and_then(|content| decode_manifest(&content)).map_err(broken)?;
        let tasks: BTreeSet<TaskId> = manifest.tasks.iter().map(|task| task.task).collect();
        let expected = self.began.get(&manifest.incarnation).and_then(|process| self.tasks.get(process));
        if expected != Some(&tasks) || tasks.len() != manifest.tasks.len() {
            return Err(("commit", format!("the checkpoint of {} is not of every task once", manifest.epoch)));
        }
        self.hold(&store, &manifest)?;
        let mut positions = Positions::new();
        for (partition, position) in manifest.tasks.iter().flat_map(|t| &t.source).flat_map(|s| &s.positions) {
            if positions.insert(partition.clone(), position.clone()).is_some() {
                return Err(("commit", format!("{partition} has two positions at {}", manifest.epoch)));
            }
        }
        self.compare(&positions, &format!("{} of incarnation {}", manifest.epoch, manifest.incarnation.0))
    }

    /// Every file is whole; what sinks have prepared is held from now on.
    fn hold(&mut self, store: &Store, manifest: &Manifest) -> Checked {
        let broken = |error: Error| ("commit", error.to_string());
        for task in &manifest.tasks {
            for file in task.operators.iter().flat_map(|operator| &operator.files) {
                store.get_blob(&file.blob).map_err(broken)?;
            }
            let rows = task.sink.iter().flat_map(|sink| sink.prepared.iter().map(|p| (format!("{}", sink.number), p)));
            let dead = task
                .source
                .iter()
                .flat_map(|source| source.dead_letters.iter().map(|p| (format!("malformed-{}", source.number), p)));
            for (table, prepared) in rows.chain(dead) {
                let content = store.get_blob(&prepared.blob).map_err(broken)?.to_vec();
                let name = (format!("{}-{table}", manifest.job), prepared.task, prepared.epoch);
                let first = self.held.entry(name.clone()).or_insert_with(|| content.clone());
                if *first != content {
                    return Err(("commit", format!("{name:?} was prepared twice, with different rows")));
                }
            }
        }
        Ok(())
    }

    /// What the checkpoints so far hold is what the inputs up to these positions give.
    fn compare(&mut self, positions: &Positions, what: &str) -> Checked {
        let (least, most) = (self.straight(self.bound(positions, false))?, self.straight(self.bound(positions, true))?);
        let texts: Vec<_> = self.held.values().map(|content| String::from_utf8_lossy(content)).collect();
        let held = count(texts.iter().flat_map(|text| text.lines()));
        let more = |a: &Counts, b: &Counts| -> Vec<String> {
            let more = a.iter().filter(|(row, times)| b.get(*row).copied().unwrap_or(0) < **times);
            more.take(5).map(|(row, times)| format!("{row} ({times})")).collect()
        };
        let (surplus, missing) = (more(&held, &most), more(&least, &held));
        match surplus.is_empty() && missing.is_empty() {
            true => Ok(()),
            false => {
                Err(("prefix", format!("{what}, at {positions:?}: too much is {surplus:?}, missing is {missing:?}")))
            }
        }
    }

    /// Positions say where event time is, but for a table whose partitions have all closed while a reader has not said yet
    /// that this was its end: then it is anywhere behind the last rows.
    fn bound(&self, positions: &Positions, most: bool) -> Positions {
        let mut bound = positions.clone();
        for (table, partitions) in self.contents.iter() {
            let names: Vec<String> = (0..partitions.len()).map(|id| format!("{table}/{id}")).collect();
            let at = |name: &String| positions.get(name).map_or("", String::as_str);
            if names.iter().all(|name| matches!(at(name), CLOSED | END)) && names.iter().any(|name| at(name) == CLOSED)
            {
                let rows = partitions.iter().map(|partition| partition.rows.num_rows().to_string());
                bound.extend(names.into_iter().zip(rows.map(|rows| if most { END.to_owned() } else { rows })));
            }
        }
        bound
    }

    /// The rows of a straight run up to these positions.
    fn straight(&mut self, positions: Positions) -> std::result::Result<Counts, (&'static str, String)> {
        if let Some(known) = self.straight.get(&positions) {
            return Ok(known.clone());
        }
        let counts = straight(&self.plan, &self.contents, &positions);
        let counts = counts.map_err(|error| ("straight", format!("the straight run fails: {error}")))?;
        self.straight.insert(positions, counts.clone());
        Ok(counts)
    }

    /// Sinks of the newest incarnation have been opened: what the checkpoints hold is visible.
    pub(crate) fn restored(&self, shared: &Shared) -> Checked {
        let outside = shared.lock();
        match self.held.keys().find(|name| !outside.visible.contains_key(*name)) {
            None => Ok(()),
            Some(name) => Err(("restore", format!("{name:?} is not visible though its checkpoint was taken up"))),
        }
    }

    /// The job has come to its end.
    pub(crate) fn finished(&mut self, shared: &Shared) -> Checked {
        self.restored(shared)?;
        let ends = self.contents.iter().flat_map(|(table, partitions)| {
            (0..partitions.len()).map(move |id| (format!("{table}/{id}"), END.to_owned()))
        });
        self.compare(&ends.collect(), "the end")
    }
}

/// Runs a query over the inputs up to these positions.
fn straight(plan: &Plan, contents: &Arc<Contents>, upto: &Positions) -> Result<Counts> {
    let shared = Shared::new(0);
    shared.lock().poll_rows = usize::MAX;
    let mut upto = upto.clone();
    // Static tables are read to their ends at every start.
    upto.extend((0..contents["dims"].len()).map(|id| (format!("dims/{id}"), END.to_owned())));
    let readers = Readers { upto: Some(Arc::new(upto)), ..Readers::default() };
    let tables = Tables { shared: shared.clone(), process: 0, contents: Arc::clone(contents), readers };
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let job = SteppedJob::start(plan, &tables.connectors(), &clock, None, None)?;
    let mut job = job.ok_or_else(|| Error::internal("a job without checkpoints has not ended before"))?;
    let sources = job.metrics().iter().filter(|task| task.is_source).count();
    let mut stopped = false;
    for _ in 0..ROUNDS {
        for task in 0..job.tasks() {
            for channel in 0..job.channels(task).max(1) {
                job.step(task, channel);
            }
        }
        while job.coordinate() {}
        if !stopped && shared.lock().dry.len() == sources {
            stopped = true;
            job.handle().stop();
        }
        if let Some(outcome) = job.outcome() {
            outcome?;
            return Ok(count(shared.lock().written.iter().map(String::as_str)));
        }
    }
    Err(Error::internal("the straight run does not end"))
}

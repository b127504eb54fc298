//! The truth about a run, which no process in it knows, and the checks against it.
//!
//! Output up to a checkpoint is a function of the inputs up to its positions. So for every checkpoint in the
//! log the same query is run over just these inputs, on one task per stage and without failures. The contents
//! of all checkpoints so far together must be exactly its rows: what was added, without what was taken back.
//! Everything that becomes visible must be contained in a checkpoint.

mod straight;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch_dataflow::Plan;
use anabranch_model::{Epoch, Error, Incarnation, PlanVersion, TaskId};
use anabranch_operators::Positions;
use anabranch_state::{Blob, Entry, Manifest, Store, decode_manifest};

use super::outside::{Happened, Name, ProcessId, Shared, SinkId};
use super::query::Contents;
use super::tables::{CLOSED, END, LAST, count, partition_name, prepared};

use crate::{Checked, Seen};

pub(crate) use straight::Reference;

/// Rows, and how often each occurs.
pub(crate) type Counts = BTreeMap<String, i64>;

/// What a sink has prepared, and the first checkpoint, counted from 1, that contains it.
struct Held {
    content: Vec<u8>,
    since: u64,
}

/// A checkpoint that is in the log.
struct Committed {
    number: u64,
    epoch: Epoch,
    /// Name of its entry in the log.
    entry: String,
    /// Names of its manifest and of all objects that it names.
    objects: BTreeSet<String>,
}

/// The true state of a run.
pub(crate) struct Truth {
    contents: Arc<Contents>,
    reference: Reference,
    /// Tasks of each plan that a process may run.
    tasks: BTreeMap<ProcessId, Vec<BTreeSet<TaskId>>>,
    /// Tasks of each incarnation's plan.
    ran: BTreeMap<Incarnation, BTreeSet<TaskId>>,
    /// The process of each incarnation that began.
    began: BTreeMap<Incarnation, ProcessId>,
    /// The process that has the job.
    pub(crate) owner: Option<ProcessId>,
    /// It has adopted the newest incarnation, whose tasks have restored nothing.
    pub(crate) adopted: bool,
    /// Incarnations that began after one that was adopted, by the same process and the same plan.
    pub(crate) restarted: Vec<Incarnation>,
    /// The newest version of the plan.
    version: PlanVersion,
    /// Entries by number, as first written.
    log: BTreeMap<u64, Vec<u8>>,
    /// Name of the last one.
    last_entry: String,
    newest: Incarnation,
    ended: bool,
    newest_checkpoint: Epoch,
    pub(crate) checkpoints: u64,
    /// Each with its number, counted from 1, and the process that has committed it.
    committed: BTreeMap<(Incarnation, Epoch), (u64, ProcessId)>,
    /// The newest checkpoint, and the one before.
    newest_two: [Option<Committed>; 2],
    /// What sinks have prepared under checkpoints that are in the log.
    held: BTreeMap<Name, Held>,
    /// Results of the job whose savepoint this one started from.
    base: Counts,
    /// A partition with idle readers while it stays open.
    quiet: Option<String>,
    /// For a job without checkpoints, the last epoch that a source was notified of.
    given_up: Epoch,
    /// The first epoch that a sink failed to write.
    not_handed_over: Option<(SinkId, Epoch)>,
    /// What has happened, as far as others do not know it.
    pub(crate) seen: Seen,
    /// Some row was taken back.
    takes_back: bool,
    straight: BTreeMap<Positions, Counts>,
}

impl Truth {
    pub(crate) fn new(contents: Arc<Contents>, reference: Reference, base: Counts, quiet: Option<String>) -> Self {
        Truth {
            contents,
            reference,
            tasks: BTreeMap::new(),
            ran: BTreeMap::new(),
            began: BTreeMap::new(),
            owner: None,
            adopted: false,
            restarted: Vec::new(),
            version: PlanVersion(1),
            ended: false,
            log: BTreeMap::new(),
            last_entry: String::new(),
            newest: Incarnation(0),
            newest_checkpoint: Epoch(0),
            checkpoints: 0,
            committed: BTreeMap::new(),
            newest_two: [None, None],
            held: BTreeMap::new(),
            base,
            quiet,
            given_up: Epoch(0),
            not_handed_over: None,
            seen: Seen::default(),
            takes_back: false,
            straight: BTreeMap::new(),
        }
    }

    /// A process tries to take the job over with this plan, or may change to it.
    pub(crate) fn may_run(&mut self, process: ProcessId, plan: &Plan) {
        let tasks = |stage: &anabranch_dataflow::Stage| {
            let stage_id = stage.id;
            (0..stage.parallelism).map(move |index| TaskId { stage: stage_id, index })
        };
        self.tasks.entry(process).or_default().push(plan.stages.iter().flat_map(tasks).collect());
    }

    pub(crate) fn incarnations(&self) -> u64 {
        self.began.len() as u64
    }

    /// Results that a checkpoint and all before it contain, with those that the job started with.
    pub(crate) fn results_of(&self, incarnation: Incarnation, epoch: Epoch) -> Option<Counts> {
        let (number, _) = *self.committed.get(&(incarnation, epoch))?;
        Some(self.results(|held| held.since <= number))
    }

    fn results(&self, which: impl Fn(&Held) -> bool) -> Counts {
        let mut counts = self.base.clone();
        for held in self.held.values().filter(|held| which(held)) {
            count(String::from_utf8_lossy(&held.content).lines(), &mut counts);
        }
        counts
    }

    /// Objects that the newest checkpoint has and the one before has not, if there are both. Its entry is
    /// among them if that is the last one of the log.
    pub(crate) fn only_of_newest(&self) -> Vec<String> {
        match &self.newest_two {
            [Some(newest), Some(before)] if !self.ended => {
                let entry = Some(&newest.entry).filter(|entry| **entry == self.last_entry);
                newest.objects.difference(&before.objects).chain(entry).cloned().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Entries of the log in front of that of the newest checkpoint.
    pub(crate) fn entries_before_newest(&self, shared: &Shared) -> Vec<String> {
        let Some(newest) = self.newest_two[0].as_ref().filter(|_| !self.ended) else { return Vec::new() };
        let store = Store::new(shared.lock().objects.clone(), "the truth");
        let names = store.list("log").unwrap_or_default();
        names.into_iter().filter(|name| *name < newest.entry).collect()
    }

    /// The newest checkpoint is lost: the job resumes from the one before. Results that only the lost one
    /// contained may be visible, and will be computed again.
    pub(crate) fn lost_newest(&mut self) {
        let Some(before) = self.newest_two[1].take() else { return };
        self.held.retain(|_, held| held.since <= before.number);
        self.newest_checkpoint = before.epoch;
        self.newest_two[0] = Some(before);
    }

    /// The process that has committed a checkpoint.
    pub(crate) fn committer_of(&self, incarnation: Incarnation, epoch: Epoch) -> Option<ProcessId> {
        self.committed.get(&(incarnation, epoch)).map(|(_, process)| *process)
    }

    /// Handles an event of the surroundings.
    pub(crate) fn observe(&mut self, happened: &Happened, shared: &Shared) -> Checked {
        match happened {
            Happened::Logged { by, name, content, replaced } => self.logged(*by, name, content, *replaced, shared),
            Happened::Committed { name, content } => match self.held.get(name) {
                Some(held) if held.content == *content && shared.lock().visible.get(name) == Some(content) => Ok(()),
                Some(_) => Err(("prefix", format!("{name:?} becomes visible with other rows than were prepared"))),
                None => Err(("prefix", format!("{name:?} becomes visible, and no checkpoint holds it"))),
            },
            Happened::MayGiveUp(epoch) if self.began.is_empty() => {
                self.given_up = self.given_up.max(*epoch);
                self.check_given_up()
            }
            Happened::HandedOver { sink, epoch, done } if *done && *epoch <= self.given_up => {
                Err(("give-up", format!("{sink:?} writes {epoch}, which a source may have released before")))
            }
            Happened::HandedOver { done: true, .. } => Ok(()),
            Happened::HandedOver { sink, epoch, .. } => {
                self.not_handed_over.get_or_insert((sink.clone(), *epoch));
                self.check_given_up()
            }
            Happened::MayGiveUp(epoch) if *epoch > self.newest_checkpoint => Err((
                "give-up",
                format!("a source may release {epoch}; the newest checkpoint is {}", self.newest_checkpoint),
            )),
            Happened::MayGiveUp(_) => Ok(()),
        }
    }

    /// In a job without checkpoints, a source may release what every sink has written.
    fn check_given_up(&self) -> Checked {
        match &self.not_handed_over {
            Some((sink, epoch)) if *epoch <= self.given_up => Err((
                "give-up",
                format!("a source may release {}, and {sink:?} failed to write {epoch}", self.given_up),
            )),
            _ => Ok(()),
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
            // The number was freed, and used again by a suspended process: that process finds later entries,
            // so its own has no effect.
            return Ok(());
        }
        self.log.insert(number, content.to_vec());
        name.clone_into(&mut self.last_entry);
        let entry: Entry = match serde_json::from_slice(content) {
            Ok(entry) => entry,
            Err(error) => return Err(("commit", format!("entry {number} cannot be read: {error}"))),
        };
        match entry {
            _ if self.ended => Err(("fencing", format!("{entry:?} comes after the job has ended"))),
            Entry::Begins { incarnation, .. } if incarnation <= self.newest => {
                Err(("fencing", format!("incarnation {} begins after {}", incarnation.0, self.newest.0)))
            }
            Entry::Begins { incarnation, version, .. } => {
                if self.adopted && self.owner == Some(by) && version == self.version {
                    self.restarted.push(self.newest);
                }
                (self.newest, self.version, self.owner, self.adopted) = (incarnation, version, Some(by), false);
                self.began.insert(incarnation, by);
                Ok(())
            }
            Entry::Adopts { incarnation, .. }
            | Entry::Checkpoint { incarnation, .. }
            | Entry::Ended { incarnation }
                if incarnation != self.newest =>
            {
                Err(("fencing", format!("{entry:?} comes after incarnation {} began", self.newest.0)))
            }
            Entry::Adopts { .. } => {
                (self.owner, self.adopted) = (Some(by), true);
                self.seen.add("adoptions", 1);
                self.seen.add("adoptions of a changed plan", u64::from(self.version > PlanVersion(1)));
                Ok(())
            }
            entry if self.owner != Some(by) => {
                Err(("fencing", format!("{entry:?} is of process {by}, and {:?} has the job", self.owner)))
            }
            Entry::Ended { .. } => {
                self.ended = true;
                self.finished(shared)
            }
            Entry::Checkpoint { epoch, .. } if epoch <= self.newest_checkpoint => {
                Err(("commit", format!("{epoch} is committed after {}", self.newest_checkpoint)))
            }
            Entry::Checkpoint { incarnation, epoch, manifest, .. } => {
                self.newest_checkpoint = epoch;
                self.checkpoints += 1;
                self.committed.insert((incarnation, epoch), (self.checkpoints, by));
                self.checkpoint(&manifest, name, shared)
            }
        }
    }

    fn checkpoint(&mut self, blob: &Blob, entry: &str, shared: &Shared) -> Checked {
        let store = Store::new(shared.lock().objects.clone(), "the truth");
        let broken = |error: Error| ("commit", error.to_string());
        let manifest = store.get_blob(blob).and_then(|content| decode_manifest(&content)).map_err(broken)?;
        let tasks: BTreeSet<TaskId> = manifest.tasks.iter().map(|task| task.task).collect();
        let plans = self.began.get(&manifest.incarnation).and_then(|process| self.tasks.get(process));
        let is_one = plans.is_some_and(|plans| plans.contains(&tasks));
        let ran = self.ran.entry(manifest.incarnation).or_insert_with(|| tasks.clone());
        if !is_one || *ran != tasks || tasks.len() != manifest.tasks.len() {
            return Err(("commit", format!("the checkpoint of {} is not of every task once", manifest.epoch)));
        }
        let objects = manifest.names().chain([blob.name.clone()]).collect();
        let (number, epoch, entry) = (self.checkpoints, manifest.epoch, entry.to_owned());
        let newest = Committed { number, epoch, entry, objects };
        self.newest_two[1] = self.newest_two[0].replace(newest);
        self.hold(&store, &manifest)?;
        self.seen.add("updated results", u64::from(self.takes_back));
        let mut positions = Positions::new();
        for (partition, position) in manifest.tasks.iter().flat_map(|t| &t.source).flat_map(|s| &s.positions) {
            if positions.insert(partition.clone(), position.clone()).is_some() {
                return Err(("commit", format!("{partition} has two positions at {}", manifest.epoch)));
            }
        }
        self.compare(&positions, &format!("{} of incarnation {}", manifest.epoch, manifest.incarnation.0))
    }

    /// Every file is whole; the checkpoint contains what sinks have prepared from now on.
    fn hold(&mut self, store: &Store, manifest: &Manifest) -> Checked {
        let broken = |error: Error| ("commit", error.to_string());
        for task in &manifest.tasks {
            for file in task.operators.iter().flat_map(|operator| &operator.files) {
                store.get_blob(&file.blob).map_err(broken)?;
            }
            let rows = task.sink.iter().flat_map(|sink| sink.prepared.iter().map(|p| (format!("{}", sink.number), p)));
            let aside = task.source.iter().flat_map(|source| {
                let dead = source.dead_letters.iter().map(|p| (format!("malformed-{}", source.number), p));
                dead.chain(source.late_rows.iter().map(|p| (format!("late-{}", source.number), p)))
            });
            for (table, part) in rows.chain(aside) {
                let (scope, content) = prepared(&store.get_blob(&part.blob).map_err(broken)?);
                let (expected, name) = (format!("{}-{table}", manifest.job), (scope, part.task, part.epoch));
                if name.0 != expected && !self.held.contains_key(&name) {
                    return Err(("commit", format!("{name:?} was prepared, expected was {expected}")));
                }
                self.takes_back |= content.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"-"));
                let since = self.checkpoints;
                let first = self.held.entry(name.clone()).or_insert_with(|| Held { content: content.clone(), since });
                if first.content != content {
                    return Err(("commit", format!("{name:?} was prepared twice, with different rows")));
                }
            }
        }
        Ok(())
    }

    /// The contents of the checkpoints so far are the results of the inputs up to these positions.
    fn compare(&mut self, positions: &Positions, what: &str) -> Checked {
        let held = self.results(|_| true);
        self.compare_rows(&held, positions, what)
    }

    fn compare_rows(&mut self, held: &Counts, positions: &Positions, what: &str) -> Checked {
        if let Some((row, times)) = held.iter().find(|(_, times)| **times < 0) {
            return Err(("prefix", format!("{what}, at {positions:?}: {row} is there {times} times")));
        }
        let (least, most) = (self.straight(self.bound(positions, false))?, self.straight(self.bound(positions, true))?);
        // What is between results that are updated is neither more nor less than they are.
        if least != most && self.reference.is_updating() {
            return Ok(());
        }
        let more = |a: &Counts, b: &Counts| -> Vec<String> {
            let more = a.iter().filter(|(row, times)| b.get(*row).copied().unwrap_or(0) < **times);
            more.take(5).map(|(row, times)| format!("{row} ({times})")).collect()
        };
        self.seen
            .add("results past an idle partition", u64::from(self.quiet.is_some() && !more(held, &least).is_empty()));
        let (surplus, missing) = (more(held, &most), more(&least, held));
        match surplus.is_empty() && missing.is_empty() {
            true => Ok(()),
            false => {
                Err(("prefix", format!("{what}, at {positions:?}: too much is {surplus:?}, missing is {missing:?}")))
            }
        }
    }

    /// Positions determine event time, with two exceptions. First, of the partitions of a reader that may
    /// end, any may be the one that was closed last and holds event time where it was. Second, a quiet
    /// partition that was read to its last row may or may not be idle: then it may hold event time back or
    /// not, and closed partitions of its table count or not. Results of rows alone have no exceptions.
    fn bound(&self, positions: &Positions, most: bool) -> Positions {
        let mut bound = positions.clone();
        if self.reference.ends {
            return bound;
        }
        for (table, partitions) in self.contents.iter() {
            let names: Vec<String> = (0..partitions.len()).map(|id| partition_name(table, id)).collect();
            let rows = |id: usize| partitions[id].rows.num_rows().to_string();
            let at = |name: &String| positions.get(name).map_or("", String::as_str).to_owned();
            let is_quiet = |id: usize| self.quiet.as_ref() == Some(&names[id]) && at(&names[id]) == rows(id);
            let has_quiet = (0..names.len()).any(is_quiet);
            let closed = |id: usize| matches!(at(&names[id]).as_str(), CLOSED | LAST | END) || is_quiet(id);
            let all_closed = has_quiet && (0..names.len()).all(closed);
            for (id, name) in names.iter().enumerate() {
                let end = match (at(name).as_str(), most) {
                    (LAST, true) => END.to_owned(),
                    (LAST, false) => rows(id),
                    (CLOSED | END, false) if has_quiet => rows(id),
                    (CLOSED, true) if all_closed => END.to_owned(),
                    (_, true) if is_quiet(id) => (if all_closed { END } else { CLOSED }).to_owned(),
                    _ => continue,
                };
                bound.insert(name.clone(), end);
            }
        }
        bound
    }

    /// The rows of a straight run up to these positions.
    fn straight(&mut self, positions: Positions) -> Checked<Counts> {
        if let Some(known) = self.straight.get(&positions) {
            return Ok(known.clone());
        }
        let counts = self.reference.run(&self.contents, &positions);
        let counts = counts.map_err(|error| ("straight", format!("the straight run fails: {error}")))?;
        self.straight.insert(positions, counts.clone());
        Ok(counts)
    }

    /// Sinks of the newest incarnation were opened: the contents of the checkpoints are visible.
    pub(crate) fn restored(&self, shared: &Shared) -> Checked {
        let outside = shared.lock();
        match self.held.keys().find(|name| !outside.visible.contains_key(*name)) {
            None => Ok(()),
            Some(name) => Err(("restore", format!("{name:?} is not visible though its checkpoint was restored"))),
        }
    }

    /// The job has ended.
    pub(crate) fn finished(&mut self, shared: &Shared) -> Checked {
        self.restored(shared)?;
        let ends = self.ends();
        self.compare(&ends, "the end")
    }

    /// A job without checkpoints has reached the end of its tables.
    pub(crate) fn all_written(&mut self, shared: &Shared) -> Checked {
        let mut written = self.base.clone();
        count(shared.lock().written.iter().map(String::as_str), &mut written);
        let ends = self.ends();
        self.compare_rows(&written, &ends, "the end")
    }

    fn ends(&self) -> Positions {
        let names = self
            .contents
            .iter()
            .flat_map(|(table, partitions)| (0..partitions.len()).map(move |id| partition_name(table, id)));
        names.map(|name| (name, END.to_owned())).collect()
    }
}

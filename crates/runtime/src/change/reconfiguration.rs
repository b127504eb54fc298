//! Changes of a job's plan: the fate of each part that keeps something. A running job, a savepoint and a
//! checkpoint are compared with a plan in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use anabranch_dataflow::{JobOptions, KeptPart, Lineage, Matching, PartSpec, Plan, pair};
use anabranch_model::{Epoch, Error, OperatorId, OperatorKind, PlanVersion, Result, StageId, TaskId};
use anabranch_protocol::membership::WorkerId;
use anabranch_state::{Entry, Log, Store, TaskState};

use crate::change::passing::{How, Passing};
use crate::task::event_time::{self, FormerIdentities};

/// A request to run a job with another plan, or at other workers.
#[derive(Clone, Debug)]
pub struct Reconfigure {
    /// The new plan.
    pub plan: Plan,
    /// Requested placement of tasks.
    pub moves: Moves,
    /// State without a place in the plan is dropped. Otherwise such a plan is refused.
    pub allow_lost_state: bool,
    /// Sources may be new, or have another event time, although windows downstream have fired: earlier rows
    /// are late. Otherwise such a plan is refused.
    pub allow_late: bool,
    /// Only reports the fate of each part.
    pub dry_run: bool,
}

/// Chooses the form of a plan in which a job with another plan keeps most of its parts. Some plans have
/// several forms.
pub type Fit = fn(plan: &Plan, present: &Plan) -> Result<Plan>;

/// Requests for the placement of tasks. Other tasks stay where they are, if the plan still has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Tasks of the new plan and their workers.
    pub to: BTreeMap<TaskId, WorkerId>,
    /// Workers that get no task from now on.
    pub away_from: BTreeSet<WorkerId>,
}

/// The result of a reconfiguration, or of a rehearsal.
#[derive(Clone, Debug, PartialEq)]
pub struct Reconfigured {
    /// The version of the plan from here on.
    pub version: PlanVersion,
    /// The version that the next change gets.
    pub next: PlanVersion,
    /// The fate of each part.
    pub changes: Vec<Change>,
    /// The job was not changed: the plan is the same, or this was a rehearsal.
    pub unchanged: bool,
    /// Bytes of state that were loaded for the new version before the tasks of the former one ended.
    pub copied_bytes: u64,
    /// For a rehearsal: what is known in advance.
    pub ahead: Option<Ahead>,
}

/// What is known of a change in advance, besides the fate of each part.
#[derive(Clone, Debug, PartialEq)]
pub struct Ahead {
    /// The plan with which the job would continue.
    pub plan: Arc<Plan>,
    /// The epoch of the checkpoint from which the bytes of the parts were read. `None`: the job has no
    /// checkpoint yet.
    pub epoch: Option<Epoch>,
    /// Whether state would be loaded before the tasks of the present version end. `None`: the placement of
    /// the tasks is not known yet.
    pub loads_ahead: Option<bool>,
}

/// The fate of a part when the plan of a job changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It resumes where it was.
    Kept,
    /// It was not there before.
    New,
    /// The query has no place for its state.
    Lost,
    /// A table that is no longer written.
    Gone,
}

/// The change of one part of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What becomes of it.
    pub fate: Fate,
    /// A description of the part.
    pub what: String,
    /// Which part it is.
    pub part: ChangedPart,
    /// How it gets to the tasks of the new version. `None`: it is not kept, or the tasks are placed only when
    /// they begin.
    pub passing: Option<Passing>,
}

/// A part of a job, before a change and after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangedPart {
    /// Its identity in the job. `None`: a static table, which is not in checkpoints.
    pub id: Option<OperatorId>,
    /// Its stage in the running plan. `None`: it is new, or no plan is running.
    pub stage: Option<StageId>,
    /// Its stage in the new plan. `None`: it is lost or gone.
    pub next_stage: Option<StageId>,
    /// Bytes of its state in the newest checkpoint, each file once. `None`: it has no state, or there is no
    /// checkpoint yet.
    pub bytes: Option<u64>,
}

impl Change {
    fn new(fate: Fate, what: String, id: OperatorId, bytes: Option<u64>) -> Change {
        Change { fate, what, part: ChangedPart { id: Some(id), bytes, ..ChangedPart::default() }, passing: None }
    }

    /// The change of a table that joins read to its end: its rows are kept, or it is read again.
    pub(crate) fn of_static_table(description: &str, (was, is): (Option<StageId>, StageId), stays: bool) -> Change {
        let (fate, what) = match stays {
            true => (Fate::Kept, "is kept as it was read"),
            false => (Fate::New, "is read to its end before rows are processed"),
        };
        let part = ChangedPart { stage: was, next_stage: Some(is), ..ChangedPart::default() };
        let passing = stays.then(|| Passing { how: How::InPlace, loaded_bytes: Some(0), loads: Vec::new() });
        Change { fate, what: format!("static table {description}: {what}"), part, passing }
    }
}

impl Fate {
    /// All of them.
    pub const ALL: [Fate; 4] = [Fate::Kept, Fate::New, Fate::Lost, Fate::Gone];

    /// The name for users.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Fate::Kept => "kept",
            Fate::New => "new",
            Fate::Lost => "lost",
            Fate::Gone => "gone",
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<6}{}", self.fate.name(), self.what)
    }
}

/// The parts of a checkpoint, a savepoint or a running job, the parts of a plan, and which of them
/// correspond.
pub(crate) struct Comparison {
    then: Vec<KeptPart>,
    now: Vec<KeptPart>,
    matching: Matching,
}

/// A part before and after a change, only before it, or only after it, each by its index.
#[derive(Clone, Copy)]
enum PartPair {
    Kept(usize, usize),
    Dropped(usize),
    New(usize),
}

impl Comparison {
    /// Compares former parts with the parts of a plan.
    pub(crate) fn of(then: Vec<KeptPart>, now: Vec<KeptPart>) -> Comparison {
        let matching = pair(&then, &now);
        Comparison { then, now, matching }
    }

    /// The fate of each part. `tasks` are snapshots of the former parts. `late` has the sources that will
    /// have late rows, by their indices in the plan, with the reasons.
    pub(crate) fn changes(&self, tasks: &[&TaskState], late: &BTreeMap<usize, String>) -> Vec<Change> {
        let late = |index: usize| late.get(&index).map(|why| format!("; {why}")).unwrap_or_default();
        let change = |pair: PartPair| match pair {
            PartPair::Kept(then, now) => {
                let (then, what) = (&self.then[then], kept(&self.then[then], &self.now[now], tasks) + &late(now));
                Change::new(Fate::Kept, what, then.id, bytes(then, tasks))
            }
            PartPair::Dropped(then) => self.dropped(then, tasks),
            PartPair::New(now) => {
                let (part, description) = (&self.now[now], &self.now[now].key);
                let what = match part.id.kind {
                    OperatorKind::Source => format!("source {description}: begins where its options say"),
                    OperatorKind::State => format!("state of {description}: begins empty"),
                    OperatorKind::Sink => format!("sink {description}"),
                };
                Change::new(Fate::New, what + &late(now), part.id, None)
            }
        };
        self.pairs().map(change).collect()
    }

    /// The former parts, in their order, then the new ones.
    fn pairs(&self) -> impl Iterator<Item = PartPair> {
        let pairs = &self.matching.pairs;
        let pair = move |then| pairs.get(&then).map_or(PartPair::Dropped(then), |now| PartPair::Kept(then, *now));
        let is_new = move |now: &usize| !pairs.values().any(|taken| taken == now);
        (0..self.then.len()).map(pair).chain((0..self.now.len()).filter(is_new).map(PartPair::New))
    }

    /// The change of a part that has no place in the plan.
    fn dropped(&self, index: usize, tasks: &[&TaskState]) -> Change {
        let (part, is_undecided) = (&self.then[index], self.matching.undecided.contains(&index));
        let (fate, what) = match (part.id.kind, is_undecided) {
            (OperatorKind::Sink, true) => {
                let why = "it matches several sinks of the query, so nothing of it would be kept";
                (Fate::Gone, format!("sink {}: {why}", part.key))
            }
            (OperatorKind::Sink, false) => (Fate::Gone, format!("sink {}: no longer written", part.key)),
            (_, true) => {
                let why = "several identical parts, before or now, cannot be distinguished";
                (Fate::Lost, format!("{}: {why}", describe(part, tasks)))
            }
            (_, false) => (Fate::Lost, format!("{}: the query has no such part", describe(part, tasks))),
        };
        Change::new(fate, what, part.id, bytes(part, tasks))
    }

    /// Adds the stages of the parts in both plans. The new plan carries the identities of the parts that
    /// stay.
    fn place(&self, changes: &mut [Change], present: &Plan, plan: &Plan) {
        let (then, now) = (present.parts(), plan.parts());
        for (change, pair) in changes.iter_mut().zip(self.pairs()) {
            let part = &mut change.part;
            match pair {
                PartPair::Kept(before, after) => {
                    (part.stage, part.next_stage) = (Some(then[before].stage), Some(now[after].stage));
                }
                PartPair::Dropped(before) => part.stage = Some(then[before].stage),
                PartPair::New(after) => (part.id, part.next_stage) = (Some(now[after].id), Some(now[after].stage)),
            }
        }
    }

    /// Descriptions of the sources that will have late rows, with the reasons.
    pub(crate) fn titles(&self, late: &BTreeMap<usize, String>) -> Vec<String> {
        late.iter().map(|(index, why)| format!("source {}: {why}", self.now[*index].key)).collect()
    }

    /// For each identity that the plan gives a part itself, the identity of the corresponding former part.
    pub(crate) fn identities(&self) -> BTreeMap<OperatorId, OperatorId> {
        let id = |(from, to): (&usize, &usize)| (self.now[*to].id, self.then[*from].id);
        self.matching.pairs.iter().map(id).collect()
    }

    /// The plan, in which each part that corresponds to a former one has the identity of the former part. No
    /// identity ever had the number `unused` or a higher one.
    pub(crate) fn carry(&self, plan: &Plan, unused: u32) -> Plan {
        let unused = self.then.iter().map(|part| part.id.number + 1).max().unwrap_or(0).max(unused);
        let mut plan = plan.clone();
        plan.identities.carry(&self.identities(), unused);
        plan
    }
}

fn kept(then: &KeptPart, now: &KeptPart, tasks: &[&TaskState]) -> String {
    let mut text = describe(then, tasks);
    if then.id.kind == OperatorKind::State {
        let (before, after) = (&then.lineage, &now.lineage);
        let tables = |lineage: &Lineage| format!("{} -> {}", lineage.from.join(", "), lineage.to.join(", "));
        let (tables_before, tables_after) = (tables(before), tables(after));
        if tables_before != tables_after {
            text.push_str(&format!(" ({tables_before}, now {tables_after})"));
        }
        if before.differs(after) {
            text.push_str(", continues with a changed query");
        }
    }
    text
}

fn describe(part: &KeptPart, tasks: &[&TaskState]) -> String {
    match part.id.kind {
        OperatorKind::Source => {
            let sources = tasks.iter().filter_map(|task| task.source.as_ref());
            let positions: usize =
                sources.filter(|source| source.number == part.id.number).map(|source| source.positions.len()).sum();
            format!("source {}: positions in {positions} partitions", part.key)
        }
        OperatorKind::State => {
            let operators = tasks.iter().flat_map(|task| &task.operators).filter(|op| op.number == part.id.number);
            let rows: u64 = operators.flat_map(|operator| &operator.files).map(|file| file.rows).sum();
            format!("state of {}: {rows} rows", part.key)
        }
        OperatorKind::Sink => format!("sink {}", part.key),
    }
}

/// Bytes of a part's state, each file once: several tasks may have parts of one.
fn bytes(part: &KeptPart, tasks: &[&TaskState]) -> Option<u64> {
    if part.id.kind != OperatorKind::State || tasks.is_empty() {
        return None;
    }
    let operators = tasks.iter().flat_map(|task| &task.operators).filter(|op| op.number == part.id.number);
    let files = operators.flat_map(|operator| &operator.files).map(|file| (&file.blob.name, file.blob.bytes));
    Some(files.collect::<BTreeMap<_, _>>().into_values().sum())
}

/// Compares a running job with another plan, which gets the identities of the parts that stay. `newest` has
/// the snapshots of the job's newest checkpoint.
pub(crate) fn compare(present: &Plan, plan: &Plan, newest: &[&TaskState]) -> Result<Compared> {
    if present.key_groups != plan.key_groups {
        let (then, now) = (present.key_groups.0, plan.key_groups.0);
        let error = Error::user(format!(
            "the job has {then} key groups, and would have {now} by the new text: their number cannot change"
        ));
        return Err(error.remedy(format!(
            "SET 'max-parallelism' = '{then}'; or start a new job with another 'checkpoint-directory'"
        )));
    }
    check_options(&present.options, &plan.options)?;
    let comparison = Comparison::of(present.kept_parts(), plan.kept_parts());
    let mut plan = comparison.carry(plan, present.identities.unused());
    plan.options.job_name.clone_from(&present.options.job_name);
    plan.version = present.version;
    let late = event_time::late_sources(&plan, &event_times(present)?, newest)?;
    let mut changes = comparison.changes(newest, &late);
    comparison.place(&mut changes, present, &plan);
    let late = comparison.titles(&late);
    Ok(Compared { changes, plan, late })
}

/// A running job, compared with another plan.
pub(crate) struct Compared {
    pub(crate) changes: Vec<Change>,
    /// The new plan, with the identities of the parts that stay.
    pub(crate) plan: Plan,
    /// Sources that will have late rows, with the reasons.
    pub(crate) late: Vec<String>,
}

/// The identities of event time of the sources of a running plan.
fn event_times(plan: &Plan) -> Result<FormerIdentities> {
    let source = |part: anabranch_dataflow::Part<'_>| match part.spec {
        PartSpec::Source(source) => Some(event_time::identity(source).map(|identity| (part.id, identity))),
        _ => None,
    };
    plan.parts().into_iter().filter_map(source).collect()
}

/// The plan version of the last completed change of the job with these checkpoints: the highest version of a
/// checkpoint in its log. `None`: it has no checkpoint.
pub fn settled_version(store: &Store) -> Result<Option<PlanVersion>> {
    let entries = Log::new(store.clone()).entries()?;
    let version = |(_, entry): (u64, Result<Entry>)| match entry {
        Ok(entry @ Entry::Checkpoint { .. }) => Some(entry.version()),
        _ => None,
    };
    Ok(entries.into_iter().filter_map(version).max())
}

/// Refuses changes of options that the coordinator keeps for the whole life of its job in a process.
fn check_options(present: &JobOptions, wanted: &JobOptions) -> Result<()> {
    let (was, is) = (&present.checkpoints, &wanted.checkpoints);
    let place = |options: &JobOptions| options.checkpoints.as_ref().map(|checkpoints| checkpoints.directory.clone());
    let fixed = [
        ("checkpoint-directory", place(present) == place(wanted)),
        ("checkpoint-interval, checkpoint-timeout or checkpoint-restart-attempts", was == is),
        ("epoch-interval", present.epoch_interval == wanted.epoch_interval),
        ("group-epochs or coordination-percent", present.group == wanted.group),
    ];
    match fixed.into_iter().find(|(_, same)| !same) {
        None => Ok(()),
        Some((name, _)) => {
            Err(Error::user(format!("the new text changes {name}, which cannot change while a job runs"))
                .remedy("keep the value; or stop the job, and start it again with the new text"))
        }
    }
}

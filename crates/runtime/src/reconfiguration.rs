//! Changes of a job's plan: what becomes of each part that keeps something. A running job, a savepoint and a checkpoint are
//! compared with a plan in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anabranch_dataflow::{JobOptions, PartSpec, Plan};
use anabranch_model::{Error, OperatorId, OperatorKind, PlanVersion, Result, TaskId};
use anabranch_protocol::membership::WorkerId;
use anabranch_state::{Entry, Lineage, Log, Store, TaskState};

use crate::event_time::{self, Before};
use crate::matching::{Matching, pair};
use crate::outline::{Part, differ, former, outline};
use crate::own_sources::as_before;

/// A request: a running job goes on by another plan, or elsewhere.
#[derive(Clone, Debug)]
pub struct Reconfigure {
    /// The new plan.
    pub plan: Plan,
    /// Where tasks are to be, and where not.
    pub moves: Moves,
    /// State for which the plan has no place is dropped. Otherwise such a plan is refused.
    pub allow_lost_state: bool,
    /// Sources may be new, or have another event time, though windows behind them have fired: earlier rows are late. Otherwise such a plan
    /// is refused.
    pub allow_late: bool,
    /// Only says what would become of each part.
    pub dry_run: bool,
}

/// Requests for the placement of tasks. The other tasks stay where they are, as far as the plan has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Tasks of the new plan and their workers.
    pub to: BTreeMap<TaskId, WorkerId>,
    /// Workers that get no task from now on.
    pub away_from: BTreeSet<WorkerId>,
}

/// What a reconfiguration has done, or would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reconfigured {
    /// The version of the plan from here on.
    pub version: PlanVersion,
    /// The version that the next change gets.
    pub next: PlanVersion,
    /// What becomes of each part.
    pub changes: Vec<Change>,
    /// The job is as it was: the plan is the same, or this was a rehearsal.
    pub unchanged: bool,
    /// Bytes of state that were loaded where the new version needs them, before the tasks of the former one ended.
    pub copied_bytes: u64,
}

/// What happens to a part when a job goes on by another plan.
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

/// What happens to one part of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What becomes of it.
    pub fate: Fate,
    /// What it is.
    pub what: String,
}

impl Fate {
    /// As users read it.
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

/// The parts of a checkpoint, a savepoint or a running job, those of a plan, and which of them are the same.
pub(crate) struct Comparison {
    then: Vec<Part>,
    now: Vec<Part>,
    matching: Matching,
}

impl Comparison {
    /// Also returns the plan with the [sources](as_before) that it goes on with.
    pub(crate) fn new(then: Vec<Part>, plan: &Plan) -> (Comparison, Plan) {
        let plan = as_before(plan, &then);
        (Comparison::of(then, outline(&plan)), plan)
    }

    /// Of the parts of a plan.
    pub(crate) fn of(mut then: Vec<Part>, now: Vec<Part>) -> Comparison {
        former::convert(&mut then, &now);
        let matching = pair(&then, &now);
        Comparison { then, now, matching }
    }

    /// What becomes of each part. `tasks` are snapshots of the parts before; `late` says why rows of a source may only be late, by its place
    /// in the plan.
    pub(crate) fn changes(&self, tasks: &[&TaskState], late: &BTreeMap<usize, String>) -> Vec<Change> {
        let Comparison { then, now, matching } = self;
        let late = |place: usize| late.get(&place).map(|why| format!("; {why}")).unwrap_or_default();
        let mut changes = Vec::new();
        for (index, part) in then.iter().enumerate() {
            changes.push(match matching.pairs.get(&index) {
                Some(to) => Change { fate: Fate::Kept, what: kept(part, &now[*to], tasks) + &late(*to) },
                None if part.id.kind == OperatorKind::Sink => {
                    let why = match matching.undecided.contains(&index) {
                        true => "it matches several sinks of the query, so nothing of it would be kept",
                        false => "no longer written",
                    };
                    Change { fate: Fate::Gone, what: format!("sink {}: {why}", part.shown()) }
                }
                None => {
                    let why = match matching.undecided.contains(&index) {
                        true => ": several identical parts, before or now, cannot be distinguished",
                        false => ": the query has no such part",
                    };
                    Change { fate: Fate::Lost, what: format!("{}{why}", describe(part, tasks)) }
                }
            });
        }
        for (index, part) in now.iter().enumerate() {
            if !matching.pairs.values().any(|taken| *taken == index) {
                let description = part.shown();
                let what = match part.id.kind {
                    OperatorKind::Source => format!("source {description}: begins where its options say"),
                    OperatorKind::State => format!("state of {description}: begins empty"),
                    OperatorKind::Sink => format!("sink {description}"),
                };
                changes.push(Change { fate: Fate::New, what: what + &late(index) });
            }
        }
        changes
    }

    /// The sources whose rows may only be late, with the reasons.
    pub(crate) fn titles(&self, late: &BTreeMap<usize, String>) -> Vec<String> {
        late.iter().map(|(place, why)| format!("source {}: {why}", self.now[*place].shown())).collect()
    }

    /// The identities that the plan's parts have in what is before it, by those that the plan has of itself.
    pub(crate) fn identities(&self) -> BTreeMap<OperatorId, OperatorId> {
        let id = |(from, to): (&usize, &usize)| (self.now[*to].id, self.then[*from].id);
        self.matching.pairs.iter().map(id).collect()
    }

    /// The plan, with the identities of what is before it for the parts that are in it. No identity ever had the number `unused`
    /// or a higher one.
    pub(crate) fn carry(&self, plan: &Plan, unused: u32) -> Plan {
        let unused = self.then.iter().map(|part| part.id.number + 1).max().unwrap_or(0).max(unused);
        let mut plan = plan.clone();
        plan.identities.carry(&self.identities(), unused);
        plan
    }
}

fn kept(then: &Part, now: &Part, tasks: &[&TaskState]) -> String {
    let mut text = describe(then, tasks);
    if let (OperatorKind::State, Some(before), Some(after)) = (then.id.kind, &then.lineage, &now.lineage) {
        let tables = |lineage: &Lineage| format!("{} -> {}", lineage.from.join(", "), lineage.to.join(", "));
        let (tables_before, tables_after) = (tables(before), tables(after));
        if tables_before != tables_after {
            text.push_str(&format!(" ({tables_before}, now {tables_after})"));
        }
        if differ(&before.how, &after.how) {
            text.push_str(", continues with a changed query");
        }
    }
    text
}

fn describe(part: &Part, tasks: &[&TaskState]) -> String {
    match part.id.kind {
        OperatorKind::Source => {
            let sources = tasks.iter().filter_map(|task| task.source.as_ref());
            let positions: usize =
                sources.filter(|source| source.number == part.id.number).map(|source| source.positions.len()).sum();
            format!("source {}: positions in {positions} partitions", part.shown())
        }
        OperatorKind::State => {
            let operators = tasks.iter().flat_map(|task| &task.operators).filter(|op| op.number == part.id.number);
            let rows: u64 = operators.flat_map(|operator| &operator.files).map(|file| file.rows).sum();
            format!("state of {}: {rows} rows", part.shown())
        }
        OperatorKind::Sink => format!("sink {}", part.shown()),
    }
}

/// What becomes of a running job by another plan, which gets the identities of the parts that stay. `newest` has the snapshots
/// of its newest checkpoint.
pub(crate) fn compare(present: &Plan, plan: &Plan, newest: &[&TaskState]) -> Result<Compared> {
    if present.key_groups != plan.key_groups {
        let (then, now) = (present.key_groups.0, plan.key_groups.0);
        let error = Error::user(format!("the job has {then} key groups, and is to have {now}: their number is fixed"));
        return Err(error.remedy(format!(
            "SET 'max-parallelism' = '{then}'; or start a new job with a place of its own for checkpoints"
        )));
    }
    check_options(&present.options, &plan.options)?;
    let (comparison, plan) = Comparison::new(outline(present), plan);
    let mut plan = comparison.carry(&plan, present.identities.unused());
    plan.options.job_name.clone_from(&present.options.job_name);
    plan.version = present.version;
    let late = event_time::late(&plan, &event_times(present)?, newest)?;
    let changes = comparison.changes(newest, &late);
    let late = comparison.titles(&late);
    Ok(Compared { changes, plan, late })
}

/// What would become of a running job.
pub(crate) struct Compared {
    pub(crate) changes: Vec<Change>,
    /// The new plan, with the identities of the parts that stay.
    pub(crate) plan: Plan,
    /// Sources whose rows may only be late, with the reason.
    pub(crate) late: Vec<String>,
}

/// Event time of the sources of a plan that runs.
fn event_times(plan: &Plan) -> Result<Before> {
    let source = |part: anabranch_dataflow::Part<'_>| match part.spec {
        PartSpec::Source(source) => Some(event_time::identity(source).map(|identity| (part.id, identity))),
        _ => None,
    };
    plan.parts().into_iter().filter_map(source).collect()
}

/// The version of the newest checkpoint of the job whose checkpoints are there: the last change that is settled.
pub fn settled_version(store: &Store) -> Result<Option<PlanVersion>> {
    let entries = Log::new(store.clone()).entries()?;
    let version = |(_, entry): (u64, Result<Entry>)| match entry {
        Ok(entry @ Entry::Checkpoint { .. }) => Some(entry.version()),
        _ => None,
    };
    Ok(entries.into_iter().filter_map(version).max())
}

/// The coordinator has these options for the whole life of its job in a process.
fn check_options(present: &JobOptions, wanted: &JobOptions) -> Result<()> {
    let (was, is) = (&present.checkpoints, &wanted.checkpoints);
    let place = |options: &JobOptions| options.checkpoints.as_ref().map(|of| of.directory.clone());
    let fixed = [
        ("checkpoint-directory", place(present) == place(wanted)),
        ("checkpoint-interval, checkpoint-timeout or checkpoint-restart-attempts", was == is),
        ("epoch-interval", present.epoch_interval == wanted.epoch_interval),
        ("group-epochs or coordination-percent", present.group == wanted.group),
    ];
    match fixed.into_iter().find(|(_, same)| !same) {
        None => Ok(()),
        Some((name, _)) => Err(Error::user(format!("the new text changes {name}, which stays while a job runs"))
            .remedy("keep the value; or stop the job, and start it again with the new text")),
    }
}

//! Moves key groups by the load of their stage: measurement, decision, and the answer to clients. The
//! decision becomes the option `stage-key-groups`, so it is an ordinary change of the job's options.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::{ExchangeKind, Plan, Stage};
use anabranch_model::{Clock as _, Error, KeyGroupRange, StageId, SystemClock, TaskMetrics};
use anabranch_plan::share_setting;
use anabranch_protocol::balance::{Balance, Verdict, balance};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answers::Api;
use super::jobs::{Reading, Refusal, ServedJob, no_job};

/// Pause between two looks at whether the process ends.
const LOOK: Duration = Duration::from_millis(100);
/// For how long a job may not be ready.
const READY_MAX: Duration = Duration::from_secs(5);
/// Name of the option.
pub(super) const OPTION: &str = "stage-key-groups";

/// Key groups of hot tasks go to other tasks of their stage, by a load that is measured first. Nothing else
/// can be changed with it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BalanceOrder {
    /// For how long the load is measured, at most 600 s.
    pub seconds: f64,
    /// Only this stage of the present plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<u32>,
}

impl Default for BalanceOrder {
    fn default() -> Self {
        BalanceOrder { seconds: 10.0, stage: None }
    }
}

/// The load of the stages whose tasks own keys, and the decisions that follow from it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Balance")]
pub(super) struct BalanceDocument {
    /// For how long the load was measured.
    seconds: f64,
    stages: Vec<BalancedStage>,
}

/// The decision for a stage.
#[derive(Debug, Serialize, JsonSchema)]
struct BalancedStage {
    stage: u32,
    name: String,
    verdict: StageVerdict,
    tasks: Vec<BalancedTask>,
    moved: Vec<MovedKeyGroups>,
    /// Key groups with more rows than the mean of the tasks. A key group is not divided.
    hot: Vec<HotKeyGroup>,
}

/// Whether a stage gets other key groups.
#[derive(Debug, Serialize, JsonSchema)]
enum StageVerdict {
    #[serde(rename = "moves")]
    Moves,
    #[serde(rename = "one task")]
    OneTask,
    #[serde(rename = "too few rows")]
    TooFewRows,
    #[serde(rename = "even")]
    Even,
    #[serde(rename = "no better")]
    NoBetter,
}

/// A task before and after.
#[derive(Debug, Serialize, JsonSchema)]
struct BalancedTask {
    task: u32,
    before: KeyGroupShare,
    after: KeyGroupShare,
}

/// Consecutive key groups of a task, and their load.
#[derive(Debug, Serialize, JsonSchema)]
struct KeyGroupShare {
    first: u16,
    /// The key group after the last one.
    end: u16,
    rows_per_second: f64,
}

/// Consecutive key groups that get another task.
#[derive(Debug, Serialize, JsonSchema)]
struct MovedKeyGroups {
    first: u16,
    /// The key group after the last one.
    end: u16,
    from: u32,
    to: u32,
}

/// A key group with more rows than the mean of the tasks.
#[derive(Debug, Serialize, JsonSchema)]
struct HotKeyGroup {
    key_group: u16,
    rows_per_second: f64,
}

/// The measurement, and the new value of the option; `None` if it does not change.
pub(super) struct Measured {
    pub(super) document: BalanceDocument,
    pub(super) setting: Option<String>,
}

/// A job at one moment.
struct Counted {
    reading: Reading,
    stages: BTreeMap<StageId, Vec<u64>>,
}

impl Counted {
    fn of(job: &dyn ServedJob) -> Counted {
        Counted { stages: job.key_groups(), reading: job.reading() }
    }

    fn task(&self, stage: &Stage, index: u32) -> Option<&TaskMetrics> {
        let tasks = self.reading.tasks.iter().map(|task| &task.metrics);
        tasks.into_iter().find(|metrics| (metrics.task.stage, metrics.task.index) == (stage.id, index))
    }
}

/// Measures the load of a job's key groups, and decides. Waits as long as the order says.
pub(super) fn measure(api: &Api, name: &str, order: &BalanceOrder) -> Result<Measured, Refusal> {
    let job = api.jobs.jobs().into_iter().find(|job| job.name() == name);
    let job = job.ok_or_else(|| Refusal::Unknown(no_job(name)))?;
    if !(order.seconds > 0.0 && order.seconds <= 600.0) {
        let error = Error::user(format!("the load cannot be measured for {} s", order.seconds));
        return Err(Refusal::Wrong(error.remedy("give more than 0 s, and at most 600 s")));
    }
    let plan = job.plan();
    let stages = stages(&plan, order.stage).map_err(Refusal::Wrong)?;
    let clock = SystemClock::new();
    // Readings of tasks that have just begun, or were adopted, are on their way.
    let patience = clock.now().plus(READY_MAX);
    while !job.reading().is_ready() && clock.now() < patience {
        anabranch_model::pause(LOOK);
    }
    if !job.reading().is_ready() {
        let error = Error::user(format!("the job '{name}' does not run yet, so its load is not known"));
        return Err(Refusal::Conflict(error.remedy("wait until anabranch jobs shows it as running")));
    }
    let start = clock.now();
    let before = Counted::of(job.as_ref());
    let until = start.plus(Duration::from_secs_f64(order.seconds));
    while clock.now() < until {
        if api.is_closing.wait(until.after(clock.now())) {
            api.refuses_changes()?;
        }
    }
    let after = Counted::of(job.as_ref());
    let incarnation = |counted: &Counted| counted.reading.status.incarnation;
    if incarnation(&before) != incarnation(&after) || !after.reading.is_ready() {
        let error = Error::outside(format!("the job '{name}' was changed or restarted while its load was measured"));
        return Err(Refusal::Conflict(error.remedy("balance it again")));
    }
    let seconds = clock.now().since(start) as f64 / 1e9;
    Ok(decided(&plan, &stages, (&before, &after), seconds))
}

/// The stages whose tasks divide rows by their keys.
fn stages(plan: &Arc<Plan>, only: Option<u32>) -> Result<Vec<&Stage>, Error> {
    let by_key = |kind: &ExchangeKind| matches!(kind, ExchangeKind::Hash { keys } if !keys.is_empty());
    let is_keyed = |stage: &&Stage| stage.label.is_some() && plan.inputs(stage.id).any(|input| by_key(&input.kind));
    let found: Vec<&Stage> = plan.stages.iter().filter(is_keyed).collect();
    let names: Vec<String> = found.iter().map(|stage| format!("{} ({})", stage.id.0, stage.name)).collect();
    let remedy = match names.is_empty() {
        true => "no stage of the job divides rows by key among tasks".to_owned(),
        false => format!("such stages are: {}", names.join(", ")),
    };
    match only {
        None if found.is_empty() => Err(Error::user("the job has no stage whose tasks own keys").remedy(remedy)),
        None => Ok(found),
        Some(number) => match found.into_iter().find(|stage| stage.id.0 == number) {
            Some(stage) => Ok(vec![stage]),
            None => Err(Error::user(format!("stage {number} has no tasks that own keys")).remedy(remedy)),
        },
    }
}

fn decided(plan: &Plan, stages: &[&Stage], (before, after): (&Counted, &Counted), seconds: f64) -> Measured {
    let mut shares = plan.options.stage_key_groups.clone();
    let (mut documents, mut moves) = (Vec::new(), false);
    for stage in stages {
        let none = vec![0; usize::from(plan.key_groups.0)];
        let rows = |counted: &Counted| counted.stages.get(&stage.id).cloned().unwrap_or_else(|| none.clone());
        let rows = rows(after).iter().zip(rows(before)).map(|(after, before)| after.saturating_sub(before)).collect();
        let rows: Vec<u64> = rows;
        let present = plan.assignment.of(stage.id);
        let balance = balance(&rows, present);
        if let (Verdict::Moves, Some(label)) = (balance.verdict, &stage.label) {
            let sizes = balance.ranges.iter().map(|range| range.end - range.first).collect();
            shares.insert(label.clone(), sizes);
            moves = true;
        }
        let arrived: f64 = (0..stage.parallelism).map(|index| rate(stage, index, before, after)).sum();
        // Of large batches only some are counted.
        let counted = rows.iter().sum::<u64>().max(1) as f64;
        documents.push(document(stage, present, &balance, arrived / counted));
    }
    let setting = moves.then(|| share_setting(&shares));
    Measured { document: BalanceDocument { seconds, stages: documents }, setting }
}

/// The rows that reach a task per second. A worker reads counters by its own clock, and less often while they
/// stand still.
fn rate(stage: &Stage, index: u32, before: &Counted, after: &Counted) -> f64 {
    let (Some(before), Some(after)) = (before.task(stage, index), after.task(stage, index)) else { return 0.0 };
    match after.at.since(before.at) {
        0 => 0.0,
        passed_ns => after.rows_in.saturating_sub(before.rows_in) as f64 * 1e9 / passed_ns as f64,
    }
}

/// `scale` is how many rows per second a row that was counted stands for.
fn document(stage: &Stage, present: &[KeyGroupRange], balance: &Balance, scale: f64) -> BalancedStage {
    let per_second = |rows: u64| (rows as f64 * scale).round();
    let share = |range: &KeyGroupRange, rows: u64| {
        let KeyGroupRange { first, end } = *range;
        KeyGroupShare { first, end, rows_per_second: per_second(rows) }
    };
    let before = present.iter().zip(&balance.before).map(|(range, rows)| share(range, *rows));
    let after = balance.ranges.iter().zip(&balance.after).map(|(range, rows)| share(range, *rows));
    let tasks = (0..).zip(before.zip(after)).map(|(task, (before, after))| BalancedTask { task, before, after });
    let moved = balance.moved.iter().map(|of| {
        let (KeyGroupRange { first, end }, from, to) = (of.groups, of.from, of.to);
        MovedKeyGroups { first, end, from, to }
    });
    let hot =
        balance.hot.iter().map(|(group, rows)| HotKeyGroup { key_group: *group, rows_per_second: per_second(*rows) });
    BalancedStage {
        stage: stage.id.0,
        name: stage.name.clone(),
        verdict: match balance.verdict {
            Verdict::Moves => StageVerdict::Moves,
            Verdict::OneTask => StageVerdict::OneTask,
            Verdict::TooFewRows => StageVerdict::TooFewRows,
            Verdict::Even => StageVerdict::Even,
            Verdict::NoBetter => StageVerdict::NoBetter,
        },
        tasks: tasks.collect(),
        moved: moved.collect(),
        hot: hot.collect(),
    }
}

//! Where work piles up: stages that are busy, tables outside that are slow.

use std::time::Duration;

use anabranch_dataflow::{Exchange, ExchangeKind, Stage};
use anabranch_model::{StageId, TaskMetrics};

use super::{Finding, Look, Verdict};
use crate::http::{BalanceOrder, ReconfigureOrder};

/// A batch that has waited for this time in the input of a stage shows that the stage is behind.
const BEHIND_AFTER: Duration = Duration::from_secs(1);
/// A stage that waits for room for this part of its time is held up.
const HELD_UP: f64 = 0.3;
/// A task that works for this part of its time is busy.
const BUSY: f64 = 0.7;
/// A call to an outside table that takes this long is slow.
const SLOW_CALL_MS: f64 = 500.0;

/// How the tasks of a stage spend their time.
struct Load {
    stage: StageId,
    tasks: u32,
    /// Means over the tasks.
    busy: f64,
    backpressured: f64,
    /// The task that works most.
    busiest: f64,
    busiest_task: u32,
    /// Where rows wait, and for how long.
    oldest: Duration,
}

fn load(look: &Look<'_>, stage: StageId) -> Option<Load> {
    let mut load =
        Load { stage, tasks: 0, busy: 0.0, backpressured: 0.0, busiest: 0.0, busiest_task: 0, oldest: Duration::ZERO };
    for task in look.tasks_of(stage) {
        let shares = look.rate(task).shares?;
        load.tasks += 1;
        load.busy += shares.busy;
        load.backpressured += shares.backpressured;
        if shares.busy > load.busiest {
            (load.busiest, load.busiest_task) = (shares.busy, task.task.index);
        }
        load.oldest = load.oldest.max(Duration::from_nanos(task.oldest_queued_ns));
    }
    let tasks = f64::from(load.tasks.max(1));
    (load.busy, load.backpressured) = (load.busy / tasks, load.backpressured / tasks);
    Some(load)
}

/// The stage that is the cause of back-pressure: it has room downstream, works all the time, and those before
/// it wait for it.
pub(super) fn bottleneck(look: &Look<'_>) -> Option<Finding> {
    let loads: Vec<Load> = look.plan.stages.iter().filter_map(|stage| load(look, stage.id)).collect();
    let of = |id: StageId| loads.iter().find(|load| load.stage == id);
    let holds_up = |load: &&Load| {
        let before = look.plan.exchanges.iter().filter(|exchange| exchange.to == load.stage);
        let waits = before.filter_map(|exchange| of(exchange.from)).any(|before| before.backpressured >= HELD_UP);
        waits && load.backpressured < HELD_UP && load.busiest >= BUSY / 2.0
    };
    // The last one in the order of the stages: the stages behind it have room.
    if let Some(load) = loads.iter().rev().find(holds_up) {
        return Some(finding(look, load));
    }
    let reads = |load: &&Load| {
        let is_source = look.stage(load.stage).is_some_and(|stage| stage.source.is_some());
        let lag = look.tasks_of(load.stage).filter_map(|task| task.lag_rows).sum::<u64>();
        let rate: f64 = look.tasks_of(load.stage).map(|task| look.rate(task).rows_in).sum();
        // The backlog is more than arrives within seconds.
        is_source && load.busiest >= BUSY && lag as f64 > rate * 5.0 && lag > 0
    };
    let load = loads.iter().find(reads)?;
    let lag: u64 = look.tasks_of(load.stage).filter_map(|task| task.lag_rows).sum();
    let text = format!(
        "'{}' is behind its table by {lag} rows, and works {:.0} % of its time",
        look.name(load.stage),
        load.busiest * 100.0
    );
    Some(scaled(look, load, Finding::new(Verdict::SourceBehind, text).at(load.stage)))
}

fn finding(look: &Look<'_>, load: &Load) -> Finding {
    let name = look.name(load.stage);
    let others = (load.busy * f64::from(load.tasks) - load.busiest) / f64::from(load.tasks.max(2) - 1);
    let is_keyed = |exchange: &Exchange| {
        exchange.to == load.stage && matches!(&exchange.kind, ExchangeKind::Hash { keys } if !keys.is_empty())
    };
    let is_keyed = look.plan.exchanges.iter().any(is_keyed);
    if is_keyed && load.tasks > 1 && load.busiest >= BUSY && others < load.busiest / 2.0 {
        let text = format!(
            "task {} of '{name}' works {:.0} % of its time, and the others {:.0} %: its keys have more rows than those of others",
            load.busiest_task,
            load.busiest * 100.0,
            others * 100.0
        );
        let order = ReconfigureOrder {
            balance: Some(BalanceOrder { stage: Some(load.stage.0), ..BalanceOrder::default() }),
            ..ReconfigureOrder::default()
        };
        let found = Finding::new(Verdict::Skewed, text).at(load.stage);
        return found.change("divide the key groups among the tasks by their load", order);
    }
    let text = format!(
        "'{name}' holds up the stages before it: it works {:.0} % of its time, and they wait for room",
        load.busiest * 100.0
    );
    scaled(look, load, Finding::new(Verdict::Busy, text).at(load.stage))
}

/// More tasks help, if the stage may have them.
fn scaled(look: &Look<'_>, load: &Load, found: Finding) -> Finding {
    let Some(stage) = look.stage(load.stage) else { return found };
    let tasks = load.tasks * 2;
    let may_have = stage.label.is_some() && stage.tasks_max.is_none_or(|most| tasks <= most);
    if !may_have {
        return found.advice("this stage cannot have more tasks: let it do less, or let fewer rows reach it");
    }
    let order = ReconfigureOrder {
        stage: Some(load.stage.0),
        parallelism: std::num::NonZeroU32::new(tasks),
        ..ReconfigureOrder::default()
    };
    found.change(format!("give it {tasks} tasks in place of {}, if cores are free", load.tasks), order)
}

/// A stage whose input waits, although its tasks do not seem busy all the time.
pub(super) fn behind(look: &Look<'_>) -> Option<Finding> {
    let sources = look.tasks().filter(|task| task.progress.is_some()).map(|task| task.watermark).min()?;
    let is_slow = |task: &&TaskMetrics| !task.is_source && task.queue_bytes > 0 && task.watermark < sources;
    let slowest = look.tasks().filter(is_slow).max_by_key(|task| task.oldest_queued_ns)?;
    if Duration::from_nanos(slowest.oldest_queued_ns) < BEHIND_AFTER {
        return None;
    }
    let (name, batches) = (&slowest.stage_name, slowest.queue_batches);
    let batches = if batches == 1 { "1 batch waits".to_owned() } else { format!("{batches} batches wait") };
    let text = format!("'{name}' holds event time back: {batches} in its input; see how busy the stages are");
    Some(Finding::new(Verdict::Busy, text).at(slowest.task.stage))
}

/// A table outside that answers slowly, or not at all.
pub(super) fn lookups(look: &Look<'_>) -> Option<Finding> {
    let asks = |stage: &&Stage| look.tasks_of(stage.id).any(|task| task.lookups.is_some());
    look.plan.stages.iter().filter(asks).find_map(|stage| lookups_of(look, stage))
}

fn lookups_of(look: &Look<'_>, stage: &Stage) -> Option<Finding> {
    let (mut calls, mut failures, mut ms) = (0.0, 0.0, 0.0);
    let name = &stage.name;
    for task in look.tasks_of(stage.id) {
        let rate = look.rate(task);
        let shares = rate.shares?;
        (calls, failures, ms) = (calls + rate.calls, failures + rate.failed_calls, ms + rate.call_ms);
        // Keys that no cache has, or rows that are not taken since all calls are under way.
        let stands = task.queue_rows > 0 && rate.rows_in == 0.0;
        let asked = rate.misses > 0.0 || stands && Duration::from_nanos(task.oldest_queued_ns) >= BEHIND_AFTER;
        let gives_nothing = rate.calls == 0.0 && rate.rows_out == 0.0 && shares.backpressured < HELD_UP;
        if asked && gives_nothing && !look.is_young() {
            let text = format!("the table that '{name}' looks up does not answer: rows come, and no call has ended");
            let found = Finding::new(Verdict::LookupSlow, text).at(stage.id);
            return Some(
                found.behind("table outside", "does not answer").advice("check that it runs, and its address"),
            );
        }
    }
    if calls == 0.0 {
        return None;
    }
    if failures * 2.0 >= calls {
        let text = format!("the table that '{name}' looks up refuses {:.0} % of the calls", failures / calls * 100.0);
        let found = Finding::new(Verdict::LookupSlow, text).at(stage.id).behind("table outside", "refuses calls");
        return Some(found.advice("check its address, and what it says in the job's notices"));
    }
    if ms / calls < SLOW_CALL_MS {
        return None;
    }
    let text = format!("the table that '{name}' looks up takes {:.0} ms for a call", ms / calls);
    let found = Finding::new(Verdict::LookupSlow, text).at(stage.id).behind("table outside", "answers slowly");
    Some(found.advice("a cache asks less often: 'lookup.cache' = 'PARTIAL' for the table"))
}

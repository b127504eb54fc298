//! The number of tasks of a job follows its load: what the tasks have done in an interval becomes a sample
//! for the autoscaler. What that decides is an ordinary change of the job, which the coordinator begins.

use std::time::Duration;

use anabranch_dataflow::{AutoscaleOptions, ExchangeKind, Plan};
use anabranch_model::{Result, StageId, TaskId, TaskMetrics};
use anabranch_protocol::autoscale::{
    Action, Autoscaler, Decision, Edge, Graph, Observation, Sample, Settings, StageLimits, StageSample, TaskSample,
    rehearse as decisions,
};

use crate::http::{Counted, Reading};

/// Decides for one job.
pub(crate) struct JobScaler {
    options: AutoscaleOptions,
    sql: String,
    graph: Graph,
    autoscaler: Autoscaler,
    /// The counters at the beginning of the interval.
    before: Option<Counted>,
}

/// A job at one moment.
pub(crate) struct Observed<'a> {
    pub(crate) reading: &'a Reading,
    pub(crate) plan: &'a Plan,
    pub(crate) sql: &'a str,
    /// Slots of all workers.
    pub(crate) slots: u32,
}

/// What an interval has shown of a job.
pub(crate) struct Decided {
    pub(crate) observation: Observation,
    pub(crate) decision: Decision,
}

impl JobScaler {
    pub(crate) fn new(options: AutoscaleOptions, seen: &Observed<'_>) -> Result<JobScaler> {
        let graph = graph(seen.plan, seen.slots);
        let autoscaler = Autoscaler::new(graph.clone(), settings(&options, u32::from(seen.plan.key_groups.0)))?;
        Ok(JobScaler { options, sql: seen.sql.to_owned(), graph, autoscaler, before: None })
    }

    pub(crate) fn options(&self) -> &AutoscaleOptions {
        &self.options
    }

    /// Takes the counters of a job that runs. At the end of an interval it decides.
    pub(crate) fn observe(&mut self, seen: &Observed<'_>) -> Result<Option<Decided>> {
        let Observed { reading, plan, sql, slots } = seen;
        let graph = graph(plan, *slots);
        let is_other_text = self.sql != *sql;
        if graph != self.graph || is_other_text {
            self.autoscaler.go_on(graph.clone(), reading.at, is_other_text)?;
            (self.graph, self.before) = (graph, None);
            (*sql).clone_into(&mut self.sql);
        }
        // While tasks begin or end, counters mean nothing.
        if !reading.is_ready() {
            self.before = None;
            return Ok(None);
        }
        let now = Counted::of(reading);
        let Some(before) = self.before.take().filter(|before| before.incarnation == now.incarnation) else {
            self.before = Some(now);
            return Ok(None);
        };
        if before.at.plus(self.options.interval) > now.at {
            self.before = Some(before);
            return Ok(None);
        }
        let sample = sample(&self.graph, plan, &before, &now);
        self.before = Some(now);
        let decision = self.autoscaler.observe(&sample);
        Ok(Some(Decided { observation: Observation { graph: self.graph.clone(), sample }, decision }))
    }
}

impl Decided {
    /// The number of tasks that the job is to have, if that is another one.
    pub(crate) fn tasks(&self) -> Option<u32> {
        match &self.decision.action {
            // Stages with fewer may not have as many.
            Action::Change(change) => change.values().copied().max(),
            Action::Stay(_) => None,
        }
    }
}

/// The decisions that these options give for recorded observations: a text for each interval.
///
/// # Errors
/// Options that contradict each other.
pub fn rehearse(options: &AutoscaleOptions, record: &[Observation]) -> Result<Vec<String>> {
    let decided = decisions(&settings(options, u32::from(u16::MAX)), record)?;
    Ok(decided.iter().map(ToString::to_string).collect())
}

fn settings(options: &AutoscaleOptions, key_groups: u32) -> Settings {
    Settings {
        utilization: options.utilization_percent / 100.0,
        threshold: options.threshold_percent / 100.0,
        intervals: options.intervals,
        quiet: options.quiet,
        key_groups,
        tasks_min: options.tasks_min,
        tasks_max: options.tasks_max,
        ..Settings::default()
    }
}

/// The stages of a plan that process rows as long as the job runs.
fn graph(plan: &Plan, slots: u32) -> Graph {
    let mut is_static = vec![false; plan.stages.len()];
    for stage in plan.stages.iter().rev() {
        let mut outputs = plan.outputs(stage.id).peekable();
        is_static[stage.id.0 as usize] =
            outputs.peek().is_some() && outputs.all(|output| output.port.is_side() || is_static[output.to.0 as usize]);
    }
    let counts = |id: StageId| !is_static[id.0 as usize];
    let slots = if slots == 0 { u32::MAX } else { slots };
    let is_named = |label: &String| plan.options.stage_parallelism.contains_key(label);
    let mut is_own = vec![false; plan.stages.len()];
    for stage in &plan.stages {
        // The readers of a source have as many tasks as the source.
        let mut pairs = plan.inputs(stage.id).filter(|input| input.kind == ExchangeKind::Forward);
        let follows = pairs.any(|input| is_own[input.from.0 as usize]);
        is_own[stage.id.0 as usize] = follows || stage.label.as_ref().is_some_and(is_named);
    }
    let stages = plan.stages.iter().filter(|stage| counts(stage.id)).map(|stage| match is_own[stage.id.0 as usize] {
        true => StageLimits { id: stage.id, min: stage.parallelism, max: stage.parallelism },
        false => StageLimits { id: stage.id, min: 1, max: stage.tasks_max.unwrap_or(u32::MAX).min(slots).max(1) },
    });
    let edges = plan.exchanges.iter().filter(|of| !of.port.is_side() && counts(of.from) && counts(of.to));
    let edges = edges.map(|of| Edge { from: of.from, to: of.to, forward: false });
    Graph { stages: stages.collect(), edges: edges.collect(), uniform: true }
}

/// What the tasks have done between two moments.
fn sample(graph: &Graph, plan: &Plan, before: &Counted, now: &Counted) -> Sample {
    let interval_ns = now.at.since(before.at);
    let stages = graph.stages.iter().map(|limits| {
        let stage = plan.stage(limits.id);
        let ids = (0..stage.parallelism).map(|index| TaskId { stage: stage.id, index });
        let both: Vec<_> = ids.filter_map(|task| Some((before.tasks.get(&task)?, now.tasks.get(&task)?))).collect();
        let lag = || both.iter().map(|(_, now)| now.lag_rows).sum();
        let lag_rows = stage.source.as_ref().and_then(|_| lag());
        let tasks = both.iter().map(|(before, now)| task(before, now, interval_ns)).collect();
        (stage.id, StageSample { parallelism: stage.parallelism, tasks, lag_rows })
    });
    let stages = stages.collect();
    Sample { at: now.at, interval: Duration::from_nanos(interval_ns), warming: false, stages }
}

/// What a task has done. A worker reads counters by its own clock, and less often while they stand still, so
/// the time between two readings may differ from the interval.
fn task(before: &TaskMetrics, now: &TaskMetrics, interval_ns: u64) -> TaskSample {
    let read_ns = now.at.since(before.at);
    let scale = if (1..2 * interval_ns).contains(&read_ns) { interval_ns as f64 / read_ns as f64 } else { 1.0 };
    let difference = |before: u64, now: u64| (now.saturating_sub(before) as f64 * scale).round() as u64;
    TaskSample {
        rows_in: difference(before.rows_in, now.rows_in),
        rows_out: difference(before.rows_out, now.rows_out),
        busy_ns: difference(before.busy_ns, now.busy_ns),
        backpressured_ns: difference(before.backpressured_ns, now.backpressured_ns),
    }
}

#[cfg(test)]
mod tests;
